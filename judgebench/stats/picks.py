"""Best of n: the text of each group that a judge likes most, and what people think of it.

Rerankers, rejection sampling and verifiers of agents take the judge's first choice of several
answers to one question. What that is worth is people's mean score of the text picked, between a
random pick and the best. The order of the other texts plays no part.

    chosen       people's mean score of the judge's pick, mean over groups; ties share the pick
    random       the same of a random text
    best         the same of the text that people like most; the same noisy ratings choose and
                 score it, so it is out of reach
    by_system    the same of the text by the system that people like most in all other groups: what
                 a judge picks that knows nothing but who wrote a text
    gain         chosen less random
    recovered    the part of the way from random to best
    rater        a rater's pick, scored by the mean of the other raters, beside the judge's pick
                 scored likewise (chosen_others); their difference is chosen_less_rater

The best of k draws without replacement needs no simulation. A group of n texts, of which a scores
at most v and b less than v, gives a pick that scores v with the probability [C(a, k) - C(b, k)] /
C(n, k). Verifiers are compared by such curves in arXiv 2607.05391, without intervals.

Groups are the clusters. A mean over groups has Student's interval; `recovered` is a ratio of two
sums over groups, by the delta method: Cochran, "Sampling Techniques" (1977), section 6.3. In 300
simulated sets each of 10, 20, 40 and 100 groups of 4, 8 and 16 texts, both held the truth in 92 to
97 % of cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import CONFIDENCE, Estimate, divided, keys_of, unknown
from judgebench.stats.humans import Panel
from judgebench.stats.scores import JudgeScores
from judgebench.types import Array, Record, Rows

FIGURES = ("random", "by_system", "chosen", "best", "gain", "recovered")
BESIDE_RATER = ("chosen_others", "rater", "chosen_less_rater")
"""Figures of a record, each with its interval, see above."""

_ONE_BY_ONE = 16
"""Numbers of draws up to this are all shown; beyond, each is twice the one before."""


def pick_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/picks.json: of every judge, decoding and range what its first choice in
    each group is worth."""
    return [_record(sample) for sample in samples]


def picked(
    scores: Array, values: Array, number: Array, groups: int, draws: int | None = None
) -> Array:
    """[G] the expected value of the text with the highest score among so many texts, drawn from
    each group without replacement; ties share the pick. NaN for a group with fewer texts.

    Args:
        scores: [N] by which a text is picked; minus infinity for one that is picked last.
        values: [N] of the text picked, such as people's mean scores.
        number: [N] of each text's group, 0 to G - 1.
        draws: texts drawn from a group; None takes all of them.

    Example:
        >>> scores, values = np.array([3.0, 3.0, 1.0]), np.array([5.0, 4.0, 1.0])
        >>> picked(scores, values, np.zeros(3, np.int64), 1).tolist()
        [4.5]
        >>> picked(scores, values, np.zeros(3, np.int64), 1, draws=1).round(9).tolist()
        [3.333333333]
    """
    order = np.lexsort((scores, number))
    scores, values, number = scores[order], values[order], number[order]
    size = np.bincount(number, minlength=groups)
    # 1. levels: texts of one group and score
    starts = np.ones(len(scores), dtype=bool)
    starts[1:] = (number[1:] != number[:-1]) | (scores[1:] != scores[:-1])
    first = np.flatnonzero(starts)
    many = np.diff(np.append(first, len(scores)))
    group = number[first]
    mean = np.add.reduceat(values, first) / many if len(first) else values[:0]
    # 2. the chance that the highest score drawn is a level's
    before = first - (np.cumsum(size) - size)[group]
    drawn = size if draws is None else np.full(groups, draws)
    chance = _share_of_draws(before + many, size[group], drawn[group])
    chance -= _share_of_draws(before, size[group], drawn[group])
    expected = np.bincount(group, weights=chance * mean, minlength=groups)
    return np.where((size > 0) & (size >= drawn), expected, np.nan)


def _share_of_draws(among: Array, size: Array, draws: Array) -> Array:
    """C(among, draws) / C(size, draws): the share of draws that hold none but `among` of a group's
    texts."""
    log = scipy.special.gammaln
    possible = (among >= draws) & (size >= draws)
    inside = np.where(possible, among, draws)
    whole = np.where(possible, size, draws)
    chosen = log(inside + 1) - log(inside - draws + 1)
    every = log(whole + 1) - log(whole - draws + 1)
    return np.where(possible, np.exp(chosen - every), 0.0)


def ratio_estimate(above: Array, below: Array) -> Estimate | None:
    """Sum of `above` [G] by sum of `below` [G], with Student's interval over groups by the delta
    method; with ones below, the mean. Groups in which one of both is NaN are left out; None where
    the sum below is not positive.

    Example:
        >>> f"{ratio_estimate(np.array([1.0, 2.0, 6.0]), np.ones(3)):.2f}"
        '3.00 [-3.57, 9.57]'
    """
    known = ~np.isnan(above + below)
    above, below = above[known], below[known]
    total = float(below.sum())
    if not total > 0:
        return None
    value = float(above.sum() / total)
    groups = len(above)
    if groups < 2:
        return Estimate(value)
    rest = above - value * below
    error = math.sqrt(groups / (groups - 1) * float(rest @ rest)) / total
    reach = float(scipy.special.stdtrit(groups - 1, CONFIDENCE[1])) * error
    return Estimate(value, value - reach, value + reach)


