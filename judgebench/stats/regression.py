"""Effects on a judge at equal quality: how its scores depend on what is known of the texts, beside the
quality that people see.

A judge follows the quality of a text, and perhaps something else of it, x: J = a + b T + c x + e.
People see the quality with an error, H = T + n. Asked for is c, the effect of x in points of the
judge:

    effect = beta(J) - b beta(H)    beta: least squares on all x together

The plain regression of J - H on x takes b for 1: a judge whose scores spread more than people's looks
as if it loved whatever good texts have. The one of J on H and x takes people for sure: a good judge
then looks as if it loved that, too. Where texts have several ratings, their spread is the people's
error, and b is the covariance of J and H given x, divided by the variance of H less that of its
error (errors in variables: Fuller, "Measurement Error Models", 1987, section 2.2). Of one rating a
text it is sqrt(var(J) / var(H)) times the root of how much more reliable the judge is than the
rating. Taken is that neither is more than twice as reliable as the other, and none more than without
error (b is at least cov / var(H), at most var(J) / cov): an effect is that of the middle, its interval
reaches over those of both ends, and its p is the larger of theirs.

Intervals are Student's t with the jackknife over clusters, which has the error of b, too (CR2 takes b
for known). Degrees of freedom are those of the clusters that carry the effect (Carter, Schnepel and
Steigerwald, "Asymptotic Behavior of a t Test Robust to Cluster Heterogeneity", Review of Economics
and Statistics 2017): of 60 articles of which three are in French, three count.
`scripts/simulate_audit.py` tests all of this.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import CONFIDENCE, Clusters, Estimate, ends_of
from judgebench.types import Array

_TINY = 1e-9
_LEAST_RELIABLE = 0.05
"""The share of the variance of human scores that is no error, below which it is not known."""

_DOUBLES = 30
"""Degrees of freedom, such as texts with two ratings, below which the error is not known: on 10 to 12
of 360 texts false alarms were 8 to 10 %, on 30 and more 3 to 5 %."""

MOST_RELIABLE = 2.0
"""How many times as reliable as a single rating a judge may be, or a rating as the judge."""


class Effect(NamedTuple):
    """An effect with its interval, and how sure it is.

    Attributes:
        p: two-sided, that there is none; None where no interval is known.
        clusters: those that carry it, see the module.
        share: of the variance of what quality does not explain, the part that only this does.
    """

    estimate: Estimate
    p: float | None
    clusters: float
    share: float = 0.0


def t_effect(values: Array, clusters: float) -> Effect:
    """The effect of values [1 + J], the data's and with each cluster left out: Student's t with the
    jackknife's standard error, of so many `clusters` that carry it. Of several rows [S, 1 + J] it is
    the first, as sure as all of them are.

    Example:
        >>> effect = t_effect(np.array([2.0, 2.5, 2.0, 1.5]), 3)
        >>> f"{effect.estimate:.2f}, p {effect.p:.3f}"
        '2.00 [-0.48, 4.48], p 0.074'
    """
    values = np.atleast_2d(values)
    first = values[:, 0]
    rest = values[:, 1:]
    count = rest.shape[1]
    freedom = min(clusters, count) - 1
    value = float(first[0])
    if freedom <= 0 or not np.isfinite(values).all():
        return Effect(Estimate(value), None, clusters)
    errors = math.sqrt(count - 1) * rest.std(axis=1)
    far = errors * scipy.special.stdtrit(freedom, CONFIDENCE[1])
    low = float(np.min(first - far))
    high = float(np.max(first + far))
    # without an error, any effect but rounding is sure
    errors = np.maximum(errors, _TINY)
    least = np.min(np.abs(first) / errors)
    p = 2 * float(scipy.special.stdtr(freedom, -least))
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
    return t_effect(values, carrying(np.bincount(clusters.number)))


def rating_error(ratings: Array) -> Array:
    """[N, 3] the error of each text's mean rating, of ratings [N, R], NaN where a rater gave none:
    the squares of its ratings around their mean, their degrees of freedom, and 1 / their number. The
    variance of the error is the sum of the first by that of the second, times the third. Where all
    rate all, a rater's own level is no error, for every mean has it.

    Example:
        >>> rating_error(np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 3.0]])).tolist()
        [[0.0, 1.0, 0.5], [0.0, 1.0, 0.5], [0.0, 1.0, 0.5]]
    """
    import pandas as pd  # it takes long to import

    table = pd.DataFrame(ratings)
    if table.notna().all(axis=None):
        table -= table.mean()
    counts = table.count(axis=1).clip(lower=1)
    apart = table.sub(table.mean(axis=1), axis=0)
    squares = (apart**2).sum(axis=1)
    return np.column_stack([squares, counts - 1, 1 / counts])


def regression_effects(
    judge: Array, human: Array, x: Array, error: Array, clusters: Clusters
) -> tuple[list[Effect], bool]:
    """The effect of each x [N, K] on scores [N] of the judge at equal quality, see the module;
    `error`: [N, 3], see `rating_error`.

    Returns:
        Effects [K], without a p where x tells the humans' scores; and True where the humans' error
        was known, and left something of their variance.
    """
    # 1. products within each cluster, of which leaving one out is a subtraction
    columns = np.column_stack([x, judge, human])
    # centered, so that large scores lose no digits
    columns = columns - columns.mean(axis=0)
    columns = np.insert(columns, 0, 1.0, axis=1)
    width = columns.shape[1]
    left = clusters.jackknifed
    flat = (columns[:, :, None] * columns[:, None, :]).reshape(-1, width**2)
    products = left.sums(flat).reshape(-1, width, width)
    # 2. slopes on x, and what is left of squares and products
    known = slice(0, -2)
    asked = slice(-2, None)
    inverse = np.linalg.pinv(products[:, known, known], hermitian=True)
    betas = inverse @ products[:, known, asked]
    explained = products[:, asked, known] @ betas
    rest = products[:, asked, asked] - explained
    # 3. slopes on quality
    judges = rest[:, 0, 0]
    both = rest[:, 0, 1]
    humans = np.maximum(rest[:, 1, 1], _TINY)
    slopes = _slopes(judges, both, humans)
    # what doubles say of the error is a sample, too: it is taken again without each cluster
    squares, freedom, parts = left.sums(error).T
    true = humans - parts * squares / np.maximum(freedom, 1.0)
    reliable = bool(freedom[0] >= _DOUBLES and true[0] >= _LEAST_RELIABLE * humans[0])
    if reliable:
        slopes = both[None] / np.maximum(true, _TINY)
    if rest[0, 1, 1] < _TINY * products[0, -1, -1]:
        slopes = np.full((1, len(both)), np.nan)
    # 4. effects, and how much of what quality leaves each of them explains
    weights = (columns[:, known] @ inverse[0]) ** 2
    carried = clusters.totals(weights)  # [G, 1 + K]
    slope = slopes[0, 0]
    less = np.array([1.0, -slope])
    unexplained = less @ rest[0] @ less
    effects = []
    for place in range(1, width - 2):
        of_judge, of_human = betas[:, place].T
        values = of_judge - slopes * of_human
        effect = t_effect(values, carrying(carried[:, place]))
        square = values[0, 0] ** 2 / inverse[0, place, place]
        share = square / max(square + unexplained, _TINY)
        effects.append(effect._replace(share=float(share)))
    return effects, reliable


def _slopes(judge: Array, both: Array, human: Array) -> Array:
    """[S, 1 + J] the judge's slope on quality where the humans' error is not known, of squares and
    products [1 + J]: in the middle, and at both ends."""
    lowest = both / human
    low, _ = ends_of(t_effect(both, len(both)).estimate)
    # of a judge that does not follow the humans nothing tells how far
    if low <= 0:
        return lowest[None]
    alike = np.sqrt(judge / human)
    root = math.sqrt(MOST_RELIABLE)
    # neither is more than without error
    highest = judge / np.maximum(both, _TINY)
    least = np.maximum(alike / root, lowest)
    most = np.minimum(alike * root, highest)
    return np.stack([alike, least, most])
