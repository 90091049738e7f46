"""How the judge scores steered texts by the strength of steering (after figure 10 of the CAP paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.style import MUTED, STANDARDS, finish, house_style, panels, shorten
from judgebench.results.series import number

_MARKERS = {"high": "o", "low": "s"}


def strengths_figure(
    strengths: Sequence[Mapping[str, Any]],
    standard: Mapping[str, Any] | None = None,
    references: pd.DataFrame | None = None,
    groups: str = "articles",
) -> Figure | None:
    """Mean score and its interval against alpha, a line a side, with the targets and the nearest strengths.

    Args:
        strengths: the records of defense/strengths.json of one dimension.
        standard: its record of defense/standards.json: whose range bounds the scores.
        references: its rows of defense/references.parquet under CAP: which strengths they were written at.
        groups: what a group is.

    Returns:
        None where no strength has a mean.
    """
    sides = {
        side: [one for one in strengths if one["side"] == side and number(one["mean"]) is not None]
        for side in ("high", "low")
    }
    if not any(sides.values()):
        return None
    scale = float(strengths[0]["scale"])
    with house_style():
        figure, (axis,) = panels(1, 1, 3.0)
        for side, held in sides.items():
            if not held:
                continue
            at, means = [one["alpha"] / scale for one in held], [one["mean"] for one in held]
            axis.plot(at, means, f"{_MARKERS[side]}-", color=STANDARDS[side], linewidth=1.4, markersize=4.5, zorder=3)
            bounded = [one for one in held if number(one["low"]) is not None]
            if bounded:
                places = [one["alpha"] / scale for one in bounded]
                bottom, top = ([one[end] for one in bounded] for end in ("low", "high"))
                axis.fill_between(places, bottom, top, color=STANDARDS[side], alpha=0.13, linewidth=0)
            axis.axhline(held[0]["target"], color=STANDARDS[side], linestyle="--", linewidth=1.1)
            for one in held:
                if one["chosen"]:
                    axis.plot([one["alpha"] / scale], [one["mean"]], "o", markersize=11, markerfacecolor="none",
                              markeredgecolor=STANDARDS[side], markeredgewidth=1.6, zorder=4)  # fmt: skip
        clipped = _bound(axis, sides, standard)
        unit = "" if scale == 1 else f", in mean lengths of the states at the layer ({scale:.3g})"
        axis.set_xlabel(f"strength alpha{unit}")
        axis.set_ylabel("mean score")
        axis.grid(axis="y")
        handles: list[Any] = [
            Line2D([], [], color=STANDARDS[side], marker=_MARKERS[side], markersize=5)
            for side, held in sides.items()
            if held
        ]
        labels = [f"steered to the {side} standard" for side, held in sides.items() if held]
        handles += [
            Line2D([], [], color=MUTED, linestyle="--"),
            Line2D([], [], linestyle="none", marker="o", markersize=9, markerfacecolor="none", markeredgecolor=MUTED),
        ]
        title = f"Scores of steered texts by strength: {shorten(str(strengths[0]['dimension']), 24)}"
        return finish(figure, title, _caption(strengths, references, scale, groups, clipped),
                      handles, [*labels, "target: the candidates' threshold", "nearest to its target"])  # fmt: skip


def _bound(axis: Any, sides: Mapping[str, Sequence[Mapping[str, Any]]], standard: Mapping[str, Any] | None) -> bool:
    """Keeps the axis within the score range, which intervals of few texts leave; whether any does."""
    if standard is None:
        return False
    low, high = float(standard["range_min"]), float(standard["range_max"])
    margin = 0.03 * (high - low)
    ends = [number(one[end]) for held in sides.values() for one in held for end in ("low", "high")]
    bottom, top = axis.get_ylim()
    axis.set_ylim(max(bottom, low - margin), min(top, high + margin))
    return any(end is not None and not low <= end <= high for end in ends)


def _caption(
    strengths: Sequence[Mapping[str, Any]], references: pd.DataFrame | None, scale: float, groups: str, clipped: bool
) -> str:
    counts = sorted({int(one["n"]) for one in strengths})
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    told = (
        f"The judge's mean score of texts that the tutor wrote for the development split's {groups}, n = {n} at each "
        "strength; 0 is the unsteered tutor. "
    )
    if any(number(one["low"]) is not None for one in strengths):
        told += f"Bands: 95 % interval of the mean over {groups}, by Student's t"
        told += ", cut where they leave the score range. " if clipped else ". "
    if references is not None and len(references):
        high, low = (float(references[name].iloc[0]) / scale for name in ("alpha_high", "alpha_low"))
        told += f"The run's references were steered with {high:.4g} to the high and {low:.4g} to the low standard."
    return told.strip()
