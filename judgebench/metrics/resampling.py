"""Resampling by groups: bootstrap weights, intervals and standard errors, the paired permutation test and its power.

Articles are resampled, never single examples: the examples of an article share its difficulty, so they are drawn
together (a cluster bootstrap). A resample is a row of whole weights, how often each group was drawn, [B, G].

The permutation test of two judges changes the signs of what independent groups contribute, not the scores, which two
judges need not give on one scale: Canay, Romano and Shaikh, "Randomization Tests Under an Approximate Symmetry
Assumption" (Econometrica 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from judgebench.stats.clusters import CONFIDENCE as CONFIDENCE
from judgebench.stats.clusters import FEWEST as FEWEST
from judgebench.stats.clusters import MOST_ENTRIES
from judgebench.stats.clusters import RESAMPLES as RESAMPLES
from judgebench.stats.clusters import SIGNIFICANCE as SIGNIFICANCE
from judgebench.stats.clusters import divided as divided
from judgebench.stats.clusters import expanded as expanded
from judgebench.stats.clusters import group_weights as group_weights
from judgebench.stats.clusters import left_out as left_out
from judgebench.stats.clusters import percentile_interval as percentile_interval
from judgebench.stats.clusters import unknown as unknown
from judgebench.stats.clusters import weights_of as weights_of
from judgebench.stats.clusters import with_agreement_interval as with_agreement_interval
from judgebench.stats.clusters import with_interval as with_interval

_EQUAL = 1e-12  # values no farther apart differ by rounding alone


@dataclass(frozen=True)
class Resampled:
    """Statistics with their resamples.

    Attributes:
        values: [S] of the data.
        resampled: [S, B] of each resample of groups; [S, 0] with fewer than two groups, or without resamples.
        jackknife: [S, G] with each group left out in turn (see `left_out`); [S, 0] where `resampled` is.
    """

    values: np.ndarray
    resampled: np.ndarray
    jackknife: np.ndarray

    def intervals(self) -> list[tuple[float, float] | None]:
        """[S] the percentile intervals; see `percentile_interval`."""
        return [percentile_interval(row) for row in self.resampled]

    def bca_intervals(self) -> list[tuple[float, float] | None]:
        """[S] the BCa intervals; see `bca_interval`."""
        rows = zip(self.values, self.resampled, self.jackknife, strict=True)
        return [bca_interval(float(value), resampled, left_out) for value, resampled, left_out in rows]

    def standard_errors(self) -> list[float | None]:
        """[S] the standard deviations over resamples; None with fewer than two."""
        return [float(row.std(ddof=1)) if len(row) > 1 else None for row in self.resampled]

    def minus(self, other: Resampled) -> Resampled:
        """The paired difference, resample by resample; `ValueError` for other numbers of groups or resamples."""
        if self.resampled.shape != other.resampled.shape or self.jackknife.shape != other.jackknife.shape:
            raise ValueError("a paired difference needs two statistics over the same groups and resamples")
        return Resampled(self.values - other.values, self.resampled - other.resampled, self.jackknife - other.jackknife)


def bca_interval(value: float, resampled: np.ndarray, jackknife: np.ndarray) -> tuple[float, float] | None:
    """The 95 % interval, corrected for bias and acceleration: Efron, "Better Bootstrap Confidence Intervals" (1987).

    Where no resample lies on one side of the value, the bias is taken as large as B resamples can show, and where the
    jackknife does not vary, the acceleration as 0, so that there is always an interval.

    Args:
        value: the statistic of the data.
        resampled: [B] of the resamples.
        jackknife: [G] with each group left out in turn.
    """
    if not resampled.size:
        return None
    count = len(resampled)
    below = ((resampled < value - _EQUAL).sum() + (resampled <= value + _EQUAL).sum()) / (2 * count)
    bias = special.ndtri(np.clip(below, 1 / (count + 1), count / (count + 1)))
    apart = jackknife.mean() - jackknife
    squares = (apart * apart).sum()
    # What leaving out a group moves by rounding alone is no acceleration.
    acceleration = (apart**3).sum() / (6 * squares**1.5) if np.abs(apart).max() > _EQUAL else 0.0
    moved = bias + special.ndtri(CONFIDENCE)
    ends = special.ndtr(bias + moved / (1 - acceleration * moved))
    low, high = np.quantile(resampled, ends)
    return float(low), float(high)


def numbered_groups(groups: np.ndarray, resamples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """[n] numbers of the groups that these labels name, and their weights [1 + B, G]; see `weights_of`."""
    labels, number = np.unique(np.asarray(groups), return_inverse=True)
    return number, weights_of(len(labels), resamples, seed)


interval_ends = expanded


def jackknife_weights(groups: int) -> np.ndarray:
    """[1 + J, G] float64 the data themselves, then each group left out in turn; only the first with one group."""
    rows = left_out(groups) if groups >= 2 else np.zeros((0, groups))
    return np.vstack([np.ones((1, groups)), rows]).astype(np.float64)


def group_sums(values: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """Sums of values over the texts of each group: [n] -> [G], or [n, K] -> [G, K]; `group` [n] numbers the groups."""
    if values.ndim == 1:
        return np.bincount(group, weights=values, minlength=count)
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, group, values)
    return sums


def means(values: np.ndarray, group: np.ndarray, weights: np.ndarray, of: np.ndarray) -> np.ndarray:
    """[B] the mean of `values` [n] over the texts `of` [n] in each row of weights [B, G]; NaN where it holds none of
    them. `group` [n] numbers each text's group."""
    count = weights.shape[1]
    sums = np.bincount(group[of], weights=values[of], minlength=count)
    sizes = np.bincount(group[of], minlength=count)
    mass = weights @ sizes
    return np.divide(weights @ sums, mass, out=np.full(len(weights), np.nan), where=mass > 0)


