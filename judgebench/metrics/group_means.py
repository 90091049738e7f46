"""Means over texts whose groups are resampled, with their 95 % percentile intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judgebench.metrics.bootstrap import group_weights
from judgebench.metrics.intervals import CONFIDENCE, interval


def weights_of(count: int, resamples: int, seed: int) -> np.ndarray:
    """[1 + B, G] float64 how often each of `count` groups counts: once in the data themselves, which come first, then
    in each resample (see `group_weights`); without resamples where there are fewer than two groups."""
    drawn = group_weights(count, resamples if count >= 2 else 0, seed).astype(np.float64)
    return np.vstack([np.ones((1, count)), drawn])


def means(values: np.ndarray, group: np.ndarray, weights: np.ndarray, of: np.ndarray) -> np.ndarray:
    """[B] the mean of `values` [n] over the texts `of` [n] in each row of weights [B, G]; NaN where it holds none of
    them. `group` [n] numbers each text's group."""
    count = weights.shape[1]
    sums = np.bincount(group[of], weights=values[of], minlength=count)
    sizes = np.bincount(group[of], minlength=count)
    mass = weights @ sizes
    return np.divide(weights @ sums, mass, out=np.full(len(weights), np.nan), where=mass > 0)


def with_interval(name: str, values: np.ndarray, ends: tuple[float, float] = CONFIDENCE) -> dict[str, float | None]:
    """The number of the data (first of `values`) and the interval of its resamples (the rest), as name, name_low and
    name_high; `ends` as `interval` takes them.

    Resamples that do not hold what the number is about say nothing of it and are left out, unless the number itself is
    unknown: then all three are None.
    """
    value, resampled = float(values[0]), values[1:]
    if np.isnan(value):
        return unknown((name,))
    low, high = interval(resampled[~np.isnan(resampled)], ends) or (None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def unknown(names: Sequence[str]) -> dict[str, float | None]:
    """What `with_interval` gives for numbers that cannot be known."""
    return dict.fromkeys(f"{name}{end}" for name in names for end in ("", "_low", "_high"))
