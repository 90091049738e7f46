"""Texts in files of any kind, with human scores or without."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from judgebench.data.dataset import Dataset
from judgebench.data.fields import (
    Rated,
    ScoredFields,
    TextFields,
    dataset_of,
    perhaps_scored_example,
    read_dataset,
    scored_example,
)
from judgebench.data.layouts import Layouts, left_out_note, merged
from judgebench.data.module import ANY_KIND, JudgeDataModule
from judgebench.data.rows import FileRow, data_files, file_rows
from judgebench.runtime.errors import UserError


class JsonLines(JudgeDataModule):
    """Texts that people rated: your own, or published ones whose layouts are declared; JSON (one list, or an object a
    line), .csv, .tsv or .parquet, one file or a folder of them.

    Args:
        fields: see `ScoredFields`; of your own file, in which not every text need be rated.
        layouts: those of published files, as `{files: PATTERN, rows: PATH, fields: ...}` (see `Layout`). Rows without a
            text or a score are left out, and those about one text are put together.
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
        layouts: Sequence[Mapping[str, Any]] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self.name = str(name) if name else (Path(path).stem if path else "jsonl")
        self.layouts = Layouts.parse(ScoredFields, fields, layouts)
        self._given_scale = _parse_scale(scale)

    def load(self) -> Dataset:
        path, needed = self.given_path(ANY_KIND), self.layouts.declared
        found, left = self.layouts.read(path, scored_example if needed else perhaps_scored_example, self.published)
        fields = self.layouts.known[0].fields
        if not needed:
            self._check_rated(path, found)
        if needed or fields.rater is not None or fields.systems is not None:
            found, incomplete = merged(found, fields.example_id is not None, needed)
            left += incomplete
        if left:
            self.note = left_out_note(left)
        scale = self._given_scale
        if isinstance(scale, dict) and self.layouts.declared and found:  # of layouts, some lack a dimension
            scale = {name: ends for name, ends in scale.items() if name in found[0].scores}
        return dataset_of(found, scale)

    def _check_rated(self, path: Path, found: Sequence[Rated]) -> None:
        """`UserError` where nobody rated a dimension: that of the first row, which tells what fields it has."""
        (layout,) = self.layouts.known
        human = layout.fields.human
        unrated = {name for one in found for name in one.scores} - {
            name for one in found for name, given in one.scores.items() if given
        }
        if not unrated and any(one.scores for one in found):
            return
        if unrated and isinstance(human, str):
            human = {name: f"{human}.{name}" for name in unrated}
        elif not isinstance(human, str):
            human = {name: field for name, field in human.items() if name in unrated}
        needed = replace(layout, fields=replace(layout.fields, human=human))
        replace(self.layouts, known=[needed]).read(path, scored_example)


class Unrated(JudgeDataModule):
    """Texts without human scores, in files of any kind, or given as they are (`rows`); a calibrated judge is asked
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
            rows = chain.from_iterable(map(file_rows, data_files(self.given_path(ANY_KIND))))
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
