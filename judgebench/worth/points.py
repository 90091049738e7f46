"""Agreement in points: how far a judge's scores lie from the humans', on the humans' own scale.

A correlation forgives a judge that is a point too strict, or that uses half of the scale; these figures do not. Scores
of a range are mapped to the humans' scale first (`on_scale`), or by what other groups' texts teach (`cross_fitted`).
Each figure comes twice: with the humans' mean, and with single raters (each rater's own figure, mean over raters
weighted by texts), where raters among each other are the measure: see `rater_points_record`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import isotonic_regression

from judgebench.metrics.correlation import MOST_ENTRIES, rating_table
from judgebench.metrics.resampling import (
    RESAMPLES,
    divided,
    interval_ends,
    jackknife_weights,
    numbered_groups,
    unknown,
    with_agreement_interval,
    with_interval,
)
from judgebench.types import ScoreRange
from judgebench.worth.reliability import agreement_weights

POINTS_FIGURES = ("bias", "mae", "exact", "adjacent", "kappa", "ac2", "icc")
"""Figures of agreement in points: mean of judge less human; mean distance; share of texts with the same category, and
with the same or a neighboring one; quadratic weighted kappa; Gwet's AC2, quadratic; ICC(2,1)."""

_CORRECTED = ("kappa", "ac2", "icc")  # for chance: their intervals are those of `with_agreement_interval`
_COLUMNS = 12  # numbers of a pair and text that are added up
_HALF = 1e-9  # means of raters carry rounding errors; a half must stay a half


def on_scale(scores: np.ndarray, score_range: ScoreRange, scale: tuple[float, float]) -> np.ndarray:
    """Scores [...] of a range, mapped linearly to the humans' scale: end to end.

    Example:
        >>> on_scale(np.array([0.0, 1.5, 4.0]), ScoreRange(0, 4), (1, 5)).tolist()
        [1.0, 2.5, 5.0]
    """
    low, high = scale
    share = (np.asarray(scores, dtype=np.float64) - score_range.minimum) / (score_range.maximum - score_range.minimum)
    return low + share * (high - low)


def cross_fitted(
    scores: np.ndarray, human: np.ndarray, groups: np.ndarray, kind: str = "isotonic", folds: int = 5, seed: int = 0
) -> np.ndarray:
    """[N] calibrated scores: the humans' expected score for each of the judge's, learned from texts of other groups.

    Args:
        scores, human: [N] of judge and humans, NaN where there is none; a text without a rating is scored, but teaches
            nothing.
        groups: [N] labels; all texts of a group lie in one fold.
        kind: `isotonic`, `linear` with no slope below 0, or `constant`: the mean rating whatever the score.
        folds: at most the number of groups.

    Returns:
        NaN where the judge gave no score, and everywhere with fewer than two groups of rated texts.

    Raises:
        ValueError: another kind, or fewer than two folds.
    """
    if kind not in ("isotonic", "linear", "constant") or folds < 2:
        raise ValueError(f"kind must be isotonic, linear or constant, and folds at least 2, got {kind!r} and {folds}")
    scores, human = np.asarray(scores, dtype=np.float64), np.asarray(human, dtype=np.float64)
    known = np.isfinite(scores) & np.isfinite(human)
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    found = np.full(len(scores), np.nan)
    # Rated groups are dealt first, so that every fold has some to leave out.
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(~np.isin(order, group[known]), kind="stable")]
    rated = len(np.unique(group[known]))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % max(2, min(folds, rated))
    for one in range(fold.max(initial=-1) + 1):
        teaching, asked = known & (fold[group] != one), (fold[group] == one) & np.isfinite(scores)
        if rated >= 2 and teaching.any():
            found[asked] = _learned(scores[teaching], human[teaching], scores[asked], kind)
    return found


