"""Pairs of systems, as in the evaluation of translation metrics.

- Pairwise accuracy: the share of pairs of systems that judge and humans order alike (Kocmi et al.
  2021), of those that the humans order; a pair that the judge ties counts half, as of texts.
- Soft pairwise accuracy: the same with doubt, 1 less the mean distance of the two p-values of a
  pair (Thompson et al., "Improving Statistical Significance in Human Evaluation of Automatic
  Metrics via Soft Pairwise Accuracy", WMT 2024).

In shapes, S are systems, G articles, P pairs of systems, F flips, and B resamples of articles; 1 + B
are the data and their resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import (
    CONFIDENCE,
    ENDS,
    Clusters,
    Estimate,
    chunks,
    keys_of,
    percentile_interval,
    safe_divide,
    unknown,
    without_nan,
)
from judgebench.stats.permutation import flips
from judgebench.types import Array, Record

FLIPS = 1000
"""Permutations behind the p-values of soft pairwise accuracy, as in the WMT's own."""

MOST_SYSTEMS = 200
"""More systems than these, as where each text has an author of its own, are not compared in
pairs."""

SAMPLED = ("pairs", "pairs_articles", *(f"pairwise_over_systems{end}" for end in ENDS))
"""See `SystemSample.record`."""

ACCURACIES = ("soft_pairwise_accuracy", "pairwise_accuracy")

_ROUNDING = 1e-9  # numbers of size 1 that are no farther apart are equal but for rounding


def mean_table(
    values: Array, system: Array, group: Array, shape: tuple[int, int] | None = None
) -> Array:
    """[S, G] means of the texts [N] of each system and article, both numbered from 0, scaled to
    spread 1; NaN where there is none. `shape`: S and G, where some have no text."""
    if shape is None:
        last_system = int(system.max(initial=-1))
        last_article = int(group.max(initial=-1))
        shape = (last_system + 1, last_article + 1)
    # to spread 1: one rounding for scores of any range
    scaled = values - values.min(initial=np.inf)
    spread = scaled.max(initial=0.0)
    scaled = scaled / (spread or 1.0)  # [N]
    sums = np.zeros(shape)
    texts = np.zeros(shape)
    np.add.at(sums, (system, group), scaled)
    np.add.at(texts, (system, group), 1.0)
    return safe_divide(sums, texts)


@dataclass(frozen=True)
class PairedSystems:
    """All pairs of systems of one side, judge or humans, that share an article, over the articles
    that both have.

    Args:
        table: [S, G] means of each system in each article, NaN where it has none.
        clusters: of the articles.
    """

    table: Array
    clusters: Clusters

    @cached_property
    def shared(self) -> Array:
        """[S, S] how many articles two systems share, of the first and the later system; else 0."""
        there = 1.0 * ~np.isnan(self.table)
        # above the diagonal: each pair once
        return np.triu(there @ there.T, 1)

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """The first and the second system of each pair that shares an article, [P] each."""
        first, second = np.nonzero(self.shared)
        return first, second

    @cached_property
    def differences(self) -> Array:
        """[P, G] of each pair, first less second; 0 where one of the two has no text."""
        first, second = self.pairs
        # only articles of both: a system that wrote about easy articles alone would look better
        return np.nan_to_num(self.table[first] - self.table[second])

    @cached_property
    def p_values(self) -> Array:
        """[P] by flips of its articles."""
        flipped, _ = flips(self.clusters.count, FLIPS, self.clusters.seed)
        return self.flip_p_values(flipped)

    def flip_p_values(self, flipped: Array) -> Array:
        """[P] p-values of the first being better than the second: the share of flips in which the
        difference is larger, and half of those in which it is the same, so that the order of the
        systems does not matter.

        Args:
            flipped: [F, G] of 0 and 1, which articles' differences change sign; see
                `permutation.flips`.
        """
        # sums and no means: flips change signs, and not the number of articles
        observed = self.differences.sum(axis=1)  # [P]
        rounding = _ROUNDING * np.abs(self.differences).sum(axis=1)
        times = np.zeros(len(observed))
        for rows in chunks(len(flipped), max(self.differences.shape)):
            # 0 keeps a sign, 1 turns it
            signs = 1.0 - 2.0 * flipped[rows]
            sums = signs @ self.differences.T  # [F, P]
            larger = sums > observed + rounding
            reached = sums >= observed - rounding
            times += larger.sum(axis=0) / 2
            times += reached.sum(axis=0) / 2
        return times / len(flipped)

    def z_values(self, weights: Array) -> Array:
        """[B, P] how far each difference lies from 0 in each row of weights [B, G] of articles, by
        the normal law that the flips' sums follow: mean 0, and the squares' sum as variance."""
        # [B, P] of sums; flips have mean 0, and the sum of squares as variance
        sums = weights @ self.differences.T
        squares = weights @ (self.differences**2).T
        z = np.divide(sums, np.sqrt(squares), out=np.zeros_like(sums), where=squares > 0)
        return np.where(np.abs(z) < _ROUNDING, 0.0, z)

    @cached_property
    def order(self) -> Array:
        """[1 + B, P] int8 the signs of the differences."""
        weights = self.clusters.weights
        order = np.empty((len(weights), len(self.differences)), dtype=np.int8)
        for rows in chunks(len(weights), len(self.differences)):
            order[rows] = np.sign(self.z_values(weights[rows]))
        return order


