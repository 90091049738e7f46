"""Tables as CSV that a spreadsheet shows and does not run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from judgebench.runtime.errors import escape_control

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV file's text; its cells are `csv_cell`s."""
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(csv_cell, columns))
        writer.writerows(map(csv_cell, row) for row in rows)
        return file.getvalue()


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula and no terminal for a command; numbers stay as they are.

    Example:
        >>> csv_cell("=HYPERLINK(1)"), csv_cell("-0.5"), csv_cell(-0.5), csv_cell("\\x1b[2J"), csv_cell("a - b")
        ("'=HYPERLINK(1)", '-0.5', -0.5, '\\\\x1b[2J', 'a - b')
    """
    if not isinstance(value, str):
        return value
    text = escape_control(value)
    return f"'{text}" if value.startswith(_FORMULA) and not _is_number(value) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
