"""Rows that stand for a large file where its columns are told, and values that stand for a long
column where its range is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from judgebench.data.rows import FileRow

_FIRST = 1000
"""Rows at the beginning that are kept in any case."""

_VALUES = 60
"""Different values of one kind that a column shows; it is no column of labels with more."""

_DISTINCT = 1000
_WORD = 40
_LONG = 10_000
"""Different values of a long column that are kept; characters of a label in words, and
of a text of a row that is kept, at most."""

_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d*)?\s*")


def telling_rows(rows: Iterable[FileRow]) -> tuple[list[FileRow], int]:
    """The rows that tell a file's columns as all rows would, in their order, and the count of all:
    the first thousand, and each in which a column shows a value, a kind of value or a gap that it
    has not shown. Only whether names repeat, they may leave open."""
    kept = []
    shown: dict[tuple[str, str], set[Any]] = {}
    count = 0
    for row in rows:
        new = count < _FIRST
        for column, value in row.values.items():
            values = shown.setdefault((column, _kind(value)), set())
            if len(values) < _VALUES:
                mark = hash(value) if isinstance(value, str | int | float) else count
                new |= mark not in values
                values.add(mark)
        if new:
            kept.append(_shortened(row))
        count += 1
    return kept, count


def _shortened(row: FileRow) -> FileRow:
    """A row whose long texts have their beginning and end alone, which say what they are."""
    if not any(isinstance(value, str) and len(value) > _LONG for value in row.values.values()):
        return row
    values = {}
    for column, value in row.values.items():
        is_long = isinstance(value, str) and len(value) > _LONG
        values[column] = f"{value[: _LONG // 2]}{value[-_LONG // 2 :]}" if is_long else value
    return replace(row, values=values)


def _kind(value: Any) -> str:
    if value is None or value == "" or value != value:
        return "nothing"
    if not isinstance(value, str):
        return type(value).__name__
    if _NUMBER.fullmatch(value):
        return "number"
    return "word" if len(value) <= _WORD else "text"


class Distinct:
    """The different values of a long column: all numbers, and a thousand others, which is all that
    its range depends on.

    Example:
        >>> grades = Distinct()
        >>> grades.add({"ann": 3, "ben": [4, 3]})
        >>> grades.values
        [3, 4]
    """

    def __init__(self) -> None:
        self._numbers: dict[str, Any] = {}
        self._words: dict[str, Any] = {}

    @property
    def values(self) -> list[Any]:
        return [*self._numbers.values(), *self._words.values()]

    def add(self, value: Any) -> None:
        for single in _single(value):
            text = str(single)
            if _NUMBER.fullmatch(text):
                self._numbers.setdefault(text, single)
            elif len(self._words) < _DISTINCT:
                self._words.setdefault(text, single)


def _single(value: Any) -> Iterator[Any]:
    """Values one by one, where some are a list of raters' or an object."""
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list):
        for each in inner:
            yield from _single(each)
    elif value not in (None, ""):
        yield value
