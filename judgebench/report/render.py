"""Blocks written for a terminal, a page, Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from judgebench.report.formats import UNKNOWN
from judgebench.report.table import Block, Col, Facts, Folded, Heading, Paragraph, Table, TableCell
from judgebench.runtime.errors import escape_control

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"λ": r"$\lambda$", "κ": r"$\kappa$", "Δ": r"$\Delta$", "↓": r"$\downarrow$"}
)
_FONTS = {"_": "underline", "/": "textit", "*": "textbf"}
"""Signs -> how LaTeX shows them."""

_KEPT = 20
"""Widths from which a column of a terminal is never narrower."""

WIDTH = 100
"""Columns that tables are made for; a console narrower than this folds cells."""

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,  # ids, names and texts come from data sets and models: none of them may become markup
    undefined=jinja2.StrictUndefined,
    finalize=lambda said: said if isinstance(said, Markup) or not isinstance(said, str) else escape_control(said),
    trim_blocks=True,
    lstrip_blocks=True,
)


def macros() -> Any:
    """Macros that write each kind of block in a page, by the block's name."""
    return TEMPLATES.get_template("blocks.html.j2").module


class Terminal(Console):
    """A rich console whose text holds no character that steers a terminal; colors and cursor are rich's own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See `Console.render`."""
        return _printed(super().render(renderable, options))


def _printed(segments: Iterable[Segment]) -> Iterator[Segment]:
    for segment in segments:
        shown = segment.text if segment.control else escape_control(segment.text)
        yield segment if shown == segment.text else type(segment)(shown, segment.style)


def to_terminal(blocks: Iterable[Any]) -> RenderableType:
    """Blocks as a rich renderable, for a console of at least 100 columns; headings stand in the tables' titles."""
    return Group(*(part for block in blocks for part in _terminal(block)))


def to_html(blocks: Iterable[Block]) -> Markup:
    """Blocks as parts of a page."""
    written = macros()
    return Markup("").join(getattr(written, type(block).__name__.lower())(block) for block in blocks)


