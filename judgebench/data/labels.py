"""Labels in files of their own, as the label page saves them, joined to the texts that they are
about."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from judgebench.data.classes import name_of
from judgebench.data.fields import Rated
from judgebench.data.rows import FileRow, Word, existing, file_rows
from judgebench.runtime.files import user_path
from judgebench.settings.fields import plain
from judgebench.types import Example, Record, Row, Rows, Scale
from judgebench.words.errors import UserError, shown

_HALF = re.compile("[\ud800-\udfff]")
_LARGEST = 2**53
_TABLES = (".csv", ".tsv", ".parquet")
"""Endings of files in which a checksum does not hold, for they write values their own way."""

DIMENSION = "quality"
"""The dimension of labels that name none, of data without one."""

_KINDS = {
    "conflict": "on which raters differ",
    "unclear": "unclear",
    "changed": "of texts that have changed since, not joined",
    "unknown": "of unknown ids, not joined",
    "second_look": "of a second look, not joined",
    "older": "for which the rater gave a newer one",
}
"""Kinds of records in labels.json, with their words behind a count."""


def content_digest(example: Example) -> str:
    """SHA-256 of the texts that a rater saw, white space at their ends left out."""
    texts = (example.source, example.context, example.question, example.output)
    content = json.dumps([text.strip() for text in texts])
    return hashlib.sha256(content.encode()).hexdigest()


def row_checksum(row: Row) -> str:
    """CRC-32 of a row's names and values, eight hexadecimal digits, as the label page writes it in
    `check`.

    Names are in order, with NUL between their entries `name=value`; the values of a list have
    commas between them, and a number counts in billionths, so that it is the same in any language.

    Example:
        >>> row_checksum({"label": 0.5, "unclear": False, "reason": None, "scale": [1, 5]})
        'a9b4ba09'
    """
    content = "\0".join(
        f"{name}={_as_checked(row[name])}" for name in sorted(row) if name != "check"
    )
    return f"{crc32(content.encode()):08x}"


def _as_checked(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_as_checked, value))
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    # the page writes no others
    if isinstance(value, int | float) and abs(value) < _LARGEST:
        return str(math.floor(value * 1e9 + 0.5))
    # half a character is none in UTF-8
    return _HALF.sub("\ufffd", str(value))


def label_files(given: Any) -> list[Path]:
    """The files that the config key `labels` names: one, several with commas, or a list; else
    `UserError`."""
    if given is None:
        return []
    names = plain(given)
    if not isinstance(names, list):
        names = str(names).split(",")
    return [existing(user_path(str(name).strip()), "labels") for name in names]


class _Choices(NamedTuple):
    """A rater's choices: the ends of a scale or classes, worst first, and who says so."""

    kind: str
    entries: tuple[Any, ...]
    place: str

    def __str__(self) -> str:
        if self.kind == "scale":
            worst, best = self.entries
            return f"the scale from {worst:g} to {best:g}, worst first"
        return f"the classes {', '.join(self.entries)}, worst first"


@dataclass(frozen=True)
class Label:
    """One label that one rater gave one text.

    Attributes:
        value: a number, or a `Word` for a class; None where the rater found the text unclear.
        row: the line of its file, with what the page noted besides.
    """

    example_id: str
    dimension: str
    rater: str
    value: float | None
    row: FileRow

    @property
    def again(self) -> bool:
        """True of a text that the page showed the rater a second time."""
        return _is_set(self.row, "repeat")

    @property
    def time(self) -> float | None:
        """When it was given, in seconds; None where its row does not say."""
        with suppress(ValueError, OverflowError):
            given = datetime.fromisoformat(str(self.row.value("time")))
            return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
        return None

    @property
    def choices(self) -> _Choices | None:
        """The choices that its page gave the rater; None where its row does not say. `UserError` of
        what cannot be that."""
        for kind in ("scale", "choices"):
            given = self.row.value(kind)
            if given in (None, "") or isinstance(given, str):
                continue
            entries = tuple(given) if isinstance(given, list) else ()
            if kind == "scale":
                fits = len(entries) == 2 and all(map(_is_number, entries)) and len(set(entries)) > 1
            else:
                fits = len(entries) > 1 and all(isinstance(entry, str) for entry in entries)
            if not fits:
                what = "the worst and the best label, as [1, 5]"
                if kind == "choices":
                    what = 'the classes, worst first, as ["fail", "pass"]'
                raise UserError(
                    f"{self.row.place}: field '{kind}' must be {what}, got {shown(given)}; take the "
                    "file as the page saved it."
                )
            return _Choices(kind, entries, self.row.place)
        return None

    @property
    def name(self) -> str:
        """The label as its rater gave it."""
        return "unclear" if self.value is None else name_of(self.value)

    def record(self, kind: str, **more: Any) -> Record:
        """The label as a record of labels.json."""
        return {
            "kind": kind,
            "example_id": self.example_id,
            "dimension": self.dimension,
            "rater": self.rater,
            "label": self.name,
            "reason": self.row.text("reason") if self.row.has("reason") else "",
            "place": self.row.place,
            **more,
        }


