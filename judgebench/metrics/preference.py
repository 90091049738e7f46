"""Whether a judge's preference between two texts is the humans': pair by pair, ties included."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from judgebench.metrics.correlation import MOST_ENTRIES, ratio
from judgebench.metrics.group_means import with_interval

MEASURES = ("tau", "auc", "accuracy", "accuracy_calibrated")
"""The numbers of `Preferences.agreement` that have an interval."""

_EQUAL = 1e-9  # preferences no farther apart differ by rounding alone


@dataclass(frozen=True)
class Preferences:
    """Pairs of texts with what judge and humans say of them.

    Attributes:
        judge: [n] by how much the judge prefers the first of the two, -1/2 to 1/2: its score less 1/2.
        human: [n] by how much the humans do, on any scale; finite.
        share: [n] how much of a pair each row is: a half where the same two texts stand there twice.
        group: [n] 0 to G - 1.
        tie: humans that prefer a text by no more than this prefer neither.
    """

    judge: np.ndarray
    human: np.ndarray
    share: np.ndarray
    group: np.ndarray
    tie: float = 0.0

    def of(self, rows: np.ndarray) -> Preferences:
        """Some of the rows."""
        return Preferences(self.judge[rows], self.human[rows], self.share[rows], self.group[rows], self.tie)

    @property
    def sides(self) -> np.ndarray:
        """[n] 1 where the humans prefer the first text, -1 where the second, 0 where neither."""
        return np.where(np.abs(self.human) <= self.tie + _EQUAL, 0.0, np.sign(self.human))

    def winners(self, threshold: float = 0.0) -> np.ndarray:
        """[n] the same of the judge, whose preferences up to a threshold are ties."""
        return np.where(np.abs(self.judge) <= threshold + _EQUAL, 0.0, np.sign(self.judge))

    def agreement(self, weights: np.ndarray, threshold: float | None) -> dict[str, Any]:
        """How far judge and humans prefer alike, with 95 % percentile intervals.

        Args:
            weights: [1 + B, G] how often each group counts, in the data first.
            threshold: up to which the judge's preferences are ties in `accuracy_calibrated`, see `best_threshold`;
                None where none could be chosen.

        Returns:
            - tau: Kendall's tau-b of the two preferences' signs, over pairs of texts: concordant less discordant pairs
              by the geometric mean of how many either side decides;
            - auc: the chance that the judge's preference for a text over its rival is greater where the humans prefer
              the text than where they prefer the rival; ties count half;
            - accuracy: share of pairs in which both name one text, or both a tie (Deutsch, Foster and Freitag, "Ties
              Matter", 2023: acc_eq); accuracy_calibrated: the same with the judge's ties by threshold;
            - tie_threshold: that threshold; human_tie_share, judge_tie_share: shares of pairs that are ties;
            - rated: distinct pairs.

            Each of `MEASURES` with `_low` and `_high`; None where nothing is known.
        """
        sides, winners = self.sides, self.winners()
        product = sides * winners
        agree = self._sums(product, weights)
        decided = [self._sums(np.abs(side), weights) for side in (winners, sides)]
        total = self._sums(np.ones(len(sides)), weights)
        found = {
            "tau": np.where(decided[0] * decided[1] > 0, ratio(agree, *decided), np.where(total > 0, 0.0, np.nan)),
            "auc": self._auc(weights),
            "accuracy": self._accuracy(0.0, weights, total),
            "accuracy_calibrated": np.full(len(weights), np.nan)
            if threshold is None
            else self._accuracy(threshold, weights, total),
        }
        record: dict[str, Any] = {"rated": float(total[0])}
        for name in MEASURES:
            record |= with_interval(name, found[name])
        known = total[0] > 0
        return record | {
            "tie_threshold": threshold,
            "human_tie_share": float(1 - decided[1][0] / total[0]) if known else None,
            "judge_tie_share": float(1 - decided[0][0] / total[0]) if known else None,
        }

    def margins(self, bins: int, weights: np.ndarray) -> list[dict[str, Any]]:
        """How far they agree by how far apart the humans find the texts: bins with as many pairs each as can be.

        Returns:
            A record a bin, the closest first: above, up_to (of the humans' difference); pairs; agreement, the share in
            which the judge names the humans' text, undecided ones half, with `_low` and `_high`. Empty where the humans
            prefer nothing.
        """
        wide = np.where(self.sides != 0, np.abs(self.human), np.nan)
        known = np.isfinite(wide)
        if not known.any():
            return []
        # in the order of margins, a row holds its share of all; a bin ends where its part of that is full
        values, index = np.unique(np.round(wide[known], 9), return_inverse=True)
        mass = np.bincount(index, weights=self.share[known]).cumsum()
        ends = values[
            np.minimum(np.searchsorted(mass, mass[-1] * np.arange(1, bins + 1) / bins - _EQUAL), len(mass) - 1)
        ]
        edges = [0.0, *np.unique(ends).tolist()]
        found = []
        for low, high in pairwise(edges):
            rows = known & (wide > low + _EQUAL) & (wide <= high + _EQUAL)
            found.append({"above": low, "up_to": high} | self.of(rows).named(weights))
        return found

    def named(self, weights: np.ndarray) -> dict[str, Any]:
        """How often the judge names the humans' text, of the pairs in which they prefer one: pairs, agreement with
        `_low` and `_high`."""
        rows = self.of(self.sides != 0)
        right = (1 + rows.winners() * rows.sides) / 2
        total = rows._sums(np.ones(len(right)), weights)
        values = np.divide(rows._sums(right, weights), total, out=np.full(len(total), np.nan), where=total > 0)
        return {"pairs": float(total[0])} | with_interval("agreement", values)

    def _sums(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """[B] sums of values over the pairs."""
        return np.asarray(weights @ np.bincount(self.group, weights=self.share * values, minlength=weights.shape[1]))

    def _accuracy(self, threshold: float, weights: np.ndarray, total: np.ndarray) -> np.ndarray:
        same = (self.winners(threshold) == self.sides).astype(float)
        return np.divide(self._sums(same, weights), total, out=np.full(len(total), np.nan), where=total > 0)

    def _auc(self, weights: np.ndarray) -> np.ndarray:
        """[B] areas under the curve, each pair seen from both its texts; NaN where the humans prefer nothing."""
        sides = self.sides
        rows = sides != 0
        towards = np.round(self.judge * sides, 12)[rows]  # how far the judge leans to the humans' text
        values = np.unique(np.concatenate([towards, -towards, [0.0]]))
        held = (self.share[rows], (np.searchsorted(values, towards), self.group[rows]))
        counts = sparse.csr_array(sparse.coo_array(held, shape=(len(values), weights.shape[1])))
        found = np.full(len(weights), np.nan)
        chunk = max(1, MOST_ENTRIES // len(values))
        for start in range(0, len(weights), chunk):
            positive = (counts @ weights[start : start + chunk].T).T
            negative = positive[:, ::-1]  # the same pairs from their other texts, for the values are symmetric
            below = negative.cumsum(axis=1) - negative / 2
            total = positive.sum(axis=1)
            area = (positive * below).sum(axis=1)
            np.divide(area, total**2, out=found[start : start + chunk], where=total > 0)
        return found


def best_threshold(preferences: Preferences) -> float | None:
    """Up to where a judge's preference is best called a tie, by accuracy over the pairs (Deutsch et al. 2023).

    Tried are 0 and every preference that the judge has; of equally good ones the least is taken. None without pairs.

    Example:
        >>> judge, human = np.array([0.4, 0.02, -0.3, -0.01]), np.array([1.0, 0.0, -1.0, 0.0])
        >>> best_threshold(Preferences(judge, human, np.ones(4), np.zeros(4, dtype=int)))
        0.02
    """
    if not len(preferences.judge):
        return None
    size = np.round(np.abs(preferences.judge), 9)
    sides = preferences.sides
    order = np.argsort(size, kind="stable")
    share = preferences.share[order]
    tie = (sides == 0)[order] * share
    right = (preferences.winners() == sides)[order] * share
    right = np.where(size[order] <= _EQUAL, 0.0, right)
    # with the k smallest as ties: their ties are right, and of the others those that name the humans' text
    good = np.concatenate([[0.0], tie.cumsum()]) + right.sum() - np.concatenate([[0.0], right.cumsum()])
    sizes = np.concatenate([[0.0], size[order]])
    last = np.append(sizes[1:] > sizes[:-1], True)  # equal ones are ties together
    candidates = np.flatnonzero(last)
    best = candidates[np.argmax(np.round(good[candidates], 9))]
    return float(sizes[best])
