"""The exact path: how agreement with the humans changes as the assistant weighs more, and where the grid looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from judgebench.report.style import MUTED, finish, house_style, panels
from judgebench.report.views.tuning import how_selected
from judgebench.results.results import Results
from judgebench.results.series import number, range_of
from judgebench.tuning.curves import Curve, curves

COLORS = {"dev": "#E69F00", "test": "#0072B2"}
_OPTIMAL = "#009E73"
_CHOSEN = "#222222"
_LEAST = 1e-3
"""Kappa below which the axis is linear, so that 0 has a place on it."""


def path_figure(results: Results, rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Spearman on dev and test as step functions of kappa = lambda / t, a panel a range.

    The grid's points lie on the dev curve, the choice is ringed, and the optimal interval is shaded.

    Args:
        rows: the records of one tuned decoding in one dimension, see `tuning_blocks`.

    Returns:
        None where no range has a path: scores are expectations.
    """
    found = [(row, given) for row in rows if (given := curves(results.readings, results.scores, row))]
    if not found:
        return None
    splits = [split for split in COLORS if any(split in given for _, given in found)]
    most = 3 * max([point["kappa"] for row, _ in found for point in [*row["grid"], row]] + [1.0])
    with house_style():
        figure, axes = panels(len(found), 1 if len(found) == 1 else 2, 2.5)
        for i, (axis, (row, given)) in enumerate(zip(axes, found, strict=True)):
            _panel(axis, row, given, most)
            if i >= len(found) - 2:
                axis.set_xlabel("κ = λ / t")
        handles: list[Any] = [Line2D([], [], color=COLORS[split], linewidth=1.4) for split in splits]
        labels = [f"Spearman, {split}" for split in splits]
        if any(row["grid"] for row, _ in found):
            handles.append(Line2D([], [], color=COLORS["dev"], marker="o", markersize=4, linestyle="none"))
            labels.append("grid, dev")
        handles.append(
            Line2D([], [], color=_CHOSEN, marker="o", markersize=8, markerfacecolor="none", linestyle="none")
        )
        labels.append("chosen")
        if any(row["exact"] for row, _ in found):
            handles.append(Patch(facecolor=_OPTIMAL, alpha=0.3))
            labels.append("exactly best, dev")
        caption = (
            "Spearman correlation of the contrastive scores with the humans, exactly, at every κ; κ = 0 is the main "
            f"model alone. Chosen: {how_selected(rows)}. The axis is linear up to κ = {_LEAST:g} and logarithmic beyond; "
            f"what comes after κ = {most:.3g} is not drawn. Sizes: {_sizes(rows, results.groups)}."
        )
        if any(point["constant"] for row, _ in found for point in row["grid"]):
            caption += " Hollow: every dev text gets the same score; there is no correlation, and curves lie at 0."
        title = f"The exact path, {rows[0]['dimension']}: {rows[0]['decoding']}"
        return finish(figure, title, caption, handles, labels)


def _panel(axis: Axes, row: Mapping[str, Any], given: Mapping[str, Curve], most: float) -> None:
    exact = row["exact"]
    for low, high in exact["intervals"] if exact else []:
        axis.axvspan(low, min(most, most if high is None else high), color=_OPTIMAL, alpha=0.3, linewidth=1.0, zorder=1)
    for split, color in COLORS.items():
        if split in given:
            inside = given[split].start < most
            x, y = given[split].start[inside], given[split].value[inside]
            axis.step(np.append(x, most), np.append(y, y[-1]), where="post", color=color, linewidth=1.2, zorder=2)
    for hollow in (True, False):
        points = [(p["kappa"], p["dev"]) for p in row["grid"] if p["dev"] is not None and bool(p["constant"]) is hollow]
        if points:
            face = "white" if hollow else COLORS["dev"]
            look: dict[str, Any] = {"color": COLORS["dev"], "markerfacecolor": face, "markersize": 3.5, "zorder": 3}
            axis.plot(*zip(*points, strict=True), "o", **look)
    for split in COLORS:
        if (value := number(row[split])) is not None:
            axis.plot([row["kappa"]], [value], "o", color=_CHOSEN, markerfacecolor="none", markersize=8, zorder=4)
    axis.set_xscale("symlog", linthresh=_LEAST, linscale=0.4)
    axis.set_xlim(0, most)
    ticks = [0.0, *(10.0**power for power in range(-3, 6) if 10.0**power <= most)]
    axis.set_xticks(ticks)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axis.set_ylabel("Spearman")
    axis.grid(axis="y")
    axis.set_title(f"range {range_of(row)}")
    if exact:
        width = "" if exact["width"] is None else f", κ {exact['width']:.2g} wide"
        axis.set_title(f"best on dev {exact['dev']:.3f}{width}", loc="right", fontweight="normal", fontsize=8)


def _sizes(rows: Sequence[Mapping[str, Any]], groups_are: str) -> str:
    told = [
        f"{split} {rows[0][f'{split}_examples']} texts of {rows[0][f'{split}_groups']} {groups_are}"
        for split in COLORS
        if rows[0][f"{split}_examples"]
    ]
    return ", ".join(told)
