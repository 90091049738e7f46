"""Rows of files of any kind, each of which knows where it stands, so that an error can say so; and
the hub's data sets.

A file is one JSON list or an object a line (.json, .jsonl), a table with a header (.csv, .tsv),
parquet, or a sheet of a workbook (.xlsx).
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from judgebench.data.dialogues import PARTS, part_of
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import (
    Limits,
    check_columns,
    opened,
    parse_json,
    read_json,
    read_text,
)
from judgebench.runtime.workbook import WORKBOOKS, read_sheet
from judgebench.types import Row
from judgebench.words.errors import UserError, reason, shown

_EMBEDDED = "embedded:"
FILE_ENDINGS = (".json", ".jsonl", ".csv", ".tsv", ".parquet", *WORKBOOKS)
_NUMBER = re.compile(r"\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?\s*")
_WITH_POINT = (
    "a number with a decimal point (commas are read in tables with semicolons or tabs, where all "
    "cells of the column are such numbers)"
)
LIMITS = Limits(size=2**33, nodes=10**9, loose=True)
"""Data may be large, and a row checks the texts and numbers that are taken from it."""


class Word(float):
    """A label in words: no number until its class gives it one.

    Attributes:
        text: the word.
        field: its place and field, for errors.
    """

    text: str
    field: str

    @classmethod
    def of(cls, text: str, field: str) -> Word:
        word = cls("nan")
        word.text = text
        word.field = field
        return word


class Pointed(str):
    """A number with a decimal point, in whose cell it has a comma.

    Attributes:
        written: the cell, which is what it says where a text or a name is wanted.
    """

    written: str

    @classmethod
    def of(cls, cell: str) -> Pointed:
        number = cls(cell.replace(",", "."))
        number.written = cell
        return number


@dataclass(frozen=True)
class FileRow:
    """One row of a file. Getters return a value of the asked type, or raise a UserError that names
    the place. They take the name of a field, or else a path into objects and lists, or into a text
    that is JSON, as `gen.gpt.text` and `snippet.0` (of a text instead of a list, all of it); of a
    dialogue, a list of messages, `messages.reply`, `.before` and `.whole` (see `dialogues`).

    Attributes:
        values: field -> value as read, of which null counts as missing.
        place: as in "mini.jsonl line 3".
        position: its line, entry or row, counted from 1.
        names: what `{folder}`, `{file}` and the like in the name of a field stand for.
        byte: at which its line begins; 0 where the file has no lines of its own.
        within: the file, where several are read: "Natural/dataset/".
    """

    values: Row
    place: str
    position: int
    names: Mapping[str, str] = field(default_factory=dict)
    within: str = ""
    byte: int = 0

    def named(self, **names: str) -> FileRow:
        """The same row with further names."""
        return replace(self, names={**self.names, **names})

    def filled(self, field: str) -> str:
        """A field's name with the row's names filled in."""
        for name, text in self.names.items() if "{" in field else ():
            field = field.replace(f"{{{name}}}", text)
        return field

    def value(self, field: str) -> Any:
        """Value of the field; None where there is none."""
        return _at(self.values, self.filled(field))

    def has(self, field: str) -> bool:
        return self.value(field) is not None

    def text(self, field: str | Sequence[str]) -> str:
        """A text; of several fields, those that hold one, with a blank line between them."""
        if isinstance(field, str):
            return self._text(field, self._get(field))
        parts = [self.text(name) for name in field if self.has(name)]
        return "\n\n".join(part for part in parts if part.strip()) if parts else self.text(field[0])

    def identifier(self, field: str) -> str:
        """A name, given as text that is not blank or as a whole number; a field with `{folder}` or
        the like is the name itself."""
        if self.names and "{" in field:
            return self.filled(field)
        value = self._get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(field, "a name or a whole number", value)
        return self._text(field, value)

    def number(self, field: str) -> float:
        return self._number(field, self._get(field))

    def scores(self, field: str | Sequence[str], words: bool = False) -> dict[str, float]:
        """Rater -> score, of one rater, a number, or of several: a list, or an object with their
        names, or a list of `{annotator, score}`, or a field each, which names the rater; those with
        null gave none. At least one.
        Raters without names are "1", "2", ...

        Args:
            words: a score may be a word, or a truth value; it is a `Word` then.
        """
        if not isinstance(field, str):
            return {
                name: self._score(name, self.value(name), words) for name in field if self.has(name)
            } or self.scores(field[0], words)
        value = self._get(field)
        if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
            value = parse_json(
                value,
                f"{self.place}: field '{field}'",
                limits=LIMITS,
                remedy="it must be a JSON list, or an object rater -> score",
            )
        value = by_rater(value)
        if isinstance(value, Mapping):
            entries = [(str(rater), f"{field}.{rater}", score) for rater, score in value.items()]
        else:
            several = self._entries(field, value) if isinstance(value, list) else [(field, value)]
            entries = [(str(i), name, score) for i, (name, score) in enumerate(several, start=1)]
        scores = {
            rater: self._score(name, score, words)
            for rater, name, score in entries
            if score is not None
        }
        if not scores:
            kind = "an object" if isinstance(value, Mapping) else "a list"
            raise self._wrong(field, f"{kind} with the score of at least one rater", value)
        return scores

    def is_rated(self, field: str | Sequence[str]) -> bool:
        """True where the field, or one of several, holds a score of somebody."""
        if not isinstance(field, str):
            return any(map(self.is_rated, field))
        value = by_rater(self.value(field))
        scores = (
            value.values()
            if isinstance(value, Mapping)
            else value
            if isinstance(value, list)
            else [value]
        )
        return any(score is not None for score in scores)

    def inner(self, field: str) -> FileRow:
        """The object that the field holds."""
        return self._row(field, self._get(field))

    def inners(self, field: str) -> list[FileRow]:
        """The list of objects that the field holds, at least one."""
        return [self._row(name, value) for name, value in self._entries(field)]

    def _get(self, field: str) -> Any:
        value = self.value(field)
        if value is None:
            there = ", ".join(f"'{name}'" for name in self.values) or "none"
            field = self.filled(field)
            raise UserError(
                f"{self.place}: field '{field}' is missing or null; the fields here are {there}."
            )
        return value

    def _entries(self, field: str, value: Any = None) -> list[tuple[str, Any]]:
        value = self._get(field) if value is None else value
        if not isinstance(value, list) or not value:
            raise self._wrong(field, "a list with at least one entry", value)
        return [(f"{field}[{i}]", item) for i, item in enumerate(value)]

    def _text(self, field: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(field, "text", value)
        try:
            value.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair can be written nowhere
            raise self._wrong(field, "text of whole characters", value[error.start]) from error
        return value.written if isinstance(value, Pointed) else value

    def _number(self, field: str, value: Any) -> float:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
            has_comma = isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value)
            raise self._wrong(field, _WITH_POINT if has_comma else "a number", value)
        return float(value)

    def _score(self, field: str, value: Any, words: bool) -> float:
        text = str(value).lower() if isinstance(value, bool) else value
        is_word = words and isinstance(text, str) and text.strip()
        if not is_word or _NUMBER.fullmatch(text) or _DECIMAL_COMMA.fullmatch(text):
            return self._number(field, value)
        word = in_words(" ".join(self._text(field, text).split()))
        return Word.of(word, f"{self.place}: field '{field}'")

    def _row(self, field: str, value: Any) -> FileRow:
        if not isinstance(value, dict):
            raise self._wrong(field, "an object, as in {...}", value)
        return replace(self, values=value, place=f"{self.place}, field '{field}'")

    def _wrong(self, field: str, expected: str, value: Any) -> UserError:
        got = "null" if value is None else shown(value)
        return UserError(f"{self.place}: field '{field}' must be {expected}, got {got}.")


def _at(value: Any, path: str) -> Any:
    """Value at a path within objects, lists and texts; None where there is none."""
    # 1. in an object: a name may have dots of its own, so every split of the path is tried
    if isinstance(value, dict | Mapping):  # the first is quickly known
        if path in value:
            return value[path]
        parts = path.split(".")
        for place in range(1, len(parts)):
            outer = value.get(".".join(parts[:place]))
            if outer is None:
                continue
            inner = _at(outer, ".".join(parts[place:]))
            if inner is not None:
                return inner
        return None
    # 2. in a text: the whole, or, where it is JSON, what that holds
    if isinstance(value, str):
        if path == "0":
            return value
        inner = opened(value)
        return None if inner is value else _at(inner, path)
    # 3. in a list: a part of a dialogue, or a number, below 0 from the end
    if not isinstance(value, list):
        return None
    if path in PARTS:
        return part_of(value, path)
    index, _, rest = path.partition(".")
    if re.fullmatch(r"-?[0-9]+", index) and -len(value) <= int(index) < len(value):
        item = value[int(index)]
        return _at(item, rest) if rest else item
    return None


_RATERS = (
    *("annotator", "annotator_id", "rater", "rater_id", "user", "user_id"),
    *("worker_id", "reviewer", "labeler", "by"),
)
_SCORES = ("score", "rating", "label", "value", "grade")
"""Names that an object with one person's score has for the person, and for the score."""


