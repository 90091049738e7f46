"""Few human ratings of many texts, and a judge's scores of all: means of systems whose intervals
hold at 10 to 20 labelled articles, by prediction-powered inference.

**Intervals.** Articles are the unit: their texts are labelled together, and articles to label must
be drawn at random. Where ratings hardly vary, the plain interval of 10 to 20 labelled articles
holds the truth in 50 to 85 % of cases. Here variance follows the mean: on a scale from a to b a
mean m allows a variance of at most (m - a)(b - m), and ratings take a share of it, the dispersion
(1 of a rating that knows the two ends alone, 1/3 of one spread evenly). The share is estimated from
all systems together, and of one system it is drawn towards that: a system whose ten ratings were
all 5 is not certain to be perfect. The interval has all means that are not refuted with the
variance that they would have themselves; Wilson's interval of a proportion is the case of
dispersion 1. Student's t has the labelled articles less one as degrees of freedom.
`scripts/simulate.py` has the coverage.

**Targets.** *These very articles*: the mean that the ratings of all N articles would have, of which
n are labelled; the interval shrinks by sqrt(1 - n / N), and to a point where all are labelled
(Cochran, "Sampling Techniques", 1977, section 2.6). *Articles like these*: the mean over all
articles that might have been drawn. Keys that end in `_these` speak of the former.

**With a judge** the estimate is that of the labels, moved by how far the judge's scores of all
texts lie from its scores of the labelled ones: labels + beta * (judge on all - judge on labelled).
With labels 3.0, and a judge that gave these articles 3.4 and all 3.8 on average, beta .5 makes it
3.2. It is right for any judge, and narrower by a good one. With the beta chosen here it is PPI++
with power tuning (Angelopoulos, Duchi and Zrnic, arXiv 2311.01453, section 6), whose lambda is beta
/ (1 + n / N) for n labelled and N other articles. The correlation behind beta is one for all
systems, corrected for its optimism, and no interval of the combination is reported that is wider
than that of the labels alone: lambda is then 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from judgebench.stats.clusters import CONFIDENCE, safe_divide
from judgebench.types import Array, Scale

FEWEST_LABELLED = 5
"""Labelled articles from which there are intervals."""


_POOLED = 4.0  # articles' worth of all systems' dispersion in that of each
_FLAT = 1.0  # ratings' worth of an evenly spread rating, in the dispersion of all systems
_EVEN = 1 / 3  # its dispersion


class Means(NamedTuple):
    """Means of texts by system, where articles are drawn.

    Attributes:
        mean: [S]; NaN of a system without texts.
        apart: [S, G] each article's part in the mean's error: its texts' distance from the mean,
            summed, over the mean number of texts an article. 0 where an article has none.
        articles: [S] with texts of the system.
        squares: [S] sums of apart^2.
        variance: [S] of a single article; 0 with fewer than two.
    """

    mean: Array
    apart: Array
    articles: Array
    squares: Array
    variance: Array

    @classmethod
    def of(cls, sums: Array, sizes: Array) -> Means:
        """Of sums and numbers of texts [S, G]."""
        texts = sizes.sum(axis=1)
        articles = (sizes > 0).sum(axis=1)
        mean = safe_divide(sums.sum(axis=1), texts)
        # a mean over texts is a ratio of two sums over articles: its error is linear in these
        # distances
        expected = mean[:, None] * sizes
        distance = np.where(sizes > 0, sums - expected, 0.0)  # [S, G]
        articles_a_text = safe_divide(articles, texts)
        apart = np.nan_to_num(distance * articles_a_text[:, None])
        squares = (apart**2).sum(axis=1)
        freedom = np.maximum(articles - 1, 1)
        variance = squares / freedom
        return cls(mean, apart, articles, squares, variance)


class FewLabels:
    """A judge's scores of all texts, and human ratings of some.

    Args:
        human: [N] the mean rating of each text; NaN where nobody rated it.
        judge: [N] the judge's scores, on any scale.
        groups: [N] labels of the articles. Those with ratings must be a random part of all.
        systems: [N] labels of the systems.
        scale: the lowest and highest rating that can be given; None where ratings have no ends,
            which leaves ratings that do not vary with intervals that are too narrow.

    Attributes:
        names: [S] of the systems, sorted.
        sizes: the numbers [S, G] of labelled texts, and of all.
        ratings, labelled, every: means of the humans, of the judge on the labelled texts, and of
            the judge on all.
    """

    def __init__(
        self,
        human: Array,
        judge: Array,
        groups: Array,
        systems: Array,
        scale: Scale | None,
    ) -> None:
        self.human = human
        self.judge = judge
        self.groups = groups
        self.systems = systems
        self.scale = scale
        names, system = np.unique(np.asarray(systems), return_inverse=True)
        labels, group = np.unique(np.asarray(groups), return_inverse=True)
        shape = len(names), len(labels)

        def table(values: Array, where: Array) -> Array:
            sums = np.zeros(shape)
            place = (system[where], group[where])
            np.add.at(sums, place, values[where])
            return sums

        rated = ~np.isnan(human)
        every = np.ones(len(human), dtype=bool)
        # tables [S, G]: systems share articles, and all that follows is sums over articles
        labelled_sizes = table(rated, rated)
        self.names = [str(name) for name in names]
        self.sizes = labelled_sizes, table(every, every)
        self.ratings = Means.of(table(human, rated), self.sizes[0])
        self.labelled = Means.of(table(judge, rated), self.sizes[0])
        self.every = Means.of(
            table(judge, np.isfinite(judge)),
            self.sizes[1],
        )

    def unlabelled(self) -> Array:
        """[S] the finite population correction of means of these very articles: 1 less the share of
        a system's articles that have ratings, times the share of these articles' texts that do."""
        rated, every = self.sizes
        # an article may be labelled in part: its other texts are still unknown
        within = np.where(rated > 0, every, 0).sum(axis=1)
        shares = np.nan_to_num(safe_divide(rated.sum(axis=1), within))
        return 1 - shares * (rated > 0).sum(axis=1) / (every > 0).sum(axis=1)


class Estimates(NamedTuple):
    """[S] estimates, the ends of their 95 % intervals (NaN below `FEWEST_LABELLED`), and the
    judge's beta in them."""

    value: Array
    low: Array
    high: Array
    beta: Array


