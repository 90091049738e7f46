"""Texts in files of any kind, with human scores or without."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from judgebench.data.dataset import Dataset
from judgebench.data.fields import Rated, ScoredFields, Scores, TextFields, dataset_of
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
        self._given_scale: Any = scale
        if isinstance(scale, Mapping):
            self._given_scale = {str(name): _scale_ends(f"data.scale.{name}", ends) for name, ends in scale.items()}
        elif scale is not None:
            self._given_scale = _scale_ends("data.scale", scale, ", or a mapping dimension -> such a pair, or null")

    def load(self) -> Dataset:
        path, needed = self.given_path(ANY_KIND), self.layouts.declared
        texts, left = self.layouts.read(path, partial(ScoredFields.rated, needed=needed), self.published)
        fields = self.layouts.known[0].fields
        if not needed:
            self._check_rated(path, texts)
        if needed or fields.rater is not None or fields.systems is not None:
            texts, incomplete = merged(texts, fields.example_id is not None, needed)
            left += incomplete
        if left:
            self.note = left_out_note(left)
        scale = self._given_scale
        if isinstance(scale, dict) and self.layouts.declared and texts:  # of layouts, some lack a dimension
            scale = {name: ends for name, ends in scale.items() if name in texts[0].scores}
        return dataset_of(texts, scale)

    def _check_rated(self, path: Path, texts: Sequence[Rated]) -> None:
        """`UserError` where nobody rated a dimension: that of the first row, which tells what fields it has."""
        (layout,) = self.layouts.known
        human = layout.fields.human
        names = {name for text in texts for name in text.scores}
        unrated = names - {name for text in texts for name, scores in text.scores.items() if scores}
        if names and not unrated:
            return
        if unrated and isinstance(human, str):
            human = {name: f"{human}.{name}" for name in unrated}
        elif not isinstance(human, str):
            human = {name: field for name, field in human.items() if name in unrated}
        needed = replace(layout, fields=replace(layout.fields, human=human))
        replace(self.layouts, known=[needed]).read(path, ScoredFields.rated)


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
        self._scores: Scores = {str(dimension): {} for dimension in dimensions}
        self._rows = rows

    def load(self) -> Dataset:
        rows: Iterable[FileRow]
        if self._rows is not None:
            rows = [FileRow(values, f"text {i}", i) for i, values in enumerate(self._rows, start=1)]
        else:
            rows = chain.from_iterable(map(file_rows, data_files(self.given_path(ANY_KIND))))
        texts = [Rated(self._fields.example(row), self._scores, row.place) for row in rows]
        return replace(dataset_of(texts), rated=False)


def _scale_ends(key: str, ends: Any, or_else: str = "") -> tuple[float, float]:
    numbers = list(ends) if isinstance(ends, Sequence) and not isinstance(ends, str) else []
    if len(numbers) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers):
        with suppress(OverflowError):  # whole numbers that are too long to be floats
            low, high = map(float, numbers)
            if math.isfinite(low) and math.isfinite(high) and low < high:
                return low, high
    raise UserError(f"{key} must be the lowest and the highest human score, as in [1, 5]{or_else}, got {ends!r}.")
