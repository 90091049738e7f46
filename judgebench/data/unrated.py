"""Texts that nobody has scored: what a calibrated judge is asked about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.data.jsonl import example_name
from judgebench.data.loaded import Loaded, group_hash
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import Row, json_lines
from judgebench.errors import UserError
from judgebench.types import Example

_FIELDS = ("source", "output", "example_id", "group_id", "system_id", "context")
_NEEDED = ("source", "output")


class Unrated(JudgeDataModule):
    """Texts without human scores, one JSON object a line, or given as they are. All are the test split.

    Args:
        path: the file; None where `rows` are given.
        fields: which field of a row holds what: source and output, and, or null, example_id, group_id, system_id and
            context; see `judgebench.data.jsonl.Fields`.
        dimensions: what they are judged by.
        rows: the objects themselves.
        name: what the data is called; None takes the file's name without its ending.
        limit_groups: keep only the first so many groups.

    Raises:
        UserError: fields that are none of these; from `setup`, everything that is wrong with the rows.
    """

    groups_are = "groups"

    def __init__(
        self,
        path: str | None = None,
        fields: Mapping[str, Any] | None = None,
        dimensions: Sequence[str] = ("quality",),
        rows: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
        limit_groups: int | None = None,
    ) -> None:
        super().__init__(path, limit_groups=limit_groups, dev_share=0)
        self.name = name or "texts"
        self._fields = _parse({} if fields is None else fields)
        self._human = dict.fromkeys(map(str, dimensions), math.nan)
        self._rows = rows

    def load(self) -> Loaded:
        """See `JudgeDataModule`."""
        if self._rows is not None:
            rows = [Row(values, f"text {i}", i) for i, values in enumerate(self._rows, start=1)]
        else:
            rows = list(json_lines(self.given_path("a file with one JSON object a line")))
        return Loaded([self._example(row) for row in rows], {}, places=[row.place for row in rows], rated=False)

    def _example(self, row: Row) -> Example:
        fields = self._fields
        source = row.text(str(fields["source"]))
        context = row.text(fields["context"]) if fields["context"] else ""
        return Example(
            example_id=example_name(row, fields["example_id"]),
            group_id=row.identifier(fields["group_id"]) if fields["group_id"] else group_hash(source, context),
            system_id=row.identifier(fields["system_id"]) if fields["system_id"] else "system",
            source=source,
            output=row.text(str(fields["output"])),
            human=self._human,
            context=context,
        )


def _parse(given: Any) -> dict[str, str | None]:
    if not isinstance(given, Mapping):
        raise UserError(f"data.fields must be a mapping, as in {{source: article, output: summary}}, got {given!r}.")
    for key, value in given.items():
        if key not in _FIELDS:
            raise UserError(f"data.fields.{key} is unknown; there are {', '.join(_FIELDS)}.")
        if value is not None and (not isinstance(value, str) or not value):
            raise UserError(f"data.fields.{key} must be the name of a field, got {value!r}.")
    fields: dict[str, str | None] = {key: given.get(key) or (key if key in _NEEDED else None) for key in _FIELDS}
    return fields
