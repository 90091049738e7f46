"""Your own texts, one JSON object a line, with field names as you have them: with human scores, or without."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from judgebench.data.dataset import Dataset
from judgebench.data.fields import ScoredFields, Scores, TextFields, read_dataset, scored_example
from judgebench.data.module import JSON_LINES, JudgeDataModule
from judgebench.data.rows import FileRow, json_lines
from judgebench.runtime.errors import UserError
from judgebench.types import Example


class JsonLines(JudgeDataModule):
    """Your own labelled data, one JSON object a line.

    Args:
        path: the file.
        fields: which field of a row holds what; see `judgebench.data.fields.ScoredFields`.
        scale: the humans' own scale: [low, high] for all dimensions, or a mapping dimension -> [low, high] (a
            dimension not named is not checked), or None (nothing is).
        name: what tables call the data; None takes the file's name without its ending.
        **common: see JudgeDataModule.

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
        """See `JudgeDataModule.load`."""
        return read_dataset(json_lines(self.given_path(JSON_LINES)), self._read, self._given_scale)

    def _read(self, row: FileRow) -> list[tuple[Example, Scores]]:
        read = scored_example(self.fields, row)
        scale = self._given_scale
        for dimension, given in read[0][1].items():
            _check_raters(given, scale if isinstance(scale, tuple) else (scale or {}).get(dimension), dimension, row)
        return read


class Unrated(JudgeDataModule):
    """Texts without human scores, one JSON object a line, or given as they are; a calibrated judge is asked about them.
    All are the test split.

    Args:
        path: the file; None where `rows` are given.
        fields: which field of a row holds what; see `judgebench.data.fields.TextFields`.
        dimensions: what they are judged by.
        rows: the objects themselves.
        name: what the data is called; None takes the file's name without its ending.
        limit_groups: keep only the first so many groups.

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
        """See `JudgeDataModule.load`."""
        rows: Iterable[FileRow]
        if self._rows is not None:
            rows = [FileRow(values, f"text {i}", i) for i, values in enumerate(self._rows, start=1)]
        else:
            rows = json_lines(self.given_path(JSON_LINES))
        return replace(read_dataset(rows, lambda row: [(self._fields.example(row, self._human), {})]), rated=False)


def _check_raters(given: Sequence[float], scale: tuple[float, float] | None, dimension: str, row: FileRow) -> None:
    """Refuses a score of one of several raters that lies outside the scale though the mean does not."""
    for i, value in enumerate(given, start=1):
        if len(given) > 1 and scale is not None and not scale[0] <= value <= scale[1]:
            raise UserError(
                f"{row.place}: the score {value:g} of rater {i} for '{dimension}' lies outside the data's own scale, "
                f"{scale[0]:g} to {scale[1]:g}; leave out what is no score."
            )


def _parse_scale(given: Any) -> dict[str, tuple[float, float]] | tuple[float, float] | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(dimension): _pair(f"data.scale.{dimension}", pair) for dimension, pair in given.items()}
    return _pair("data.scale", given, ", or a mapping dimension -> such a pair, or null")


def _pair(key: str, given: Any, or_else: str = "") -> tuple[float, float]:
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if len(numbers) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers):
        with suppress(OverflowError):  # whole numbers that are too long to be floats
            low, high = map(float, numbers)
            if math.isfinite(low) and math.isfinite(high) and low < high:
                return low, high
    raise UserError(f"{key} must be the lowest and the highest human score, as in [1, 5]{or_else}, got {given!r}.")
