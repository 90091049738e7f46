"""Score range bias as variance: how much of a judge's scores is due to the text, and how much to the range it was asked
in, before and after each repair; two judges crossed with ranges; human raters. See `generalizability`.

Scores are taken as the part of the way from the lowest to the highest of their range. A reliability here is agreement
of a judge with itself in other ranges, not with humans: a judge that repeats the same mistake is reliable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from judgebench.metrics.cells import series_of
from judgebench.metrics.resampling import unknown
from judgebench.stats.points import cross_fitted
from judgebench.types import LABELS, RANGE
from judgebench.worth.generalizability import CrossedScores, component_records, decision_records, facet_share
from judgebench.worth.judge_scores import JudgeScores

RANGES, JUDGES, HUMANS = "ranges", "judges", "humans"
"""Values of `study` in records of `variance_records`: text x range of one judge and decoding, text x range x judge of
main and assistant, text x rater."""

WANTED = 0.8
"""The reliability that numbers of ranges, judges and raters are asked for."""

_FACETS = ("range", "judge", "rater")
_ALONE = ("main", "assistant")


def variance_records(sides: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """The variance components of judges and humans, and how many ranges, judges or raters are enough.

    Returns:
        A record a study, of JSON's own types: the keys of `JudgeScores.head` (None where a study is over them; judge
        `humans` in theirs), and

        - study: `RANGES` (series with two ranges or more; as given and calibrated), `JUDGES` (where there is an
          assistant), `HUMANS` (a record a dimension); calibrated: whether each range's scores were mapped to the
          humans' scale first, by what texts of other groups teach (`points.cross_fitted`);
        - texts, groups, and ranges, judges, raters: how many there are, None where that is no facet;
        - spread: standard deviation of a score, as part of its range, or of the humans' scale (None where unknown);
        - texts_share; and range_, judge_, rater_ own, interactions, both, see `facet_share`: parts of the variance,
          each with `_low` and `_high` of its 95 % interval, groups resampled;
        - components: see `component_records`; crossed: those of article x system x range where texts are such, else
          empty; decisions: see `decision_records`, first of one level of each facet, then of as many as there are (of
          raters: as many as rated a text on average);
        - reason: why there is nothing of this, else None.
    """
    records: list[dict[str, Any]] = []
    tables: dict[tuple[str, ...], list[JudgeScores]] = {}
    for side in sides:
        tables.setdefault(side.cell.table, []).append(side)
    humans: dict[tuple[str, str], dict[str, Any]] = {}
    for own in tables.values():
        held = {side.cell: side for side in own}
        series = [[held[cell] for cell in ranges.values()] for ranges in series_of(held).values()]
        for ranged in series:
            if len(ranged) > 1:
                records += [_of_ranges(ranged, calibrated) for calibrated in (False, True)]
        records += _of_judges(series)
        humans.setdefault((own[0].cell.split, own[0].cell.dimension), _of_humans(own[0]))
    return records + list(humans.values())


def _of_ranges(sides: Sequence[JudgeScores], calibrated: bool) -> dict[str, Any]:
    rows = _shared(sides)
    values = np.stack([(_calibrated(side) if calibrated else _part(side))[own] for side, own in zip(sides, rows,
                       strict=True)], axis=1)  # fmt: skip
    groups, systems = sides[0].groups[rows[0]], sides[0].systems[rows[0]]
    head = _head(sides) | {"study": RANGES, "calibrated": calibrated}
    scores = CrossedScores(values, ("text", "range"), groups, sides[0].resamples, sides[0].seed)
    record = head | _found(scores, has_unit=not calibrated or sides[0].scale is not None)
    crossed = _by_system(values, groups, systems) if record["reason"] is None else None
    if crossed is not None:
        split = CrossedScores(crossed, ("article", "system", "range"), None, sides[0].resamples, sides[0].seed)
        record["crossed"] = component_records(split)
    if calibrated and np.isnan(values).all():
        record["reason"] = "Not calibrated: that takes two groups of rated texts at least."
    return record


def _of_judges(series: Sequence[Sequence[JudgeScores]]) -> list[dict[str, Any]]:
    """A record a decoding that main and assistant share, over the ranges that both were asked in."""
    records = []
    by_judge: dict[tuple[Any, ...], dict[str, Sequence[JudgeScores]]] = {}
    for sides in series:
        cell = sides[0].cell
        if cell.judge in _ALONE:
            by_judge.setdefault((cell.decoding, *cell.knobs), {})[cell.judge] = sides
    for found in by_judge.values():
        if len(found) < 2:
            continue
        both = [{side.cell.range: side for side in found[judge]} for judge in _ALONE]
        ranges = [one for one in both[0] if one in both[1]]
        if not ranges:
            continue
        sides = [by_range[one] for one in ranges for by_range in both]
        rows = _shared(sides)
        flat = np.stack([_part(side)[own] for side, own in zip(sides, rows, strict=True)], axis=1)
        values = flat.reshape(len(flat), len(ranges), 2)
        facets: tuple[str, ...] = ("text", "range", "judge")
        if len(ranges) == 1:
            values, facets = values[:, 0], ("text", "judge")
        first = sides[0]
        scores = CrossedScores(values, facets, first.groups[rows[0]], first.resamples, first.seed)
        head = _head(sides) | {"judge": None, "study": JUDGES, "calibrated": False}
        records.append(head | _found(scores))
    return records


def _of_humans(side: JudgeScores) -> dict[str, Any]:
    head = _head([side]) | dict.fromkeys((*RANGE, "decoding", "lambda", "temperature"))
    head |= {"judge": HUMANS, "study": HUMANS, "calibrated": False}
    head.pop(LABELS, None)
    low, high = side.scale or (0.0, 1.0)
    rated = ~np.isnan(side.ratings).all(axis=1)
    values = (side.ratings[rated] - low) / (high - low)
    scores = CrossedScores(values, ("text", "rater"), side.groups[rated], side.resamples, side.seed)
    given = (~np.isnan(values)).sum()
    record = head | _found(scores, side.scale is not None, {"rater": round(given / max(1, len(values)))})
    if not side.raters:
        record |= {"raters": None, "reason": "No components: only one rating of each text, or their mean, is known."}
    return record


def _head(sides: Sequence[JudgeScores]) -> dict[str, Any]:
    """The keys of `JudgeScores.head`, None where these differ in them."""
    heads = [side.head for side in sides]
    same = {name: one if all(each.get(name) == one for each in heads) else None for name, one in heads[0].items()}
    if len({side.cell.range for side in sides}) > 1:
        same |= dict.fromkeys(RANGE)
        same.pop(LABELS, None)
    return same


def _shared(sides: Sequence[JudgeScores]) -> list[np.ndarray]:
    """[n] rows of each side's texts that all of them have, in one order."""
    common = reduce(np.intersect1d, [side.names for side in sides])
    return [np.flatnonzero(np.isin(side.names, common))[np.argsort(side.names[np.isin(side.names, common)])]
            for side in sides]  # fmt: skip


