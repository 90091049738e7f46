"""The paper's tables as CSV: a line a system and range, for programs."""

from __future__ import annotations

from typing import Any

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.report.paper.tables import CorrelationTable, SettingTable, figure, marks
from judgebench.runtime.files import as_csv
from judgebench.types import ScoreRange

CORRELATION_COLUMNS = [
    *("table", "dimension", "system", "range_min", "range_max", "range_step"),
    *(
        f"{name}{ending}"
        for name in CORRELATIONS
        for ending in ("", "_low", "_high", "_marks", "_published", "_published_marks", "_recomputed", "_slip")
    ),
]
"""Ranges are empty in averages. `_marks` are the text form's; `_recomputed` is, of the paper's averages, the mean of
its own rows, and `_slip` whether the print contradicts that."""

SETTING_COLUMNS = [
    *("table", "dimension", "main", "assistant", "range_min", "range_max", "range_step"),
    *("lambda", "temperature", "kappa", "edge", "lambda_published", "temperature_published", "kappa_published"),
]


def correlation_csv(table: CorrelationTable) -> str:
    """The table's own lines; tables to compare with have files of their own."""
    ours, printed = marks(table, "ours"), marks(table, "printed")
    rows = []
    for i, line in enumerate(table.lines):
        row: list[Any] = [table.title, table.dimension, line.label, *_ends(line.range)]
        for name in CORRELATIONS:
            own = line.ours.get(name)
            ends = (own.value, own.low, own.high) if own else (None, None, None)
            row += [*(None if end is None else round(end, 6) for end in ends), ours.get((i, name), "")]
            row += [figure(line.printed[name]) if name in line.printed else None, printed.get((i, name), "")]
            known = line.recomputed.get(name)
            row += [None, None] if known is None else [f"{known:.5f}", str(name in line.slips).lower()]
        rows.append(row)
    return as_csv(CORRELATION_COLUMNS, rows)


def setting_csv(table: SettingTable) -> str:
    """The table's lines."""
    rows = []
    for line in table.lines:
        row: list[Any] = [table.title, table.dimension, line.main, line.assistant, *_ends(line.range)]
        row += [*line.ours, line.ours[0] / line.ours[1], str(line.edge).lower()] if line.ours else [None] * 4
        row += [*line.printed, line.printed[0] / line.printed[1]] if line.printed else [None] * 3
        rows.append(row)
    return as_csv(SETTING_COLUMNS, rows)


def _ends(score_range: ScoreRange | None) -> list[str]:
    if score_range is None:
        return ["", "", ""]
    return [f"{end:g}" for end in (score_range.minimum, score_range.maximum, score_range.step)]
