"""All that a run prints at its end: correlations, then what attacks and contrasting change, how it was tuned, what is
wrong."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from judgebench.report import comparative
from judgebench.report.pairwise_printed import pairwise_tables
from judgebench.report.printed_attacks import attack_tables
from judgebench.report.printed_defenses import readied_tables
from judgebench.report.readied import arrange_readied
from judgebench.report.table import Paragraph
from judgebench.report.tables import titled
from judgebench.report.views.bias import DIAGNOSTICS, SIMILARITY
from judgebench.report.views.comparisons import COMPARISONS
from judgebench.report.views.correlations import CORRELATION, LEVELS, experts
from judgebench.report.views.flags import flags
from judgebench.report.views.run import judges_line, served
from judgebench.report.views.tuning import TUNING
from judgebench.results.results import Results


def terminal_blocks(results: Results) -> list[Any]:
    """What a run prints at its end, the tables first that answer its question. Attacked texts have a table of their
    own; the other tables are of clean ones."""
    records, groups = results.metrics, results.groups
    pairs = comparative.arrange_comparative(records)
    parts: list[Any] = [Paragraph(judges_line(results.titles)), *experts(results)]
    parts += CORRELATION(results) + LEVELS(results)
    if pairs:
        parts += [*(_pairs(one) for one in pairs), Text(comparative.NOTE, style="dim")]
    parts += pairwise_tables(results.pairwise, groups)
    parts += attack_tables(records, results.suffix, results.attack_differences, groups)
    parts += readied_tables(arrange_readied(results, groups))
    for part in (COMPARISONS, TUNING, DIAGNOSTICS, SIMILARITY, flags, served):
        parts += part(results)
    return parts


def _pairs(block: comparative.PairBlock) -> Table:
    table = titled(f"{block.condition}: {block.size}")
    table.add_column("judge, decoding", overflow="fold")
    for name in ("place one", "same winner", "tied", "with humans"):
        table.add_column(name, overflow="fold")
    for row in block.rows:
        cells = [row.series, comparative.points(row.position_bias)]
        cells += [comparative.shares(one) for one in (row.decided_consistency, row.tied_share, row.human_agreement)]
        table.add_row(*(Text(f"{cell} ") for cell in cells))
    return table
