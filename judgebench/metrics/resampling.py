"""Moved to `judgebench.stats.clusters` and `judgebench.stats.significance`."""

from __future__ import annotations

import numpy as np

from judgebench.stats.clusters import *  # noqa: F403
from judgebench.stats.clusters import expanded, left_out, weights_of
from judgebench.stats.significance import *  # noqa: F403


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
