"""The contrastive-decoding paper's tables as plain text, CSV and LaTeX, marked as its captions say."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.report.formats import interval
from judgebench.report.paper.cd import (
    AVERAGE,
    OVERALL,
    RANGE,
    Column,
    CorrelationTable,
    Line,
    SettingLine,
    SettingTable,
    best_marks,
    figure,
)
from judgebench.report.paper.table import escape, latex_row, latex_table
from judgebench.runtime.files import as_csv
from judgebench.types import ScoreRange

_HEADS = {"pearson": "Pear.", "spearman": "Spear.", "kendall": "Kend."}
_WORDS: dict[Column, str] = {"ours": "ours", "printed": "paper"}
_AVERAGES = "Average across all score ranges"
_APART = "ours and the paper's apart"
_LEGEND = f"{RANGE} best of its range, {OVERALL} best of all ranges, {AVERAGE} best average"
_WIDTHS: dict[Column, int] = {"ours": 20, "printed": 9}
_LINE = 120
_COMMANDS = {RANGE: "underline", OVERALL: "textit", AVERAGE: "textbf"}
_MARKED = (
    "Max correlation within score range is \\underline{underlined}, max across all ranges is \\textit{italicized}, max "
    "average is \\textbf{bolded}"
)
_ENDS = ("range_min", "range_max", "range_step")

Marks = Mapping[Column, Mapping[tuple[int, str], str]]


def correlation_forms(table: CorrelationTable) -> dict[str, str]:
    """Ending of a file -> its content, the form for people first."""
    marks: Marks = {"ours": best_marks(table, "ours"), "printed": best_marks(table, "printed")}
    return {"txt": _text(table, marks), "csv": _csv(table, marks), "tex": _latex(table, marks)}


def setting_forms(table: SettingTable) -> dict[str, str]:
    """Ending of a file -> its content, the form for people first."""
    return {"txt": _setting_text(table), "csv": _setting_csv(table), "tex": _setting_latex(table)}


# --- correlations -----------------------------------------------------------------------------------------------------


def _text(table: CorrelationTable, marks: Marks) -> str:
    """Fixed columns: ours with intervals, the paper's beside it, contradictions of the print marked and told.

    Tables to compare with follow it.
    """
    first = max([len(line.label) for line in table.lines], default=5)
    columns = [(name, column) for name in CORRELATIONS for column in table.columns]
    width = first + 9 + sum(_WIDTHS[column] + 1 for _, column in columns)

    def row(label: str, at: str, cells: Sequence[str]) -> str:
        padded = [f" {cell:<{_WIDTHS[column]}}" for cell, (_, column) in zip(cells, columns, strict=True)]
        return f"{label:<{first}}  {at:<7}{''.join(padded)}"

    heads = [_HEADS[name] if column == table.columns[0] else "" for name, column in columns]
    rows = [row("Model", "Range", heads)]
    rows.append(row("", "", ["ours [95 %]" if column == "ours" else "paper" for _, column in columns]))
    for at, positions in table.sections:
        rows += ["-" * width, *([f"{_AVERAGES:^{width}}"] if at is None else [])]
        for i in positions:
            line = table.lines[i]
            cells = [_cell(line, column, name, marks[column].get((i, name), "")) for name, column in columns]
            rows.append(row(line.label, str(at or ""), cells))
            if line.slips:
                own = [column == "printed" and name in line.slips for name, column in columns]
                recomputed = [f"{line.recomputed.get(name, 0):>7.4f}!" for name, _ in columns]
                cells = [cell if slip else "" for cell, slip in zip(recomputed, own, strict=True)]
                rows.append(row("  its rows give", "", cells))
    legend = f"{_LEGEND}; {_APART}." if len(table.columns) > 1 else f"{_LEGEND}."
    text = _framed(table, rows, width, [legend, *table.notes])
    return "\n\n".join([text.rstrip("\n"), *(correlation_forms(one)["txt"].rstrip("\n") for one in table.below)]) + "\n"


def _cell(line: Line, column: Column, name: str, won: str) -> str:
    value = line.number(column, name)
    if value is None:
        return f"{'-':>6}"
    if column == "printed":
        return f"{figure(value):>6}{won}{'!' if name in line.slips else ''}"
    return f"{figure(value):>6}{won:<2} {interval(line.ours[name].low, line.ours[name].high)}"


def _csv(table: CorrelationTable, marks: Marks) -> str:
    """The table's own lines; tables to compare with have files of their own.

    Ranges are empty in averages. `_marks` are the text form's; `_recomputed` is, of the paper's averages, the mean of
    its own rows, and `_slip` whether the print contradicts that.
    """
    endings = ("", "_low", "_high", "_marks", "_published", "_published_marks", "_recomputed", "_slip")
    columns = ["table", "dimension", "system", *_ENDS, *(f"{name}{end}" for name in CORRELATIONS for end in endings)]
    rows = []
    for i, line in enumerate(table.lines):
        row: list[Any] = [table.title, table.dimension, line.label, *_ends(line.range)]
        for name in CORRELATIONS:
            own = line.ours.get(name)
            ends = (own.value, own.low, own.high) if own else (None, None, None)
            row += [*(None if end is None else round(end, 6) for end in ends), marks["ours"].get((i, name), "")]
            row += [figure(line.printed[name]) if name in line.printed else None, marks["printed"].get((i, name), "")]
            known = line.recomputed.get(name)
            row += [None, None] if known is None else [f"{known:.5f}", str(name in line.slips).lower()]
        rows.append(row)
    return as_csv(columns, rows)


def _latex(table: CorrelationTable, marks: Marks) -> str:
    """A `table*`; an interval has a column of its own beside ours, tables to compare with have files of their own."""
    columns = [(name, column) for name in CORRELATIONS for column in table.columns]
    bounded = any(value.low is not None for line in table.lines for value in line.ours.values())
    wide = {column: 2 if bounded and column == "ours" else 1 for column in table.columns}
    each = sum(wide.values())
    aligned = "".join("rl" if wide[column] > 1 else "r" for _, column in columns)
    body = [latex_row(["Model", "Range", *(_over(each, _HEADS[name]) for name in CORRELATIONS)])]
    if len(table.columns) > 1:
        rules = [rf"\cmidrule(lr){{{3 + each * i}-{2 + each * (i + 1)}}}" for i in range(len(CORRELATIONS))]
        heads = [_over(wide[column], _WORDS[column]) for _, column in columns]
        body += ["".join(rules), latex_row(["", "", *heads])]
    for at, positions in table.sections:
        body.append(r"\midrule")
        if at is None:
            body.append(latex_row([_over(2 + len(aligned), _AVERAGES)]))
        for i in positions:
            line = table.lines[i]
            cells = []
            for name, column in columns:
                cells.append(_latex_cell(line, column, name, marks[column].get((i, name), "")))
                cells += [_latex_interval(line, name)] if wide[column] > 1 else []
            body.append(latex_row([escape(line.label), _latex_range(at), *cells]))
    marked = f"{_MARKED}, {_APART}." if len(table.columns) > 1 else f"{_MARKED}."
    if bounded:
        marked += r" In brackets: 95\,\% interval."
    return latex_table(table.name, "ll" + aligned, body, [table.caption, *table.notes], marked, tight=bounded)


def _latex_cell(line: Line, column: Column, name: str, won: str) -> str:
    value = line.number(column, name)
    if value is None:
        return "--"
    text = figure(value).replace("-", "$-$")  # a minus, not a hyphen
    for mark in won:
        text = rf"\{_COMMANDS[mark]}{{{text}}}"
    return f"{text}$^!$" if column == "printed" and name in line.slips else text


def _latex_interval(line: Line, name: str) -> str:
    own = line.ours.get(name)
    text = "" if own is None else interval(own.low, own.high)
    return rf"{{\scriptsize {text.replace('-', '$-$')}}}" if text else ""


# --- lambda and t -----------------------------------------------------------------------------------------------------


def _setting_text(table: SettingTable) -> str:
    """Fixed columns: the selected lambda and t, with kappa, ours and the paper's."""
    main = max([len(line.main) for line in table.lines], default=4)
    assistant = max([len(line.assistant) for line in table.lines], default=4)
    head = f"{'Main':<{main}}  {'Asst':<{assistant}}  {'Range':<7}"
    rows = [head + "".join(f"{'lambda':>9}{'t':>7}{'kappa':>9}  " for _ in table.columns)]
    rows.append(" " * len(head) + "".join(f"{_WORDS[column]:>9}{'':>18}" for column in table.columns))
    width = max(len(row.rstrip()) for row in rows)
    for line, names, parted in _named(table):
        rows += ["-" * width] if parted else []
        cells = [_setting_cell(line, column) for column in table.columns]
        rows.append(f"{names[0]:<{main}}  {names[1]:<{assistant}}  {line.range!s:<7}{''.join(cells)}".rstrip())
    edge = "! at the edge of what was tried: the best may lie beyond."
    return _framed(table, rows, width, [*([edge] if any(line.edge for line in table.lines) else []), *table.notes])


