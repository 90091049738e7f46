"""A judge without a model: answers of an earlier time, as the rows of a file; which example each is
about, under which condition. They are measured like those of any judge."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from judgebench.data.dataset import TEST
from judgebench.data.rows import FileRow, json_lines, json_row
from judgebench.judges.spec import GENERATION, REPLAYED, NoConfig, NoModel, check_unused
from judgebench.prompts.tokens import PlainTokenizer
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.runtime.fields import Annotated, NotBlank, settings_of
from judgebench.runtime.files import sha256_of, user_path
from judgebench.types import ORDERS, Condition, Example, Prompt, ScoreRange

_Key = tuple[str, Condition]
_AXES = ("dimension", "range", "attack", "defense", "order")
_NAMED = 3
_Name = Annotated[str, NotBlank()]
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
    """

    text: _Name
    example_id: _Name | None = None
    group_id: _Name | None = None
    system_id: _Name | None = None
    dimension: _Name | None = None
    range: _Name | None = None
    attack: _Name | None = None
    defense: _Name | None = None
    order: _Name | None = None

    def __post_init__(self) -> None:
        if self.example_id is None and None in (self.group_id, self.system_id):
            raise UserError(
                "judge.fields.example_id is not given; name the field of your rows that holds it, "
                "or give both judge.fields.group_id and judge.fields.system_id."
            )

    def axes(self, row: FileRow) -> dict[str, str]:
        """Axis -> its value for the row's answer, of the axes that the fields name."""
        axes = {}
        for axis, name in (
            (axis, getattr(self, axis)) for axis in _AXES if getattr(self, axis) is not None
        ):
            if axis in ("attack", "defense") and not row.has(name):
                axes[axis] = "none"
            elif axis == "range" and isinstance(row.values.get(name), list):
                try:
                    axes[axis] = str(ScoreRange.parse(row.values[name]))
                except UserError as error:
                    raise UserError(f"{row.place}: field '{name}': {error}") from error
            else:
                axes[axis] = (
                    _plain(row.identifier(name)) if axis == "range" else row.identifier(name)
                )
        if "order" in axes:
            axes["order"] = axes["order"].lower()
            if axes["order"] not in ORDERS:
                raise UserError(
                    f"{row.place}: field '{self.order}' must say in which place the judged text "
                    f"stood, {' or '.join(ORDERS)}, got {axes['order']!r}."
                )
        return axes


