"""The tables of the contrastive-decoding and the CAP paper, the published figures with ours.

`python -m judgebench paper RUN [RUN ...]` prints them for finished runs, several families
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from judgebench.report.paper.cap import build_cap
from judgebench.report.paper.cd import build
from judgebench.results.results import Results
from judgebench.words.errors import UserError

TABLES = {"cd": build, "cap": build_cap}
"""The values of `tables=`: the tables of the contrastive-decoding paper, and of the CAP paper."""


def paper_tables(names: Iterable[str], results: Results) -> dict[str, str]:
    """One run's tables: file name -> content."""
    tables = [table for name, make in TABLES.items() if name in names for table in make([results])]
    return {name: content for table in tables for name, content in table.files.items()}


def check_tables(names: Any) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise UserError(f"tables: {names!r} is not a list, as in tables=[{next(iter(TABLES))}].")
    for name in names:
        if name not in TABLES:
            raise UserError(f"tables: {name!r} is not one of {', '.join(TABLES)}.")
    return list(dict.fromkeys(names))
