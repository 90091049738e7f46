"""Agreement of a judge's preferences between two texts with the humans', pair by pair, and the weight of the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from judgebench.stats.clusters import MOST_ENTRIES, Clusters, divided, unknown, with_intervals
from judgebench.stats.correlation import ratio

MEASURES = ("position_bias", "consistency", "human_agreement")
"""The numbers of `comparative` that have an interval."""

AGREEMENT_MEASURES = ("tau", "auc", "accuracy", "accuracy_calibrated")
"""The numbers of `Preferences.agreement` that have an interval."""

_EQUAL = 1e-9  # probabilities, or preferences, no farther apart differ by rounding alone


def preferred(preference: np.ndarray, tie: float = 0.0) -> np.ndarray:
    """[n] 1, 0 or -1: the side that is preferred by more than a tie."""
    return np.where(np.abs(preference) <= tie + _EQUAL, 0.0, np.sign(preference))


def comparative(first: np.ndarray, second: np.ndarray, human: np.ndarray, clusters: Clusters) -> dict[str, Any]:
    """Measures of pairs that were read in both orders, with 95 % percentile intervals.

    Args:
        first, second: [n] the probability that the judged text wins where it stands first, and where it stands second.
        human: [n] by how much the humans prefer it; NaN where nobody rated both texts.

    Returns:
        - position_bias: the probability that the text in place one wins, mean over pairs and orders, less 1/2;
        - consistency: share of pairs in which the same text wins in both orders; a pair with a tie in an order does not
          count among these;
        - decided_consistency: the same share of the pairs that both orders decide; tied_share: share of the others;
        - human_agreement: share of the pairs with a human preference in which the humans' text is the judge's winner,
          both orders averaged; undecided pairs count half;
        - pairs, preferred: numbers of pairs, and of those with a human preference.

        Each of `MEASURES` and decided_consistency with `_low` and `_high`; None where there is no such pair.

    Example:
        >>> first, second, human = np.array([0.9, 0.8]), np.array([0.6, 0.1]), np.array([1, 2])
        >>> record = comparative(first, second, human, Clusters.of(["a", "b"]))
        >>> [round(record[name], 3) for name in MEASURES]
        [0.25, 0.5, 0.5]
    """
    if not len(first):
        return {"pairs": 0, "preferred": 0} | unknown((*MEASURES, "decided_consistency")) | {"tied_share": None}
    side = preferred(np.nan_to_num(human))
    winners = [preferred(order - 0.5) for order in (first, second)]
    decided, same = (winners[0] != 0) & (winners[1] != 0), (winners[0] == winners[1]).astype(float)
    figures = {
        "position_bias": clusters.mean((first - second) / 2),
        "consistency": clusters.mean(same * decided),
        "human_agreement": clusters.mean((1 + preferred((first + second) / 2 - 0.5) * side) / 2, side != 0),
        "decided_consistency": clusters.mean(same, decided),
    }
    record: dict[str, Any] = {"pairs": len(first), "preferred": int((side != 0).sum())}
    return record | with_intervals(figures) | {"tied_share": float(1 - decided.mean())}


@dataclass(frozen=True)
class Preferences:
    """Pairs of texts with what judge and humans say of them.

    Attributes:
        judge: [n] by how much the judge prefers the first of the two, -1/2 to 1/2.
        human: [n] by how much the humans do, on any scale; finite.
        share: [n] how much of a pair each row is: a half where the same two texts stand there twice.
        clusters: of the n pairs.
        tie: humans that prefer a text by no more than this prefer neither.
    """

    judge: np.ndarray
    human: np.ndarray
    share: np.ndarray
    clusters: Clusters
    tie: float = 0.0

    @property
    def sides(self) -> np.ndarray:
        """[n] 1 where the humans prefer the first text, -1 where the second, 0 where neither."""
        return preferred(self.human, self.tie)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """[1 + B] sums of values over the pairs."""
        return self.clusters.sums(self.share * values)

    def agreement(self, threshold: float | None) -> dict[str, Any]:
        """Agreement of judge and humans; `threshold`: up to which the judge's preferences are ties in
        `accuracy_calibrated`, see `best_threshold`.

        Returns:
            - tau: Kendall's tau-b of the two preferences' signs, over pairs of texts;
            - auc: the chance that the judge's preference for a text over its rival is greater where the humans prefer
              the text than where they prefer the rival; ties count half;
            - accuracy: share of pairs in which both name one text, or both a tie (Deutsch, Foster and Freitag, "Ties
              Matter", 2023: acc_eq); accuracy_calibrated: the same with the judge's ties by threshold;
            - tie_threshold: that threshold; human_tie_share, judge_tie_share: shares of pairs that are ties;
            - rated: distinct pairs.

            Each of `AGREEMENT_MEASURES` with `_low` and `_high`; None where nothing is known.
        """
        sides, winners = self.sides, preferred(self.judge)
        total, agree = self.sums(np.ones(len(sides))), self.sums(sides * winners)
        of_judge, of_humans = (self.sums(np.abs(side)) for side in (winners, sides))
        nothing = np.full(len(total), np.nan)
        figures = {
            "tau": np.where(total > 0, ratio(agree, of_judge, of_humans), np.nan),
            "auc": self._auc(),
            "accuracy": divided(self.sums(1.0 * (winners == sides)), total),
            "accuracy_calibrated": nothing,
        }
        if threshold is not None:
            figures["accuracy_calibrated"] = divided(
                self.sums(1.0 * (preferred(self.judge, threshold) == sides)), total
            )
        record: dict[str, Any] = {"rated": float(total[0])} | with_intervals(figures) | {"tie_threshold": threshold}
        for name, decided in (("human_tie_share", of_humans), ("judge_tie_share", of_judge)):
            record[name] = float(1 - decided[0] / total[0]) if total[0] > 0 else None
        return record

    def agreed(self, rows: np.ndarray) -> dict[str, Any]:
        """Of some rows in which the humans prefer a text, the share in which the judge names it: preferred (how many),
        agreement with `_low` and `_high`."""
        sides = self.sides * rows
        total = self.sums(np.abs(sides))
        right = self.sums((1 + preferred(self.judge) * sides) / 2 * np.abs(sides))
        return {"preferred": float(total[0])} | with_intervals({"agreement": divided(right, total)})

    def _auc(self) -> np.ndarray:
        """[1 + B] areas under the curve, each pair seen from both its texts; NaN where the humans prefer nothing."""
        weights, rows = self.clusters.weights, self.sides != 0
        towards = np.round(self.judge * self.sides, 12)[rows]  # how far the judge leans to the humans' text
        values = np.unique(np.concatenate([towards, -towards, [0.0]]))
        places = (np.searchsorted(values, towards), self.clusters.number[rows])
        counts = sparse.csr_array(sparse.coo_array((self.share[rows], places), shape=(len(values), weights.shape[1])))
        areas = np.full(len(weights), np.nan)
        chunk = max(1, MOST_ENTRIES // len(values))
        for start in range(0, len(weights), chunk):
            positive = (counts @ weights[start : start + chunk].T).T
            negative = positive[:, ::-1]  # the same pairs from their other texts, for the values are symmetric
            below = negative.cumsum(axis=1) - negative / 2
            areas[start : start + chunk] = divided((positive * below).sum(axis=1), positive.sum(axis=1) ** 2)
        return areas


def best_threshold(preferences: Preferences) -> float | None:
    """Up to where a judge's preference is best called a tie, by accuracy over the pairs (Deutsch et al. 2023).

    Tried are 0 and every preference that the judge has; of equally good ones the least is taken. None without pairs.

    Example:
        >>> judge, human = np.array([0.4, 0.02, -0.3, -0.01]), np.array([1.0, 0.0, -1.0, 0.0])
        >>> best_threshold(Preferences(judge, human, np.ones(4), Clusters.of(list("aabb"))))
        0.02
    """
    if not len(preferences.judge):
        return None
    size, sides = np.round(np.abs(preferences.judge), 9), preferences.sides
    order = np.argsort(size, kind="stable")
    share = preferences.share[order]
    tie = (sides == 0)[order] * share
    right = np.where(size <= _EQUAL, 0.0, preferred(preferences.judge) == sides)[order] * share
    # with the k smallest as ties: their ties are right, and of the others those that name the humans' text
    good = np.append(0.0, tie.cumsum()) + right.sum() - np.append(0.0, right.cumsum())
    sizes = np.append(0.0, size[order])
    candidates = np.flatnonzero(np.append(sizes[1:] > sizes[:-1], True))  # equal ones are ties together
    return float(sizes[candidates[np.argmax(np.round(good[candidates], 9))]])
