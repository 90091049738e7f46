"""The paired permutation test of two judges: for which of them each article speaks is what chance decides.

After Canay, Romano and Shaikh, "Randomization Tests Under an Approximate Symmetry Assumption" (Econometrica 2017): the
signs of what independent groups contribute change, not the scores, which two judges need not give on one scale.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from judgebench.metrics.correlation import MOST_ENTRIES
from judgebench.metrics.intervals import Resampled

_EQUAL = 1e-10  # statistics no farther apart differ by rounding alone


PERMUTATIONS = 20_000
"""Flips behind a p-value: as small a p as 1 / 20,001 survives Holm's correction over 1,000 comparisons."""


@lru_cache(maxsize=8)
def flips(groups: int, permutations: int = PERMUTATIONS, seed: int = 0) -> tuple[np.ndarray, bool]:
    """In which groups the two judges change places: [P, groups] of 0 and 1, and whether these are all there are.

    All 2^groups (the unchanged data among them) where that is at most `permutations`, else so many, drawn at random.
    """
    if groups < 63 and 2**groups <= permutations:
        found, exact = ((np.arange(2**groups)[:, None] >> np.arange(groups)) & 1).astype(np.int8), True
    else:
        # Another stream than the resamples', which are drawn with the same seed.
        found = np.random.default_rng([seed, 1]).integers(0, 2, (permutations, groups), dtype=np.int8)
        exact = False
    found.flags.writeable = False  # shared by all who ask
    return found, exact


def flipped_differences(difference: Resampled, flipped: np.ndarray) -> np.ndarray:
    """The difference of two judges' correlations after the sign of some groups' shares in it is flipped.

    A group's share is the difference itself and how far it falls when the group is left out (its influence, by the
    jackknife): the shares' mean is the difference. Where neither judge is better, a share is as likely of either sign.
    At document level this is what swapping the judges' scores in whole articles does. At others, swapping scores mixes
    two judges' ties and loses power where these differ; `scripts/simulate_tests.py` has size and power of both.

    Args:
        difference: of S statistics, see `Resampled.minus`; its jackknife has G columns.
        flipped: [P, G] of 0 and 1.

    Returns:
        [S, P].
    """
    apart = difference.jackknife.mean(axis=1, keepdims=True) - difference.jackknife
    shares = difference.values[:, None] + (difference.jackknife.shape[1] - 1) * apart
    groups = shares.shape[1]
    step = max(1, MOST_ENTRIES // groups)
    parts = [shares @ flipped[start : start + step].T for start in range(0, len(flipped), step)]
    return (shares.sum(axis=1, keepdims=True) - 2 * np.hstack(parts)) / groups


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