def _learned(scores: np.ndarray, human: np.ndarray, asked: np.ndarray, kind: str) -> np.ndarray:
    if kind == "constant":
        return np.full(len(asked), human.mean())
    values, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    means = np.bincount(index, weights=human) / counts
    if kind == "isotonic":
        return np.interp(asked, values, isotonic_regression(means, weights=counts.astype(np.float64)).x)
    apart = scores - scores.mean()
    square = float(apart @ apart)
    slope = max(0.0, float(apart @ human) / square) if square > 0 else 0.0
    return np.clip(human.mean() + slope * (asked - scores.mean()), human.min(), human.max())


def nearest_category(values: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[...] the number of the nearest of the ascending categories [K], half up; -1 for NaN."""
    borders = (categories[1:] + categories[:-1]) / 2 - _HALF
    return np.where(np.isnan(values), -1, np.digitize(np.nan_to_num(values), borders))


def rounded(values: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[...] the nearest of the ascending categories [K] itself, half up; NaN for NaN.

    Example:
        >>> rounded(np.array([1.4, 2.5, 9.0, np.nan]), np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 3.0, 3.0, nan]
    """
    return np.where(np.isnan(values), np.nan, categories[nearest_category(values, categories)])


def pair_figures(
    judge: np.ndarray, human: np.ndarray, group: np.ndarray, weights: np.ndarray, categories: np.ndarray | None
) -> dict[str, np.ndarray]:
    """`POINTS_FIGURES`, each [B, P], of P pairs of judge and human on one scale.

    Kappa and ICC are of the numbers as they are: on whole categories kappa is Cohen's (1968) with quadratic weights,
    and between them it is Lin's concordance (1989), no rounding done. Exact and adjacent agreement and AC2 are of the
    nearest categories, half up; NaN without categories.

    Args:
        judge, human: [n, P]; NaN in either leaves a text out of that pair.
        group: [n] numbers of the groups.
        weights: [B, G] how often each group counts.
        categories: [K] all numbers that a rater may give, ascending.
    """
    given = np.isfinite(judge) & np.isfinite(human)
    apart, owner = np.where(given, judge - human, 0.0), _owner(group, weights.shape[1])
    center = np.where(given, human, 0.0).sum(axis=0) / np.maximum(given.sum(axis=0), 1)
    x, y = (np.where(given, side - center, 0.0) for side in (judge, human))
    columns = [1.0 * given, apart, np.abs(apart), x, y, x * x, y * y, apart * apart]
    if categories is not None:
        places = [np.where(given, nearest_category(side, categories), 0) for side in (judge, human)]
        steps = np.abs(places[0] - places[1])
        columns += [1.0 * (given & (steps == 0)), 1.0 * (given & (steps <= 1))]
    sums = np.split(weights @ (owner @ np.hstack(columns)), len(columns), axis=1)
    mass = sums[0]
    _, mean, distance, of_x, of_y, square_x, square_y, squared, *shares = (divided(one, mass) for one in sums)
    chance = square_x + square_y - 2 * of_x * of_y
    # Of one text judge and human are constants, so that chance and distance are the same.
    kappa = 1 - divided(squared, np.where((chance > _HALF * _HALF) & (mass > 1), chance, 0.0))
    unknown_ = np.full(mass.shape, np.nan)
    exact, adjacent = shares if shares else (unknown_, unknown_)
    alike = unknown_
    if categories is not None and len(categories) > 1:
        alike = _pairs_ac2(places, given, owner, weights, agreement_weights(categories))
    icc = _pairs_icc(mass, (of_x, of_y), square_x + square_y, squared)
    return dict(zip(POINTS_FIGURES, (mean, distance, exact, adjacent, kappa, alike, icc), strict=True))


def _owner(group: np.ndarray, groups: int) -> sparse.csr_array:
    """[G, n] 1 where a text is of the group."""
    return sparse.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(groups, len(group)))


