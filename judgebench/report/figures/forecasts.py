"""Judges' distributions over scores as figures: reliability diagrams, and the error of texts that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from judgebench.report.figures import style
from judgebench.report.figures.style import MOST_SERIES, MUTED, Mark
from judgebench.report.table import records
from judgebench.report.views.forecasts import forecast_frame
from judgebench.results.results import Results
from judgebench.results.series import Series, first_condition, ranges_of
from judgebench.types import ScoreRange

Drawing = Sequence[tuple[Mark, Mapping[str, Any]]]
"""A look, and the record that is drawn in it."""

_LARGEST, _SMALLEST = 11.0, 2.5  # sizes of points, in points

_RELIABILITY = (
    "Each point: texts whose likeliest score has about this probability, and how often raters gave that score; larger "
    "points hold more texts. On the dashed line probabilities are true; below it the judge is overconfident."
)
_ABSTENTION = (
    "Texts are kept from those on which the judge is surest (least standard deviation of its probabilities). Error: "
    "mean distance of its expected score, mapped to the humans' scale, from the humans' mean. A curve that falls to "
    "the left: the judge knows where it errs, and a person should get the others."
)


def forecast_figures(results: Results) -> dict[str, Figure]:
    """`reliability_<dimension>` and `abstention_<dimension>`, a panel a range, as far as forecasts.json has them; of
    clean texts without a defense where there are such."""
    frame = forecast_frame(results)
    figures: dict[str, Figure] = {}
    for dimension, part in frame.groupby("dimension", sort=False) if len(frame) else ():
        clean, condition = first_condition(part)
        for kind, column, draw, title, caption, bars in (
            ("reliability", "diagram", _reliability, "Confidence and what came true", _RELIABILITY, "Bars"),
            ("abstention", "curve", _abstention, "Error where a person gets the unsure texts", _ABSTENTION, "Bands"),
        ):
            rows = clean[[isinstance(cell, list) and len(cell) > 0 for cell in clean.get(column, [None] * len(clean))]]
            if len(rows):
                text = f"{caption} {results.split.capitalize()} split{', ' + condition if condition else ''}."
                text += f" {bars}: 95 % interval, {results.groups} resampled." if rows["groups"].min() > 1 else ""
                name = f"{kind}_{style.file_name(str(dimension))}"
                figures[name] = _by_range(results, rows, draw, f"{title}, {dimension}", text)
    return figures


@style.house_style()
def _by_range(
    results: Results, rows: pd.DataFrame, draw: Callable[[Axes, Drawing], None], title: str, caption: str
) -> Figure:
    # the look of a distribution is that of its model's plain series
    several = {name for name, part in rows.groupby("judge") if part.groupby("range").size().max() > 1}
    drawn = [
        (Series(row["judge"], "contrastive" if row["judge"] == "pair" else "greedy",
                row["setting"] if row["judge"] in several else ""), row)
        for row in records(rows)
    ]  # fmt: skip
    looks = style.marks(list(dict.fromkeys(series for series, _ in drawn)))

    def panel(axis: Axes, part: tuple[ScoreRange, pd.DataFrame]) -> None:
        name = str(part[0])
        pairs = [(looks[series], row) for series, row in drawn if row["range"] == name and series in looks]
        draw(axis, pairs)
        size = f"n = {max(row['texts'] for _, row in pairs)}" if pairs else ""
        style.label(axis, f"range {name}", size, axis.get_xlabel(), axis.get_ylabel())

    left = len({series for series, _ in drawn}) - MOST_SERIES
    caption += f" {left} further distributions are not drawn." if left > 0 else ""
    legend = []
    for series, look in looks.items():
        name, model = ", ".join(filter(None, (series.judge, series.setting))), results.titles.get(series.judge)
        legend.append((look, f"{name} ({style.shorten(model)})" if model else name))
    return style.small_multiples(ranges_of(rows), panel, title, caption, legend, height=2.6)


def _reliability(axis: Axes, drawn: Drawing) -> None:
    axis.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1, zorder=1)
    for mark, row in drawn:
        bins = pd.DataFrame(row["diagram"]).astype(float)
        x, y, low, high = (bins[name].to_numpy() for name in ("forecast", "observed", "observed_low", "observed_high"))
        axis.plot(x, y, color=mark.color, linestyle=mark.line, linewidth=1.1, zorder=2)
        if not np.isnan(low).any():
            style.whiskers(axis, x, y, low, high, mark.color, 0.9, 1.5)
        sizes = _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(bins["share"].to_numpy())
        axis.scatter(x, y, s=sizes**2, color=mark.color, marker=mark.marker, linewidths=0, zorder=3, clip_on=False)
    axis.set(xlim=(0, 1), ylim=(-0.03, 1.04), xlabel="probability of the likeliest score", ylabel="share of raters")


def _abstention(axis: Axes, drawn: Drawing) -> None:
    for mark, row in drawn:
        curve = pd.DataFrame(row["curve"]).astype(float)
        style.line(axis, 100 * curve["kept"], curve["risk"], mark, curve["risk_low"], curve["risk_high"], markersize=4)
    axis.set(xlim=(0, 102), xlabel="texts kept (%)", ylabel="mean error (points)")
    axis.set_ylim(bottom=0)
