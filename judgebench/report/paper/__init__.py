"""The tables of the contrastive-decoding and the CAP paper, the published figures with ours.

`python -m judgebench paper RUN [RUN ...]` prints them for finished runs, several families
together.
"""

from __future__ import annotations

from collections.abc import Iterable

from judgebench.report.paper.cap import build_cap
from judgebench.report.paper.cd import build
from judgebench.results.results import Results
from judgebench.settings.run import PAPERS

_TABLES = dict(zip(PAPERS, (build, build_cap), strict=True))


def paper_tables(names: Iterable[str], results: Results) -> dict[str, str]:
    """One run's tables: file name -> content."""
    tables = [table for name, make in _TABLES.items() if name in names for table in make([results])]
    return {name: content for table in tables for name, content in table.files.items()}
