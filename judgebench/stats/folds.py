"""Scores fitted to ratings of other groups, and the folds that keep groups apart."""

from __future__ import annotations

import numpy as np

from judgebench.types import Array


def cross_fitted(
    scores: Array,
    human: Array,
    groups: Array,
    kind: str = "isotonic",
    folds: int = 5,
    seed: int = 0,
) -> Array:
    """[N] calibrated scores: the humans' expected score for each of the judge's, learned from texts
    of other groups. NaN where the judge gave no score, and everywhere with fewer than two groups of
    rated texts.

    Args:
        scores, human: [N] of judge and humans, NaN where there is none; a text without a rating is
            scored, but teaches nothing.
        groups: [N] labels; all texts of a group lie in one fold.
        kind: `isotonic`, or `constant`: the mean rating, whichever the score.
        folds: at least 2, and at most as many as there are groups.

    Example:
        With scores 1, 2, 3 and ratings 2, 4, 3 of other groups, isotonic regression gives 2 to a 1,
        and 3.5 to a 2 or a 3, whose ratings are in the wrong order.
    """
    scores = np.asarray(scores, dtype=np.float64)
    human = np.asarray(human, dtype=np.float64)
    scored = np.isfinite(scores)
    # a text without a rating is scored by what others teach, so no text is lost
    taught = scored & np.isfinite(human)
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    fitted = np.full(len(scores), np.nan)
    # 1. folds of groups
    rated = np.unique(group[taught])
    if len(rated) < 2:
        return fitted
    folds = max(2, min(folds, len(rated)))
    # whole groups, or a text would be scored by what its own article taught
    fold = assign_folds(len(labels), rated, folds, np.random.default_rng(seed))[group]  # [N]
    # 2. each fold by what the others teach
    for number in np.unique(fold):
        asked = scored & (fold == number)
        teaching = taught & (fold != number)
        ratings = human[teaching]
        if not len(ratings):
            continue
        if kind == "constant":
            fitted[asked] = ratings.mean()
            continue
        # pool adjacent violators: Barlow, Bartholomew, Bremner and Brunk, "Statistical Inference
        # under Order Restrictions", 1972, section 1.2
        values, index, counts = np.unique(scores[teaching], return_inverse=True, return_counts=True)
        means = np.bincount(index, weights=ratings) / counts
        steps = isotonic_means(means, counts)
        # linear between scores that were seen, and flat beyond the outermost
        fitted[asked] = np.interp(scores[asked], values, steps)
    return fitted


def isotonic_means(means: Array, weights: Array) -> Array:
    """The means [N] that never fall and are nearest to the given ones, weighted [N]: of neighbors
    in the wrong order each gets the mean of both, again and again. Importing scipy's takes long.

    Example:
        >>> isotonic_means(np.array([2.0, 4.0, 3.0]), np.array([1.0, 1.0, 3.0])).tolist()
        [2.0, 3.25, 3.25]
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, number
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        many = 1
        # a block is as many neighbors as share a mean; a new one takes in all that do not lie below
        # it
        while blocks and blocks[-1][0] >= mean:
            before, mass, number = blocks.pop()
            mean = (before * mass + mean * weight) / (mass + weight)
            weight = mass + weight
            many = many + number
        blocks.append((mean, weight, many))
    means_of_blocks = [mean for mean, _, _ in blocks]
    sizes = [many for _, _, many in blocks]
    return np.repeat(means_of_blocks, sizes)


def assign_folds(groups: int, rated: Array, parts: int, rng: np.random.Generator) -> Array:
    """[G] the part that each group is in, drawn; the numbers `rated` of groups are dealt first, so
    that every part has some of them."""
    order = rng.permutation(groups)
    unrated = ~np.isin(order, rated)
    # rated groups first, in the order drawn: dealing in turn gives each part as many of them
    order = order[np.argsort(unrated, kind="stable")]
    part = np.empty(groups, dtype=np.int64)
    part[order] = np.arange(groups) % parts
    return part
