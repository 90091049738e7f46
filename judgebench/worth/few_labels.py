"""Few human ratings of many texts: means of systems whose intervals hold at 10 to 20 labelled articles.

Articles are the unit: their texts are labelled together, and articles to label must be drawn at random. Where ratings
hardly vary, the plain interval of 10 to 20 labelled articles holds the truth in 50 to 85 % of cases. Here variance
follows the mean: on a scale from a to b a mean m allows a variance of at most (m - a)(b - m), and ratings take a share
of it, the dispersion (1 of a rating that knows the two ends alone, 1/3 of one spread evenly). The share is estimated
from all systems together, and of one system it is drawn towards that: a system whose ten ratings were all 5 is not
certain to be perfect.

There are two targets. *These very articles*: the mean that the ratings of all N articles would have, of which n are
labelled; the interval shrinks by sqrt(1 - n / N), and to a point where all are labelled (Cochran, "Sampling
Techniques", 1977, section 2.6). *Articles like these*: the mean over all articles that might have been drawn. The
interval holds all means that are not refuted with the variance that they would have
themselves; Wilson's interval of a proportion is the case of dispersion 1. Student's t has the labelled articles less
one as degrees of freedom. `scripts/simulate_intervals.py` has the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from judgebench.stats.clusters import CONFIDENCE

FEWEST_LABELLED = 5
"""Labelled articles from which there are intervals."""

_POOLED = 4.0  # articles' worth of the other systems' dispersion in that of each
_FLAT = 1.0  # ratings' worth of an evenly spread rating, in the dispersion of all systems
_EVEN = 1 / 3  # its dispersion


@dataclass(frozen=True)
class FewLabels:
    """A judge's scores of all texts, and human ratings of some.

    Args:
        human: [N] the mean rating of each text; NaN where nobody rated it.
        judge: [N] the judge's scores, on any scale.
        groups: [N] labels of the articles. Those with ratings must be a random part of all.
        systems: [N] labels of the systems.
        scale: the lowest and highest rating that can be given; None where ratings have no ends, which leaves ratings
            that do not vary with intervals that are too narrow.

    Raises:
        ValueError: shapes that do not fit, a judge's score that is not finite, or ratings outside the scale.
    """

    human: np.ndarray
    judge: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    scale: tuple[float, float] | None

    def __post_init__(self) -> None:
        human, judge = (np.asarray(side, dtype=np.float64) for side in (self.human, self.judge))
        shapes = {np.shape(one) for one in (human, judge, self.groups, self.systems)}
        if len(shapes) > 1 or human.ndim != 1:
            raise ValueError(f"human, judge, groups and systems must have one length [N], got {sorted(shapes)}")
        if not np.isfinite(judge).all() or np.isinf(human).any():
            raise ValueError("judge's scores must be finite, and ratings finite or NaN")
        given = human[~np.isnan(human)]
        if self.scale is not None and len(given) and not self.scale[0] <= given.min() <= given.max() <= self.scale[1]:
            raise ValueError(f"ratings from {given.min():g} to {given.max():g} lie outside the scale {self.scale}")
        object.__setattr__(self, "human", human)
        object.__setattr__(self, "judge", judge)

    @cached_property
    def names(self) -> list[str]:
        """[S] of the systems, sorted."""
        return [str(name) for name in np.unique(np.asarray(self.systems))]

    @cached_property
    def tables(self) -> Tables:
        """Sums by system and article."""
        system = np.unique(np.asarray(self.systems), return_inverse=True)[1]
        labels, group = np.unique(np.asarray(self.groups), return_inverse=True)
        given = ~np.isnan(self.human)

        def table(of: np.ndarray, values: np.ndarray) -> np.ndarray:
            place = system[of] * len(labels) + group[of]
            return np.bincount(place, values[of], len(self.names) * len(labels)).reshape(len(self.names), -1)

        every, one = np.ones_like(given), np.ones(len(given))
        sizes = table(given, one), table(every, one)
        return Tables(
            _clustered(table(given, self.human), sizes[0]),
            _clustered(table(given, self.judge), sizes[0]),
            _clustered(table(every, self.judge), sizes[1]),
            sizes,
        )


def unlabelled(data: FewLabels) -> np.ndarray:
    """[S] the finite population correction of means of these very articles: 1 less the share of a system's articles
    that have ratings, times the share of these articles' texts that do.

    Example:
        >>> human = np.array([3.0, 4.0, np.nan, np.nan, 2.0, np.nan, np.nan, np.nan])
        >>> articles, systems = np.array(["a", "b", "c", "d"] * 2), np.array(["x"] * 4 + ["y"] * 4)
        >>> unlabelled(FewLabels(human, np.ones(8), articles, systems, (1, 5))).tolist()
        [0.5, 0.75]
    """
    rated, every = data.tables.sizes
    within = np.where(rated > 0, every, 0).sum(axis=1)
    shares = np.divide(rated.sum(axis=1), within, out=np.zeros(len(rated)), where=within > 0)
    return 1 - shares * (rated > 0).sum(axis=1) / (every > 0).sum(axis=1)


class Clustered(NamedTuple):
    """Means of texts by system, where articles are drawn.

    Attributes:
        mean: [S]; NaN of a system without texts.
        apart: [S, G] each article's part in the mean's error: its texts' distance from the mean, summed, over the mean
            number of texts an article. 0 where an article has none.
        articles: [S] with texts of the system.
        squares: [S] sums of apart^2.
    """

    mean: np.ndarray
    apart: np.ndarray
    articles: np.ndarray
    squares: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        """[S] of a single article; 0 with fewer than two."""
        return self.squares / np.maximum(self.articles - 1, 1)


class Tables(NamedTuple):
    """The humans' and the judge's means of the labelled texts, and the judge's of all; the numbers [S, G] of labelled
    texts and of all."""

    human: Clustered
    labelled: Clustered
    every: Clustered
    sizes: tuple[np.ndarray, np.ndarray]


def _clustered(sums: np.ndarray, sizes: np.ndarray) -> Clustered:
    texts, articles = sizes.sum(axis=1), (sizes > 0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean = sums.sum(axis=1) / texts
        apart = np.where(sizes > 0, sums - mean[:, None] * sizes, 0.0) * (articles / texts)[:, None]
    apart = np.nan_to_num(apart)
    return Clustered(mean, apart, articles, (apart**2).sum(axis=1))


class Estimates(NamedTuple):
    """[S] estimates, the ends of their 95 % intervals (NaN below `FEWEST_LABELLED`), and beta, see
    `prediction_powered`."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    beta: np.ndarray


