"""Your own texts, one JSON object a line: with human scores, without, or in pairs with the preferences of people."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from judgebench.data.dataset import Dataset
from judgebench.data.fields import RowFields, ScoredFields, Scores, TextFields, read_dataset, scored_example
from judgebench.data.module import JSON_LINES, JudgeDataModule
from judgebench.data.rows import FileRow, json_lines
from judgebench.runtime.errors import UserError
from judgebench.types import Example


class JsonLines(JudgeDataModule):
    """Your own labelled data, one JSON object a line.

    Args:
        fields: see `ScoredFields`.
        scale: the humans' own scale: [low, high] for all dimensions, or a mapping dimension -> [low, high] (a dimension
            not named is not checked), or None (nothing is).
        name: in tables; None takes the file's name without its ending.

    Example:
        JsonLines("mine.jsonl", fields={"source": "article", "output": "summary", "human": "scores"}, scale=[1, 5])
    """

    groups_are = "groups"

    def __init__(
        self,
        path: str | None = None,
        fields: Mapping[str, Any] | None = None,
        scale: Mapping[str, Sequence[float]] | Sequence[float] | None = None,
        name: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self.name = str(name) if name else (Path(path).stem if path else "jsonl")
        self.fields = ScoredFields.parse({} if fields is None else fields)
        self._given_scale = _parse_scale(scale)

    def load(self) -> Dataset:
        rows = json_lines(self.given_path(JSON_LINES))
        return read_dataset(rows, partial(scored_example, self.fields), self._given_scale)


class Unrated(JudgeDataModule):
    """Texts without human scores, one JSON object a line, or given as they are (`rows`); a calibrated judge is asked
    about them, by `dimensions`. All are the test split. See `TextFields` for `fields`.

    Raises:
        UserError: fields that are none of these; from `setup`, everything that is wrong with the rows.
    """

    groups_are = "groups"

    def __init__(
        self,
        path: str | None = None,
        fields: Mapping[str, Any] | None = None,
        dimensions: Sequence[str] = ("quality",),
        rows: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
        limit_groups: int | None = None,
    ) -> None:
        super().__init__(path, limit_groups=limit_groups, dev_share=0)
        self.name = name or "texts"
        self._fields = TextFields.parse({} if fields is None else fields)
        self._human = dict.fromkeys(map(str, dimensions), math.nan)
        self._rows = rows

    def load(self) -> Dataset:
        rows: Iterable[FileRow]
        if self._rows is not None:
            rows = [FileRow(values, f"text {i}", i) for i, values in enumerate(self._rows, start=1)]
        else:
            rows = json_lines(self.given_path(JSON_LINES))
        return replace(read_dataset(rows, lambda row: [(self._fields.example(row, self._human), {})]), rated=False)


def _parse_scale(given: Any) -> dict[str, tuple[float, float]] | tuple[float, float] | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(dimension): _scale_ends(f"data.scale.{dimension}", pair) for dimension, pair in given.items()}
    return _scale_ends("data.scale", given, ", or a mapping dimension -> such a pair, or null")


def _scale_ends(key: str, given: Any, or_else: str = "") -> tuple[float, float]:
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if len(numbers) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers):
        with suppress(OverflowError):  # whole numbers that are too long to be floats
            low, high = map(float, numbers)
            if math.isfinite(low) and math.isfinite(high) and low < high:
                return low, high
    raise UserError(f"{key} must be the lowest and the highest human score, as in [1, 5]{or_else}, got {given!r}.")


FIRST, SECOND, TIE = LABELS = ("first", "second", "tie")
"""The three preferences; below, how much each is worth to the first text."""
_WORTH = {FIRST: 1.0, SECOND: -1.0, TIE: 0.0}

_CODES = {0.0, 1.0, 2.0}
"""Numbers that name a side as often as they measure a preference."""

_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class PairFields(RowFields):
    """Fields of rows with two texts each and the preference between them.

    Attributes:
        source: what both texts answer to.
        preference: a field, of the data's one dimension; or a mapping dimension -> field.
        first_system, second_system: what wrote the texts; default "first" and "second".
    """

    source: str
    first: str
    second: str
    preference: str | Mapping[str, str]
    first_system: str | None = None
    second_system: str | None = None

    needed: ClassVar[tuple[str, ...]] = ("source", "first", "second", "preference")
    by_dimension: ClassVar[str] = "preference"
    shown: ClassVar[str] = "{source: prompt, first: answer_a, second: answer_b, preference: winner}"

    @classmethod
    def parse(cls, given: Any) -> Self:
        """See `RowFields.parse`.

        Raises:
            UserError: as there, or one system is named without the other.
        """
        fields = super().parse(given)
        if (fields.first_system is None) != (fields.second_system is None):
            raise UserError(
                "data.fields: first_system and second_system go together; name the fields of both, or none."
            )
        return fields


@dataclass(frozen=True)
class Labels:
    """The values that stand for preferences: words in any case, numbers, true and false.

    Attributes:
        meanings: label as `_spelled` writes it -> 1 where the first text is preferred, -1 the second, 0 neither.
    """

    meanings: Mapping[str, float] = field(default_factory=lambda: dict(_WORTH))

    @classmethod
    def parse(cls, given: Any) -> Labels:
        """From configuration: first, second and tie, each a label or a list of labels; else `UserError`."""
        if not isinstance(given, Mapping) or set(given) != set(LABELS):
            raise UserError(
                f"data.labels must say what stands for {', '.join(LABELS)}, as in {{first: model_a, second: model_b, "
                f"tie: [tie, both bad]}}, got {given!r}."
            )
        meanings: dict[str, float] = {}
        for meaning, labels in given.items():
            several = isinstance(labels, Sequence) and not isinstance(labels, str)
            for label in labels if several else [] if labels is None else [labels]:
                if not (spelled := _spelled(label)):
                    raise UserError(f"data.labels.{meaning}: {label!r} is not a word, a number, true or false.")
                if meanings.setdefault(spelled, _WORTH[meaning]) != _WORTH[meaning]:
                    raise UserError(f"data.labels.{meaning}: {label!r} stands for something else already.")
        return cls(meanings)

    @property
    def signed(self) -> bool:
        """True where a number that is no label counts by its sign: where no label is a number."""
        return not any(_NUMBER.fullmatch(label) for label in self.meanings)

    def by_sign(self, value: Any) -> bool:
        """True of a number that counts by its sign."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.signed and _spelled(value) not in self.meanings

    def read(self, row: FileRow, name: str) -> float:
        """Preference for the first text that a row's field states: its label's meaning, or, where numbers are `signed`,
        the number that it holds; `UserError` where the field is missing, or no label explains its value."""
        value = row.values.get(name)
        spelled = _spelled(value)
        if spelled in self.meanings:
            return self.meanings[spelled]
        if value is None or self.by_sign(value):
            return row.number(name)
        shown = repr(value)
        raise UserError(
            f"{row.place}: field '{name}' must be one of {', '.join(map(repr, self.meanings))} (data.labels)"
            f"{', or a number above 0 where the first text is preferred' if self.signed else ''}, got "
            f"{shown if len(shown) <= 60 else shown[:57] + '...'}."
        )


