"""Permutation tests of paired differences, their correction for several comparisons, and how many
groups a difference takes to be seen.

The tests change the signs of what independent groups contribute to a difference, not the scores,
which two judges need not give on one scale: Canay, Romano and Shaikh, "Randomization Tests Under an
Approximate Symmetry Assumption" (Econometrica 2017).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import FEWEST, MOST_ENTRIES, SIGNIFICANCE
from judgebench.types import Array

PERMUTATIONS = 20_000
"""Flips behind a p-value: as small a p as 1 / 20,001 survives Holm's correction over 1,000
comparisons."""

_POWER = 0.8  # the chance to see a difference that is there
_ROUNDING = 1e-10  # statistics no farther apart differ by rounding alone


@lru_cache(maxsize=8)
def flips(groups: int, permutations: int = PERMUTATIONS, seed: int = 0) -> tuple[Array, bool]:
    """In which groups the two judges change places: [P, groups] of 0 and 1, and whether these are
    all there are.

    All 2^groups (the unchanged data among them) where that is at most `permutations`, else so many,
    drawn at random.
    """
    if groups < 63 and 2**groups <= permutations:
        # the binary digits of 0 to 2^G - 1 are all ways to flip; 0 flips nothing
        flipped = ((np.arange(2**groups)[:, None] >> np.arange(groups)) & 1).astype(np.int8)
        exact = True
    else:
        # another stream than the resamples', which are drawn with the same seed
        flipped = np.random.default_rng([seed, 1]).integers(
            0, 2, (permutations, groups), dtype=np.int8
        )
        exact = False
    flipped.flags.writeable = False  # shared by all callers
    return flipped, exact


def flipped_differences(values: Array, jackknife: Array, flipped: Array) -> Array:
    """The differences [S, P] of two judges' S correlations, `values` [S] and with each group left
    out `jackknife` [S, G], after the sign of some groups' shares in it is flipped, `flipped` [P,
    G].

    A group's share is the difference itself and how far it falls when the group is left out (its
    influence, by the jackknife): the shares' mean is the difference. Where neither judge is better,
    a share is as likely of either sign. At document level this is what swapping the judges' scores
    in whole articles does. At others, swapping scores mixes two judges' ties and loses power where
    these differ; `scripts/simulate.py` has size and power of both.

    Example:
        >>> shares = np.array([1.0, 2.0, 6.0])  # their mean is the difference, 3
        >>> without = (shares.sum() - shares) / 2
        >>> flipped_differences(np.array([3.0]), without[None], np.array([[0, 0, 0], [0, 0, 1]])).tolist()
        [[3.0, -1.0]]
    """
    groups = jackknife.shape[1]
    # The jackknife's pseudo-values, centered: of a mean over groups they are the groups' own
    # differences, of any other statistic its linear part.
    shares = values[:, None] + (groups - 1) * (jackknife.mean(axis=1, keepdims=True) - jackknife)
    return flipped_means(shares, flipped)


def flipped_means(shares: Array, flipped: Array) -> Array:
    """The means [S, P] of the groups' shares [S, G] after the signs of some are flipped, `flipped`
    [P, G]."""
    groups = shares.shape[1]
    step = max(1, MOST_ENTRIES // groups)
    # a flip takes twice the flipped shares from the sum: one product for all flips
    parts = [shares @ flipped[start : start + step].T for start in range(0, len(flipped), step)]
    return (shares.sum(axis=1, keepdims=True) - 2 * np.hstack(parts)) / groups


def permutation_p_value(observed: float, permuted: Array, exact: bool) -> float:
    """The two-sided p: the share of the permuted differences [P] at least as far from 0 as the
    observed one.

    Where they are not all there are, the data itself counts as one more, so that p is never 0 and
    the test keeps its level (Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010).
    """
    # the data among the flips must count, though their sum was taken in another order
    as_far = int((np.abs(permuted) >= abs(observed) - _ROUNDING).sum())
    return as_far / len(permuted) if exact else (as_far + 1) / (len(permuted) + 1)


def paired_p_values(values: Array, jackknife: Array, seed: int = 0) -> list[float]:
    """The p of each of S differences, see `flipped_differences` for both arguments."""
    flipped, exact = flips(jackknife.shape[1], PERMUTATIONS, seed)
    permuted = flipped_differences(values, jackknife, flipped)
    pairs = zip(values.tolist(), permuted, strict=True)
    return [permutation_p_value(value, part, exact) for value, part in pairs]


def holm(p_values: Array) -> Array:
    """p-values [m], corrected so that the risk of any false finding among the m stays at the level;
    Holm (1979).

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(12).tolist()
        [0.03, 0.06, 0.06]
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    times = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    # the j-th smallest of m counts m - j + 1 times, and no later one counts less
    corrected[order] = np.maximum.accumulate(p_values[order] * times)
    return np.minimum(corrected, 1.0)


def groups_needed(difference: float, standard_error: float, groups: int) -> int | None:
    """The groups, at least `FEWEST`, with which a true difference of this size is distinguished
    from 0 with 80 % power at 5 % two-sided; None for no difference at all. One just observed is
    uncertain, and so is the result.

    The standard error falls as 1 / sqrt(groups), and the power is 80 % where the difference is
    1.960 + 0.842 = 2.802 times its standard error (the normal approximation). That of the cluster
    bootstrap, over `groups` (at least 2), has n instead of n - 1 in the denominator, which is put
    right. Holm's correction of several comparisons asks for more.

    Example:
        >>> groups_needed(0.05, 0.05, 10_000)
        78497
    """
    if abs(difference) < 1e-9:
        return None
    spread = standard_error * groups / math.sqrt(groups - 1)  # of a single group
    return max(FEWEST, math.ceil((times_noticed() * spread / difference) ** 2))


def times_noticed() -> float:
    """The standard errors of a difference that is told from 0 with 80 % power at 5 % two-sided.

    Example:
        >>> round(times_noticed(), 3)
        2.802
    """
    level = scipy.special.ndtri(1 - SIGNIFICANCE / 2)
    return float(level + scipy.special.ndtri(_POWER))
