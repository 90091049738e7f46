"""Rows of a file, each of which knows where it stands, so that an error can say so; and data sets of the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import Limits, parse_json

_EMBEDDED = "embedded:"
FILE_ENDINGS = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
_NUMBER = re.compile(r"\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*")
LIMITS = Limits(size=2**33, nodes=10**9, halves=True, nan=True)
"""Data may be large, and a row checks the texts and numbers that are taken from it."""


@dataclass(frozen=True)
class FileRow:
    """One row of a file. Getters return a value of the asked type, or raise a UserError that names the place. They
    take the name of a field, or else a path into objects and lists, as `gen.gpt.text` and `snippet.0` (of a text
    instead of a list, all of it).

    Attributes:
        values: field -> value as read, of which null counts as missing.
        place: as in "mini.jsonl line 3".
        position: its line, entry or row, counted from 1.
        names: what `{folder}`, `{file}` and the like in the name of a field stand for.
        within: the file, where several are read: "Natural/dataset/".
    """

    values: Mapping[str, Any]
    place: str
    position: int
    names: Mapping[str, str] = field(default_factory=dict)
    within: str = ""

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
            return self._as_text(field, self._get(field))
        parts = [self.text(one) for one in field if self.has(one)]
        return "\n\n".join(part for part in parts if part.strip()) if parts else self.text(field[0])

    def texts(self, field: str) -> list[str]:
        """The list of texts that the field holds, at least one."""
        return [self._as_text(name, value) for name, value in self._items(field)]

    def identifier(self, field: str) -> str:
        """A name, given as text that is not blank or as a whole number; a field with `{folder}` or the like is the name
        itself."""
        if self.names and "{" in field:
            return self.filled(field)
        value = self._get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(field, "a name or a whole number", value)
        return self._as_text(field, value)

    def number(self, field: str) -> float:
        return self._as_number(field, self._get(field))

    def numbers(self, field: str) -> list[float | None]:
        """The list of numbers that the field holds, or null in the place of one; at least one entry."""
        return [None if value is None else self._as_number(name, value) for name, value in self._items(field)]

    def scores(self, field: str | Sequence[str]) -> dict[str, float]:
        """Rater -> score, of one rater, a number, or of several: a list, or an object with their names, or a field
        each, which names the rater; those with null gave none. At least one. Raters without names are "1", "2", ..."""
        if not isinstance(field, str):
            each = {one: self.number(one) for one in field if self.has(one)}
            return each or self.scores(field[0])
        value = self._get(field)
        if isinstance(value, str) and value.lstrip().startswith("["):
            value = parse_json(value, f"{self.place}: field '{field}'", limits=LIMITS, remedy="it must be a JSON list")
        if isinstance(value, Mapping):
            given = {
                str(rater): self._as_number(f"{field}.{rater}", score)
                for rater, score in value.items()
                if score is not None
            }
            if not given:
                raise self._wrong(field, "an object with the score of at least one rater", value)
            return given
        several = self._entries(field, value) if isinstance(value, list) else [(field, value)]
        given = {
            str(i): self._as_number(name, score)
            for i, (name, score) in enumerate(several, start=1)
            if score is not None
        }
        if not given:
            raise self._wrong(field, "a list with the score of at least one rater", value)
        return given

    def is_rated(self, field: str | Sequence[str]) -> bool:
        """True where the field, or one of several, holds a score of somebody."""
        if not isinstance(field, str):
            return any(map(self.is_rated, field))
        value = self.value(field)
        if isinstance(value, Mapping | list):
            return any(one is not None for one in (value.values() if isinstance(value, Mapping) else value))
        return value is not None

    def inner(self, field: str) -> FileRow:
        """The object that the field holds."""
        return self._as_row(field, self._get(field))

    def inners(self, field: str) -> list[FileRow]:
        """The list of objects that the field holds, at least one."""
        return [self._as_row(name, value) for name, value in self._items(field)]

    def _get(self, field: str) -> Any:
        value = self.value(field)
        if value is None:
            there = ", ".join(f"'{name}'" for name in self.values) or "none"
            field = self.filled(field)
            raise UserError(f"{self.place}: field '{field}' is missing or null; the fields here are {there}.")
        return value

    def _items(self, field: str) -> list[tuple[str, Any]]:
        return self._entries(field, self._get(field))

    def _entries(self, field: str, value: Any) -> list[tuple[str, Any]]:
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
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(field, "a number", value)
        try:
            return float(value)
        except OverflowError as error:
            raise self._wrong(field, "a number of ordinary size", value) from error

    def _as_row(self, field: str, value: Any) -> FileRow:
        if not isinstance(value, dict):
            raise self._wrong(field, "an object, as in {...}", value)
        return replace(self, values=value, place=f"{self.place}, field '{field}'")

    def _wrong(self, field: str, expected: str, value: Any) -> UserError:
        try:
            shown = "null" if value is None else repr(value)
        except RecursionError:
            shown = "something nested deep"
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return UserError(f"{self.place}: field '{field}' must be {expected}, got {shown}.")


def _at(held: Any, path: str) -> Any:
    """Value at a path within objects, lists and texts; None where there is none."""
    if isinstance(held, Mapping):
        if path in held:
            return held[path]
        parts = path.split(".")
        inner = ((held.get(".".join(parts[:i])), ".".join(parts[i:])) for i in range(1, len(parts)))
        return next((found for one, rest in inner if one is not None and (found := _at(one, rest)) is not None), None)
    index, _, rest = path.partition(".")
    if isinstance(held, list) and index.isdecimal() and int(index) < len(held):
        return _at(held[int(index)], rest) if rest else held[int(index)]
    return held if isinstance(held, str) and path == "0" else None


def json_lines(path: Path, key: str = "data.path") -> Iterator[FileRow]:
    """The rows of a file with one JSON object a line, UTF-8; blank lines are skipped. `UserError` for no such file, or
    a line that is not UTF-8 or no JSON object, which it names; `key` is the config key of the file."""
    with existing(path, key).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            place = f"{path.name} line {number}"
            text = decoded(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, place)
            if not text.strip():
                continue
            value = parse_json(text, place, limits=LIMITS, remedy="each line must be one whole JSON object")
            if not isinstance(value, dict):
                raise UserError(f"{place}: holds a {type(value).__name__}; each line must be one JSON object.")
            yield FileRow(value, place, number)


def json_array(path: Path, within: str | None = None) -> Iterator[FileRow]:
    """The rows of a file that is one JSON list of objects, UTF-8; `UserError` for no such file, or another content,
    which names the line or the entry (counted from 1). `within` is the path of the list in a file that is an object."""
    values = _whole(path, "it must be one JSON list of objects")
    values = values if within is None else _at(values, within)
    if not isinstance(values, list):
        where = f"{path.name}, field '{within}'" if within else path.name
        raise UserError(f"{where}: holds a {type(values).__name__}; it must be one JSON list of objects.")
    for number, entry in enumerate(values, start=1):
        place = f"{path.name} entry {number}"
        for value in entry if isinstance(entry, list) else [entry]:
            if not isinstance(value, dict):
                raise UserError(
                    f"{place}: holds a {type(value).__name__}; each entry must be an object, as in {{...}}."
                )
            yield FileRow(value, place, number)


def json_object(path: Path) -> FileRow:
    """A file that is one JSON object, as a row; else `UserError`."""
    values = _whole(path, "it must be one JSON object")
    if not isinstance(values, dict):
        raise UserError(f"{path.name}: holds a {type(values).__name__}; it must be one JSON object.")
    return FileRow(values, path.name, 1)


def _whole(path: Path, remedy: str) -> Any:
    """Content of a JSON file."""
    raw = existing(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    text = "".join(decoded(line, f"{path.name} line {n}") for n, line in enumerate(raw.splitlines(True), start=1))
    try:
        return parse_json(text, path.name, limits=LIMITS, remedy=remedy)
    except UserError as error:
        if not isinstance(error.__cause__, RecursionError):
            raise
        raise UserError(
            f"{path.name} line {_deepest_line(text)}: lists or objects are nested too deep to be read; flatten them."
        ) from error


def json_rows(path: Path) -> Iterator[FileRow]:
    """The rows of either kind of JSON file: one list where the first character is "[", else one object a line."""
    with existing(path).open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return json_array(path) if start.startswith(b"[") else json_lines(path)


def local_path(path: str) -> Path:
    """The file or folder of a `data.path`: with "~" expanded; after `embedded:` one that comes with judgebench."""
    if path.startswith(_EMBEDDED):
        return Path(str(files("judgebench.data"))) / path.removeprefix(_EMBEDDED)
    return Path(path).expanduser()


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


def decoded(raw: bytes, place: str) -> str:
    """Text of UTF-8; else `UserError`."""
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
        and not path.endswith(FILE_ENDINGS)
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
