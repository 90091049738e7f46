"""Labels in files of their own, as the label page saves them, joined to the texts that they are
about."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgebench.data.classes import name_of
from judgebench.data.fields import Rated
from judgebench.data.rows import FileRow, existing, file_rows
from judgebench.runtime.errors import UserError, shown
from judgebench.runtime.fields import plain
from judgebench.runtime.files import user_path
from judgebench.types import Example, Record, Rows

DIMENSION = "quality"
"""The dimension of labels that name none, of data without one."""

KINDS = {
    "conflict": "on which raters differ",
    "unclear": "unclear",
    "changed": "of texts that have changed since, not joined",
    "unknown": "of unknown ids, not joined",
    "second_look": "of a second look, not joined",
}
"""Kinds of records in labels.json, with their words for a count."""


def content_digest(example: Example) -> str:
    """SHA-256 of the texts that a rater saw, white space at their ends left out."""
    texts = (example.source, example.context, example.question, example.output)
    content = json.dumps([text.strip() for text in texts])
    return hashlib.sha256(content.encode()).hexdigest()


def label_files(given: Any) -> list[Path]:
    """The files that the config key `labels` names: one, several with commas, or a list; else
    `UserError`."""
    entries = plain(given)
    if entries is None:
        return []
    if isinstance(entries, str):
        entries = entries.split(",")
    if not isinstance(entries, list) or not all(
        isinstance(entry, str) and entry.strip() for entry in entries
    ):
        raise UserError(
            f"labels: {shown(entries)} names no files of labels; give them as labels=labels.jsonl "
            "or labels=[ann.jsonl,ben.csv]."
        )
    return [existing(user_path(entry.strip()), "labels") for entry in entries]


@dataclass(frozen=True)
class Label:
    """One label that one rater gave one text.

    Attributes:
        value: a number, or a `Word` for a class; None where the rater found the text unclear.
        again: True where the rater sees the text for the second time.
        second_look: True where the rater saw what the judge and others had said.
        digest: `content_digest` of the text that was shown; empty where it is unknown.
        probability: of the text to be among those that were labelled; None where it is unknown.
        choices: the classes of the page, worst first; scale: or the ends of its scale.
        place: in its file, for errors.
    """

    example_id: str
    dimension: str
    rater: str
    value: float | None
    place: str
    again: bool = False
    second_look: bool = False
    digest: str = ""
    reason: str = ""
    time: str = ""
    probability: float | None = None
    choices: tuple[str, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def name(self) -> str | None:
        """The label as its rater gave it."""
        return None if self.value is None else name_of(self.value)

    def record(self, kind: str) -> Record:
        """The label as a record of labels.json."""
        return {
            "kind": kind,
            "example_id": self.example_id,
            "dimension": self.dimension,
            "rater": self.rater,
            "label": self.name,
            "reason": self.reason,
            "place": self.place,
        }


@dataclass
class JoinedLabels:
    """Labels that have been joined to texts.

    Attributes:
        records: of labels.json: labels that need a look, each with its kind, and each text that a
            rater saw twice (`repeat`).
        inclusion: example_id -> the probability with which it was drawn; empty where all are alike.
        classes: dimension -> classes, worst first, as the page named them.
        scale: dimension -> ends of the page's scale.
        note: a sentence on all of it; empty where there are no files.
    """

    records: Rows = field(default_factory=list)
    inclusion: dict[str, float] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    scale: dict[str, list[float]] = field(default_factory=dict)
    note: str = ""


def join_labels(texts: Sequence[Rated], files: Sequence[Path]) -> JoinedLabels:
    """Adds the labels of some files to the scores of the texts that they are about; `UserError`
    where none is about any.

    The first label that a rater gave a text counts; an unclear one leaves it unrated.
    """
    joined = JoinedLabels()
    if not files:
        return joined
    # 1. all labels, those of texts that are shown again last; a line that stands in two files is
    # one
    names = dict.fromkeys(name for text in texts for name in text.scores)
    dimension = next(iter(names)) if len(names) == 1 else DIMENSION
    read = [label for file in files for label in read_labels(file, dimension)]
    labels = {}
    for label in sorted(read, key=lambda label: label.again):
        identity = (label.rater, label.example_id, label.dimension, label.name, label.time)
        labels[(*identity, label.again) if label.time else label.place] = label
    # 2. those that are about a text as it is now
    by_name = {text.example.example_id: text for text in texts}
    firsts: dict[tuple[str, str, str], Label] = {}
    for label in labels.values():
        text = by_name.get(label.example_id)
        if label.second_look:
            joined.records.append(label.record("second_look"))
        elif text is None:
            joined.records.append(label.record("unknown"))
        elif label.digest not in ("", content_digest(text.example)):
            joined.records.append(label.record("changed"))
        else:
            first = firsts.setdefault((label.example_id, label.dimension, label.rater), label)
            if first is not label:
                repeat = {**first.record("repeat"), "again": label.name}
                joined.records.append(repeat)
    rated = {label.dimension for label in firsts.values() if label.value is not None}
    if not rated:
        _refuse(files, list(labels.values()), list(by_name), unclear=bool(firsts))
    # 3. the texts' scores
    for label in firsts.values():
        if label.value is None:
            joined.records.append(label.record("unclear"))
        text = by_name[label.example_id]
        by_rater = dict(text.scores.get(label.dimension, {}))
        if label.value is not None:
            by_rater.setdefault(label.rater, label.value)
        text.scores = {**text.scores, label.dimension: by_rater}
    joined.records += _conflicts(firsts)
    # 4. how the texts were drawn, and between what their raters chose
    probabilities = {}
    for label in firsts.values():
        if label.probability is not None:
            probabilities[label.example_id] = label.probability
        if label.dimension not in rated:
            continue
        if label.choices:
            joined.classes.setdefault(label.dimension, list(label.choices))
        if label.scale:
            joined.scale.setdefault(label.dimension, list(label.scale))
    if len(set(probabilities.values())) > 1:
        joined.inclusion = probabilities
    joined.note = _note(firsts, joined.records)
    return joined


def read_labels(file: Path, dimension: str = DIMENSION) -> Iterator[Label]:
    """The labels in a file of JSON lines or a table; `dimension`: of those that name none."""
    for row in file_rows(file):
        value = None
        unclear = _is_set(row, "unclear")
        if row.has("label") and not unclear:
            given = row.scores("label", words=True)
            if isinstance(row.value("label"), Mapping | list) or len(given) > 1:
                raise UserError(f"{row.place}: field 'label' must be one number or class.")
            value = next(iter(given.values()))
        elif not unclear:
            if "label" in row.values:  # not labelled yet
                continue
            raise UserError(
                f"{row.place}: field 'label' is missing; give a number or a class, or null with "
                "unclear: true."
            )
        rater = row.identifier("rater") if row.has("rater") else file.stem
        scale = [end for end in row.numbers("scale") if end is not None] if row.has("scale") else []
        yield Label(
            example_id=row.identifier("example_id"),
            dimension=row.identifier("dimension") if row.has("dimension") else dimension,
            rater=rater,
            value=value,
            place=row.place,
            again=_is_set(row, "repeat"),
            second_look=_is_set(row, "second_look"),
            digest=row.text("digest") if row.has("digest") else "",
            reason=row.text("reason") if row.has("reason") else "",
            time=row.text("time") if row.has("time") else "",
            probability=_probability(row),
            choices=tuple(row.texts("choices")) if row.has("choices") else (),
            scale=tuple(scale),
        )


def _is_set(row: FileRow, name: str) -> bool:
    """A flag of a row, which a table spells in words; `UserError` of anything else."""
    value = row.value(name)
    word = str(value).strip().lower()
    if value is not None and word not in ("true", "false", "1", "0", "yes", "no", ""):
        raise UserError(f"{row.place}: field '{name}' must be true or false, got {shown(value)}.")
    return word in ("true", "1", "yes")


def _probability(row: FileRow) -> float | None:
    """The probability with which a row's text was drawn."""
    if not row.has("probability"):
        return None
    probability = row.number("probability")
    if not 0 < probability <= 1:
        raise UserError(
            f"{row.place}: field 'probability' must be above 0 and at most 1, got {probability:g}."
        )
    return probability


