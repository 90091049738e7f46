"""Rows of a sheet of a workbook of Excel (.xlsx, .xlsm): what its cells show, as Excel saved it.
Nothing in it is run: no macro, no formula, no link.

A workbook is a ZIP archive of XML, of which a small one may hold much: what it holds is bounded
before anything of it is read.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from judgebench.runtime.errors import UserError, reason
from judgebench.runtime.parsing import check_columns
from judgebench.types import Record

WORKBOOKS = (".xlsx", ".xlsm")
_MOST_BYTES = 2**29
_MOST_ROWS = 2**20
_MOST_CELLS = 50_000_000
"""Bounds: bytes of all parts of the archive as they are unpacked, rows of a sheet (Excel's own), and
its cells, of which empty ones before the last of a row count too."""

_PIECE = 2**20
_NAME = 40
_FORMULA = re.compile(rb"<(\w{1,20}:)?f[ >/]")
"""Bytes of a part that are read at once, of an element's name, and the element of a formula."""


def read_sheet(path: Path, sheet: str | None = None) -> Iterator[tuple[int, Record]]:
    """The rows of a sheet below its header, each with its number in Excel: column -> value, null
    for an empty cell. The header is the first row with two cells or more, and rows without any are
    left out.

    Args:
        sheet: its name; None takes the first that holds something.

    Raises:
        UserError: openpyxl is not installed, no such sheet, no workbook or a broken one, one that
            holds too much, or a formula whose value was not saved.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise UserError(
            f"{path.name}: a workbook of Excel is read by openpyxl, which is not installed; install "
            "it with `pip install 'judgebench[excel]'`, or save the sheet as CSV UTF-8."
        ) from error
    try:
        # 1. the sheets with their values, and, where there are any, with their formulas
        calculates = _check_archive(path)
        open_book = partial(openpyxl.load_workbook, path, read_only=True, keep_links=False)
        sheets = {each.title: each for each in open_book(data_only=True).worksheets}
        formulas = {each.title: each for each in open_book().worksheets} if calculates else {}
        # 2. the rows of one
        if sheet is not None and sheet not in sheets:
            names = ", ".join(f"'{name}'" for name in sheets)
            raise UserError(f"{path.name}: there is no sheet '{sheet}'; there are {names}.")
        for name, each in sheets.items():
            found = _rows(path, each, formulas.get(name)) if sheet in (None, name) else iter(())
            first = next(found, None)
            if first is not None:
                yield first
                yield from found
                break
    except UserError:
        raise
    # its own errors, the archive's and those of XML have no common base
    except Exception as error:
        raise UserError(
            f"{path.name}: cannot be read as a workbook of Excel ({reason(error)}); save it again "
            "as .xlsx, or its sheet as CSV UTF-8."
        ) from error


def sheet_lines(path: Path) -> list[str]:
    """A line on the sheets of a workbook that has several, of which none was named; none of any
    other file."""
    if path.suffix not in WORKBOOKS:
        return []
    import openpyxl

    names = openpyxl.load_workbook(path, read_only=True, keep_links=False).sheetnames
    line = f"sheet: the first that holds something, of {', '.join(names)} (sheet=NAME)"
    return [line] if len(names) > 1 else []


def _check_archive(path: Path) -> bool:
    """True where a sheet has a formula; `UserError` of an archive that holds too much, or XML with a
    document type, which Excel never writes, and which may stand for much or for other files."""
    calculates = False
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        if size > _MOST_BYTES:
            raise UserError(
                f"{path.name}: unpacked it has {size:,} bytes, and {_MOST_BYTES:,} are allowed; save "
                "the sheet as CSV UTF-8."
            )
        for part in parts:
            if part.filename.endswith((".xml", ".rels")):
                with archive.open(part) as file:
                    start = file.read(_PIECE)
                    piece = start
                    while piece:
                        calculates = calculates or bool(_FORMULA.search(piece))
                        # an element's name may lie across two pieces
                        piece = (more := file.read(_PIECE)) and piece[-_NAME:] + more
                plain = start.replace(b"\0", b"")
                if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
                    raise UserError(
                        f"{path.name}: {part.filename} in it has a document type, which Excel never "
                        "writes; save the sheet as CSV UTF-8."
                    )
    return calculates


def _rows(path: Path, sheet: Any, formulas: Any) -> Iterator[tuple[int, Record]]:
    """See `read_sheet`; `formulas` is the same sheet with formulas in the place of their values, or
    None."""
    sheet.reset_dimensions()  # which a file may state as it likes
    written: Iterator[Any] = repeat(())
    if formulas is not None:
        formulas.reset_dimensions()
        written = formulas.iter_rows()
    header: list[str] = []
    cells = 0
    for number, (row, asked) in enumerate(zip(sheet.iter_rows(), written, strict=False), start=1):
        for cell, formula in zip(row, asked, strict=False):
            if cell.value is None and formula.value is not None:
                raise UserError(
                    f"{path.name}: {formula.coordinate} of sheet '{sheet.title}' is a formula whose "
                    "value was not saved; open the file in Excel and save it, or write the value."
                )
        values = [_value(cell) for cell in row]
        filled = [value for value in values if value is not None]
        cells += len(values)
        if number > _MOST_ROWS or cells > _MOST_CELLS:
            raise UserError(
                f"{path.name}: sheet '{sheet.title}' has more than {_MOST_ROWS:,} rows or "
                f"{_MOST_CELLS:,} cells; save what is needed as CSV UTF-8."
            )
        if header and filled:
            while len(header) < len(values):
                header.append(_lettered(len(header)))
            yield number, dict(zip(header, [*values, *[None] * len(header)], strict=False))
        elif not header and len(filled) > 1:
            header = [
                _lettered(i) if value is None else " ".join(str(value).split())
                for i, value in enumerate(values)
            ]
            check_columns(header, f"{path.name} row {number}")


def _lettered(place: int) -> str:
    """The name of a column without one, as `column C`."""
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"column {letters}"


def _value(cell: Any) -> Any:
    """What a cell shows; a date as ISO 8601 writes it."""
    value = cell.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, str):
        # signs that XML cannot hold, as Excel writes them
        value = re.sub(r"_x([0-9A-Fa-f]{4})_", lambda sign: chr(int(sign[1], 16)), value)
        return value if value.strip() else None
    return value if value is None or isinstance(value, bool | int | float) else str(value)
