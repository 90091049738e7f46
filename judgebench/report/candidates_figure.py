"""How the judge scores a tutor's candidates, and which of them make the standards (after figure 4 of the CAP paper)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from judgebench.report.style import STANDARDS, finish, house_style, panels, shorten

_REST = "#c9cdd3"


def candidates_figure(standard: Mapping[str, Any], groups: str = "articles") -> Figure | None:
    """A histogram of the candidates' scores, the bars of the high and of the low set colored, and both thresholds.

    Args:
        standard: a record of defense/standards.json.
        groups: what a group is.

    Returns:
        None where no candidate has a score.
    """
    scores = np.array([score for score in standard["scores"] if score is not None], dtype=np.float64)
    if not scores.size:
        return None
    low, high = float(standard["low_threshold"]), float(standard["high_threshold"])
    edges = np.histogram_bin_edges(scores, bins=min(40, max(8, round(2 * np.sqrt(scores.size)))))
    parts = [scores[scores <= low], scores[(scores > low) & (scores < high)], scores[scores >= high]]
    colors = [STANDARDS["low"], _REST, STANDARDS["high"]]
    with house_style():
        figure, (axis,) = panels(1, 1, 2.7)
        axis.hist(
            parts, bins=[float(edge) for edge in edges], stacked=True, color=colors, edgecolor="white", linewidth=0.5
        )
        for threshold, side, align in ((low, "low", "right"), (high, "high", "left")):
            axis.axvline(threshold, color=STANDARDS[side], linestyle="--", linewidth=1.3)
            axis.annotate(
                f" {threshold:.2f} ",
                (threshold, 1.0),
                xycoords=("data", "axes fraction"),
                ha=align,
                va="bottom",
                fontsize=8,
                color=STANDARDS[side],
            )
        ends = f"{standard['range_min']:g} to {standard['range_max']:g}"
        axis.set_xlabel(f"score by {shorten(str(standard['judge']), 30)}, range {ends}")
        axis.set_ylabel("candidates")
        axis.grid(axis="y")
        axis.set_title(f"n = {scores.size}", loc="right", fontweight="normal", fontsize=8, pad=14)
        handles = [Patch(facecolor=color) for color in colors]
        labels = [f"low set, {standard['low_count']}", "neither", f"high set, {standard['high_count']}"]
        return finish(figure, f"Scores of the tutor's candidates: {shorten(str(standard['dimension']), 24)}",
                      _caption(standard, scores.size, groups), handles, labels)  # fmt: skip


def _caption(standard: Mapping[str, Any], scored: int, groups: str) -> str:
    asked = int(standard["candidates"]) * len(standard["groups"])
    return (
        f"{asked} texts that {shorten(str(standard['tutor']), 40)} wrote, {standard['candidates']} for each of "
        f"{len(standard['groups'])} {groups} of {standard['dataset']}, n = {scored} of them with a score. Dashed: the "
        "thresholds, at or beyond which a text belongs to the high or the low set; both sets' states make the standard "
        "vectors."
    )
