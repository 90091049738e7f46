"""From the records of runs to all of the CAP paper's tables that they can fill."""

from __future__ import annotations

from collections.abc import Iterable

from judgebench.report.paper.cap import ChangeTable, change_tables
from judgebench.report.paper.cap_clean import seconds_tables, spearman_tables
from judgebench.report.paper.cap_found import CapFound
from judgebench.report.paper.cap_motivation import motivation_tables
from judgebench.report.paper.cap_strengths import strength_tables
from judgebench.report.paper.cells import CellTable
from judgebench.report.paper.found import RunResults


def build_cap(runs: Iterable[RunResults]) -> list[ChangeTable | CellTable]:
    """Tables 2 and 3 (score changes by attack and defense); as far as a run has what they need, 1 (random against
    standard references), 4 and 8 (Spearman where nobody attacks), 5 and 9 (seconds), 6 and 10 (ablation), 7 and 11
    (adaptive attack), 12 and 13 (strengths); then tables of the same for what the paper does not have: another data
    set, dimension or range.
    """
    found = CapFound()
    for run in runs:
        found.add(run)
    tables: list[ChangeTable | CellTable] = [*change_tables(found), *motivation_tables(found), *spearman_tables(found)]
    return [*tables, *seconds_tables(found), *strength_tables(found)]