_SIGNS = {"👍": "good", "👎": "bad", "✅": "yes", "❌": "no", "✓": "yes", "✔": "yes", "✗": "no"}
_SIGNS |= {"✘": "no", "✖": "no", "☑": "yes"}
"""Signs that are given as labels, and the words that they are read as."""


def in_words(label: str) -> str:
    """The word for a label that is a sign; any other as it is.

    Example:
        >>> in_words("👎🏽"), in_words("✔️"), in_words("good")
        ('bad', 'yes', 'good')
    """
    if label.isascii():
        return label
    return _SIGNS.get(re.sub("[\ufe0f\U0001f3fb-\U0001f3ff]", "", label.strip()), label)


def by_rater(value: Any) -> Any:
    """A list of `{annotator, score}`, or that as JSON text, as an object rater -> score; any other
    value as it is.

    Example:
        >>> by_rater([{"annotator": "ann", "score": 4}, {"annotator": "ben", "score": 5}])
        {'ann': 4, 'ben': 5}
    """
    whole = opened(value) if isinstance(value, str) else value
    if not isinstance(whole, list) or not all(isinstance(entry, dict) for entry in whole):
        return whole if isinstance(whole, Mapping) else value
    scores: dict[str, Any] = {}
    for number, entry in enumerate(whole, start=1):
        given = [entry[name] for name in _SCORES if name in entry]
        if not given:
            return value
        named = [entry[name] for name in _RATERS if entry.get(name) not in (None, "")]
        rater = str(named[0]) if named else str(number)
        scores[f"{rater}#{number}" if rater in scores else rater] = given[0]
    return scores or value


