"""Systems compared with what one human does: pairs ordered alike, and errors of systems' means.

A judge that orders 80 % of pairs of systems as the humans do is as good as a human where one rater orders 80 % as the
others do. Rater and judge meet the same means of the other raters, on the same texts, as in `raters.Panel`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from judgebench.metrics.correlation import MOST_ENTRIES
from judgebench.stats.clusters import Clusters, divided, unknown
from judgebench.stats.humans import Panel
from judgebench.stats.points import cross_fitted
from judgebench.worth.judge_scores import JudgeScores
from judgebench.worth.system_level import MOST_SYSTEMS, PairedSystems, mean_table

ORDER = ("pairwise_others", "pairwise_ceiling", "pairwise_difference")
"""Share of pairs of systems that the judge, and one rater, order as the other raters do; the former less the latter."""

ERRORS = tuple(f"{kind}error{end}" for kind in ("", "calibrated_", "unseen_", "rater_") for end in ("", "_largest"))
"""Mean and largest distance of systems' means from the humans': of raw scores, of scores calibrated with articles left
out and with whole systems left out, and of one rater from the others."""


def raters_record(side: JudgeScores) -> tuple[dict[str, Any], dict[str, dict[str, float | None]]]:
    """`ORDER` and `ERRORS` of a judge with intervals, and why some are None: pairwise_reason, error_reason; then of
    each system the error of the judge's mean, with its interval.

    `error_system`: the system with the largest error of raw scores.
    """
    record: dict[str, Any] = unknown(ORDER) | unknown(ERRORS) | {"error_system": None}
    by_system: dict[str, dict[str, float | None]] = {}
    panel = Panel(side.ratings, side.groups, side.resamples, side.seed)
    single = bool(side.raters) and panel.missing is None
    names, system = np.unique(side.systems, return_inverse=True)
    if not 2 <= len(names) <= MOST_SYSTEMS:
        why = "all texts are of one system" if len(names) < 2 else f"there are more than {MOST_SYSTEMS} systems"
    elif not side.raters:
        why = "only means of ratings are known"
    else:
        why = "" if single else "no rater rated enough texts that others rated, too"
    record["pairwise_reason"] = f"Pairs are not compared with one rater: {why}." if why else None
    if not why:
        record |= _order(side, panel, system)
    rated = ~np.isnan(side.human)
    if side.scale is None or not rated.any() or not 2 <= len(names) <= MOST_SYSTEMS:
        why = why if len(names) < 2 or len(names) > MOST_SYSTEMS else "no text has a rating"
        why = "the humans' scale is unknown" if side.scale is None else why
        return record | {"error_reason": f"No errors of systems' means: {why}."}, by_system
    clusters = Clusters.of(side.groups[rated], side.resamples, side.seed)
    kinds = {
        "": side.on_scale,
        "calibrated_": cross_fitted(side.scores, side.human, side.groups, seed=side.seed),
        "unseen_": cross_fitted(side.scores, side.human, side.systems, seed=side.seed),
    }
    for kind, scores in kinds.items():
        errors = mean_errors((scores - side.human)[rated], system[rated], len(names), clusters)
        record |= _figures(f"{kind}error", errors, clusters)
        if not kind:
            record["error_system"] = str(names[np.nanargmax(np.abs(errors[0]))])
            by_system = {str(name): clusters.record({"error": errors[:, s]}) for s, name in enumerate(names)}
    if single:
        record |= _rater_errors(panel, system, len(names), side)
    return record | {"error_reason": None}, by_system


def _order(side: JudgeScores, panel: Panel, system: np.ndarray) -> dict[str, float | None]:
    """`ORDER`: means over raters, weighted by their texts."""
    clusters = _of_raters(panel, side)
    totals, mass = np.zeros((2, len(clusters.weights))), np.zeros(len(clusters.weights))
    shape = int(system.max()) + 1, clusters.count
    for column in panel.counted:
        rows = ~np.isnan(panel.others[:, column])
        number = clusters.number[rows]
        others, rater, judge = (
            PairedSystems(mean_table(values[rows], system[rows], number, shape))
            for values in (panel.others[:, column], panel.ratings[:, column], side.scores)
        )
        texts = clusters.sums(1.0 * rows)
        shares = [ordered_alike(one, others, clusters.weights) for one in (judge, rater)]
        known = ~np.isnan(shares[0])
        totals += np.where(known, texts * np.array(shares), 0.0)
        mass += np.where(known, texts, 0.0)
    judge_share, ceiling = (divided(total, mass) for total in totals)
    return clusters.record(dict(zip(ORDER, (judge_share, ceiling, judge_share - ceiling), strict=True)))


def _of_raters(panel: Panel, side: JudgeScores) -> Clusters:
    """Of the groups that hold a text of a counted rater; other texts have number 0, and are never summed."""
    known = ~np.isnan(panel.others[:, panel.counted]).all(axis=1)
    clusters = Clusters.of(np.asarray(panel.groups)[known], side.resamples, side.seed)
    number = np.zeros(len(known), dtype=np.int64)
    number[known] = clusters.number
    return Clusters(number, clusters.weights)


def ordered_alike(one: PairedSystems, other: PairedSystems, weights: np.ndarray) -> np.ndarray:
    """[1 + B] the share of pairs of systems that two sides order alike, of those that share a drawn article; of tables
    with the same empty cells, by rows of weights [1 + B, G]."""
    first, second = one.pairs
    there = ~np.isnan(one.table)
    shared = (there[first] & there[second]).astype(np.float64)
    parts, step = [], max(1, MOST_ENTRIES // max(1, len(first)))
    for start in range(0, len(weights), step):
        rows = weights[start : start + step]
        counted = rows @ shared.T > 0
        alike = np.sign(one.resampled(rows)[0]) == np.sign(other.resampled(rows)[0])
        parts.append(divided((alike & counted).sum(axis=1, dtype=np.float64), counted.sum(axis=1, dtype=np.float64)))
    return np.concatenate(parts)


def mean_errors(apart: np.ndarray, system: np.ndarray, systems: int, clusters: Clusters) -> np.ndarray:
    """[1 + B, S] the mean of the differences `apart` [N], judge less human, of each system's texts."""
    member = system[:, None] == np.arange(systems)
    known = np.isfinite(apart)[:, None] & member
    return divided(clusters.sums(np.where(known, apart[:, None], 0.0)), clusters.sums(1.0 * known))