@dataclass(frozen=True)
class Answers:
    """The answers to some prompts, and what was left over on either side.

    Attributes:
        rows: number of rows of the file.
        given: (example_id, condition) -> answer.
        strays: a row each: names of examples that the data does not have.
        elsewhere: a row each: examples answered under conditions that are not judged.
        missing: prompts without a row.
        in_order: neither rows nor texts have names, and they are about each other in their order.
    """

    file: str
    rows: int
    given: Mapping[_Key, Any]
    strays: Sequence[str]
    elsewhere: Sequence[str]
    missing: Sequence[Prompt]
    in_order: bool = False

    def answered(self, prompts: Iterable[Prompt]) -> list[Prompt]:
        return [prompt for prompt in prompts if _key(prompt) in self.given]

    def to(self, prompt: Prompt) -> Any:
        return self.given[_key(prompt)]

    def check(self, prompts: Sequence[Prompt], split: Mapping[str, str]) -> None:
        """Raises UserError where a condition has no answer, or none of the test split while others
        have some."""
        answered = self.answered(prompts)
        under = {prompt.condition for prompt in answered}
        tested = {prompt.condition for prompt in answered if split[prompt.example.group_id] == TEST}
        for condition in dict.fromkeys(prompt.condition for prompt in prompts):
            if condition not in under:
                others = list(
                    dict.fromkeys(stray.rpartition(" under ")[2] for stray in self.elsewhere)
                )
                there = f"; {self.file} has answers under {_first(others, '; ')}" if others else ""
                raise UserError(
                    f"judge.path: no row of {self.file} answers under {condition}, which is to be "
                    f"judged{there}."
                )
            if tested and condition not in tested:
                raise UserError(
                    f"judge.path: under {condition}, no row of {self.file} answers a text of the "
                    "test split, and under others some do; give such rows, leave the condition "
                    "out, or set data.dev_share=0."
                )

    @property
    def note(self) -> str:
        how = (
            " Rows and texts have no names, and are taken in their order." if self.in_order else ""
        )
        return f"Scored: {len(self.given):,} of the {self.rows:,} rows of {self.file}.{how} {self.left_out}".rstrip()

    @property
    def left_out(self) -> str:
        """Rows and texts that have no part in the run; empty where all have."""
        several = len({condition for _, condition in self.given}) > 1
        missing = [
            f"{p.example.example_id}{f' under {p.condition}' if several else ''}"
            for p in self.missing
        ]
        leftovers = (
            ("Rows whose example the data does not have: {} ({}).", self.strays, ", "),
            ("Rows under conditions that are not judged: {} ({}).", self.elsewhere, ", "),
            ("Examples without a row, left out: {} ({}).", missing, "; " if several else ", "),
        )
        return " ".join(
            text.format(f"{len(names):,}", _first(names, joint))
            for text, names, joint in leftovers
            if names
        )


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
        path: a file with one JSON object a line, one row an answer.
        fields: see `AnswerFields`.
        title: its name in tables; None takes the file's name without its ending.
        mode: `generate`, for the answers are free text.
    """

    path: str
    fields: Mapping[str, Any]
    title: str | None = None
    mode: str = "generate"

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
        if self.mode != "generate":
            mistakes.add(
                "judge.mode: judge=replay has texts and no probabilities, so it cannot be "
                f"{self.mode!r}; leave it at generate."
            )
        check_unused(self, mistakes, "judge", "judge=replay loads no model")
        with mistakes.caught():
            settings_of(AnswerFields, self.fields, "judge.fields")
        mistakes.tell()

    @cached_property
    def source(self) -> AnswerFile:
        path = user_path(self.path)
        return AnswerFile(path, self.title or path.stem)

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({REPLAYED, GENERATION})

    def answers(self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers:
        whole = list(json_lines(self.source.path, "judge.path"))
        numbered = in_order(whole, self._names, prompts)
        if numbered is None:
            check_answers(whole, self._names)
        answers = self._matched(numbered or whole, prompts, split, dataset)
        return replace(answers, in_order=numbered is not None)

    def indexed(self) -> IndexedReplay:
        """The same for texts that come shard by shard."""
        return IndexedReplay(self.path, self.fields, self.title)

    @cached_property
    def _names(self) -> AnswerFields:
        return settings_of(AnswerFields, self.fields, "judge.fields")

    def _matched(
        self, rows: Sequence[FileRow], prompts: Sequence[Prompt], *of_data: Any
    ) -> Answers:
        """The answers of rows to prompts; `of_data`: split and name, see `match`."""
        names = self._names
        # prompts that differ in something need a field that says which of them a row answers
        for axis in _AXES:
            values = list(dict.fromkeys(str(getattr(prompt.condition, axis)) for prompt in prompts))
            if len(values) > 1 and getattr(names, axis) is None:
                raise UserError(
                    f"judge.fields.{axis}: this run has {axis}s {', '.join(values)}, and nothing "
                    "says which of them an answer is about; name the field that holds it, as in "
                    f"judge.fields.{axis}={axis}, or judge one."
                )

        def text(row: FileRow) -> str:
            value = row.values.get(names.text)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return repr(value) if number else row.text(names.text)

        return match(self.source.path.name, rows, names, text, prompts, *of_data)


@dataclass(frozen=True)
class IndexedReplay(ReplaySpec):
    """A judge whose answers to a few texts at a time are looked up in its file, of which only
    places are kept."""

    @cached_property
    def _index(self) -> AnswerIndex:
        return AnswerIndex(self.source.path, self._names)

    def answers(self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers:
        rows = self._index.rows([prompt.example for prompt in prompts])
        if not rows:  # none of this shard's
            return Answers(self.source.path.name, 0, {}, (), (), prompts)
        return self._matched(rows, prompts, split, dataset)


class AnswerIndex:
    """The places of a file's answers, 20 bytes each, by the examples that they are about."""

    def __init__(self, path: Path, fields: AnswerFields):
        self._path = path
        # 1. a number for the example of each line; a blank line, and one that names no example, is
        # about nothing, and `match` says what is wrong with a row
        names = [[fields.example_id], [fields.group_id, fields.system_id]]
        numbers = array("q")
        for row in json_lines(path, "judge.path"):
            name: tuple[str, ...] = ()
            for columns in names:
                if all(column is not None and row.has(column) for column in columns):
                    name = tuple(str(row.value(str(column))) for column in columns)
                    break
            numbers.extend([0] * (row.position - 1 - len(numbers)))
            numbers.append(hash(name))
        # 2. the byte behind each line
        ends = array("q", [0])
        with path.open("rb") as file:
            ends.extend(accumulate(map(len, file)))
        self._ends = np.frombuffer(ends, np.int64)
        # 3. the lines in the order of their numbers
        unsorted = np.frombuffer(numbers, np.int64)
        self._order = np.argsort(unsorted, kind="stable").astype(np.uint32)
        self._numbers = unsorted[self._order]

    def rows(self, examples: Sequence[Example]) -> list[FileRow]:
        """The rows about some examples, in the order of the file."""
        # 1. the lines with the number of an example
        numbers = set()
        for example in examples:
            numbers.add(hash((example.example_id,)))
            numbers.add(hash((example.group_id, example.system_id)))
        wanted = sorted(numbers)
        first = np.searchsorted(self._numbers, wanted, "left")
        last = np.searchsorted(self._numbers, wanted, "right")
        found = [self._order[i:j] for i, j in zip(first, last, strict=True)]
        lines = np.sort(np.concatenate(found))
        # 2. their rows
        rows = []
        with self._path.open("rb") as file:
            for line in lines.tolist():
                file.seek(self._ends[line])
                raw = file.read(self._ends[line + 1] - self._ends[line])
                rows.append(json_row(raw, self._path.name, line + 1))
        return rows


