"""Agreement in points: how far a judge's scores lie from the humans', on the humans' own scale.

A correlation forgives a judge that is a point too strict, or that uses half of the scale; these figures do not. Scores
of a range are mapped to the humans' scale first (`on_scale`), or by what other groups' texts teach (`cross_fitted`).
Each figure comes twice: with the humans' mean, and with single raters (each rater's own figure, mean over raters
weighted by texts), where raters among each other are the measure: see `rater_points_record`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from judgebench.stats.agreement import agreement_weights
from judgebench.stats.clusters import Clusters, chunks, divided, with_agreement_interval
from judgebench.types import ScoreRange

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
    NaN where the judge gave no score, and everywhere with fewer than two groups of rated texts.

    Args:
        scores, human: [N] of judge and humans, NaN where there is none; a text without a rating is scored, but teaches
            nothing.
        groups: [N] labels; all texts of a group lie in one fold.
        kind: `isotonic`, or `constant`: the mean rating, whichever the score.
        folds: at least 2, and at most as many as there are groups.

    Example:
        With scores 1, 2, 3 and ratings 2, 4, 3 of other groups, isotonic regression gives 2 to a 1, and 3.5 to a 2 or
        a 3, whose ratings are in the wrong order.
    """
    scores, human = np.asarray(scores, dtype=np.float64), np.asarray(human, dtype=np.float64)
    taught = np.isfinite(scores) & np.isfinite(human)
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    fitted, rated = np.full(len(scores), np.nan), len(np.unique(group[taught]))
    # rated groups are dealt first, so that every fold has some to leave out
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(~np.isin(order, group[taught]), kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % max(2, min(folds, rated))
    for number in range(fold.max(initial=-1) + 1) if rated >= 2 else ():
        teaching, asked = taught & (fold[group] != number), (fold[group] == number) & np.isfinite(scores)
        values, index, counts = np.unique(scores[teaching], return_inverse=True, return_counts=True)
        if kind == "constant":
            fitted[asked] = human[teaching].mean() if len(values) else np.nan
        elif len(values):
            means = np.bincount(index, weights=human[teaching]) / counts
            steps = isotonic_regression(means, weights=counts.astype(np.float64)).x
            fitted[asked] = np.interp(scores[asked], values, steps)
    return fitted


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
    judge: np.ndarray, human: np.ndarray, clusters: Clusters, categories: np.ndarray | None
) -> dict[str, np.ndarray]:
    """`POINTS_FIGURES`, each [1 + B, P], of P pairs of judge and human [N, P] on one scale; NaN in either leaves a text
    out of that pair. Categories [K] are all numbers that a rater may give, ascending.

    Kappa and ICC are of the numbers as they are: on whole categories kappa is Cohen's (1968) with quadratic weights,
    and between them it is Lin's concordance (1989), no rounding done. Exact and adjacent agreement and AC2 are of the
    nearest categories, half up; NaN without categories.

    Example:
        >>> figures = pair_figures(np.array([[1.0], [2.0], [4.0]]), np.array([[1.0], [3.0], [5.0]]),
        ...                        Clusters.of([0, 1, 2], 0), np.arange(1.0, 6.0))
        >>> {name: round(float(values[0, 0]), 3) for name, values in figures.items()}
        {'bias': -0.667, 'mae': 0.667, 'exact': 0.333, 'adjacent': 1.0, 'kappa': 0.857, 'ac2': 0.846, 'icc': 0.9}
    """
    scored = np.isfinite(judge) & np.isfinite(human)
    apart = np.where(scored, judge - human, 0.0)
    center = np.where(scored, human, 0.0).sum(axis=0) / np.maximum(scored.sum(axis=0), 1)
    x, y = (np.where(scored, side - center, 0.0) for side in (judge, human))
    columns = [1.0 * scored, apart, np.abs(apart), x, y, x * x, y * y, apart * apart]
    if categories is not None:
        places = [np.where(scored, nearest_category(side, categories), 0) for side in (judge, human)]
        steps = np.abs(places[0] - places[1])
        columns += [1.0 * (scored & (steps == 0)), 1.0 * (scored & (steps <= 1))]
    # means over texts, of all columns in one sum
    sums = np.split(clusters.sums(np.hstack(columns)), len(columns), axis=1)
    mass = sums[0]
    _, bias, mae, of_x, of_y, square_x, square_y, squared, *shares = (divided(part, mass) for part in sums)
    exact, adjacent = shares or [np.full(mass.shape, np.nan)] * 2
    # kappa: of one text judge and human are constants, so that chance and distance are the same
    chance = square_x + square_y - 2 * of_x * of_y
    kappa = 1 - divided(squared, np.where((chance > _HALF * _HALF) & (mass > 1), chance, 0.0))
    # AC2 of two raters who both rated all texts, see `agreement.ac2`
    ac2 = np.full(mass.shape, np.nan)
    if categories is not None and len(categories) > 1:
        weights, spread, kinds = agreement_weights(categories), np.zeros(mass.shape), len(categories)
        agreed = divided(clusters.sums(scored * weights[places[0], places[1]]), mass)
        for kind in range(kinds):
            chosen = scored * ((places[0] == kind) + 1.0 * (places[1] == kind)) / 2
            if chosen.any():
                share = divided(clusters.sums(chosen), mass)
                spread += share * (1 - share)
        by_chance = weights.sum() / (kinds * (kinds - 1)) * spread
        ac2 = (agreed - by_chance) / (1 - by_chance)
    # ICC(2,1) of the same two, by Shrout and Fleiss (1979): sums of squares, each divided by the texts
    several, between = np.where(mass > 1, mass, np.nan), (of_x - of_y) ** 2 / 2
    total = square_x + square_y - (of_x + of_y) ** 2 / 2
    rest = np.maximum(squared / 2 - between, 0.0)
    of_texts, rest = (several / (several - 1) * part for part in (total - between - rest, rest))
    below = of_texts + rest + 2 * (several * between - rest) / several
    icc = divided(of_texts - rest, np.where((total > _HALF * _HALF) & (below > 0), below, 0.0))
    return dict(zip(POINTS_FIGURES, (bias, mae, exact, adjacent, kappa, ac2, icc), strict=True))


