"""A table of a paper, the published figures beside ours, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.formats import Format, two, whole
from judgebench.results.series import number
from judgebench.runtime.files import as_csv

LOWERED = "\N{DOWNWARDS ARROW}"
"""Beside the change of an attack that lowers scores."""

_BRACKETS = "In brackets: 95 % interval"
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True)
class Value:
    """A number of ours with its 95 % interval, if there is one; `lowered`: whether it is the size of a fall."""

    value: float
    low: float | None = None
    high: float | None = None
    lowered: bool = False


def per_cent(value: float) -> str:
    """A number that is in per cent already."""
    return f"{whole(value)} %"


@dataclass(frozen=True)
class Measure:
    """A number that lines may say.

    Attributes:
        key: its column in the CSV; head: what people read; latex: the same in LaTeX, where it differs.
        form: the format of a value; ends: of its interval, where it differs.
        ours, paper: whether ours, or the paper's, stands in a column.
        lowered: whether a column of the CSV says if ours fell.
    """

    key: str
    head: str
    form: Format = two
    ends: Format | None = None
    latex: str = ""
    ours: bool = True
    paper: bool = True
    lowered: bool = False


@dataclass(frozen=True)
class CellLine:
    """One thing.

    Attributes:
        labels: its names, one for each head of the table; keys: the same for programs, where they differ.
        ours: measure's key -> value, None where it is unknown; empty where no run has it.
        printed: measure's key -> figure, None where it cannot be read; empty where the paper does not have the line.
    """

    labels: tuple[str, ...]
    ours: Mapping[str, Value | None]
    printed: Mapping[str, float | None]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellTable:
    """Lines that say some numbers of one thing each.

    Attributes:
        name: of its files, without an ending.
        heads: of the labels; keys: of the CSV's columns, where they differ.
        notes: sentences below it; interval: how the intervals are made, behind a comma.
        beside: words behind the heads of ours where the paper's stand there too.
        once: how many labels, from the left, are left out where they repeat; the first two of these part the table.
    """

    name: str
    title: str
    caption: str
    heads: tuple[str, ...]
    measures: Sequence[Measure]
    lines: Sequence[CellLine]
    notes: Sequence[str]
    keys: tuple[str, ...] = ()
    interval: str = ""
    beside: str = " (ours)"
    once: int = 4

    @property
    def ours(self) -> list[Measure]:
        """The measures of ours that any line says."""
        return [one for one in self.measures if one.ours and any(one.key in line.ours for line in self.lines)]

    @property
    def printed(self) -> list[Measure]:
        """The measures of the paper that any line says."""
        return [one for one in self.measures if one.paper and any(one.key in line.printed for line in self.lines)]

    def labels(self, number: int) -> tuple[str, ...]:
        """The labels of a line without those, from the left, that the line before has as well."""
        line, before = self.lines[number].labels, self.lines[number - 1].labels if number else ()
        same = (i for i, pair in enumerate(zip(line, before, strict=False)) if pair[0] != pair[1])
        repeated = min(next(same, 0), self.once)
        return ("",) * repeated + line[repeated:]

    def forms(self) -> dict[str, str]:
        """Ending of a file -> its content, the form for people first."""
        return {"md": _markdown(self), "csv": _csv(self), "tex": _latex(self)}


def _markdown(table: CellTable) -> str:
    """A table for people, in Markdown that is also readable as it stands; ours with 95 % intervals."""
    heads = [*table.heads, *(f"{one.head}{table.beside if table.printed else ''}" for one in table.ours)]
    heads += [f"{one.head}, paper" for one in table.printed]
    rows = [[*table.labels(i), *_cells(table, line)] for i, line in enumerate(table.lines)]
    bounded = any(value and value.low is not None for line in table.lines for value in line.ours.values())
    plain = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *plain]) for i in range(len(heads))]
    lines = [
        f"| {' | '.join(f'{cell:<{w}}' for cell, w in zip(row, widths, strict=True))} |"
        for row in [heads, ["-" * width for width in widths], *plain]
    ]
    rest = table.caption.removeprefix(table.title)
    head = f"**{table.title}{'.' if rest == table.caption else ''}** {rest.lstrip()}"
    notes = [*([f"{_BRACKETS}{table.interval}."] if bounded else []), *table.notes]
    return "\n".join([head, "", *lines, "", *(f"- {note}" for note in notes)]) + "\n"


def _csv(table: CellTable) -> str:
    """The table's lines; every measure has its columns, filled or not."""
    ours, printed = ([one for one in table.measures if getattr(one, name)] for name in ("ours", "paper"))
    fell = [one for one in ours if one.lowered]
    columns = ["table", *(table.keys or map(str.lower, table.heads))]
    columns += [f"{one.key}{end}" for one in ours for end in ("", "_low", "_high")]
    columns += ["lowered" for _ in fell]
    columns += [f"{one.key}_published" for one in printed]
    rows = []
    for line in table.lines:
        row: list[Any] = [table.title, *(line.keys or line.labels)]
        for one in ours:
            value = line.ours.get(one.key)
            ends = (value.value, value.low, value.high) if value else (None,) * 3
            row += [None if end is None else round(end, 6) for end in ends]
        row += [str(value.lowered).lower() if (value := line.ours.get(one.key)) else None for one in fell]
        rows.append([*row, *(line.printed.get(one.key) for one in printed)])
    return as_csv(columns, rows)