def from_labels(data: FewLabels, these: bool = False) -> Estimates:
    """The systems' means from their labels alone."""
    return estimates(data, np.zeros(len(data.names)), these)


def with_judge(data: FewLabels, these: bool = False) -> Estimates:
    """The systems' means from labels and judge; those of the labels alone where these are
    narrower."""
    alone = from_labels(data, these)
    # a judge adds something only where it has articles without labels
    partly = data.every.articles > data.ratings.articles
    beta = np.where(partly, shares_of_judge(data), 0.0)
    both = estimates(data, beta, these)
    # beta is estimated, too: where it was taken for too large, labels alone are narrower
    better = (both.beta > 0) & (both.high - both.low < alone.high - alone.low)
    columns = [np.where(better, ours, theirs) for ours, theirs in zip(both, alone, strict=True)]
    return Estimates(*columns)


def estimates(data: FewLabels, beta: Array, these: bool) -> Estimates:
    """The systems' means with the parts `beta` [S] of the judge; 0 are the labels alone."""
    human = data.ratings
    every = data.every
    # 1. the means
    # the judge's mean of all articles less that of the labelled ones: how lucky the draw was
    value = human.mean + beta * (every.mean - data.labelled.mean)
    if data.scale is not None:
        value = np.clip(value, *data.scale)
    # 2. the share that the variance takes of the most that a mean allows
    # what is left of the labels' noise when the judge explains its part
    apart = human.apart - beta[:, None] * data.labelled.apart  # [S, G]
    squares = (apart**2).sum(axis=1)
    usable = human.articles >= 2
    degrees = human.articles - 1
    share = np.full(len(value), np.nan)
    means = human.mean[usable]
    # not the variance itself: near the ends of a scale it hardly varies, and a few labels show none
    share[usable] = dispersions(
        squares[usable],
        degrees[usable],
        means,
        data.scale,
    )
    # 3. the means that are not refuted
    unlabelled = data.unlabelled() if these else 1.0
    times = student(degrees) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = times * share / human.articles * unlabelled
        of_mean = every.variance / every.articles
        fixed = times * beta**2 * of_mean
        if these:  # the judge's mean over these very articles has no error
            fixed = np.zeros(len(value))
        low, high = means_not_refuted(value, relative, fixed, data.scale)
    enough = human.articles >= FEWEST_LABELLED
    low = np.where(enough, low, np.nan)
    high = np.where(enough, high, np.nan)
    return Estimates(value, low, high, beta)


