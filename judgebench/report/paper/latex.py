"""The paper's tables as LaTeX (needs the package booktabs), marked as its captions say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from judgebench.metrics.correlation import CORRELATIONS
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
    """A `table*`; intervals stand in the text and CSV forms, tables to compare with in files of their own."""
    columns = [(name, column) for name in CORRELATIONS for column in table.columns]
    won = {column: marks(table, column) for column in table.columns}
    each = len(table.columns)
    heads = [rf"\multicolumn{{{each}}}{{c}}{{{HEADS[name]}}}" if each > 1 else HEADS[name] for name in CORRELATIONS]
    body = [row_of(["Model", "Range", *heads])]
    if each > 1:
        rules = [rf"\cmidrule(lr){{{3 + each * i}-{2 + each * (i + 1)}}}" for i in range(len(CORRELATIONS))]
        body += ["".join(rules), row_of(["", "", *(_WORDS[column] for _, column in columns)])]
    for at, places in table.sections:
        body.append(r"\midrule")
        if at is None:
            body.append(row_of([rf"\multicolumn{{{2 + len(columns)}}}{{c}}{{{AVERAGES}}}"]))
        for i in places:
            line = table.lines[i]
            cells = [_cell(line, column, name, won[column].get((i, name), "")) for name, column in columns]
            body.append(row_of([escape(line.label), _range(at), *cells]))
    marked = f"{_MARKED}, {APART}." if each > 1 else f"{_MARKED}."
    return framed(table.name, "ll" + "r" * len(columns), body, [table.caption, *table.notes], marked)


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


def _setting(given: tuple[float, float] | None, edge: bool) -> list[str]:
    return ["--", "--"] if given is None else [f"{given[0]:.4g}" + ("*" if edge else ""), f"{given[1]:.4g}"]


def _range(score_range: ScoreRange | None) -> str:
    return "" if score_range is None else escape(str(score_range))


def row_of(cells: Sequence[str]) -> str:
    """One row of a tabular."""
    return " & ".join(cells) + r" \\"


def framed(name: str, columns: str, body: Sequence[str], notes: Sequence[str], marked: str = "") -> str:
    """A `table*` of rows; the first note is its caption, `marked` (LaTeX already) and the others follow it."""
    caption = " ".join(filter(None, [escape(notes[0]), marked, *map(escape, notes[1:])]))
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering",
        r"\small",
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