def _figures(name: str, errors: np.ndarray, clusters: Clusters) -> dict[str, float | None]:
    """The mean and the largest distance of errors [1 + B, S]."""
    apart = np.abs(errors)
    known = ~np.isnan(apart).all(axis=1)
    if not known[0]:
        return unknown((name, f"{name}_largest"))
    mean, largest = np.full(len(apart), np.nan), np.full(len(apart), np.nan)
    mean[known], largest[known] = np.nanmean(apart[known], axis=1), np.nanmax(apart[known], axis=1)
    return with_distance_interval(name, mean, clusters) | with_distance_interval(f"{name}_largest", largest, clusters)


def with_distance_interval(name: str, values: np.ndarray, clusters: Clusters) -> dict[str, float | None]:
    """The record of a mean or largest distance [1 + B], never below 0.

    Distances grow with noise: those of resamples exceed that of the data, as that exceeds the truth. The mean excess
    is taken off the resamples twice. Of largest errors of systems on recorded ratings, whose truth is known, 20
    articles then hold it in 90 to 97 % of cases, percentiles as they are in 47 to 95 %.
    """
    excess = np.nanmean(values[1:]) - values[0] if len(values) > 1 else 0.0
    record = clusters.record({name: np.concatenate([values[:1], np.maximum(values[1:] - 2 * excess, 0.0)])})
    value, low, high = (record[f"{name}{end}"] for end in ("", "_low", "_high"))
    if value is not None and low is not None and high is not None:
        record |= {f"{name}_low": min(low, value), f"{name}_high": max(high, value)}
    return record


def _rater_errors(panel: Panel, system: np.ndarray, systems: int, side: JudgeScores) -> dict[str, float | None]:
    """The mean and largest distance of a rater's means of systems from the others': means over raters."""
    clusters, parts, mass = _of_raters(panel, side), [], []
    for column in panel.counted:
        apart = panel.ratings[:, column] - panel.others[:, column]
        errors = np.abs(mean_errors(apart, system, systems, clusters))
        known = ~np.isnan(errors).all(axis=1)
        errors[~known] = 0.0
        mass.append(clusters.sums(1.0 * np.isfinite(apart)) * known)
        parts.append([np.nanmean(errors, axis=1) * mass[-1], np.nanmax(errors, axis=1) * mass[-1]])
    mean, largest = (divided(np.sum([part[k] for part in parts], axis=0), np.sum(mass, axis=0)) for k in (0, 1))
    return with_distance_interval("rater_error", mean, clusters) | with_distance_interval(
        "rater_error_largest", largest, clusters
    )
