"""Texts that nobody has scored: what a calibrated judge is asked about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.data.fields import context_of, example_of, group_of, parse_fields, system_of
from judgebench.data.loaded import Loaded
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import Row, json_lines
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
        context = context_of(row, fields["context"])
        return Example(
            example_id=example_of(row, fields["example_id"]),
            group_id=group_of(row, fields["group_id"], source, context),
            system_id=system_of(row, fields["system_id"]),
            source=source,
            output=row.text(str(fields["output"])),
            human=self._human,
            context=context,
        )


def _parse(given: Any) -> dict[str, str | None]:
    names = parse_fields(given, (), _FIELDS, "", "", "{source: article, output: summary}")
    return {key: names.get(key) or (key if key in _NEEDED else None) for key in _FIELDS}
