"""The tables of the contrastive-decoding and the CAP paper, the published figures beside ours.

`python -m judgebench.report.paper RUN [RUN ...]` prints them for finished runs, several families together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from judgebench.report.paper.cap import build_cap
from judgebench.report.paper.cd import CorrelationTable, SettingTable, build
from judgebench.report.paper.cd_forms import correlation_forms, setting_forms
from judgebench.report.paper.table import CellTable
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError

__all__ = ["build", "build_cap", "check_tables", "paper_tables", "table_files", "table_text"]

PaperTable = CorrelationTable | SettingTable | CellTable

TABLES = ("cd", "cap")
"""The values of `tables=`: cd, the contrastive-decoding paper's tables; cap, the CAP paper's."""


def paper_tables(asked: Iterable[str], results: Results) -> dict[str, str]:
    """One run's tables: file name -> content.

    Args:
        asked: of `TABLES`.
    """
    asked = list(asked)
    tables: list[PaperTable] = [*build([results])] if "cd" in asked else []
    return table_files([*tables, *(build_cap([results]) if "cap" in asked else [])])


def table_files(tables: Iterable[PaperTable]) -> dict[str, str]:
    """File name -> content: each as CSV and LaTeX, and as text (.txt), the CAP paper's as Markdown."""
    return {f"{table.name}.{ending}": text for table in tables for ending, text in _forms(table).items()}


def table_text(table: PaperTable) -> str:
    """A table for people."""
    return next(iter(_forms(table).values()))


def _forms(table: PaperTable) -> dict[str, str]:
    """Ending -> content, the form for people first."""
    if isinstance(table, CellTable):
        return table.forms()
    return correlation_forms(table) if isinstance(table, CorrelationTable) else setting_forms(table)


def check_tables(asked: Any) -> list[str]:
    """The tables that the config's `tables` asks for.

    Raises:
        UserError: it is no list of `TABLES`.
    """
    if isinstance(asked, str) or not isinstance(asked, Sequence):
        raise UserError(f"tables: {asked!r} is not a list, as in tables=[{TABLES[0]}].")
    for name in asked:
        if name not in TABLES:
            raise UserError(f"tables: {name!r} is not one of {', '.join(TABLES)}.")
    return list(dict.fromkeys(asked))
