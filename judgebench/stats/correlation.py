"""Correlations of two vectors, of many pairs of vectors at a time, and of resampled texts; agreement of raters.

What is constant correlates 0.0, never NaN: a judge that always says the same does not agree with anybody.
"""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import krippendorff
import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import MOST_ENTRIES

CORRELATIONS = ("pearson", "spearman", "kendall")
"""The correlations, in the order in which every array [3, ...] of them holds them."""

SPEARMAN = CORRELATIONS.index("spearman")
"""The place of the correlation by which judges are compared, tuned and chosen."""

_LONG = 150  # entries of a row beyond which sorting it is faster than comparing all with all


def pearson(judge: np.ndarray, human: np.ndarray) -> float:
    """Pearson's r of two vectors [N]; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    return float(_pearson(judge[None], human[None])[0])


def spearman(judge: np.ndarray, human: np.ndarray) -> float:
    """Spearman's rho of two vectors [N]: Pearson's r of their mid-ranks; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    return float(_pearson(scipy.stats.rankdata(judge)[None], scipy.stats.rankdata(human)[None])[0])


def kendall(judge: np.ndarray, human: np.ndarray) -> float:
    """Kendall's tau-b of two vectors [N], corrected for ties on both sides; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    if is_constant(judge) or is_constant(human):
        return 0.0
    return float(scipy.stats.kendalltau(judge, human).statistic)  # n log n, and exact where rows would need n * n


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
    """All correlations of many pairs of vectors: [B, N] and [B, N] -> [3, B] in the order of `CORRELATIONS`; 0.0 where
    either side of a row is constant. Many short rows are compared all with all at a time, N * N each, for Kendall's
    tau; long ones take n log n each."""
    rows, width = judge.shape
    if not width:
        return np.zeros((3, rows))
    rho = _pearson(scipy.stats.rankdata(judge, axis=1), scipy.stats.rankdata(human, axis=1))
    tau, step = np.zeros(rows), max(1, MOST_ENTRIES // (width * width))
    if width > _LONG:
        tau = np.array([kendall(x, y) for x, y in zip(judge, human, strict=True)])
    for start in range(0, rows, step) if width <= _LONG else ():
        part = slice(start, start + step)
        x, y = (np.sign(side[part, :, None] - side[part, None, :]) for side in (judge, human))
        tau[part] = ratio((x * y).sum(axis=(1, 2)), (x * x).sum(axis=(1, 2)), (y * y).sum(axis=(1, 2)))
    return np.stack([_pearson(judge, human), rho, tau])


def _pearson(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Pearson's r of each row, [B, N] -> [B]."""
    # first to the row's first value: a constant row becomes exactly 0, which its mean's rounding would not promise
    x, y = (side - side[:, :1] for side in (judge, human))
    x, y = (side - side.sum(axis=1, keepdims=True) / max(1, side.shape[1]) for side in (x, y))
    return ratio((x * y).sum(axis=1), (x * x).sum(axis=1), (y * y).sum(axis=1))


def ratio(product: np.ndarray, square_x: np.ndarray, square_y: np.ndarray) -> np.ndarray:
    """product / sqrt(square_x * square_y), held within [-1, 1]; 0.0 where a square is 0. All [B]."""
    scale = np.sqrt(square_x) * np.sqrt(square_y)
    return np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 0), -1.0, 1.0)


# --- resampled texts ------------------------------------------------------------------------------------------------

_PAIR_CHUNK = 1 << 18  # entries at work on at a time: they stay near the processor


