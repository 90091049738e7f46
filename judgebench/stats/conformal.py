"""Conformal intervals of single texts, whose groups are what is drawn."""

from __future__ import annotations

import numpy as np

from judgebench.stats.clusters import Clusters
from judgebench.stats.folds import by_other_folds, deal_folds
from judgebench.types import Array, Scale

LEVEL = 0.9
"""Share of texts whose interval is to hold the humans' score."""


_ROUNDING = 1e-9


def text_intervals(
    scores: Array, human: Array, clusters: Clusters, scale: Scale
) -> tuple[Array, Array, Array]:
    """Conformal intervals of the humans' score of each text, split by group: a new text belongs to
    a new article, so articles, not texts, are exchangeable.

    Coverage is at least `LEVEL` on average over new articles, for any judge, and at most 1 /
    (articles + 1) more. Where a half has too few groups for that, the other half's intervals are
    the whole scale.

    Args:
        scores: [N] the judge's on the humans' scale, best its expectation; NaN where it gave none.
            Intervals of a biased judge are wide: `scores.cross_fitted` takes the bias off, after
            which coverage holds nearly, as texts of both halves have taught the map.
        human: [N] the humans' means, NaN where nobody rated: such texts get intervals, and teach
            nothing.
        scale: the ends of the humans' scale, which no interval leaves.

    Returns:
        [N] the lower and upper ends, NaN where the judge gave no score; and [N] 0 or 1, the half of
        the groups in which
        a text lies: its interval comes of the other half.
    """
    group = clusters.number
    rated = np.isfinite(scores) & np.isfinite(human)
    distance = np.abs(human - scores)
    # another stream than the resamples', which are drawn with the same seed
    half = deal_folds(group, 2, [clusters.seed, 2], rated)

    def margin_of(teaching: Array, asked: Array) -> float:
        teaching = teaching & rated
        return conformal_quantile(distance[teaching], group[teaching], LEVEL)

    # each half is calibrated by the other: a text must not have widened its own interval
    margin = by_other_folds(half, margin_of)
    low = np.clip(scores - margin, *scale)
    high = np.clip(scores + margin, *scale)
    return low, high, half


def conformal_quantile(scores: Array, group: Array, level: float) -> float:
    """The number that the score of a text of a new group exceeds with a chance of at most 1 -
    level; infinite where there are too few groups, fewer than level / (1 - level).

    With one text a group it is the usual split-conformal quantile, the ceil((n + 1) level)-th
    smallest score. Each group counts alike, its texts [n] sharing its weight, and one place is kept
    for the unseen one: Lee, Barber and Willett, "Distribution-free inference with hierarchical
    data" (2023).

    Example:
        >>> conformal_quantile(np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1]), 0.5)  # weights 1/2 1/2 | 1, of 2 + 1
        2.0
    """
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    # a group is one observation, however many texts it has
    weights = 1 / sizes[number[order]]
    reached = weights.cumsum()
    # + 1: the unseen group may lie anywhere among the others, also beyond all of them
    place = np.searchsorted(reached, level * (len(sizes) + 1) - _ROUNDING)
    return float(scores[order[place]]) if place < len(order) else float("inf")
