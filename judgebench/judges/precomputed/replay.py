"""A judge without a model: answers of an earlier time, as the rows of a file; which example each is
about, under which condition. They are measured like those of any judge."""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from judgebench.data.fields import usual_name
from judgebench.data.rows import (
    FILE_ENDINGS,
    FileRow,
    Pointed,
    existing,
    file_rows,
    in_words,
    json_lines,
    json_row,
)
from judgebench.judges.precomputed.answers import Answers, Key, answer_key, first_names
from judgebench.judges.reader import BaseReader
from judgebench.judges.spec import GENERATION, REPLAYED, UNKNOWN_PROMPTS, NoConfig, NoModel
from judgebench.prompts.tokens import PlainTokenizer
from judgebench.runtime.files import sha256_of, user_path
from judgebench.settings.fields import Words, settings_of
from judgebench.types import (
    ORDERS,
    Condition,
    Example,
    Generation,
    Prompt,
    Reading,
    Row,
    ScoreRange,
    Split,
)
from judgebench.words.errors import Mistakes, UserError

_AXES = ("dimension", "range", "attack", "defense", "order")

_LINE = re.compile(r"line-(\d+)")  # what texts without names are called


@dataclass(frozen=True)
class AnswerFields:
    """Names of the fields of a row (`judge.fields`); None where the rows have no such field.

    Attributes:
        text: the answer; a number is taken as its text.
        group_id, system_id: name the example where `example_id` does not.
        dimension, range, attack, defense: the condition. A range is `[1, 5]` or "1-5", `[5, 1]` or
            "5-1", a list of labels or "E-A"; a row without an attack or a
            defense was given without one.
        order: `first` or `second`, the place of a pair's judged text.
        repeat: numbers the answers of a text that was asked about again under one condition. The
            lowest is the judge's answer; all of them show how much answers differ.
    """

    text: Words
    example_id: Words | None = None
    group_id: Words | None = None
    system_id: Words | None = None
    dimension: Words | None = None
    range: Words | None = None
    attack: Words | None = None
    defense: Words | None = None
    order: Words | None = None
    repeat: Words | None = None

    def __post_init__(self) -> None:
        if self.example_id is None and None in (self.group_id, self.system_id):
            raise UserError(
                "judge.fields.example_id is not given; name the field of your rows that holds it, "
                "or give both judge.fields.group_id and judge.fields.system_id."
            )

    def name(self, row: FileRow) -> tuple[str, ...]:
        """The example of a row: its name, or its group and system; empty for neither."""
        for columns in ([self.example_id], [self.group_id, self.system_id]):
            if all(column is not None and row.has(column) for column in columns):
                return tuple(row.identifier(str(column)) for column in columns)
        return ()

    def axes(self, row: FileRow) -> dict[str, str]:
        """Axis -> its value for the row's answer, as it is compared, of the axes that the fields
        name."""
        axes = {}
        for axis in _AXES:
            name = getattr(self, axis)
            if name is None:
                continue
            values = row.values.get(name)
            if axis in ("attack", "defense") and not row.has(name):
                axes[axis] = "none"
            elif axis == "range" and isinstance(values, list):
                try:
                    axes[axis] = _plain(ScoreRange.parse(values))
                except UserError as error:
                    raise UserError(f"{row.place}: field '{name}': {error}") from error
            else:
                axes[axis] = row.identifier(name)
        if "range" in axes:
            axes["range"] = _plain(axes["range"])
        order = axes.get("order", ORDERS[0]).lower()
        if order not in ORDERS:
            raise UserError(
                f"{row.place}: field '{self.order}' must say in which place the judged text "
                f"stood, {' or '.join(ORDERS)}, got {order!r}."
            )
        return axes | ({"order": order} if "order" in axes else {})


@dataclass(frozen=True)
class AnswerFile:
    """Source of a judge without a model: a file."""

    path: Path
    title: str
    encoder_decoder: ClassVar[bool] = False

    def tokenizer(self) -> Any:
        """One of which a prompt is the rubric's plain text, of 0 tokens."""
        return PlainTokenizer()

    def config(self) -> NoConfig:
        """Limit of a model that reads a text of any length."""
        return NoConfig()

    def sha256(self) -> str:
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        return sha256_of(self.path)


