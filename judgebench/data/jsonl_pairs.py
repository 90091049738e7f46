"""Your own labelled pairs: one JSON object a line, two texts and which of them people preferred."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgebench.data.fields import context_of, example_of, group_of, parse_fields
from judgebench.data.loaded import Loaded
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import Row, json_lines
from judgebench.runtime.errors import UserError
from judgebench.types import Example

FIRST, SECOND, TIE = LABELS = ("first", "second", "tie")
"""What a preference says, and how much it is worth to the first text."""
_WORTH = {FIRST: 1.0, SECOND: -1.0, TIE: 0.0}

_CODES = {0.0, 1.0, 2.0}
"""Numbers that name a side as often as they measure a preference."""

_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")

_NEEDED = ("source", "first", "second", "preference")
_OPTIONAL = ("first_system", "second_system", "example_id", "group_id", "context")


@dataclass(frozen=True)
class PairFields:
    """Which field of a row holds what; None where the rows have no such field.

    Attributes:
        source: what both texts answer to.
        first, second: the two texts.
        preference: a field, of the data's one dimension; or a mapping dimension -> field.
        first_system, second_system: what wrote them; default "first" and "second".
        example_id: default a row's `example_id`; where it has none, "line-N", N counted from 1.
        group_id: default a row's `group_id`; where it has none, a hash of source and context.
        context: default empty.
    """

    source: str
    first: str
    second: str
    preference: str | Mapping[str, str]
    first_system: str | None = None
    second_system: str | None = None
    example_id: str | None = None
    group_id: str | None = None
    context: str | None = None

    @classmethod
    def parse(cls, given: Any) -> PairFields:
        """From configuration.

        Raises:
            UserError: no mapping, a needed entry is missing, an entry is unknown or not a name, or one system is named
                without the other.
        """
        example = "{source: prompt, first: answer_a, second: answer_b, preference: winner}"
        names = parse_fields(given, _NEEDED, _OPTIONAL, "preference", "its field", example)
        if ("first_system" in names) != ("second_system" in names):
            raise UserError(
                "data.fields: first_system and second_system go together; name the fields of both, or none."
            )
        return cls(**names)


@dataclass(frozen=True)
class Labels:
    """The values that stand for preferences: words in any case, numbers, true and false.

    A label and a value are the same where `_spelled` writes them alike, so that 1, 1.0 and "1" are one label.

    Attributes:
        meanings: label as `_spelled` writes it -> 1 where the first text is preferred, -1 the second, 0 neither.
    """

    meanings: Mapping[str, float] = field(default_factory=lambda: dict(_WORTH))

    @classmethod
    def parse(cls, given: Any) -> Labels:
        """From configuration: first, second and tie, each a label or a list of labels.

        Raises:
            UserError: anything else, or one label with two meanings.
        """
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
        """Whether a number that is no label counts by its sign: where no label is a number."""
        return not any(_NUMBER.fullmatch(label) for label in self.meanings)

    def by_sign(self, value: Any) -> bool:
        """Whether a value is a number that counts by its sign."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.signed and _spelled(value) not in self.meanings

    def read(self, row: Row, name: str) -> float:
        """By how much a row's field prefers the first text: what its label means, or, where numbers are `signed`, the
        number that it holds.

        Raises:
            UserError: the field is missing, or no label explains its value.
        """
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
        path: the file.
        fields: which field of a row holds what; see PairFields.
        labels: which values stand for first, second and tie; see Labels.
        dimension: what the preference is about, where `fields.preference` is one field.
        name: what tables call the data; None takes the file's name without its ending.
        **common: see JudgeDataModule.
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

    def load(self) -> Loaded:
        path = self.given_path("a file with one JSON object a line")
        return load_pairs(path, self.fields, self.labels, self.dimension)


def load_pairs(path: Path, fields: PairFields, labels: Labels, dimension: str) -> Loaded:
    """The pairs of a JSON-lines file.

    A text goes by its group and its system, with a number where one system has several texts in a group.

    Raises:
        UserError: what json_lines raises, or a row lacks a field or has one of the wrong type; names the line. Numbers
            without a label that are 0, 1 and 2 alone: they may be codes, by whose sign the first text always wins.
    """
    examples: list[Example] = []
    places: list[str] = []
    known: dict[tuple[str, str], list[str]] = {}
    preferences = {dimension: fields.preference} if isinstance(fields.preference, str) else fields.preference
    by_sign: dict[str, set[float]] = {name: set() for name in preferences.values()}
    for row in json_lines(path):
        source, context = row.text(fields.source), context_of(row, fields.context)
        group = group_of(row, fields.group_id, source, context)
        texts = [_output(row, one) for one in (fields.first, fields.second)]
        systems = [
            row.identifier(one) if one else default
            for one, default in ((fields.first_system, FIRST), (fields.second_system, SECOND))
        ]
        names = [_text_name(known, group, system, text) for system, text in zip(systems, texts, strict=True)]
        if names[0] == names[1]:
            raise UserError(f"{row.place}: both texts are the same one of {systems[0]!r}; remove the row.")
        examples.append(
            Example(
                example_id=example_of(row, fields.example_id),
                group_id=group,
                system_id=systems[0],
                source=source,
                output=texts[0],
                human={name: labels.read(row, one) for name, one in preferences.items()},
                context=context,
                rival_id=names[1],
                rival=texts[1],
                rival_system_id=systems[1],
                own_id=names[0],
            )
        )
        places.append(row.place)
        for name, numbers in by_sign.items():
            numbers.update({float(row.values[name])} if labels.by_sign(row.values[name]) else ())
    for name, numbers in by_sign.items():
        _check_codes(path, name, numbers)
    return Loaded(examples, {}, places=places)


def _check_codes(path: Path, name: str, numbers: Collection[float]) -> None:
    if len(numbers) > 1 and _CODES.issuperset(numbers):
        listed = ", ".join(f"{number:g}" for number in sorted(numbers))
        raise UserError(
            f"{path.name}: the numbers of field '{name}' are {listed}, none of them below 0, so by their sign the "
            "second text is preferred nowhere; where they are codes, say what each stands for, as in "
            "data.labels={first: 1, second: 2, tie: 0}."
        )


def _output(row: Row, name: str) -> str:
    text = row.text(name)
    if not text.strip():
        raise UserError(f"{row.place}: field '{name}' is an empty text; write it, or remove the row.")
    return text


def _text_name(known: dict[tuple[str, str], list[str]], group: str, system: str, text: str) -> str:
    held = known.setdefault((group, system), [])
    if text not in held:
        held.append(text)
    number = held.index(text)
    return f"{group}/{system}" + (f"#{number + 1}" if number else "")
