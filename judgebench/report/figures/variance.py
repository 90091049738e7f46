"""Score range bias as variance: what texts and ranges make of each judge's scores, before and after each repair."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from judgebench.report.figures.style import MUTED, finish, house_style, panels, shorten, size_note
from judgebench.report.formats import points
from judgebench.report.views.variance import told_rows, variance_frame
from judgebench.results.results import Results

_PARTS = (
    ("texts_share", "texts: the same in every range", "#0072B2", "#fefefe"),
    ("range_interactions", "range x text: their order changes", "#E69F00", "#212121"),
    ("range_own", "range: all texts are moved", "#D55E00", "#fefefe"),
)  # Okabe and Ito's palette
_LEAST_WRITTEN = 0.06  # of a bar


def variance_figure(results: Results) -> Figure | None:
    """A stacked bar a series as given and calibrated, a panel a dimension; None without several ranges. The rows are
    those of the sentences."""
    rows = variance_frame(results)
    rows = told_rows(rows[rows["texts_share"].notna()]) if len(rows) else rows
    if not len(rows):
        return None
    parts = [part for _, part in rows.groupby("condition", sort=False)]
    most = max(map(len, parts))
    with house_style():
        figure, axes = panels(len(parts), 1 if len(parts) == 1 else 2, 0.75 + 0.26 * most, share_y=False)
        for axis, part in zip(axes, parts, strict=True):
            _bars(axis, part)
            axis.set_title(part["condition"].iloc[0])
            size_note(axis, f"{part['texts'].iloc[0]} {results.examples_word}, {part['ranges'].iloc[0]:.0f} ranges")
        caption = (
            "Share of the variance of scores in per cent, each a part of the way from the lowest to the highest score "
            "of its range: what is not blue is score range bias. Calibrated: each range's scores mapped to the humans' "
            f"scale by what other {results.groups} teach. Intervals stand in the table."
        )
        handles = [Patch(facecolor=color) for _, _, color, _ in _PARTS]
        return finish(figure, "Score range bias as variance", caption, handles, [label for _, label, _, _ in _PARTS])


def _bars(axis: Axes, rows: pd.DataFrame) -> None:
    for place, row in enumerate(rows.to_dict("records")):
        start = 0.0
        for name, _, color, ink in _PARTS:
            share = float(row[name])
            axis.barh(place, share, left=start, height=0.72, color=color, alpha=0.72 if row["calibrated"] else 1.0)
            if share >= _LEAST_WRITTEN:
                axis.text(start + share / 2, place, points(share), ha="center", va="center", fontsize=7, color=ink)
            start += share
    axis.set_yticks(range(len(rows)), [shorten(name, 34) for name in rows["who"]])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_color(MUTED)