@dataclass(frozen=True)
class ReplaySpec(NoModel):
    """Settings of a judge whose answers are known; `UserError` for a value that is none.

    Args:
        path: a file with one row an answer: one JSON object a line, or a table as data may be.
        fields: see `AnswerFields`.
        title: its name in tables; None takes the file's name without its ending.
        sheet: of a workbook (.xlsx); None takes the first.
    """

    path: str
    fields: Row
    title: str | None = None
    mode: ClassVar[str] = "generate"
    sheet: str | None = None

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        if not isinstance(self.path, str) or not self.path.strip():
            mistakes.add(
                "judge.path: name the file with the judge's answers, one JSON object a line."
            )
        if self.title is not None and (not isinstance(self.title, str) or not self.title.strip()):
            mistakes.add(
                f"judge.title: {self.title!r} is not a name; give text, or null for the file's "
                "name."
            )
        with mistakes.caught():
            self.names  # noqa: B018 - checks them
        mistakes.tell()

    @cached_property
    def source(self) -> AnswerFile:
        path = user_path(self.path)
        return AnswerFile(path, self.title or path.stem)

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({REPLAYED, GENERATION, UNKNOWN_PROMPTS})

    def reader(self, *asked: Any) -> BaseReader:
        return Replayer(*asked)

    def rows(self) -> Iterable[FileRow]:
        """The rows of its file; `UserError` where there is none, or a row cannot be read."""
        path = existing(self.source.path, "judge.path")
        tables = [ending for ending in FILE_ENDINGS if ending != ".jsonl"]
        return file_rows(path, self.sheet) if path.suffix in tables else json_lines(path)

    def answers(self, prompts: Sequence[Prompt], split: Split, dataset: str) -> Answers:
        whole = list(self.rows())
        numbered = in_order(whole, self.names, prompts)
        if numbered is None:
            check_answers(whole, self.names)
        rows = numbered or whole
        # in a table a cell that is empty, as a null in a row, is no answer
        field = self.names.text
        if any(row.has(field) for row in rows):
            rows = [row for row in rows if row.has(field) or field not in row.values]
        answers = self._matched(rows, prompts, split, dataset)
        return replace(answers, in_order=numbered is not None)

    def indexed(self) -> IndexedReplay:
        """The same for texts that come shard by shard."""
        return IndexedReplay(self.path, self.fields, self.title)

    @cached_property
    def names(self) -> AnswerFields:
        return settings_of(AnswerFields, self.fields, "judge.fields")

    def _matched(
        self, rows: Sequence[FileRow], prompts: Sequence[Prompt], *of_data: Any
    ) -> Answers:
        """The answers of rows to prompts; `of_data`: split and name, see `match`."""
        names = self.names
        # prompts that differ in something need a field that says which of them a row answers
        for axis in _AXES:
            values = dict.fromkeys(str(getattr(prompt.condition, axis)) for prompt in prompts)
            if len(values) > 1 and getattr(names, axis) is None:
                raise UserError(
                    f"judge.fields.{axis}: this run has {axis}s {', '.join(values)}, and nothing "
                    "says which of them an answer is about; name the field that holds it, as in "
                    f"judge.fields.{axis}={axis}, or judge one."
                )

        def text(row: FileRow) -> str:
            value = row.value(names.text)
            if isinstance(value, bool):
                return str(value).lower()
            if isinstance(value, int | float):
                return repr(value)
            return str(value) if isinstance(value, Pointed) else in_words(row.text(names.text))

        return match(self.source.path.name, rows, names, text, prompts, *of_data)


@dataclass(frozen=True)
class IndexedReplay(ReplaySpec):
    """A judge whose answers to a few texts at a time are looked up in its file, of which only
    places are kept."""

    @cached_property
    def _index(self) -> AnswerIndex:
        return AnswerIndex(self.source.path, self.names)

    def answers(self, prompts: Sequence[Prompt], split: Split, dataset: str) -> Answers:
        rows = self._index.rows([prompt.example for prompt in prompts])
        if not rows:  # none of this shard's
            return Answers(self.source.path.name, 0, {}, (), (), prompts)
        return self._matched(rows, prompts, split, dataset)


class Replayer(BaseReader):
    """Gives answers of an earlier time, as a `Reader` gives those that it computes; each prompt has
    one."""

    judge: ReplaySpec
    origin = "none: the answers were given earlier"

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        return {"main": {"title": self.judge.source.title, "sha256": self.judge.source.sha256()}}

    def readings(self, split: Split) -> list[Reading]:
        assert self.answers is not None
        decoding = next(iter(self.of.decodings))
        readings = []
        for prompt in self.prompts:
            how = Generation(
                "main", decoding, reasoned=prompt.condition.defense in self.of.free_text
            )
            part = split[prompt.example.group_id]
            answers = self.answers.all_to(prompt)
            text = answers[0]
            repeated = answers if len(answers) > 1 else ()
            readings.append(
                Reading(prompt, part, text=text, generation=how, answers=tuple(repeated))
            )
        return readings


