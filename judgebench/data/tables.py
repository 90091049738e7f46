"""Files of rows of any kind: tables with a header, parquet, JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from judgebench.data.rows import FILE_ENDINGS, LIMITS, FileRow, decoded, existing, json_array, json_lines, json_rows
from judgebench.runtime.errors import UserError


def file_rows(path: Path, within: str | None = None) -> Iterator[FileRow]:
    """The rows of a file of any kind, by its ending: parquet, .csv and .tsv; else JSON, one list or an object a line.

    Args:
        within: the path of the list of rows in a JSON file that is one object.
    """
    if path.suffix == ".parquet":
        rows = parquet_rows(path)
    elif path.suffix in (".csv", ".tsv"):
        rows = table_rows(path)
    elif within is not None:
        rows = json_array(path, within)
    else:
        rows = json_lines(path) if path.suffix == ".jsonl" else json_rows(path)
    for row in rows:
        yield row.named(folder=path.resolve().parent.name, file=path.stem)


def data_files(path: Path) -> list[Path]:
    """The file, or all files of a folder and its subfolders whose ending says that they may hold rows."""
    if not path.is_dir():
        return [existing(path)]
    return sorted(file for file in path.rglob("*") if file.suffix in FILE_ENDINGS and file.is_file())


def table_rows(path: Path) -> Iterator[FileRow]:
    """The rows of a table with a header, UTF-8: .csv, with commas and quotes, or .tsv, with tabs and none. An empty
    cell counts as missing. `UserError` for no such file, or a line that is not UTF-8 or has another number of cells."""
    tabs = path.suffix == ".tsv"
    with existing(path).open("rb") as file:
        lines = (decoded(raw, f"{path.name} line {n}") for n, raw in enumerate(file, start=1))
        reader = csv.reader(
            (line.removeprefix("\ufeff") if n == 0 else line for n, line in enumerate(lines)),
            delimiter="\t" if tabs else ",",
            quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
        )
        header: list[str] = []
        csv.field_size_limit(LIMITS.size)
        try:
            for cells in reader:
                place = f"{path.name} line {reader.line_num}"
                if not header:
                    header = cells
                    if twice := [name for i, name in enumerate(header) if name in header[:i]]:
                        raise UserError(f"{place}: two columns are called '{twice[0]}'; give each a name of its own.")
                elif cells and len(cells) != len(header):
                    raise UserError(
                        f"{place}: has {len(cells)} cells and the header {len(header)}; all lines need as many."
                    )
                elif cells:
                    values = {name: cell or None for name, cell in zip(header, cells, strict=True)}
                    yield FileRow(values, place, reader.line_num)
        except csv.Error as error:
            raise UserError(f"{path.name} line {reader.line_num}: no line of a table ({error}).") from error


def parquet_rows(path: Path) -> Iterator[FileRow]:
    """The rows of a parquet file, or of all parquet files in a folder and its subfolders, by file name; `UserError`
    where there is none, or one is not parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [existing(path)]
    if not files:
        raise UserError(f"{path}: no parquet file in this folder; give a parquet file or the folder that holds it.")
    for file in files:
        number = 0
        try:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(batch_size=1024):
                    for values in batch.to_pylist():
                        number += 1
                        yield FileRow(values, f"{file.name} row {number}", number)
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise UserError(f"{file}: cannot be read as parquet ({error}); give a whole parquet file.") from error


def is_parquet(path: Path) -> bool:
    """True of a folder, and of a file that is parquet by its ending or by its first bytes."""
    if path.is_dir() or path.suffix == ".parquet":
        return True
    with existing(path).open("rb") as file:
        return file.read(4) == b"PAR1"
