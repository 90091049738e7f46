"""Score range bias as variance: how much of a score is due to the text, and how much to the range, judge or rater that
was asked (generalizability theory).

Each score is taken as a sum of independent effects, one of every set of facets (text, range, text x range, ...), and
their variances are the components: Brennan, "Generalizability Theory" (2001). A range changes a judge's scores by its
own component (all texts alike) and by its interaction with texts (their order): the size of score range bias. Of scores
.2, .4 in one range and .3, .5 in another, on two texts each, the range moves all texts by .1 and none of their order.

A component follows from the mean squared differences of pairs of scores that agree in exactly one set of facets: Koch,
"Some further remarks concerning a general approach to the estimation of variance components" (Technometrics 1968).
Where every cell has a score these are the ANOVA estimates, to rounding. Where cells are missing, as of raters who rated
some texts each, all pairs of scores that there are count alike; the estimates stay unbiased where scores are missing at
random. They may be negative where a component is near 0: they are reported so, and count as 0 in shares and
reliabilities.

Intervals resample the groups of texts alone, or leave each out in turn (of shares and reliabilities), so they speak of
these very ranges, judges and raters on other texts. A group drawn twice is never paired with itself, which would pass
for agreement of two. A reliability of ranges is agreement of a judge with itself, not with humans: a judge that repeats
the same mistake is reliable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import chain, combinations
from typing import Any

import numpy as np
from scipy import sparse

from judgebench.stats.clusters import RESAMPLES, Clusters, divided, unknown, with_agreement_interval
from judgebench.stats.points import cross_fitted
from judgebench.stats.scores import Sample, series_of
from judgebench.types import LABELS, RANGE

Effect = frozenset[str]
"""The facets of a component."""

Components = Mapping[Effect, np.ndarray]
"""Effect -> [1 + B] its variance."""

BETWEEN = " x "
"""Joins an effect's facets in its name."""

RANGES, JUDGES, HUMANS = "ranges", "judges", "humans"
"""Values of `study` in records of `variance_records`: text x range of one judge and decoding, text x range x judge of
main and assistant, text x rater."""

WANTED = 0.8
"""The reliability that numbers of ranges, judges and raters are asked for."""

_EDGE = 1e-6  # a share no farther from 0 or 1 is at the edge
_SAME = 1e-20  # a variance of parts of a range that is rounding alone
_FACETS = ("range", "judge", "rater")
_KINDS = ("own", "interactions", "both")
_ALONE = ("main", "assistant")


# Components


@dataclass(frozen=True)
class CrossedScores:
    """Scores of texts by all facets.

    Args:
        values: [T, ...] one axis a facet, the texts' (or articles') first; NaN where there is no score. Scores of
            different ranges on one scale, as the part of the way from the lowest to the highest: else the range's
            component is that of its numbers.
        facets: the names of the axes.
        groups: [T] labels of the first axis' groups, which are resampled; each its own if None.
    """

    values: np.ndarray
    facets: tuple[str, ...]
    groups: np.ndarray | None = None
    resamples: int = RESAMPLES
    seed: int = 0

    @cached_property
    def rated(self) -> np.ndarray:
        """[T] where a text has a score."""
        return ~np.isnan(self.values).all(axis=tuple(range(1, self.values.ndim)))

    @cached_property
    def clusters(self) -> Clusters:
        """Of the texts with a score."""
        labels = np.arange(len(self.values)) if self.groups is None else np.asarray(self.groups)
        return Clusters.of(labels[self.rated], self.resamples, self.seed)

    @cached_property
    def effects(self) -> list[Effect]:
        """All sets of facets but the empty one, the smallest first."""
        return _subsets(self.facets)[1:]

    @cached_property
    def components(self) -> Components:
        """In the data and each resample of the groups; NaN where no two scores agree in exactly the facets that would
        separate an effect from others. That of all facets is what is no effect at all: the error of a single score."""
        return _components(self, self.clusters)

    @cached_property
    def left_out(self) -> Components:
        """[1 + J] in the data, then with each group left out in turn."""
        return _components(self, self.clusters.jackknifed)


def _subsets(facets: Sequence[str]) -> list[Effect]:
    sizes = range(len(facets) + 1)
    return [frozenset(names) for names in chain.from_iterable(combinations(facets, size) for size in sizes)]


