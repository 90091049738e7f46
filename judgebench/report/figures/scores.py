"""Log-probabilities of scores, after the contrastive-decoding paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from judgebench.report.figures import style
from judgebench.report.views import bias
from judgebench.results import results as cells
from judgebench.results.results import Results, Series
from judgebench.studies.scores import shown_split
from judgebench.types import ScoreRange

_BAND = "#e9e9e9"
_MOST_TICKS = 21


def _shown(rows: pd.DataFrame, dimension: str) -> tuple[pd.DataFrame, str, str]:
    """A dimension's rows of the reported split without attack and defense; the split; the condition
    for a caption."""
    rows = rows[rows["dimension"] == dimension]
    split = shown_split(rows["split"])
    rows, condition = cells.first_condition(rows[rows["split"] == split])
    return rows, split, f", {condition}" if condition else ""


def _candidate_ticks(axis: Axes, score_range: ScoreRange) -> None:
    count = len(score_range.values)
    every = -(-count // _MOST_TICKS)
    axis.set_xticks(np.arange(count)[::every], score_range.candidates[::every])
    axis.set_xlim(-0.6, count - 0.4)


_LEAST = float(np.log(np.finfo(np.float32).tiny))
"""The log-probability that stands for a probability of 0."""

_LOGPROBS = (
    "Mean log P(score as the next text), natural logarithm, over the whole vocabulary at t = 1. "
    "Whiskers: ±1 standard deviation over texts. n: texts."
)


@style.house_style()
def logprob_figure(results: Results, dimension: str) -> Figure | None:
    """Mean log-probability of each score as the next text, a line a model and a panel a range
    (after figure 3 of the contrastive-decoding paper); a band marks the score that the humans give
    most often. None where the readings hold no log-probabilities of scores (free generation, texts
    compared)."""
    # 1. the readings that are shown, and the models that they know
    readings = results.readings[results.readings["main_logprobs"].notna()]
    if results.compares or dimension not in set(readings["dimension"]):
        return None
    rows, split, condition = _shown(readings, dimension)
    models = [model for model in ("main", "assistant") if rows[f"{model}_logprobs"].notna().any()]
    marks = style.marks([Series(model, "greedy") for model in models]).values()
    looks = dict(zip(models, marks, strict=True))
    humans = bias.human_scores(_shown(results.scores, dimension)[0])
    scale = results.scale[dimension]

    # 2. a panel a range
    def draw(axis: Axes, panel: tuple[ScoreRange, pd.DataFrame]) -> None:
        score_range, part = panel
        at = np.arange(len(score_range.values))
        for model, look in looks.items():
            logprobs = np.array(part[f"{model}_logprobs"].dropna().tolist(), dtype=np.float64)
            drawn = np.maximum(logprobs, _LEAST)  # [texts, scores]
            style.line(axis, at, drawn.mean(axis=0), look)
            axis.errorbar(
                at,
                drawn.mean(axis=0),
                yerr=drawn.std(axis=0),
                color=look.color,
                fmt="none",
                capsize=2,
            )
        for most in bias.most_frequent(
            bias.shares(bias.to_range(humans, scale, score_range), score_range)
        ):
            axis.axvspan(most - 0.5, most + 0.5, color=_BAND, linewidth=0, zorder=0)
        _candidate_ticks(axis, score_range)
        style.label(axis, f"range {score_range}", f"n = {len(part)}", "score", "mean log P")

    # 3. the words
    titles = results.titles
    legend: list[Any] = [
        (look, f"{model} ({style.shorten(titles.get(model) or model)})")
        for model, look in looks.items()
    ]
    legend += [(_BAND, "humans' most frequent score")] if bias.spans(scale) else []
    caption = f"{_LOGPROBS} {split.capitalize()} split{condition}. {bias.mapping_note(scale)}"
    title = f"Log-probability of each score, {dimension}"
    return style.small_multiples(cells.ranges_of(rows), draw, title, caption, legend, height=2.45)
