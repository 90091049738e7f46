"""Rows that stand for a large file where its columns are told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from judgebench.data.rows import FileRow

_FIRST = 1000
"""Rows at the beginning that are kept in any case."""

_VALUES = 60
"""Different values of one kind that a column shows; it is no column of labels with more."""

_WORD = 40
"""Characters of a label in words, at most."""

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
            kept.append(row)
        count += 1
    return kept, count


def _kind(value: Any) -> str:
    if value is None or value == "" or value != value:
        return "nothing"
    if not isinstance(value, str):
        return type(value).__name__
    if _NUMBER.fullmatch(value):
        return "number"
    return "word" if len(value) <= _WORD else "text"
