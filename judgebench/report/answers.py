"""A run's results as sentences: which scores judges favour, and what contrastive decoding changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from judgebench.metrics.bootstrap import RESAMPLES
from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.levels import correlate, difference
from judgebench.report.humans import human_scores, most_frequent, shares, to_range
from judgebench.report.results import Block
from judgebench.report.score_figure import is_discrete
from judgebench.report.series import Series, SeriesIndex, first_condition, ranges_of, shown_split
from judgebench.types import ScoreRange

HUMANS = "humans"

_BASELINE = Series("main", "greedy")


@dataclass(frozen=True)
class Favorite:
    """The score that someone gives most often in one range, and the share of texts that get it; ties are all named."""

    dimension: str
    range: ScoreRange
    who: str
    score: str
    share: float


def favorites(scores: pd.DataFrame, scale: Mapping[str, tuple[float, float]]) -> list[Favorite]:
    """The most frequent score of each judge with discrete scores, and of the humans where they can be mapped.

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
                    found.append(_favorite(dimension, score_range, who, values))
    return found


def favorite_sentences(found: Sequence[Favorite], judge: str = "main, greedy") -> list[str]:
    """One sentence a dimension: the range in which the judge is most set on one score, against the humans there."""
    sentences = []
    for dimension in dict.fromkeys(one.dimension for one in found):
        own = [one for one in found if one.dimension == dimension and one.who == judge]
        if not own:
            continue
        top = max(own, key=lambda one: one.share)
        sentence = (
            f"{dimension}: {judge} says {top.score} for {_percent(top.share)} of the texts in range {top.range}"
            f"{', where it is most set on one score' if len(own) > 1 else ''}"
        )
        human = [one for one in found if (one.dimension, one.range, one.who) == (dimension, top.range, HUMANS)]
        if human:
            sentence += f"; the humans' most frequent score there is {human[0].score} ({_percent(human[0].share)})"
        sentences.append(sentence + ".")
    return sentences


def spread_sentences(blocks: Sequence[Block], correlation: str = "spearman") -> list[str]:
    """One sentence a block with several ranges: how far the main model's greedy scores depend on the range, and
    whether contrasting the pair lessens it."""
    sentences = []
    for block in blocks:
        ends = {
            series: found
            for series in dict.fromkeys(row.series for section in block.sections for row in section.rows)
            if (found := _ends(block, series, correlation)) is not None
        }
        if len(block.sections) < 2 or _BASELINE not in ends:
            continue
        low, high = ends[_BASELINE]
        sentence = (
            f"{block.condition}: over {len(block.sections)} ranges, {correlation.capitalize()} of {_BASELINE} lies "
            f"between {low:.3f} and {high:.3f}"
        )
        for series in (one for one in ends if one.judge == "pair"):
            pair_low, pair_high = ends[series]
            verdict = "a smaller" if pair_high - pair_low < high - low else "no smaller a"
            sentence += f"; of {series} between {pair_low:.3f} and {pair_high:.3f}, {verdict} spread"
        sentences.append(sentence + ".")
    return sentences


def _ends(block: Block, series: Series, correlation: str) -> tuple[float, float] | None:
    """The lowest and highest value over the ranges; None where a range lacks it."""
    rows = [row for section in block.sections for row in section.rows if row.series == series]
    values = [value for row in rows if (value := row.estimates[correlation].value) is not None]
    return (min(values), max(values)) if len(values) == len(block.sections) else None


def _favorite(dimension: str, score_range: ScoreRange, who: str, values: NDArray[np.float64]) -> Favorite:
    found = shares(values, score_range)
    most = most_frequent(found)
    return Favorite(
        dimension, score_range, who, " or ".join(score_range.candidates[i] for i in most), float(found[most[0]])
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@dataclass(frozen=True)
class Change:
    """How a correlation moves from one series to another on the same texts.

    Attributes:
        low, high: 95 % interval of the difference; both series see the same resamples of the groups (paired). None
            with fewer than two groups, or without resamples.
        level: of the correlation.
    """

    dimension: str
    range: ScoreRange
    series: str
    baseline: str
    difference: float
    low: float | None = None
    high: float | None = None
    level: str = "dataset"

    @property
    def clear(self) -> bool:
        """Whether there is an interval, and it does not hold 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def changes(scores: pd.DataFrame, level: str = "dataset", resamples: int = RESAMPLES, seed: int = 0) -> list[Change]:
    """What contrasting the pair changes in Spearman, against the main model's greedy scores.

    The same scores as in the figures, texts that both scored. Empty without an assistant, without greedy scores, and
    where nobody rated.

    Args:
        scores: scores.parquet.
        level, resamples, seed: those that metrics.json was made with; see `judgebench.metrics.correlate`.
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
                    told = _difference(level, parts[series], parts[_BASELINE], resamples, seed)
                    if told is not None:
                        found.append(Change(dimension, score_range, str(series), str(_BASELINE), *told, level))
    return found


def change_sentences(found: Sequence[Change]) -> list[str]:
    """One sentence a dimension and series: where the change is clear, with intervals, and where it is not. Without
    intervals the changes alone are told."""
    sentences = []
    for dimension, series in dict.fromkeys((one.dimension, one.series) for one in found):
        own = [one for one in found if (one.dimension, one.series) == (dimension, series)]
        clear = [one for one in own if one.clear]
        least, most = min(one.difference for one in own), max(one.difference for one in own)
        level = "" if own[0].level == "dataset" else f", {own[0].level} level"
        head = f"{dimension}{level}: {series}, against {own[0].baseline},"
        if any(one.low is None for one in own):
            span = _told(own[0]) if len(own) == 1 else f"{least:+.3f} to {most:+.3f} over {len(own)} ranges"
            sentence = f"{head} changes Spearman by {span}; without an interval, nothing tells that from chance."
        elif len(own) == 1:
            verdict = "a clear change" if clear else "no clear change, for its interval holds 0"
            sentence = f"{head} changes Spearman by {_told(own[0])}: {verdict}."
        elif clear:
            sentence = f"{head} clearly changes Spearman in {len(clear)} of {len(own)} ranges: "
            sentence += "; ".join(_told(one) for one in clear)
            sentence += "; in the others the interval holds 0." if len(clear) < len(own) else "."
        else:
            sentence = f"{head} clearly changes Spearman in none of {len(own)} ranges: the changes are {least:+.3f} to "
            sentence += f"{most:+.3f}, and every 95 % interval holds 0."
        sentences.append(sentence)
    return sentences


def _told(change: Change) -> str:
    ends = "" if change.low is None else f" [{change.low:+.3f}, {change.high:+.3f}]"
    return f"{change.difference:+.3f}{ends} in range {change.range}"


def _difference(
    level: str, scores: pd.DataFrame, baseline: pd.DataFrame, resamples: int, seed: int
) -> tuple[float, float | None, float | None] | None:
    both = scores.join(baseline["score"].rename("baseline"), how="inner").dropna(subset=["score", "baseline", "human"])
    if both.empty:
        return None
    human, groups, systems = (both[name].to_numpy() for name in ("human", "group_id", "system_id"))
    contrast, plain = (
        correlate(level, both[name].to_numpy(), human, groups, systems, resamples, seed)
        for name in ("score", "baseline")
    )
    value, ends = difference(contrast, plain)[CORRELATIONS.index("spearman")]
    return (value, *(ends or (None, None)))
