"""Systems ranked by comparisons as figures: strengths compared with the humans', and who wins against whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from judgebench.report.figures import style
from judgebench.report.figures.style import HUMANS, MUTED, Mark
from judgebench.report.formats import points
from judgebench.report.views.pairwise import ranking_records
from judgebench.results.results import Results
from judgebench.stats.bradley_terry import ELO_MEAN
from judgebench.stats.scores import CLEAN

_COLORS = "PuOr_r"  # color-blind readers tell its ends apart
_MOST_WRITTEN = 16
_MOST_DRAWN = 60


def pairwise_figures(results: Results) -> dict[tuple[str, str], Figure]:
    """(`ranking` or `wins`, dimension) -> figure, of clean texts without a defense where there are such."""
    leads = [record for record in ranking_records(results) if record["lead"]]
    figures: dict[tuple[str, str], Figure] = {}
    for dimension in dict.fromkeys(str(record["dimension"]) for record in leads):
        blocks = [record for record in leads if record["dimension"] == dimension]
        shown = next((block["condition"] for block in blocks if block["attack"] == CLEAN), blocks[0]["condition"])
        blocks = [block for block in blocks if block["condition"] == shown and 1 < len(block["ranking"]) <= _MOST_DRAWN]
        if not blocks:
            continue
        if any(system["elo"] is not None for system in blocks[0]["ranking"]):
            figures["ranking", dimension] = ranking_figure(blocks, results.titles)
        figures["wins", dimension] = wins_figure(blocks, results.titles)
    return figures


@style.house_style()
def ranking_figure(blocks: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None]) -> Figure:
    """Elo with its interval, a row a system, judges (a block each) on the left and humans on the right; the first
    block's strongest on top."""
    order = [system["system"] for system in blocks[0]["ranking"]]
    looks = style.marks([block["series_id"] for block in blocks])
    # a lane is one who ranks: its name, its look, the record, and the beginning of the record's columns
    judges = [
        (style.series_label(block["series_id"], titles), looks[block["series_id"]], block, "") for block in blocks
    ]
    humans = [("humans", Mark(HUMANS, "s", "-"), blocks[0], "human_")]
    sides = [("judge", judges), ("humans", humans)]
    if all(system["human_elo"] is None for system in blocks[0]["ranking"]):
        sides = sides[:1]

    def draw(axis: Axes, side: tuple[str, list[Any]]) -> None:
        name, lanes = side
        axis.axvline(ELO_MEAN, color=MUTED, linewidth=0.8, zorder=1)
        for number, (_, look, block, start) in enumerate(lanes):
            shift = 0.5 * (number - (len(lanes) - 1) / 2) / max(1, len(lanes) - 1)
            systems = {system["system"]: system for system in block["ranking"]}
            for row, system in enumerate(order):
                value, low, high = (systems[system][f"{start}elo{end}"] for end in ("", "_low", "_high"))
                if value is None:
                    continue
                if low is not None and high is not None:
                    axis.plot([low, high], [row + shift] * 2, color=look.color, linewidth=1.6, zorder=2)
                axis.plot([value], [row + shift], look.marker, color=look.color, markersize=5, zorder=3)
        names = [style.shorten(system, 28) for system in order] if name == "judge" else [""] * len(order)
        axis.set_yticks(range(len(order)), names)
        axis.set_ylim(len(order) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        for line in range(1, len(order)):
            axis.axhline(line - 0.5, color="#e2e2e2", linewidth=0.6, zorder=0)
        style.label(axis, name, x="Elo", grid="x")

    lanes = [lane for _, side in sides for lane in side]
    bounded = any(system[f"{start}elo_low"] is not None for _, _, block, start in lanes for system in block["ranking"])
    caption = [
        f"Strengths on the Elo scale from {blocks[0]['size']}: 400 points are odds of 10 to 1.",
        f"Bars: 95 % interval, {titles.get('groups') or 'articles'} resampled." if bounded else "",
        "Each side has a scale of its own: a judge that is sure of little stays near the mean.",
        "The humans' strengths follow from the same pairs.",
        *blocks[0]["notes"],
    ]
    legend = [(style.point(look.color, look.marker, 6), name) for name, look, _, _ in lanes]
    height = 0.7 + 0.2 * max(1.2, len(judges)) * len(order)
    title = f"Systems ranked: {blocks[0]['condition']}"
    return style.small_multiples(sides, draw, title, caption, legend, height=height, share_y=False)


@style.house_style()
def wins_figure(blocks: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None]) -> Figure:
    """Share of wins of the row's system against the column's, ties half: a panel a judge, and one for the humans."""
    order = [system["system"] for system in blocks[0]["ranking"]]
    maps = [(style.series_label(block["series_id"], {}), shares_of(block, order, 0)) for block in blocks]
    maps.append(("humans", shares_of(blocks[0], order, 1)))
    maps = [(name, values) for name, values in maps if np.isfinite(values).any()]
    names = [style.shorten(name, 18) for name in order]

    def draw(axis: Axes, panel: tuple[int, tuple[str, np.ndarray]]) -> None:
        place, (name, values) = panel
        form = points if len(order) <= _MOST_WRITTEN else None
        style.heat_map(axis, values, Normalize(0, 1), _COLORS, form, 6.5)
        axis.set_yticks(range(len(order)), names if place % 2 == 0 else [""] * len(order))
        axis.set_xticks(range(len(order)), names, rotation=60, horizontalalignment="right", rotation_mode="anchor")
        style.label(axis, name, grid="")

    caption = (
        f"Share of comparisons that the row's system wins against the column's, in per cent, ties half; from "
        f"{blocks[0]['size']}. Systems in the judge's order, the strongest first: "
        "where judge and model agree, what lies above the diagonal is above 50."
    )
    title, height = f"Who wins against whom: {blocks[0]['condition']}", 1.0 + 0.24 * len(order)
    return style.small_multiples(list(enumerate(maps)), draw, title, caption, height=height, share_y=False)


def shares_of(block: Mapping[str, Any], order: Sequence[str], side: int) -> np.ndarray:
    """[K, K] win shares of the row's system after the judge (0) or the humans (1); NaN where two did not meet."""
    number = {name: i for i, name in enumerate(order)}
    values = np.full((len(order), len(order)), np.nan)
    for met in block["system_pairs"]:
        share = met["human_win_share" if side else "win_share"]
        if share is not None:
            first, second = number[met["first"]], number[met["second"]]
            values[first, second], values[second, first] = share, 1 - share
    return values
