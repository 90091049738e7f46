"""Correlations of two vectors, and agreement of raters: what is constant correlates 0.0, never NaN.

Each correlation exists once for one pair of vectors, and once for many pairs at a time (`*_rows`).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import stats

from judgebench.stats.clusters import MOST_ENTRIES as MOST_ENTRIES

CORRELATIONS = ("pearson", "spearman", "kendall")
"""The correlations in the order in which every array of this room holds them."""


_LONG = 150
"""Entries of a row beyond which sorting it is faster than comparing all with all."""


def pearson(judge: np.ndarray, human: np.ndarray) -> float:
    """Pearson's r of two vectors [N]; 0.0 where either is constant.

    Raises:
        ValueError: other shapes, NaN or infinite values. So do `spearman` and `kendall`.
    """
    judge, human = vectors(judge, human)
    return float(pearson_rows(judge[None], human[None])[0])


def spearman(judge: np.ndarray, human: np.ndarray) -> float:
    """Spearman's rho of two vectors [N]: Pearson's r of their mid-ranks; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    return float(spearman_rows(judge[None], human[None])[0])


def kendall(judge: np.ndarray, human: np.ndarray) -> float:
    """Kendall's tau-b of two vectors [N], corrected for ties on both sides; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    if is_constant(judge) or is_constant(human):
        return 0.0
    return float(stats.kendalltau(judge, human).statistic)  # n log n, and exact where kendall_rows would need n * n


def vectors(judge: np.ndarray, human: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 [N]; ValueError for other shapes, NaN or infinite values."""
    judge, human = np.asarray(judge, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if judge.ndim != 1 or judge.shape != human.shape:
        raise ValueError(f"judge and human must be vectors of one length, got {judge.shape} and {human.shape}")
    if not (np.isfinite(judge).all() and np.isfinite(human).all()):
        raise ValueError("judge and human must be finite numbers")
    return judge, human


def is_constant(values: np.ndarray) -> bool:
    """True where all values [N] are equal, to the last bit; also where there are fewer than two.

    Equality is exact on purpose: a judge whose scores differ at all, were it in the ninth digit, ranks its examples,
    and its correlation says how well. Decodings give equal log-probabilities equal scores.
    """
    return len(values) < 2 or bool((values == values[0]).all())


def correlate_rows(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """All correlations of many pairs of vectors: [B, N] and [B, N] -> [3, B] in the order of `CORRELATIONS`."""
    return np.stack([pearson_rows(judge, human), spearman_rows(judge, human), kendall_rows(judge, human)])


def pearson_rows(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Pearson's r of each row, [B, N] -> [B]; 0.0 where either side of a row is constant."""
    x, y = _centered(judge), _centered(human)
    return ratio((x * y).sum(axis=1), (x * x).sum(axis=1), (y * y).sum(axis=1))


def spearman_rows(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Spearman's rho of each row, [B, N] -> [B]; 0.0 where either side of a row is constant."""
    return pearson_rows(_ranks(judge), _ranks(human))


def kendall_rows(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of each row, [B, N] -> [B]; 0.0 where either side of a row is constant.

    Many short rows are compared all with all at a time, N * N each; long ones take n log n each.
    """
    rows, width = judge.shape
    if width > _LONG:
        return np.array([kendall(x, y) for x, y in zip(judge, human, strict=True)])
    parts = []
    for start in range(0, rows, chunk := max(1, MOST_ENTRIES // max(1, width * width))):
        x, y = (
            np.sign(v[:, :, None] - v[:, None, :]) for v in (judge[start : start + chunk], human[start : start + chunk])
        )
        parts.append(ratio((x * y).sum(axis=(1, 2)), (x * x).sum(axis=(1, 2)), (y * y).sum(axis=(1, 2))))
    return np.concatenate(parts) if parts else np.empty(0)


def ratio(product: np.ndarray, square_x: np.ndarray, square_y: np.ndarray) -> np.ndarray:
    """product / sqrt(square_x * square_y), held within [-1, 1]; 0.0 where a square is 0. All [B]."""
    scale = np.sqrt(square_x) * np.sqrt(square_y)
    defined = scale > 0
    return np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=defined), -1.0, 1.0)


def _centered(values: np.ndarray) -> np.ndarray:
    # First to the row's first value: a constant row becomes exactly 0, which its mean's rounding would not promise.
    shifted = values - values[:, :1]
    return shifted - shifted.mean(axis=1, keepdims=True) if values.shape[1] else shifted


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.asarray(stats.rankdata(values, axis=1)) if values.shape[1] else values


def krippendorff_alpha(ratings: np.ndarray, metric: str = "interval") -> float | None:
    """Krippendorff's alpha of ratings [N, R], NaN where a rater gave none: 1 - observed / expected disagreement; 1 is
    agreement, 0 is chance. None where it is undefined: no two ratings of one example, or all ratings equal.

    After Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Examples with fewer than two ratings say
    nothing about agreement and are left out.

    Args:
        metric: the distance of two values: `interval`, their squared difference; `ordinal`, the squared number of
            ratings ranked between them.

    Raises:
        ValueError: another shape, infinite ratings, or an unknown metric.
    """
    ratings = rating_table(ratings)
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
    """The mean over pairs of raters of Spearman's rho on the examples that both rated, from ratings [N, R] with NaN
    where a rater gave none; a constant rater counts 0.0. None if no two raters share two examples; ValueError for
    another shape, or infinite ratings."""
    ratings = rating_table(ratings)
    rhos = []
    for a, b in combinations(ratings.T, 2):
        both = ~np.isnan(a) & ~np.isnan(b)
        if both.sum() >= 2:
            rhos.append(spearman(a[both], b[both]))
    return float(np.mean(rhos)) if rhos else None


def rating_table(ratings: np.ndarray) -> np.ndarray:
    """Ratings as float64 [N, R]; ValueError for another shape, or infinite ratings."""
    ratings = np.asarray(ratings, dtype=np.float64)
    if ratings.ndim != 2:
        raise ValueError(f"ratings must have shape [examples, raters], got {list(ratings.shape)}")
    if np.isinf(ratings).any():
        raise ValueError("ratings must be finite, or NaN where there is none")
    return ratings
