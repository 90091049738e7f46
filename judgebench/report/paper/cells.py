"""A table whose lines say some numbers of one thing each, the published figures beside ours, before anyone decides how
it is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judgebench.report.paper.tables import Value


@dataclass(frozen=True)
class Measure:
    """A number that lines may say.

    Attributes:
        key: its column in the CSV; head: what people read.
        told: how a value is printed.
        ours, paper: whether ours, or the paper's, stands in a column.
    """

    key: str
    head: str
    told: Callable[[float], str]
    ours: bool = True
    paper: bool = True


@dataclass(frozen=True)
class CellLine:
    """One thing.

    Attributes:
        labels: what it is, one for each head of the table.
        ours: measure's key -> value; empty where no run has it.
        printed: measure's key -> figure, None where it cannot be read; empty where the paper does not have the line.
    """

    labels: tuple[str, ...]
    ours: Mapping[str, Value]
    printed: Mapping[str, float | None]


@dataclass(frozen=True)
class CellTable:
    """See `judgebench.report.paper.tables.CorrelationTable`.

    Attributes:
        heads: of the labels.
    """

    name: str
    title: str
    caption: str
    heads: tuple[str, ...]
    measures: Sequence[Measure]
    lines: Sequence[CellLine]
    notes: Sequence[str]

    @property
    def ours(self) -> list[Measure]:
        """The measures of ours that any line says."""
        return [one for one in self.measures if one.ours and any(one.key in line.ours for line in self.lines)]

    @property
    def printed(self) -> list[Measure]:
        """The measures of the paper that any line says."""
        return [one for one in self.measures if one.paper and any(one.key in line.printed for line in self.lines)]


def two(value: float) -> str:
    """Two decimals."""
    return f"{value + 0.0:.2f}"


def one(value: float) -> str:
    """One decimal."""
    return f"{value + 0.0:.1f}"


def signed_two(value: float) -> str:
    """Two decimals with their sign."""
    return f"{value + 0.0:+.2f}"


def signed_one(value: float) -> str:
    """One decimal with its sign."""
    return f"{value + 0.0:+.1f}"


def percent(value: float) -> str:
    """Whole per cent."""
    return f"{value + 0.0:.0f} %"
