"""95 % intervals and standard errors of resampled statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

CONFIDENCE = (0.025, 0.975)
"""The ends of a 95 % interval."""

_EQUAL = 1e-12  # values no farther apart differ by rounding alone


@dataclass(frozen=True)
class Resampled:
    """Statistics with what their uncertainty follows from.

    Attributes:
        values: [S] of the data.
        resampled: [S, B] of each resample of groups; [S, 0] with fewer than two groups, or where none were asked for.
        jackknife: [S, G] with each group left out in turn (see `left_out`); [S, 0] where `resampled` is.
    """

    values: np.ndarray
    resampled: np.ndarray
    jackknife: np.ndarray

    def intervals(self) -> list[tuple[float, float] | None]:
        """[S] the percentile intervals; see `interval`."""
        return [interval(row) for row in self.resampled]

    def bca_intervals(self) -> list[tuple[float, float] | None]:
        """[S] the BCa intervals; see `bca_interval`."""
        rows = zip(self.values, self.resampled, self.jackknife, strict=True)
        return [bca_interval(float(value), resampled, left_out) for value, resampled, left_out in rows]

    def standard_errors(self) -> list[float | None]:
        """[S] the standard deviations over resamples; None with fewer than two."""
        return [float(row.std(ddof=1)) if len(row) > 1 else None for row in self.resampled]

    def minus(self, other: Resampled) -> Resampled:
        """The paired difference: resample by resample, so that what both owe to easy or hard groups cancels.

        Raises:
            ValueError: the two do not rest on as many groups and resamples.
        """
        if self.resampled.shape != other.resampled.shape or self.jackknife.shape != other.jackknife.shape:
            raise ValueError("a paired difference needs two statistics over the same groups and resamples")
        return Resampled(self.values - other.values, self.resampled - other.resampled, self.jackknife - other.jackknife)


def mean_of(parts: Sequence[Resampled]) -> Resampled:
    """The mean of statistics over the same groups, resampled jointly: resample b is drawn alike in all."""
    return Resampled(
        np.mean([part.values for part in parts], axis=0),
        np.mean([part.resampled for part in parts], axis=0),
        np.mean([part.jackknife for part in parts], axis=0),
    )


def expanded(groups: int) -> tuple[float, float]:
    """The ends at which the percentile interval of a mean over few groups holds the truth in 95 % of cases, as
    Student's t does: Hesterberg, "What Teachers Should Know About the Bootstrap" (2015), section 5.3. The plain
    interval is too narrow by sqrt((G - 1) / G) and by what the normal quantile is less than t's.

    Args:
        groups: G, two at least.

    Example:
        >>> [round(end, 4) for end in expanded(6)]
        [0.0024, 0.9976]
    """
    low = float(special.ndtr(math.sqrt(groups / (groups - 1)) * special.stdtrit(groups - 1, CONFIDENCE[0])))
    return low, 1 - low


def interval(resampled: np.ndarray, ends: tuple[float, float] = CONFIDENCE) -> tuple[float, float] | None:
    """The percentile interval of a statistic's resampled values [B], at 95 % unless told otherwise; None where there
    are none."""
    if not resampled.size:
        return None
    low, high = np.quantile(resampled, ends)
    return float(low), float(high)


def bca_interval(value: float, resampled: np.ndarray, jackknife: np.ndarray) -> tuple[float, float] | None:
    """The 95 % interval, corrected for bias and acceleration: Efron, "Better Bootstrap Confidence Intervals" (1987).

    Where no resample lies on one side of the value, the bias is taken as large as B resamples can show, and where the
    jackknife does not vary, the acceleration as 0: the interval exists wherever `interval` does.

    Args:
        value: the statistic of the data.
        resampled: [B] of the resamples.
        jackknife: [G] with each group left out in turn.

    Returns:
        Its ends, or None without resamples.
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
