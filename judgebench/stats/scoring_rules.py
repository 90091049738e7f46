"""Proper scores of forecasts of what raters say, and their calibration."""

from __future__ import annotations

import numpy as np

from judgebench.stats.clusters import Clusters, safe_divide
from judgebench.types import Array

_BINS = 10  # of forecasts over [0, 1], in the calibration error


def category_shares(values: Array, categories: Array) -> Array:
    """[n, C] the shares of ascending categories in each value [n]: of the two next to it, so that
    the mean stays; a value outside goes to the end. Probabilities of candidates @ the shares of
    their values are those of categories.

    Example:
        >>> category_shares(np.array([2.25, 9.0]), np.array([1.0, 2.0, 3.0])).tolist()
        [[0.0, 0.75, 0.25], [0.0, 0.0, 1.0]]
    """
    # linear interpolation of mass: 2.25 is three quarters of a 2 and one quarter of a 3
    inside = np.clip(values, categories[0], categories[-1])
    upper = np.searchsorted(categories, inside)
    upper = np.clip(upper, 1, len(categories) - 1)
    lower = upper - 1
    below = categories[lower]
    width = categories[upper] - below
    share = (inside - below) / width
    shares = np.zeros((len(values), len(categories)))
    rows = np.arange(len(values))
    shares[rows, upper] = share
    shares[rows, lower] = 1 - share
    return shares


def rater_shares(ratings: Array, categories: Array) -> Array:
    """[N, C] the shares of a text's raters who gave each category; NaN without a rating. Ratings
    [N, R], NaN where there is none; one between two categories counts for both in part."""
    rated = ~np.isnan(ratings)
    shares = np.zeros((len(ratings), len(categories)))
    np.add.at(shares, np.nonzero(rated)[0], category_shares(ratings[rated], categories))
    return safe_divide(shares, rated.sum(axis=1, keepdims=True))


def ranked_scores(forecast: Array, shares: Array, categories: Array) -> Array:
    """[N] the ranked probability score of each text, mean over its raters, as a share of the scale:
    0 for certainty of what all raters say, 1 for certainty of the far end. Epstein (1969), a mean
    over the borders of equally spaced categories; for all others the continuous ranked probability
    score, divided by the scale's length. Forecast and shares of the raters [N, C].

    Example:
        >>> judge, raters = np.array([[0, 0, 0, 0.4, 0.6]]), np.array([[0, 0, 0, 1, 2]]) / 3
        >>> ranked_scores(judge, raters, np.arange(1.0, 6.0)).round(4).tolist()
        [0.0567]
    """
    width = np.diff(categories) / (categories[-1] - categories[0])
    judge = forecast.cumsum(axis=1)[:, :-1]  # [N, borders]
    human = shares.cumsum(axis=1)[:, :-1]
    # A mean over raters of (F - 1[rating <= border])^2, of which a share h of raters are 1: (F -
    # h)^2 and the raters' own variance h (1 - h), which no forecast can take away.
    return ((judge - human) ** 2 + human * (1 - human)) @ width


def others_scores(ratings: Array, categories: Array) -> tuple[Array, Array]:
    """[N] the ranked score of the other raters' shares as the forecast of each rater, mean over
    raters; and [N] where there are two raters or more."""
    rated = ~np.isnan(ratings)
    raters = rated.sum(axis=1)
    paired = raters > 1
    rows, columns = np.nonzero(rated & paired[:, None])
    own = category_shares(ratings[rows, columns], categories)  # [ratings, C]
    total = np.zeros((len(ratings), len(categories)))
    np.add.at(total, rows, own)
    # a rater is no forecast of themselves
    others = (total[rows] - own) / (raters[rows] - 1)[:, None]
    sums = np.bincount(rows, ranked_scores(others, own, categories), len(ratings))
    return sums / np.maximum(raters, 1), paired


def calibration_error(forecast: Array, observed: Array, clusters: Clusters) -> Array:
    """The expected calibration error [1 + B]: the mean distance of forecast and outcome over ten
    equal bins of the forecast, by their shares; Naeini et al. (2015). Chance alone makes it larger
    than 0, and its interval with it.

    Args:
        forecast, observed: [N, M] in [0, 1], M of each text; a bin holds its upper end.
    """
    # 1. the bin of each forecast, and whether it is a member of each bin [N, M, bins]
    place = np.clip(forecast, 0, 1) * _BINS
    # rounding must not lift a forecast of .3 into the bin above
    upper_ends = np.ceil(place - 1e-12)
    bins = np.clip(upper_ends - 1, 0, _BINS - 1)
    member = bins[..., None] == np.arange(_BINS)

    def sums(values: Array) -> Array:
        in_bins = member * values[..., None]
        by_text = in_bins.sum(axis=1)
        return clusters.sums(by_text)

    # 2. each bin's share, and its distance of forecast and outcome [1 + B, bins]
    mass = sums(np.ones_like(forecast))
    apart = sums(forecast) - sums(observed)
    total = mass.sum(axis=1, keepdims=True)
    share = safe_divide(mass, total)
    distance = safe_divide(np.abs(apart), mass)
    weighted = share * np.nan_to_num(distance)
    return np.asarray(weighted.sum(axis=1))
