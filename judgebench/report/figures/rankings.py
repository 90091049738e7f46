"""Systems ranked by comparisons as figures: strengths beside the humans', and who wins against whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from judgebench.metrics.bradley_terry import ELO_MEAN
from judgebench.metrics.robustness import CLEAN
from judgebench.report.figures.style import (
    HUMANS,
    MUTED,
    finish,
    heat_cells,
    house_style,
    marks,
    panels,
    point,
    series_label,
    shorten,
)
from judgebench.report.formats import points
from judgebench.report.views.pairwise import ranking_records
from judgebench.results.results import Results

_COLORS = "PuOr_r"  # color-blind readers tell its ends apart
_MOST_WRITTEN = 16
_MOST_DRAWN = 60


Ends = tuple[float | None, float | None, float | None]
"""A number and its interval."""


@dataclass(frozen=True)
class Lane:
    """One who ranks: how it is drawn, and system -> Elo."""

    label: str
    color: str
    marker: str
    found: Mapping[str, Ends]


def pairwise_figures(results: Results) -> dict[tuple[str, str], Figure]:
    """(`ranking` or `wins`, dimension) -> figure, of clean texts without a defense where there are such."""
    leads = [record for record in ranking_records(results) if record["lead"]]
    found: dict[tuple[str, str], Figure] = {}
    for dimension in dict.fromkeys(str(record["dimension"]) for record in leads):
        own = [record for record in leads if record["dimension"] == dimension]
        first = next((one["condition"] for one in own if one["attack"] == CLEAN), own[0]["condition"])
        own = [one for one in own if one["condition"] == first and 1 < len(one["ranking"]) <= _MOST_DRAWN]
        if not own:
            continue
        if any(one["elo"] is not None for one in own[0]["ranking"]):
            found["ranking", dimension] = ranking_figure(own, results.titles)
        found["wins", dimension] = wins_figure(own, results.titles)
    return found


def ranking_figure(blocks: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None]) -> Figure:
    """Elo with its interval, a row a system, judges on the left and humans on the right; the first block's strongest on
    top.

    Args:
        blocks: of one condition, a judge each.
        titles: see `pairwise_figures`.
    """
    order = [one["system"] for one in blocks[0]["ranking"]]
    drawn = marks([block["series_id"] for block in blocks])
    lanes = [
        Lane(series_label(one["series_id"], titles), mark.color, mark.marker, _elo(one, ""))
        for one in blocks
        for mark in [drawn[one["series_id"]]]
    ]
    humans = Lane("humans", HUMANS, "s", _elo(blocks[0], "human_"))
    groups = titles.get("groups") or "articles"
    sides = [("judge", lanes), ("humans", [humans])]
    if all(one[0] is None for one in humans.found.values()):
        sides = sides[:1]
    with house_style():
        figure, axes = panels(len(sides), 2, 0.7 + 0.2 * max(1.2, len(lanes)) * len(order), share_y=False)
        for axis, (name, held) in zip(axes, sides, strict=True):
            axis.axvline(ELO_MEAN, color=MUTED, linewidth=0.8, zorder=1)
            for number, lane in enumerate(held):
                shift = 0.5 * (number - (len(held) - 1) / 2) / max(1, len(held) - 1)
                _draw(axis, [lane.found[system] for system in order], shift, lane.color, lane.marker)
            _rows(axis, order if name == "judge" else [""] * len(order))
            axis.set_title(name)
        shown = [lane for _, held in sides for lane in held]
        handles = [point(one.color, one.marker, 6) for one in shown]
        bounded = any(one[1] is not None for lane in shown for one in lane.found.values())
        caption = f"Strengths on the Elo scale from {blocks[0]['size']}: 400 points are odds of 10 to 1. "
        caption += f"Bars: 95 % interval, {groups} resampled. " if bounded else ""
        caption += "Each side has a scale of its own: a judge that is sure of little stays near the mean. "
        caption += f"The humans' strengths follow from the same pairs. {' '.join(blocks[0]['notes'])}"
        labels = [lane.label for lane in shown]
        return finish(figure, f"Systems ranked: {blocks[0]['condition']}", caption.strip(), handles, labels)


def wins_figure(blocks: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None]) -> Figure:
    """Share of wins of the row's system against the column's, ties half: a panel a judge, and one for the humans.

    Args:
        blocks, titles: see `ranking_figure`.
    """
    order = [one["system"] for one in blocks[0]["ranking"]]
    maps = [(series_label(block["series_id"], {}), shares_of(block, order, 0)) for block in blocks]
    maps.append(("humans", shares_of(blocks[0], order, 1)))
    maps = [(name, values) for name, values in maps if np.isfinite(values).any()]
    with house_style():
        figure, axes = panels(len(maps), 2, 1.0 + 0.24 * len(order), share_y=False)
        for place, (axis, (name, values)) in enumerate(zip(axes, maps, strict=True)):
            _matrix(axis, values, order, labels=place % 2 == 0)
            axis.set_title(name)
        caption = (
            f"Share of comparisons that the row's system wins against the column's, in per cent, ties half; from "
            f"{blocks[0]['size']}. Systems in the judge's order, the strongest first: "
            "where judge and model agree, what lies above the diagonal is above 50."
        )
        return finish(figure, f"Who wins against whom: {blocks[0]['condition']}", caption, [], [])


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


def _elo(record: Mapping[str, Any], side: str) -> dict[str, Ends]:
    """System -> Elo and the ends of its interval."""
    return {
        one["system"]: (one[f"{side}elo"], one[f"{side}elo_low"], one[f"{side}elo_high"]) for one in record["ranking"]
    }


def _draw(axis: Axes, found: Sequence[Ends], shift: float, color: str, marker: str) -> None:
    for row, (value, low, high) in enumerate(found):
        if value is None:
            continue
        if low is not None and high is not None:
            axis.plot([low, high], [row + shift] * 2, color=color, linewidth=1.6, zorder=2)
        axis.plot([value], [row + shift], marker, color=color, markersize=5, zorder=3)


def _rows(axis: Axes, names: Sequence[str]) -> None:
    axis.set_yticks(range(len(names)), [shorten(name, 28) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel("Elo")
    axis.grid(axis="x")
    axis.tick_params(axis="y", length=0)
    for line in range(1, len(names)):
        axis.axhline(line - 0.5, color="#e2e2e2", linewidth=0.6, zorder=0)


def _matrix(axis: Axes, values: np.ndarray, order: Sequence[str], labels: bool) -> None:
    norm = Normalize(0, 1)
    axis.imshow(values, cmap=_COLORS, norm=norm, aspect="auto")
    if len(order) <= _MOST_WRITTEN:
        heat_cells(axis, values, norm, _COLORS, points, 6.5)
    names = [shorten(name, 18) for name in order]
    axis.set_yticks(range(len(order)), names if labels else [""] * len(order))
    axis.set_xticks(range(len(order)), names, rotation=60, horizontalalignment="right", rotation_mode="anchor")
    axis.tick_params(length=0)
