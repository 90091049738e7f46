"""Rows that stand for a large file where its columns are told, and values that stand for a long
column where its range is."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from judgebench.data.rows import FileRow

_FIRST = 1000
"""Rows at the beginning that are kept in any case."""

_VALUES = 60
"""Different values of one kind that a column shows; it is no column of labels with more."""

_DISTINCT = 1000
_WORD = 40
_NAME = 200
_LONG = 10_000
"""Different values of a long column that are kept; characters of a label in words, of a name, and
of a text of a row that is kept, at most."""

_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d*)?\s*")


def telling_rows(rows: Iterable[FileRow]) -> tuple[list[FileRow], int]:
    """The rows that tell a file's columns as all rows would, in their order, and the count of all:
    the first thousand; each in which a column shows a value, a kind of value or a gap that it has
    not shown; and two of each column whose names repeat.

    Args:
        rows: may be gone through twice.
    """
    kept: dict[int, FileRow] = {}
    shown: dict[tuple[str, str], set[Any]] = {}
    names: dict[str, array[int]] = {}  # of columns that may name rows: a hash a row
    count = 0
    for row in rows:
        new = count < _FIRST
        for column, value in row.values.items():
            kind = _kind(value)
            values = shown.setdefault((column, kind), set())
            mark = hash(value) if isinstance(value, str | int | float) else count
            if len(values) < _VALUES and mark not in values:
                values.add(mark)
                new = True
            if kind in ("number", "word", "name", "int"):
                marks = names.setdefault(column, array("q")) if new or column in names else None
                if marks is not None and len(marks) == count:
                    marks.append(mark)
        if new:
            kept[count] = _shortened(row)
        count += 1
        if count == _FIRST:
            names = {column: marks for column, marks in names.items() if not _repeats(marks)}
    # a column that names no row by itself shows that in two
    pairs: set[int] = set()
    for marks in names.values():
        if len(marks) == count:
            pairs.update(_repeats(marks))
    if pairs - kept.keys():
        kept |= {i: _shortened(row) for i, row in enumerate(rows) if i in pairs}
    return [kept[i] for i in sorted(kept)], count


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
    if len(value) <= _WORD:
        return "word"
    return "name" if len(value) <= _NAME else "text"


def _repeats(marks: array[int]) -> list[int]:
    """Two places with one value; none where all are different."""
    values = np.frombuffer(marks, np.int64) if len(marks) else np.zeros(0, np.int64)
    order = np.argsort(values, kind="stable")
    same = np.flatnonzero(values[order][1:] == values[order][:-1])
    return [int(order[same[0]]), int(order[same[0] + 1])] if len(same) else []


class Distinct:
    """The different values of a long column: a thousand of them, and the lowest and the highest
    number, which is all that its range depends on.

    Example:
        >>> grades = Distinct()
        >>> grades.add({"ann": 3, "ben": [4, 3]})
        >>> grades.values
        [3, 4]
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._outer: dict[str, tuple[float, Any]] = {}

    @property
    def values(self) -> list[Any]:
        return [*self._values.values(), *(value for _, value in self._outer.values())]

    def add(self, value: Any) -> None:
        for single in _single(value):
            text = str(single)
            if text in self._values:
                continue
            if len(self._values) < _DISTINCT:
                self._values[text] = single
                continue
            # what many values before have not shown: a word among numbers, a new end
            number = float(text.replace(",", ".")) if _NUMBER.fullmatch(text) else None
            if number is None:
                self._outer.setdefault("word", (0.0, single))
                continue
            lowest, _ = self._outer.setdefault("lowest", (number, single))
            highest, _ = self._outer.setdefault("highest", (number, single))
            if number < lowest:
                self._outer["lowest"] = number, single
            if number > highest:
                self._outer["highest"] = number, single


def _single(value: Any) -> Iterator[Any]:
    """Values one by one, where some are a list of raters' or an object."""
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list):
        for each in inner:
            yield from _single(each)
    elif value not in (None, ""):
        yield value