def _part(side: JudgeScores) -> np.ndarray:
    """[N] scores as part of the way from the lowest to the highest of the range."""
    low, high = side.cell.range_min, side.cell.range_max
    return (side.scores - low) / (high - low)


def _calibrated(side: JudgeScores) -> np.ndarray:
    """[N] calibrated scores as part of the humans' scale where it is known, else as they are."""
    low, high = side.scale or (0.0, 1.0)
    return (cross_fitted(side.scores, side.human, side.groups, seed=side.seed) - low) / (high - low)


def _by_system(values: np.ndarray, groups: np.ndarray, systems: np.ndarray) -> np.ndarray | None:
    """[A, S, R] values [N, R] of texts by article and system, NaN where there is none; None where texts are not the
    crossing of two systems or more with articles."""
    labels, group = np.unique(groups, return_inverse=True)
    names, system = np.unique(systems, return_inverse=True)
    place = group * len(names) + system
    once = len(np.unique(place)) == len(place)
    # A system of each text's own would make a large and empty table.
    if len(names) < 2 or not once or 2 * len(place) < len(labels) * len(names):
        return None
    table = np.full((len(labels) * len(names), values.shape[1]), np.nan)
    table[place] = values
    return table.reshape(len(labels), len(names), -1)


def _found(scores: CrossedScores, has_unit: bool = True, usual: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The keys of a record from texts on.

    Args:
        has_unit: False where a spread would have none.
        usual: levels of each facet that a text is scored in; all there are, if None.
    """
    facets = scores.facets[1:]
    levels = dict(zip(facets, scores.values.shape[1:], strict=True))
    held = ~np.isnan(scores.values).all(axis=tuple(range(1, scores.values.ndim)))
    groups = np.arange(len(held)) if scores.groups is None else scores.groups
    record: dict[str, Any] = {"texts": int(held.sum()), "groups": len(np.unique(groups[held]))}
    record |= {f"{facet}s": levels.get(facet) for facet in _FACETS} | {"spread": None}
    record |= unknown(["texts_share", *(f"{facet}_{kind}" for facet in _FACETS for kind in _KINDS)])
    components = component_records(scores)
    variances = [one["variance"] for one in components]
    record |= {"components": components, "crossed": [], "decisions": [], "reason": _missing(record, variances)}
    if record["reason"] is not None:
        return record
    if has_unit:
        record["spread"] = float(np.sqrt(sum(max(one, 0.0) for one in variances)))
    record |= {f"texts_share{end}": components[0][f"share{end}"] for end in ("", "_low", "_high")}
    for facet in facets:
        record |= {f"{facet}_{name}": value for name, value in facet_share(scores, facet).items()}
    numbers: list[Mapping[str, int]] = [dict.fromkeys(facets, 1), usual or levels]
    return record | {"decisions": decision_records(scores, ("text",), numbers, WANTED)}


_KINDS = ("own", "interactions", "both")
_SAME = 1e-20  # a variance of parts of a range that is rounding alone


def _missing(record: Mapping[str, Any], variances: Sequence[float | None]) -> str | None:
    if record["texts"] < 2:
        return "No components: fewer than two texts have scores."
    known = [one for one in variances if one is not None]
    if len(known) < len(variances):
        return "No components: too few scores of other texts, ranges, judges or raters meet each other."
    return None if sum(max(one, 0.0) for one in known) > _SAME else "No components: all scores are the same."
