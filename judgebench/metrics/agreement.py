"""How far several raters agree with each other: the ceiling that a judge is measured against."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from judgebench.metrics.correlation import spearman


def krippendorff_alpha(ratings: np.ndarray, metric: str = "interval") -> float | None:
    """Krippendorff's alpha: 1 - observed / expected disagreement; 1 is agreement, 0 is chance.

    After Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Examples with fewer than two ratings say
    nothing about agreement and are left out.

    Args:
        ratings: [N, R] examples x raters, NaN where a rater gave none.
        metric: how far two values are apart: `interval`, their squared difference; `ordinal`, the squared number of
            ratings ranked between them.

    Returns:
        alpha, or None where it is undefined: no two ratings of one example, or all ratings equal.

    Raises:
        ValueError: another shape, infinite ratings, or an unknown metric.
    """
    ratings = _table(ratings)
    if metric not in ("interval", "ordinal"):
        raise ValueError(f"metric must be interval or ordinal, got {metric!r}")
    given = ~np.isnan(ratings)
    paired = given.sum(axis=1) >= 2
    ratings, given = ratings[paired], given[paired]
    values, index = np.unique(ratings[given], return_inverse=True)
    if len(values) < 2:
        return None
    counts = np.zeros((len(ratings), len(values)))  # how often each example got each value
    np.add.at(counts, (np.nonzero(given)[0], index), 1.0)
    per_example = counts.sum(axis=1)
    weighted = counts / (per_example - 1)[:, None]
    coincidences = weighted.T @ counts - np.diag(weighted.sum(axis=0))
    totals = counts.sum(axis=0)
    # Ordinal: two ranks are as far apart as there are ratings between them, each end counted half.
    places = values if metric == "interval" else totals.cumsum() - totals / 2
    distance = (places[:, None] - places[None, :]) ** 2
    n = totals.sum()
    return float(1 - (n - 1) * (coincidences * distance).sum() / (totals @ distance @ totals))


def mean_pairwise_spearman(ratings: np.ndarray) -> float | None:
    """The mean over pairs of raters of Spearman's rho on the examples that both rated; a constant rater counts 0.0.

    Args:
        ratings: [N, R] examples x raters, NaN where a rater gave none.

    Returns:
        The mean, or None if no two raters share two examples.

    Raises:
        ValueError: another shape, or infinite ratings.
    """
    ratings = _table(ratings)
    rhos = []
    for a, b in combinations(ratings.T, 2):
        both = ~np.isnan(a) & ~np.isnan(b)
        if both.sum() >= 2:
            rhos.append(spearman(a[both], b[both]))
    return float(np.mean(rhos)) if rhos else None


def _table(ratings: np.ndarray) -> np.ndarray:
    ratings = np.asarray(ratings, dtype=np.float64)
    if ratings.ndim != 2:
        raise ValueError(f"ratings must have shape [examples, raters], got {list(ratings.shape)}")
    if np.isinf(ratings).any():
        raise ValueError("ratings must be finite, or NaN where there is none")
    return ratings
