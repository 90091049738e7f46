"""How often each score of a range is given, and how far two such histograms are apart."""

from __future__ import annotations

import numpy as np
from scipy import special

from judgebench.types import ScoreRange

SMOOTHING = 0.5
"""Added to every count before `kl_divergence` takes shares: a score that was never given is rare, not impossible."""

_TIE = 1e-9  # means of experts and steps of a range carry rounding errors; a tie must stay a tie


def mapped(human: np.ndarray, scale: tuple[float, float], score_range: ScoreRange) -> np.ndarray | None:
    """Human scores [n], mapped linearly from the data's scale to the range; None where the scale has no length.

    Example:
        >>> mapped(np.array([1, 2.5, 5]), (1, 5), ScoreRange(0, 4)).tolist()
        [0.0, 1.5, 4.0]
    """
    low, high = scale
    if not low < high:
        return None
    share = (np.asarray(human, dtype=np.float64) - low) / (high - low)
    return score_range.minimum + share * (score_range.maximum - score_range.minimum)


def candidate_index(values: np.ndarray, score_range: ScoreRange) -> np.ndarray:
    """[n] int64 the position of the candidate nearest to each value; half up, never outside.

    Example:
        >>> candidate_index(np.array([1, 2.5, 9]), ScoreRange(1, 5)).tolist()
        [0, 2, 4]
    """
    steps = (np.asarray(values, dtype=np.float64) - score_range.minimum) / score_range.step
    nearest = np.floor(steps + 0.5 + _TIE).astype(np.int64)
    return np.clip(nearest, 0, len(score_range.values) - 1)


def histogram(values: np.ndarray, score_range: ScoreRange) -> np.ndarray:
    """[candidates] int64 how many of the values [n] lie nearest to each candidate."""
    return np.bincount(candidate_index(values, score_range), minlength=len(score_range.values))


def mode(values: np.ndarray, score_range: ScoreRange) -> tuple[float, float]:
    """The candidate nearest to most of the values [n], the lowest if several are, and the share of these values."""
    counts = histogram(values, score_range)
    return score_range.values[int(counts.argmax())], float(counts.max() / len(values))


def wasserstein(first: np.ndarray, second: np.ndarray, score_range: ScoreRange) -> float:
    """The Wasserstein-1 distance of two samples [n] on the range, normalized to [0, 1]: how far scores must move.

    Of samples of one size it is the mean distance of their sorted values.
    """
    width = score_range.maximum - score_range.minimum
    return float(np.abs(np.sort(first) - np.sort(second)).mean() / width)


def kl_divergence(first: np.ndarray, second: np.ndarray, score_range: ScoreRange) -> float:
    """KL(first || second) in nats of two samples' histograms over the candidates, smoothed by `SMOOTHING`."""
    p, q = (histogram(values, score_range) + SMOOTHING for values in (first, second))
    return float(special.rel_entr(p / p.sum(), q / q.sum()).sum())
