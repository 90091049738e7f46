"""The CAP paper's tables as Markdown, CSV and LaTeX."""

from __future__ import annotations

from typing import Any

from judgebench.report.paper.cap import LOWERED, ChangeLine, ChangeTable
from judgebench.report.paper.latex import escape, framed, row_of
from judgebench.report.paper.markdown import markdown
from judgebench.report.paper.tables import Value
from judgebench.runtime.files import as_csv

CHANGE_COLUMNS = [
    *("table", "dataset", "judge", "attack", "defense"),
    *(f"{name}{end}" for name in ("delta", "rate_of_means", "mean_of_rates") for end in ("", "_low", "_high")),
    *("lowered", "delta_published", "rate_percent_published"),
]
"""Rates of ours are shares, the paper's are per cent, as printed."""

_HEADS = ("Judge", "Attack", "Defense", "delta", "rate of means", "mean of rates", "delta, paper", "rate, paper")


def change_markdown(table: ChangeTable) -> str:
    """A table for people, in Markdown that is also readable as it stands; ours with 95 % intervals."""
    both = _both(table)
    heads = list(_HEADS if both else _HEADS[:6] if _ours(table) else [*_HEADS[:3], *_HEADS[6:]])
    rows, before = [], ""
    for line in table.lines:
        cells = [line.judge if line.judge != before else "", line.attack, line.label]
        cells += _our_cells(line) if _ours(table) else []
        cells += _printed_cells(line) if _printed(table) else []
        rows.append(cells)
        before = line.judge
    bounded = any(line.ours and line.ours.delta.low is not None for line in table.lines)
    brackets = (
        ["In brackets: 95 % interval, clean and attacked scores of a text resampled together."] if bounded else []
    )
    return markdown(table.title, table.caption, heads, rows, [*brackets, *table.notes])


def change_csv(table: ChangeTable) -> str:
    """The table's lines."""
    rows = []
    for line in table.lines:
        row: list[Any] = [table.title, table.dataset, line.judge, line.attack, line.defense]
        ours = line.ours
        for value in (ours.delta, ours.rate_of_means, ours.mean_of_rates) if ours else (None,) * 3:
            ends = (value.value, value.low, value.high) if value else (None,) * 3
            row += [None if end is None else round(end, 6) for end in ends]
        row.append(str(ours.lowered).lower() if ours else None)
        row += [line.printed.delta, line.printed.rate_percent] if line.printed else [None, None]
        rows.append(row)
    return as_csv(CHANGE_COLUMNS, rows)


def change_latex(table: ChangeTable) -> str:
    """A `table*`; intervals stand in the other forms."""
    columns = (["ours"] if _ours(table) else []) + (["paper"] if _printed(table) else [])
    sizes = {"ours": 3, "paper": 2}
    body = [row_of(["", "", "", *(rf"\multicolumn{{{sizes[one]}}}{{c}}{{{one}}}" for one in columns)])]
    starts = [4, 4 + sizes["ours"]] if _ours(table) else [4]
    body.append(
        "".join(rf"\cmidrule(lr){{{at}-{at + sizes[one] - 1}}}" for at, one in zip(starts, columns, strict=False))
    )
    heads = {"ours": [r"$\Delta$", "rate of means", "mean of rates"], "paper": [r"$\Delta$", "rate"]}
    body.append(row_of(["Judge", "Attack", "Defense", *(head for one in columns for head in heads[one])]))
    before = ""
    for line in table.lines:
        if line.judge != before:
            body.append(r"\midrule")
        cells = [escape(line.judge) if line.judge != before else "", line.attack, escape(line.label)]
        cells += [_latex(cell.partition(" [")[0]) for cell in _our_cells(line)] if _ours(table) else []
        cells += [_latex(cell) for cell in _printed_cells(line)] if _printed(table) else []
        body.append(row_of(cells))
        before = line.judge
    width = sum(sizes[one] for one in columns)
    framed_table = framed(table.name, "lll" + "r" * width, body, [table.caption, *table.notes])
    return framed_table.replace(LOWERED, r"$\downarrow$")


def _our_cells(line: ChangeLine) -> list[str]:
    ours = line.ours
    if ours is None:
        return ["-"] * 3
    delta = f"{ours.delta.value:.2f}{LOWERED if ours.lowered else ''}"
    if ours.delta.low is not None:
        delta += f" [{ours.delta.low:.2f}, {ours.delta.high:.2f}]"
    return [delta, _rate(ours.rate_of_means), _rate(ours.mean_of_rates)]


def _printed_cells(line: ChangeLine) -> list[str]:
    if line.printed is None:
        return ["-"] * 2
    delta, rate = line.printed.delta, line.printed.rate_percent
    return ["?" if delta is None else f"{delta:.2f}", "?" if rate is None else f"{rate:.0f} %"]


def _rate(value: Value | None) -> str:
    if value is None:
        return "-"
    told = f"{100 * value.value:.0f} %"
    if value.low is None or value.high is None:
        return told
    return f"{told} [{100 * value.low:.0f}, {100 * value.high:.0f}]"


def _latex(cell: str) -> str:
    return "--" if cell == "-" else escape(cell)


def _ours(table: ChangeTable) -> bool:
    return any(line.ours for line in table.lines)


def _printed(table: ChangeTable) -> bool:
    return any(line.printed for line in table.lines)


def _both(table: ChangeTable) -> bool:
    return _ours(table) and _printed(table)
