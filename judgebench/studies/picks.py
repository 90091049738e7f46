"""Best of n: the text of each source that a judge likes most, and what people think of it.

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

A judge picks among the texts of a group that answer to one source: the summaries of an article, or
the translations of each sentence of a document. Groups are the clusters: every figure is a ratio of
two sums over groups (`judgebench.stats.ratios`). In 300 simulated sets each of 10,
20, 40 and 100 groups of 4, 8 and 16 texts it held the truth in 92 to 97 % of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import Numbers, keys_of, safe_divide, unknown
from judgebench.stats.ratios import ratio_estimate
from judgebench.studies.scores import JudgeScores
from judgebench.types import Array, Record, Rows

FIGURES = ("random", "by_system", "chosen", "best", "gain", "recovered")
BESIDE_RATER = ("chosen_others", "rater", "chosen_less_rater")
"""Figures of a record, each with its interval, see above."""

_ONE_BY_ONE = 16
"""Numbers of draws up to this are all shown; beyond, each is twice the one before."""


def pick_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/picks.json: of every judge, decoding and range what its first choice
    among the texts of a source is worth."""
    # many judges are of the same texts, and of the same people
    wholes = [sample if sample.whole is None else sample.whole for sample in samples]
    choices = {id(whole.panel): _Choices.of(whole) for whole in wholes}
    return [_record(whole, choices[id(whole.panel)]) for whole in wholes]


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
    # by group, then by score: levels and groups are runs of neighbors
    order = np.lexsort((scores, number))
    scores, values, number = scores[order], values[order], number[order]
    size = np.bincount(number, minlength=groups)
    # 1. levels: texts of one group and score
    starts = np.ones(len(scores), dtype=bool)
    starts[1:] = (number[1:] != number[:-1]) | (scores[1:] != scores[:-1])
    first = np.flatnonzero(starts)
    many = np.diff(np.append(first, len(scores)))
    group = number[first]
    # texts that tie share the pick: the expected value of a level is its mean
    mean = np.add.reduceat(values, first) / many if len(first) else values[:0]
    # 2. the chance that the highest score drawn is a level's
    # texts of the group below the level: its place in the order, less where its group begins
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
    few = among < draws
    # arguments of gammaln stay above 0 where the result is not wanted
    inside = np.where(few, draws, among)
    whole = np.maximum(size, draws)
    chosen = log(inside + 1) - log(inside - draws + 1)
    every = log(whole + 1) - log(whole - draws + 1)
    return np.where(few, 0.0, np.exp(chosen - every))


@dataclass(frozen=True)
class _Choices:
    """The rated texts that judges pick from.

    Attributes:
        human: [N] means of ratings; systems: [N].
        number: [N] of the source that each text answers to, 0 to S - 1; of two texts at least.
        cluster: [S] the group of each source.
        rows: [N] the texts among those of the sample.
    """

    human: Array
    systems: Array
    number: Array
    cluster: Array
    rows: Array

    @classmethod
    def of(cls, sample: JudgeScores) -> _Choices:
        """The choices among all texts, also those whose answers could not be read."""
        group = sample.clusters.number
        source = group
        if sample.questions is not None:
            source = _pairs_of(group, sample.questions)
        rated = ~np.isnan(sample.human)
        several = np.bincount(source, weights=rated)[source] >= 2 if len(source) else rated
        rows = np.flatnonzero(rated & several)
        _, first, number = np.unique(source[rows], return_index=True, return_inverse=True)
        return cls(
            sample.human[rows],
            sample.systems[rows],
            number,
            group[rows][first],
            rows,
        )

    @cached_property
    def draws(self) -> list[int]:
        """The numbers of draws that are shown."""
        most = int(np.bincount(self.number).max())
        return [n for n in range(2, most + 1) if n <= _ONE_BY_ONE or (n & (n - 1)) == 0]

    @cached_property
    def random_and_best(self) -> list[dict[int | None, Array]]:
        """The `means` of a random pick, and of the best."""
        return [self.means(by) for by in (np.zeros(len(self.human)), self.human)]

    def means(self, by: Array) -> dict[int | None, Array]:
        """Number of draws, None for all -> [S] people's mean score of the pick by some scores [N], see
        `picked`."""
        of = (by, self.human, self.number, len(self.cluster))
        return {draws: picked(*of, draws) for draws in (None, *self.draws)}

    @cached_property
    def by_system(self) -> Numbers:
        """The keys of the pick of who knows nothing but who wrote a text."""
        elsewhere = self.ratings_elsewhere()
        if elsewhere is None:
            return {}
        picks = picked(elsewhere, self.human, self.number, len(self.cluster))
        return self.keys_of_mean("by_system", picks)

    def keys_of_mean(self, name: str, values: Array) -> Numbers:
        """The keys of the mean of values [S], NaN where unknown."""
        return keys_of(name, ratio_estimate(values, np.ones(len(values)), self.cluster))

    def ratings_elsewhere(self) -> Array | None:
        """[N] the mean rating of each text's system in all other groups; None where texts are of
        one system, or one has no text elsewhere."""
        names, system = np.unique(self.systems, return_inverse=True)
        if len(names) < 2:
            return None
        group = self.cluster[self.number]
        pair = _pairs_of(system, group)
        # all of its texts, less those of the text's own group
        sums, counts = (
            np.bincount(system, weights)[system] - np.bincount(pair, weights)[pair]
            for weights in (self.human, None)
        )
        return None if (counts == 0).any() else sums / counts