def _refuse(
    files: Sequence[Path], labels: Sequence[Label], known: Sequence[str], unclear: bool
) -> None:
    """`UserError` of labels of which none can be joined; `unclear`: some are about the texts, and
    say nothing of them."""
    names = ", ".join(file.name for file in files)
    if unclear:
        raise UserError(f"labels: all labels of {names} that fit the data are unclear; rate some.")
    if not labels:
        raise UserError(f"labels: {names} holds no label; save the label page again.")
    if all(label.second_look for label in labels):
        raise UserError(
            f"labels: all labels of {names} are of a second look, by raters who saw the judge's "
            "answers; these are never joined. Give the labels of the first."
        )
    if all(label.example_id in known for label in labels):
        raise UserError(
            f"labels: all texts that {names} is about have changed since they were labelled; give "
            "the data file from which the page was made."
        )
    raise UserError(
        f"labels: none of the {len(labels)} labels of {names} is about a text of the data; their "
        f"example_id is as {shown(labels[0].example_id)}, and the data's as {shown(known[0])}. "
        "data.fields.example_id says which field holds it."
    )


def _conflicts(firsts: dict[tuple[str, str, str], Label]) -> Rows:
    """A record a text on which raters differ."""
    by_text: dict[tuple[str, str], list[Label]] = {}
    for label in firsts.values():
        if label.value is not None:
            by_text.setdefault((label.example_id, label.dimension), []).append(label)
    conflicts = []
    for (example_id, dimension), labels in by_text.items():
        if len({str(label.name).casefold() for label in labels}) > 1:
            conflicts.append(
                {
                    "kind": "conflict",
                    "example_id": example_id,
                    "dimension": dimension,
                    "labels": {label.rater: label.name for label in labels},
                    "reasons": {label.rater: label.reason for label in labels if label.reason},
                }
            )
    return conflicts


def _note(firsts: dict[tuple[str, str, str], Label], records: Rows) -> str:
    """A sentence on what was joined, and one a rater who saw texts twice."""
    raters = ", ".join(dict.fromkeys(label.rater for label in firsts.values()))
    texts = {label.example_id for label in firsts.values() if label.value is not None}
    counts = Counter(record["kind"] for record in records)
    parts = [f"{counts[kind]} {words}" for kind, words in KINDS.items() if counts[kind]]
    listed = f": {', '.join(parts)}; labels.json lists them" if parts else ""
    sentences = [f"Labels of {raters} are joined to {len(texts)} texts{listed}."]
    # agreement with oneself
    twice: dict[str, list[bool]] = {}
    for record in records:
        if record["kind"] == "repeat":
            twice.setdefault(record["rater"], []).append(record["label"] == record["again"])
    for rater, same in twice.items():
        sentences.append(f"{rater} gave {sum(same)} of {len(same)} texts the same label again.")
    return " ".join(sentences)
