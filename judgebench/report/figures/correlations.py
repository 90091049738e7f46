"""Figure of a judge's agreement with the humans by the score range that it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.metrics.evaluation import CONSTANT, CONSTANT_HUMANS
from judgebench.metrics.levels import shown_level
from judgebench.metrics.resampling import FEWEST
from judgebench.report.figures.style import MOST_SERIES, MUTED, Mark, finish, house_style, marks, panels, series_label
from judgebench.report.table import records as table_records
from judgebench.report.views.correlations import at_level, few_groups, level_note, size_of
from judgebench.results.series import Series, SeriesIndex, labelled, shown_split


def correlation_figure(
    records: Sequence[Mapping[str, Any]], titles: Mapping[str, str | None], correlation: str = "spearman"
) -> Figure | None:
    """A correlation per range with its 95 % interval, a line a series, a panel a dimension (and attack and defense).

    The test split (the first if there is none) at level `dataset` (the first if there is none). A flat line is a judge
    without range bias.

    Args:
        records: metrics.json.
        titles: `main` and `assistant`, the models' names; `groups`, what a group is ("articles").
        correlation: of `CORRELATIONS`.

    Returns:
        None where there are no records.
    """
    split = shown_split(record["split"] for record in records)
    level = shown_level(record["level"] for record in records if record["split"] == split)
    rows = labelled(record for record in records if (record["split"], record["level"]) == (split, level))
    if not len(rows):
        return None
    plain = table_records(rows)
    found = SeriesIndex(plain)
    rows["series_id"] = pd.Series([found.of(row) for row in plain], dtype=object)
    rows["undefined"] = [bool({CONSTANT, CONSTANT_HUMANS} & set(flags or ())) for flags in rows["flags"]]
    order, groups = marks(found.all), titles.get("groups") or "articles"
    blocks = [part for _, part in rows.groupby("condition", sort=False)]
    with house_style():
        figure, axes = panels(len(blocks), 1 if len(blocks) == 1 else 2, 2.7)
        for axis, block in zip(axes, blocks, strict=True):
            _panel(axis, block, order, correlation)
            size = size_of(block).format(groups=groups, examples="texts")
            axis.set_title(size, loc="right", fontweight="normal", fontsize=8)
        handles = [
            Line2D([], [], color=mark.color, marker=mark.marker, linestyle=mark.line, markersize=5)
            for mark in order.values()
        ]
        labels = [series_label(series, titles, found.settings[series]) for series in order]
        caption = _caption(rows, correlation, f"{level_note(level, groups)}, {split} split", groups)
        if len(found.all) > MOST_SERIES:
            caption += f" {len(found.all) - MOST_SERIES} further decodings are not drawn."
        return finish(figure, f"{correlation.capitalize()} correlation by score range", caption, handles, labels)


def _caption(rows: pd.DataFrame, correlation: str, where: str, groups: str) -> str:
    caption = f"{correlation.capitalize()} correlation with the humans {where}."
    bounded = rows[f"{correlation}_low"].notna().any()
    caption += f" Bars: 95 % interval, {groups} resampled." if bounded else ""
    caption += " The more a line moves, the more the judge depends on the range it is given."
    caption += f" {few_groups(groups)}" if bounded and rows["groups"].min() < FEWEST else ""
    if rows["undefined"].any():
        caption += " Hollow: judge or humans give every text the same score; the correlation is undefined and "
        caption += "shown as 0."
    return caption


def _panel(axis: Axes, rows: pd.DataFrame, order: Mapping[Series, Mark], correlation: str) -> None:
    axis.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    step = min(0.1, 0.5 / max(1, len(order)))
    ranges = list(dict.fromkeys(rows["range"]))
    for number, (series, mark) in enumerate(order.items()):
        shift = step * (number - (len(order) - 1) / 2)
        own = rows[(rows["series_id"] == series) & rows[correlation].notna()]
        at = [ranges.index(one) + shift for one in own["range"]]
        values = own[correlation].astype(float).to_numpy()
        low, high = (own[f"{correlation}{end}"].astype(float).fillna(own[correlation]) for end in ("_low", "_high"))
        ends = [np.maximum(values - low, 0), np.maximum(high - values, 0)]
        axis.plot(at, values, color=mark.color, linestyle=mark.line, linewidth=1.2, zorder=2)
        axis.errorbar(at, values, yerr=ends, color=mark.color, linestyle="none", elinewidth=1.2, capsize=2.5)
        for x, y, empty in zip(at, values, own["undefined"], strict=True):
            face = "white" if empty else mark.color
            axis.plot([x], [y], mark.marker, color=mark.color, markerfacecolor=face, markersize=5, zorder=3)
    axis.set_xticks(range(len(ranges)), ranges)
    axis.set_xlim(-0.5, len(ranges) - 0.5)
    axis.set_xlabel("score range")
    axis.set_ylabel(correlation.capitalize())
    axis.grid(axis="y")
    axis.set_title(at_level(rows["condition"].iloc[0], rows["level"].iloc[0]))