def single_figures(
    judges: np.ndarray, ratings: np.ndarray, clusters: Clusters, categories: np.ndarray | None
) -> dict[str, np.ndarray]:
    """`POINTS_FIGURES`, each [1 + B], with single raters: the mean over pairs of a judge [N, J] and a rater [N, R] of
    their figures, weighted by texts; a pair whose figure is NaN stays out. Where both are the same array, raters meet
    each other, never themselves, and in both directions: their bias is 0."""
    raters, rows = judges is ratings, len(clusters.weights)
    pairs = [(i, k) for i in range(judges.shape[1]) for k in range(i + 1 if raters else 0, ratings.shape[1])]
    total, mass = ({name: np.zeros(rows) for name in POINTS_FIGURES} for _ in range(2))
    for here in chunks(len(pairs), _COLUMNS * max(rows, len(ratings))):
        first, second = (list(side) for side in zip(*pairs[here], strict=True))
        sides = judges[:, first], ratings[:, second]
        texts = clusters.sums(1.0 * (np.isfinite(sides[0]) & np.isfinite(sides[1])))
        for name, values in pair_figures(*sides, clusters, categories).items():
            counted = np.isfinite(values) & (texts > 0)
            total[name] += np.where(counted, texts * np.nan_to_num(values), 0.0).sum(axis=1)
            mass[name] += np.where(counted, texts, 0.0).sum(axis=1)
    figures = {name: divided(total[name], mass[name]) for name in POINTS_FIGURES}
    return figures | ({"bias": 0.0 * figures["bias"]} if raters else {})


def points_record(
    scores: np.ndarray, ratings: np.ndarray, clusters: Clusters, categories: np.ndarray | None = None
) -> dict[str, Any]:
    """The agreement in points of a judge with the humans: `POINTS_FIGURES` with their mean, and as single_* with single
    raters, with 95 % intervals; points_reason: why some are None, else None.

    Args:
        scores: [N] on the humans' scale (see `on_scale`, `cross_fitted`); NaN where there is none.
        ratings: [N, R], NaN where a rater gave none; [N, 1] of means where nothing else is known.
        categories: all numbers that a rater may give, ascending; None where there is no list.
    """
    used = ~np.isnan(ratings).all(axis=1) & np.isfinite(scores)
    scores, ratings, clusters = scores[used, None], ratings[used], with_jackknife(clusters.at(used))
    human = np.nanmean(ratings, axis=1)[:, None] if len(ratings) else scores
    with_mean = {name: values[:, 0] for name, values in pair_figures(scores, human, clusters, categories).items()}
    record: dict[str, Any] = {"texts": len(scores), "groups": clusters.count} | _intervals("", with_mean, clusters)
    record |= _intervals("single_", single_figures(scores, ratings, clusters, categories), clusters)
    if not len(scores):
        return record | {"points_reason": "No agreement in points: no text has a score and a rating."}
    reasons = {
        "No exact or adjacent agreement and no AC2: the scale is no list of categories.": categories is None,
        "No kappa: judge and humans always say the same one number, or there is one text.": record["kappa"] is None,
        "No ICC: neither judge nor humans vary over texts.": record["icc"] is None,
        "No intervals: there is one group, and resampling takes at least two.": clusters.count < 2,
    }
    return record | {"points_reason": " ".join(reason for reason, holds in reasons.items() if holds) or None}


def rater_points_record(
    ratings: np.ndarray, clusters: Clusters, categories: np.ndarray | None = None
) -> dict[str, float | None]:
    """The agreement in points of single raters with each other, single_* as in `points_record`: what a judge can be
    measured by. Every pair counts in both directions, so that their bias is 0."""
    used = (~np.isnan(ratings)).sum(axis=1) > 1
    ratings, clusters = ratings[used], with_jackknife(clusters.at(used))
    return _intervals("single_", single_figures(ratings, ratings, clusters, categories), clusters)


def with_jackknife(clusters: Clusters) -> Clusters:
    """The same with the weights of the data, of the resamples, and of the jackknife: [1 + B + J, G]."""
    return replace(clusters, weights=np.vstack([clusters.weights, clusters.jackknifed.weights[1:]]))


def resampled_and_left_out(values: np.ndarray, clusters: Clusters) -> tuple[np.ndarray, np.ndarray]:
    """Values [1 + B + J] of clusters `with_jackknife` as [1 + B] and [1 + J], the data first in both."""
    end = 1 + (clusters.resamples if clusters.count > 1 else 0)
    return values[:end], np.concatenate([values[:1], values[end:]])


def _intervals(kind: str, figures: Mapping[str, np.ndarray], clusters: Clusters) -> dict[str, float | None]:
    """Figures [1 + B + J] by their names after `kind`: those corrected for chance by the jackknife, others by the
    resamples; without resamples no intervals."""
    record: dict[str, float | None] = {}
    for name, values in figures.items():
        resampled, left_out = resampled_and_left_out(values, clusters)
        if name in _CORRECTED:
            record |= with_agreement_interval(f"{kind}{name}", left_out if clusters.resamples else values[:1])
        else:
            record |= clusters.record({f"{kind}{name}": resampled})
    return record