def _spelled(value: Any) -> str:
    """A label or a value as both are compared: lower case, a number in its shortest form; "" for what is no label.

    Example:
        >>> [_spelled(value) for value in (" Model_A ", 1, 1.0, "1.0", True, "true", 0.5, None)]
        ['model_a', '1', '1', '1', 'true', 'true', '0.5', '']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if not isinstance(value, str):
        return ""
    word = value.strip().lower()
    return _spelled(float(word)) if _NUMBER.fullmatch(word) else word


class JsonPairs(JudgeDataModule):
    """Pairs of texts with what people preferred, one JSON object a line. Several people may have compared the same two:
    a row each; together they are one comparison.

    Args:
        fields, labels: see `PairFields` and `Labels`.
        dimension: what the preference is about, where `fields.preference` is one field.
        name: in tables; None takes the file's name without its ending.
    """

    groups_are = "groups"
    paired = True

    def __init__(
        self,
        path: str | None = None,
        fields: Mapping[str, Any] | None = None,
        labels: Mapping[str, Any] | None = None,
        dimension: str = "overall",
        name: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self.name = str(name) if name else (Path(path).stem if path else "jsonl_pairs")
        self.fields = PairFields.parse({} if fields is None else fields)
        self.labels = Labels() if labels is None else Labels.parse(labels)
        if not isinstance(dimension, str) or not dimension:
            raise UserError(f"data.dimension: {dimension!r} is not a name; say what was compared, as overall.")
        self.dimension = dimension

    def load(self) -> Dataset:
        """See `JudgeDataModule.load`. A text goes by its group and its system, with a number where a system has several
        texts in a group.

        Raises:
            UserError: as there; or numbers without a label that are 0, 1 and 2 alone: they may be codes, by whose sign
                the first text always wins.
        """
        path, preference = self.given_path(JSON_LINES), self.fields.preference
        preferences = {self.dimension: preference} if isinstance(preference, str) else preference
        texts: dict[tuple[str, str], list[str]] = {}
        by_sign: dict[str, set[float]] = {name: set() for name in preferences.values()}

        def read(row: FileRow) -> list[tuple[Example, Scores]]:
            human = {dimension: self.labels.read(row, name) for dimension, name in preferences.items()}
            for name, numbers in by_sign.items():
                numbers.update({float(row.values[name])} if self.labels.by_sign(row.values[name]) else ())
            return [(self._pair(row, human, texts), {})]

        dataset = read_dataset(json_lines(path), read)
        for name, numbers in by_sign.items():
            _check_codes(path, name, numbers)
        return dataset

    def _pair(self, row: FileRow, human: Mapping[str, float], texts: dict[tuple[str, str], list[str]]) -> Example:
        """A row's pair; `texts` are those of each group and system so far."""
        fields = self.fields
        source, context = row.text(fields.source), fields.context_of(row)
        group = fields.group_of(row, source, context)
        first, second = (_output(row, name) for name in (fields.first, fields.second))
        system = row.identifier(fields.first_system) if fields.first_system else FIRST
        other = row.identifier(fields.second_system) if fields.second_system else SECOND
        own_id, rival_id = _text_name(texts, group, system, first), _text_name(texts, group, other, second)
        if own_id == rival_id:
            raise UserError(f"{row.place}: both texts are the same one of {system!r}; remove the row.")
        return Example(
            example_id=fields.example_of(row),
            group_id=group,
            system_id=system,
            source=source,
            output=first,
            human=human,
            context=context,
            rival_id=rival_id,
            rival=second,
            rival_system_id=other,
            own_id=own_id,
        )


def _check_codes(path: Path, name: str, numbers: Collection[float]) -> None:
    if len(numbers) > 1 and _CODES.issuperset(numbers):
        listed = ", ".join(f"{number:g}" for number in sorted(numbers))
        raise UserError(
            f"{path.name}: the numbers of field '{name}' are {listed}, none of them below 0, so by their sign the "
            "second text is preferred nowhere; where they are codes, say what each stands for, as in "
            "data.labels={first: 1, second: 2, tie: 0}."
        )


def _output(row: FileRow, name: str) -> str:
    text = row.text(name)
    if not text.strip():
        raise UserError(f"{row.place}: field '{name}' is an empty text; write it, or remove the row.")
    return text


def _text_name(texts: dict[tuple[str, str], list[str]], group: str, system: str, text: str) -> str:
    known = texts.setdefault((group, system), [])
    if text not in known:
        known.append(text)
    number = known.index(text)
    return f"{group}/{system}" + (f"#{number + 1}" if number else "")
