"""Correlations of resampled discrete scores: a resample is a weighted sum of its groups' contingency tables.

With Kx distinct scores of the judge and Ky of the humans, the table [Kx, Ky] of a group says all that the three
correlations need of it. A resample then costs at most G * Kx * Ky multiplications for its table and a few sums over
that, however many examples there are.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from judgebench.metrics.correlation import MOST_ENTRIES, ratio

MOST_CELLS = 300
"""Of a table; beyond, `DistinctPairs` is as fast."""

_CHUNK = 1 << 15  # entries of the tables at work on at a time: they stay in the processor's cache


class ContingencyTables:
    """How often each group holds each pair of a judge's and a human score."""

    def __init__(self, judge: np.ndarray, human: np.ndarray, groups: np.ndarray, group_count: int) -> None:
        """See `resampled_correlations` for the arguments; `fits` says whether this is the class for them."""
        self.x, x = np.unique(np.asarray(judge, dtype=np.float64), return_inverse=True)
        self.y, y = np.unique(np.asarray(human, dtype=np.float64), return_inverse=True)
        self.counts = sparse.csr_array(
            (np.ones(len(x)), (x * len(self.y) + y, np.asarray(groups))),
            shape=(len(self.x) * len(self.y), group_count),
        )  # [Kx * Ky, G]; equal entries add up
        self.shape = (len(self.x), len(self.y))
        self.above_x, self.above_y = _above(len(self.x)), _above(len(self.y))

    @staticmethod
    def fits(judge: np.ndarray, human: np.ndarray, group_count: int) -> bool:
        """Whether scores are few enough for tables."""
        cells = len(np.unique(judge)) * len(np.unique(human))
        return cells <= MOST_CELLS and cells * group_count <= MOST_ENTRIES

    def correlations(self, weights: np.ndarray) -> np.ndarray:
        """[B, G] weights, whole numbers >= 0 -> [3, B]; 0.0 where a resample is constant."""
        found = np.empty((3, len(weights)))
        step = max(64, _CHUNK // self.counts.shape[0])
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
