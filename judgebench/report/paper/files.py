"""The files of a run folder's `tables/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judgebench.errors import UserError
from judgebench.report.paper.build import build
from judgebench.report.paper.found import RunResults
from judgebench.report.paper.latex import correlation_latex, setting_latex
from judgebench.report.paper.tables import CorrelationTable, SettingTable
from judgebench.report.paper.text import correlation_text, setting_text
from judgebench.report.paper.tidy import correlation_csv, setting_csv

TABLES = ("cd",)
"""What `tables=` may ask for: cd, the tables of the contrastive-decoding paper."""


def cd_tables(records: Sequence[Mapping[str, Any]], tuning: Any, titles: Mapping[str, str | None]) -> dict[str, str]:
    """One run's tables: file name -> content, each as text (.txt), CSV and LaTeX.

    Args:
        records: metrics.json.
        tuning: tuning.json; empty or None where lambda and t were not tuned.
        titles: `main` and `assistant`, the models' names, by which the paper's are found; `groups`, what a group is.
    """
    return table_files(build([RunResults(records, titles, tuning)]))


def table_files(tables: Iterable[CorrelationTable | SettingTable]) -> dict[str, str]:
    """File name -> content."""
    files: dict[str, str] = {}
    for table in tables:
        if isinstance(table, CorrelationTable):
            forms = {"csv": correlation_csv(table), "tex": correlation_latex(table)}
        else:
            forms = {"csv": setting_csv(table), "tex": setting_latex(table)}
        files |= {f"{table.name}.{ending}": text for ending, text in ({"txt": table_text(table)} | forms).items()}
    return files


def table_text(table: CorrelationTable | SettingTable) -> str:
    """A table as plain text."""
    return correlation_text(table) if isinstance(table, CorrelationTable) else setting_text(table)


def check_tables(asked: Any) -> list[str]:
    """What the config's `tables` asks for.

    Raises:
        UserError: it is no list of `TABLES`.
    """
    if isinstance(asked, str) or not isinstance(asked, Sequence):
        raise UserError(f"tables: {asked!r} is not a list, as in tables=[{TABLES[0]}].")
    for name in asked:
        if name not in TABLES:
            raise UserError(f"tables: {name!r} is not one of {', '.join(TABLES)}.")
    return list(dict.fromkeys(asked))
