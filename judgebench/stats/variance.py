"""Score range bias as variance: how much of a score is due to the text, and how much to the range,
judge or rater that was asked (generalizability theory).

Each score is taken as a sum of independent effects, one of every set of facets (text, range, text x
range, ...), and their variances are the components: Brennan, "Generalizability Theory" (2001). A
range changes a judge's scores by its own component (all texts alike) and by its interaction with
texts (their order): the size of score range bias. Of scores .2, .4 in one range and .3, .5 in
another, on two texts each, the range moves all texts by .1 and none of their order.

A component follows from the mean squared differences of pairs of scores that agree in exactly one
set of facets: Koch, "Some further remarks concerning a general approach to the estimation of
variance components" (Technometrics 1968). Where every cell has a score these are the ANOVA
estimates, to rounding. Where cells are missing, as of raters who rated some texts each, all pairs
of scores that there are count alike; the estimates stay unbiased where scores are missing at
random. They may be negative where a component is near 0: they are reported so, and count as 0 in
shares.

Intervals resample the groups of texts alone, or leave each out in turn (of shares), so they speak
of these very ranges, judges and raters on other texts. A group drawn twice is never paired with
itself, which would pass for agreement of two. Agreement of ranges is a judge's with itself, not
with humans.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from judgebench.stats.clusters import (
    Clusters,
    Estimate,
    Numbers,
    resampled_and_left_out,
    safe_divide,
    with_agreement_interval,
    with_jackknife,
)
from judgebench.types import Array

Effect = frozenset[str]
"""The facets of a component."""


Components = Mapping[Effect, np.ndarray]
"""Effect -> [1 + B + J] its variance: in the data, in each resample of the groups, and with each
group left out."""


_EDGE = 1e-6  # a share no farther from 0 or 1 is at the edge
_ROUNDING = 1e-12  # the same, as a part of the largest squared deviation of a score
FACET_PARTS = ("own", "interactions", "both")


class CrossedScores:
    """Scores of texts by all facets.

    Args:
        values: [T, ...] one axis a facet, the texts' (or articles') first; NaN where there is no
            score. Scores of different ranges on one scale, as the part of the way from the lowest
            to the highest: else the range's component is that of its numbers.
        facets: the names of the axes.
        clusters: of the first axis' entries.

    Attributes:
        values, clusters: of the entries with a score, with the jackknife's weights after the
            resamples'.
        components: NaN where no two scores agree in exactly the facets that would separate an
            effect from others. That of all facets is what is no effect at all: the error of a
            single score.
    """

    def __init__(self, values: Array, facets: tuple[str, ...], clusters: Clusters) -> None:
        others = tuple(range(1, values.ndim))
        rated = ~np.isnan(values).all(axis=others)
        self.values = values[rated]
        self.facets = facets
        self.clusters = with_jackknife(clusters.at(rated))
        self.components: Components = self._components()

    def _components(self) -> Components:
        facets = self.facets
        # Method of moments: the mean of half the squared differences between scores that agree in
        # exactly some facets holds the components of all others. No model is fitted, and cells may
        # be empty.
        # 1. every set of facets, the smallest first
        effects: list[Effect] = []
        for size in range(len(facets) + 1):
            effects += map(frozenset, combinations(facets, size))
        none = effects[0]
        every = effects[-1]
        # 2. pairs of scores that agree in at least these facets, and half of their squared
        # differences
        scored = ~np.isnan(self.values)
        # differences do not change with a shift, and sums of squares then lose no digits
        mean = self.values[scored].mean() if scored.any() else 0.0
        filled = np.where(scored, self.values - mean, 0.0)
        at_least: dict[Effect, Array] = {}
        for effect in effects:
            # pairs need not be built: sums, squares and counts of a cell say all of its pairs
            summed = [axis for axis, facet in enumerate(facets) if axis and facet not in effect]
            tables = []
            for side in (1.0 * scored, filled, filled**2):
                table = side.sum(axis=tuple(summed))
                tables.append(table.reshape(len(table), math.prod(table.shape[1:])))
            at_least[effect] = _agreeing(tables, self.clusters, nested=facets[0] in effect)
        # 3. the mean over pairs that agree in exactly these: those in at least these less those
        # that agree in more
        differences = {}
        for effect in effects:
            larger = [more for more in effects if more >= effect]
            pairs, squares = _alternating(at_least, larger, effect)
            # pairs are counted in floating point: less than half a pair is none
            differences[effect] = safe_divide(squares, np.where(pairs > 0.5, pairs, 0.0))
        # 4. Half the squared difference of two scores that agree in the facets A alone holds every
        # component but those of the facets within A. So that of no facets less that of A is the sum
        # of the components within A.
        differences[every] = np.zeros_like(differences[every])
        within = {effect: differences[none] - differences[effect] for effect in effects}
        within[none] = np.zeros_like(differences[none])
        components = {}
        for effect in effects[1:]:
            parts = [part for part in effects if part <= effect]
            components[effect] = _alternating(within, parts, effect)
        # 5. what is left of scores that are all the same, as in some resamples, is rounding, and
        # its shares are noise
        rounding = _ROUNDING * (filled**2).max(initial=0.0)
        for effect, part in components.items():
            components[effect] = np.where(np.abs(part) <= rounding, 0.0, part)
        return components


def _agreeing(tables: Sequence[Array], clusters: Clusters, nested: bool) -> Array:
    """[2, rows of weights] the ordered pairs of scores in one cell of a table, a score with itself
    among them, and the sums over them of half their squared differences. Pairs within a group count
    as often as it was drawn, pairs between two groups the product of both.

    Args:
        tables: [T, L] scores in each text and cell, the sums of their values, and of their squares.
        nested: True where a text's cells are its own, and no other's.
    """
    counts, sums, squares = tables
    if nested:
        # cells of one text: a resample counts it as often as its group
        dot = partial(np.einsum, "tl,tl->t")
        pairs = dot(counts, counts)
        apart = dot(counts, squares) - dot(sums, sums)
        return np.stack([clusters.sums(pairs), clusters.sums(apart)])
    # pairs of the groups as they are drawn, less a group's own, counted as between copies of it
    grouped = [clusters.totals(table) for table in tables]  # [G, L]
    drawn = [clusters.weights @ table for table in grouped]  # [rows, L]
    # a group drawn w times makes w^2 pairs with itself, of which w are real
    again = clusters.weights**2 - clusters.weights
    return _pairs(*drawn) - np.stack([again @ part for part in _pairs(*grouped)])


def _pairs(counts: Array, sums: Array, squares: Array) -> Array:
    """[2, rows] pairs of the scores in each cell [rows, L], and half of their squared
    differences."""
    apart = counts * squares - sums**2
    return np.stack([(counts**2).sum(axis=1), apart.sum(axis=1)])


def share_of(components: Components, effects: Sequence[Effect]) -> Array:
    """The share of some effects' components in the sum of all; NaN where nothing varies, or a
    component is unknown."""
    # a variance below 0 is an estimate near 0: it counts as 0, so that shares lie between 0 and 1
    positive = {effect: np.maximum(part, 0.0) for effect, part in components.items()}
    total = np.sum(list(positive.values()), axis=0)
    parts = [np.zeros_like(total), *(positive[effect] for effect in effects)]
    return safe_divide(np.sum(parts, axis=0), total)


def share_record(name: str, values: Array, clusters: Clusters) -> Numbers:
    """The record of a number between 0 and 1 made of components, by `with_agreement_interval`: of
    the number itself, or of the rest to 1 where that is the smaller, so that shares and their rest
    have the same interval. At 0 and 1, where a group more or less decides whether a component is
    negative, it is the resamples' percentiles.

    Of 1,000 simulated judges with 10, 20 and 40 groups each it held known shares in 92 to 95 % of
    cases; percentiles held them in 89 to 97 % of 200.
    """
    resampled, rest = resampled_and_left_out(values, clusters)
    record = clusters.record({name: resampled})
    if record[f"{name}_low"] is None or np.isnan(rest).any():
        return record
    lowest = rest.min()
    highest = rest.max()
    if lowest < _EDGE or 1 - highest < _EDGE:
        return record
    # a share and its rest must have the same interval, so always the smaller of the two is bounded
    turned = rest[0] > 0.5
    interval = with_agreement_interval(name, 1 - rest if turned else rest)
    estimate = Estimate.of(interval, name)
    if estimate is None or estimate.low is None or estimate.high is None:
        return record
    low = max(estimate.low, 0.0)
    high = estimate.high
    if turned:
        low, high = 1 - high, 1 - low
    return record | {f"{name}_low": low, f"{name}_high": high}


def facet_share(scores: CrossedScores, facet: str) -> Numbers:
    """The part of a score's variance that is due to one facet: of the range, the size of score
    range bias in one number. own: of its component, what all texts are moved alike; interactions:
    of all its interactions, what changes their order (with an error of single scores, if there is
    one); both; each with its interval. None where a component is unknown, or no score varies."""
    every = [effect for effect in scores.components if facet in effect]
    record: Numbers = {}
    for name, effects in zip(FACET_PARTS, (every[:1], every[1:], every), strict=True):
        record |= share_record(name, share_of(scores.components, effects), scores.clusters)
    return record


def _alternating(values: Mapping[Effect, Array], sets: Sequence[Effect], effect: Effect) -> Array:
    """The sum of values over sets of facets, negative where a set has an odd number of facets more
    or less than an effect: what is of the effect alone (Moebius inversion)."""
    return np.sum([(-1) ** abs(len(of) - len(effect)) * values[of] for of in sets], axis=0)