class AnswerIndex:
    """The places of a file's answers, by the names of the examples that they are about: 24 bytes an
    answer, for names are kept as their hashes."""

    def __init__(self, path: Path, fields: AnswerFields):
        self._path = path
        self._fields = fields
        # 1. the line of each answer and its name; a row that names no example is about none, and
        # `match` says what is wrong with a row
        hashes = array("q")
        lines = array("q")
        for row in json_lines(path, "judge.path"):
            hashes.append(hash(fields.name(row)))
            lines.append(row.position - 1)
        # 2. by name, and in the order of the file
        named = np.array(hashes)
        order = np.argsort(named, kind="stable")
        self._hashes = named[order]
        self._lines = np.array(lines)[order]
        with path.open("rb") as file:
            self._starts = array("q", accumulate(map(len, file), initial=0))

    def rows(self, examples: Sequence[Example]) -> list[FileRow]:
        """The rows about some examples, in the order of the file."""
        names = {(example.example_id,) for example in examples}
        pairs = {(example.group_id, example.system_id) for example in examples}
        wanted: set[tuple[str, ...]] = {*names, *pairs}
        hashes = np.array([hash(name) for name in wanted], dtype=np.int64)
        first = np.searchsorted(self._hashes, hashes)
        last = np.searchsorted(self._hashes, hashes, side="right")
        lines = set[int]()
        for start, stop in zip(first, last, strict=True):
            lines.update(self._lines[start:stop].tolist())
        rows = []
        with self._path.open("rb") as file:
            for line in sorted(lines):
                file.seek(self._starts[line])
                row = json_row(file.readline(), self._path.name, line + 1)
                if self._fields.name(row) in wanted:  # and not only one of the same hash
                    rows.append(row)
        return rows


_USUAL = {
    "text": "answer judge_answer response judgment judgement completion reply judge judge_score",
    "example_id": "id example text_id item uid name",
}
"""Entry of `judge.fields` -> names that files have for it, the likeliest first."""


def in_order(
    rows: Sequence[FileRow], fields: AnswerFields, prompts: Sequence[Prompt]
) -> list[FileRow] | None:
    """Rows with the names of texts in the order of both files, where neither rows nor texts have
    any and there are as many of both; else None."""
    names = list({prompt.example.example_id for prompt in prompts})
    field = fields.example_id
    if field is None or len(names) != len(rows):
        return None
    if not all(map(_LINE.fullmatch, names)) or any(map(fields.name, rows)):
        return None
    if not all(row.has(fields.text) or fields.text in row.values for row in rows):
        return None
    names.sort(key=lambda name: int(name.removeprefix("line-")))
    numbered = []
    for row, name in zip(rows, names, strict=True):
        numbered.append(replace(row, values={**row.values, field: name}))
    return numbered


def check_answers(rows: Sequence[FileRow], fields: AnswerFields) -> None:
    """`UserError` where no row of a file has an answer, with the fields that are likely meant."""
    if not rows or any(row.has(fields.text) for row in rows):
        return
    give = {}
    for entry, usual in _USUAL.items():
        likely = usual_name(rows[0].values, usual)
        if likely and (entry == "text" or not fields.name(rows[0])):
            give[f"judge.fields.{entry}"] = likely
    names = [f"'{name}'" for name in rows[0].values]
    there = ", ".join(names) or "none"
    raise UserError(
        f"{rows[0].place}: field '{fields.text}' is missing or null; the fields here are {there}, "
        "and judge.fields says which of them holds the answer and which names its example.",
        give=give if "judge.fields.text" in give else {},
    )