def _components(scores: CrossedScores, clusters: Clusters) -> Components:
    values, effects = scores.values[scores.rated], _subsets(scores.facets)
    given = ~np.isnan(values)
    filled = np.where(given, values - (values[given].mean() if given.any() else 0.0), 0.0)
    # pairs of scores that agree in at least these facets, and half of their squared differences
    at_least: dict[Effect, np.ndarray] = {}
    for effect in effects:
        gone = tuple(axis for axis, facet in enumerate(scores.facets) if axis and facet not in effect)
        cells = math.prod(size for axis, size in enumerate(values.shape) if axis and axis not in gone)
        tables = [side.sum(axis=gone).reshape(len(values), cells) for side in (1.0 * given, filled, filled**2)]
        at_least[effect] = _agreeing(tables, clusters, nested=scores.facets[0] in effect)
    # the mean over pairs that agree in exactly these: those in at least these less those that agree in more
    differences = {}
    for effect in effects:
        signed = [(-1) ** (len(more) - len(effect)) * at_least[more] for more in effects if more >= effect]
        pairs, squares = np.sum(signed, axis=0)
        differences[effect] = divided(squares, np.where(pairs > 0.5, pairs, 0.0))
    # Half the squared difference of two scores that agree in the facets A alone holds every component but those of the
    # facets within A. So that of no facets less that of A is the sum of the components within A.
    none, every = frozenset[str](), frozenset(scores.facets)
    within = {effect: differences[none] - (differences[effect] if effect != every else 0.0) for effect in effects}
    within[none] = np.zeros_like(differences[none])
    return {
        effect: np.sum([(-1) ** (len(effect) - len(part)) * within[part] for part in _subsets(sorted(effect))], axis=0)
        for effect in effects[1:]
    }


def _agreeing(tables: Sequence[np.ndarray], clusters: Clusters, nested: bool) -> np.ndarray:
    """[2, 1 + B] the ordered pairs of scores in one cell of a table, a score with itself among them, and the sums over
    them of half their squared differences. Pairs within a group count as often as it was drawn, pairs between two
    groups the product of both.

    Args:
        tables: [T, L] scores in each text and cell, the sums of their values, and of their squares.
        nested: True where a text's cells are its own, and no other's.
    """
    counts, sums, squares = tables
    if nested:
        dot = partial(np.einsum, "tl,tl->t")
        return np.stack([clusters.sums(dot(counts, counts)), clusters.sums(dot(counts, squares) - dot(sums, sums))])
    shape = clusters.count, len(counts)
    member = sparse.csr_array((np.ones(len(counts)), (clusters.number, np.arange(len(counts)))), shape=shape)
    grouped = [member @ table for table in tables]  # [G, L]
    drawn = [clusters.weights @ table for table in grouped]  # [1 + B, L]
    again = clusters.weights**2 - clusters.weights  # a group's own pairs, counted as between copies of it
    pairs, apart = (
        np.stack([(counts**2).sum(axis=1), (counts * squares - sums**2).sum(axis=1)])
        for counts, sums, squares in (drawn, grouped)
    )
    return pairs - np.stack([again @ part for part in apart])


def _share(components: Components, parts: Sequence[Effect]) -> np.ndarray:
    """[1 + B] of some components in the sum of all; NaN where nothing varies, or a component is unknown."""
    total = np.sum([np.maximum(part, 0.0) for part in components.values()], axis=0)
    return divided(
        np.sum([np.zeros_like(total), *(np.maximum(components[part], 0.0) for part in parts)], axis=0), total
    )


