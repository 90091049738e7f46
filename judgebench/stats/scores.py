"""The table of scores: one row an example under one condition, judged by one judge and decoding.

Rows that share all but the example are a `Cell`; a judge's cells over the ranges are a series.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from judgebench.types import LABELS, RANGE, ScoreRange

if TYPE_CHECKING:
    import pandas as pd

CLEAN = "none"
"""The attack of texts that are not attacked, and the defense of judges without one."""


class Cell(NamedTuple):
    """Condition, judge and decoding, which a run of rows of scores shares."""

    split: str
    dimension: str
    range_min: float
    range_max: float
    range_step: float
    attack: str
    defense: str
    judge: str
    decoding: str
    lambda_: float | None
    temperature: float | None
    range_labels: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Cell:
        """The cell that a record is about."""
        return cls._make([*(record[name] for name in CELL), record.get(LABELS) or ""])

    @property
    def named(self) -> dict[str, Any]:
        """By the names of the columns; `LABELS` only where the range has some."""
        return dict(zip(CELL, self, strict=False)) | ({LABELS: self.range_labels} if self.range_labels else {})

    @property
    def range(self) -> ScoreRange:
        """The range that its scores lie in."""
        return ScoreRange.of(self.named)

    @property
    def table(self) -> tuple[str, str, str, str]:
        """Split, dimension, attack, defense."""
        return self.split, self.dimension, self.attack, self.defense

    @property
    def knobs(self) -> tuple[float | None, float | None]:
        """lambda and temperature."""
        return self.lambda_, self.temperature

    @property
    def clean(self) -> Cell:
        """The same dimension, range, defense, judge and decoding without the attack."""
        return self._replace(attack=CLEAN)


CELL = tuple(name.rstrip("_") for name in Cell._fields if name != LABELS)
"""The columns behind a cell, to which `LABELS` comes where a range has some."""

COLUMNS = (*CELL, "example_id", "group_id", "system_id", "score", "status", "human")
"""Of a table of scores."""

COMPARED = ("text_id", "score_first", "score_second", "rival_id", "rival_system_id", "tie_first", "tie_second")
"""What a table of scores has besides where texts are compared; only the ranking of systems needs the last four."""

_NUMBERS = (*RANGE, "lambda", "temperature", "score", "human")


@dataclass(frozen=True)
class Scores:
    """A checked table of scores, by its cells.

    Attributes:
        columns: name -> [rows], `COLUMNS` and `LABELS`, and `COMPARED` where texts are compared; numbers as float64,
            with NaN where a decoding has no lambda or temperature, and where nobody rated.
        cells: cell -> its rows [n], in order of first appearance.
    """

    columns: Mapping[str, np.ndarray]
    cells: Mapping[Cell, np.ndarray]

    @classmethod
    def of(cls, table: Scores | Mapping[str, Any] | pd.DataFrame) -> Scores:
        """From columns, or a frame; those that are checked already are taken as they are.

        Raises:
            ValueError: a column missing or of another length, a score that is not finite, or an example twice in one
                cell.
        """
        if isinstance(table, Scores):
            return table
        columns = checked(table)
        return cls(columns, cells(columns))

    def part(self, cell: Cell, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The columns of a cell's rows, or of some rows."""
        rows = self.cells[cell] if rows is None else rows
        return {name: column[rows] for name, column in self.columns.items()}


def checked(scores: Mapping[str, Any] | pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of `Scores`; `ValueError` for one missing or of another length, or a score that is not finite."""
    if missing := [name for name in COLUMNS if name not in scores]:
        raise ValueError(f"scores: missing columns {', '.join(missing)}")
    names = [*COLUMNS, *(name for name in COMPARED if name in scores)]
    columns = {name: np.asarray(scores[name]) for name in names}
    labels = scores[LABELS] if LABELS in scores else [""] * len(columns["score"])
    columns[LABELS] = np.asarray([text if isinstance(text, str) else "" for text in labels], dtype=object)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"scores: columns of different lengths {lengths}")
    for name in _NUMBERS:
        columns[name] = columns[name].astype(np.float64)
    if not np.isfinite(columns["score"]).all():
        raise ValueError("scores: score must be finite; a failed answer is scored at the minimum")
    return columns


def cells(columns: Mapping[str, np.ndarray]) -> dict[Cell, np.ndarray]:
    """The rows [n] of each cell of `checked` columns; `ValueError` for an example twice in one cell."""
    count = len(columns["score"])
    if not count:
        return {}
    # Rows come in long runs of one cell: only where a run starts does its cell need to be read.
    differs = np.zeros(count - 1, dtype=bool)
    for column in (columns[name] for name in (*CELL, LABELS)):
        unlike = np.asarray(column[1:] != column[:-1], dtype=bool)
        differs |= unlike & ~(np.isnan(column[1:]) & np.isnan(column[:-1])) if column.dtype.kind == "f" else unlike
    starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
    runs: dict[Cell, list[np.ndarray]] = {}
    keys = zip(*(columns[name][starts].tolist() for name in (*CELL, LABELS)), strict=True)
    for key, start, end in zip(keys, starts, [*starts[1:], count], strict=True):
        cell = Cell._make(None if isinstance(value, float) and math.isnan(value) else value for value in key)
        runs.setdefault(cell, []).append(np.arange(start, end))
    rows_of = {cell: np.concatenate(parts) for cell, parts in runs.items()}
    for cell, rows in rows_of.items():
        if len(set(columns["example_id"][rows].tolist())) < len(rows):
            raise ValueError(f"scores: an example appears twice under {cell.named}")
    return rows_of


def series_of(cells: Iterable[Cell]) -> dict[tuple[Any, ...], dict[ScoreRange, Cell]]:
    """Series -> range -> cell, both in order of first appearance.

    A series is one judge with one decoding in one table: (split, dimension, attack, defense, judge, decoding, lambda,
    temperature). Tuning may choose another lambda and temperature in each range, so they are None there, and do not
    tell series apart; only where one range holds several settings of a judge and decoding is each a series of its own.
    """
    listed = list(dict.fromkeys(cells))
    settings = Counter((cell.range, cell.table, cell.judge, cell.decoding) for cell in listed)
    several = {key[1:] for key, count in settings.items() if count > 1}
    series: dict[tuple[Any, ...], dict[ScoreRange, Cell]] = {}
    for cell in listed:
        knobs = cell.knobs if (cell.table, cell.judge, cell.decoding) in several else (None, None)
        series.setdefault((*cell.table, cell.judge, cell.decoding, *knobs), {})[cell.range] = cell
    return series