def _record(sample: JudgeScores) -> Record:
    # 1. rated texts, of groups that have two; an answer that could not be read is picked last
    whole = sample if sample.whole is None else sample.whole
    scores = whole.scores
    if whole.unread is not None:
        scores = np.where(whole.unread, -np.inf, scores)
    rated = ~np.isnan(whole.human)
    _, number = np.unique(whole.groups, return_inverse=True)
    used = rated & (np.bincount(number, weights=rated)[number] >= 2)
    names, number = np.unique(whole.groups[used], return_inverse=True)
    groups = len(names)
    record: Record = {
        **sample.head,
        "texts": int(used.sum()),
        "groups": groups,
        **unknown((*FIGURES, *BESIDE_RATER)),
        "best_of": [],
        "reason": None,
    }
    if not groups:
        record["reason"] = "Nothing to pick from: no group has two rated texts."
        return record
    # 2. picks of the judge, of chance, of the systems' names and of the ratings themselves
    scores = scores[used]
    human = whole.human[used]
    ones = np.ones(groups)
    means = {
        "random": picked(np.zeros(len(human)), human, number, groups),
        "chosen": picked(scores, human, number, groups),
        "best": picked(human, human, number, groups),
    }
    elsewhere = _ratings_elsewhere(whole.systems[used], human, number)
    if elsewhere is not None:
        means["by_system"] = picked(elsewhere, human, number, groups)
    for name, values in means.items():
        record |= keys_of(name, ratio_estimate(values, ones))
    gain = means["chosen"] - means["random"]
    record |= keys_of("gain", ratio_estimate(gain, ones))
    recovered = ratio_estimate(gain, means["best"] - means["random"])
    record |= keys_of("recovered", recovered)
    if recovered is None:
        record["reason"] = "People rate all texts of each group alike, so no pick is better."
    # 3. one rater, and the best of fewer
    record |= _beside_rater(whole, np.where(rated, _filled(scores, used), np.nan))
    record["best_of"] = _best_of(scores, human, number, groups)
    return record


def _filled(values: Array, where: Array) -> Array:
    """[N] values at the places `where`; NaN at all others."""
    filled = np.full(len(where), np.nan)
    filled[where] = values
    return filled


def _ratings_elsewhere(systems: Array, human: Array, number: Array) -> Array | None:
    """[N] the mean rating of each text's system in all other groups; None where texts are of one
    system, or one has no text elsewhere."""
    names, system = np.unique(systems, return_inverse=True)
    if len(names) < 2:
        return None
    pairs = system.astype(np.int64) * (number.max() + 1) + number
    _, pair = np.unique(pairs, return_inverse=True)
    sums = np.bincount(system, weights=human)[system] - np.bincount(pair, weights=human)[pair]
    counts = np.bincount(system)[system] - np.bincount(pair)[pair]
    return None if (counts == 0).any() else sums / counts


def _beside_rater(sample: JudgeScores, scores: Array) -> Record:
    """`BESIDE_RATER`: in each group the mean over raters of the others' mean score of a rater's
    pick, and of the judge's among the texts of that rater.

    Args:
        scores: [N] of the judge; NaN for texts that are not used.
    """
    panel = Panel(sample.ratings, sample.clusters)
    if not sample.raters or panel.missing:
        return {}
    names, number = np.unique(sample.groups, return_inverse=True)
    sums, counts = np.zeros((2, len(names))), np.zeros(len(names))
    for column in panel.counted:
        others = panel.others[:, column]
        rows = ~np.isnan(others) & ~np.isnan(scores)
        sides = (scores[rows], sample.ratings[rows, column])
        picks = [picked(side, others[rows], number[rows], len(names)) for side in sides]
        several = np.bincount(number[rows], minlength=len(names)) >= 2
        sums += np.where(several, picks, 0.0)
        counts += several
    judge, rater = divided(sums, np.broadcast_to(counts, sums.shape))
    ones = np.ones(len(names))
    values = (judge, rater, judge - rater)
    record: Record = {}
    for name, side in zip(BESIDE_RATER, values, strict=True):
        record |= keys_of(name, ratio_estimate(side, ones))
    return record


def _best_of(scores: Array, human: Array, number: Array, groups: int) -> Rows:
    """A record a number of draws `n`: people's mean score of the judge's pick of so many texts, of
    a random one and of the best, over the groups that have as many."""
    most = int(np.bincount(number).max())
    draws = [n for n in range(2, most + 1) if n <= _ONE_BY_ONE or (n & (n - 1)) == 0]
    sides = {"random": np.zeros(len(human)), "chosen": scores, "best": human}
    ones = np.ones(groups)
    rows: Rows = []
    for n in draws:
        means = {name: picked(side, human, number, groups, n) for name, side in sides.items()}
        row: Record = {"n": n, "groups": int((~np.isnan(means["chosen"])).sum())}
        for name, values in means.items():
            row |= keys_of(name, ratio_estimate(values, ones))
        rows.append(row)
    return rows
