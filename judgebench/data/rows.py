"""Rows of a file, each of which knows where it stands, so that an error can say so; and data sets of the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import Limits, parse_json

_FILE_ENDINGS = (".json", ".jsonl", ".parquet")
_LIMITS = Limits(size=2**33, nodes=10**9, halves=True, nan=True)
"""Data may be large, and a row checks the texts and numbers that are taken from it."""


@dataclass(frozen=True)
class FileRow:
    """One row of a file: field -> value as read, of which null counts as missing; its place, as in "mini.jsonl line 3";
    its line, entry or row, counted from 1. Getters return a value of the asked type, or raise a UserError that names
    the place."""

    values: Mapping[str, Any]
    place: str
    position: int

    def has(self, field: str) -> bool:
        return self.values.get(field) is not None

    def text(self, field: str) -> str:
        return self._as_text(field, self._get(field))

    def texts(self, field: str) -> list[str]:
        """The list of texts that the field holds, at least one."""
        return [self._as_text(name, value) for name, value in self._items(field)]

    def identifier(self, field: str) -> str:
        """A name, given as text that is not blank or as a whole number."""
        value = self._get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(field, "a name or a whole number", value)
        return self._as_text(field, value)

    def number(self, field: str) -> float:
        return self._as_number(field, self._get(field))

    def numbers(self, field: str) -> list[float]:
        """The list of numbers that the field holds, at least one."""
        return [self._as_number(name, value) for name, value in self._items(field)]

    def scores(self, field: str) -> dict[str, float]:
        """Rater -> score, of one rater, a number, or of several: a list, or an object with their names, of which those
        with null gave none; at least one. Raters without names are "1", "2", ..."""
        value = self._get(field)
        if isinstance(value, Mapping):
            given = {
                str(rater): self._as_number(f"{field}.{rater}", score)
                for rater, score in value.items()
                if score is not None
            }
            if not given:
                raise self._wrong(field, "an object with the score of at least one rater", value)
            return given
        several = self.numbers(field) if isinstance(value, list) else [self._as_number(field, value)]
        return {str(i): score for i, score in enumerate(several, start=1)}

    def inner(self, field: str) -> FileRow:
        """The object that the field holds."""
        return self._as_row(field, self._get(field))

    def inners(self, field: str) -> list[FileRow]:
        """The list of objects that the field holds, at least one."""
        return [self._as_row(name, value) for name, value in self._items(field)]

    def _get(self, field: str) -> Any:
        value = self.values.get(field)
        if value is None:
            there = ", ".join(f"'{name}'" for name in self.values) or "none"
            raise UserError(f"{self.place}: field '{field}' is missing or null; the fields here are {there}.")
        return value

    def _items(self, field: str) -> list[tuple[str, Any]]:
        value = self._get(field)
        if not isinstance(value, list) or not value:
            raise self._wrong(field, "a list with at least one entry", value)
        return [(f"{field}[{i}]", item) for i, item in enumerate(value)]

    def _as_text(self, field: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(field, "text", value)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.place}: field '{field}' holds half a character ({value[error.start]!a}, a surrogate without its"
                " partner); write the whole character or remove it."
            ) from error
        return value

    def _as_number(self, field: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(field, "a number", value)
        try:
            return float(value)
        except OverflowError as error:
            raise self._wrong(field, "a number of ordinary size", value) from error

    def _as_row(self, field: str, value: Any) -> FileRow:
        if not isinstance(value, dict):
            raise self._wrong(field, "an object, as in {...}", value)
        return FileRow(value, f"{self.place}, field '{field}'", self.position)

    def _wrong(self, field: str, expected: str, value: Any) -> UserError:
        try:
            shown = "null" if value is None else repr(value)
        except RecursionError:
            shown = "something nested deep"
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return UserError(f"{self.place}: field '{field}' must be {expected}, got {shown}.")


def json_lines(path: Path, key: str = "data.path") -> Iterator[FileRow]:
    """The rows of a file with one JSON object a line, UTF-8; blank lines are skipped. `UserError` for no such file, or
    a line that is not UTF-8 or no JSON object, which it names; `key` is the config key of the file."""
    with existing(path, key).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            place = f"{path.name} line {number}"
            text = _decoded(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, place)
            if not text.strip():
                continue
            value = parse_json(text, place, limits=_LIMITS, remedy="each line must be one whole JSON object")
            if not isinstance(value, dict):
                raise UserError(f"{place}: holds a {type(value).__name__}; each line must be one JSON object.")
            yield FileRow(value, place, number)


def json_array(path: Path) -> Iterator[FileRow]:
    """The rows of a file that is one JSON list of objects, UTF-8; `UserError` for no such file, or another content,
    which names the line or the entry (counted from 1)."""
    raw = existing(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    text = "".join(_decoded(line, f"{path.name} line {n}") for n, line in enumerate(raw.splitlines(True), start=1))
    try:
        values = parse_json(text, path.name, limits=_LIMITS, remedy="it must be one JSON list of objects")
    except UserError as error:
        if not isinstance(error.__cause__, RecursionError):
            raise
        raise UserError(
            f"{path.name} line {_deepest_line(text)}: lists or objects are nested too deep to be read; flatten them."
        ) from error
    if not isinstance(values, list):
        raise UserError(f"{path.name}: holds a {type(values).__name__}; it must be one JSON list of objects.")
    for number, value in enumerate(values, start=1):
        place = f"{path.name} entry {number}"
        if not isinstance(value, dict):
            raise UserError(f"{place}: holds a {type(value).__name__}; each entry must be an object, as in {{...}}.")
        yield FileRow(value, place, number)


def json_rows(path: Path) -> Iterator[FileRow]:
    """The rows of either kind of JSON file: one list where the first character is "[", else one object a line."""
    with existing(path).open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return json_array(path) if start.startswith(b"[") else json_lines(path)


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


def existing(path: Path, key: str = "data.path") -> Path:
    """The path of a file that can be read; else `UserError`."""
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; {key} must be a file.")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; {key} must be an existing file.")
    if not os.access(path, os.R_OK):
        raise UserError(f"{path}: you may not read this file; {key} must be a file that you may read.")
    return path


def _deepest_line(text: str) -> int:
    """The line, counted from 1, on which brackets outside strings are nested deepest."""
    depth, deepest, at = 0, 0, 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', text, re.DOTALL):
        mark = match[0]
        depth += (mark in "[{") - (mark in "]}")
        if depth > deepest:
            deepest, at = depth, match.start()
    return text.count("\n", 0, at) + 1


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place}: not UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start + 1}); save the file as UTF-8."
        ) from error


def is_hub_id(path: str) -> bool:
    """True where `path` names a data set on the hub ("owner/name") and not a local file or folder. A path that exists,
    has a data file's ending or begins with an existing folder is local: a mistyped local path must not become a network
    call."""
    return (
        re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", path) is not None
        and not path.endswith(_FILE_ENDINGS)
        and not Path(path).exists()
        and not Path(path).parent.exists()
    )


def download(dataset_id: str) -> Path:
    """The folder of the data set's parquet files, downloaded or from the hub's own cache; `UserError` where neither has
    it."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(dataset_id, repo_type="dataset", allow_patterns=["*.parquet"]))
    # The hub's own errors, its HTTP library's and the system's have no common base below Exception.
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"data.path: the data set '{dataset_id}' is not in the local cache and the Hugging Face hub did not give it"
            f" ({reason.rstrip('.')}); get its parquet file where there is network, and give it with"
            " data.path=FILE.parquet."
        ) from error