_USUAL = {
    "text": (
        "answer",
        "judge_answer",
        "response",
        "judgment",
        "judgement",
        "completion",
        "reply",
        "judge",
        "judge_score",
    ),
    "example_id": ("id", "example", "text_id", "item", "uid", "name"),
}
"""Entry of `judge.fields` -> names that files have for it, the likeliest first."""


def _named(row: FileRow, fields: AnswerFields) -> bool:
    """True of a row that names its example."""
    both = [fields.group_id, fields.system_id]
    whole = None not in both and all(row.has(str(name)) for name in both)
    return whole or (fields.example_id is not None and row.has(fields.example_id))


def in_order(
    rows: Sequence[FileRow], fields: AnswerFields, prompts: Sequence[Prompt]
) -> list[FileRow] | None:
    """Rows with the names of texts in the order of both files, where neither rows nor texts have
    any and there are as many of both; else None."""
    numbers = {
        _LINE.fullmatch(name): name for name in {prompt.example.example_id for prompt in prompts}
    }
    if None in numbers or len(numbers) != len(rows) or fields.example_id is None:
        return None
    if any(_named(row, fields) or not row.has(fields.text) for row in rows):
        return None
    names = [numbers[found] for found in sorted(numbers, key=lambda found: int(found[1]))]  # type: ignore[index]
    return [
        replace(row, values={**row.values, fields.example_id: name})
        for row, name in zip(rows, names, strict=True)
    ]


def check_answers(rows: Sequence[FileRow], fields: AnswerFields) -> None:
    """`UserError` where a file's first row has no answer, with the fields that are likely meant."""
    if not rows or rows[0].has(fields.text):
        return
    meant = {"text": fields.text} | (
        {} if _named(rows[0], fields) else {"example_id": str(fields.example_id)}
    )
    give = []
    for entry in meant:
        usual = [name for name in _USUAL[entry] if rows[0].has(name)]
        give += [f"judge.fields.{entry}={name}" for name in usual[:1]]
    there = ", ".join(f"'{name}'" for name in rows[0].values) or "none"
    raise UserError(
        f"{rows[0].place}: field '{fields.text}' is missing or null; the fields here are {there}, "
        "and judge.fields says which of them holds the answer and which names its example.",
        give=give if any("fields.text" in one for one in give) else (),
    )