@dataclass
class JoinedLabels:
    """Labels that have been joined to texts.

    Attributes:
        records: of labels.json: labels that need a look, each with its kind, and each text that a
            rater saw twice (`repeat`).
        choices: dimension -> classes, worst first, as the page named them.
        scale: dimension -> ends of the page's scale.
        note: a sentence on all of it; empty where there are no files.
    """

    records: Rows = field(default_factory=list)
    choices: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, Any] = field(default_factory=dict)
    note: str = ""


def join_labels(
    texts: Sequence[Rated],
    files: Sequence[Path],
    scale: Mapping[str, Scale] | Scale | None = None,
    classes: Any = None,
) -> JoinedLabels:
    """Adds the labels of some files to the scores of the texts that they are about; `UserError`
    where none rates any, two of one rater differ and neither is the newer, pages differ in what
    their raters chose from, or a label lies outside that or, of a file without, outside `scale`.

    Of two labels that a rater gave a text the newer counts, and where it was shown again the first
    look; an unclear one leaves it unrated.

    Args:
        scale, classes: as the user gives them for the data; labels of other scales are refused, and
            with `classes` pages may list them in another order.
    """
    joined = JoinedLabels()
    if not files or not texts:
        return joined
    # 1. all labels, first looks and the newest first
    dimensions = {name for text in texts for name in text.scores}
    labels = _labels_of(files, dimensions.pop() if len(dimensions) == 1 else DIMENSION)
    # 2. those about a text as it is now
    by_name = {text.example.example_id: text for text in texts}
    firsts: dict[tuple[str, str, str], Label] = {}
    for label in labels:
        text = by_name.get(label.example_id)
        digest = label.row.value("digest")
        if _is_set(label.row, "second_look"):
            joined.records.append(label.record("second_look"))
        elif text is None:
            joined.records.append(label.record("unknown"))
        elif digest and digest != content_digest(text.example):
            joined.records.append(label.record("changed"))
        else:
            first = firsts.setdefault((label.example_id, label.dimension, label.rater), label)
            if first is not label:
                timed = None not in (label.time, first.time)
                _check_order(first, label)
                if timed and label.again == first.again:
                    joined.records.append(label.record("older", newer=first.name))
                else:
                    joined.records.append(first.record("repeat", again=label.name))
            elif label.value is None:
                joined.records.append(label.record("unclear"))
    rating = [label for label in firsts.values() if label.value is not None]
    if not rating:
        raise UserError(
            f"labels: {', '.join(file.name for file in files)} rate no text of the data, for of "
            f"{len(labels)} labels{_counted(joined.records)}; give labels of these texts, whose "
            f"example_id is as {texts[0].example.example_id!r}."
        )
    # 3. one scale, or one list of classes, for each dimension; then labels become scores
    chosen = _choices_of(rating, scale, classes is not None)
    for name, choices in chosen.items():
        known = joined.scale if choices.kind == "scale" else joined.choices
        known[name] = list(choices.entries)
    for label in rating:
        assert label.value is not None
        given = scale.get(label.dimension) if isinstance(scale, Mapping) else scale
        _check_inside(label, given or joined.scale.get(label.dimension))
        text = by_name[label.example_id]
        own = text.scores.get(label.dimension, {})
        by_rater = {**own, label.rater: label.value, **own}
        text.scores = {**text.scores, label.dimension: by_rater}
    joined.records += _conflicts(texts)
    # 4. what is known of the draw
    joined.note = _note(rating, joined.records)
    probabilities = set(filter(None, map(_probability, rating)))
    if len(probabilities) > 1:
        ends = f"{min(probabilities):.2g} to {max(probabilities):.2g}"
        joined.note += f" They were drawn with probabilities of {ends}, and count alike."
    return joined


def _labels_of(files: Sequence[Path], dimension: str) -> list[Label]:
    """The labels of all files, first looks and the newest first; equal lines of two files are
    one."""
    read: dict[str, Label] = {}
    for file in files:
        for label in read_labels(file, dimension):
            read[f"{label.rater} {label.row.values}"] = label
    return sorted(read.values(), key=lambda label: (label.again, -(label.time or 0.0)))


def _check_order(first: Label, label: Label) -> None:
    """Refuses two labels that one rater gave one text, of which neither is the newer: the order of
    files says nothing."""
    same_look = (label.again, label.time) == (first.again, first.time)
    if same_look and label.name != first.name:
        raise UserError(
            f"{label.row.place}: rater {shown(label.rater)} gives {shown(label.name)} to "
            f"{shown(label.example_id)}, and at {first.row.place} {shown(first.name)}; no time says "
            "which is newer. Leave one of the two out."
        )


