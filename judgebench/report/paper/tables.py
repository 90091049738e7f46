"""What a table of the paper holds, before anyone decides how it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.types import ScoreRange

Column = Literal["ours", "printed"]

RANGE, OVERALL, AVERAGE = "_", "/", "*"
"""Marks: best of its range (the paper underlines it), best of all ranges (italics), best average (bold)."""


@dataclass(frozen=True)
class Value:
    """A correlation of ours with its 95 % interval, if there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One system at one range.

    Attributes:
        range: None: the average over the table's ranges.
        ours, printed: correlation -> figure; empty where no run, or the paper, has this line.
        recomputed: of the paper's averages: correlation -> the mean of its own printed rows.
        slips: the correlations whose printed average contradicts that mean.
    """

    label: str
    range: ScoreRange | None
    ours: Mapping[str, Value]
    printed: Mapping[str, float]
    recomputed: Mapping[str, float]
    slips: tuple[str, ...] = ()


@dataclass(frozen=True)
class CorrelationTable:
    """Systems by score range, averages below.

    Attributes:
        name: of its files, without an ending.
        notes: sentences below it.
        below: tables that follow for comparison.
    """

    name: str
    title: str
    caption: str
    dimension: str
    lines: Sequence[Line]
    notes: Sequence[str]
    below: Sequence[CorrelationTable] = ()

    @property
    def columns(self) -> list[Column]:
        """Those that hold anything."""
        found: list[Column] = ["ours"] if any(line.ours for line in self.lines) else []
        return [*found, "printed"] if any(line.printed for line in self.lines) else found

    @property
    def sections(self) -> list[tuple[ScoreRange | None, list[int]]]:
        """Each range, and the averages (None) last, with the positions of its lines."""
        found: dict[ScoreRange | None, list[int]] = {}
        for position, line in enumerate(self.lines):
            found.setdefault(line.range, []).append(position)
        return sorted(found.items(), key=lambda item: item[0] is None)


@dataclass(frozen=True)
class SettingLine:
    """The contrast chosen for one pair at one range: (lambda, t) of ours and the printed one; None where there is none.

    Attributes:
        edge: whether ours lies at the end of what was tried.
    """

    main: str
    assistant: str
    range: ScoreRange
    ours: tuple[float, float] | None
    printed: tuple[float, float] | None
    edge: bool = False


@dataclass(frozen=True)
class SettingTable:
    """The chosen lambda and t; see `CorrelationTable`."""

    name: str
    title: str
    caption: str
    dimension: str
    lines: Sequence[SettingLine]
    notes: Sequence[str]


def figure(value: float) -> str:
    """Three decimals as the paper prints them: it keeps the sign of a rounded zero.

    Example:
        >>> figure(0.1236), figure(-0.0001)
        ('0.124', '-0.000')
    """
    return f"{value:.3f}"


def shown(line: Line, column: Column, correlation: str) -> float | None:
    """What a line says in a column."""
    if column == "printed":
        return line.printed.get(correlation)
    own = line.ours.get(correlation)
    return None if own is None else own.value


def marks(table: CorrelationTable, column: Column) -> dict[tuple[int, str], str]:
    """(position of a line, correlation) -> its marks, by the rules of the paper's captions.

    Figures compete as printed, so that a reader never sees one of two equal ones marked; ours and the paper's apart.
    None wins alone, and none that is not above 0: a judge that always says the same has 0.000.
    """
    found: dict[tuple[int, str], str] = {}
    averages = [i for i, line in enumerate(table.lines) if line.range is None]
    ranges = [i for i, line in enumerate(table.lines) if line.range is not None]
    contests = [(RANGE, places) for at, places in table.sections if at is not None]
    contests += [(OVERALL, ranges), (AVERAGE, averages)]
    for mark, places in contests:
        for name in CORRELATIONS:
            values = {i: float(figure(v)) for i in places if (v := shown(table.lines[i], column, name)) is not None}
            best = max(values.values(), default=0.0)
            for i, value in values.items():
                if len(values) > 1 and value == best > 0:
                    found[i, name] = found.get((i, name), "") + mark
    return found
