"""Declared descriptions of rows, and the examples that they make: which field of a row holds what."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from judgebench.config.fields import known_keys, plain
from judgebench.data.dataset import Dataset, completed, group_hash
from judgebench.data.rows import FileRow
from judgebench.runtime.errors import UserError
from judgebench.types import Example

Scores = Mapping[str, Mapping[str, float]]
"""Dimension -> rater -> the score that they gave one example; empty where nobody rated it. Raters without names are
"1", "2", ..."""


@dataclass
class Rated:
    """One text with the scores of its raters, and its place in its file. (Its human scores are not in the example.)"""

    example: Example
    scores: Scores
    place: str


@dataclass(frozen=True, kw_only=True)
class RowFields:
    """Fields that rows of all kinds may have; None where they have no such field.

    Attributes:
        example_id: default a row's `example_id`; where it has none, "line-N", N counted from 1.
        group_id: default a row's `group_id`; where it has none, a hash of source and context.
        context: further text beside the source; of several fields, their texts with a blank line between them.
    """

    example_id: str | None = None
    group_id: str | None = None
    context: str | Sequence[str] | None = None

    needed: ClassVar[tuple[str, ...]] = ()
    """Entries that must be given."""
    by_dimension: ClassVar[str] = ""
    """The needed entry that may also be a mapping dimension -> field."""
    several: ClassVar[tuple[str, ...]] = ("source", "context", "output")
    """Entries that may also be a list of fields."""
    shown: ClassVar[str]
    """A right `data.fields`, for errors."""

    @classmethod
    def parse(cls, fields: Any, where: str = "data.fields") -> Self:
        """From the config key `where`; `UserError` where it is no mapping, a needed entry is missing, or an entry is
        unknown or not a name."""
        fields = plain(fields)
        if not isinstance(fields, Mapping):
            raise UserError(f"{where} must be a mapping, as in {cls.shown}, got {fields!r}.")
        known = sorted((field.name for field in dataclasses.fields(cls)), key=lambda name: name not in cls.needed)
        known_keys(fields, known, where)
        for key in cls.needed:
            if fields.get(key) is None:
                raise UserError(f"{where}.{key} is not given; name the field of your rows that holds it.")
        names: dict[str, Any] = {}
        for key, value in fields.items():
            if key == cls.by_dimension and isinstance(value, Mapping):
                if not value:
                    raise UserError(f"{where}.{key} is empty; name at least one dimension and its field.")
                names[key] = {str(name): _names(f"{where}.{key}.{name}", field, True) for name, field in value.items()}
            elif value is not None:
                names[key] = _names(f"{where}.{key}", value, key in cls.several)
        return cls(**names)

    def rows_of(self, row: FileRow) -> list[FileRow]:
        """The row, once for each text that it is read for."""
        return [row]

    def example_of(self, row: FileRow) -> str:
        return _identifier(row, self.example_id, "example_id") or f"{row.within}line-{row.position}"

    def context_of(self, row: FileRow) -> str:
        """A row's further text; empty where there is none."""
        return row.text(self.context) if self.context else ""

    def group_of(self, row: FileRow, source: str, context: str) -> str:
        return _identifier(row, self.group_id, "group_id") or group_hash(source, context)


@dataclass(frozen=True, kw_only=True)
class TextFields(RowFields):
    """Fields of rows with one text each.

    Attributes:
        source: the article or dialogue that the text answers to.
        output: the judged text.
        system_id: default a row's `system_id`; where it has none, the name out of `systems`, else "system".
        systems: where a row holds the texts of several systems: the names of its columns, or the one field with an
            object whose keys they are; in all other entries `{system}` stands for the name.
        turns: the text between the turns of a dialogue in the source, which become lines.
    """

    source: str | Sequence[str] = "source"
    output: str | Sequence[str] = "output"
    system_id: str | None = None
    systems: str | Sequence[str] | None = None
    turns: str | None = None

    several: ClassVar[tuple[str, ...]] = (*RowFields.several, "systems")
    shown: ClassVar[str] = "{source: article, output: summary}"

    def rows_of(self, row: FileRow) -> list[FileRow]:
        """The row once for each system whose text it holds."""
        if self.systems is None:
            return [row]
        names = row.inner(self.systems).values if isinstance(self.systems, str) else self.systems
        return [row.named(system=str(name)) for name in names]

    def example(self, row: FileRow) -> Example:
        """The example of a row, without human scores."""
        source, context = row.text(self.source), self.context_of(row)
        source = source.replace(self.turns, "\n") if self.turns else source
        return Example(
            example_id=self.example_of(row),
            group_id=self.group_of(row, source, context),
            system_id=_identifier(row, self.system_id, "system_id") or row.names.get("system", "system"),
            source=source,
            output=row.text(self.output),
            human={},
            context=context,
        )


