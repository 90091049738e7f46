"""Judges' distributions over scores as figures: reliability diagrams, and the error of texts that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from judgebench.report.figures.style import (
    MOST_SERIES,
    MUTED,
    Mark,
    error_bars,
    file_name,
    finish,
    handle,
    house_style,
    marks,
    panels,
    shorten,
    size_note,
)
from judgebench.report.table import records
from judgebench.report.views.forecasts import forecast_frame
from judgebench.results.results import Results
from judgebench.results.series import Series, first_condition, ranges_of

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
    rows = forecast_frame(results)
    found: dict[str, Figure] = {}
    for dimension, own in rows.groupby("dimension", sort=False) if len(rows) else ():
        shown, condition = first_condition(own)
        name = file_name(str(dimension))
        kinds: tuple[tuple[str, str, Callable[..., None], str, str], ...] = (
            ("reliability", "diagram", _reliability_panel, "Confidence and what came true", _RELIABILITY),
            ("abstention", "curve", _abstention_panel, "Error where a person gets the unsure texts", _ABSTENTION),
        )
        for kind, column, draw, title, caption in kinds:
            held = shown[[isinstance(one, list) and len(one) > 0 for one in shown.get(column, [None] * len(shown))]]
            if len(held):
                where = f" {results.split.capitalize()} split{', ' + condition if condition else ''}."
                bars = f" {'Bars' if kind == 'reliability' else 'Bands'}: 95 % interval, {results.groups} resampled."
                bounded = held["groups"].min() > 1
                said = caption + where + (bars if bounded else "")
                found[f"{kind}_{name}"] = _figure(results, held, draw, f"{title}, {dimension}", said)
    return found


def _figure(results: Results, rows: pd.DataFrame, draw: Callable[..., None], title: str, caption: str) -> Figure:
    plain = records(rows)
    several = {name for name, part in rows.groupby("judge") if part.groupby("range").size().max() > 1}
    kinds = {id(row): _series(row, several) for row in plain}
    order = marks(list(dict.fromkeys(kinds.values())))
    ranges = ranges_of(rows)
    with house_style():
        figure, axes = panels(len(ranges), 1 if len(ranges) == 1 else 2, 2.6)
        for axis, (score_range, _) in zip(axes, ranges, strict=True):
            own = [row for row in plain if row["range"] == str(score_range) and kinds[id(row)] in order]
            draw(axis, [(order[kinds[id(row)]], row) for row in own])
            axis.set_title(f"range {score_range}")
            size_note(axis, f"n = {max(row['texts'] for row in own)}" if own else "")
            axis.grid(axis="y")
        labels = [_label(series, results.titles) for series in order]
        left = len(set(kinds.values())) - MOST_SERIES
        caption += f" {left} further distributions are not drawn." if left > 0 else ""
        return finish(figure, title, caption, [handle(mark) for mark in order.values()], labels)


def _series(row: Mapping[str, Any], several: set[Any]) -> Series:
    """The series whose look a distribution has: of a model its plain one's."""
    own = row["setting"] if row["judge"] in several else ""
    return Series(row["judge"], "contrastive" if row["judge"] == "pair" else "greedy", own)


def _label(series: Series, titles: Mapping[str, str | None]) -> str:
    name = ", ".join(filter(None, (series.judge, series.setting)))
    title = titles.get(series.judge)
    return f"{name} ({shorten(title)})" if title else name


Drawing = Sequence[tuple[Mark, Mapping[str, Any]]]
"""A look, and the record that is drawn in it."""


def _reliability_panel(axis: Axes, drawn: Drawing) -> None:
    axis.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1, zorder=1)
    for mark, row in drawn:
        bins = pd.DataFrame(row["diagram"]).astype(float)
        x, y, low, high = (bins[name].to_numpy() for name in ("forecast", "observed", "observed_low", "observed_high"))
        axis.plot(x, y, color=mark.color, linestyle=mark.line, linewidth=1.1, zorder=2)
        if not np.isnan(low).any():
            bars = error_bars(y, low, high)
            axis.errorbar(x, y, yerr=bars, color=mark.color, linestyle="none", elinewidth=0.9, capsize=1.5, zorder=2)
        sizes = _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(bins["share"].to_numpy())
        axis.scatter(x, y, s=sizes**2, color=mark.color, marker=mark.marker, linewidths=0, zorder=3, clip_on=False)
    axis.set_xlim(0, 1)
    axis.set_ylim(-0.03, 1.04)
    axis.set_xlabel("probability of the likeliest score")
    axis.set_ylabel("share of raters")


def _abstention_panel(axis: Axes, drawn: Drawing) -> None:
    for mark, row in drawn:
        curve = pd.DataFrame(row["curve"]).astype(float)
        x = 100 * curve["kept"]
        axis.plot(x, curve["risk"], color=mark.color, linestyle=mark.line, marker=mark.marker, markersize=4)
        if curve[["risk_low", "risk_high"]].notna().all(axis=None):
            ends = (curve["risk_low"], curve["risk_high"])
            axis.fill_between(x, *ends, color=mark.color, alpha=0.13, linewidth=0, zorder=0)
    axis.set_xlim(0, 102)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("texts kept (%)")
    axis.set_ylabel("mean error (points)")
