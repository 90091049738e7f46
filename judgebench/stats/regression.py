"""Effects on a judge beside the quality that people see: its scores less theirs, by what is known
of the texts.

A judge follows the quality of a text, and perhaps something else of it, x: J = a + b T + c x + e.
People see the quality with an error, H = T + n. Asked for is c / b, the effect of x in points of
the humans' scale. The plain regression of J - H on x is wrong in two ways. A judge whose scores
spread more than people's looks as if it loved whatever good texts have (b is not 1), and one that is
noisy, or mapped by regression, looks as if it hated that (its scores are drawn to the mean). So the
judge is stretched by its slope on quality first:

    effect = beta(J) / b - beta(H)    beta: least squares on all x together

The slope is known where texts have several ratings, whose spread is the people's error: b is the
covariance of J and H given x, divided by the variance of H less that of its error (errors in
variables: Fuller, "Measurement Error Models", 1987, section 2.2). Of one rating a text it is
sqrt(var(J) / var(H)) times the root of how much more reliable the judge is than the rating. Taken is
that neither is more than twice as reliable as the other, and none more than without error (b is at
least cov / var(H), at most var(J) / cov). An effect is that of the middle, its interval reaches over
those of both ends, and its p is the larger of theirs.

Intervals are Student's t with the jackknife over clusters. Degrees of freedom are those of the
clusters that carry the effect (Carter, Schnepel and Steigerwald, "Asymptotic Behavior of a t Test
Robust to Cluster Heterogeneity", Review of Economics and Statistics 2017): of 60 articles of which
three are in French, three count. `scripts/simulate_audit.py` compares it with CR2 and the bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import CONFIDENCE, Clusters, Estimate
from judgebench.types import Array

_TINY = 1e-9
_LEAST_RELIABLE = 0.05
"""The share of the variance of human scores that is no error, below which it is not known."""

MOST_RELIABLE = 2.0
"""How many times as reliable as a single rating a judge may be, or a rating as the judge."""


class Effect(NamedTuple):
    """An effect with its interval, and how sure it is.

    Attributes:
        p: two-sided, that there is none; None where no interval is known.
        clusters: those that carry it, see the module.
        share: of the variance of judge less human, the part that only this explains.
    """

    estimate: Estimate
    p: float | None
    clusters: float
    share: float | None = None


def t_effect(values: Array, clusters: float) -> Effect:
    """The effect of values [1 + J], the data's and with each cluster left out: Student's t with the
    jackknife's standard error, of so many `clusters` that carry it.

    Example:
        >>> effect = t_effect(np.array([2.0, 2.5, 2.0, 1.5]), 3)
        >>> f"{effect.estimate:.2f}, p {effect.p:.3f}"
        '2.00 [-0.48, 4.48], p 0.074'
    """
    value = float(values[0])
    rest = values[1:]
    freedom = min(clusters, len(rest)) - 1
    if freedom <= 0 or not np.isfinite(values).all():
        return Effect(Estimate(value), None, clusters)
    error = math.sqrt(len(rest) - 1) * float(rest.std())
    # all alike: the effect is the same whichever article is left out
    if error <= _TINY * max(1.0, abs(value)):
        p = float(abs(value) <= _TINY)
        return Effect(Estimate(value, value, value), p, clusters)
    times = float(scipy.special.stdtrit(freedom, CONFIDENCE[1]))
    low = value - times * error
    high = value + times * error
    p = 2 * float(scipy.special.stdtr(freedom, -abs(value) / error))
    return Effect(Estimate(value, low, high), p, clusters)


def carrying(shares: Array) -> float:
    """The number of clusters that carry an effect of which each has a share [G]: all where they are
    alike.

    Example:
        >>> carrying(np.array([1.0, 1.0, 2.0, 0.0]))
        2.6666666666666665
    """
    squares = float((shares**2).sum())
    return float(shares.sum()) ** 2 / squares if squares > 0 else 0.0


def paired_effect(differences: Array, clusters: Clusters) -> Effect:
    """The mean of differences [N], of the same text under two conditions."""
    values = clusters.jackknifed.mean(differences)
    return t_effect(values, carrying(np.bincount(clusters.number, minlength=clusters.count)))


def rating_error(ratings: Array) -> Array | None:
    """[N] the variance of the error of each text's mean rating, of ratings [N, R], NaN where a rater
    gave none; None where no text has two. Where all rate all, a rater's own level is no error, for
    every mean has it.

    Example:
        >>> rating_error(np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 3.0]])).tolist()
        [0.0, 0.0, 0.0]
    """
    given = ~np.isnan(ratings)
    counts = given.sum(axis=1)
    if not (counts > 1).any():
        return None
    means = np.nansum(ratings, axis=1) / np.maximum(counts, 1)
    apart = np.where(given, ratings - means[:, None], 0.0)
    freedom = float((counts - 1).clip(min=0).sum())
    if given.all():
        apart = apart - apart.mean(axis=0)
        freedom -= ratings.shape[1] - 1
    if freedom <= 0:
        return None
    variance = float((apart**2).sum()) / freedom
    return variance / np.maximum(counts, 1)


@dataclass(frozen=True)
class Moments:
    """Sums of squares and products given x, for the data and with each cluster left out.

    Attributes:
        of_judge, of_human: [1 + J, K] slopes of judge and human on x, without the constant.
        judge, human, both: [1 + J] what is left of their squares, and of their products.
        error: [1 + J] of the squares of human that is error; None where that is not known.
        inverse: [K, K] of the products of x, in the data.
        shares: [K, G] how much of each effect every cluster carries.
        texts: N.
    """

    of_judge: Array
    of_human: Array
    judge: Array
    human: Array
    both: Array
    error: Array | None
    inverse: Array
    shares: Array
    texts: int

    @classmethod
    def of(
        cls, judge: Array, human: Array, x: Array, error: Array | None, clusters: Clusters
    ) -> Moments:
        """Of scores [N] of judge and human, x [N, K], and the variance of the humans' error [N]."""
        # 1. products within each cluster, of which leaving one out is a subtraction
        columns = np.column_stack([x, judge, human])
        # centered, so that large scores lose no digits
        columns = np.column_stack([np.ones(len(judge)), columns - columns.mean(axis=0)])
        left = clusters.jackknifed
        width = columns.shape[1]
        flat = (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), -1)
        products = left.sums(flat).reshape(-1, width, width)  # [1 + J, K + 3, K + 3]
        count = x.shape[1] + 1
        # 2. slopes, and what is left of squares and products
        known = products[:, :count, :count]
        asked = products[:, :count, count:]  # [1 + J, 1 + K, 2]
        inverse = np.linalg.pinv(known, hermitian=True)
        slopes = inverse @ asked
        rest = products[:, count:, count:] - asked.transpose(0, 2, 1) @ slopes
        # 3. the part of each cluster in the least squares of each x
        weights = (columns[:, :count] @ inverse[0])[:, 1:] ** 2  # [N, K]
        return cls(
            of_judge=slopes[:, 1:, 0],
            of_human=slopes[:, 1:, 1],
            judge=rest[:, 0, 0],
            human=rest[:, 1, 1],
            both=rest[:, 0, 1],
            error=None if error is None else left.sums(error),
            inverse=inverse[0, 1:, 1:],
            shares=clusters.totals(weights).T,
            texts=len(judge),
        )

    @property
    def reliable(self) -> bool:
        """True where the humans' error is known, and leaves something of their variance."""
        if self.error is None:
            return False
        return bool(self.error[0] <= (1 - _LEAST_RELIABLE) * self.human[0])

    @property
    def follows(self) -> bool:
        """True where the judge follows the humans, given x, by the interval."""
        values = self.both / np.sqrt(np.maximum(self.judge * self.human, _TINY))
        low = t_effect(values, len(values) - 1).estimate.low
        return low is not None and low > 0

    def slopes(self) -> list[Array]:
        """[1 + J] the judge's slope on quality: the one that is known, or the middle and both
        ends."""
        if self.reliable:
            return [self.both / (self.human - self.error)]
        if not self.follows:
            return [self.both / self.human]
        root = math.sqrt(MOST_RELIABLE)
        spread = np.maximum(self.judge, _TINY)
        alike = np.sqrt(spread / self.human)
        # neither is more than without error
        lowest = self.both / self.human
        highest = self.judge / self.both
        least = np.maximum(alike / root, lowest)
        most = np.minimum(alike * root, highest)
        return [alike, least, most]


