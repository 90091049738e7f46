"""A judge in the place of one rater: its agreement with single raters beside that of raters with
each other, and what it says of the texts that people rate lowest.

Agreement is a weighted kappa, 1 less the mean squared distance of two sides divided by what it
would be if each gave the scores that it gives, but to any texts. It is 0 for a constant, and
for scores dealt to texts at random, so that neither can seem to agree.
"""

from __future__ import annotations

import numpy as np

from judgebench.stats.clusters import Clusters, safe_divide, unknown
from judgebench.stats.correlation import mid_ranks
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.studies.scores import JudgeScores
from judgebench.types import Array, Record

KAPPAS = ("kappa", "kappa_rater")
"""Of the judge with single raters, and of raters with each other; texts with two ratings or
more."""

WORST = ("worst", "worst_rater")
"""The mean place, from 0 to 1, that judge and one rater give among all texts to the tenth that the
other raters rate lowest; 0.5 is that of texts drawn at random."""

_TENTH = 0.1
_FEWEST_TEXTS = 60  # of fewer, a tenth is five texts


def replaced_record(sample: JudgeScores) -> Record:
    """`KAPPAS` and `WORST`, each with `_low` and `_high`, articles resampled; None where they are
    unknown. scores: raw or calibrated, whichever agree better; texts: those with two ratings or
    more."""
    # the same texts for judge and raters, or they would be measured on others
    several = (~np.isnan(sample.ratings)).sum(axis=1) > 1
    record: Record = {**unknown((*KAPPAS, *WORST)), "scores": None, "texts": int(several.sum())}
    # 1. agreement with single raters
    if sample.raters and sample.scale is not None and several.any():
        clusters = sample.clusters.at(several)
        ratings = sample.ratings[several]
        kappas = {}
        for name, scores in ((RAW, sample.on_scale), (CALIBRATED, sample.calibrated)):
            if np.isfinite(scores[several]).all():
                kappas[name] = kappa_with_raters(scores[several], ratings, clusters)
        if kappas:
            # whichever agree better, for the user may use either
            best = max(kappas, key=lambda name: np.nan_to_num(kappas[name][0], nan=-1.0))
            sides = kappas[best], kappa_of_raters(ratings, clusters)
            record |= clusters.record(dict(zip(KAPPAS, sides, strict=True))) | {"scores": best}
    # 2. the texts that people rate lowest
    return record | _worst(sample)


def kappa_with_raters(scores: Array, ratings: Array, clusters: Clusters) -> Array:
    """[1 + B] the weighted kappa of scores [N] with single ratings [N, R].

    Example:
        >>> scores, ratings = np.array([1.0, 3.0]), np.array([[1.0, 1.0], [3.0, 3.0]])
        >>> kappa_with_raters(scores, ratings, Clusters.of([0, 1], 0)).tolist()
        [1.0]
    """
    count, sums, squares = _powers(ratings)
    apart = np.nansum((scores[:, None] - ratings) ** 2, axis=1)
    # each rating of a text meets its score: texts with more raters count more, on both sides
    sides = (count, sums, squares), (count, count * scores, count * scores**2)
    return _kappa(apart, *sides, clusters)


def kappa_of_raters(ratings: Array, clusters: Clusters) -> Array:
    """[1 + B] the same of raters with each other: each rating [N, R] meets the others of its text,
    which weigh one together."""
    count, sums, squares = side = _powers(ratings)
    # sum over ordered pairs of (x - y)^2 is 2 (n sum x^2 - (sum x)^2); each rating meets n - 1
    # others
    apart = safe_divide(2 * (count * squares - sums**2), count - 1)
    return _kappa(apart, side, side, clusters)


Powers = tuple[Array, Array, Array]
"""[N] of the numbers of each text: how many, their sum, the sum of their squares."""


def _powers(ratings: Array) -> Powers:
    count = 1.0 * (~np.isnan(ratings)).sum(axis=1)
    return count, np.nansum(ratings, axis=1), np.nansum(ratings**2, axis=1)


def _kappa(apart: Array, first: Powers, second: Powers, clusters: Clusters) -> Array:
    """[1 + B] the kappa of two sides whose squared distances sum to `apart` [N] over each text."""
    mass = clusters.sums(first[0])
    means = []
    for _, sums, squares in (first, second):
        means.append([safe_divide(clusters.sums(values), mass) for values in (sums, squares)])
    (mean, square), (other_mean, other_square) = means
    # what they would be apart if each gave its numbers to any texts
    chance = square + other_square - 2 * mean * other_mean
    return np.asarray(1 - safe_divide(safe_divide(clusters.sums(apart), mass), chance))


def _worst(sample: JudgeScores) -> Record:
    """`WORST`, by each rater and the others; by the humans' means where no raters are known. None
    of few texts, and of labels that are two classes."""
    rated = np.isfinite(sample.human)
    values = np.unique(sample.ratings[np.isfinite(sample.ratings)])
    if rated.sum() < _FEWEST_TEXTS or len(values) < 3:
        return {}
    panel = sample.panel
    if not sample.raters or panel.missing is not None:
        clusters = sample.clusters.at(rated)
        share = lowest_share(sample.human[rated])
        places = clusters.mean(places_of(sample.scores[rated]) * share)
        return dict(clusters.record({WORST[0]: safe_divide(places, clusters.mean(share))}))
    clusters = panel.clusters

    def figure(column: int, rows: Array) -> Array:
        # by the others' ratings: one's own would put one's own lowest texts there
        share = lowest_share(panel.others[rows, column])
        number = clusters.number[rows]
        mass = clusters.weights @ np.bincount(number, share, clusters.count)
        sides = []
        for scores in (sample.scores[rows], panel.ratings[rows, column]):
            sums = np.bincount(number, share * places_of(scores), clusters.count)
            sides.append(safe_divide(clusters.weights @ sums, mass))
        return np.stack(sides)  # [2, 1 + B]

    return dict(clusters.record(dict(zip(WORST, panel.over_raters(figure), strict=True))))


def places_of(values: Array) -> Array:
    """[N] the place of each value among all, from 0 to 1; equal ones share the middle of theirs.

    Example:
        >>> places_of(np.array([1.0, 5.0, 5.0, 9.0])).tolist()
        [0.125, 0.5, 0.5, 0.875]
    """
    return (mid_ranks(values[None])[0] - 0.5) / len(values)


def lowest_share(values: Array) -> Array:
    """[N] the part of each text that is among the lowest tenth; equal ones at its edge share what
    is left.

    Example:
        >>> lowest_share(np.array([*range(2, 10), 1.0, 1.0])).tolist()[-2:]
        [0.5, 0.5]
    """
    # fractions of texts, for labels tie: which of those at the edge come in must not be chance
    room = _TENTH * len(values)
    edge = np.sort(values)[int(np.ceil(room)) - 1]
    below = values < edge
    at_edge = values == edge
    return np.where(below, 1.0, np.where(at_edge, (room - below.sum()) / at_edge.sum(), 0.0))
