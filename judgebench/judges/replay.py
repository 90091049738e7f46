"""A judge without a model: answers of an earlier time, as the rows of a file; which example each is about, under which
condition. They are measured like those of any judge."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from judgebench.data.dataset import TEST
from judgebench.data.rows import FileRow, json_lines
from judgebench.judges.spec import GENERATION, REPLAYED, JudgeSettings, ReadingTask, check_unused
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.types import ORDERS, Condition, Prompt, ScoreRange

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_Key = tuple[str, Condition]
_AXES = ("dimension", "range", "attack", "defense", "order")
_NAMED = 3


@dataclass(frozen=True)
class AnswerFields:
    """Names of the fields of a row; None where the rows have no such field.

    Attributes:
        text: the answer; a number is taken as its text.
        group_id, system_id: name the example where `example_id` does not.
        dimension, range, attack, defense: the condition. A range is `[1, 5]` or "1-5", `[5, 1]` or
            "5-1", a list of labels or "E-A"; a row without an attack or a
            defense was given without one.
        order: `first` or `second`, the place of a pair's judged text.
    """

    text: str
    example_id: str | None = None
    group_id: str | None = None
    system_id: str | None = None
    dimension: str | None = None
    range: str | None = None
    attack: str | None = None
    defense: str | None = None
    order: str | None = None

    @classmethod
    def parse(cls, given: Any) -> AnswerFields:
        """From the config key `judge.fields`.

        Raises:
            UserError: no mapping, an unknown entry, one that is no name, or none that says what a row is about.
        """
        known = [entry.name for entry in fields(cls)]
        if not isinstance(given, Mapping):
            raise UserError(f"judge.fields must be a mapping, as in {{example_id: id, text: answer}}, got {given!r}.")
        for key, value in given.items():
            if key not in known:
                raise UserError(f"judge.fields.{key} is unknown; there are {', '.join(known)}.")
            if value is not None and (not isinstance(value, str) or not value):
                raise UserError(f"judge.fields.{key} must be the name of a field, got {value!r}.")
        if given.get("text") is None:
            raise UserError("judge.fields.text is not given; name the field of your rows that holds the answer.")
        if given.get("example_id") is None and None in (given.get("group_id"), given.get("system_id")):
            raise UserError(
                "judge.fields.example_id is not given; name the field of your rows that holds it, or give both "
                "judge.fields.group_id and judge.fields.system_id."
            )
        return cls(**given)

    def check(self, conditions: Sequence[Condition]) -> None:
        """Raises UserError where conditions differ in something for which no field is named."""
        for axis in _AXES:
            values = list(dict.fromkeys(str(getattr(condition, axis)) for condition in conditions))
            if len(values) > 1 and getattr(self, axis) is None:
                raise UserError(
                    f"judge.fields.{axis}: this run has {axis}s {', '.join(values)}, and nothing says which of them an "
                    f"answer is about; name the field that holds it, as in judge.fields.{axis}={axis}, or judge one."
                )


@dataclass(frozen=True)
class Answers:
    """The answers to some prompts, and what was left over on either side.

    Attributes:
        rows: number of rows of the file.
        given: (example_id, condition) -> answer, as `AnswerRows.answer` takes it from a row.
        strays: a row each: names of examples that the data does not have.
        elsewhere: a row each: examples answered under conditions that are not judged.
        missing: prompts without a row.
    """

    file: str
    rows: int
    given: Mapping[_Key, Any]
    strays: Sequence[str]
    elsewhere: Sequence[str]
    missing: Sequence[Prompt]

    def answered(self, prompts: Iterable[Prompt]) -> list[Prompt]:
        return [prompt for prompt in prompts if _key(prompt) in self.given]

    def to(self, prompt: Prompt) -> Any:
        return self.given[_key(prompt)]

    @property
    def note(self) -> str:
        sentences = [f"Scored: {len(self.given):,} of the {self.rows:,} rows of {self.file}."]
        if self.strays:
            sentences.append(
                f"Rows whose example the data does not have: {len(self.strays):,} ({_first(self.strays)})."
            )
        if self.elsewhere:
            sentences.append(
                f"Rows under conditions that are not judged: {len(self.elsewhere):,} ({_first(self.elsewhere)})."
            )
        if self.missing:
            several = len({condition for _, condition in self.given}) > 1
            names = [f"{p.example.example_id}{f' under {p.condition}' if several else ''}" for p in self.missing]
            sentences.append(
                f"Examples without a row, left out: {len(names):,} ({_first(names, '; ' if several else ', ')})."
            )
        return " ".join(sentences)


@dataclass(frozen=True)
class AnswerFile:
    """Source of a replayed judge: a file, and no model."""

    path: Path
    title: str
    encoder_decoder: ClassVar[bool] = False

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """One that knows no token and has no chat template: a prompt is the rubric's plain text, of 0 tokens."""
        from tokenizers import Tokenizer
        from tokenizers.models import BPE
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE()))

    def config(self) -> Any:
        """Limit of a model that reads a text of any length."""
        from transformers import PretrainedConfig

        return PretrainedConfig()

    def sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class ReplaySpec(JudgeSettings):
    """Settings of a judge whose answers are known.

    Args:
        path: a file with one JSON object a line, one row an answer.
        fields: see `AnswerFields`.
        title: its name in tables; None takes the file's name without its ending.
        mode: `generate`, for the answers are free text.
        gguf_file, revision, dtype, trust_remote_code, engine: settings of a model that other parts of a configuration
            read; they stay as they are.

    Raises:
        UserError: a value that is none of these.
    """

    path: str
    fields: Mapping[str, Any]
    title: str | None = None
    mode: str = "generate"
    gguf_file: None = None
    revision: None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    engine: str = "prefix"
    # nothing is computed
    max_new_tokens: ClassVar[int] = 0
    unused: ClassVar = ("gguf_file", "revision", "dtype", "trust_remote_code", "engine")
    token_budget: ClassVar[int] = 1

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        if not isinstance(self.path, str) or not self.path.strip():
            mistakes.add("judge.path: name the file with the judge's answers, one JSON object a line.")
        if self.title is not None and (not isinstance(self.title, str) or not self.title.strip()):
            mistakes.add(f"judge.title: {self.title!r} is not a name; give text, or null for the file's name.")
        if self.mode != "generate":
            mistakes.add(
                f"judge.mode: judge=replay has texts and no probabilities, so it cannot be {self.mode!r}; leave it at "
                "generate."
            )
        check_unused(self, mistakes, "judge", "judge=replay loads no model")
        with mistakes.caught():
            AnswerFields.parse(self.fields)
        mistakes.tell()

    @cached_property
    def source(self) -> AnswerFile:
        path = Path(self.path).expanduser()
        return AnswerFile(path, self.title or path.stem)

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({REPLAYED, GENERATION})

    @property
    def computes_nothing(self) -> str:
        return "judge=replay has answers only"

    def answers(self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers:
        named, path = AnswerFields.parse(self.fields), self.source.path
        named.check(list(dict.fromkeys(prompt.condition for prompt in prompts)))
        rows = json_lines(path, "judge.path")
        return match(AnswerRows(path.name, rows, named, lambda row: _text(row, named.text)), prompts, split, dataset)

    def reader(self, task: ReadingTask) -> Any:
        from judgebench.judges.reader import Replayer

        return Replayer(self, task)


@dataclass(frozen=True)
class AnswerRows:
    """The rows of a file, one an answer.

    Attributes:
        file: its name, for errors.
        fields: those that tell the prompts' conditions apart, see `AnswerFields.check`.
        answer: takes the answer from a row.
        named_by: the keys that say which fields hold the names of examples.
    """

    file: str
    rows: Iterable[FileRow]
    fields: AnswerFields
    answer: Callable[[FileRow], Any]
    named_by: str = "judge.fields and data.fields"


def match(source: AnswerRows, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers:
    """Matches each row with the prompt that it answers.

    Args:
        split: group_id -> dev or test.
        dataset: its name, for errors.

    Raises:
        UserError: what the rows raise; a row that lacks a field or has one of the wrong type, that names several
            examples, or that answers what another row has answered; no row at all, none about an example of the data,
            or none under one of the conditions, or none there of the test split while others have some.
    """
    file, named = source.file, source.fields
    conditions = list(dict.fromkeys(prompt.condition for prompt in prompts))
    names = _Names(prompts)
    # 1. each row to its example and condition
    given: dict[_Key, Any] = {}
    places: dict[_Key, str] = {}
    strays, elsewhere, count = [], [], 0
    for row in source.rows:
        count += 1
        called, example = names.find(row, named)
        answer, axes = source.answer(row), _axes(row, named)
        if example is None:
            strays.append(called)
            continue
        condition = next((c for c in conditions if _is_under(c, axes)), None)
        if condition is None:
            elsewhere.append(f"{called} under {', '.join(f'{axis} {value}' for axis, value in axes.items())}")
            continue
        key = (example, condition)
        if key in places:
            raise UserError(
                f"{row.place}: example '{example}' ({condition}) has an answer in {places[key]} already; each has one, "
                "so remove one of the two, or name the field that tells them apart (judge.fields)."
            )
        given[key], places[key] = answer, row.place
    if not count:
        raise UserError(f"judge.path: {file} holds no answer; give a file with one JSON object a line.")
    # 2. pairs of texts count where both orders have an answer
    _drop_lone_orders(given, file)
    # 3. something is left under each condition
    if not given and not elsewhere:
        raise UserError(
            f"judge.path: no row of {file} is about an example of {dataset}: its first row calls its example "
            f"{strays[0]!r}, and the first example of the data is {names.first!r}; {source.named_by} say "
            "which fields hold the names."
        )
    missing = [prompt for prompt in prompts if _key(prompt) not in given]
    answers = Answers(file, count, given, strays, elsewhere, missing)
    _check_conditions(answers, conditions, answers.answered(prompts), split)
    return answers


def _drop_lone_orders(given: dict[_Key, Any], file: str) -> None:
    """Removes answers to pairs of texts that were compared in one order alone; UserError where all of them were."""
    lone = [key for key in given if key[1].order and (key[0], _turned(key[1])) not in given]
    if lone and len(lone) == len(given):
        raise UserError(
            f"judge.path: no pair of texts has an answer in both orders in {file}; '{lone[0][0]}' has one with its "
            f"judged text {lone[0][1].order} alone. What the place does cannot be told from one order."
        )
    for key in lone:
        del given[key]


def _check_conditions(
    answers: Answers, conditions: Sequence[Condition], answered: Sequence[Prompt], split: Mapping[str, str]
) -> None:
    """Raises UserError where a condition has no answer, or none of the test split while others have some."""
    under = {prompt.condition for prompt in answered}
    tested = {prompt.condition for prompt in answered if split[prompt.example.group_id] == TEST}
    for condition in conditions:
        if condition not in under:
            others = list(dict.fromkeys(stray.rpartition(" under ")[2] for stray in answers.elsewhere))
            there = f"; {answers.file} has answers under {_first(others, '; ')}" if others else ""
            raise UserError(
                f"judge.path: no row of {answers.file} answers under {condition}, which is to be judged{there}."
            )
        if tested and condition not in tested:
            raise UserError(
                f"judge.path: under {condition}, no row of {answers.file} answers a text of the test split, and under "
                "others some do; give such rows, leave the condition out, or set data.dev_share=0."
            )


class _Names:
    """Names of the examples of some prompts."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        examples = {prompt.example.example_id: prompt.example for prompt in prompts}
        self.first = next(iter(examples), "")
        self._ids = set(examples)
        self._of: dict[tuple[str, str], list[str]] = {}
        for name, example in examples.items():
            self._of.setdefault((example.group_id, example.system_id), []).append(name)

    def find(self, row: FileRow, named: AnswerFields) -> tuple[str, str | None]:
        """The row's name for its example, and the example's own; None where there is no such example."""
        if named.example_id is not None and (row.has(named.example_id) or None in (named.group_id, named.system_id)):
            name = row.identifier(named.example_id)
            return name, name if name in self._ids else None
        assert named.group_id is not None
        assert named.system_id is not None
        if named.example_id is not None and not (row.has(named.group_id) and row.has(named.system_id)):
            there = ", ".join(f"'{name}'" for name in row.values) or "none"
            raise UserError(
                f"{row.place}: nothing says which example it is about; give field '{named.example_id}', or both "
                f"'{named.group_id}' and '{named.system_id}' (judge.fields); the fields here are {there}."
            )
        group, system = row.identifier(named.group_id), row.identifier(named.system_id)
        examples = self._of.get((group, system), [])
        if len(examples) > 1:
            raise UserError(
                f"{row.place}: group '{group}' has {len(examples)} examples of system '{system}' ({_first(examples)}); "
                "say which one by its example_id."
            )
        return f"{group} by {system}", examples[0] if examples else None


def _text(row: FileRow, field: str) -> str:
    value = row.values.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return row.text(field)


def _axes(row: FileRow, named: AnswerFields) -> dict[str, str]:
    """Axis -> its value for the row's answer, of the axes that the fields name."""
    axes = {}
    if named.dimension is not None:
        axes["dimension"] = row.identifier(named.dimension)
    if named.range is not None:
        axes["range"] = _range(row, named.range)
    for axis in ("attack", "defense"):
        if (field := getattr(named, axis)) is not None:
            axes[axis] = row.identifier(field) if row.has(field) else "none"
    if named.order is not None:
        axes["order"] = row.identifier(named.order).lower()
        if axes["order"] not in ORDERS:
            raise UserError(
                f"{row.place}: field '{named.order}' must say in which place the judged text stood, "
                f"{' or '.join(ORDERS)}, got {row.identifier(named.order)!r}."
            )
    return axes


def _range(row: FileRow, field: str) -> str:
    value = row.values.get(field)
    if not isinstance(value, list):
        return _spaceless(row.identifier(field))
    try:
        return str(ScoreRange.parse(value))
    except UserError as error:
        raise UserError(f"{row.place}: field '{field}': {error}") from error


def _spaceless(shown: str) -> str:
    return shown.replace("–", "-").replace(" ", "")


def _is_under(condition: Condition, axes: Mapping[str, str]) -> bool:
    return all(_spaceless(str(getattr(condition, axis))) == _spaceless(value) for axis, value in axes.items())


def _turned(condition: Condition) -> Condition:
    return replace(condition, order=next(order for order in ORDERS if order != condition.order))


def _key(prompt: Prompt) -> _Key:
    return prompt.example.example_id, prompt.condition


def _first(names: Sequence[str], joint: str = ", ") -> str:
    more = len(names) - _NAMED
    return joint.join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
