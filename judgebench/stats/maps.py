"""Maps from one scale to another: end to end, by a straight line, or by the best that never falls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from judgebench.types import Array, Scale

_HALF = 1e-9


def rescale(values: Array, scale: Scale, to: Scale = (0.0, 1.0)) -> Array:
    """Values [...] of one scale on another, end to end; NaN or infinite where the first has no
    length.

    Example:
        >>> rescale(np.array([0.0, 1.5, 4.0]), (0, 4), (1, 5)).tolist()
        [1.0, 2.5, 5.0]
    """
    low, high = scale
    first, last = to
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    return first + share * (last - first)


def nearest_place(values: Array, candidates: Array) -> Array:
    """[...] the place of the nearest of the ascending candidates [K], half up, those outside at the
    ends; -1 for NaN.

    Example:
        >>> nearest_place(np.array([1, 2.5, 9, np.nan]), np.arange(1.0, 6.0)).tolist()
        [0, 2, 4, -1]
    """
    # means of raters carry rounding errors; a half must stay a half
    borders = (candidates[1:] + candidates[:-1]) / 2 - _HALF
    return np.where(np.isnan(values), -1, np.digitize(np.nan_to_num(values), borders))


def rising_slope(scores: Array, human: Array) -> Array:
    """The slopes [...] of the lines by least squares from scores [N, ...] to human scores [N]; 0
    where one would fall, or the scores are all the same."""
    apart = scores - scores.mean(axis=0)
    squares = (apart * apart).sum(axis=0)
    along = apart.T @ (human - human.mean())
    slopes = np.divide(along, squares, out=np.zeros(np.shape(along)), where=squares > 0)
    return np.maximum(slopes, 0.0)


class Knots(NamedTuple):
    """A map that is linear between its knots [K], ascending, and level beyond the outermost."""

    at: Array
    values: Array

    def __call__(self, scores: Array) -> Array:
        """Scores [...], mapped; NaN stays."""
        return np.asarray(np.interp(scores, self.at, self.values))


def isotonic(scores: Array, human: Array) -> Knots:
    """Isotonic regression: of all maps of scores [N] to human scores [N] that never fall the one
    with the least squared error, linear between scores that were seen. Of neighboring knots with
    one value only the ends are kept.

    Example:
        >>> isotonic(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 3.0, 3.5])).values.tolist()
        [2.0, 3.5, 3.5]
    """
    from scipy.optimize import isotonic_regression  # it takes long to import

    at, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    means = np.bincount(place, weights=human) / counts
    values = isotonic_regression(means, weights=counts).x
    bends = np.diff(values) != 0
    # a knot counts where the map bends beside it, and at the ends
    kept = np.append(True, bends) | np.append(bends, True)
    return Knots(at[kept], values[kept])
