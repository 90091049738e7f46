"""A `CellTable` as Markdown, CSV and LaTeX."""

from __future__ import annotations

from typing import Any

from judgebench.report.paper.cells import CellLine, CellTable
from judgebench.report.paper.latex import escape, framed, row_of
from judgebench.report.paper.markdown import markdown
from judgebench.report.paper.tables import Value
from judgebench.runtime.files import as_csv

_BRACKETS = "In brackets: 95 % interval."


def cell_markdown(table: CellTable) -> str:
    """A table for people; ours with 95 % intervals where there are such."""
    beside = " (ours)" if table.printed else ""
    heads = [*table.heads, *(f"{one.head}{beside}" for one in table.ours)]
    heads += [f"{one.head}, paper" for one in table.printed]
    before: tuple[str, ...] = ()
    rows = []
    for line in table.lines:
        rows.append([*_labels(line, before), *_our_cells(table, line), *_printed_cells(table, line)])
        before = line.labels
    bounded = any(value.low is not None for line in table.lines for value in line.ours.values())
    return markdown(table.title, table.caption, heads, rows, [*([_BRACKETS] if bounded else []), *table.notes])


def cell_csv(table: CellTable) -> str:
    """The table's lines; every measure has its columns, filled or not."""
    ours, printed = ([one for one in table.measures if getattr(one, name)] for name in ("ours", "paper"))
    columns = ["table", *(head.lower() for head in table.heads)]
    columns += [f"{one.key}{end}" for one in ours for end in ("", "_low", "_high")]
    columns += [f"{one.key}_published" for one in printed]
    rows = []
    for line in table.lines:
        row: list[Any] = [table.title, *line.labels]
        for one in ours:
            value = line.ours.get(one.key)
            ends = (value.value, value.low, value.high) if value else (None,) * 3
            row += [None if end is None else round(end, 6) for end in ends]
        rows.append([*row, *(line.printed.get(one.key) for one in printed)])
    return as_csv(columns, rows)


def cell_latex(table: CellTable) -> str:
    """A `table*`; intervals stand in the other forms."""
    groups = [(name, held) for name, held in (("ours", table.ours), ("paper", table.printed)) if held]
    first = len(table.heads)
    body = [row_of([*[""] * first, *(rf"\multicolumn{{{len(held)}}}{{c}}{{{name}}}" for name, held in groups)])]
    at, rules = first + 1, []
    for _, held in groups:
        rules.append(rf"\cmidrule(lr){{{at}-{at + len(held) - 1}}}")
        at += len(held)
    body.append("".join(rules))
    body.append(row_of([*map(escape, table.heads), *(escape(one.head) for _, held in groups for one in held)]))
    before: tuple[str, ...] = ()
    for line in table.lines:
        if line.labels[:2] != before[:2]:
            body.append(r"\midrule")
        cells = [cell.partition(" [")[0] for cell in [*_our_cells(table, line), *_printed_cells(table, line)]]
        body.append(
            row_of([*map(escape, _labels(line, before)), *("--" if one == "-" else _minus(one) for one in cells)])
        )
        before = line.labels
    columns = "l" * first + "r" * (len(table.ours) + len(table.printed))
    return framed(table.name, columns, body, [table.caption, *table.notes])


def _labels(line: CellLine, before: tuple[str, ...]) -> list[str]:
    """The labels without those, from the left, that the line before has as well."""
    shared = next((i for i, (a, b) in enumerate(zip(line.labels, before, strict=False)) if a != b), 0)
    return ["" if i < shared else label for i, label in enumerate(line.labels)]


def _our_cells(table: CellTable, line: CellLine) -> list[str]:
    return [_value(line.ours.get(one.key), one.told) for one in table.ours]


def _value(value: Value | None, told: Any) -> str:
    if value is None:
        return "-"
    ends = "" if value.low is None or value.high is None else f" [{told(value.low)}, {told(value.high)}]"
    return f"{told(value.value)}{ends}"


def _printed_cells(table: CellTable, line: CellLine) -> list[str]:
    cells = []
    for one in table.printed:
        figure = line.printed.get(one.key)
        cells.append("-" if one.key not in line.printed else "?" if figure is None else one.told(figure))
    return cells


def _minus(cell: str) -> str:
    return escape(cell).replace("-", "$-$")
