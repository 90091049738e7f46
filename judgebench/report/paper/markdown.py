"""A table as Markdown that is also readable as it stands."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(
    title: str, caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> str:
    """Title and caption, the rows under their heads in even columns, the notes as a list.

    Args:
        rows: of cells that may hold whatever names hold.
    """
    plain = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *plain]) for i in range(len(heads))]
    rule = ["-" * width for width in widths]
    lines = [
        f"| {' | '.join(f'{cell:<{w}}' for cell, w in zip(row, widths, strict=True))} |"
        for row in [list(heads), rule, *plain]
    ]
    told = caption.removeprefix(title)
    head = f"**{title}{'.' if told == caption else ''}** {told.lstrip()}"
    return "\n".join([head, "", *lines, "", *(f"- {note}" for note in notes)]) + "\n"
