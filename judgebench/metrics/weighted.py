"""Correlations of resampled data, from how often each group was drawn: a row of whole weights a resample, [B, G].

They follow from the weights without ever building the resampled data, exactly (not approximately) as if it had been
built. One example's weight is its group's. Discrete scores take contingency tables: with Kx distinct scores of the
judge and Ky of the humans, the table [Kx, Ky] of a group says all that the three correlations need of it. A resample
then costs at most G * Kx * Ky multiplications for its table and a few sums over that, however many examples there are.
Others go over the distinct pairs of scores.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from judgebench.metrics.correlation import MOST_ENTRIES, ratio

MOST_CELLS = 300
"""Of a table; beyond, `DistinctPairs` is as fast."""

_TABLE_CHUNK = 1 << 15  # entries of the tables at work on at a time: they stay in the processor's cache


class ContingencyTables:
    """Counts, by group, of each pair of a judge's and a human score."""

    def __init__(self, judge: np.ndarray, human: np.ndarray, groups: np.ndarray, group_count: int) -> None:
        """See `resampled_correlations` for the arguments; `fits` says whether this is the class for them."""
        self.x, x = np.unique(np.asarray(judge, dtype=np.float64), return_inverse=True)
        self.y, y = np.unique(np.asarray(human, dtype=np.float64), return_inverse=True)
        self.counts = sparse.csr_array(
            (np.ones(len(x)), (x * len(self.y) + y, np.asarray(groups))), shape=(len(self.x) * len(self.y), group_count)
        )  # [Kx * Ky, G]; equal entries add up
        self.shape = (len(self.x), len(self.y))
        self.above_x, self.above_y = _above(len(self.x)), _above(len(self.y))

    @staticmethod
    def fits(judge: np.ndarray, human: np.ndarray, group_count: int) -> bool:
        """True where scores are few enough for tables."""
        cells = len(np.unique(judge)) * len(np.unique(human))
        return cells <= MOST_CELLS and cells * group_count <= MOST_ENTRIES

    def correlations(self, weights: np.ndarray) -> np.ndarray:
        """[B, G] weights, whole numbers >= 0 -> [3, B]; 0.0 where a resample is constant."""
        found = np.empty((3, len(weights)))
        step = max(64, _TABLE_CHUNK // self.counts.shape[0])
        for start in range(0, len(weights), step):
            drawn = weights[start : start + step].T.astype(np.float64, order="C")
            # A sparse product, though the tables are not: it is as fast here, and waits for no other thread.
            tables = (self.counts @ drawn).reshape(*self.shape, -1)
            found[:, start : start + step] = self._of(tables)
        return found

    def _of(self, tables: np.ndarray) -> np.ndarray:
        """[Kx, Ky, b] tables of b resamples -> [3, b]. Resamples lie innermost, so that every step is on long rows."""
        mx, my = tables.sum(axis=1), tables.sum(axis=0)
        n = my.sum(axis=0)

        dx, dy = _deviations(self.x, mx, n), _deviations(self.y, my, n)
        pearson = ratio(_product(tables, dx, dy), _squares(mx, dx), _squares(my, dy))

        # Twice the mid-ranks' distances from the mean rank, that is, how many stand below a score less how many above
        # it: whole numbers, so that all sums are exact.
        dx, dy = self.above_x @ mx, self.above_y @ my
        spearman = ratio(_product(tables, dx, dy), _squares(mx, dx), _squares(my, dy))

        # Ordered pairs of examples: those that x does not tie, those that y does not, and, from row to row of the
        # table, those that agree less those that disagree.
        agree, lower = np.zeros_like(n), np.zeros_like(my)
        for row in tables:
            agree += np.einsum("jb,jb->b", row, self.above_y @ lower)
            lower += row
        square = n * n
        kendall = ratio(2 * agree, square - (mx * mx).sum(axis=0), square - (my * my).sum(axis=0))
        return np.stack([pearson, spearman, kendall])


def _above(count: int) -> np.ndarray:
    """[K, K] 1 where the row's place lies above the column's, -1 where below."""
    place = np.arange(count)
    return np.sign(place[:, None] - place).astype(np.float64)


def _deviations(values: np.ndarray, counts: np.ndarray, n: np.ndarray) -> np.ndarray:
    """[K] values, [K, b] how often each stands there, [b] the sums of it -> [K, b] distances from the resample's mean.

    First to a value that the resample holds: one that is constant then differs from itself by exactly 0.
    """
    apart = values[:, None] - values[(counts > 0).argmax(axis=0)]
    return apart - (counts * apart).sum(axis=0) / np.maximum(n, 1.0)


def _product(tables: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """[Kx, Ky, b], [Kx, b], [Ky, b] -> [b] the sums over tables of count * dx * dy."""
    return np.einsum("ib,ib->b", np.einsum("ijb,jb->ib", tables, dy), dx)


def _squares(counts: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """[K, b] and [K, b] -> [b] the sums of count * deviation^2."""
    return np.einsum("kb,kb,kb->b", counts, deviations, deviations)


_PAIR_CHUNK = 1 << 18  # entries at work on at a time: they stay near the processor


class DistinctPairs:
    """The distinct pairs of scores, and how often each group holds each.

    J distinct pairs, sorted by the judge's score: with discrete scores far fewer than examples, at worst as many.
    """

    def __init__(self, judge: np.ndarray, human: np.ndarray, groups: np.ndarray, group_count: int) -> None:
        """See `resampled_correlations` for the arguments."""
        self.x, x = np.unique(np.asarray(judge, dtype=np.float64), return_inverse=True)
        self.y, y = np.unique(np.asarray(human, dtype=np.float64), return_inverse=True)
        codes, pair = np.unique(x * len(self.y) + y, return_inverse=True)
        self.jx, self.jy = np.divmod(codes, len(self.y))
        self.counts = sparse.csr_array(
            (np.ones(len(pair)), (np.asarray(groups), pair)), shape=(group_count, len(codes))
        )  # [G, J]; equal entries add up
        self.of_x, self.of_y = _select(self.jx, len(self.x)), _select(self.jy, len(self.y))

    def correlations(self, weights: np.ndarray) -> np.ndarray:
        """[B, G] weights, whole numbers >= 0 -> [3, B]; 0.0 where a resample is constant."""
        weights = weights.astype(np.float64)
        spearman, untied_x, untied_y = self._ranked(weights)
        kendall = ratio(self._agreeing(weights), untied_x, untied_y)
        return np.stack([self._pearson(weights), spearman, kendall])

    def spearman(self, weights: np.ndarray) -> np.ndarray:
        """Spearman's rho alone, at a fraction of the time: [B, G] -> [B]; 0.0 where a resample is constant."""
        return self._ranked(weights.astype(np.float64))[0]

    def _pearson(self, weights: np.ndarray) -> np.ndarray:
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

    def _ranked(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Spearman's rho through the resample's mid-ranks, and ordered pairs not tied in x, and in y: [B, G] -> [B].

        With w_k the weight of the k-th distinct value and n the sum, the mid-rank of k is (w_1 + ... + w_(k-1)) +
        (w_k + 1) / 2 and the mean rank (n + 1) / 2. Twice their difference is an integer, so all sums are exact.
        Resamples lie innermost, so that every step is on long rows.
        """
        found = np.empty((3, len(weights)))
        pairs_of, step = self.counts.T.tocsr(), max(16, _PAIR_CHUNK // len(self.jx))
        for start in range(0, len(weights), step):
            pairs = pairs_of @ np.ascontiguousarray(weights[start : start + step].T)  # [J, b]
            mx, my = self.of_x @ pairs, self.of_y @ pairs
            a, b = _centered_ranks(mx), _centered_ranks(my)
            pairs *= a[self.jx]
            product = np.einsum("jb,jb->b", self.of_y @ pairs, b)
            here = slice(start, start + step)
            found[0, here] = ratio(product, np.einsum("kb,kb,kb->b", mx, a, a), np.einsum("kb,kb,kb->b", my, b, b))
            square = mx.sum(axis=0) ** 2
            found[1, here] = square - np.einsum("kb,kb->b", mx, mx)
            found[2, here] = square - np.einsum("kb,kb->b", my, my)
        return found[0], found[1], found[2]

    def _agreeing(self, weights: np.ndarray) -> np.ndarray:
        """Ordered pairs of examples that agree less those that disagree, as a quadratic form: [B, G] -> [B].

        The sum of sign(x_i - x_j) * sign(y_i - y_j) over ordered pairs is w' A w, with w the weights of the groups and
        A [G, G] that sum between two groups; or, as well, with w the weights of the distinct pairs of scores and
        A [J, J]. Time goes as J * J + B * min(G, J)^2, in integers.
        """
        by_pair = len(self.jx) <= self.counts.shape[0]
        if by_pair:
            weights = (self.counts.T @ weights.T).T
        sums = np.zeros(len(weights))
        form = np.zeros((self.counts.shape[0],) * 2)
        step = max(1, MOST_ENTRIES // len(self.jx))
        x, y = _short(self.jx), _short(self.jy)
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            signs = (_signs(x, part) * _signs(y, part)).astype(np.float64)  # [J, j]
            if by_pair:
                sums += ((weights @ signs) * weights[:, part]).sum(axis=1)
            else:
                form += self.counts[:, part] @ (self.counts @ signs).T
        return sums if by_pair else ((weights @ form) * weights).sum(axis=1)


def _short(index: np.ndarray) -> np.ndarray:
    """The same whole numbers in the shortest type: a comparison of all with all waits for memory alone."""
    return index.astype(np.min_scalar_type(index.max()))


def _signs(index: np.ndarray, part: slice) -> np.ndarray:
    """[J] -> [J, j] int8 the signs of `index` less `index[part]`."""
    all_, here = index[:, None], index[part]
    return (all_ > here).view(np.int8) - (all_ < here).view(np.int8)


def _select(index: np.ndarray, count: int) -> sparse.csr_array:
    """[count, J] what sums rows of pairs [J, b] into rows of the values that `index` [J] names."""
    return sparse.csr_array((np.ones(len(index)), (index, np.arange(len(index)))), shape=(count, len(index)))


def _centered_ranks(value_weights: np.ndarray) -> np.ndarray:
    """[K, b] weights of ascending values -> [K, b] twice their mid-ranks' distance from the mean rank."""
    upto = value_weights.cumsum(axis=0)
    return 2 * upto - value_weights - upto[-1]


def resampled_correlations(judge: np.ndarray, human: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlations [3, B] of each resample's examples, in the order of `CORRELATIONS`; 0.0 where a resample is
    constant.

    Discrete scores take `ContingencyTables`, others `DistinctPairs`; both give the same to rounding.

    Args:
        groups: [N] the group of each example, numbered 0 to G - 1.
        weights: [B, G] how often each group was drawn. The identity gives each group's own correlation.
    """
    if not len(judge) or not len(weights):
        return np.zeros((3, len(weights)))
    fitting = ContingencyTables.fits(judge, human, weights.shape[1])
    data = (ContingencyTables if fitting else DistinctPairs)(judge, human, groups, weights.shape[1])
    return data.correlations(weights)
