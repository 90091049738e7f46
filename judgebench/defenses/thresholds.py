"""Precision and recall of every threshold, and the threshold with the best F1 (CAP paper, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """Precision and recall of each cut, the lowest first: an attack is claimed of every text whose value lies above it.

    Attributes:
        thresholds: [cuts] float64, ascending: midway between two neighboring values; the first just below the lowest,
            so that all is claimed.
        precision: [cuts] float64: share of the attacked among what is claimed.
        recall: [cuts] float64: share of what is claimed among the attacked.
    """

    thresholds: np.ndarray
    precision: np.ndarray
    recall: np.ndarray

    @property
    def f1(self) -> np.ndarray:
        """[cuts] float64 harmonic mean of precision and recall."""
        return f1_of(self.precision, self.recall)

    @property
    def best(self) -> int:
        """The cut with the best F1; of equals the highest, which claims least."""
        return len(self.f1) - 1 - int(np.argmax(self.f1[::-1]))

    def thinned(self, maximum: int) -> ThresholdCurve:
        """At most so many of its cuts, evenly spaced, the best among them."""
        count = len(self.thresholds)
        kept = np.arange(count)
        if count > maximum:
            kept = np.unique(np.append(np.linspace(0, count - 1, maximum - 1).round().astype(int), self.best))
        return ThresholdCurve(self.thresholds[kept], self.precision[kept], self.recall[kept])


def threshold_curve(values: np.ndarray, attacked: np.ndarray) -> ThresholdCurve:
    """Precision and recall of every cut that tells two values apart.

    Both kinds of texts weigh the same in total, as where each attacked text has its clean one beside it. Otherwise the
    best F1 would depend on how many attacks there are: with three of them, claiming one of every text makes 0.86.

    Args:
        values: [texts] float64; NaN where a text has none: no cut claims an attack of it.
        attacked: [texts] bool; of both kinds there must be one with a value.
    """
    values, attacked = np.asarray(values, np.float64), np.asarray(attacked, bool)
    weights = _weights(attacked)
    known = ~np.isnan(values)
    total = float(weights[attacked].sum())
    ordered = np.argsort(values[known], kind="stable")
    known_values, weights, attacked = values[known][ordered], weights[known][ordered], attacked[known][ordered]
    levels, first = np.unique(known_values, return_index=True)
    # claimed at a cut is whatever stands from its level's first text on
    claimed = np.cumsum(weights[::-1])[::-1][first]
    found = np.cumsum((weights * attacked)[::-1])[::-1][first]
    middles = levels[:-1] + (levels[1:] - levels[:-1]) / 2
    middles = np.where(middles < levels[1:], middles, levels[:-1])  # between neighboring floats there is no middle
    return ThresholdCurve(np.append(np.nextafter(levels[0], -np.inf), middles), found / claimed, found / total)


@dataclass(frozen=True)
class DetectionMetrics:
    """Metrics of one threshold on texts, None where there is nothing to take a share of.

    Attributes:
        n_clean, n_attacked: texts, those without a value included.
        precision, recall, f1: both kinds of texts weigh the same in total, see `threshold_curve`.
        false_positive_rate: share of the clean texts of which an attack is claimed.
    """

    n_clean: int
    n_attacked: int
    precision: float | None
    recall: float | None
    f1: float | None
    false_positive_rate: float | None


def metrics_at(threshold: float, values: np.ndarray, attacked: np.ndarray) -> DetectionMetrics:
    """Metrics of a threshold.

    Args:
        values, attacked: see `threshold_curve`; either kind may lack.
    """
    values, attacked = np.asarray(values, np.float64), np.asarray(attacked, bool)
    claimed = values > threshold  # which NaN never is
    true, false = claimed[attacked], claimed[~attacked]
    recall = float(true.mean()) if len(true) else None
    rate = float(false.mean()) if len(false) else None
    precision = f1 = None
    if recall is not None and rate is not None:
        precision = recall / (recall + rate) if recall + rate else None
        f1 = float(f1_of(np.array(precision or 0.0), np.array(recall)))
    return DetectionMetrics(len(false), len(true), precision, recall, f1, rate)


def f1_of(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    """Harmonic mean of precision and recall, 0 where both are."""
    both = np.asarray(precision + recall)
    return np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)


def _weights(attacked: np.ndarray) -> np.ndarray:
    """[texts] float64: the weight of each text."""
    counts = {kind: max(1, int((attacked == kind).sum())) for kind in (True, False)}
    return np.where(attacked, 1 / counts[True], 1 / counts[False])
