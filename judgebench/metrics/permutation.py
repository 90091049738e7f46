"""The paired permutation test of two judges: whose scores are whose, article by article, is what chance decides."""

from __future__ import annotations

import numpy as np

from judgebench.metrics.levels import correlations_at

_EQUAL = 1e-10  # statistics no farther apart differ by rounding alone


def swaps(groups: int, permutations: int, seed: int) -> tuple[np.ndarray, bool]:
    """In which groups the two judges change places: [P, groups] of 0 and 1, and whether these are all there are.

    All 2^groups (the unchanged data among them) where that is at most `permutations`, else so many, drawn at random.
    """
    if groups < 63 and 2**groups <= permutations:
        return (np.arange(2**groups)[:, None] >> np.arange(groups)) & 1, True
    # Another stream than the resamples', which are drawn with the same seed.
    return np.random.default_rng([seed, 1]).integers(0, 2, (permutations, groups)), False


def swapped_differences(
    level: str,
    first: np.ndarray,
    second: np.ndarray,
    human: np.ndarray,
    group: np.ndarray,
    system: np.ndarray,
    swapped: np.ndarray,
) -> np.ndarray:
    """first - second of each correlation after each swap of the judges' scores, whole groups at a time.

    Scores are standardized before, each judge's to mean 0 and variance 1: judges that differ in location and spread
    alone, which no correlation sees, are then the same (Deutsch, Dror and Roth, "A Statistical Analysis of
    Summarization Evaluation Metrics Using Resampling Methods", TACL 2021).

    Args:
        level: see `correlations_at`.
        first, second, human: [N] the judges' and the humans' scores of the same examples.
        group, system: [N] numbered from 0, without gaps.
        swapped: [P, G] of 0 and 1.

    Returns:
        [3, P] in the order of `CORRELATIONS`.
    """
    groups = swapped.shape[1]
    # Both judges' groups stand side by side; a swap takes each group from the one or from the other.
    both = np.concatenate([_standardized(first), _standardized(second)])
    twice = (np.tile(human, 2), np.concatenate([group, group + groups]), np.tile(system, 2))
    weights = np.block([[1 - swapped, swapped], [swapped, 1 - swapped]])
    found = correlations_at(level, both, *twice, weights)
    return found[:, : len(swapped)] - found[:, len(swapped) :]


def p_value(observed: float, permuted: np.ndarray, exact: bool) -> float:
    """The two-sided p: the share of the permuted differences [P] at least as far from 0 as the observed one.

    Where they are not all there are, the data itself counts as one more, so that p is never 0 and the test keeps its
    level (Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010).
    """
    as_far = int((np.abs(permuted) >= abs(observed) - _EQUAL).sum())
    return as_far / len(permuted) if exact else (as_far + 1) / (len(permuted) + 1)


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values [m], corrected so that the risk of any false finding among the m stays at the level; Holm (1979).

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(12).tolist()
        [0.03, 0.06, 0.06]
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def _standardized(values: np.ndarray) -> np.ndarray:
    """[N] at mean 0 and variance 1, to 12 digits: scores that are the same up to location and spread must tie."""
    spread = np.std(values)
    return np.round((values - values.mean()) / spread, 12) if np.ptp(values) > 0 else np.zeros(len(values))
