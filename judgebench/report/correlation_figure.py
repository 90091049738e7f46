"""How much a judge's agreement with the humans depends on the score range that it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.metrics import CONSTANT, CONSTANT_HUMANS
from judgebench.report.results import Block, Row, arrange, few_note, has_intervals, level_note
from judgebench.report.style import MOST_SERIES, MUTED, Mark, finish, house_style, marks, panels, series_label
from judgebench.results.series import Series, SeriesIndex, shown_split


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
    blocks = arrange(records, split)
    if not blocks:
        return None
    rows = [row for block in blocks for section in block.sections for row in section.rows]
    found = SeriesIndex(record for record in records if record["split"] == split)
    order = marks(found.all)
    groups = titles.get("groups") or "articles"
    with house_style():
        figure, axes = panels(len(blocks), 1 if len(blocks) == 1 else 2, 2.7)
        for axis, block in zip(axes, blocks, strict=True):
            _panel(axis, block, order, correlation)
            axis.set_title(block.size(groups, "texts"), loc="right", fontweight="normal", fontsize=8)
        handles = [
            Line2D([], [], color=mark.color, marker=mark.marker, linestyle=mark.line, markersize=5)
            for mark in order.values()
        ]
        caption = (
            f"{correlation.capitalize()} correlation with the humans {level_note(blocks[0].level, groups)}, {split} "
            f"split.{f' Bars: 95 % interval, {groups} resampled.' if has_intervals(blocks) else ''} The more a line "
            f"moves, the more the judge depends on the range it is given."
        )
        if few := few_note(blocks, groups):
            caption += f" {few}"
        if any(_undefined(row) for row in rows):
            caption += " Hollow: judge or humans give every text the same score; the correlation is undefined and "
            caption += "shown as 0."
        if len(found.all) > MOST_SERIES:
            caption += f" {len(found.all) - MOST_SERIES} further decodings are not drawn."
        labels = [series_label(series, titles, found.settings[series]) for series in order]
        return finish(figure, f"{correlation.capitalize()} correlation by score range", caption, handles, labels)


def _undefined(row: Row) -> bool:
    return CONSTANT in row.flags or CONSTANT_HUMANS in row.flags


def _panel(axis: Axes, block: Block, order: Mapping[Series, Mark], correlation: str) -> None:
    axis.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    step = min(0.1, 0.5 / max(1, len(order)))
    for i, (series, mark) in enumerate(order.items()):
        shift = step * (i - (len(order) - 1) / 2)
        at, values, below, above, hollow = [], [], [], [], []
        for position, section in enumerate(block.sections):
            for row in section.rows:
                estimate = row.estimates[correlation]
                if row.series == series and estimate.value is not None:
                    at.append(position + shift)
                    values.append(estimate.value)
                    below.append(max(0.0, estimate.value - (estimate.value if estimate.low is None else estimate.low)))
                    above.append(
                        max(0.0, (estimate.value if estimate.high is None else estimate.high) - estimate.value)
                    )
                    hollow.append(_undefined(row))
        axis.plot(at, values, color=mark.color, linestyle=mark.line, linewidth=1.2, zorder=2)
        axis.errorbar(at, values, yerr=[below, above], color=mark.color, linestyle="none", elinewidth=1.2, capsize=2.5)
        for x, y, empty in zip(at, values, hollow, strict=True):
            face = "white" if empty else mark.color
            axis.plot([x], [y], mark.marker, color=mark.color, markerfacecolor=face, markersize=5, zorder=3)
    axis.set_xticks(range(len(block.sections)), [str(section.range) for section in block.sections])
    axis.set_xlim(-0.5, len(block.sections) - 0.5)
    axis.set_xlabel("score range")
    axis.set_ylabel(correlation.capitalize())
    axis.grid(axis="y")
    axis.set_title(block.condition)