def _bounded(name: str, scores: CrossedScores, figure: Callable[[Components], np.ndarray]) -> dict[str, float | None]:
    """The record of a number between 0 and 1 made of components, by `with_agreement_interval`: of the number itself, or
    of the rest to 1 where that is the smaller, so that shares and their rest have the same interval. At 0 and 1, where
    a group more or less decides whether a component is negative, it is the resamples' percentiles.

    Of 1,000 simulated judges with 10, 20 and 40 groups each it held known shares in 92 to 95 % of cases; percentiles
    held them in 89 to 97 % of 200.
    """
    record = scores.clusters.record({name: figure(scores.components)})
    if record[f"{name}_low"] is None:
        return record
    rest = figure(scores.left_out)
    if np.isnan(rest).any() or min(rest.min(), 1 - rest.max()) < _EDGE:
        return record
    turned = rest[0] > 0.5
    interval = with_agreement_interval(name, 1 - rest if turned else rest)
    low, high = interval[f"{name}_low"], interval[f"{name}_high"]
    if low is not None and high is not None:
        ends = (1 - high, 1 - max(low, 0.0)) if turned else (max(low, 0.0), high)
        record |= {f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return record


def component_records(scores: CrossedScores) -> list[dict[str, Any]]:
    """A record an effect, the smallest sets of facets first: effect, such as "text x range"; facets: how many;
    variance, and share: of the sum of all, negative ones as 0, each with `_low` and `_high` of its 95 % interval; note:
    on a negative estimate, or why there is none; else None."""
    records = []
    for effect in scores.effects:
        values, note = scores.components[effect], None
        if np.isnan(values[0]):
            note = "No component: too few scores agree in other facets alone."
        elif values[0] < 0:
            note = "A negative estimate: it counts as 0 in the shares."
        name = BETWEEN.join(facet for facet in scores.facets if facet in effect)
        variance = scores.clusters.record({"variance": values})
        share = _bounded("share", scores, lambda components, effect=effect: _share(components, [effect]))  # type: ignore[misc]
        records.append({"effect": name, "facets": len(effect), **variance, **share, "note": note})
    return records


def facet_share(scores: CrossedScores, facet: str) -> dict[str, float | None]:
    """The part of a score's variance that is due to one facet: of the range, the size of score range bias in one
    number. own: of its component, what all texts are moved alike; interactions: of all its interactions, what changes
    their order (with an error of single scores, if there is one); both; each with its interval. None where a component
    is unknown, or no score varies."""
    every = [effect for effect in scores.effects if facet in effect]
    record: dict[str, float | None] = {}
    for name, parts in zip(_KINDS, (every[:1], every[1:], every), strict=True):
        record |= _bounded(name, scores, lambda components, parts=parts: _share(components, parts))  # type: ignore[misc]
    return record


# Decisions


def reliability_parts(
    components: Components, told_apart: Sequence[str], numbers: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[1 + B] variances of true scores, of relative errors, and of absolute ones, of means over `numbers` of levels of
    each facet (1 of one that is not named). Relative errors change the order of texts, absolute ones the scores.

    Args:
        told_apart: the facets whose levels are to be ordered: ("text",), or ("article", "system") of texts that are the
            crossing of both, or ("system",) of systems over as many articles as `numbers` says.
    """
    true, relative, absolute = (np.zeros_like(next(iter(components.values()))) for _ in range(3))
    for effect, variance in components.items():
        rest = effect - set(told_apart)
        part = np.maximum(variance, 0.0) / math.prod(numbers.get(facet, 1) for facet in rest)
        if not rest:
            true += part
            continue
        absolute += part
        if effect & set(told_apart):
            relative += part
    return true, relative, absolute


def reliability(components: Components, told_apart: Sequence[str], numbers: Mapping[str, int]) -> list[np.ndarray]:
    """The reliability [1 + B] of means over some ranges, judges, raters: relative (Brennan's generalizability
    coefficient) and absolute (his dependability Phi); NaN where nothing varies. See `reliability_parts`."""
    true, *errors = reliability_parts(components, told_apart, numbers)
    return [divided(true, true + error) for error in errors]


def number_needed(
    components: Components, told_apart: Sequence[str], facet: str, wanted: float, numbers: Mapping[str, int]
) -> list[int | None]:
    """The fewest levels of one facet (raters, ranges, judges) with which the relative and the absolute reliability
    reach `wanted`, the others as in `numbers`; None where no number does.

    Example:
        True variance 2, and 3 of an error that falls with the number of raters: .8 takes ceil(3 / (2 x .2 / .8)) = 6.
    """
    true, *errors = reliability_parts(components, told_apart, {**numbers, facet: 1})
    # what does not fall with the facet's number is left where there are more levels than can be asked
    without = {effect: part for effect, part in components.items() if facet not in effect}
    needed: list[int | None] = []
    for error, constant in zip(errors, reliability_parts(without, told_apart, numbers)[1:], strict=True):
        room = true[0] * (1 - wanted) / wanted - constant[0]
        falls = error[0] - constant[0]
        if room > 0 or (room == 0 and falls == 0):
            needed.append(max(1, math.ceil(falls / room - 1e-9)) if falls > 0 else 1)
        else:
            needed.append(None)
    return needed


def decision_records(
    scores: CrossedScores, told_apart: Sequence[str], numbers: Sequence[Mapping[str, int]], wanted: float = WANTED
) -> list[dict[str, Any]]:
    """A decision study: the reliability with other numbers of ranges, judges, raters.

    Args:
        told_apart: see `reliability_parts`.
        numbers: a record each: facet -> its number.
        wanted: the reliability that a facet's number is asked for.

    Returns:
        A record an entry of `numbers`: number_F of each facet F that is not told apart; relative, absolute, each with
        its interval; needed_F and needed_absolute_F: see `number_needed`; reason: why there is no reliability.
    """
    facets, records = [facet for facet in scores.facets if facet not in told_apart], []
    for levels in numbers:
        known = not np.isnan(reliability(scores.components, told_apart, levels)[0][0])
        record: dict[str, Any] = {f"number_{facet}": levels.get(facet, 1) for facet in facets}
        for side, name in enumerate(("relative", "absolute")):
            record |= _bounded(name, scores, lambda parts, at=levels, k=side: reliability(parts, told_apart, at)[k])  # type: ignore[misc]
        for facet in facets:
            needed = number_needed(scores.components, told_apart, facet, wanted, levels) if known else [None, None]
            record[f"needed_{facet}"], record[f"needed_absolute_{facet}"] = needed
        record["reason"] = None if known else "No reliability: a component is unknown, or nothing varies."
        records.append(record)
    return records


# The study


def variance_records(sides: Sequence[Sample]) -> list[dict[str, Any]]:
    """The variance components of judges and humans, and how many ranges, judges or raters are enough.

    Returns:
        A record a study: the keys of `Sample.head` (None where a study is over them; judge `humans` in theirs),
        and

        - study: `RANGES` (series with two ranges or more; as given and calibrated), `JUDGES` (where there is an
          assistant), `HUMANS` (a record a dimension); calibrated: whether each range's scores were mapped to the
          humans' scale first, by what texts of other groups teach (`points.cross_fitted`);
        - texts, groups, and ranges, judges, raters: how many there are, None where that is no facet;
        - spread: standard deviation of a score, as part of its range, or of the humans' scale (None where unknown);
        - texts_share; and range_, judge_, rater_ own, interactions, both, see `facet_share`;
        - components: see `component_records`; crossed: those of article x system x range where texts are such, else
          empty; decisions: see `decision_records`, first of one level of each facet, then of as many as there are (of
          raters: as many as rated a text on average);
        - reason: why there is nothing of this, else None.
    """
    records: list[dict[str, Any]] = []
    tables: dict[tuple[str, ...], list[Sample]] = {}
    for side in sides:
        tables.setdefault(side.cell.table, []).append(side)
    humans: dict[tuple[str, str], dict[str, Any]] = {}
    for table in tables.values():
        by_cell = {side.cell: side for side in table}
        series = [[by_cell[cell] for cell in ranges.values()] for ranges in series_of(by_cell).values()]
        for ranged in series:
            if len(ranged) > 1:
                records += [_of_ranges(ranged, calibrated) for calibrated in (False, True)]
        records += _of_judges(series)
        humans.setdefault((table[0].cell.split, table[0].cell.dimension), _of_humans(table[0]))
    return records + list(humans.values())


def _of_ranges(sides: Sequence[Sample], calibrated: bool) -> dict[str, Any]:
    first = sides[0]
    values, rows = _shared(sides, calibrated)
    groups, systems, drawn = first.groups[rows], first.systems[rows], (first.resamples, first.seed)
    record = _head(sides) | {"study": RANGES, "calibrated": calibrated}
    unit = not calibrated or first.scale is not None
    record |= _study(CrossedScores(values, ("text", "range"), groups, *drawn), unit)
    # texts that are the crossing of articles and systems; a system of each text's own would make a large, empty table
    labels, group = np.unique(groups, return_inverse=True)
    names, system = np.unique(systems, return_inverse=True)
    place, size = group * len(names) + system, len(labels) * len(names)
    once = len(np.unique(place)) == len(place)
    if record["reason"] is None and len(names) > 1 and once and 2 * len(place) >= size:
        table = np.full((size, values.shape[1]), np.nan)
        table[place] = values
        crossed = table.reshape(len(labels), len(names), -1)
        record["crossed"] = component_records(CrossedScores(crossed, ("article", "system", "range"), None, *drawn))
    if calibrated and np.isnan(values).all():
        record["reason"] = "Not calibrated: that takes two groups of rated texts at least."
    return record


def _of_judges(series: Sequence[Sequence[Sample]]) -> list[dict[str, Any]]:
    """A record a decoding that main and assistant share, over the ranges that both were asked in."""
    records = []
    by_judge: dict[tuple[Any, ...], dict[str, Sequence[Sample]]] = {}
    for sides in series:
        cell = sides[0].cell
        if cell.judge in _ALONE:
            by_judge.setdefault((cell.decoding, *cell.knobs), {})[cell.judge] = sides
    for judges in by_judge.values():
        both = [{side.cell.range: side for side in judges.get(judge, ())} for judge in _ALONE]
        ranges = [score_range for score_range in both[0] if score_range in both[1]]
        if not ranges:
            continue
        sides = [by_range[score_range] for score_range in ranges for by_range in both]
        flat, rows = _shared(sides)
        values, facets = flat.reshape(len(flat), len(ranges), 2), ("text", "range", "judge")
        one_range = len(ranges) == 1
        scores = CrossedScores(
            values[:, 0] if one_range else values,
            ("text", "judge") if one_range else facets,
            sides[0].groups[rows],
            sides[0].resamples,
            sides[0].seed,
        )
        records.append(_head(sides) | {"judge": None, "study": JUDGES, "calibrated": False} | _study(scores))
    return records


def _of_humans(side: Sample) -> dict[str, Any]:
    head = _head([side]) | dict.fromkeys((*RANGE, "decoding", "lambda", "temperature"))
    head |= {"judge": HUMANS, "study": HUMANS, "calibrated": False}
    head.pop(LABELS, None)
    low, high = side.scale or (0.0, 1.0)
    rated = ~np.isnan(side.ratings).all(axis=1)
    values = (side.ratings[rated] - low) / (high - low)
    scores = CrossedScores(values, ("text", "rater"), side.groups[rated], side.resamples, side.seed)
    usual = {"rater": round((~np.isnan(values)).sum() / max(1, len(values)))}
    record = head | _study(scores, side.scale is not None, usual)
    if not side.raters:
        record |= {"raters": None, "reason": "No components: only one rating of each text, or their mean, is known."}
    return record


def _head(sides: Sequence[Sample]) -> dict[str, Any]:
    """The keys of `Sample.head`, None where these differ in them."""
    heads = [side.head for side in sides]
    same = {name: value if all(head.get(name) == value for head in heads) else None for name, value in heads[0].items()}
    if len({side.cell.range for side in sides}) > 1:
        same |= dict.fromkeys(RANGE)
        same.pop(LABELS, None)
    return same


def _shared(sides: Sequence[Sample], calibrated: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """[n, sides] scores of the texts that all sides have, as part of the way from the lowest to the highest of their
    range, or calibrated and as part of the humans' scale where it is known; and [n] rows of the first side."""
    common = reduce(np.intersect1d, [side.names for side in sides])
    columns, rows = [], []
    for side in sides:
        low, high = (side.cell.range_min, side.cell.range_max) if not calibrated else side.scale or (0.0, 1.0)
        values = side.scores
        if calibrated:
            values = cross_fitted(side.scores, side.human, side.groups, seed=side.seed)
        here = np.flatnonzero(np.isin(side.names, common))
        rows.append(here[np.argsort(side.names[here])])
        columns.append(((values - low) / (high - low))[rows[-1]])
    return np.stack(columns, axis=1), rows[0]


def _study(scores: CrossedScores, has_unit: bool = True, usual: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The keys of a record from texts on.

    Args:
        has_unit: False where a spread would have none.
        usual: levels of each facet that a text is scored in; all there are, if None.
    """
    facets = scores.facets[1:]
    levels = dict(zip(facets, scores.values.shape[1:], strict=True))
    record: dict[str, Any] = {"texts": int(scores.rated.sum()), "groups": scores.clusters.count}
    record |= {f"{facet}s": levels.get(facet) for facet in _FACETS} | {"spread": None}
    record |= unknown(["texts_share", *(f"{facet}_{kind}" for facet in _FACETS for kind in _KINDS)])
    components = component_records(scores)
    variances = [part["variance"] for part in components if part["variance"] is not None]
    total, reason = sum(max(variance, 0.0) for variance in variances), None
    if record["texts"] < 2:
        reason = "No components: fewer than two texts have scores."
    elif len(variances) < len(components):
        reason = "No components: too few scores of other texts, ranges, judges or raters meet each other."
    elif total <= _SAME:
        reason = "No components: all scores are the same."
    record |= {"components": components, "crossed": [], "decisions": [], "reason": reason}
    if reason is not None:
        return record
    record["spread"] = float(np.sqrt(total)) if has_unit else None
    record |= {f"texts_share{end}": components[0][f"share{end}"] for end in ("", "_low", "_high")}
    for facet in facets:
        record |= {f"{facet}_{name}": value for name, value in facet_share(scores, facet).items()}
    return record | {"decisions": decision_records(scores, ("text",), [dict.fromkeys(facets, 1), usual or levels])}
