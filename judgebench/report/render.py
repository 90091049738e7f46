"""Blocks written for a terminal, a page, Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from judgebench.report.page import macros
from judgebench.report.table import Block, Col, Facts, Folded, Heading, Paragraph, Table, TableCell
from judgebench.runtime.files import as_csv

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


_KEPT = 20
"""Widths from which a column of a terminal is never narrower."""


def to_terminal(blocks: Iterable[Any]) -> RenderableType:
    """Blocks as a rich renderable, for a console of at least 100 columns; headings stand in the tables' titles."""
    return Group(*(part for block in blocks for part in _terminal(block)))


def to_html(blocks: Iterable[Block]) -> Markup:
    """Blocks as parts of a page."""
    written = macros()
    return Markup("").join(getattr(written, type(block).__name__.lower())(block) for block in blocks)


def to_markdown(table: Table) -> str:
    """A table in Markdown, its title and note around it; emphasized cells are bold."""
    lines = [f"**{_title(table)}**", "", _piped(table.heads), _piped("---" for _ in table.columns)]
    for section in table.sections:
        lines += [_piped([f"*{section.title}*", *[""] * (len(table.columns) - 1)])] if section.title else []
        lines += [_piped(f"**{cell}**" if cell.marked else str(cell) for cell in row) for row in section.rows]
    note = _note(table, "Bold")
    return "\n".join([*lines, *(["", note] if note else [])]) + "\n"


def to_latex(table: Table) -> str:
    """A table in LaTeX (package booktabs); emphasized cells are bold."""
    lines = [rf"\begin{{tabular}}{{{''.join('l' if column.left else 'r' for column in table.columns)}}}", r"\toprule"]
    lines += [_rowed(head.translate(_LATEX) for head in table.heads)]
    for section in table.sections:
        lines += [r"\midrule"]
        if section.title:
            lines += [rf"\multicolumn{{{len(table.columns)}}}{{l}}{{{section.title.translate(_LATEX)}}} \\"]
        for row in section.rows:
            cells = [str(cell).translate(_LATEX) for cell in row]
            written = zip(row, cells, strict=True)
            lines += [_rowed(rf"\textbf{{{text}}}" if cell.marked else text for cell, text in written)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def to_csv(tables: Sequence[Table]) -> str:
    """Tables of one view as CSV: title and section in columns of their own, intervals beside their numbers."""
    rows = [
        [table.title, section.title, *map(str, row)]
        for table in tables
        for section in table.sections
        for row in section.rows
    ]
    return as_csv(["table", "section", *(tables[0].heads if tables else ())], rows)


def _terminal(block: Any) -> list[RenderableType]:
    if isinstance(block, Heading):
        return []
    if isinstance(block, Paragraph):
        told = Text(f"! {block.warning}: " if block.warning else "", style="yellow")
        return [told.append(block.text, style="dim" if block.note else "none")]
    if isinstance(block, Facts):
        return [Text(f"{term}: {' '.join(told)}") for term, told in block.rows]
    if isinstance(block, Folded) or not isinstance(block, Table):
        return [block] if not isinstance(block, Folded) else []
    note = _note(block, "*")
    return [_rich_table(block), *([Text(note, style="dim")] if note else [])]


def _rich_table(table: Table) -> RichTable:
    shown = [place for place, column in enumerate(table.columns) if not column.page]
    found = RichTable(box=box.HORIZONTALS, padding=0, pad_edge=False, title_justify="left", title_style="bold")
    found.title = Text(_title(table))
    for place in shown:
        column = table.columns[place]
        found.add_column(
            column.title,
            justify="left" if column.left or column.ends else "right",
            overflow="fold",
            min_width=column.width if column.width >= _KEPT else None,
            max_width=column.width or None,
            no_wrap=not column.left and column.ends is None,
        )
    widths = [max((len(row[place].text) for one in table.sections for row in one.rows), default=0) for place in shown]
    for section in table.sections:
        if section.title:
            found.add_row(Text(section.title, style="bold"))
        for number, row in enumerate(section.rows):
            cells = [
                _rich_cell(row[place], table.columns[place], table.is_marked, width)
                for place, width in zip(shown, widths, strict=True)
            ]
            if section.notes and section.notes[number]:
                cells[-1].append(f"\n{section.notes[number]}", style="dim")
            found.add_row(*cells)
        found.add_section()
    return found


def _rich_cell(cell: TableCell, column: Col, marks: bool, width: int) -> Text:
    """A cell; numbers with intervals are padded to a width, outside of what is underlined, so that they line up."""
    told = Text(" " * (width - len(cell.text)) if column.ends else "")
    told.append(cell.text, style="underline bold" if cell.marked else "")
    if marks and column.marked:
        told.append("*" if cell.marked else " ")
    if cell.interval:
        told.append(f" {cell.interval}" if cell.text else cell.interval, style="dim")
    if cell.detail:
        told.append(f"\n  {cell.detail}", style="dim")
    if cell.flags:
        told.append(f"\n  ! {', '.join(cell.flags)}", style="yellow")
    return told


def _title(table: Table) -> str:
    heading = f"{table.heading[:1].lower()}{table.heading[1:]}" if table.title else table.heading
    return ": ".join(part for part in (table.title, heading) if part) + (f", {table.size}" if table.size else "")


def _note(table: Table, mark: str) -> str:
    return " ".join(part for part in (table.note, f"{mark}: {table.marks}." if table.marks else "") if part)


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _rowed(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"
