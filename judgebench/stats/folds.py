"""Folds that keep groups apart, and what texts of other folds teach."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from judgebench.stats.maps import isotonic
from judgebench.types import Array

Answer = Callable[[Array, Array], Array | float]
"""What texts teach: [N] True for those that teach, [N] True for those that are asked about -> a
number of each asked one, [..., n], or one for all."""


def deal_folds(
    groups: Array, folds: int, seed: int | Sequence[int], rated: Array | None = None
) -> Array:
    """The fold of each text [N], all texts of a group in one: as even as can be, in an order drawn
    with the seed; groups with one of the texts `rated` [N] come first, so that every fold has some.

    Example:
        >>> deal_folds(np.array(["a", "a", "b", "c"]), 3, seed=0).tolist()
        [1, 1, 2, 0]
    """
    labels, number = np.unique(np.asarray(groups), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    if rated is not None:
        unrated = ~np.isin(order, number[rated])
        order = order[np.argsort(unrated, kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return np.asarray(fold[number])


def by_other_folds(fold: Array, answer: Answer) -> Array:
    """[..., N] the answers about the texts of each fold [N] that all other folds' texts teach.

    Example:
        >>> values = np.array([1.0, 3.0, 5.0])
        >>> by_other_folds(np.array([0, 0, 1]), lambda teaching, asked: values[teaching].mean()).tolist()
        [5.0, 5.0, 2.0]
    """
    parts = []
    for number in np.unique(fold):
        asked = fold == number
        parts.append((asked, np.asarray(answer(~asked, asked))))
    answers = np.empty((*parts[0][1].shape[:-1], len(fold)))
    for asked, part in parts:
        answers[..., asked] = part
    return answers


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
    rated = scored & np.isfinite(human)
    groups = np.asarray(groups)
    count = len(np.unique(groups[rated]))
    if count < 2:
        return np.full(len(scores), np.nan)

    def answer(teaching: Array, asked: Array) -> Array | float:
        teaching = teaching & rated
        if kind == "constant":
            return float(human[teaching].mean())
        return isotonic(scores[teaching], human[teaching])(scores[asked])

    # whole groups, or a text would be scored by what its own article taught
    fold = deal_folds(groups, min(folds, count), seed, rated)
    return np.where(scored, by_other_folds(fold, answer), np.nan)
