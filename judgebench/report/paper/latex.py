"""The paper's tables as LaTeX (needs the package booktabs), marked as its captions say."""

from __future__ import annotations

import re
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
    shown,
)
from judgebench.report.paper.text import APART, AVERAGES, HEADS, setting_columns
from judgebench.types import ScoreRange

_COMMANDS = {RANGE: "underline", OVERALL: "textit", AVERAGE: "textbf"}
_WORDS: dict[Column, str] = {"ours": "ours", "printed": "paper"}
_MARKED = (
    "Max correlation within score range is \\underline{underlined}, max across all ranges is \\textit{italicized}, max "
    "average is \\textbf{bolded}"
)
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; line breaks and other control characters become spaces.

    Example:
        >>> escape("50_% {a}")
        '50\\\\_\\\\% \\\\{a\\\\}'
    """
    plain = re.sub(r"[\x00-\x1f\x7f]+", " ", text)
    return "".join(_SPECIAL.get(character, character) for character in plain)


def correlation_latex(table: CorrelationTable) -> str:
    """A `table*`; an interval has a column of its own beside ours, tables to compare with have files of their own."""
    columns = [(name, column) for name in CORRELATIONS for column in table.columns]
    won = {column: marks(table, column) for column in table.columns}
    bounded = any(value.low is not None for line in table.lines for value in line.ours.values())
    wide = {column: 2 if bounded and column == "ours" else 1 for column in table.columns}
    each = sum(wide.values())
    aligned = "".join("rl" if wide[column] > 1 else "r" for _, column in columns)
    body = [row_of(["Model", "Range", *(_over(each, HEADS[name]) for name in CORRELATIONS)])]
    if len(table.columns) > 1:
        rules = [rf"\cmidrule(lr){{{3 + each * i}-{2 + each * (i + 1)}}}" for i in range(len(CORRELATIONS))]
        body += ["".join(rules), row_of(["", "", *(_over(wide[column], _WORDS[column]) for _, column in columns)])]
    for at, places in table.sections:
        body.append(r"\midrule")
        if at is None:
            body.append(row_of([_over(2 + len(aligned), AVERAGES)]))
        for i in places:
            line = table.lines[i]
            cells = []
            for name, column in columns:
                cells.append(_cell(line, column, name, won[column].get((i, name), "")))
                cells += [_interval(line, name)] if wide[column] > 1 else []
            body.append(row_of([escape(line.label), _range(at), *cells]))
    marked = f"{_MARKED}, {APART}." if len(table.columns) > 1 else f"{_MARKED}."
    if bounded:
        marked += r" In brackets: 95\,\% interval."
    return framed(table.name, "ll" + aligned, body, [table.caption, *table.notes], marked, tight=bounded)


def setting_latex(table: SettingTable) -> str:
    """A `table*` of the chosen lambda and t."""
    columns = setting_columns(table)
    both = len(columns) > 1
    body = []
    if both:
        body.append(row_of(["", "", "", *(rf"\multicolumn{{2}}{{c}}{{{_WORDS[column]}}}" for column in columns)]))
        body.append(r"\cmidrule(lr){4-5}\cmidrule(lr){6-7}")
    body.append(row_of(["Main", "Asst", "Range", *([r"$\lambda$", "$t$"] * len(columns))]))
    before: SettingLine | None = None
    for line in table.lines:
        if before is None or before.main != line.main:
            body.append(r"\midrule")
        new = before is None or (before.main, before.assistant) != (line.main, line.assistant)
        names = [escape(line.main), escape(line.assistant)] if new else ["", ""]
        cells = [text for column in columns for text in _setting(getattr(line, column), column == "ours" and line.edge)]
        body.append(row_of([*names, _range(line.range), *cells]))
        before = line
    notes = [table.caption, *table.notes]
    if any(line.edge for line in table.lines):
        notes.append("* at the edge of what was tried.")
    return framed(table.name, "lll" + "rr" * len(columns), body, notes)


def _cell(line: Line, column: Column, name: str, won: str) -> str:
    value = shown(line, column, name)
    if value is None:
        return "--"
    text = figure(value).replace("-", "$-$")  # a minus, not a hyphen
    for mark in won:
        text = rf"\{_COMMANDS[mark]}{{{text}}}"
    return f"{text}$^!$" if column == "printed" and name in line.slips else text


def _interval(line: Line, name: str) -> str:
    own = line.ours.get(name)
    text = "" if own is None else interval(own.low, own.high)
    return rf"{{\scriptsize {text.replace('-', '$-$')}}}" if text else ""


def _over(columns: int, text: str) -> str:
    """A heading over so many columns."""
    return rf"\multicolumn{{{columns}}}{{c}}{{{text}}}" if columns > 1 else text


def _setting(given: tuple[float, float] | None, edge: bool) -> list[str]:
    return ["--", "--"] if given is None else [f"{given[0]:.4g}" + ("*" if edge else ""), f"{given[1]:.4g}"]


def _range(score_range: ScoreRange | None) -> str:
    return "" if score_range is None else re.sub(r"(?<!\d)-(?=\d)", "$-$", escape(str(score_range)))


def row_of(cells: Sequence[str]) -> str:
    """One row of a tabular."""
    return " & ".join(cells) + r" \\"


def framed(
    name: str, columns: str, body: Sequence[str], notes: Sequence[str], marked: str = "", tight: bool = False
) -> str:
    """A `table*` of rows; the first note is its caption, `marked` (LaTeX already) and the others follow it.

    Many columns stand `tight`, so that they fit a page of two columns.
    """
    caption = " ".join(filter(None, [escape(notes[0]), marked, *map(escape, notes[1:])]))
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering",
        r"\small",
        *([r"\setlength{\tabcolsep}{2.5pt}"] if tight else []),
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{name}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"
