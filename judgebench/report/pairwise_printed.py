"""What a run that compares texts prints of its systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report import pairwise
from judgebench.report.tables import titled

_MEASURES = {
    "place one": ("place_effect", pairwise.bare_effect),
    "attacked": ("attack_effect", pairwise.bare_effect),
    "AUC": ("auc", pairwise.shares),
    "tau": ("tau", pairwise.correlation),
    "same": ("accuracy", pairwise.shares),
    "calibrated": ("accuracy_calibrated", pairwise.shares),
    "strengths": ("strength_spearman", pairwise.correlation),
}
"""Column -> number, and how it is written; one without any number is left out."""

_LABEL = 24
_MOST_ROWS = 60  # of a table of systems, the strongest first


def pairwise_tables(records: Sequence[Mapping[str, Any]], groups: str) -> list[RenderableType]:
    """Systems ranked, a table for each lead of a condition; then how every judge and decoding sides with the humans.

    Args:
        records: pairwise.json.
        groups: what a group is.
    """
    blocks = pairwise.arrange_pairwise(records)
    parts: list[RenderableType] = []
    for block in pairwise.leading(blocks):
        parts += [_systems(block, groups)] if block.rows else []
        left_out = len(block.rows) - _MOST_ROWS
        parts += [Text(f"{left_out} more systems are in pairwise.json.", style="dim")] if left_out > 0 else []
        parts += [*(Text(f"! {note}", style="yellow") for note in block.notes)]
    for condition in dict.fromkeys(block.condition for block in blocks):
        parts.append(_preferences([block for block in blocks if block.condition == condition], condition, groups))
    return [*parts, Text(pairwise.pairwise_note(records, groups), style="dim")] if parts else []


def _systems(block: pairwise.RankingBlock, groups: str) -> Table:
    table = titled(f"{block.title}: systems by {block.size(groups)}")
    for name in ("rank", "system", "Elo", "W/T/L", "humans", "Elo", "W/T/L"):
        table.add_column(name, overflow="fold")
    for row in block.rows[:_MOST_ROWS]:
        sides = [(pairwise.rank(one), pairwise.elo(one.elo), pairwise.ends(one)) for one in (row.judge, row.humans)]
        cells = [sides[0][0], row.system, *sides[0][1:], *sides[1]]
        table.add_row(*(Text(f"{cell} ") for cell in cells))
    return table


def _preferences(blocks: Sequence[pairwise.RankingBlock], condition: str, groups: str) -> Table:
    table = titled(f"{condition}: preferences against the humans', {blocks[0].size(groups)}")
    names = [name for name, (key, _) in _MEASURES.items() if any(b.estimates[key].value is not None for b in blocks)]
    for name in ("judge, decoding", *names):
        table.add_column(name, overflow="fold", min_width=_LABEL if name == "judge, decoding" else None)
    for block in blocks:
        cells = [_MEASURES[name][1](block.estimates[_MEASURES[name][0]]) for name in names]
        table.add_row(*(Text(f"{cell} ") for cell in (block.label, *cells)))
    return table