def dispersions(squares: Array, degrees: Array, means: Array, scale: Scale | None) -> Array:
    """The share that each system's variance takes of the most that its mean allows, [S]; without a
    scale, the variance.

    Of all systems together it is drawn to that of evenly spread ratings, with the weight of one
    rating in the middle of the scale; of one system to that of all, with the weight of four
    articles.

    Args:
        squares: [S] sums of squared distances from the mean, over articles.
        degrees: [S] articles less one.
        means: [S] of the ratings.

    Example:
        >>> dispersions(np.array([4.0]), np.array([9]), np.array([3.0]), (1, 5))  # (4 + 4/3) / (9 x 2 x 2 + 4)
        array([0.13333333])
    """
    allowed = np.ones_like(means)
    flat = 0.0
    if scale is not None:
        low, high = scale
        # the variance of ratings at both ends alone, with this mean: none can be larger
        allowed = np.maximum((means - low) * (high - means), 0.0)
        # what a mean in the middle allows
        flat = _FLAT * (high - low) ** 2 / 4
    most = degrees * allowed
    mass = most.sum() + flat
    pooled = 0.0
    if mass > 0:
        pooled = (squares.sum() + _EVEN * flat) / mass
    weight = _POOLED * allowed.mean() if len(means) > 1 else 0.0
    # of one system there is nothing to borrow from
    if not weight:
        return np.full_like(means, pooled)
    return (squares + weight * pooled) / (most + weight)


def means_not_refuted(
    value: Array, relative: Array, fixed: Array, scale: Scale | None
) -> tuple[Array, Array]:
    """The lowest and the highest mean m [S] with (value - m)^2 <= relative * (m - a)(b - m) +
    fixed, at the most the ends a and b of the scale; without a scale, with (value - m)^2 <=
    relative + fixed. With relative = z^2 / n and fixed = 0 on a scale from 0 to 1 it is Wilson's
    interval."""
    if scale is None:
        half = np.sqrt(relative + fixed)
        return value - half, value + half
    low, high = scale
    center = (low + high) / 2
    # (value - m)^2 = relative (m - a)(b - m) + fixed, sorted by powers of m
    # the roots of curvature (m^2 - 2 middle m) + constant = 0
    curvature = 1 + relative
    middle = (value + relative * center) / curvature
    constant = value**2 + relative * low * high - fixed
    inner = middle**2 - constant / curvature
    half = np.sqrt(np.maximum(inner, 0.0))
    # the value itself is never refuted, were it by rounding
    lowest = np.clip(middle - half, low, value)
    highest = np.clip(middle + half, value, high)
    return lowest, highest


def student(degrees: Array | float) -> Array:
    """The quantile of Student's t that ends a 95 % interval, of degrees of freedom [...]; infinite
    below one."""
    degrees = np.asarray(degrees, dtype=np.float64)
    quantile = scipy.special.stdtrit(np.maximum(degrees, 1), CONFIDENCE[1])
    return np.where(degrees >= 1, quantile, np.inf)


def common_correlation(data: FewLabels) -> float:
    """Pearson's r of humans and judge over the labelled articles within systems, one for all
    systems, corrected for its optimism as adjusted R^2 is; 0.0 where it is negative, or below what
    chance gives."""
    human = data.ratings
    labelled = data.labelled
    both = human.articles >= 2
    scale = np.sqrt(human.squares * labelled.squares)[both].sum()
    if not scale > 0:
        return 0.0
    r = (human.apart * labelled.apart)[both].sum() / scale
    degrees = (human.articles[both] - 1).sum()
    # a judge that goes against the humans is not turned round by ten articles
    if r <= 0 or degrees <= 1:
        return 0.0
    # r^2 is too large by what fitting one line to few articles gives
    adjusted = 1 - (1 - r * r) * degrees / (degrees - 1)
    return math.sqrt(max(adjusted, 0.0))


def shares_of_judge(data: FewLabels) -> Array:
    """The betas [S], how far the humans' mean follows the judge's; 0 where one of them does not
    vary."""
    spread = np.nan_to_num(safe_divide(data.ratings.variance, data.every.variance))
    # a slope is the correlation times the ratio of both spreads
    return common_correlation(data) * np.sqrt(spread)
