"""People and judge, class by class: labels of a text, agreement, kappa, and the area under the ROC
curve.

The raters of a text may differ, so a text is split: of three labels pass, pass, fail
two thirds of it are a pass. Judge and single raters are then measured alike, by the labels of
single raters, and a text counts once however many people labelled it.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from judgebench.stats.clusters import CONFIDENCE, Clusters, Estimate, safe_divide
from judgebench.types import Array, Classes


def label_shares(ratings: Array, classes: Classes) -> Array:
    """[N, K] the share of each text's labels that name each class, worst first; NaN where nobody
    labelled it. With `pass_from` there are two classes: fail and pass.

    Args:
        ratings: [N, R] of single raters, NaN where one gave none; or [N, 1] of means, which of two
            named classes are shares themselves.

    Example:
        >>> label_shares(np.array([[4.0, 2.0], [5.0, np.nan]]), Classes(pass_from=4)).tolist()
        [[0.5, 0.5], [0.0, 1.0]]
    """
    given = ~np.isnan(ratings)
    count = given.sum(axis=1)
    # 1. of classes, the labels that name each
    if classes.pass_from is None:
        labels = np.arange(len(classes.names))
        nearest = np.round(ratings)
        named = (nearest[..., None] == labels) & given[..., None]  # [N, R, K]
        counts = 1.0 * named.sum(axis=1)
        return safe_divide(counts, count[:, None])
    # 2. else those that pass
    # means carry rounding errors: a 4 that passes must not fail as 3.9999999999
    passes = 1.0 * (ratings >= classes.pass_from - 1e-9)
    if len(classes.names) == 2:
        passes = ratings
    known = np.where(given, passes, 0.0)
    passed = safe_divide(known.sum(axis=1), count)
    return np.stack([1 - passed, passed], axis=1)


def matrices(shares: Array, said: Array, clusters: Clusters) -> Array:
    """[1 + J, K, K] the texts of each class by people (rows) and by the judge (columns): of all
    groups, then with each left out.

    Args:
        shares: [N, K] see `label_shares`; said: [N] the judge's class.
    """
    classes = shares.shape[1]
    # a text whose raters differ is split over rows: people have no one class that could be wrong
    columns = 1.0 * (said[:, None] == np.arange(classes))
    cells = (shares[:, :, None] * columns[:, None, :]).reshape(len(said), -1)
    return clusters.jackknifed.sums(cells).reshape(-1, classes, classes)


def rater_matrices(ratings: Array, classes: Classes, clusters: Clusters) -> Array:
    """[1 + J, K, K] the same of two raters of one text: each pair counts in both directions, and a
    text with several raters once; the data alone where no text has two."""
    raters = np.isfinite(ratings).sum(axis=1)
    several = raters > 1
    raters = raters[several]
    shares = label_shares(ratings[several], classes)
    counts = shares * raters[:, None]
    # pairs of labels, without those of a label with itself: [N, K, K]
    pairs = counts[:, :, None] * counts[:, None, :]
    diagonal = np.eye(shares.shape[1])
    pairs -= counts[:, :, None] * diagonal
    # ordered pairs of different raters, so that a text with ten raters weighs no more than one with
    # two
    weight = raters * (raters - 1)
    of_texts = pairs / weight[:, None, None]
    if not several.any():
        return np.zeros((1, *pairs.shape[1:]))
    cells = of_texts.reshape(len(raters), -1)
    return clusters.at(several).jackknifed.sums(cells).reshape(-1, *pairs.shape[1:])


def agreement_of(matrix: Array) -> Array:
    """The share of texts in one class by both, [..., K, K] -> [...]."""
    total = matrix.sum(axis=(-1, -2))
    return safe_divide(np.trace(matrix, axis1=-2, axis2=-1), total)


def kappa_of(matrix: Array) -> Array:
    """Cohen's kappa (1960), [..., K, K] -> [...]: agreement beyond what the shares of the classes
    give by chance; NaN where both name one class alone.

    Example:
        >>> kappa_of(np.array([[20.0, 5.0], [10.0, 15.0]])).round(2).tolist()
        0.4
    """
    total = matrix.sum(axis=(-1, -2))
    people = safe_divide(matrix.sum(axis=-1), total[..., None])
    judge = safe_divide(matrix.sum(axis=-2), total[..., None])
    # agreement of two who name classes as often as they do, whatever the text
    chance = (people * judge).sum(axis=-1)
    return safe_divide(agreement_of(matrix) - chance, 1 - chance)


def share_of_pairs(scores: Array, passed: Array, groups: Array) -> Estimate | None:
    """The area under the ROC curve (AUC): the share of pairs of a text that people pass and one
    that they fail in which the former has the higher score, half of those with equal scores. None
    where one class is missing.

    The standard error is that of sums over groups of the texts' parts in it (DeLong, DeLong and
    Clarke-Pearson, 1988; Obuchowski, 1997, for groups); the interval is Student's t of the logit.

    Args:
        passed: [N] the share of a text's labels that pass it.

    Example:
        >>> share_of_pairs(np.array([1.0, 2.0, 2.0, 3.0]), np.array([0.0, 0.0, 1.0, 1.0]), np.arange(4)).value
        0.875
    """
    failed = 1 - passed
    if not passed.sum() or not failed.sum():
        return None
    # by ranks: counting all pairs would take N * N
    order, place = np.unique(scores, return_inverse=True)

    def share_below(mass: Array) -> Array:
        of_score = np.bincount(place, mass, len(order))
        below = np.cumsum(of_score) - of_score / 2
        return np.asarray(below[place] / mass.sum())

    ahead = share_below(failed)  # of a text that passes
    behind = 1 - share_below(passed)
    value = float((passed * ahead).sum() / passed.sum())
    # DeLong's structural components: each text's part in the area's error
    apart = passed * (ahead - value) / passed.sum() + failed * (behind - value) / failed.sum()
    sums = Clusters.of(groups, 0).totals(apart)
    spread = value * (1 - value)
    if len(sums) < 2 or spread <= 0:
        return Estimate(value)
    variance = (sums**2).sum() * len(sums) / (len(sums) - 1)
    reach = scipy.special.stdtrit(len(sums) - 1, CONFIDENCE[1]) * math.sqrt(variance) / spread
    logit = math.log(value / (1 - value))
    low, high = scipy.special.expit([logit - reach, logit + reach]).tolist()
    return Estimate(value, low, high)
