"""Which scores judges give, next to the humans', a panel a range (after figure 2 of the contrastive decoding paper)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from judgebench.report.humans import Scale, human_scores, mapping_note, shares, spans, to_range
from judgebench.report.style import HUMANS, MOST_SERIES, Mark, finish, house_style, marks, panels, series_label
from judgebench.results.series import (
    CELL,
    Series,
    SeriesIndex,
    distinct,
    first_condition,
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


def is_discrete(scores: pd.DataFrame) -> bool:
    """Whether at least half of the scores are scores of their range, not values between them."""
    found = 0
    for score_range, part in ranges_of(scores):
        position = (part["score"].to_numpy(dtype=np.float64) - score_range.minimum) / score_range.step
        found += int(np.sum(np.abs(position - np.round(position)) < 1e-6))
    return 2 * found >= len(scores)


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
    axis.set_title(" · ".join(notes), loc="right", fontweight="normal", fontsize=8)


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