# --- files of any kind --------------------------------------------------------------------------


def file_rows(
    path: Path, within: str | None = None, before: int = 0, first: tuple[int, int] = (1, 0)
) -> Iterator[FileRow]:
    """The rows of a file of any kind, by its ending: parquet, .csv and .tsv, a workbook; else JSON,
    one list or an object a line.

    Args:
        within: the path of the list of rows in a JSON file that is one object, or the sheet of a
            workbook.
        before: rows that are left out.
        first: line and byte of the row behind them, from which a .jsonl file is read.
    """
    rows: Iterator[FileRow]
    if path.suffix in (".xls", ".xlsb", ".ods"):
        raise UserError(
            f"{path.name}: is a workbook of another form; save it as .xlsx, or its sheet as CSV "
            "UTF-8."
        )
    if path.suffix in WORKBOOKS:
        found = read_sheet(existing(path), within)
        rows = (FileRow(cells, f"{path.name} row {number}", number) for number, cells in found)
    elif path.suffix == ".parquet" or (path.suffix not in FILE_ENDINGS and is_parquet(path)):
        rows = parquet_rows(path)
    elif path.suffix in (".csv", ".tsv"):
        rows = table_rows(path)
    elif within is not None:
        rows = json_array(path, within)
    else:
        lines = path.suffix == ".jsonl"
        rows = json_lines(path, first=first) if lines else json_rows(path)
        before = 0 if lines else before
    folder = path.resolve().parent.name
    for row in islice(rows, before, None):
        yield row.named(folder=folder, file=path.stem)


def data_files(path: Path) -> list[Path]:
    """The file, or all files of a folder and its subfolders whose ending says that they may hold
    rows."""
    if not path.is_dir():
        return [existing(path)]
    files = [file for file in path.rglob("*") if file.suffix in FILE_ENDINGS and file.is_file()]
    return sorted(file for file in files if not file.name.startswith("~$"))  # Excel's, while open


def named_files(path: str) -> list[Path]:
    """The files of a path, a folder or a pattern (`parts/*.parquet`); `UserError` where there is
    none."""
    if "://" in path:
        raise UserError(
            f"data.path={path}: an address is no file; copy the files to a folder of this machine, "
            "or mount theirs there."
        )
    here = local_path(path)
    if here.exists() or not glob.has_magic(path):
        named = data_files(here)
    else:
        places = map(Path, sorted(glob.glob(str(here), recursive=True)))
        named = [place for place in places if place.is_file()]
    if not named:
        raise UserError(
            f"{path}: no file of rows is there ({', '.join(FILE_ENDINGS)}); data.path must name "
            "some."
        )
    return named