@dataclass(frozen=True, kw_only=True)
class ScoredFields(TextFields):
    """Fields of rows with one text each and its human scores.

    Attributes:
        human: the field that holds an object dimension -> score; or a mapping dimension -> field of its score. A score
            is a number, or what several raters gave, whose mean counts: a list, an object rater -> score, or a list of
            fields, each of which names a rater. Not every rater need have rated everything, and not every text need
            have a rating.
        rater: the field with the name of the rater, where each row is what one rater gave one text.
    """

    human: str | Mapping[str, str | Sequence[str]] = "human"
    rater: str | None = None

    needed: ClassVar[tuple[str, ...]] = ("source", "output", "human")
    by_dimension: ClassVar[str] = "human"
    shown: ClassVar[str] = "{source: article, output: summary, human: scores}"

    def rated(self, row: FileRow, needed: bool = True) -> list[Rated]:
        """The row's one text with its scores; see `scores`."""
        scores = self.scores(row, needed)
        return [Rated(self.example(row), scores, row.place)]

    def scores(self, row: FileRow, needed: bool = True) -> Scores:
        """The scores of a row's raters; where they are not `needed`, a dimension that nobody rated has none."""
        inner, fields = row, self.human
        if isinstance(fields, str):
            if not needed and not row.has(fields):
                return {}
            inner = row.inner(fields)
            fields = {dimension: dimension for dimension in inner.values}
        scores = {
            dimension: inner.scores(field) if needed or inner.is_rated(field) else {}
            for dimension, field in fields.items()
        }
        if self.rater is None or not any(scores.values()):
            return scores
        name = row.identifier(self.rater)
        return {dimension: {name: mean} if scores[dimension] else {} for dimension, mean in mean_scores(scores).items()}


@dataclass(frozen=True, kw_only=True)
class PublishedFields(ScoredFields):
    """Fields of a published data set, whose examples are named by their group and their system.

    Attributes:
        group_id: a field that rows may lack; then a hash of the source, and of the context where there is such a field.
        dimensions: what each row has scores on; what else `human` holds is left out.
        optional: further dimensions, of rows that have them.
        no_context: the context, without spaces around it, that says that there is none.
    """

    system_id: str | None = "system_id"
    human: str = "scores"
    dimensions: Sequence[str] = ()
    optional: Sequence[str] = ()
    no_context: str = ""

    def example(self, row: FileRow) -> Example:
        example = super().example(row)
        return dataclasses.replace(example, example_id=f"{example.group_id}/{example.system_id}")

    def context_of(self, row: FileRow) -> str:
        context = super().context_of(row)
        return "" if context.strip() == self.no_context else context

    def group_of(self, row: FileRow, source: str, context: str) -> str:
        if self.group_id and row.has(self.group_id):
            return row.identifier(self.group_id)
        return group_hash(source, context) if self.context else group_hash(source)

    def scores(self, row: FileRow, needed: bool = True) -> Scores:
        if not needed and not row.has(self.human):
            return {dimension: {} for dimension in self.dimensions}
        scores = row.inner(self.human)
        there = (*self.dimensions, *(dimension for dimension in self.optional if scores.has(dimension)))
        return {
            dimension: {"1": scores.number(dimension)} if needed or scores.has(dimension) else {} for dimension in there
        }


def mean_scores(scores: Scores) -> dict[str, float]:
    """Dimension -> the human score, the mean over raters; NaN where there is none."""
    return {name: sum(rated.values()) / len(rated) if rated else math.nan for name, rated in scores.items()}


def read_dataset(
    rows: Iterable[FileRow],
    read: Callable[[FileRow], Iterable[Rated]],
    scale: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
) -> Dataset:
    """The data set that rows hold, each of which is read as some texts; see `dataset_of`. `UserError` as in `rows` and
    `read`, where a row lacks a field or has one of the wrong type."""
    return dataset_of([text for row in rows for text in read(row)], scale)


def dataset_of(
    texts: Sequence[Rated], scale: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None
) -> Dataset:
    """The data set of some texts; the human score of each is the mean of its raters'.

    Args:
        scale: dimension -> (lowest, highest) human score; a pair is that of all dimensions.

    Raises:
        UserError: a score is not a number.
    """
    # single scores are kept of dimensions in which some example has two or more: [examples, raters], NaN for none
    several: dict[str, None] = {}
    for text in texts:
        for dimension, scores in text.scores.items():
            if any(map(math.isnan, scores.values())):
                raise UserError(
                    f"{text.place}, example '{text.example.example_id}': the human score nan for '{dimension}' is not "
                    "a finite number; give one, or null where nobody rated the text."
                )
            if len(scores) > 1:
                several[dimension] = None
    raters = dict.fromkeys(rater for text in texts for name in several for rater in text.scores.get(name, ()))
    columns = {rater: i for i, rater in enumerate(raters)}
    ratings = {dimension: np.full((len(texts), len(columns)), np.nan) for dimension in several}
    for dimension, table in ratings.items():
        for i, text in enumerate(texts):
            for rater, score in text.scores.get(dimension, {}).items():
                table[i, columns[rater]] = score
    places = [text.place for text in texts]
    examples = [dataclasses.replace(text.example, human=mean_scores(text.scores)) for text in texts]
    data = completed(Dataset(examples, {}, ratings, places, raters=tuple(raters)))
    if isinstance(scale, tuple):
        scale = dict.fromkeys(data.examples[0].human, scale) if texts else {}
    return dataclasses.replace(data, scale=scale or {})


def _identifier(row: FileRow, field: str | None, column: str) -> str | None:
    """The name in `field`, which a row must have; without a `field`, that in `column` where the row has one."""
    if field is None and not row.has(column):
        return None
    return row.identifier(field or column)


def _names(where: str, value: Any, several: bool) -> str | tuple[str, ...]:
    """The name of a field, or, where `several` are allowed, a list of names."""
    listed = value if several and isinstance(value, list) else [value]
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise UserError(
            f"{where} must be the name of a field{', or a list of names' if several else ''}, got {value!r}."
        )
    return tuple(listed) if isinstance(value, list) else value