def too_few_or_many(systems: int) -> str:
    """Why so many systems are not compared; empty where they are."""
    if systems < 2:
        return "all texts are of one system"
    return f"there are more than {MOST_SYSTEMS} systems" if systems > MOST_SYSTEMS else ""


def system_record(judge: Array, system: Array, theirs: PairedSystems) -> Record:
    """Agreement of a judge's scores [N] of texts by systems [N], numbers, with humans about systems:
    `ACCURACIES`, each with `_low` and `_high`, articles resampled; `SAMPLED`; reason: why there is
    none, or no interval, else None.

    With fewer articles systems are told apart less well, so that both accuracies are lower on
    average. Their intervals speak of data with as many articles, not of what more of them would
    show.
    """
    clusters = theirs.clusters
    systems = len(theirs.table)
    record: Record = {
        "systems": systems,
        "articles": clusters.count,
        **unknown(ACCURACIES),
        **dict.fromkeys(SAMPLED),
        "reason": None,
    }
    # 1. pairs of systems that can be compared
    if missing := too_few_or_many(systems):
        return record | {"reason": f"No pairwise accuracy: {missing}."}
    ours = PairedSystems(mean_table(judge, system, clusters.number), clusters)
    if not len(ours.differences):
        missing = "no two systems have texts of the same group"
    elif np.abs(theirs.differences.sum(axis=1)).max() <= _ROUNDING:
        missing = "the humans' means of all systems are the same"
    if missing:
        return record | {"reason": f"No pairwise accuracy: {missing}."}
    # 2. how many of them judge and humans order alike
    soft = soft_accuracies(ours, theirs)
    alike = ordered_alike(ours, theirs)
    record |= clusters.record(dict(zip(ACCURACIES, (soft, alike), strict=True)))
    record |= SystemSample.of(ours, theirs).record(alike, clusters)
    if not clusters.resamples:
        record["reason"] = "No intervals: there are no resamples."
    elif clusters.count < 2:
        record["reason"] = "No intervals: there is one group, and resampling takes at least two."
    return record


def soft_accuracies(judge: PairedSystems, human: PairedSystems) -> Array:
    """[1 + B] soft pairwise accuracy: in the data by flips, in the resamples by the normal law,
    moved by how far the two are apart in the data."""
    # 1. by the normal law
    # flips in each resample would be a thousand times the work; the normal law takes two products
    all_weights = judge.clusters.weights
    accuracies = np.empty(len(all_weights))
    for rows in chunks(len(accuracies), len(judge.differences)):
        weights = all_weights[rows]
        ours = judge.z_values(weights)  # [b, P]
        theirs = human.z_values(weights)
        p_ours = scipy.special.ndtr(-ours)
        p_theirs = scipy.special.ndtr(-theirs)
        accuracies[rows] = soft_pairwise_accuracy(p_ours, p_theirs)
    # 2. by flips
    in_data = soft_pairwise_accuracy(judge.p_values, human.p_values)
    # the number shown is that of flips, as others compute it; the normal law gives its spread
    apart = in_data - accuracies[0]
    return np.clip(accuracies + apart, 0.0, 1.0)