def _named(table: SettingTable) -> Iterator[tuple[SettingLine, tuple[str, str], bool]]:
    """Each line with its pair's names, empty where they repeat, and whether another main model begins there."""
    for before, line in zip([None, *table.lines], table.lines, strict=False):
        known = before is not None and (before.main, before.assistant) == (line.main, line.assistant)
        yield line, ("", "") if known else (line.main, line.assistant), before is None or before.main != line.main


def _setting_cell(line: SettingLine, column: Column) -> str:
    pair = getattr(line, column)
    if pair is None:
        return f"{'-':>9}{'-':>7}{'-':>9}  "
    lambda_, temperature = pair
    mark = "!" if line.edge and column == "ours" else " "
    return f"{lambda_:>9.4g}{temperature:>7.4g}{lambda_ / temperature:>9.4g}{mark} "


def _setting_csv(table: SettingTable) -> str:
    columns = ["table", "dimension", "main", "assistant", *_ENDS, "lambda", "temperature", "kappa", "edge"]
    columns += ["lambda_published", "temperature_published", "kappa_published"]
    rows = []
    for line in table.lines:
        row: list[Any] = [table.title, table.dimension, line.main, line.assistant, *_ends(line.range)]
        row += [*line.ours, line.ours[0] / line.ours[1], str(line.edge).lower()] if line.ours else [None] * 4
        row += [*line.printed, line.printed[0] / line.printed[1]] if line.printed else [None] * 3
        rows.append(row)
    return as_csv(columns, rows)