def regression_effects(moments: Moments, names: Sequence[str]) -> list[Effect]:
    """The effect of each x in points of the humans' scale, see the module; its share of variance is
    that of all x of its name [K], as the values of one segment. Of a judge that does not follow the
    humans (`Moments.follows`) no slope tells how its points compare with theirs: then effects are
    in its own.
    """
    slopes = moments.slopes()
    stretched = moments.follows
    carried = [carrying(shares) for shares in moments.shares]
    by_slope = []
    for slope in slopes:
        values = moments.of_judge - slope[:, None] * moments.of_human
        if stretched:
            values = values / slope[:, None]
        columns = zip(values.T, carried, strict=True)
        by_slope.append([t_effect(column, clusters) for column, clusters in columns])
    effects = [_widest(sides) for sides in zip(*by_slope, strict=True)]
    # the part of the squares of judge less human that is lost without the block
    slope = slopes[0][0]
    less = moments.of_judge[0] - slope * moments.of_human[0]
    left = moments.judge[0] - 2 * slope * moments.both[0] + slope**2 * moments.human[0]
    shares = {}
    for name in names:
        block = np.flatnonzero(np.array(names) == name)
        inner = np.linalg.pinv(moments.inverse[np.ix_(block, block)])
        part = float(less[block] @ inner @ less[block])
        shares[name] = part / max(float(left) + part, _TINY)
    return [
        effect._replace(share=shares[name]) for effect, name in zip(effects, names, strict=True)
    ]


def _widest(sides: Sequence[Effect]) -> Effect:
    """The first of several effects, as sure as all of them are."""
    first = sides[0]
    if any(side.p is None for side in sides):
        return first._replace(estimate=Estimate(first.estimate.value), p=None)
    low = min(float(side.estimate.low or 0.0) for side in sides)
    high = max(float(side.estimate.high or 0.0) for side in sides)
    p = max(float(side.p or 0.0) for side in sides)
    return first._replace(estimate=Estimate(first.estimate.value, low, high), p=p)