def soft_pairwise_accuracy(judge: Array, human: Array) -> Array:
    """1 less the mean distance of the p-values [..., P] that judge and humans give to the same
    pairs of systems.

    Example:
        >>> float(soft_pairwise_accuracy(np.array([0.01, 0.5]), np.array([0.03, 0.9])).round(12))
        0.79
    """
    return np.asarray(1 - np.abs(judge - human).mean(axis=-1))


def ordered_alike(judge: PairedSystems, human: PairedSystems) -> Array:
    """[1 + B] the share of pairs of systems that two sides order alike, of those that the second
    orders; a pair that the first ties counts half. Both tables have the same empty cells."""
    ordered = (human.order != 0).sum(axis=1)
    agreeing = (judge.order * human.order).sum(axis=1)
    return safe_divide((ordered + agreeing) / 2, ordered)


class SystemSample(NamedTuple):
    """Pairs of systems, where systems are a sample as articles are.

    Attributes:
        pairs: those that the humans order.
        articles: the median number of articles that two systems share.
        shares: [1 + S] the judge's share, of all systems and with each left out; NaN without pairs.
    """

    pairs: float
    articles: float
    shares: Array

    @classmethod
    def of(cls, judge: PairedSystems, human: PairedSystems) -> SystemSample:
        """From tables with the same empty cells."""
        ours = judge.order[0]  # [P]
        theirs = human.order[0]
        ordered = theirs != 0
        first, second = judge.pairs
        # without a system all of its pairs are gone: pairs that share a system are not independent
        left = np.arange(len(judge.table))[:, None]  # [S, 1]
        kept = np.vstack([ordered, ordered & (first != left) & (second != left)])  # [1 + S, P]
        alike = (1 + ours * theirs) / 2
        shares = safe_divide(kept @ alike, kept.sum(axis=1))
        between = judge.shared[first, second]
        usual = np.median(between) if len(between) else 0.0
        return cls(float(ordered.sum()), float(usual), shares)

    @classmethod
    def mean(cls, samples: Sequence[SystemSample], texts: Sequence[float]) -> SystemSample:
        """Of several raters, weighted by their texts, where their shares are known."""
        columns = np.array([(one.pairs, one.articles, *one.shares) for one in samples])
        mass = np.array(texts)[:, None] * ~np.isnan(columns)
        pairs, articles, *shares = safe_divide((mass * np.nan_to_num(columns)).sum(0), mass.sum(0))
        return cls(pairs, articles, np.array(shares))

    def record(self, resampled: Array, clusters: Clusters) -> Record:
        """pairs, pairs_articles, and pairwise_over_systems: the share with an interval for other
        systems and articles, Student's t of the systems. Its variance is that of the systems, by
        the jackknife, and that of the articles, by the share's resamples [1 + B]. Of one pair there
        is none."""
        share, *left_out = self.shares.tolist()
        systems = len(left_out)
        ends = percentile_interval(without_nan(resampled[1:]))
        interval: tuple[float | None, float | None] = (None, None)
        if ends and systems > 2 and np.isfinite(left_out).all():
            freedom = systems - 1
            normal = float(scipy.special.ndtri(CONFIDENCE[1]))
            of_articles = (ends[1] - ends[0]) / (2 * normal)
            # two sources of noise, added: which systems there are, and which articles
            error = np.sqrt(freedom * np.var(left_out) + of_articles**2)
            far = float(scipy.special.stdtrit(freedom, CONFIDENCE[1]) * error)
            interval = max(share - far, 0.0), min(share + far, 1.0)
        return {
            "pairs": self.pairs,
            "pairs_articles": self.articles,
            **keys_of("pairwise_over_systems", Estimate(share, *interval)),
        }


def centered(values: Array) -> Array:
    """Values [1 + B], the data's first, whose resamples are moved so that their mean is the data's:
    resampled shares of ordered pairs lie nearer to a coin."""
    known = without_nan(values[1:])
    return np.append(values[:1], values[1:] - known.mean() + values[0]) if known.size else values
