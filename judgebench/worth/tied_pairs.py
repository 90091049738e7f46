"""Accuracy of a judge over pairs of texts of one article, where ties count: Deutsch, Foster and Freitag, "Ties Matter:
Meta-Evaluating Modern Metrics with Pairwise Accuracy and Tie Calibration" (EMNLP 2023)."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from judgebench.metrics.correlation import MOST_ENTRIES

_DIGITS = 12  # of the largest difference, to which differences are rounded: those equal in truth must tie


class TiedPairs:
    """All pairs of texts of one article, by how far apart the judge's two scores are.

    A pair counts where judge and humans order it alike, or both tie it; the judge ties scores no farther apart than a
    threshold. An article's accuracy is the share of its pairs that count, and the whole their mean over articles.
    """

    def __init__(self, judge: np.ndarray, human: np.ndarray, group: np.ndarray) -> None:
        """Judge and human [N], and the articles [N] numbered from 0.

        Scores equal but for rounding tie.
        """
        self.groups = int(group.max(initial=-1)) + 1
        judge, human, group = (np.asarray(one) for one in (judge, human, group))
        order = np.argsort(group, kind="stable")
        borders = np.searchsorted(group[order], np.arange(self.groups + 1))
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for g in range(self.groups):
            rows = order[borders[g] : borders[g + 1]]
            first, second = (rows[side] for side in np.triu_indices(len(rows), 1))
            parts.append((judge[first] - judge[second], human[first] - human[second], np.full(len(first), g)))
        none = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
        ours, theirs, self.group = (np.concatenate(side) for side in zip(none, *parts, strict=True))
        ours, theirs = (_rounded(side) for side in (ours, theirs))
        self.pairs = np.bincount(self.group, minlength=self.groups)
        self.thresholds, self.place = np.unique(np.concatenate([[0.0], np.abs(ours)]), return_inverse=True)
        self.place = self.place[1:]
        # With a threshold at or above its distance a pair is tied: right if the humans tie it, too.
        self.ordered = (ours != 0) & (np.sign(ours) == np.sign(theirs))
        self.gained = (theirs == 0).astype(np.float64) - self.ordered

    def accuracies(self, weights: np.ndarray) -> np.ndarray:
        """[K, B] the mean over articles, as often as each row of weights [B, G] counts them, of the accuracy at each of
        `thresholds`; NaN in a row without an article that has a pair."""
        share = 1 / np.maximum(self.pairs, 1)
        shape = len(self.thresholds), self.groups
        # Sparse: of scores that are never equal there are as many thresholds as pairs, each of one article.
        gained = sparse.csr_array((self.gained * share[self.group], (self.place, self.group)), shape=shape)
        untied = np.bincount(self.group, self.ordered, self.groups) * share
        drawn = weights.T.astype(np.float64)
        sums = (gained @ drawn).cumsum(axis=0) + untied @ drawn
        mass = (self.pairs > 0) @ drawn
        return np.divide(sums, mass, out=np.full_like(sums, np.nan), where=mass > 0)

    def best(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The threshold with the best accuracy in the data, the first row of weights [1 + B, G], and the best
        accuracy [1 + B] in each row: the threshold is chosen anew. NaN where no article has a pair."""
        first = self.accuracies(weights[:1])[:, 0]
        if np.isnan(first).any():
            return 0.0, np.full(len(weights), np.nan)
        step = max(1, MOST_ENTRIES // len(first))
        parts = [self.accuracies(weights[start : start + step]).max(axis=0) for start in range(0, len(weights), step)]
        return float(self.thresholds[np.round(first, _DIGITS).argmax()]), np.concatenate(parts)


def _rounded(differences: np.ndarray) -> np.ndarray:
    """Differences equal but for rounding are equal, and those next to 0 are 0."""
    spread = np.abs(differences).max(initial=0.0)
    digits = _DIGITS - 2 - int(np.ceil(np.log10(spread))) if spread > 0 else _DIGITS
    return np.round(differences, digits) + 0.0