def names_within(files: Sequence[Path], folder: Path | None = None) -> list[str]:
    """A name for each of some files, as `folder/file/`, for rows that have none of their own; empty
    for one file. Where two would be alike, they are the files' paths below what all have in common.

    Args:
        folder: the names are paths below it, without endings; None takes the last folder alone.
    """
    if len(files) < 2:
        return [""] * len(files)
    names = [f"{file.parent.name}/{file.stem}/" for file in files]
    if folder is not None:
        below = [file.relative_to(folder).with_suffix("") for file in files]
        names = [f"{path.as_posix()}/" for path in below]
    if len(set(names)) == len(files):
        return names
    paths = [str(file) for file in files]
    common = len(os.path.commonpath(paths).split(os.sep))
    names = []
    for path in paths:
        parts = path.split(os.sep)[common:]
        names.append(f"{'/'.join(parts)}/")
    return names


def local_path(path: str) -> Path:
    """The file or folder of a `data.path`: with "~" expanded; after `embedded:` one that comes with
    judgebench."""
    if path.startswith(_EMBEDDED):
        return Path(str(files("judgebench.data"))) / path.removeprefix(_EMBEDDED)
    return user_path(path)


def existing(path: Path, key: str = "data.path") -> Path:
    """The path of a file that can be read; else `UserError`."""
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; {key} must be a file.")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; {key} must be an existing file.")
    if not os.access(path, os.R_OK):
        raise UserError(
            f"{path}: you may not read this file; {key} must be a file that you may read."
        )
    return path


def json_lines(
    path: Path, key: str = "data.path", first: tuple[int, int] = (1, 0)
) -> Iterator[FileRow]:
    """The rows of a file with one JSON object a line, UTF-8; blank lines are skipped. `UserError`
    for no such file, or a line that is not a JSON object, which it names; `key` is the config key
    of the file; `first`: line and byte at which reading begins."""
    number, byte = first
    with existing(path, key).open("rb") as file:
        file.seek(byte)
        for raw in file:
            if raw.strip():
                yield json_row(raw, path.name, number, byte)
            number += 1
            byte += len(raw)


def json_row(raw: bytes, name: str, number: int, byte: int = 0) -> FileRow:
    """The row on a line of the file `name`, which begins at a byte."""
    place = f"{name} line {number}"
    values = parse_json(raw, place, limits=LIMITS, remedy="each line must be one whole JSON object")
    return json_entry(values, name, "line", number, byte)


def json_array(path: Path, within: str | None = None) -> Iterator[FileRow]:
    """The rows of a file that is one JSON list of objects, UTF-8; `UserError` for no such file, or
    another content, which names the entry (counted from 1). `within` is the path of the list in a
    file that is an object."""
    values = read_json(
        existing(path), path.name, limits=LIMITS, remedy="it must be one JSON list of objects"
    )
    values = values if within is None else _at(values, within)
    if not isinstance(values, list):
        where = f"{path.name}, field '{within}'" if within else path.name
        raise UserError(
            f"{where}: holds a {type(values).__name__}; it must be one JSON list of objects."
        )
    for number, entry in enumerate(values, start=1):
        for value in entry if isinstance(entry, list) else [entry]:
            yield json_entry(value, path.name, "entry", number)


def json_entry(value: Any, name: str, unit: str, number: int, byte: int = 0) -> FileRow:
    """A value of the file `name` as a row; `UserError` of one that is no object."""
    place = f"{name} {unit} {number}"
    if not isinstance(value, dict):
        raise UserError(
            f"{place}: holds a {type(value).__name__}; each {unit} must be one JSON object, as "
            "{...}."
        )
    return FileRow(value, place, number, byte=byte)


def json_object(path: Path) -> FileRow:
    """A file that is one JSON object, as a row; else `UserError`."""
    return FileRow(read_json(existing(path), path.name, shape={}, limits=LIMITS), path.name, 1)


def json_rows(path: Path) -> Iterator[FileRow]:
    """The rows of either kind of JSON file: one list where the first character is "[", else one
    object a line."""
    with existing(path).open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return json_array(path) if start.startswith(b"[") else json_lines(path)


