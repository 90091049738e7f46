"""Rows of a sheet of a workbook of Excel (.xlsx, .xlsm): what its cells show, as Excel saved it.
Nothing in it is run: no macro, no formula, no link.

A workbook is a ZIP archive of XML, of which a small one may hold much: what it holds is bounded
before anything of it is read.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judgebench.runtime.parsing import check_columns
from judgebench.types import Record
from judgebench.words.errors import UserError, reason

WORKBOOKS = (".xlsx", ".xlsm")
_MOST_BYTES = 2**29
_MOST_ROWS = 2**20
_MOST_CELLS = 50_000_000
"""Bounds: bytes of all parts of the archive as they are unpacked, rows of a sheet (Excel's own), and
its cells, of which empty ones before the last of a row count too."""

_PIECE = 2**20
_CELL = 1000
_UNSAVED = re.compile(
    rb"<c r=\"(\w{1,10})\"[^>]{0,99}>(?:<f[^>]{0,99}/>|<f[^>]{0,99}>[^<]{0,500}</f>)"
    rb"(?:<v ?/>|<v></v>)?</c>"
)
"""Bytes of a part that are read at once, and of a cell; and a cell with a formula and no value."""


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
        _check_archive(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        sheets = {each.title: each for each in book.worksheets}
        if sheet is not None and sheet not in sheets:
            names = ", ".join(f"'{name}'" for name in sheets)
            raise UserError(f"{path.name}: there is no sheet '{sheet}'; there are {names}.")
        for name, each in sheets.items():
            found = _rows(path, each) if sheet in (None, name) else iter(())
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


def _check_archive(path: Path) -> None:
    """`UserError` of an archive that holds too much, of XML with a document type, which Excel never
    writes and which may stand for other files, and of formulas whose values were not saved."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        if size > _MOST_BYTES:
            raise UserError(
                f"{path.name}: unpacked it has {size:,} bytes, and {_MOST_BYTES:,} are allowed; save "
                "the sheet as CSV UTF-8."
            )
        for part in parts:
            if not part.filename.endswith((".xml", ".rels")):
                continue
            with archive.open(part) as file:
                piece = file.read(_PIECE)
                if b"<!DOCTYPE" in piece.replace(b"\0", b""):
                    raise UserError(
                        f"{path.name}: {part.filename} in it has a document type, which Excel never "
                        "writes; save the sheet as CSV UTF-8."
                    )
                while piece:
                    if cell := _UNSAVED.search(piece):
                        raise UserError(
                            f"{path.name}: {cell[1].decode()} is a formula whose value was not "
                            "saved; open the file in Excel and save it, or write the value."
                        )
                    # a cell may lie across two pieces
                    piece = (more := file.read(_PIECE)) and piece[-_CELL:] + more


def _rows(path: Path, sheet: Any) -> Iterator[tuple[int, Record]]:
    from openpyxl.utils import get_column_letter

    sheet.reset_dimensions()  # which a file may state as it likes
    header: list[str] = []
    cells = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
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
                header.append(f"column {get_column_letter(len(header) + 1)}")
            yield number, dict(zip(header, [*values, *[None] * len(header)], strict=False))
        elif not header and len(filled) > 1:
            header = [
                f"column {get_column_letter(i + 1)}"
                if value is None
                else " ".join(str(value).split())
                for i, value in enumerate(values)
            ]
            check_columns(header, f"{path.name} row {number}")


def _value(cell: Any) -> Any:
    """The value of a cell; a date as text."""
    from openpyxl.utils.escape import unescape

    value = cell.value
    if isinstance(value, str):
        value = unescape(value)  # signs that XML cannot hold
        return value if value.strip() else None
    return value if value is None or isinstance(value, bool | int | float) else str(value)