def _setting_latex(table: SettingTable) -> str:
    columns, body = table.columns, []
    if len(columns) > 1:
        body += [latex_row(["", "", "", *(_over(2, _WORDS[column]) for column in columns)])]
        body += [r"\cmidrule(lr){4-5}\cmidrule(lr){6-7}"]
    body.append(latex_row(["Main", "Asst", "Range", *([r"$\lambda$", "$t$"] * len(columns))]))
    for line, names, parted in _named(table):
        body += [r"\midrule"] if parted else []
        cells = []
        for column in columns:
            pair, mark = getattr(line, column), "*" if line.edge and column == "ours" else ""
            cells += ["--", "--"] if pair is None else [f"{pair[0]:.4g}{mark}", f"{pair[1]:.4g}"]
        body.append(latex_row([*map(escape, names), _latex_range(line.range), *cells]))
    edge = ["* at the edge of what was tried."] if any(line.edge for line in table.lines) else []
    return latex_table(table.name, "lll" + "rr" * len(columns), body, [table.caption, *table.notes, *edge])


# --- both -------------------------------------------------------------------------------------------------------------


def _framed(table: CorrelationTable | SettingTable, rows: Sequence[str], width: int, notes: Sequence[str]) -> str:
    rule = "=" * width
    caption = table.caption if table.caption.startswith(table.title) else f"{table.title}. {table.caption}"
    below = [textwrap.fill(note, _LINE, subsequent_indent="  ") for note in notes]
    return "\n".join([textwrap.fill(caption, _LINE), rule, *(row.rstrip() for row in rows), rule, *below]) + "\n"


def _ends(score_range: ScoreRange | None) -> list[str]:
    if score_range is None:
        return ["", "", ""]
    return [f"{end:g}" for end in (score_range.minimum, score_range.maximum, score_range.step)]


def _over(columns: int, text: str) -> str:
    """A heading over so many columns."""
    return rf"\multicolumn{{{columns}}}{{c}}{{{text}}}" if columns > 1 else text


def _latex_range(score_range: ScoreRange | None) -> str:
    return "" if score_range is None else re.sub(r"(?<!\d)-(?=\d)", "$-$", escape(str(score_range)))
