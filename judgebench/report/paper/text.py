"""The paper's tables as plain text, fixed columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.report.formats import interval
from judgebench.report.paper.tables import (
    AVERAGE,
    OVERALL,
    RANGE,
    Column,
    CorrelationTable,
    Line,
    SettingLine,
    SettingTable,
    figure,
    marks,
)
from judgebench.types import ScoreRange

HEADS = {"pearson": "Pear.", "spearman": "Spear.", "kendall": "Kend."}
AVERAGES = "Average across all score ranges"
LEGEND = f"{RANGE} best of its range, {OVERALL} best of all ranges, {AVERAGE} best average"
APART = "ours and the paper's apart"

_WIDTHS: dict[Column, int] = {"ours": 20, "printed": 9}
_WORDS: dict[Column, str] = {"ours": "ours [95 %]", "printed": "paper"}
_LINE = 120


def correlation_text(table: CorrelationTable) -> str:
    """A table for people: ours with intervals, the paper's beside it, contradictions of the print marked and told.

    Tables to compare with follow it.
    """
    first = max([len(line.label) for line in table.lines], default=5)
    columns = [(name, column) for name in CORRELATIONS for column in table.columns]
    heads = [f" {_head(name, column, table.columns):<{_WIDTHS[column]}}" for name, column in columns]
    kinds = [f" {_WORDS[column]:<{_WIDTHS[column]}}" for _, column in columns]
    width = first + 9 + sum(_WIDTHS[column] + 1 for _, column in columns)
    won = {column: marks(table, column) for column in table.columns}
    rows = [f"{'Model':<{first}}  {'Range':<7}{''.join(heads)}", f"{'':<{first}}  {'':<7}{''.join(kinds)}"]
    for at, places in table.sections:
        rows.append("-" * width)
        rows += [f"{AVERAGES:^{width}}"] if at is None else []
        for i in places:
            line = table.lines[i]
            cells = [f" {_cell(line, c, name, won[c].get((i, name), '')):<{_WIDTHS[c]}}" for name, c in columns]
            rows.append(f"{line.label:<{first}}  {_range(at):<7}{''.join(cells)}")
            if line.slips:
                cells = [f" {_recomputed(line, column, name):<{_WIDTHS[column]}}" for name, column in columns]
                rows.append(f"{'  its rows give':<{first}}  {'':<7}{''.join(cells)}")
    legend = f"{LEGEND}; {APART}." if len(table.columns) > 1 else f"{LEGEND}."
    text = _framed(table.title, table.caption, rows, width, [legend, *table.notes])
    return "\n\n".join([text.rstrip("\n"), *(correlation_text(one).rstrip("\n") for one in table.below)]) + "\n"


def setting_text(table: SettingTable) -> str:
    """The chosen lambda and t, with kappa, ours and the paper's."""
    main = max([len(line.main) for line in table.lines], default=4)
    assistant = max([len(line.assistant) for line in table.lines], default=4)
    columns = setting_columns(table)
    head = f"{'Main':<{main}}  {'Asst':<{assistant}}  {'Range':<7}"
    blank = " " * len(head)
    rows = [head + "".join(f"{'lambda':>9}{'t':>7}{'kappa':>9}  " for _ in columns)]
    rows.append(blank + "".join(f"{_WORDS[column].split()[0]:>9}{'':>18}" for column in columns))
    width = max(len(row.rstrip()) for row in rows)
    before: SettingLine | None = None
    for line in table.lines:
        if before is None or before.main != line.main:
            rows.append("-" * width)
        new = before is None or (before.main, before.assistant) != (line.main, line.assistant)
        names = f"{line.main if new else '':<{main}}  {line.assistant if new else '':<{assistant}}"
        cells = [_setting_cell(getattr(line, column), column == "ours" and line.edge) for column in columns]
        rows.append(f"{names}  {_range(line.range):<7}{''.join(cells)}".rstrip())
        before = line
    notes = list(table.notes)
    if any(line.edge for line in table.lines):
        notes.insert(0, "! at the edge of what was tried: the best may lie beyond.")
    return _framed(table.title, table.caption, rows, width, notes)


def setting_columns(table: SettingTable) -> list[Column]:
    """Those that hold anything."""
    found: list[Column] = ["ours"] if any(line.ours for line in table.lines) else []
    return [*found, "printed"] if any(line.printed for line in table.lines) else found


def _head(name: str, column: Column, columns: Sequence[Column]) -> str:
    return HEADS[name] if column == columns[0] else ""


def _cell(line: Line, column: Column, name: str, won: str) -> str:
    if column == "printed":
        slip = "!" if name in line.slips else ""
        return f"{figure(line.printed[name]):>6}{won}{slip}" if name in line.printed else f"{'-':>6}"
    own = line.ours.get(name)
    if own is None:
        return f"{'-':>6}"
    return f"{figure(own.value):>6}{won:<2} {interval(own.low, own.high)}"


def _recomputed(line: Line, column: Column, name: str) -> str:
    return f"{line.recomputed[name]:>7.4f}!" if column == "printed" and name in line.slips else ""


def _setting_cell(given: tuple[float, float] | None, edge: bool) -> str:
    if given is None:
        return f"{'-':>9}{'-':>7}{'-':>9}  "
    lambda_, temperature = given
    return f"{lambda_:>9.4g}{temperature:>7.4g}{lambda_ / temperature:>9.4g}{'!' if edge else ' '} "


def _range(score_range: ScoreRange | None) -> str:
    return "" if score_range is None else str(score_range)


def _framed(title: str, caption: str, rows: Sequence[str], width: int, notes: Sequence[str]) -> str:
    rule = "=" * width
    head = textwrap.fill(caption if caption.startswith(title) else f"{title}. {caption}", _LINE)
    below = [textwrap.fill(note, _LINE, subsequent_indent="  ") for note in notes]
    return "\n".join([head, rule, *(row.rstrip() for row in rows), rule, *below]) + "\n"
