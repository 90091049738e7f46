"""Score range bias as variance: what texts and ranges make of each judge's scores, before and after each repair."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from judgebench.report.figures import style
from judgebench.report.formats import points
from judgebench.report.views.variance import reported_rows, variance_frame
from judgebench.results.results import Results

_PARTS = (
    ("texts_share", "texts: the same in every range", "#0072B2", "#fefefe"),
    ("range_interactions", "range x text: their order changes", "#E69F00", "#212121"),
    ("range_own", "range: all texts are moved", "#D55E00", "#fefefe"),
)  # Okabe and Ito's palette
_LEAST_WRITTEN = 0.06  # of a bar


@style.house_style()
def variance_figure(results: Results) -> Figure | None:
    """A stacked bar a series as given and calibrated, a panel a dimension; None without several ranges. The rows are
    those of the sentences."""
    rows = variance_frame(results)
    rows = reported_rows(rows[rows["texts_share"].notna()]) if len(rows) else rows
    if not len(rows):
        return None

    def draw(axis: Axes, part: pd.DataFrame) -> None:
        for place, row in enumerate(part.to_dict("records")):
            start = 0.0
            for name, _, color, ink in _PARTS:
                share = float(row[name])
                axis.barh(place, share, left=start, height=0.72, color=color, alpha=0.72 if row["calibrated"] else 1.0)
                if share >= _LEAST_WRITTEN:
                    axis.text(start + share / 2, place, points(share), ha="center", va="center", fontsize=7, color=ink)
                start += share
        axis.set_yticks(range(len(part)), [style.shorten(name, 34) for name in part["who"]])
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_color(style.MUTED)
        size = f"{part['texts'].iloc[0]} {results.examples_word}, {part['ranges'].iloc[0]:.0f} ranges"
        style.label(axis, part["condition"].iloc[0], size, grid="")

    parts = [part for _, part in rows.groupby("condition", sort=False)]
    caption = (
        "Share of the variance of scores in per cent, each a part of the way from the lowest to the highest score "
        "of its range: what is not blue is score range bias. Calibrated: each range's scores mapped to the humans' "
        f"scale by what other {results.groups} teach. Intervals stand in the table."
    )
    legend = [(color, text) for _, text, color, _ in _PARTS]
    height = 0.75 + 0.26 * max(map(len, parts))
    title = "Score range bias as variance"
    return style.small_multiples(parts, draw, title, caption, legend, height=height, share_y=False)
