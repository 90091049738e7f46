"""What a run prints of how its defenses got ready: standards, the references' scores, detectors,
costs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.attack_differences import hundredths
from judgebench.report.detected import DETECTORS_NOTE, DetectorRow
from judgebench.report.readied import COSTS_NOTE, CostRow, Readied, ReferenceRow
from judgebench.report.robustness import share
from judgebench.report.tables import titled


def readied_tables(readied: Readied) -> list[RenderableType]:
    """The tables and what their numbers are; empty where no defense got ready."""
    parts: list[RenderableType] = [
        Text(f"{one.dimension}: {one.made} {one.separability}", style="dim") for one in readied.standards
    ]
    for dimension in dict.fromkeys(row.dimension for row in readied.references):
        parts.append(_references(dimension, [row for row in readied.references if row.dimension == dimension]))
    if readied.references:
        parts.append(Text(readied.references_note, style="dim"))
    if readied.detectors:
        parts += [_detectors(readied.detectors), Text(DETECTORS_NOTE, style="dim")]
    if readied.costs:
        parts += [_costs(readied.costs), Text(COSTS_NOTE, style="dim")]
    return parts


def _references(dimension: str, rows: Sequence[ReferenceRow]) -> Table:
    table = titled(f"{dimension}: references by themselves")
    table.add_column("defense", overflow="fold", max_width=28)
    for name in ("split", "n", "good", "poor", "good - poor", "cut"):
        table.add_column(name, justify="left" if name in ("split", "good - poor") else "right", no_wrap=True)
    for row in rows:
        difference = Text(" -" if row.difference.value is None else f" {hundredths(row.difference.value)}")
        if row.difference.low is not None:
            difference.append(f" [{hundredths(row.difference.low)},{hundredths(row.difference.high)}]", style="dim")
        cells = [f"{row.split} ", f"{row.n} ", f"{_two(row.high)} ", f"{_two(row.low)} "]
        table.add_row(Text(f"{row.name} "), *map(Text, cells), difference, Text(f" {share(row.cut)}"))
    return table


def _detectors(rows: Sequence[DetectorRow]) -> Table:
    table = titled("detectors of attacked texts")
    table.add_column("defense", overflow="fold", max_width=28)
    for name in ("F1", "precision", "recall", "clean"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("recall by attack", overflow="fold")
    for row in rows:
        cells = [_two(row.f1), *map(share, (row.precision, row.recall, row.clean))]
        table.add_row(Text(f"{row.name} "), *(Text(f" {cell} ") for cell in cells), Text(f" {row.by_attack}"))
    return table


def _costs(rows: Sequence[CostRow]) -> Table:
    table = titled("seconds by defense")
    table.add_column("defense", overflow="fold", max_width=28)
    for name in ("n", "a sample", "reading", "context", "once"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = [f"{row.n}", _two(row.seconds), _two(row.reading), _two(row.context), f"{row.once:.1f}"]
        table.add_row(Text(f"{row.defense} "), *(Text(f" {cell} ") for cell in cells))
    return table


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
