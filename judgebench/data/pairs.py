"""Pairs of texts with the preferences of people, in files of any kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from judgebench.data.dataset import ANY_KIND, Dataset, RatingDataset
from judgebench.data.fields import (
    ByDimension,
    Layouts,
    Name,
    Names,
    Rated,
    RowFields,
    check_rated,
    dataset_of,
    left_out_note,
)
from judgebench.data.rows import FileRow
from judgebench.settings.fields import Words, settings_of
from judgebench.types import Example, Records, Row
from judgebench.words.errors import UserError, shown

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
        preference: a field, of the data's one dimension; or a mapping dimension -> field. It holds
            one label, or an object rater -> label; or it is a list of fields, one a rater. Of
            several, the mean counts.
        first_system, second_system: what wrote the texts; default "first" and "second".
        systems: instead of these, the one field that names both systems: an object whose keys they
            are, or text with `_` between them. In all other entries `{first}` and `{second}` stand
            for the names.
    """

    source: Names
    first: Name
    second: Name
    preference: ByDimension
    first_system: Name | None = None
    second_system: Name | None = None
    systems: Name | None = None

    def __post_init__(self) -> None:
        if (self.first_system is None) != (self.second_system is None):
            raise UserError(
                "data.fields: first_system and second_system go together; name the fields of both, "
                "or none."
            )

    def named(self, row: FileRow) -> FileRow:
        """The row with the names of both systems."""
        first = FIRST
        second = SECOND
        if self.systems is not None:
            value = row.value(self.systems)
            both: list[Any] = list(value) if isinstance(value, Mapping) else []
            if isinstance(value, str):
                both = value.split("_")
            if len(both) != 2:
                raise UserError(
                    f"{row.place}: field '{self.systems}' must name two systems, as model_other, "
                    f"got {value!r}."
                )
            first, second = both
        elif self.first_system is not None and self.second_system is not None:
            first = row.identifier(self.first_system)
            second = row.identifier(self.second_system)
        return row.named(first=first, second=second)


Label = Words | int | float | bool


