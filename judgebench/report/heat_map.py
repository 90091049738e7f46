"""Heat maps of two swept numbers: how good each pair of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from judgebench.report.style import MUTED, finish, house_style, panels
from judgebench.report.views.tuning import how_selected
from judgebench.results.series import number, range_of

_COLORS = "YlGnBu"  # color-blind readers tell its lightness apart
_CHOSEN = "#D55E00"
DASH = "–"
_LIGHT, _DARK = "#fefefe", "#212121"
"""Numbers in cells: not the page's own ink, which a dark page makes light, while cells keep their colors."""


@dataclass(frozen=True)
class HeatMap:
    """One panel.

    Attributes:
        rows, columns: the swept values, ascending.
        values: [rows, columns]; NaN where a pair was not tried.
        chosen: (row, column) positions to be framed.
        undefined: (row, column) positions that were tried and have no value; a dash stands there.
    """

    title: str
    rows: Sequence[float]
    columns: Sequence[float]
    values: np.ndarray
    chosen: Sequence[tuple[int, int]] = ()
    undefined: Sequence[tuple[int, int]] = ()


def heat_map_figure(
    maps: Sequence[HeatMap], names: tuple[str, str], title: str, caption: str, framed: str = "chosen"
) -> Figure:
    """Panels side by side, each number written into its cell; colors compare within a panel.

    Args:
        names: of the rows' and the columns' value, such as ("λ", "t").
        framed: what the frames mean.
    """
    tallest = max(len(one.rows) for one in maps)
    with house_style():
        figure, axes = panels(len(maps), 1 if len(maps) == 1 else 2, 0.85 + 0.28 * tallest, share_y=False)
        for axis, one in zip(axes, maps, strict=True):
            _panel(axis, one, names)
        handles = [Patch(facecolor="none", edgecolor=_CHOSEN, linewidth=2)] if any(m.chosen for m in maps) else []
        return finish(figure, title, caption, handles, [framed] * len(handles))


def grid_figure(tuned: Sequence[Mapping[str, Any]], groups: str = "articles") -> Figure | None:
    """Dev Spearman over the tuning grid, lambda by t, a panel a range; None without a grid or a dev split.

    Args:
        tuned: the records of one tuned decoding in one dimension, see `tuning_blocks`.
    """
    rows = [row for row in tuned if any(number(point["dev"]) is not None for point in row["grid"])]
    if not rows:
        return None
    maps = []
    for row in rows:
        lambdas, temperatures = (sorted({point[name] for point in row["grid"]}) for name in ("lambda", "temperature"))
        values = np.full((len(lambdas), len(temperatures)), np.nan)
        for point in row["grid"]:
            # the 0 that stands for the correlation of equal scores would outshine every negative one
            value = np.nan if point["constant"] else point["dev"]
            values[lambdas.index(point["lambda"]), temperatures.index(point["temperature"])] = value
        inside = row["lambda"] in lambdas and row["temperature"] in temperatures
        chosen = [(lambdas.index(row["lambda"]), temperatures.index(row["temperature"]))] if inside else []
        undefined = [(i, j) for i, j in np.argwhere(np.isnan(values)).tolist()]
        maps.append(HeatMap(f"range {range_of(row)}", lambdas, temperatures, values, chosen, undefined))
    caption = (
        "Spearman correlation with the humans on the dev split at each point of the grid; points of one λ / t are "
        f"one decoding. Colors compare within a range. Chosen: {how_selected(tuned)}. "
        f"n = {rows[0]['dev_examples']} texts of {rows[0]['dev_groups']} {groups}; no intervals: the highest of many points is flattered by chance."
    )
    if any(one.undefined for one in maps):
        caption += f" {DASH}: every dev text gets the same score, so there is no correlation."
    title = f"The grid, {tuned[0]['dimension']}: {tuned[0]['decoding']}"
    return heat_map_figure(maps, ("λ", "t"), title, caption)


def _panel(axis: Axes, one: HeatMap, names: tuple[str, str]) -> None:
    known = one.values[np.isfinite(one.values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    norm = Normalize(low, high if high > low else low + 1e-6)
    axis.imshow(one.values, cmap=_COLORS, norm=norm, aspect="auto", origin="lower")
    colors = mpl.colormaps[_COLORS]
    for row, column in np.argwhere(np.isfinite(one.values)).tolist():
        value = float(one.values[row, column])
        dark = float(np.dot(colors(norm(value))[:3], (0.2126, 0.7152, 0.0722))) < 0.45
        axis.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize=7.5, color=_LIGHT if dark else _DARK)
    for row, column in one.undefined:
        axis.text(column, row, DASH, ha="center", va="center", fontsize=7.5, color=MUTED)
    for row, column in one.chosen:
        frame = Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, fill=False, edgecolor=_CHOSEN, linewidth=2)
        axis.add_patch(frame)
    axis.set_xticks(range(len(one.columns)), [f"{value:.3g}" for value in one.columns])
    axis.set_yticks(range(len(one.rows)), [f"{value:.3g}" for value in one.rows])
    axis.tick_params(length=0)
    axis.set_ylabel(names[0], rotation=0, ha="right", va="center")
    axis.set_xlabel(names[1])
    axis.set_title(one.title)