def to_markdown(table: Table, caption: str = "", notes: Sequence[str] | None = None) -> str:
    """A table in Markdown that is also readable as it stands, emphasized cells bold.

    Args:
        caption: stands above it; empty takes its title.
        notes: stand below it; None takes its own.
    """
    caption = caption or f"**{_title(table)}**"
    notes = list(filter(None, [_note(table, "Bold")])) if notes is None else notes
    rows = [[f"{column.title}, {column.group}" if column.group else column.title for column in table.columns]]
    for section in table.sections:
        rows += [[section.title, *[""] * (len(table.columns) - 1)]] if section.title else []
        rows += [[f"**{cell}**" if cell.marked else str(cell) for cell in row] for row in section.rows]
    cells = [[" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in cells]
    return "\n".join([caption, "", *lines, *(["", *(f"- {note}" for note in notes)] if notes else [])]) + "\n"


def to_latex(table: Table, caption: str, marks: str = "") -> str:
    """A table as a LaTeX `table*` (package booktabs), emphasized cells bold; columns of one group stand under its name.

    Args:
        marks: the meaning of signs, LaTeX already; it follows the caption.
    """
    body, rules, spans, start = [], "", [], 1
    for name, part in groupby(column.group for column in table.columns):
        end = start + len(list(part)) - 1
        spans += [rf"\multicolumn{{{end - start + 1}}}{{c}}{{{escape(name)}}}"] if name else [""] * (end - start + 1)
        rules += rf"\cmidrule(lr){{{start}-{end}}}" if name else ""
        start = end + 1
    body += [_latex_row(spans), rules] if rules else []
    body.append(_latex_row(map(escape, table.heads)))
    for section in table.sections:
        body.append(r"\midrule")
        if section.title:
            body.append(_latex_row([rf"\multicolumn{{{len(table.columns)}}}{{c}}{{{escape(section.title)}}}"]))
        body += [_latex_row(map(_latex_cell, row)) for row in section.rows]
    bounded = any(cell.interval for section in table.sections for row in section.rows for cell in row)
    columns = "".join("l" if column.left else "r" for column in table.columns)
    return (
        "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                r"\begin{table*}",
                r"\centering",
                r"\small",
                *([r"\setlength{\tabcolsep}{2.5pt}"] if bounded else []),  # so that they fit a page of two columns
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{' '.join(filter(None, [escape(caption), marks]))}}}",
                rf"\label{{tab:{table.name}}}",
                r"\end{table*}",
            ]
        )
        + "\n"
    )


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; line breaks and other control characters become spaces.

    Example:
        >>> escape("50_% {a}")
        '50\\\\_\\\\% \\\\{a\\\\}'
    """
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).translate(_LATEX)


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _latex_cell(cell: TableCell) -> str:
    """A cell; a hyphen before a number becomes a minus, and each sign a font or a raised character."""
    text = "--" if cell.text == UNKNOWN else _minus(cell.text)
    text = rf"\textbf{{{text}}}" if cell.marked else text
    for sign in cell.signs:
        text = rf"\{_FONTS[sign]}{{{text}}}" if sign in _FONTS else f"{text}$^{{{escape(sign).strip('$')}}}$"
    ends = rf"{{\scriptsize {_minus(cell.interval)}}}" if cell.interval else ""
    return " ".join(filter(None, [text, ends, *map(escape, (cell.detail, *cell.flags))]))


def _minus(text: str) -> str:
    return re.sub(r"(?<!\w)-(?=[.\d])", "$-$", escape(text))


def _terminal(block: Any) -> list[RenderableType]:
    if isinstance(block, Table):
        note = _note(block, "*")
        return [_rich_table(block), *([Text(note, style="dim")] if note else [])]
    if isinstance(block, Paragraph):
        line = Text(f"! {block.warning}: " if block.warning else "", style="yellow")
        return [line.append(block.text, style="dim" if block.note else "none")]
    if isinstance(block, Facts):
        return [Text(f"{term}: {' '.join(sentences)}") for term, sentences in block.rows]
    return [] if isinstance(block, Heading | Folded) else [block]


def _rich_table(table: Table) -> RichTable:
    shown = [place for place, column in enumerate(table.columns) if not column.page]
    grid = RichTable(box=box.HORIZONTALS, padding=0, pad_edge=False, title_justify="left", title_style="bold")
    grid.title = Text(_title(table))
    for place in shown:
        column = table.columns[place]
        grid.add_column(
            column.title,
            justify="left" if column.left or column.ends else "right",
            overflow="fold",
            min_width=column.width if column.width >= _KEPT else None,
            max_width=column.width or None,
            no_wrap=not column.left and column.ends is None,
        )
    widths = [
        max((len(row[place].text) for section in table.sections for row in section.rows), default=0) for place in shown
    ]
    for section in table.sections:
        if section.title:
            grid.add_row(Text(section.title, style="bold"))
        for number, row in enumerate(section.rows):
            cells = [
                _rich_cell(row[place], table.columns[place], table.is_marked, width)
                for place, width in zip(shown, widths, strict=True)
            ]
            if section.notes and section.notes[number]:
                cells[-1].append(f"\n{section.notes[number]}", style="dim")
            grid.add_row(*cells)
        grid.add_section()
    return grid


def _rich_cell(cell: TableCell, column: Col, marks: bool, width: int) -> Text:
    """A cell; numbers with intervals are padded to a width, outside of what is underlined, so that they line up."""
    line = Text(" " * (width - len(cell.text)) if column.ends else "")
    line.append(cell.text, style="underline bold" if cell.marked else "")
    if marks and column.marked:
        line.append("*" if cell.marked else " ")
    if cell.interval:
        line.append(f" {cell.interval}" if cell.text else cell.interval, style="dim")
    if cell.detail:
        line.append(f"\n  {cell.detail}", style="dim")
    if cell.flags:
        line.append(f"\n  ! {', '.join(cell.flags)}", style="yellow")
    return line


def _title(table: Table) -> str:
    heading = f"{table.heading[:1].lower()}{table.heading[1:]}" if table.title else table.heading
    return ": ".join(part for part in (table.title, heading) if part) + (f", {table.size}" if table.size else "")


def _note(table: Table, mark: str) -> str:
    return " ".join(part for part in (table.note, f"{mark}: {table.marks}." if table.marks else "") if part)