def match(
    file: str,
    rows: Iterable[FileRow],
    fields: AnswerFields,
    answer_of: Callable[[FileRow], Any],
    prompts: Sequence[Prompt],
    split: Split,
    dataset: str,
) -> Answers:
    """Matches each row with the prompt that it answers; UserError for a row that cannot be read or
    matched, or conditions without answers. `split`: group_id -> dev or test; `file` and `dataset`
    are named in errors."""
    axes = [axis for axis in _AXES if getattr(fields, axis) is not None]
    conditions: dict[tuple[str, ...], Condition] = {}
    for prompt in prompts:
        cell = tuple(_plain(getattr(prompt.condition, axis)) for axis in axes)
        conditions.setdefault(cell, prompt.condition)
    examples = {prompt.example.example_id: prompt.example for prompt in prompts}
    by_writer = defaultdict[tuple[str, ...], list[str]](list)
    for name, example in examples.items():
        by_writer[example.group_id, example.system_id].append(name)
    # 1. each row to its example and condition
    places: dict[tuple[Key, str], str] = {}
    repeated: dict[Key, dict[str, Any]] = {}
    strays = []
    elsewhere = []
    count = 0
    for row in rows:
        count += 1
        called, example_id = _example_of(row, fields, examples, by_writer)
        answer = answer_of(row)
        values = fields.axes(row)
        condition = conditions.get(tuple(map(_plain, values.values())))
        if example_id is None:
            strays.append(called)
            continue
        if condition is None:
            under = ", ".join(f"{axis} {value}" for axis, value in values.items())
            elsewhere.append(f"{called} under {under}")
            continue
        key = (example_id, condition)
        repeat = "" if fields.repeat is None else row.identifier(fields.repeat)
        if (key, repeat) in places:
            raise UserError(
                f"{row.place}: example '{example_id}' ({condition}) has an answer in "
                f"{places[key, repeat]} already; each has one, so remove one of the two, or name "
                "the field that tells them apart (judge.fields), as judge.fields.repeat=FIELD "
                "where the judge was asked again."
            )
        repeated.setdefault(key, {})[repeat] = answer
        places[key, repeat] = row.place
    repeats = {key: _by_number(each) for key, each in repeated.items()}
    answers = {key: each[0] for key, each in repeats.items()}
    if not count:
        raise UserError(
            f"judge.path: {file} holds no answer; give a file with one JSON object a line."
        )
    # 2. pairs of texts count where both orders have an answer
    both = _in_both_orders(file, answers)
    # 3. something is left under each condition, and of the test split under all or none
    if not both and not elsewhere:
        raise UserError(
            f"judge.path: no row of {file} is about an example of {dataset}: its first row calls "
            f"its example {strays[0]!r}, and the first example of the data is "
            f"{next(iter(examples), '')!r}; the fields that hold these names (judge.fields, "
            "data.fields) must fit each other."
        )
    missing = [prompt for prompt in prompts if answer_key(prompt) not in both]
    several = {key: repeats[key] for key in both if len(repeats[key]) > 1}
    matched = Answers(file, count, both, strays, elsewhere, missing, repeats=several)
    matched.check(prompts, split)
    return matched


def _in_both_orders(file: str, answers: Mapping[Key, Any]) -> dict[Key, Any]:
    """The answers about single texts, and those about pairs that were asked about both ways."""
    both = {}
    for (name, condition), answer in answers.items():
        orders = ORDERS if condition.order else ()
        if all((name, replace(condition, order=order)) in answers for order in orders):
            both[name, condition] = answer
    if answers and not both:
        name, condition = next(iter(answers))
        raise UserError(
            f"judge.path: no pair of texts has an answer in both orders in {file}; '{name}' "
            f"has one with its judged text {condition.order} alone. What the place does cannot be "
            "told from one order."
        )
    return both


def _example_of(
    row: FileRow,
    fields: AnswerFields,
    examples: Collection[str],
    by_writer: Mapping[tuple[str, ...], Sequence[str]],
) -> tuple[str, str | None]:
    """The row's name for its example, and the example's own, by its name or by group and system;
    None where there is no such example."""
    name = fields.name(row)
    columns = [fields.example_id, fields.group_id, fields.system_id]
    if not name and None in columns:
        for column in filter(None, columns):
            row.identifier(column)  # says which of them is missing
    if not name:
        there = ", ".join(f"'{name}'" for name in row.values) or "none"
        both = f", or both '{columns[1]}' and '{columns[2]}'" if None not in columns else ""
        raise UserError(
            f"{row.place}: nothing says which example it is about; give field '{columns[0]}'{both} "
            f"(judge.fields); the fields here are {there}."
        )
    if len(name) == 1:
        return name[0], name[0] if name[0] in examples else None
    group, system = name
    names = by_writer.get(name, ())
    if len(names) > 1:
        raise UserError(
            f"{row.place}: group '{group}' has {len(names)} examples of system '{system}' "
            f"({first_names(names)}); say which one by its example_id."
        )
    return f"{group} by {system}", names[0] if names else None


def _by_number(answers: Mapping[str, Any]) -> list[Any]:
    """Answers by their repeat, in the order of its number, or of its name where it is none."""

    def place(repeat: str) -> tuple[float, str]:
        return float(repeat) if repeat.isdecimal() else math.inf, repeat

    return [answers[repeat] for repeat in sorted(answers, key=place)]


def _plain(value: object) -> str:
    """A range as tables print it, with spaces and a dash of any width, or any other axis, as it is
    compared."""
    return str(value).replace("–", "-").replace(" ", "")