def _latex(table: CellTable) -> str:
    """A `table*`; intervals stand in the other forms."""
    groups = [(name, part) for name, part in (("ours", table.ours), ("paper", table.printed)) if part]
    first = len(table.heads)
    body = [latex_row([*[""] * first, *(rf"\multicolumn{{{len(part)}}}{{c}}{{{name}}}" for name, part in groups)])]
    start, rules = first + 1, ""
    for _, part in groups:
        rules += rf"\cmidrule(lr){{{start}-{start + len(part) - 1}}}"
        start += len(part)
    heads = [one.latex or escape(one.head) for _, part in groups for one in part]
    body += [rules, latex_row([*map(escape, table.heads), *heads])]
    parted = min(2, table.once)
    for i, line in enumerate(table.lines):
        if not i or line.labels[:parted] != table.lines[i - 1].labels[:parted]:
            body.append(r"\midrule")
        cells = [cell.partition(" [")[0] for cell in _cells(table, line)]
        numbers = ["--" if cell == "-" else escape(cell).replace("-", "$-$") for cell in cells]
        body.append(latex_row([*map(escape, table.labels(i)), *numbers]))
    columns = "l" * first + "r" * len(heads)
    framed = latex_table(table.name, columns, body, [table.caption, *table.notes])
    return framed.replace(LOWERED, r"$\downarrow$")


def _cells(table: CellTable, line: CellLine) -> list[str]:
    """The numbers of a line: `-` where there is none, `?` where the print cannot be read."""
    cells = []
    for one in table.ours:
        value = line.ours.get(one.key)
        told = "-" if value is None else f"{one.form(value.value)}{LOWERED if value.lowered else ''}"
        if value is not None and value.low is not None and value.high is not None:
            told += f" [{', '.join(map(one.ends or one.form, (value.low, value.high)))}]"
        cells.append(told)
    for one in table.printed:
        figure = line.printed.get(one.key)
        cells.append("-" if one.key not in line.printed else "?" if figure is None else one.form(figure))
    return cells


def value_of(record: Mapping[str, Any], name: str, factor: float = 1.0) -> Value | None:
    """A number of a record with its interval, times `factor`; None where it is unknown."""
    value = number(record.get(name))
    if value is None:
        return None
    low, high = (
        None if (end := number(record.get(f"{name}_{side}"))) is None else factor * end for side in ("low", "high")
    )
    return Value(factor * value, low, high)


def span(values: Iterable[int]) -> str:
    """The lowest and the highest of some numbers."""
    known = sorted({int(value) for value in values})
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; line breaks and other control characters become spaces.

    Example:
        >>> escape("50_% {a}")
        '50\\\\_\\\\% \\\\{a\\\\}'
    """
    plain = re.sub(r"[\x00-\x1f\x7f]+", " ", text)
    return "".join(_SPECIAL.get(character, character) for character in plain)


def latex_row(cells: Sequence[str]) -> str:
    """One row of a tabular."""
    return " & ".join(cells) + r" \\"


def latex_table(
    name: str, columns: str, body: Sequence[str], notes: Sequence[str], marked: str = "", tight: bool = False
) -> str:
    """A `table*` of rows (needs the package booktabs); the first note is its caption, `marked` (LaTeX already) and the
    others follow it.

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