def match(
    file: str,
    rows: Iterable[FileRow],
    fields: AnswerFields,
    answer_of: Callable[[FileRow], Any],
    prompts: Sequence[Prompt],
    split: Mapping[str, str],
    dataset: str,
) -> Answers:
    """Matches each row with the prompt that it answers; UserError for a row that cannot be read or
    matched, or conditions without answers. `split`: group_id -> dev or test; `file` and `dataset`
    are named in errors."""
    conditions = list(dict.fromkeys(prompt.condition for prompt in prompts))
    examples = {prompt.example.example_id: prompt.example for prompt in prompts}
    by_writer: dict[tuple[str, str], list[str]] = {}
    for name, example in examples.items():
        by_writer.setdefault((example.group_id, example.system_id), []).append(name)
    # 1. each row to its example and condition
    answers: dict[_Key, Any] = {}
    places: dict[_Key, str] = {}
    strays = []
    elsewhere = []
    count = 0
    for row in rows:
        count += 1
        called, example_id = _example_of(row, fields, examples, by_writer)
        answer = answer_of(row)
        axes = fields.axes(row)
        if example_id is None:
            strays.append(called)
            continue
        fitting = (
            c
            for c in conditions
            if all(_plain(getattr(c, axis)) == _plain(axes[axis]) for axis in axes)
        )
        condition = next(fitting, None)
        if condition is None:
            elsewhere.append(
                f"{called} under {', '.join(f'{axis} {value}' for axis, value in axes.items())}"
            )
            continue
        key = (example_id, condition)
        if key in places:
            raise UserError(
                f"{row.place}: example '{example_id}' ({condition}) has an answer in {places[key]} "
                "already; each has one, so remove one of the two, or name the field that tells "
                "them apart (judge.fields)."
            )
        answers[key], places[key] = answer, row.place
    if not count:
        raise UserError(
            f"judge.path: {file} holds no answer; give a file with one JSON object a line."
        )
    # 2. pairs of texts count where both orders have an answer
    turned = dict(zip(ORDERS, reversed(ORDERS), strict=True))
    lone = [
        (name, c)
        for name, c in answers
        if c.order and (name, replace(c, order=turned[c.order])) not in answers
    ]
    if lone and len(lone) == len(answers):
        raise UserError(
            f"judge.path: no pair of texts has an answer in both orders in {file}; '{lone[0][0]}' "
            f"has one with its judged text {lone[0][1].order} alone. What the place does cannot be "
            "told from one order."
        )
    answers = {key: answer for key, answer in answers.items() if key not in lone}
    # 3. something is left under each condition, and of the test split under all or none
    if not answers and not elsewhere:
        raise UserError(
            f"judge.path: no row of {file} is about an example of {dataset}: its first row calls "
            f"its example {strays[0]!r}, and the first example of the data is "
            f"{next(iter(examples), '')!r}; the fields that hold these names (judge.fields, "
            "data.fields) must fit each other."
        )
    matched = Answers(
        file, count, answers, strays, elsewhere, [p for p in prompts if _key(p) not in answers]
    )
    matched.check(prompts, split)
    return matched


def _example_of(
    row: FileRow,
    fields: AnswerFields,
    examples: Mapping[str, Any],
    by_writer: Mapping[tuple[str, str], Sequence[str]],
) -> tuple[str, str | None]:
    """The row's name for its example, and the example's own, by its name or by group and system;
    None where there is no such example."""
    if fields.example_id is not None and (
        row.has(fields.example_id) or None in (fields.group_id, fields.system_id)
    ):
        name = row.identifier(fields.example_id)
        return name, name if name in examples else None
    assert fields.group_id is not None
    assert fields.system_id is not None
    if fields.example_id is not None and not (
        row.has(fields.group_id) and row.has(fields.system_id)
    ):
        there = ", ".join(f"'{name}'" for name in row.values) or "none"
        raise UserError(
            f"{row.place}: nothing says which example it is about; give field "
            f"'{fields.example_id}', or both '{fields.group_id}' and '{fields.system_id}' "
            f"(judge.fields); the fields here are {there}."
        )
    group = row.identifier(fields.group_id)
    system = row.identifier(fields.system_id)
    names = by_writer.get((group, system), [])
    if len(names) > 1:
        raise UserError(
            f"{row.place}: group '{group}' has {len(names)} examples of system '{system}' "
            f"({_first(names)}); say which one by its example_id."
        )
    return f"{group} by {system}", names[0] if names else None


def _plain(value: object) -> str:
    """A range as tables print it, with spaces and a dash of any width, or any other axis, as it is
    compared."""
    return str(value).replace("–", "-").replace(" ", "")


def _key(prompt: Prompt) -> _Key:
    return prompt.example.example_id, prompt.condition


def _first(names: Sequence[str], joint: str = ", ") -> str:
    more = len(names) - _NAMED
    return joint.join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
