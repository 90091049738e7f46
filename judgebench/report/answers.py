"""A run's results as sentences: which scores judges favour, and what contrastive decoding changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from judgebench.metrics import CONSTANT, CONSTANT_HUMANS
from judgebench.metrics.power import FEWEST
from judgebench.report.differences import Comparison, Difference, note, verdict
from judgebench.report.humans import Scale, human_scores, most_frequent, shares, to_range
from judgebench.report.results import Block
from judgebench.report.score_figure import is_discrete
from judgebench.report.tables import signed
from judgebench.results.series import Series, SeriesIndex, first_condition, ranges_of, shown_split
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


def favorites(scores: pd.DataFrame, scale: Mapping[str, Scale]) -> list[Favorite]:
    """The most frequent score of each judge with discrete scores, and of the humans where they can be mapped.

    The same scores as in the figures: test split, without attack and defense where there are such.
    """
    found = []
    for dimension in dict.fromkeys(scores["dimension"]):
        own = scores[scores["dimension"] == dimension]
        rows, _ = first_condition(own[own["split"] == shown_split(own["split"])])
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


def best_sentences(blocks: Sequence[Block], groups_are: str = "articles", correlation: str = "spearman") -> list[str]:
    """One sentence a block: which judge, in which range, agrees best with the humans where there are several, and
    whether by more than chance."""
    sentences = []
    for block in blocks:
        found = [
            (estimate, row, section.range)
            for section in block.sections
            for row in section.rows
            if (estimate := row.estimates[correlation]).value is not None
        ]
        if not found:
            continue
        estimate, row, score_range = max(found, key=lambda one: one[0].value or 0.0)
        who = f"{row.series}{f' ({row.setting})' if row.setting else ''}"
        told = f"{correlation.capitalize()} {estimate.value:.3f}"
        alone = len({one[1].series for one in found}) == 1
        kind = "has" if len(found) == 1 else "agrees best of its ranges," if alone else "agrees best,"
        sentence = f"{block.condition}: {who} {kind} {told}"
        if estimate.low is None or estimate.high is None:
            sentence += f" in range {score_range}, without an interval"
        else:
            sentence += f" [{estimate.low:.3f}, {estimate.high:.3f}] in range {score_range}"
            if estimate.low <= 0 or block.groups[0] < FEWEST:
                sentence += ", which is not told apart from no agreement"
        several = f" The best of {len(found)} is flattered by having been picked." if len(found) > 1 else ""
        sentences.append(f"{sentence} ({block.size(groups_are)}).{several}")
    return sentences


def spread_sentences(blocks: Sequence[Block], correlation: str = "spearman") -> list[str]:
    """What is said of each block with several ranges: how far the main model's greedy scores depend on the range, and
    how far the contrasted pair's do. Spreads have no interval, and that is said, too."""
    sentences = []
    for block in blocks:
        ends = {
            series: found
            for series in dict.fromkeys(row.series for section in block.sections for row in section.rows)
            if (found := _lowest_highest(block, series, correlation)) is not None
        }
        if len(block.sections) < 2 or _BASELINE not in ends:
            continue
        pairs = [one for one in ends if one.judge == "pair"]
        told = [
            f"{one} {'lies ' * (one == _BASELINE)}{_between(block, one, *ends[one])}" for one in (_BASELINE, *pairs)
        ]
        sentence = (
            f"{block.condition}: over {len(block.sections)} ranges, {correlation.capitalize()} of {'; of '.join(told)}."
        )
        if pairs:
            sentence += " These spreads have no interval: that one is smaller may be chance."
        sentences.append(sentence)
    return sentences


def _between(block: Block, series: Series, low: float, high: float) -> str:
    flags = [row.flags for section in block.sections for row in section.rows if row.series == series]
    undefined = sum(CONSTANT in one or CONSTANT_HUMANS in one for one in flags)
    told = f"between {low:.3f} and {high:.3f}, a spread of {high - low:.3f}"
    return f"{told} (undefined in {undefined}, for which 0 stands)" if undefined else told


def _lowest_highest(block: Block, series: Series, correlation: str) -> tuple[float, float] | None:
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


def change_sentences(compared: Sequence[Comparison], groups_are: str = "articles") -> list[str]:
    """One sentence a comparison against the main model: where contrasting changes Spearman by more than noise, and
    how much data would tell the rest. Without intervals the changes alone are told."""
    return [_change_sentence(one, groups_are) for one in compared if one.second.startswith(f"{_BASELINE.judge}, ")]


def _change_sentence(one: Comparison, groups_are: str) -> str:
    rows = [row for row in one.rows if not row.mean]
    means = [row for row in one.rows if row.mean]
    head = f"{one.condition}: {one.first}, against {one.second},"
    least, most = min(row.difference for row in rows), max(row.difference for row in rows)
    spread = f"{signed(least)} to {signed(most)}"
    if any(row.low is None for row in rows):
        told = _told(rows[0]) if len(rows) == 1 else f"{spread} over {len(rows)} ranges"
        return f"{head} changes Spearman by {told}; without an interval, nothing tells that from chance."
    if len(rows) == 1:
        if rows[0].told_apart:
            return f"{head} changes Spearman by {_told(rows[0])}: {rows[0].says}, and by more than chance."
        why = note(rows[0], groups_are)
        return f"{head} changes Spearman by {_told(rows[0])}: not told apart from chance{f' ({why})' if why else ''}."
    clear = [row for row in rows if row.told_apart]
    if clear:
        sentence = f"{head} changes Spearman by more than chance in {len(clear)} of {len(rows)} ranges: "
        sentence += "; ".join(_told(row) for row in clear)
    else:
        sentence = (
            f"{head} changes Spearman by more than chance in none of {len(rows)} ranges: the changes are {spread}"
        )
    for mean in means:
        why = note(mean, groups_are)
        sentence += f". The mean over the ranges changes by {_ends(mean)}: {verdict(mean)}{f', {why}' if why else ''}"
    return f"{sentence}."


def _told(row: Difference) -> str:
    return f"{_ends(row)} in range {row.place}"


def _ends(row: Difference) -> str:
    return signed(row.difference) + ("" if row.low is None else f" [{signed(row.low)}, {signed(row.high)}]")
