"""Raters of the same texts: each of them, or a judge in their place, compared with the mean of the
others; see `judgebench.studies.humans`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from judgebench.stats.clusters import Clusters, safe_divide
from judgebench.stats.correlation import DistinctPairs, is_constant
from judgebench.types import Array

FEWEST_TEXTS = 10
"""Texts shared with others with which a rater counts: the rho of fewer says next to nothing."""

_DIGITS = 12  # of the ratings' spread, to which means are rounded: those equal in truth must tie


def means_of_others(ratings: Array) -> Array:
    """The mean of the other raters' scores, for each rater: [N, R] -> [N, R]; NaN where the rater
    gave none, and where the text has no other rating.

    Example:
        >>> means_of_others(np.array([[1.0, 2.0, 4.0], [3.0, np.nan, 5.0], [2.0, np.nan, np.nan]])).tolist()
        [[3.0, 2.5, 1.5], [5.0, nan, 3.0], [nan, nan, nan]]
    """
    rated = ~np.isnan(ratings)
    if not rated.any():
        return np.full(ratings.shape, np.nan)
    # to spread 1 for the rounding below: digits of the spread, and not of the numbers
    low = np.nanmin(ratings)
    spread = np.nanmax(ratings) - low
    scaled = np.nan_to_num((ratings - low) / (spread or 1.0))
    # the sum of all less one's own: no loop over raters
    total = scaled.sum(axis=1, keepdims=True)
    raters = rated.sum(axis=1, keepdims=True)
    others = np.where(rated, raters - 1, 0)  # [N, R]
    means = safe_divide(total - scaled, others)
    return low + np.round(means, _DIGITS) * spread


@dataclass(frozen=True)
class Panel:
    """Raters of some texts, each compared with the mean of the others.

    Args:
        ratings: [N, R], NaN where a rater gave none.
        of_texts: the texts in their groups, articles or questions.
        names: [N] the texts' example_ids, by which a judge's scores are joined; only
            `humans.beside_raters` needs them.
    """

    ratings: Array
    of_texts: Clusters
    names: Sequence[str] = ()

    @cached_property
    def others(self) -> Array:
        """[N, R], see `means_of_others`."""
        return means_of_others(self.ratings)

    @cached_property
    def counted(self) -> list[int]:
        """Columns of the raters with at least `FEWEST_TEXTS` texts that somebody else rated,
        too."""
        return np.flatnonzero((~np.isnan(self.others)).sum(axis=0) >= FEWEST_TEXTS).tolist()

    @property
    def missing(self) -> str | None:
        """A sentence that says why there is no ceiling; None where there is one."""
        if np.isnan(self.others).all():
            return "No human ceiling: no text has the ratings of two people."
        if not self.counted:
            return f"No human ceiling: no person rated {FEWEST_TEXTS} texts that others rated, too."
        return None

    @cached_property
    def clusters(self) -> Clusters:
        """Of the groups that hold a text of a counted rater, so that no resample is without any;
        other texts have number 0, and are never summed."""
        others = self.others[:, self.counted]
        # groups without such a text would leave resamples without a figure
        return self.of_texts.among(~np.isnan(others).all(axis=1))

    @cached_property
    def ceiling(self) -> Array:
        """[1 + B] the mean over raters of their rho with the others; NaN in all where `missing`. A
        constant rater counts 0.0."""
        return self._agreement(self.ratings)

    def agreement(self, scores: Array) -> Array:
        """[1 + B] of a judge's finite scores [N], as `ceiling`: for each rater the judge's rho with
        the mean of the others, on that rater's texts, with the same weights. Resamples are those of
        `ceiling`, so that differences are paired."""
        column = np.asarray(scores, dtype=np.float64)[:, None]
        # the judge in each rater's place: same texts, same means of others, same resamples
        return self._agreement(np.broadcast_to(column, self.ratings.shape))

    def _agreement(self, sides: Array) -> Array:
        def rho(column: int, rows: Array) -> Array:
            side = sides[rows, column]
            others = self.others[rows, column]
            clusters = self.clusters
            if is_constant(side):
                return np.zeros(len(clusters.weights))
            pairs = DistinctPairs(side, others, clusters.number[rows], clusters.count)
            return pairs.spearman(clusters.weights)

        return self.over_raters(rho)

    def over_raters(self, figure: Callable[[int, Array], Array]) -> Array:
        """[..., 1 + B] the mean over counted raters of a figure [..., 1 + B], weighted by their
        texts, where it is known. The figure is of a rater's column, and of the texts [N] that they
        and others rated."""
        clusters = self.clusters
        total, mass = np.zeros((2, len(clusters.weights)))
        rated = ~np.isnan(self.others)
        for column in self.counted:
            rows = rated[:, column]
            values = figure(column, rows)
            figures = values.reshape(-1, values.shape[-1])
            known = ~np.isnan(figures).any(axis=0)  # [1 + B]
            # by the texts that the resample holds, so that a resample weighs its raters as it drew
            # them
            texts = known * clusters.sums(1.0 * rows)
            weighted = texts * np.nan_to_num(values)
            total = total + weighted
            mass = mass + texts
        return safe_divide(total, mass)
