"""Figures of scores, log-probabilities of candidates, and agreement with the humans by range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from judgebench.metrics.evaluation import CONSTANT, CONSTANT_HUMANS
from judgebench.metrics.levels import shown_level
from judgebench.metrics.resampling import FEWEST
from judgebench.report.figures.style import (
    HUMANS,
    MOST_SERIES,
    MUTED,
    Mark,
    error_bars,
    finish,
    handle,
    house_style,
    marks,
    panels,
    series_label,
    shorten,
    size_note,
)
from judgebench.report.table import records as table_records
from judgebench.report.views.bias import (
    Scale,
    human_scores,
    is_discrete,
    mapping_note,
    most_frequent,
    shares,
    spans,
    to_range,
)
from judgebench.report.views.correlations import at_level, few_groups, level_note, size_of, sized
from judgebench.results.series import (
    CELL,
    Series,
    SeriesIndex,
    distinct,
    first_condition,
    labelled,
    ranges_of,
    setting,
    shown_split,
)
from judgebench.types import ScoreRange

_WIDE = 11
"""Candidates from which on a panel takes a row of its own."""

_MOST_TICKS = 21


def score_figure(scores: pd.DataFrame, dimension: str, scale: Scale, titles: Mapping[str, str | None]) -> Figure:
    """Share of texts per score: grouped bars for each judge with discrete scores, and for the humans.

    The dimension's scores of the test split are shown (of the first split if there are none), without attack and
    defense where such scores exist. Decodings whose scores mostly fall between the range's (expectation) are not drawn.

    Args:
        scores: scores.parquet; all dimensions.
        scale: the human scale of `dimension`.
        titles: `main` and `assistant`, the models' names.
    """
    own = scores[scores["dimension"] == dimension]
    split = shown_split(own["split"])
    rows, condition = first_condition(own[own["split"] == split])
    index = SeriesIndex.from_frame(rows)
    discrete = [series for series, part in index.parts(rows).items() if is_discrete(part)]
    drawn = marks(discrete)
    ranges = ranges_of(rows)
    with house_style():
        wide = len(ranges) == 1 or any(len(score_range.values) > _WIDE for score_range, _ in ranges)
        # Shares fall as scores get more numerous, so heights compare only between ranges with equally many.
        comparable = len({len(score_range.values) for score_range, _ in ranges}) == 1
        figure, axes = panels(len(ranges), 1 if wide else 2, 2.3, share_y=comparable)
        for axis, (score_range, part) in zip(axes, ranges, strict=True):
            _panel(axis, score_range, part, index, drawn, scale)
        for axis in axes:
            axis.set_ylabel("texts (%)")
        handles = [Patch(facecolor=mark.color) for mark in drawn.values()]
        labels = [series_label(series, titles, index.settings[series]) for series in drawn]
        if spans(scale):
            handles.append(Patch(facecolor=HUMANS))
            labels.append("humans")
        caption = f"Share of texts that get each score; {split} split{', ' + condition if condition else ''}. "
        note = mapping_note(scale)
        if scale is not None:
            note = note.replace("the range", f"the range from their scale {scale[0]:g}-{scale[1]:g}")
        caption += f"n: texts. {note}"
        if len(discrete) > MOST_SERIES:
            caption += f" {len(discrete) - MOST_SERIES} further decodings are not drawn."
        return finish(figure, f"Scores given, {dimension}", caption, handles, labels)


def _panel(
    axis: Axes,
    score_range: ScoreRange,
    scores: pd.DataFrame,
    index: SeriesIndex,
    drawn: Mapping[Series, Mark],
    scale: Scale,
) -> None:
    parts = index.parts(scores)
    bars = [
        (mark.color, shares(parts[series]["score"], score_range)) for series, mark in drawn.items() if series in parts
    ]
    if spans(scale):
        bars.append((HUMANS, shares(to_range(human_scores(scores), scale, score_range), score_range)))
    at = np.arange(len(score_range.values))
    width = 0.84 / max(1, len(bars))
    for i, (color, heights) in enumerate(bars):
        left = at + (i - (len(bars) - 1) / 2) * width
        axis.bar(left, 100 * heights, width * 0.94, color=color, linewidth=0)
    every = -(-len(at) // _MOST_TICKS)
    axis.set_xticks(at[::every], score_range.candidates[::every])
    axis.tick_params(axis="x", length=0)
    axis.set_xlim(-0.6, len(at) - 0.4)
    axis.set_xlabel("score")
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axis.grid(axis="y")
    axis.set_title(f"range {score_range}")
    notes = [f"n = {_count(scores, index)}", *_settings(scores, drawn, index)]
    size_note(axis, " · ".join(notes))


def _count(scores: pd.DataFrame, index: SeriesIndex) -> str:
    counts = [len(part) for part in index.parts(scores).values()]
    return f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _settings(scores: pd.DataFrame, drawn: Mapping[Series, Mark], index: SeriesIndex) -> list[str]:
    """Lambda and t of this range, where the legend cannot say them because ranges differ."""
    rows = distinct(scores, ["judge", "decoding", "lambda", "temperature", *CELL])
    untold = {
        series: setting(row)
        for row in rows
        if (series := index.of(row)) in drawn and not series.setting and not index.settings[series] and setting(row)
    }
    # With several, a setting must say whose it is.
    return [f"{series.decoding} {text}" if len(untold) > 1 else text for series, text in untold.items()]


_JUDGES = {"main": "main_logprobs", "assistant": "assistant_logprobs"}
_WIDE_LOGPROBS = 21
_BAND = "#e9e9e9"
_LEAST = float(np.log(np.finfo(np.float32).tiny))


def logprob_figure(
    readings: pd.DataFrame,
    scores: pd.DataFrame,
    dimension: str,
    scale: Scale,
    titles: Mapping[str, str | None],
) -> Figure | None:
    """Mean log-probability of each candidate score, +-1 standard deviation over texts, a panel a range.

    A band marks the score that the humans give most often, where they can be mapped (see `to_range`). Rows are chosen
    as `score_figure` chooses them.

    Args:
        readings: readings.parquet; main_logprobs and assistant_logprobs hold [candidates] of their row's range.
        scores: scores.parquet, for the humans.
        scale: the human scale of `dimension`.
        titles: `main` and `assistant`, the models' names.

    Returns:
        None where the readings of this dimension hold no log-probabilities (free generation).
    """
    own = readings[readings["dimension"] == dimension]
    split = shown_split(own["split"])
    rows, condition = first_condition(own[own["split"] == split])
    rows = rows[rows["main_logprobs"].notna()]
    if rows.empty:
        return None
    judges = [judge for judge, column in _JUDGES.items() if rows[column].notna().any()]
    looks = dict(zip(judges, marks([Series(judge, "greedy") for judge in judges]).values(), strict=True))
    humans = scores[(scores["dimension"] == dimension) & (scores["split"] == split)]
    ranges = ranges_of(rows)
    with house_style():
        wide = len(ranges) == 1 or any(len(score_range.values) > _WIDE_LOGPROBS for score_range, _ in ranges)
        figure, axes = panels(len(ranges), 1 if wide else 2, 2.45)
        for axis, (score_range, part) in zip(axes, ranges, strict=True):
            _logprob_panel(axis, score_range, part, looks)
            _human_band(axis, score_range, to_range(human_scores(humans), scale, score_range))
        handles: list[Artist] = [handle(look) for look in looks.values()]
        labels = [f"{judge} ({shorten(titles.get(judge) or judge)})" for judge in judges]
        if spans(scale):
            handles.append(Patch(facecolor=_BAND))
            labels.append("humans' most frequent score")
        caption = (
            f"Mean log P(score as the next text), natural logarithm, over the whole vocabulary at t = 1; {split} "
            f"split{', ' + condition if condition else ''}. Whiskers: ±1 standard deviation over texts (spread, not "
            f"error of the mean). Together: the probability that all scores of the range hold, mean over texts. "
            f"n: texts. {mapping_note(scale)}"
        )
        # Range by range: ranges have different numbers of candidates.
        if any(np.isneginf(_stack(part[_JUDGES[judge]])).any() for _, part in ranges for judge in judges):
            caption += f" Probabilities of 0 are drawn as {np.exp(_LEAST):.0e}."
        return finish(figure, f"Log-probability of each score, {dimension}", caption, handles, labels)


def _logprob_panel(axis: Axes, score_range: ScoreRange, readings: pd.DataFrame, looks: Mapping[str, Mark]) -> None:
    at = np.arange(len(score_range.values))
    mass = []
    for i, (judge, look) in enumerate(looks.items()):
        values = _stack(readings[_JUDGES[judge]])
        drawable = np.maximum(values, _LEAST)
        shift = 0.16 * (i - (len(looks) - 1) / 2)
        axis.errorbar(
            at + shift,
            np.mean(drawable, axis=0),
            yerr=np.std(drawable, axis=0),
            color=look.color,
            marker=look.marker,
            linestyle=look.line,
            markersize=4.5,
            linewidth=1.1,
            elinewidth=1.1,
            capsize=2,
        )
        together = 100 * float(np.mean(np.exp(values).sum(axis=1)))
        mass.append(f"{judge} {together:.0f} %" if together >= 10 else f"{judge} {together:.2g} %")
    every = -(-len(at) // _MOST_TICKS)
    axis.set_xticks(at[::every], score_range.candidates[::every])
    axis.set_xlim(-0.6, len(at) - 0.4)
    axis.set_xlabel(f"score (together: {', '.join(mass)})")
    axis.set_ylabel("mean log P")
    axis.grid(axis="y")
    axis.set_title(f"range {score_range}")
    size_note(axis, f"n = {len(readings)}")


def _human_band(axis: Axes, score_range: ScoreRange, humans: NDArray[np.float64]) -> None:
    for most in most_frequent(shares(humans, score_range)):
        axis.axvspan(most - 0.5, most + 0.5, color=_BAND, linewidth=0, zorder=0)


def _stack(lists: pd.Series) -> NDArray[np.float64]:
    """[texts, candidates] log-probabilities; -inf where a probability is 0."""
    return np.array([list(one) for one in lists.dropna()], dtype=np.float64).reshape(lists.notna().sum(), -1)


def correlation_figure(
    records: Sequence[Mapping[str, Any]],
    titles: Mapping[str, str | None],
    humans: Mapping[str, Mapping[str, Any]] | None = None,
    correlation: str = "spearman",
) -> Figure | None:
    """A correlation per range with its 95 % interval, a line a series, a panel a dimension (and attack and defense).

    The test split (the first if there is none) at level `dataset` (the first if there is none). A flat line is a judge
    without range bias.

    Args:
        records: metrics.json.
        titles: `main` and `assistant`, the models' names; `groups`, what a group is ("articles").
        humans: dimension -> its record of humans.json: the ceiling is drawn beside Spearman at dataset level.
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
    limits = humans if humans and (correlation, level) == ("spearman", "dataset") else {}
    limits = {name: limits[name] for name in dict.fromkeys(rows["dimension"]) if name in limits}
    with house_style():
        figure, axes = panels(len(blocks), 1 if len(blocks) == 1 else 2, 2.7)
        for axis, block in zip(axes, blocks, strict=True):
            _correlation_panel(axis, block, order, correlation)
            _ceiling(axis, limits.get(block["dimension"].iloc[0]))
            size = sized(size_of(block), groups, "texts")
            size_note(axis, size)
        handles = [handle(mark) for mark in order.values()]
        labels = [series_label(series, titles, found.settings[series]) for series in order]
        if limits:
            handles.append(Line2D([], [], color=MUTED, linestyle="--"))
            labels.append("one human rater with the mean of the others")
        caption = _caption(rows, correlation, f"{level_note(level, groups)}, {split} split", groups)
        if limits:
            caption += " Dashed, with its 95 % interval: how one rater agrees with the mean of the others; judges meet "
            caption += "the mean of all raters, which is easier to agree with."
        if len(found.all) > MOST_SERIES:
            caption += f" {len(found.all) - MOST_SERIES} further decodings are not drawn."
        return finish(figure, f"{correlation.capitalize()} correlation by score range", caption, handles, labels)


def _ceiling(axis: Axes, record: Mapping[str, Any] | None) -> None:
    """A dashed line where one human rater stands to the others, and a band, its 95 % interval."""
    if record is None:
        return
    axis.axhline(record["ceiling"], color=MUTED, linestyle="--", linewidth=1.2, zorder=1)
    if record["ceiling_low"] is not None and record["ceiling_high"] is not None:
        axis.axhspan(record["ceiling_low"], record["ceiling_high"], color=_BAND, linewidth=0, zorder=0)


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


def _correlation_panel(axis: Axes, rows: pd.DataFrame, order: Mapping[Series, Mark], correlation: str) -> None:
    axis.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    step = min(0.1, 0.5 / max(1, len(order)))
    ranges = list(dict.fromkeys(rows["range"]))
    for number, (series, mark) in enumerate(order.items()):
        shift = step * (number - (len(order) - 1) / 2)
        own = rows[(rows["series_id"] == series) & rows[correlation].notna()]
        at = [ranges.index(one) + shift for one in own["range"]]
        values = own[correlation].astype(float).to_numpy()
        low, high = (own[f"{correlation}{end}"].astype(float).fillna(own[correlation]) for end in ("_low", "_high"))
        ends = error_bars(values, low, high)
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