def _pairs_ac2(
    places: Sequence[np.ndarray], given: np.ndarray, owner: sparse.csr_array, weights: np.ndarray, alike: np.ndarray
) -> np.ndarray:
    """[B, P] what `reliability.ac2` is of two raters who both rated all texts."""
    mass = weights @ (owner @ given)
    agreed = divided(weights @ (owner @ (given * alike[places[0], places[1]])), mass)
    kinds, spread = len(alike), np.zeros(mass.shape)
    for kind in range(kinds):
        named = given * ((places[0] == kind) + 1.0 * (places[1] == kind)) / 2
        if named.any():
            share = divided(weights @ (owner @ named), mass)
            spread += share * (1 - share)
    chance = alike.sum() / (kinds * (kinds - 1)) * spread
    return (agreed - chance) / (1 - chance)


def _pairs_icc(
    mass: np.ndarray, means: tuple[np.ndarray, np.ndarray], squares: np.ndarray, squared: np.ndarray
) -> np.ndarray:
    """[B, P] ICC(2,1) of two raters who both rated all texts, by Shrout and Fleiss (1979).

    Args:
        mass: texts; means: of both raters; squares: mean over texts of the sum of both squares; squared: of the squared
            differences.
    """
    several = np.where(mass > 1, mass, np.nan)
    between = (means[0] - means[1]) ** 2 / 2  # sums of squares, each divided by the texts
    total = squares - (means[0] + means[1]) ** 2 / 2
    rest = np.maximum(squared / 2 - between, 0.0)
    of_texts, rest = (several / (several - 1) * one for one in (total - between - rest, rest))
    of_raters = several * between
    below = of_texts + rest + 2 * (of_raters - rest) / several
    return divided(of_texts - rest, np.where((total > _HALF * _HALF) & (below > 0), below, 0.0))


