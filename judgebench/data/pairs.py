"""Pairs of texts: each judged text against others of its source, or your own pairs with the preferences of people."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from judgebench.data.dataset import Dataset
from judgebench.data.fields import RowFields, Scores, read_dataset
from judgebench.data.module import JSON_LINES, JudgeDataModule
from judgebench.data.rows import FileRow, json_lines
from judgebench.runtime.errors import UserError
from judgebench.types import Example

ALL = "all"

FIRST, SECOND, TIE = LABELS = ("first", "second", "tie")
"""The three preferences; below, how much each is worth to the first text."""
_WORTH = {FIRST: 1.0, SECOND: -1.0, TIE: 0.0}

_CODES = {0.0, 1.0, 2.0}
"""Numbers that name a side as often as they measure a preference."""

_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Rivals:
    """Number of other texts of its group that each text is compared with, and their draw.

    Attributes:
        count: None takes all. A group with fewer others has each text meet all of them.
        seed: of the draw.

    Raises:
        UserError: from `parse`, anything else than a count of at least 1 or `all`, and a seed of at least 0.
    """

    count: int | None = 3
    seed: int = 0

    @classmethod
    def parse(cls, rivals: Any, seed: Any) -> Rivals:
        """From the config keys `prompt.rivals` and `prompt.rivals_seed`."""
        if rivals != ALL and (type(rivals) is not int or rivals < 1):
            raise UserError(f"prompt.rivals: {rivals!r} is neither a whole number of at least 1 nor all.")
        if type(seed) is not int or seed < 0:
            raise UserError(f"prompt.rivals_seed: {seed!r} is not a whole number of at least 0.")
        return cls(None if rivals == ALL else rivals, seed)

    def of(self, group_size: int) -> int:
        """Number of rivals of a text of such a group."""
        others = group_size - 1
        return others if self.count is None else min(self.count, others)


def pairs(examples: Iterable[Example], rivals: Rivals) -> list[Example]:
    """One example a pair: a text with its rival, its human scores less the rival's.

    The texts of a group are laid on a circle in a drawn order, and each meets the next ones on it: every text is rival
    as often as it is judged. Two texts meet once where the group has more than twice as many texts as a text has
    rivals. What is drawn for a group depends on the seed and on the names of its own texts alone. A text without others
    in its group is compared with nothing and left out.

    Args:
        examples: judged alone so far; those of a group need not stand together.
        rivals: how many, and by which draw.

    Returns:
        The pairs, a text's together, texts in the order given.

    Raises:
        UserError: no group has two texts, or two pairs would have one name.
    """
    listed = list(examples)
    groups: dict[str, list[Example]] = {}
    for example in listed:
        groups.setdefault(example.group_id, []).append(example)
    against = {text.example_id: met for group in groups.values() for text, met in _circle(group, rivals)}
    made = [_pair(text, rival) for text in listed for rival in against[text.example_id]]
    if not made:
        raise UserError(
            "prompt.rivals: every text of this data is alone in its group, so there is nothing to compare it with; "
            "give data with several texts a group_id, or judge them alone with prompt=paper."
        )
    names: set[str] = set()
    for pair in made:
        if pair.example_id in names:
            raise UserError(
                f"prompt.rivals: two pairs of texts would be called {pair.example_id!r}; give examples names without ~."
            )
        names.add(pair.example_id)
    return made


def paired_systems(examples: Iterable[Example]) -> list[str]:
    """The systems that wrote the texts of pairs, in order of appearance."""
    return list(dict.fromkeys(name for pair in examples for name in (pair.system_id, pair.rival_system_id)))


def _circle(group: Sequence[Example], rivals: Rivals) -> list[tuple[Example, list[Example]]]:
    """Each text with those that it meets."""
    ordered = sorted(group, key=lambda example: example.example_id)
    names = "\0".join(example.example_id for example in ordered)
    digest = hashlib.sha256(f"{group[0].group_id}\0{names}".encode()).digest()
    order = np.random.default_rng([rivals.seed, int.from_bytes(digest[:8], "big")]).permutation(len(ordered))
    circle = [ordered[i] for i in order]
    steps = range(1, rivals.of(len(circle)) + 1)
    return [(text, [circle[(i + step) % len(circle)] for step in steps]) for i, text in enumerate(circle)]


def _pair(text: Example, rival: Example) -> Example:
    return replace(
        text,
        example_id=f"{text.example_id}~{rival.example_id}",
        human={dimension: score - rival.human[dimension] for dimension, score in text.human.items()},
        rival_id=rival.example_id,
        rival=rival.output,
        rival_system_id=rival.system_id,
    )


@dataclass(frozen=True, kw_only=True)
class PairFields(RowFields):
    """Fields of rows with two texts each and the preference between them.

    Attributes:
        source: what both texts answer to.
        first, second: the two texts.
        preference: a field, of the data's one dimension; or a mapping dimension -> field.
        first_system, second_system: what wrote them; default "first" and "second".
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
        """True where a number that is no label counts by its sign: where no label is a number."""
        return not any(_NUMBER.fullmatch(label) for label in self.meanings)

    def by_sign(self, value: Any) -> bool:
        """True of a number that counts by its sign."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.signed and _spelled(value) not in self.meanings

    def read(self, row: FileRow, name: str) -> float:
        """Preference for the first text that a row's field states: its label's meaning, or, where numbers are `signed`,
        the number that it holds.

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
