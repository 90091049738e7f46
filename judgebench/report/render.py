"""Blocks written for a terminal, a page, Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from judgebench.report.table import Block, Col, Details, Facts, Heading, Paragraph, Table, TableCell
from judgebench.words.formats import UNKNOWN
from judgebench.words.pages import page_templates

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"λ": r"$\lambda$", "κ": r"$\kappa$", "Δ": r"$\Delta$", "↓": r"$\downarrow$"}
)
_FONTS = {"_": "underline", "/": "textit", "*": "textbf"}
"""Signs -> the commands by which LaTeX shows them."""

_KEPT = 20
"""Widths from which a column of a terminal is never narrower."""


TEMPLATES = page_templates(Path(__file__).parent / "templates")


_MARKDOWN = re.compile(
    r"[\\`*\[\]|~#!@$]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.|^[-+](?=\s)|(?<=^\d)[.)](?=\s)"
)


def markdown(text: str) -> str:
    """A text of a line that Markdown shows as it is: no link, picture, table, emphasis, heading or
    list; less than and ampersand are HTML's affair.

    Example:
        >>> print(markdown("[a](http://b) *c* snake_case 0.5"))
        \\[a\\](http\\://b) \\*c\\* snake_case 0.5
    """
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split()))


TEMPLATES.filters["markdown"] = markdown


def macros() -> Any:
    """Macros that write each kind of block in a page, by the block's name."""
    return TEMPLATES.get_template("blocks.html.j2").module


def to_html(blocks: Iterable[Block]) -> Markup:
    """Blocks as parts of a page."""
    return Markup("").join(
        getattr(macros(), type(block).__name__.lower())(block) for block in blocks
    )


def to_terminal(blocks: Iterable[Any]) -> RenderableType:
    """Blocks as a rich renderable, for a console of at least 100 columns; headings stand in the
    tables' titles."""
    parts: list[RenderableType] = []
    for block in blocks:
        if isinstance(block, Table):
            parts.append(_rich_table(block))
            if note := _note(block, "*"):
                parts.append(Text(note, style="dim"))
        elif isinstance(block, Paragraph):
            line = Text(f"! {block.warning}: " if block.warning else "", style="yellow")
            parts.append(
                line.append(
                    block.text,
                    style="dim" if block.note else "none",
                )
            )
        elif isinstance(block, Facts):
            parts += [Text(f"{term}: {' '.join(sentences)}") for term, sentences in block.rows]
        elif not isinstance(block, Heading | Details):
            parts.append(block)
    return Group(*parts)


def _rich_table(table: Table) -> RichTable:
    grid = RichTable(
        box=box.HORIZONTALS, padding=0, pad_edge=False, title_justify="left", title_style="bold"
    )
    grid.title = Text(_title(table))
    rows = [row for section in table.sections for row in section.rows]
    shown: dict[int, Col] = {}
    widths = {}
    for place, column in enumerate(table.columns):
        if column.page:
            continue
        shown[place] = column
        widths[place] = max((len(row[place].text) for row in rows), default=0)
        grid.add_column(
            column.title,
            justify="left" if column.left or column.ends else "right",
            overflow="fold",
            min_width=column.width if column.width >= _KEPT else None,
            max_width=column.width or None,
            no_wrap=not column.left and column.ends is None,
        )
    for section in table.sections:
        if section.title:
            grid.add_row(Text(section.title, style="bold"))
        for row, note in zip_longest(section.rows, section.notes):
            cells = []
            for place, column in shown.items():
                # Numbers with intervals are padded so that they line up.
                pad = widths[place] - len(row[place].text) if column.ends else 0
                cells.append(_rich_cell(row[place], pad, bool(table.is_marked and column.marked)))
            cells[-1].append(f"\n{note}" if note else "", style="dim")
            grid.add_row(*cells)
        grid.add_section()
    return grid


def to_grid(table: Table) -> RichTable:
    """A table in as few lines as it has rows, below its heads: no lines, no notes, one space
    between columns more than within cells; for the answer of a run."""
    grid = RichTable.grid(padding=(0, 2))
    grid.show_header = True
    for column in table.columns:
        justify: Literal["left", "right"] = "left" if column.left else "right"
        grid.add_column(Text(column.title, style="dim"), justify=justify, no_wrap=True)
    for section in table.sections:
        for row in section.rows:
            grid.add_row(*(Text(str(cell), style=cell.color) for cell in row))
    return grid


def _rich_cell(cell: TableCell, pad: int, starred: bool) -> Text:
    """A cell with so many blanks before it, and with a star where it is emphasized."""
    line = Text(" " * pad)
    line.append(cell.text, style="underline bold" if cell.marked else "")
    if starred:
        line.append("*" if cell.marked else " ")
    if cell.interval:
        line.append(f" {cell.interval}" if cell.text else cell.interval, style="dim")
    line.append(f"\n  {cell.detail}" if cell.detail else "", style="dim")
    return line.append(f"\n  ! {', '.join(cell.flags)}" if cell.flags else "", style="yellow")


def to_markdown(table: Table, caption: str = "", notes: Sequence[str] | None = None) -> str:
    """A table in Markdown that is also readable as it stands, emphasized cells bold.

    Args:
        caption: stands above it; empty takes its title.
        notes: stand below it; None takes its own.
    """
    if notes is None:
        own = _note(table, "Bold")
        notes = [own] if own else []
    heads = [", ".join(filter(None, [column.title, column.group])) for column in table.columns]
    rows = [heads]
    for section in table.sections:
        if section.title:
            rows.append([section.title, *[""] * (len(heads) - 1)])
        for row in section.rows:
            rows.append([f"**{cell}**" if cell.marked else str(cell) for cell in row])
    cells = [[" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = [caption or f"**{_title(table)}**", ""]
    lines += [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in cells]
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def to_latex(table: Table, caption: str, marks: str = "") -> str:
    """A table as a LaTeX `table*` (package booktabs), emphasized cells bold; columns of one group
    stand under its name.

    Args:
        marks: the meaning of signs, LaTeX already; it follows the caption.
    """
    # 1. heads of groups, with rules below them
    heads = []
    rules = ""
    start = 1
    for name, part in groupby(column.group for column in table.columns):
        width = len(list(part))
        heads += [rf"\multicolumn{{{width}}}{{c}}{{{escape(name)}}}"] if name else [""] * width
        rules += rf"\cmidrule(lr){{{start}-{start + width - 1}}}" if name else ""
        start += width
    body = [_latex_row(heads), rules] if rules else []
    body.append(_latex_row(map(escape, table.heads)))
    # 2. rows
    for section in table.sections:
        body.append(r"\midrule")
        if section.title:
            many = len(table.columns)
            body.append(rf"\multicolumn{{{many}}}{{c}}{{{escape(section.title)}}} \\")
        body += [_latex_row(map(_latex_cell, row)) for row in section.rows]
    tight = any(cell.interval for cell in table.cells)  # so that they fit a page of two columns
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering",
        r"\small",
        *([r"\setlength{\tabcolsep}{2.5pt}"] if tight else []),
        rf"\begin{{tabular}}{{{''.join('l' if column.left else 'r' for column in table.columns)}}}",
        r"\toprule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{' '.join(filter(None, [escape(caption), marks]))}}}",
        rf"\label{{tab:{table.name}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; line breaks and other control characters become spaces.

    Example:
        >>> escape("50_% {a}")
        '50\\\\_\\\\% \\\\{a\\\\}'
    """
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).translate(_LATEX)


def _latex_cell(cell: TableCell) -> str:
    """A cell; a hyphen before a number becomes a minus, and each sign a font or a raised
    character."""
    text, ends = (
        re.sub(r"(?<!\w)-(?=[.\d])", "$-$", escape(part)) for part in (cell.text, cell.interval)
    )
    text = "--" if cell.text == UNKNOWN else text
    text = rf"\textbf{{{text}}}" if cell.marked else text
    for sign in cell.signs:
        text = (
            rf"\{_FONTS[sign]}{{{text}}}"
            if sign in _FONTS
            else f"{text}$^{{{escape(sign).strip('$')}}}$"
        )
    ends = rf"{{\scriptsize {ends}}}" if ends else ""
    return " ".join(filter(None, [text, ends, *map(escape, (cell.detail, *cell.flags))]))


def _title(table: Table) -> str:
    heading = f"{table.heading[:1].lower()}{table.heading[1:]}" if table.title else table.heading
    named = ": ".join(filter(None, [table.title, heading]))
    return f"{named}, {table.size}" if table.size else named


def _note(table: Table, mark: str) -> str:
    marks = f"{mark}: {table.marks}." if table.marks else ""
    return " ".join(filter(None, (table.meanings, table.note, marks)))