def _choices_of(
    labels: Iterable[Label], scale: Mapping[str, Scale] | Scale | None, any_order: bool
) -> dict[str, _Choices]:
    """Dimension -> what all pages let their raters choose from; `UserError` where two differ, or
    one differs from `scale`: 4 of 5 is not 4 of 10. Classes may differ in order only in
    `any_order`."""
    chosen: dict[str, _Choices] = {}
    for label in labels:
        choices = label.choices
        if choices is None:
            continue
        given = scale.get(label.dimension) if isinstance(scale, Mapping) else scale
        first = chosen.setdefault(label.dimension, choices)
        if given is not None and choices.kind == "scale":
            first = _Choices("scale", tuple(given), "data.scale")
        same = first[:2] == choices[:2]
        if any_order and first.kind == choices.kind == "choices":
            same = sorted(first.entries) == sorted(choices.entries)
        if not same:
            advice = ", or give data.classes as they count" if choices.kind == "choices" else ""
            raise UserError(
                f"{choices.place}: its label is on {choices}; {first.place} has {first}. Labels of "
                f"'{label.dimension}' are joined where all have one; leave one of the two "
                f"out{advice}."
            )
    return chosen


def _check_inside(label: Label, ends: Sequence[float] | None) -> None:
    """Refuses a number that is outside a scale."""
    if ends is None or label.value is None or isinstance(label.value, Word):
        return
    low, high = sorted(ends)
    if not low <= label.value <= high:
        raise UserError(
            f"{label.row.place}: the label {label.name} of '{label.example_id}' lies outside the "
            f"scale, {low:g} to {high:g}; correct it there, or take the line out."
        )


def _probability(label: Label) -> float | None:
    """The probability with which a label's text was drawn; None where its row does not say."""
    if not label.row.has("probability"):
        return None
    probability = label.row.number("probability")
    if not 0 < probability <= 1:
        raise UserError(f"{label.row.place}: field 'probability' must be above 0 and at most 1.")
    return probability


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_labels(file: Path, dimension: str = DIMENSION) -> Iterator[Label]:
    """The labels in a file of JSON lines or a table; `dimension`: of those that name none."""
    checked = file.suffix.lower() not in _TABLES
    for row in file_rows(file):
        value = None
        if checked and row.has("check") and row.value("check") != row_checksum(row.values):
            raise UserError(
                f"{row.place}: the line has changed since the page saved it, for its checksum does "
                "not fit; take the file as it was saved, or, where you changed the line on purpose, "
                "take out its field 'check'."
            )
        # of a page, a class may have that name
        named = str(row.value("label")).strip().lower() == "unclear"
        is_unclear = named and "unclear" not in row.values
        if not is_unclear and not _is_set(row, "unclear"):
            if "label" in row.values and not row.has("label"):  # not labelled yet
                continue
            given = row.scores("label", words=True)
            if list(given) != ["1"]:
                raise UserError(f"{row.place}: field 'label' must be one number or class.")
            value = given["1"]
        yield Label(
            row.identifier("example_id"),
            row.identifier("dimension") if row.has("dimension") else dimension,
            row.identifier("rater") if row.has("rater") else file.stem,
            value,
            row,
        )


def _is_set(row: FileRow, name: str) -> bool:
    return str(row.value(name)).strip().lower() in ("true", "1", "yes")


def _conflicts(texts: Iterable[Rated]) -> Rows:
    """A record a text on which raters differ."""
    conflicts = []
    for text in texts:
        for dimension, scores in text.scores.items():
            labels = {rater: name_of(score) for rater, score in scores.items()}
            if len(set(map(str.casefold, labels.values()))) > 1:
                name = text.example.example_id
                conflict = {"kind": "conflict", "example_id": name, "dimension": dimension}
                conflicts.append({**conflict, "labels": labels})
    return conflicts


def _counted(records: Rows) -> str:
    """The number of records of each kind; empty without records."""
    counts = Counter(record["kind"] for record in records)
    parts = [f"{counts[kind]} {words}" for kind, words in _KINDS.items() if counts[kind]]
    return f": {', '.join(parts)}" if parts else ""


def _note(labels: Sequence[Label], records: Rows) -> str:
    """A sentence on what was joined, and one a rater who saw texts twice."""
    names = dict.fromkeys(label.rater for label in labels)
    raters = ", ".join(names)
    texts = {label.example_id for label in labels}
    note = f"Labels of {raters} are joined to {len(texts)} texts{_counted(records)}."
    if records:
        note += " labels.json lists them."
    # agreement with oneself
    repeats = [record for record in records if record["kind"] == "repeat"]
    alike = [record for record in repeats if record["label"] == record["again"]]
    shown_twice = Counter(record["rater"] for record in repeats)
    same = Counter(record["rater"] for record in alike)
    shares = []
    for rater, count in shown_twice.items():
        shares.append(f"{rater} {same[rater]} of {count}")
    if not shares:
        return note
    return f"{note} The same label again: {', '.join(shares)}."