def table_rows(path: Path) -> Iterator[FileRow]:
    """The rows of a table with a header, UTF-8: .csv, with quotes and commas, or semicolons where
    the header has no comma; or .tsv, with tabs and no quotes. An empty cell counts as missing. With
    semicolons or tabs, a column of numbers of which some have a decimal comma gets points (`Pointed`).
    `UserError` for no such file, or a line that has another number of cells."""
    tabs = path.suffix == ".tsv"
    with _table_text(existing(path)) as file:
        first_line = file.readline()
    commas = ";" if ";" in first_line and "," not in first_line else ","
    csv.field_size_limit(LIMITS.size)

    def lines() -> Iterator[tuple[list[str], int]]:
        with _table_text(path) as file:
            reader = csv.reader(
                file,
                delimiter="\t" if tabs else commas,
                quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
                strict=True,
            )
            for cells in _cells(reader, path.name):
                yield cells, reader.line_num

    # columns of numbers, in which commas are decimal ones: as long as a cell is no other
    numeric: set[int] = set()
    if tabs or commas == ";":
        numeric = set(range(len(next(lines(), ([], 0))[0])))
        for cells, _ in islice(lines(), 1, None):
            words = {i for i, cell in enumerate(cells) if not _DECIMAL_COMMA.fullmatch(cell or "0")}
            numeric -= words
    header: list[str] = []
    for cells, number in lines():
        place = f"{path.name} line {number}"
        if not header:
            header = cells
            check_columns(header, place)
        elif cells and len(cells) != len(header):
            raise UserError(
                f"{place}: has {len(cells)} cells and the header {len(header)}; all lines need as "
                "many."
            )
        elif cells:
            cells = [
                Pointed.of(cell) if i in numeric and "," in cell else cell
                for i, cell in enumerate(cells)
            ]
            yield FileRow(
                {name: cell or None for name, cell in zip(header, cells, strict=True)},
                place,
                number,
            )


@contextmanager
def _table_text(path: Path) -> Iterator[TextIO]:
    """A table's text, read piece by piece; `UserError` says where it is not UTF-8."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError:
        remedy = "save the file as UTF-8 (of Excel: CSV UTF-8)"
        read_text(path, path.name, size=LIMITS.size, remedy=remedy)
        raise


def _cells(reader: Any, name: str) -> Iterator[list[str]]:
    """The rows of a CSV reader; `UserError` says where one begins whose quotation marks do not
    pair."""
    first = 1
    try:
        for cells in reader:
            yield cells
            first = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{name} line {first}: a quotation mark in the row that begins here does not pair "
            f"(line {reader.line_num}: {error}); close it, and write one inside a cell as two."
        ) from error


def parquet_rows(path: Path) -> Iterator[FileRow]:
    """The rows of a parquet file, or of all parquet files in a folder and its subfolders, by file
    name; `UserError` where there is none, or one is not parquet."""
    import pyarrow as pa

    from judgebench.runtime.parquet import read_rows

    paths = sorted(path.rglob("*.parquet")) if path.is_dir() else [existing(path)]
    if not paths:
        raise UserError(
            f"{path}: no parquet file in this folder; give a parquet file or the folder that holds "
            "it."
        )
    for file in paths:
        try:
            for number, values in enumerate(read_rows(file), start=1):
                yield FileRow(values, f"{file.name} row {number}", number)
        except (pa.ArrowException, ValueError, OSError, MemoryError) as error:
            raise UserError(
                f"{file}: cannot be read as parquet ({reason(error)}); give a whole parquet file."
            ) from error


def is_parquet(path: Path) -> bool:
    """True of a folder, and of a file that is parquet by its ending or by its first bytes."""
    if path.is_dir() or path.suffix == ".parquet":
        return True
    with existing(path).open("rb") as file:
        return file.read(4) == b"PAR1"


# --- the hub ------------------------------------------------------------------------------------


def is_hub_id(path: str) -> bool:
    """True where `path` names a data set on the hub ("owner/name") and not a local file or folder.
    A path that exists, has a data file's ending or begins with an existing folder is local: a
    mistyped local path must not become a network call."""
    return (
        re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", path) is not None
        and not path.endswith(FILE_ENDINGS)
        and not Path(path).exists()
        and not Path(path).parent.exists()
    )


def download(dataset_id: str) -> Path:
    """The folder of the data set's parquet files, downloaded or from the hub's own cache;
    `UserError` where neither has it."""
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(dataset_id, repo_type="dataset", allow_patterns=["*.parquet"])
        )
    # The hub's own errors, its HTTP library's and the system's have no common base below Exception.
    except Exception as error:
        raise UserError(
            f"data.path: the data set '{dataset_id}' is not in the local cache and the Hugging "
            f"Face hub did not give it ({reason(error)}); get its parquet file where there is "
            "network, and give it with data.path=FILE.parquet."
        ) from error
