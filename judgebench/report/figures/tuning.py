"""Spearman over kappa, heat maps of two swept numbers, and what repairs gain and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from judgebench.report.figures import style
from judgebench.report.figures.style import MUTED
from judgebench.report.views.tuning import how_selected
from judgebench.results.results import Results, number, range_of
from judgebench.types import Array, Record, Records, Row
from judgebench.words.formats import say, three

COLORS = {"dev": "#E69F00", "test": "#0072B2"}
_CHOSEN = "#222222"
_RING: Record = {"markerfacecolor": "none", "markersize": 8}
_LEAST = 1e-3
"""Kappa below which the axis is linear, so that 0 has a place on it."""


@style.house_style()
def path_figure(results: Results, rows: Records) -> Figure | None:
    """Spearman on dev and test over kappa = lambda / t, a panel a range: the grid's points, joined;
    the choice is ringed. The rows are those of one tuned decoding in one dimension, see
    `tuning_blocks`; None where scores are expectations, or no point has a value."""
    first = rows[0]
    points = [point for row in rows for point in row["grid"]]
    splits = [split for split in COLORS if any(point[split] is not None for point in points)]
    if first["rule"] != "argmax" or not splits:
        return None
    most = 3 * max([1.0, *(point["kappa"] for point in [*points, *rows])])
    legend: list[tuple[Any, str]] = []
    for split in splits:
        legend.append((style.Mark(COLORS[split], "", "-"), f"Spearman, {split}"))
    ring = Line2D([], [], color=_CHOSEN, marker="o", linestyle="none", **_RING)
    legend.append((ring, "selected"))
    caption = say(
        "caption_path",
        selected=how_selected(rows),
        least=_LEAST,
        row=first,
        groups=results.groups,
        hollow=any(point["constant"] for point in points),
    )

    def draw(axis: Axes, part: tuple[int, Row]) -> None:
        place, row = part
        _path_panel(axis, row, splits, most)
        axis.set_xlabel("κ = λ / t" if place >= len(rows) - 2 else "")

    title = f"Spearman over κ, {first['dimension']}: {first['decoding']}"
    return style.small_multiples(list(enumerate(rows)), draw, title, caption, legend, height=2.5)


def _path_panel(axis: Axes, row: Row, splits: Sequence[str], most: float) -> None:
    points = sorted(row["grid"], key=lambda point: point["kappa"])
    for split in splits:
        known = [(point["kappa"], point[split]) for point in points if point[split] is not None]
        axis.plot(*zip(*known, strict=True), color=COLORS[split], linewidth=1.2, zorder=2)
    for hollow in (True, False):
        part = [point for point in points if bool(point["constant"]) is hollow]
        known = [(point["kappa"], point["dev"]) for point in part if point["dev"] is not None]
        if known:
            color = COLORS["dev"]
            x, y = zip(*known, strict=True)
            axis.plot(
                x,
                y,
                "o",
                color=color,
                markerfacecolor="white" if hollow else color,
                markersize=3.5,
                zorder=3,
            )
    for split in COLORS:
        value = number(row[split])
        if value is not None:
            axis.plot(
                [row["kappa"]],
                [value],
                "o",
                color=_CHOSEN,
                zorder=4,
                **_RING,
            )
    axis.set_xscale("symlog", linthresh=_LEAST, linscale=0.4)
    axis.set_xlim(0, most)
    powers = [10.0**power for power in range(-3, 6)]
    axis.set_xticks([0.0, *(power for power in powers if power <= most)])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    best = row["grid_best"]
    note = f"best on dev {best['dev']:.3f}" if best else ""
    style.label(axis, f"range {range_of(row)}", note, y="Spearman")


_COLORS = "YlGnBu"  # color-blind readers tell its lightness apart
_FRAMED = "#D55E00"
DASH = "–"


@dataclass(frozen=True)
class HeatMap:
    """One panel: `values` [rows, columns] over two swept numbers, ascending, NaN where a pair was
    not tried; the (row, column) that are framed, and those that were tried and have no value: a
    dash stands there."""

    title: str
    rows: Sequence[float]
    columns: Sequence[float]
    values: Array
    chosen: Sequence[tuple[int, int]] = ()
    undefined: Sequence[tuple[int, int]] = ()


@style.house_style()
def heat_map_figure(
    maps: Sequence[HeatMap],
    names: tuple[str, str],
    title: str,
    caption: str,
    framed: str = "selected",
) -> Figure:
    """Panels side by side, each number written into its cell; colors compare within a panel.
    `names` are those of the rows' and the columns' value, such as ("λ", "t")."""

    def draw(axis: Axes, heat: HeatMap) -> None:
        # 1. the colors, and the numbers in the cells
        low = 0.0
        high = 1.0
        finite = heat.values[np.isfinite(heat.values)]
        if finite.size:
            low = float(finite.min())
            high = float(finite.max())
        norm = Normalize(low, high if high > low else low + 1e-6)
        axis.imshow(heat.values, cmap=_COLORS, norm=norm, aspect="auto", origin="lower")
        axis.tick_params(length=0)
        place: Record = {"ha": "center", "va": "center", "fontsize": 7.5}
        for row, column in np.argwhere(np.isfinite(heat.values)).tolist():
            value = heat.values[row, column]
            color = mpl.colormaps[_COLORS](norm(value))[:3]
            # light on dark cells: not in the page's own ink, which a dark page makes light, while
            # cells keep their colors
            dark = float(np.dot(color, (0.2126, 0.7152, 0.0722))) < 0.45
            axis.text(
                column,
                row,
                three(value),
                color="#fefefe" if dark else "#212121",
                **place,
            )
        # 2. marks
        for row, column in heat.undefined:
            axis.text(column, row, DASH, color=MUTED, **place)
        for row, column in heat.chosen:
            corner = (column - 0.47, row - 0.45)
            frame = Rectangle(corner, 0.94, 0.9, fill=False, edgecolor=_FRAMED, linewidth=2)
            axis.add_patch(frame)
        # 3. words
        columns = [f"{value:.3g}" for value in heat.columns]
        rows = [f"{value:.3g}" for value in heat.rows]
        axis.set_xticks(range(len(columns)), columns)
        axis.set_yticks(range(len(rows)), rows)
        style.label(axis, heat.title, x=names[1], grid="")
        axis.set_ylabel(names[0], rotation=0, ha="right", va="center")

    legend = []
    if any(heat.chosen for heat in maps):
        legend.append((Patch(facecolor="none", edgecolor=_FRAMED, linewidth=2), framed))
    most = max(len(heat.rows) for heat in maps)
    return style.small_multiples(
        maps,
        draw,
        title,
        caption,
        legend,
        height=0.85 + 0.28 * most,
        share_y=False,
    )