def _pairs_of(first: Array, second: Array) -> Array:
    """[N] the number of each pair of two numbers [N]."""
    pairs = np.stack([first, second], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def _record(sample: JudgeScores, choices: _Choices) -> Record:
    record: Record = {
        **sample.head,
        "texts": len(choices.human),
        "sources": len(choices.cluster),
        "groups": len(np.unique(choices.cluster)),
        **unknown((*FIGURES, *BESIDE_RATER)),
        "best_of": [],
        "reason": None,
        "rater_reason": None,
    }
    if not record["texts"]:
        record["reason"] = "Nothing to pick from: no two rated texts of a group have one source."
        return record | {"rater_reason": record["reason"]}
    # 1. picks of chance, of the judge, of the systems' names and of the ratings themselves
    scores = sample.scores
    if sample.unread is not None:
        # Without an answer a text is no pick: it is picked last. To leave it out would let the judge
        # choose among the texts that it could read.
        scores = np.where(sample.unread, -np.inf, scores)
    scores = scores[choices.rows]
    random, best = choices.random_and_best
    sides = {"random": random, "chosen": choices.means(scores), "best": best}
    record |= choices.by_system
    means = {name: side[None] for name, side in sides.items()}
    for name, values in means.items():
        record |= choices.keys_of_mean(name, values)
    # 2. the way from a random pick to the best
    gain = means["chosen"] - means["random"]
    record |= choices.keys_of_mean("gain", gain)
    recovered = ratio_estimate(gain, means["best"] - means["random"], choices.cluster)
    record |= keys_of("recovered", recovered)
    if recovered is None:
        record["reason"] = "People rate all texts of a source alike, so no pick is better."
    # 3. one rater, and the best of fewer
    record |= _beside_rater(sample, choices, scores)
    record["best_of"] = _best_of(choices, sides)
    return record


def _beside_rater(sample: JudgeScores, choices: _Choices, scores: Array) -> Record:
    """`BESIDE_RATER`: for each source the mean over raters of the others' mean score of a rater's
    pick, and of the judge's among the texts of that rater."""
    panel = sample.panel
    if not sample.raters or panel.missing:
        missing = panel.missing or "Only means of ratings are known."
        return {"rater_reason": f"Picks are not compared with one rater's. {missing}"}
    sources = len(choices.cluster)
    sums, counts = np.zeros((2, sources)), np.zeros(sources)
    for column in panel.counted:
        others = panel.others[choices.rows, column]
        # judge and rater pick among the same texts, and other raters say what the picks are worth
        rated = ~np.isnan(others)
        number = choices.number[rated]
        ratings = panel.ratings[choices.rows, column]
        picks = [picked(side[rated], others[rated], number, sources) for side in (scores, ratings)]
        several = np.bincount(number, minlength=sources) >= 2
        sums += np.where(several, picks, 0.0)
        counts += several
    judge, rater = safe_divide(sums, counts)
    record: Record = {}
    for name, values in zip(BESIDE_RATER, (judge, rater, judge - rater), strict=True):
        record |= choices.keys_of_mean(name, values)
    return record


def _best_of(choices: _Choices, sides: Mapping[str, Mapping[int | None, Array]]) -> Rows:
    """A record a number of draws `n`: people's mean score of the judge's pick of so many texts, of
    a random one and of the best, over the sources that have as many."""
    sizes = np.bincount(choices.number)
    rows: Rows = []
    for n in choices.draws:
        row: Record = {"n": n, "sources": int((sizes >= n).sum())}
        for name, side in sides.items():
            row |= choices.keys_of_mean(name, side[n])
        rows.append(row)
    return rows
