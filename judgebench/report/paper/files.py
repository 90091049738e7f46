"""The files of a run folder's `tables/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judgebench.report.paper.build import build
from judgebench.report.paper.cap import ChangeTable
from judgebench.report.paper.cap_build import build_cap
from judgebench.report.paper.cap_forms import change_csv, change_latex, change_markdown
from judgebench.report.paper.cell_forms import cell_csv, cell_latex, cell_markdown
from judgebench.report.paper.cells import CellTable
from judgebench.report.paper.found import RunResults
from judgebench.report.paper.latex import correlation_latex, setting_latex
from judgebench.report.paper.tables import CorrelationTable, SettingTable
from judgebench.report.paper.text import correlation_text, setting_text
from judgebench.report.paper.tidy import correlation_csv, setting_csv
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError

Table = CorrelationTable | SettingTable | ChangeTable | CellTable

TABLES = ("cd", "cap")
"""What `tables=` may ask for: cd, the contrastive-decoding paper's tables; cap, the CAP paper's."""


def paper_tables(
    asked: Iterable[str],
    results: Results,
    titles: Mapping[str, str | None],
) -> dict[str, str]:
    """One run's tables: file name -> content.

    Args:
        asked: of `TABLES`.
        titles: `main`, `assistant` and `tutor`, the models' names, by which the papers' are found; `groups`, what a
            group is.
    """
    runs, asked = [RunResults(results.metrics, titles, results.tuning, results)], list(asked)
    tables: list[Table] = [*build(runs)] if "cd" in asked else []
    return table_files([*tables, *(build_cap(runs) if "cap" in asked else [])])


def table_files(tables: Iterable[Table]) -> dict[str, str]:
    """File name -> content: each as CSV and LaTeX, and as text (.txt), the CAP paper's as Markdown."""
    return {f"{table.name}.{ending}": text for table in tables for ending, text in _forms(table).items()}


def table_text(table: Table) -> str:
    """A table for people."""
    return next(iter(_forms(table).values()))


def _forms(table: Table) -> dict[str, str]:
    """Ending -> content, the form for people first."""
    if isinstance(table, CorrelationTable):
        return {"txt": correlation_text(table), "csv": correlation_csv(table), "tex": correlation_latex(table)}
    if isinstance(table, SettingTable):
        return {"txt": setting_text(table), "csv": setting_csv(table), "tex": setting_latex(table)}
    if isinstance(table, CellTable):
        return {"md": cell_markdown(table), "csv": cell_csv(table), "tex": cell_latex(table)}
    return {"md": change_markdown(table), "csv": change_csv(table), "tex": change_latex(table)}


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