def single_figures(
    judges: np.ndarray, ratings: np.ndarray, group: np.ndarray, weights: np.ndarray, categories: np.ndarray | None
) -> dict[str, np.ndarray]:
    """`POINTS_FIGURES`, each [B], with single raters: the mean over pairs of a judge and a rater of their own figures,
    weighted by texts; a pair whose figure is NaN stays out.

    Args:
        judges: [N, J] one judge or more, NaN where it gave none.
        ratings: [N, R], NaN where a rater gave none. Given the same array as `judges`, raters meet each other, never
            themselves, and in both directions: their bias is 0.
    """
    raters = judges is ratings
    pairs = [(i, k) for i in range(judges.shape[1]) for k in range(i + 1 if raters else 0, ratings.shape[1])]
    total = {name: np.zeros(len(weights)) for name in POINTS_FIGURES}
    mass = {name: np.zeros(len(weights)) for name in POINTS_FIGURES}
    step = max(1, MOST_ENTRIES // (_COLUMNS * max(len(weights), len(ratings), 1)))
    for start in range(0, len(pairs), step):
        first, second = (list(one) for one in zip(*pairs[start : start + step], strict=True))
        own, theirs = judges[:, first], ratings[:, second]
        shared = np.isfinite(own) & np.isfinite(theirs)
        texts = weights @ (_owner(group, weights.shape[1]) @ shared)
        for name, values in pair_figures(own, theirs, group, weights, categories).items():
            known = np.isfinite(values) & (texts > 0)
            total[name] += np.where(known, texts * np.nan_to_num(values), 0.0).sum(axis=1)
            mass[name] += np.where(known, texts, 0.0).sum(axis=1)
    found = {name: divided(total[name], mass[name]) for name in POINTS_FIGURES}
    return found | {"bias": 0.0 * found["bias"]} if raters else found


def points_record(
    scores: np.ndarray,
    ratings: np.ndarray,
    groups: np.ndarray,
    categories: Sequence[float] | np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The agreement in points of a judge with the humans.

    Args:
        scores: [N] on the humans' scale (see `on_scale`, `cross_fitted`); NaN where there is none.
        ratings: [N, R], NaN where a rater gave none; [N, 1] of means where nothing else is known.
        groups: [N] labels of the texts' groups, which are resampled.
        categories: all numbers that a rater may give, ascending; None where there is no list.

    Returns:
        texts, groups; `POINTS_FIGURES` with the humans' mean, and the same as single_* with single raters, each with
        `_low` and `_high` of its 95 % interval; reason: why some are None, else None.

    Raises:
        ValueError: shapes that do not fit, or infinite ratings.
    """
    ratings, scores = rating_table(ratings), np.asarray(scores, dtype=np.float64)
    if len(groups) != len(ratings) or scores.shape != (len(ratings),):
        raise ValueError(f"scores {scores.shape}, ratings {ratings.shape} and groups [{len(groups)}] do not fit")
    used = ~np.isnan(ratings).all(axis=1) & np.isfinite(scores)
    scores, ratings = scores[used], ratings[used]
    group, weights = _all_weights(np.asarray(groups)[used], resamples, seed)
    listed = None if categories is None else np.asarray(categories, dtype=np.float64)
    record: dict[str, Any] = {"texts": len(scores), "groups": weights.shape[1]}
    if not len(scores):
        names = [f"{kind}{name}" for kind in ("", "single_") for name in POINTS_FIGURES]
        return record | unknown(names) | {"reason": "No agreement in points: no text has a score and a rating."}
    side = scores[:, None], np.nanmean(ratings, axis=1)[:, None]
    with_mean = {name: one[:, 0] for name, one in pair_figures(*side, group, weights, listed).items()}
    with_raters = single_figures(scores[:, None], ratings, group, weights, listed)
    for kind, found in (("", with_mean), ("single_", with_raters)):
        for name in POINTS_FIGURES:
            record |= _with_interval(f"{kind}{name}", found[name], weights.shape[1], resamples)
    return record | {"reason": _reason(record, listed)}


def rater_points_record(
    ratings: np.ndarray,
    groups: np.ndarray,
    categories: Sequence[float] | np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The agreement in points of single raters with each other, single_* as in `points_record`: what a judge beside
    them can be measured by. Every pair counts in both directions, so that their bias is 0."""
    ratings = rating_table(ratings)
    used = (~np.isnan(ratings)).sum(axis=1) > 1
    ratings = ratings[used]
    group, weights = _all_weights(np.asarray(groups)[used], resamples, seed)
    listed = None if categories is None else np.asarray(categories, dtype=np.float64)
    record: dict[str, Any] = {"texts": len(ratings), "groups": weights.shape[1]}
    found = single_figures(ratings, ratings, group, weights, listed)
    for name in POINTS_FIGURES:
        record |= _with_interval(f"single_{name}", found[name], weights.shape[1], resamples)
    return record | {"reason": None if len(ratings) else "No text has the ratings of two people."}


def _all_weights(groups: np.ndarray, resamples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the groups, and rows of weights: the data, each group left out in turn, then the resamples."""
    group, weights = numbered_groups(groups, resamples, seed)
    return group, np.vstack([jackknife_weights(weights.shape[1]), weights[1:]])


def _with_interval(name: str, values: np.ndarray, groups: int, resamples: int) -> dict[str, float | None]:
    drawn = resamples if groups >= 2 else 0
    left = len(values) - drawn
    if name.endswith(_CORRECTED):
        return with_agreement_interval(name, values[:left] if resamples else values[:1])
    return with_interval(name, np.concatenate([values[:1], values[left:]]), interval_ends(groups))


def _reason(record: dict[str, Any], categories: np.ndarray | None) -> str | None:
    said = []
    if categories is None:
        said.append("No exact or adjacent agreement and no AC2: the scale is no list of categories.")
    if record["kappa"] is None:
        said.append("No kappa: judge and humans always say the same one number, or there is one text.")
    if record["icc"] is None:
        said.append("No ICC: neither judge nor humans vary over texts.")
    if record["groups"] < 2:
        said.append("No intervals: there is one group, and resampling takes at least two.")
    return " ".join(said) or None
