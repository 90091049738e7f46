"""Means and ratios of sums over texts, with Student's interval over their groups by the delta
method."""

from __future__ import annotations

import math

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import CONFIDENCE, Estimate
from judgebench.types import Array

_NEAR = 1e-9  # an error below is rounding


def clustered_estimate(
    value: float, influence: Array, groups: Array
) -> tuple[Estimate, float | None]:
    """A number whose error is a sum over texts, with Student's 95 % interval over their groups, and
    p of its being 0. The variance is G / (G - 1) times the squared sums of groups: CR1, Cameron and
    Miller, "A Practitioner's Guide to Cluster-Robust Inference" (2015). One group has no interval,
    and without any noise there is no p.

    Args:
        influence: [N] what each text adds to the error: of a mean its distance from it, by N.
        groups: [N] labels.
    """
    sums = np.bincount(np.unique(groups, return_inverse=True)[1], weights=influence)
    freedom = len(sums) - 1
    if freedom < 1:
        return Estimate(value), None
    error = math.sqrt((freedom + 1) / freedom * float(sums @ sums))
    reach = float(scipy.special.stdtrit(freedom, CONFIDENCE[1])) * error
    p = None
    if error > _NEAR:
        p = 2 * float(scipy.special.stdtr(freedom, -abs(value) / error))
    return Estimate(value, value - reach, value + reach), p


def ratio_estimate(above: Array, below: Array, groups: Array) -> Estimate | None:
    """The sum of `above` [N] by that of `below` [N]; with ones below, the mean. Rows where one of
    both is NaN are left out; None where the sum below is not positive. Cochran, "Sampling
    Techniques" (1977), section 6.3.

    Example:
        >>> f"{ratio_estimate(np.array([1.0, 2.0, 6.0]), np.ones(3), np.arange(3)):.2f}"
        '3.00 [-3.57, 9.57]'
    """
    known = ~np.isnan(above + below)
    above = above[known]
    below = below[known]
    total = float(below.sum())
    if not total > 0:
        return None
    value = float(above.sum()) / total
    # a ratio's error is linear in above - value * below
    return clustered_estimate(value, (above - value * below) / total, groups[known])[0]
