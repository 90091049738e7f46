"""A run's results as sentences: which scores judges favour, and what contrastive decoding changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from judgebench.metrics.bootstrap import RESAMPLES, group_weights, interval, resampled_correlations
from judgebench.metrics.correlation import CORRELATIONS, spearman
from judgebench.report.humans import human_scores, shares, to_range
from judgebench.report.results import Block
from judgebench.report.score_figure import is_discrete
from judgebench.report.series import Series, SeriesIndex, first_condition, ranges_of, shown_split
from judgebench.types import ScoreRange

HUMANS = "humans"

_BASELINE = Series("main", "greedy")


@dataclass(frozen=True)
class Favourite:
    """The score that someone gives most often in one range, and the share of texts that get it."""

    dimension: str
    range: ScoreRange
    who: str
    score: str
    share: float


def favourites(scores: pd.DataFrame, scale: Mapping[str, tuple[float, float]]) -> list[Favourite]:
    """The most frequent score of each judge with discrete scores, and of the humans (mapped to the range).

    The same scores as in the figures: test split, without attack and defense where there are such.
    """
    found = []
    for dimension in dict.fromkeys(scores["dimension"]):
        split = shown_split(scores["split"])
        rows, _ = first_condition(scores[(scores["dimension"] == dimension) & (scores["split"] == split)])
        index = SeriesIndex.from_frame(rows)
        discrete = [series for series, part in index.parts(rows).items() if is_discrete(part)]
        for score_range, part in ranges_of(rows):
            parts = index.parts(part)
            given = {str(series): parts[series]["score"].to_numpy() for series in discrete if series in parts}
            given[HUMANS] = to_range(human_scores(part), scale[dimension], score_range)
            for who, values in given.items():
                if len(values):
                    found.append(_favourite(dimension, score_range, who, values))
    return found


def favourite_sentences(found: Sequence[Favourite], judge: str = "main, greedy") -> list[str]:
    """One sentence a dimension: the range in which the judge is most set on one score, against the humans there."""
    sentences = []
    for dimension in dict.fromkeys(one.dimension for one in found):
        own = [one for one in found if one.dimension == dimension and one.who == judge]
        if not own:
            continue
        top = max(own, key=lambda one: one.share)
        sentence = (
            f"{dimension}: {judge} says {top.score} for {_percent(top.share)} of the texts in range {top.range}"
            f"{', the range where it is most set on one score' if len(own) > 1 else ''}"
        )
        human = [one for one in found if (one.dimension, one.range, one.who) == (dimension, top.range, HUMANS)]
        if human:
            sentence += f"; the humans' most frequent score there is {human[0].score} ({_percent(human[0].share)})"
        sentences.append(sentence + ".")
    return sentences


def spread_sentences(blocks: Sequence[Block], correlation: str = "spearman") -> list[str]:
    """One sentence a block with several ranges: between what values each series' correlation moves."""
    sentences = []
    for block in blocks:
        if len(block.sections) < 2:
            continue
        told = []
        for series in dict.fromkeys(row.series for section in block.sections for row in section.rows):
            values = [
                row.estimates[correlation].value
                for section in block.sections
                for row in section.rows
                if row.series == series
            ]
            known = [value for value in values if value is not None]
            if len(known) == len(block.sections):
                told.append(f"{series} {min(known):.3f} to {max(known):.3f}")
        if told:
            sentences.append(
                f"{block.condition}: {correlation.capitalize()} over {len(block.sections)} ranges: {'; '.join(told)}."
            )
    return sentences


def _favourite(dimension: str, score_range: ScoreRange, who: str, values: NDArray[np.float64]) -> Favourite:
    found = shares(values, score_range)
    most = int(np.argmax(found))
    return Favourite(dimension, score_range, who, score_range.candidates[most], float(found[most]))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@dataclass(frozen=True)
class Change:
    """How a correlation moves from one series to another on the same texts.

    Attributes:
        low, high: 95 % interval of the difference; both series see the same resamples of the groups (paired).
    """

    dimension: str
    range: ScoreRange
    series: str
    baseline: str
    difference: float
    low: float
    high: float


def changes(scores: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0) -> list[Change]:
    """What contrasting the pair changes in Spearman, against the main model's greedy scores.

    The same scores as in the figures, texts that both scored. Empty without an assistant, or without greedy scores.
    """
    found = []
    for dimension in dict.fromkeys(scores["dimension"]):
        split = shown_split(scores["split"])
        rows, _ = first_condition(scores[(scores["dimension"] == dimension) & (scores["split"] == split)])
        index = SeriesIndex.from_frame(rows)
        for score_range, part in ranges_of(rows):
            parts = {series: one.set_index("example_id") for series, one in index.parts(part).items()}
            if _BASELINE not in parts:
                continue
            for series in parts:
                if series.judge == "pair":
                    difference = _difference(parts[series], parts[_BASELINE], resamples, seed)
                    if difference is not None:
                        found.append(Change(dimension, score_range, str(series), str(_BASELINE), *difference))
    return found


def change_sentences(found: Sequence[Change]) -> list[str]:
    """One sentence a dimension and series: the change in each range, and in how many it is not by chance."""
    sentences = []
    for dimension, series in dict.fromkeys((one.dimension, one.series) for one in found):
        own = [one for one in found if (one.dimension, one.series) == (dimension, series)]
        told = [f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}] in range {one.range}" for one in own]
        up, down = sum(one.low > 0 for one in own), sum(one.high < 0 for one in own)
        sentences.append(
            f"{dimension}: {series} changes Spearman, against {own[0].baseline}, by {'; '.join(told)} "
            f"(95 % interval of the paired difference). It is clearly up in {up} of {len(own)} "
            f"range{'s' if len(own) > 1 else ''} and clearly down in {down}."
        )
    return sentences


def _difference(
    scores: pd.DataFrame, baseline: pd.DataFrame, resamples: int, seed: int
) -> tuple[float, float, float] | None:
    both = scores.join(baseline["score"].rename("baseline"), how="inner").dropna(subset=["score", "baseline", "human"])
    human = both["human"].to_numpy(dtype=np.float64)
    groups, names = pd.factorize(both["group_id"])
    weights = group_weights(len(names), resamples, seed)
    pair = [both[name].to_numpy(dtype=np.float64) for name in ("score", "baseline")]
    row = CORRELATIONS.index("spearman")
    resampled = [resampled_correlations(judge, human, groups, weights)[row] for judge in pair]
    ends = interval(resampled[0] - resampled[1])
    return None if ends is None else (spearman(pair[0], human) - spearman(pair[1], human), *ends)