_ROUNDING = 1e-10  # statistics no farther apart differ by rounding alone


PERMUTATIONS = 20_000
"""Flips behind a p-value: as small a p as 1 / 20,001 survives Holm's correction over 1,000 comparisons."""


@lru_cache(maxsize=8)
def flips(groups: int, permutations: int = PERMUTATIONS, seed: int = 0) -> tuple[np.ndarray, bool]:
    """In which groups the two judges change places: [P, groups] of 0 and 1, and whether these are all there are.

    All 2^groups (the unchanged data among them) where that is at most `permutations`, else so many, drawn at random.
    """
    if groups < 63 and 2**groups <= permutations:
        flipped, exact = ((np.arange(2**groups)[:, None] >> np.arange(groups)) & 1).astype(np.int8), True
    else:
        # Another stream than the resamples', which are drawn with the same seed.
        flipped = np.random.default_rng([seed, 1]).integers(0, 2, (permutations, groups), dtype=np.int8)
        exact = False
    flipped.flags.writeable = False  # shared by all callers
    return flipped, exact


def flipped_differences(difference: Resampled, flipped: np.ndarray) -> np.ndarray:
    """The difference [S, P] of two judges' S correlations after the sign of some groups' shares in it is flipped [P,
    G].

    A group's share is the difference itself and how far it falls when the group is left out (its influence, by the
    jackknife): the shares' mean is the difference. Where neither judge is better, a share is as likely of either sign.
    At document level this is what swapping the judges' scores in whole articles does. At others, swapping scores mixes
    two judges' ties and loses power where these differ; `scripts/simulate_tests.py` has size and power of both.
    """
    apart = difference.jackknife.mean(axis=1, keepdims=True) - difference.jackknife
    shares = difference.values[:, None] + (difference.jackknife.shape[1] - 1) * apart
    groups = shares.shape[1]
    step = max(1, MOST_ENTRIES // groups)
    parts = [shares @ flipped[start : start + step].T for start in range(0, len(flipped), step)]
    return (shares.sum(axis=1, keepdims=True) - 2 * np.hstack(parts)) / groups


def permutation_p_value(observed: float, permuted: np.ndarray, exact: bool) -> float:
    """The two-sided p: the share of the permuted differences [P] at least as far from 0 as the observed one.

    Where they are not all there are, the data itself counts as one more, so that p is never 0 and the test keeps its
    level (Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010).
    """
    as_far = int((np.abs(permuted) >= abs(observed) - _ROUNDING).sum())
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


POWER = 0.8
"""The chance to find a difference that is there."""


def groups_needed(difference: float, standard_error: float, groups: int) -> int | None:
    """The groups with which a true difference of this size is told from 0 with 80 % power at 5 % two-sided.

    The standard error falls as 1 / sqrt(groups), and a difference is found with 80 % power where it is
    1.960 + 0.842 = 2.802 times its standard error (the normal approximation). The bootstrap's standard error has n
    instead of n - 1 in the denominator, which is put right. Holm's correction of several comparisons asks for more.

    Args:
        difference: its size; where it was just observed, it is uncertain, and so is the result.
        standard_error: of the difference, from the cluster bootstrap.
        groups: how many it was measured on, at least 2.

    Returns:
        The number, at least `FEWEST`; None for no difference at all.

    Example:
        >>> groups_needed(0.05, 0.05, 10_000)
        78497
    """
    if abs(difference) < 1e-9:
        return None
    spread = standard_error * groups / math.sqrt(groups - 1)  # of a single group
    times = special.ndtri(1 - SIGNIFICANCE / 2) + special.ndtri(POWER)
    return max(FEWEST, math.ceil((times * spread / difference) ** 2))