def resampled_correlations(judge: np.ndarray, human: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlations [3, B] of each resample's texts, in the order of `CORRELATIONS`; 0.0 where a resample is
    constant.

    Args:
        groups: [N] the group of each text, numbered 0 to G - 1.
        weights: [B, G] how often each group was drawn. The identity gives each group's own correlation.
    """
    if not len(judge) or not len(weights):
        return np.zeros((3, len(weights)))
    return DistinctPairs(judge, human, groups, weights.shape[1]).correlations(weights)


class DistinctPairs:
    """The distinct pairs of scores, and how often each group holds each, from which the correlations of resamples
    follow without building any of them: exactly, not approximately.

    J distinct pairs, sorted by the judge's score: with discrete scores far fewer than texts, at worst as many. Kept by
    hand: scipy's bootstrap of the same three takes a thousand times as long.
    """

    def __init__(self, judge: np.ndarray, human: np.ndarray, groups: np.ndarray, group_count: int) -> None:
        self.x, x = np.unique(np.asarray(judge, dtype=np.float64), return_inverse=True)
        self.y, y = np.unique(np.asarray(human, dtype=np.float64), return_inverse=True)
        codes, pair = np.unique(x * len(self.y) + y, return_inverse=True)
        self.jx, self.jy = np.divmod(codes, len(self.y))  # [J] which x, and which y, each pair has
        self.counts = scipy.sparse.csr_array(
            (np.ones(len(pair)), (np.asarray(groups), pair)), shape=(group_count, len(codes))
        )  # [G, J]; equal entries add up

    def correlations(self, weights: np.ndarray) -> np.ndarray:
        """[B, G] weights, whole numbers >= 0 -> [3, B]; 0.0 where a resample is constant."""
        weights = weights.astype(np.float64)
        spearman, untied_x, untied_y = self._ranked(weights)
        return np.stack([self._pearson(weights), spearman, ratio(self._agreeing(weights), untied_x, untied_y)])

    def spearman(self, weights: np.ndarray) -> np.ndarray:
        """Spearman's rho alone, at a fraction of the time: [B, G] -> [B]; 0.0 where a resample is constant."""
        return self._ranked(weights.astype(np.float64))[0]

    def _pearson(self, weights: np.ndarray) -> np.ndarray:
        """Within-group and between-group scatter, added up: [B, G] -> [B].

        Plain moments would cancel where a resample varies far less than the data; this form is 0 exactly where a
        resample is constant.
        """
        size, at = self.counts.sum(axis=1), self.counts.tocoo()
        filled = size > 0
        mass = weights * size
        total = np.maximum(mass.sum(axis=1), 1.0)
        drawn = (mass > 0).argmax(axis=1)  # a group that the resample holds
        within, between = [], []
        for values in (self.x[self.jx], self.y[self.jy]):
            # a group's mean is a value of it and the rest: groups of equal values then differ by exactly 0
            first = np.zeros(len(size))
            first[filled] = values[self.counts.indices[self.counts.indptr[:-1][filled]]]
            offsets = values[at.col] - first[at.row]
            rest = np.bincount(at.row, at.data * offsets, len(size)) / np.maximum(size, 1)
            within.append(offsets - rest[at.row])
            apart = (first - first[drawn, None]) + (rest - rest[drawn, None])
            between.append(apart - ((mass * apart).sum(axis=1) / total)[:, None])
        sums = []
        for a, b in ((0, 1), (0, 0), (1, 1)):
            inner = np.bincount(at.row, at.data * within[a] * within[b], len(size))
            sums.append(weights @ inner + (mass * between[a] * between[b]).sum(axis=1))
        return ratio(*sums)

    def _ranked(self, weights: np.ndarray) -> np.ndarray:
        """Spearman's rho, and the ordered pairs of texts not tied in x, and in y: [B, G] -> [3, B].

        With w_k the weight of the k-th distinct value and n the sum, the mid-rank of k is (w_1 + ... + w_(k-1)) +
        (w_k + 1) / 2 and the mean rank (n + 1) / 2. Twice their difference is an integer, so all sums are exact.
        Resamples lie innermost, so that every step is on long rows.
        """
        results = np.empty((3, len(weights)))
        pairs_of, places = self.counts.T.tocsr(), np.arange(len(self.jx))
        of_x, of_y = (scipy.sparse.csr_array((np.ones(len(places)), (side, places))) for side in (self.jx, self.jy))
        step = max(16, _PAIR_CHUNK // len(places))
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            pairs = pairs_of @ np.ascontiguousarray(weights[part].T)  # [J, b]
            masses = of_x @ pairs, of_y @ pairs  # [Kx, b], [Ky, b]
            a, b = (2 * upto - mass - upto[-1] for mass in masses for upto in [mass.cumsum(axis=0)])
            product = np.einsum("kb,kb->b", of_y @ (pairs * a[self.jx]), b)
            squares = (np.einsum("kb,kb,kb->b", mass, rank, rank) for mass, rank in zip(masses, (a, b), strict=True))
            results[0, part] = ratio(product, *squares)
            for k, mass in enumerate(masses, start=1):
                results[k, part] = mass.sum(axis=0) ** 2 - np.einsum("kb,kb->b", mass, mass)
        return results

    def _agreeing(self, weights: np.ndarray) -> np.ndarray:
        """Ordered pairs of texts that agree less those that disagree, as a quadratic form: [B, G] -> [B].

        The sum of sign(x_i - x_j) * sign(y_i - y_j) over ordered pairs is w' A w, with w the weights of the groups and
        A [G, G] that sum between two groups; or, as well, with w the weights of the distinct pairs of scores and
        A [J, J]. Time goes as J * J + B * min(G, J)^2, in integers.
        """
        by_pair = len(self.jx) <= self.counts.shape[0]
        if by_pair:
            weights = (self.counts.T @ weights.T).T
        sums, form = np.zeros(len(weights)), np.zeros((self.counts.shape[0],) * 2)
        # the shortest type: a comparison of all with all waits for memory alone
        x, y = (side.astype(np.min_scalar_type(side.max())) for side in (self.jx, self.jy))
        step = max(1, MOST_ENTRIES // len(x))
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            above_x, above_y = (
                (side[:, None] > side[part]).view(np.int8) - (side[:, None] < side[part]).view(np.int8)
                for side in (x, y)
            )
            signs = (above_x * above_y).astype(np.float64)  # [J, j]
            if by_pair:
                sums += ((weights @ signs) * weights[:, part]).sum(axis=1)
            else:
                form += self.counts[:, part] @ (self.counts @ signs).T
        return sums if by_pair else ((weights @ form) * weights).sum(axis=1)


# --- raters ---------------------------------------------------------------------------------------------------------


def krippendorff_alpha(ratings: np.ndarray, metric: Literal["interval", "ordinal"] = "interval") -> float | None:
    """Krippendorff's alpha of ratings [N, R], NaN where a rater gave none: 1 - observed / expected disagreement; 1 is
    agreement, 0 is chance. None where it is undefined: no two ratings of one example, or all ratings equal.

    Args:
        metric: the distance of two values: `interval`, their squared difference; `ordinal`, the squared number of
            ratings ranked between them.
    """
    shared = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=shared.T, level_of_measurement=metric))


def mean_pairwise_spearman(ratings: np.ndarray) -> float | None:
    """The mean over pairs of raters of Spearman's rho on the examples that both rated, from ratings [N, R] with NaN
    where a rater gave none; a constant rater counts 0.0. None if no two raters share two examples."""
    rhos = []
    for first, second in combinations(ratings.T, 2):
        both = ~np.isnan(first) & ~np.isnan(second)
        if both.sum() >= 2:
            rhos.append(spearman(first[both], second[both]))
    return float(np.mean(rhos)) if rhos else None
