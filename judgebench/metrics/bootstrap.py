"""Correlations of resampled data: articles are resampled, never single examples.

The examples of an article share its difficulty, so they are drawn together (a cluster bootstrap). A resample is written
as a row of integer weights, how often each group was drawn, [B, G]; correlations follow from the weights without ever
building the resampled data, exactly (not approximately) as if it had been built. One example's weight is its group's.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from judgebench.metrics.contingency import ContingencyTables
from judgebench.metrics.distinct_pairs import DistinctPairs

MOST_LEFT_OUT = 1000
"""Rows of a jackknife, which would else grow with the square of the groups."""

_CHUNK = 1 << 16  # numbers drawn at a time

RESAMPLES = 1000
"""How many resamples an interval rests on unless told otherwise."""


@lru_cache(maxsize=8)
def group_weights(groups: int, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """How often each group is drawn: [resamples, groups] int32, each row summing to `groups`.

    The same arguments give the same weights, so that what is measured on the same groups is resampled alike, and
    differences are paired. They are the resamples of `scipy.stats.bootstrap((numpy.arange(groups),), ..., rng=seed)`.
    """
    weights = np.zeros((resamples, groups), dtype=np.int32)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(1, groups))  # memory that is used again is faster than new memory
    for start in range(0, resamples if groups else 0, step):
        part = weights[start : start + step]
        drawn = rng.integers(0, groups, part.shape)
        drawn += groups * np.arange(len(part))[:, None]  # each resample counts in numbers of its own
        part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape)
    weights.flags.writeable = False  # shared by all who ask
    return weights


def left_out(groups: int) -> np.ndarray:
    """The jackknife's weights: [groups, groups] int32, each row without one group.

    Beyond `MOST_LEFT_OUT` groups, neighbors are left out together, as many at a time as give no more rows than that.
    """
    together = -(-groups // MOST_LEFT_OUT) or 1
    block = np.arange(groups) // together
    return (block != np.arange(-(-groups // together))[:, None]).astype(np.int32)


def resampled_correlations(judge: np.ndarray, human: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlations of each resample's examples.

    Discrete scores take `ContingencyTables`, others `DistinctPairs`; both give the same to rounding.

    Args:
        judge, human: [N] finite numbers.
        groups: [N] the group of each example, numbered 0 to G - 1.
        weights: [B, G] how often each group was drawn. The identity gives each group's own correlation.

    Returns:
        [3, B] in the order of `CORRELATIONS`; 0.0 where a resample is constant.
    """
    if not len(judge) or not len(weights):
        return np.zeros((3, len(weights)))
    fitting = ContingencyTables.fits(judge, human, weights.shape[1])
    data = (ContingencyTables if fitting else DistinctPairs)(judge, human, groups, weights.shape[1])
    return data.correlations(weights)
