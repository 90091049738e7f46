"""Correlations of resampled data, and intervals from them: articles are resampled, never single examples.

The examples of an article share its difficulty, so they are drawn together (a cluster bootstrap). A resample is written
as a row of integer weights, how often each group was drawn, [B, G]; correlations follow from the weights without ever
building the resampled data, exactly (not approximately) as if it had been built. One example's weight is its group's.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import sparse

from judgebench.metrics.correlation import MOST_ENTRIES, ratio

RESAMPLES = 1000
"""How many resamples an interval rests on unless told otherwise."""


@lru_cache(maxsize=8)
def group_weights(groups: int, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """How often each group is drawn: [resamples, groups] int64, each row summing to `groups`.

    The same arguments give the same weights, so that what is measured on the same groups is resampled alike, and
    differences are paired.
    """
    if groups == 0:
        return np.zeros((resamples, 0), dtype=np.int64)
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(groups, np.full(groups, 1.0 / groups), size=resamples)
    weights.flags.writeable = False  # shared by all who ask
    return weights


def interval(resampled: np.ndarray) -> tuple[float, float] | None:
    """The 95 % percentile interval of a statistic's resampled values [B]; None where there are none."""
    if not resampled.size:
        return None
    low, high = np.percentile(resampled, [2.5, 97.5])
    return float(low), float(high)


def resampled_correlations(judge: np.ndarray, human: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlations of each resample's examples.

    Args:
        judge, human: [N] finite numbers.
        groups: [N] the group of each example, numbered 0 to G - 1.
        weights: [B, G] how often each group was drawn. The identity gives each group's own correlation.

    Returns:
        [3, B] in the order of `CORRELATIONS`; 0.0 where a resample is constant.
    """
    if not len(judge):
        return np.zeros((3, len(weights)))
    data = _Pairs(judge, human, groups, weights.shape[1])
    weights = weights.astype(np.float64)
    return np.stack([data.pearson(weights), data.spearman(weights), data.kendall(weights)])


class _Pairs:
    """The distinct pairs of scores, and how often each group holds each.

    J distinct pairs: with discrete scores far fewer than examples, at worst as many.
    """

    def __init__(self, judge: np.ndarray, human: np.ndarray, groups: np.ndarray, group_count: int) -> None:
        self.x, x = np.unique(np.asarray(judge, dtype=np.float64), return_inverse=True)
        self.y, y = np.unique(np.asarray(human, dtype=np.float64), return_inverse=True)
        codes, pair = np.unique(x * len(self.y) + y, return_inverse=True)
        self.jx, self.jy = np.divmod(codes, len(self.y))
        self.counts = sparse.csr_array(
            (np.ones(len(pair)), (np.asarray(groups), pair)), shape=(group_count, len(codes))
        )  # [G, J]; equal entries add up

    def pearson(self, weights: np.ndarray) -> np.ndarray:
        """Within-group and between-group scatter, added up: [B, G] -> [B].

        Plain moments would cancel where a resample varies far less than the data; this form is 0 exactly where a
        resample is constant.
        """
        size = self.counts.sum(axis=1)
        at = self.counts.tocoo()
        mass = weights * size
        total = np.maximum(mass.sum(axis=1), 1.0)
        # Deviations from a group that the resample holds: groups of equal means then differ from it by exactly 0.
        held = (mass > 0).argmax(axis=1)
        within, between = [], []
        for values in (self.x[self.jx], self.y[self.jy]):
            first = np.zeros(len(size))
            first[size > 0] = values[self.counts.indices[self.counts.indptr[:-1][size > 0]]]
            offsets = values[at.col] - first[at.row]
            rest = np.bincount(at.row, at.data * offsets, len(size)) / np.maximum(
                size, 1
            )  # mean - first, in each group
            within.append(offsets - rest[at.row])
            apart = (first - first[held, None]) + (rest - rest[held, None])
            between.append(apart - ((mass * apart).sum(axis=1) / total)[:, None])
        sums = []
        for a, b in ((0, 1), (0, 0), (1, 1)):
            inner = np.bincount(at.row, at.data * within[a] * within[b], len(size))
            sums.append(weights @ inner + (mass * between[a] * between[b]).sum(axis=1))
        return ratio(*sums)

    def spearman(self, weights: np.ndarray) -> np.ndarray:
        """Through the resample's mid-ranks: [B, G] -> [B].

        With w_k the weight of the k-th distinct value and n the sum, the mid-rank of k is (w_1 + ... + w_(k-1)) +
        (w_k + 1) / 2 and the mean rank (n + 1) / 2. Twice their difference is an integer, so all sums are exact.
        """
        parts = []
        for chunk in _chunks(weights, len(self.jx)):
            pairs = (self.counts.T @ chunk.T).T  # [b, J]
            a = _centered_ranks(_summed(pairs, self.jx, len(self.x)))
            b = _centered_ranks(_summed(pairs, self.jy, len(self.y)))
            a, b = a[:, self.jx], b[:, self.jy]
            wa = pairs * a
            parts.append(ratio((wa * b).sum(axis=1), (wa * a).sum(axis=1), (pairs * b * b).sum(axis=1)))
        return np.concatenate(parts) if parts else np.empty(0)

    def kendall(self, weights: np.ndarray) -> np.ndarray:
        """As quadratic forms of the weights: [B, G] -> [B].

        The sum over ordered pairs of examples of sign(x_i - x_j) * sign(y_i - y_j) is w' A w, with w the weights of the
        groups and A [G, G] that sum between two groups; or, as well, with w the weights of the distinct pairs of
        scores and A [J, J]. Pairs not tied in x, and those not tied in y, are such forms too, and
        tau-b = w' A w / sqrt(w' X w * w' Y w), in integers. Time goes as J * J + B * min(G, J)^2.
        """
        by_pair = len(self.jx) <= self.counts.shape[0]
        if by_pair:
            weights = (self.counts.T @ weights.T).T
        forms = np.zeros((3, *([self.counts.shape[0]] * 2))) if not by_pair else None
        sums = np.zeros((3, len(weights)))
        step = max(1, MOST_ENTRIES // len(self.jx))
        for start in range(0, len(self.jx), step):
            part = slice(start, start + step)
            sx = np.sign(self.jx[part, None] - self.jx[None, :]).astype(np.float64)
            sy = np.sign(self.jy[part, None] - self.jy[None, :]).astype(np.float64)
            for i, sign in enumerate((sx * sy, sx * sx, sy * sy)):
                if forms is None:
                    sums[i] += ((weights[:, part] @ sign) * weights).sum(axis=1)
                else:
                    forms[i] += self.counts[:, part] @ (self.counts @ sign.T).T
        if forms is not None:
            sums = np.stack([((weights @ form) * weights).sum(axis=1) for form in forms])
        return ratio(*sums)


def _summed(pairs: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    """[b, J] weights of pairs -> [b, count] weights of the values that `index` [J] names."""
    select = sparse.csr_array((np.ones(len(index)), (index, np.arange(len(index)))), shape=(count, len(index)))
    return np.asarray((select @ pairs.T).T)


def _centered_ranks(value_weights: np.ndarray) -> np.ndarray:
    """[b, K] weights of ascending values -> [b, K] twice their mid-ranks' distance from the mean rank."""
    upto = value_weights.cumsum(axis=1)
    return 2 * upto - value_weights - upto[:, -1:]


def _chunks(weights: np.ndarray, width: int) -> list[np.ndarray]:
    """Rows of `weights` [B, G] in parts [b, G] whose product with `width` columns stays small."""
    rows = max(1, MOST_ENTRIES // max(1, width))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]