def student(degrees: np.ndarray | float) -> np.ndarray:
    """The quantile of Student's t that ends a 95 % interval, of degrees of freedom [...]; infinite below one."""
    degrees = np.asarray(degrees, dtype=np.float64)
    return np.where(degrees >= 1, special.stdtrit(np.maximum(degrees, 1), CONFIDENCE[1]), np.inf)


def dispersions(
    squares: np.ndarray, degrees: np.ndarray, means: np.ndarray, scale: tuple[float, float] | None
) -> np.ndarray:
    """The share that each system's variance takes of the most that its mean allows, [S]; without a scale, the variance.

    Of all systems together it is drawn to that of evenly spread ratings, with the weight of one rating in the middle of
    the scale; of one system to that of all, with the weight of four articles.

    Args:
        squares: [S] sums of squared distances from the mean, over articles.
        degrees: [S] articles less one.
        means: [S] of the ratings.
        scale: its ends, or None.
    """
    allowed = np.ones_like(means) if scale is None else _allowed(means, scale)
    flat = 0.0 if scale is None else _FLAT * (scale[1] - scale[0]) ** 2 / 4
    mass = (degrees * allowed).sum() + flat
    pooled = (squares.sum() + _EVEN * flat) / mass if mass > 0 else 0.0
    weight = _POOLED * allowed.mean() if len(means) > 1 else 0.0
    if not weight:
        return np.full_like(means, pooled)
    return (squares + weight * pooled) / (degrees * allowed + weight)


def _allowed(means: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    return np.maximum((means - scale[0]) * (scale[1] - means), 0.0)


def means_not_refuted(
    value: np.ndarray, relative: np.ndarray, fixed: np.ndarray, scale: tuple[float, float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The ends [S] of all means m with (value - m)^2 <= relative * (m - a)(b - m) + fixed on the scale from a to b; of
    a scale without ends, with (value - m)^2 <= relative + fixed.

    With relative = z^2 / n and fixed = 0 on a scale from 0 to 1 it is Wilson's interval.
    """
    if scale is None:
        half = np.sqrt(relative + fixed)
        return value - half, value + half
    low, high = scale
    middle = (value + relative * (low + high) / 2) / (1 + relative)
    inner = middle**2 - (value**2 + relative * low * high - fixed) / (1 + relative)
    half = np.sqrt(np.maximum(inner, 0.0))
    # The value itself is never refuted, were it by rounding.
    return np.clip(middle - half, low, value), np.clip(middle + half, value, high)


def from_labels(data: FewLabels, these: bool = False) -> Estimates:
    """The systems' means from their labels alone; on `these` very articles, or on articles like these."""
    human = data.tables.human
    return estimates(data, human.mean, human.squares, np.zeros(len(human.mean)), these)


def estimates(
    data: FewLabels, value: np.ndarray, squares: np.ndarray, beta: np.ndarray, these: bool = False
) -> Estimates:
    """Estimates [S] with their intervals, of values that leave `squares` [S], the sums of squared errors over labelled
    articles, and of the judge's parts `beta` [S] in them. The judge's mean over `these` very articles has no error."""
    human, every = data.tables.human, data.tables.every
    if data.scale is not None:
        value = np.clip(value, *data.scale)
    usable = human.articles >= 2
    share = np.full(len(value), np.nan)
    share[usable] = dispersions(squares[usable], human.articles[usable] - 1, human.mean[usable], data.scale)
    times = student(human.articles - 1) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = times * share / human.articles * (unlabelled(data) if these else 1.0)
        fixed = np.zeros(len(value)) if these else times * beta**2 * every.variance / every.articles
        low, high = means_not_refuted(value, relative, fixed, data.scale)
    known = human.articles >= FEWEST_LABELLED
    return Estimates(value, np.where(known, low, np.nan), np.where(known, high, np.nan), beta)