@dataclass(frozen=True)
class Labels:
    """The values that stand for preferences, each a label or several: words in any case, numbers,
    true and false; `UserError` where one stands for two."""

    first: Label | Sequence[Label] | None
    second: Label | Sequence[Label] | None
    tie: Label | Sequence[Label] | None

    def __post_init__(self) -> None:
        for meaning, worth in _WORTH.items():
            for label in self._of(meaning):
                if self.meanings[_spelled(label)] != worth:
                    raise UserError(
                        f"data.labels.{meaning}: {label!r} stands for something else already."
                    )

    @cached_property
    def meanings(self) -> dict[str, float]:
        """Label, as `_spelled` writes it, -> 1 where the first text is preferred, -1 the second, 0
        neither."""
        meanings: dict[str, float] = {}
        for meaning, worth in _WORTH.items():
            for label in self._of(meaning):
                meanings.setdefault(_spelled(label), worth)
        return meanings

    def _of(self, meaning: str) -> Sequence[Any]:
        labels = getattr(self, meaning)
        if labels is None:
            return ()
        return labels if isinstance(labels, Sequence) and not isinstance(labels, str) else [labels]

    def by_sign(self, value: Any) -> bool:
        """True of a number that counts by its sign: one that is not a label, where no label is a
        number."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and not any(map(_NUMBER.fullmatch, self.meanings))

    def read(self, row: FileRow, name: str) -> float:
        """Preference for the first text that a row's field states: its label's meaning, or the
        number that counts by its sign; `UserError` where the field is missing, or no label explains
        its value."""
        value = row.value(name)
        if (spelled := _spelled(value)) in self.meanings:
            return self.meanings[spelled]
        for side in (FIRST, SECOND):
            if value is not None and row.names.get(side) == value:
                return _WORTH[side]
        if value is None or self.by_sign(value):
            return row.number(name)
        numbers = (
            ", or a number above 0 where the first text is preferred" if self.by_sign(0) else ""
        )
        raise UserError(
            f"{row.place}: field '{name}' must be one of {', '.join(map(repr, self.meanings))} "
            f"(data.labels){numbers}, got {shown(value)}."
        )


def _spelled(value: Any) -> str:
    """A label or a value as both are compared: lower case, a number in its shortest form; "" for no
    label.

    Example:
        >>> [_spelled(value) for value in (" Model_A ", 1, 1.0, "1.0", True, "true", 0.5, None)]
        ['model_a', '1', '1', '1', 'true', 'true', '0.5', '']
    """
    word = str(value).strip().lower() if isinstance(value, str | int | float) else ""
    if not isinstance(value, bool) and _NUMBER.fullmatch(word):
        number = float(word)
        return str(int(number)) if number.is_integer() else repr(number)
    return word


class JsonPairs(RatingDataset):
    """Pairs of texts with what people preferred, in files of the kinds that `JsonLines` reads.
    Several people may have compared the same two: a row each; together they are one comparison. In
    your own file, not every pair need have a preference.

    A text goes by its group and its system, with a number where a system has several texts in a
    group. Numbers without a label that are 0, 1 and 2 alone are a `UserError`: they may be codes,
    by whose sign the first text always wins.

    Args:
        fields, labels: see `PairFields` and `Labels`. A system's own name is a label of its text
            too.
        layouts: those of published files, as of `JsonLines`.
        dimension: what the preference is about, where `fields.preference` is one field.
        name: in tables; None takes the file's name without its ending.
        sheet: of a workbook (.xlsx); None takes the first.
    """

    groups_are = "groups"
    expects = ANY_KIND
    paired = True

    def __init__(
        self,
        path: str | None = None,
        fields: Row | None = None,
        labels: Row | None = None,
        dimension: str = "overall",
        name: str | None = None,
        layouts: Records | None = None,
        sheet: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self.name = str(name or Path(path or "jsonl_pairs").stem)
        self.layouts = Layouts.parse(PairFields, fields, layouts, sheet)
        self.labels = settings_of(
            Labels, labels or {label: label for label in LABELS}, "data.labels"
        )
        if not isinstance(dimension, str) or not dimension:
            raise UserError(
                f"data.dimension: {dimension!r} is not a name; say what was compared, as overall."
            )
        self.dimension = dimension

    def load(self) -> Dataset:
        path = self.given_path()
        known: dict[tuple[str, str], list[str]] = {}
        by_sign: dict[str, set[float]] = {}

        def fields_of(fields: PairFields) -> Mapping[str, str | Sequence[str]]:
            preference = fields.preference
            return preference if isinstance(preference, Mapping) else {self.dimension: preference}

        def read(fields: PairFields, row: FileRow) -> list[Rated]:
            row = fields.named(row)
            scores: dict[str, dict[str, float]] = {}
            for dimension, names in fields_of(fields).items():
                # rater -> the field of their preference
                if not isinstance(names, str):
                    raters = {name: name for name in names}
                elif isinstance(labels := row.value(names), Mapping):
                    raters = {str(rater): f"{names}.{rater}" for rater in labels}
                else:
                    raters = {"1": names}
                scores[dimension] = {}
                for rater, name in raters.items():
                    value = row.value(name)
                    signed = self.labels.by_sign(value)
                    if signed:
                        by_sign.setdefault(name, set()).add(float(value))
                    if self.layouts.declared or value is not None:
                        scores[dimension][rater] = self.labels.read(row, name)
            return [Rated(_pair(fields, row, known), scores, row.place)]

        texts, left = self.layouts.read(path, read, self.published)
        self.note = left_out_note(left) or self.note
        if not self.layouts.declared:
            check_rated(
                path, texts, fields_of(self.layouts.known[0].fields), "data.fields.preference"
            )
        for name, numbers in by_sign.items():
            if len(numbers) > 1 and _CODES.issuperset(numbers):
                listed = ", ".join(f"{number:g}" for number in sorted(numbers))
                raise UserError(
                    f"{path.name}: the numbers of field '{name}' are {listed}, none of them below "
                    "0, so by their sign the second text is preferred nowhere; where they are "
                    "codes, say what each stands for, as in data.labels={first: 1, second: 2, tie: "
                    "0}."
                )
        return dataset_of(texts)


def _pair(fields: PairFields, row: FileRow, known: dict[tuple[str, str], list[str]]) -> Example:
    """A row's pair; `known` are the texts of each group and system so far."""
    source = row.text(fields.source)
    context = fields.context_of(row)
    systems = (row.names[FIRST], row.names[SECOND])
    group = fields.group_of(row, source, context)
    texts = []
    ids = []
    for name, system in zip((fields.first, fields.second), systems, strict=True):
        texts.append(text := row.text(name))
        if not text.strip():
            raise UserError(
                f"{row.place}: field '{row.filled(name)}' is an empty text; write it, or remove "
                "the row."
            )
        by_system = known.setdefault((group, system), [])
        if text not in by_system:
            by_system.append(text)
        number = by_system.index(text)
        ids.append(f"{group}/{system}" + (f"#{number + 1}" if number else ""))
    if ids[0] == ids[1]:
        raise UserError(
            f"{row.place}: both texts are the same one of {systems[0]!r}; remove the row."
        )
    return Example(
        fields.example_of(row),
        group,
        systems[0],
        source,
        texts[0],
        {},
        context,
        rival_id=ids[1],
        rival=texts[1],
        rival_system_id=systems[1],
        own_id=ids[0],
    )
