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

    The same scores as in the figures, texts that both scored. Empty without an assistant, without
    greedy scores, and with fewer than two groups (no interval then).
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
                    told = _difference(parts[series], parts[_BASELINE], resamples, seed)
                    if told is not None:
                        found.append(Change(dimension, score_range, str(series), str(_BASELINE), *told))
    return found


def change_sentences(found: Sequence[Change]) -> list[str]:
    """One sentence a dimension and series: where the change is clear, with intervals, and where it is not."""
    sentences = []
    for dimension, series in dict.fromkeys((one.dimension, one.series) for one in found):
        own = [one for one in found if (one.dimension, one.series) == (dimension, series)]
        clear = [one for one in own if one.low > 0 or one.high < 0]
        head = f"{dimension}: {series}, against {own[0].baseline},"
        if len(own) == 1:
            verdict = "a clear change" if clear else "no clear change, for its interval holds 0"
            sentence = f"{head} changes Spearman by {_told(own[0])}: {verdict}."
        elif clear:
            sentence = f"{head} clearly changes Spearman in {len(clear)} of {len(own)} ranges: "
            sentence += "; ".join(_told(one) for one in clear)
            sentence += "; in the others the interval holds 0." if len(clear) < len(own) else "."
        else:
            least, most = min(one.difference for one in own), max(one.difference for one in own)
            sentence = f"{head} clearly changes Spearman in none of {len(own)} ranges: the changes are {least:+.3f} to "
            sentence += f"{most:+.3f}, and every 95 % interval holds 0."
        sentences.append(sentence)
    return sentences


def _told(change: Change) -> str:
    return f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}] in range {change.range}"


def _difference(
    scores: pd.DataFrame, baseline: pd.DataFrame, resamples: int, seed: int
) -> tuple[float, float, float] | None:
    both = scores.join(baseline["score"].rename("baseline"), how="inner").dropna(subset=["score", "baseline", "human"])
    human, groups, systems = (both[name].to_numpy() for name in ("human", "group_id", "system_id"))
    contrast, plain = (
        correlate("dataset", both[name].to_numpy(), human, groups, systems, resamples, seed)
        for name in ("score", "baseline")
    )
    value, ends = difference(contrast, plain)[CORRELATIONS.index("spearman")]
    return None if ends is None else (value, *ends)
