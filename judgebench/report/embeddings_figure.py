"""The states of the two standard sets in the plane that spreads them most (after figure 5 of the CAP paper)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.style import STANDARDS, finish, house_style, panels, shorten

_MARKERS = {"high": "o", "low": "s"}


def embeddings_figure(standard: Mapping[str, Any]) -> Figure | None:
    """A point a retained text, and the mean of each set, along the first two principal components at the layer steered.

    Args:
        standard: a record of defense/standards.json.

    Returns:
        None where there are no points.
    """
    points = {side: np.array(standard[f"{side}_points"], dtype=np.float64).reshape(-1, 2) for side in ("high", "low")}
    if not all(len(held) for held in points.values()):
        return None
    shares = [float(share) for share in standard["shares"]]
    with house_style():
        figure, (axis,) = panels(1, 1, 3.4)
        for side, held in points.items():
            color = STANDARDS[side]
            axis.scatter(held[:, 0], held[:, 1], s=26, marker=_MARKERS[side], color=color, alpha=0.65, linewidth=0)
            x, y = held.mean(axis=0)
            axis.scatter([x], [y], s=150, marker="X", color=color, edgecolor="white", linewidth=1.2, zorder=3)
        axis.set_xlabel(f"first principal component, {100 * shares[0]:.0f} % of the variance")
        axis.set_ylabel(f"second, {100 * shares[1]:.0f} %")
        axis.grid()
        handles = [
            Line2D([], [], linestyle="none", marker=_MARKERS[side], color=STANDARDS[side], markersize=6)
            for side in points
        ]
        labels = [f"{side} set, n = {len(held)}" for side, held in points.items()]
        handles.append(Line2D([], [], linestyle="none", marker="X", color="#5f5f5f", markersize=9))
        title = f"States of the standards: {shorten(str(standard['dimension']), 24)}, layer {standard['layer']}"
        return finish(figure, title, _caption(standard, sum(shares)), handles, [*labels, "mean of a set"])


def _caption(standard: Mapping[str, Any], share: float) -> str:
    layers = len(standard["separability"])
    whose = "chosen" if standard["layer"] == standard["best_layer"] else "given"
    return (
        f"Hidden states of {shorten(str(standard['tutor']), 40)} at the end of each retained text, at the {whose} "
        f"layer {standard['layer']} of {layers}, in the plane of their first two principal components, which hold "
        f"{100 * share:.0f} % of their variance: what lies apart in others is not seen here. The steering vector "
        "points from the mean of the low set to that of the high one."
    )
