"""Labels in files of their own, as the label page saves them, joined to the texts that they are
about."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgebench.data.classes import name_of
from judgebench.data.fields import Rated
from judgebench.data.rows import FileRow, Word, existing, file_rows
from judgebench.runtime.errors import UserError
from judgebench.runtime.fields import plain
from judgebench.runtime.files import user_path
from judgebench.types import Example, Record, Rows, Scale

DIMENSION = "quality"
"""The dimension of labels that name none, of data without one."""

_KINDS = {
    "conflict": "on which raters differ",
    "unclear": "unclear",
    "changed": "of texts that have changed since, not joined",
    "unknown": "of unknown ids, not joined",
    "second_look": "of a second look, not joined",
}
"""Kinds of records in labels.json, with their words behind a count."""


def content_digest(example: Example) -> str:
    """SHA-256 of the texts that a rater saw, white space at their ends left out."""
    texts = (example.source, example.context, example.question, example.output)
    content = json.dumps([text.strip() for text in texts])
    return hashlib.sha256(content.encode()).hexdigest()


def label_files(given: Any) -> list[Path]:
    """The files that the config key `labels` names: one, several with commas, or a list; else
    `UserError`."""
    if given is None:
        return []
    names = plain(given)
    if not isinstance(names, list):
        names = str(names).split(",")
    return [existing(user_path(str(name).strip()), "labels") for name in names]


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
) -> JoinedLabels:
    """Adds the labels of some files to the scores of the texts that they are about; `UserError`
    where none rates any, or one lies outside the scale of its page, or else outside `scale`.

    The first label that a rater gave a text counts; an unclear one leaves it unrated.
    """
    joined = JoinedLabels()
    if not files or not texts:
        return joined
    # 1. all labels, those of texts that are shown again last; equal lines of two files are one
    dimensions = {name for text in texts for name in text.scores}
    dimension = dimensions.pop() if len(dimensions) == 1 else DIMENSION
    read: dict[str, Label] = {}
    for file in files:
        for label in read_labels(file, dimension):
            read[f"{label.rater} {label.row.values}"] = label
    labels = sorted(read.values(), key=lambda label: _is_set(label.row, "repeat"))
    # 2. what is about a text as it is now becomes its score
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
                joined.records.append(first.record("repeat", again=label.name))
            elif label.value is None:
                joined.records.append(label.record("unclear"))
            else:
                given = scale.get(label.dimension) if isinstance(scale, Mapping) else scale
                limits = given or label.row.value("scale") or ()
                numbers = [end for end in limits if isinstance(end, int | float)]
                if len(numbers) == 2 and not isinstance(label.value, Word):
                    low, high = sorted(numbers)
                    if not low <= label.value <= high:
                        raise UserError(
                            f"{label.row.place}: the label {label.name} of '{label.example_id}' "
                            f"lies outside the scale, {low:g} to {high:g}; correct it there, or "
                            "take the line out."
                        )
                own = text.scores.get(label.dimension, {})
                by_rater = {**own, label.rater: label.value, **own}
                text.scores = {**text.scores, label.dimension: by_rater}
    rating = [label for label in firsts.values() if label.value is not None]
    if not rating:
        raise UserError(
            f"labels: {', '.join(file.name for file in files)} rate no text of the data, for of "
            f"{len(labels)} labels{_counted(joined.records)}; give labels of these texts, whose "
            f"example_id is as {texts[0].example.example_id!r}."
        )
    joined.records += _conflicts(texts)
    # 3. what the page knows of the labels and of the draw
    probabilities = set()
    for label in rating:
        for name, known in (("choices", joined.choices), ("scale", joined.scale)):
            if isinstance(label.row.value(name), list):
                known.setdefault(label.dimension, label.row.value(name))
        # one file's best label may be another's worst
        page = label.row.value("scale")
        given = scale.get(label.dimension) if isinstance(scale, Mapping) else scale
        whole = given or joined.scale.get(label.dimension)
        if (
            page
            and isinstance(page, list)
            and whole
            and (page[0] > page[-1]) != (whole[0] > whole[-1])
        ):
            raise UserError(
                f"{label.row.place}: its label is on a scale from {page[0]} to {page[-1]}, worst "
                f"first, and {'data.scale goes' if given else 'other labels are on one'} from "
                f"{whole[0]:g} to {whole[-1]:g}; join those of one scale alone, and give "
                "data.scale as they have it."
            )
        if label.row.has("probability"):
            probability = label.row.number("probability")
            if not 0 < probability <= 1:
                raise UserError(
                    f"{label.row.place}: field 'probability' must be above 0 and at most 1."
                )
            probabilities.add(probability)
    joined.note = _note(rating, joined.records)
    if len(probabilities) > 1:
        ends = f"{min(probabilities):.2g} to {max(probabilities):.2g}"
        joined.note += f" They were drawn with probabilities of {ends}, and count alike."
    return joined


def read_labels(file: Path, dimension: str = DIMENSION) -> Iterator[Label]:
    """The labels in a file of JSON lines or a table; `dimension`: of those that name none."""
    for row in file_rows(file):
        value = None
        is_unclear = str(row.value("label")).strip().lower() == "unclear"
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
