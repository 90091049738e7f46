"""Systems ranked by each judge of a run, compared with the humans' ranking and with what one rater does.

A judge that orders 80 % of pairs of systems as the humans do is as good as a human where one rater orders 80 % as the
others do. In pairs, rater and judge meet the same means of the other raters, on the same texts, as in `humans.Panel`.
In errors, the judge meets the mean of all raters, which is a little easier: with three raters of independent noise its
variance is 1 / 3 in place of 1 / 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.stats.clusters import Clusters, divided, expanded, unknown, with_interval
from judgebench.stats.humans import Panel
from judgebench.stats.paired import default_pairs
from judgebench.stats.points import cross_fitted
from judgebench.stats.scores import Sample, series_of
from judgebench.stats.significance import holm
from judgebench.stats.system_pairs import (
    MOST_SYSTEMS,
    PairedSystems,
    boot_both,
    mean_table,
    ordered_alike,
    permuted_both,
    system_clusters,
    system_record,
)

ORDER = ("pairwise_others", "pairwise_ceiling", "pairwise_difference")
"""Share of pairs of systems that the judge, and one rater, order as the other raters do; the former less the latter."""

ERRORS = tuple(f"{kind}error{end}" for kind in ("", "calibrated_", "unseen_", "rater_") for end in ("", "_largest"))
"""Mean and largest distance of systems' means from the humans': of raw scores, of scores calibrated with articles left
out and with whole systems left out, and of one rater from the others."""


def system_records(sides: Sequence[Sample]) -> list[dict[str, Any]]:
    """Agreement of every judge, decoding and range with the humans about systems, over the texts that humans rated.

    Returns:
        A record a side: the keys of `Sample.head`; texts; those of `system_pairs.system_record`, and

        - clusters, human_clusters: how many clusters of systems each tells apart, see `system_clusters`; None with one
          system;
        - means_held: the share of systems whose humans' mean lies in the 95 % interval of the judge's own mean on the
          humans' scale, articles resampled; systems_held: how many; both None without a scale or two articles. A noisy
          judge holds more, so that these are no measure of a judge;
        - `ORDER` and `ERRORS` with intervals, and why some are None: pairwise_reason, error_reason; error_system: the
          system with the largest error of raw scores;
        - ranking: a record a system, the judge's best first: system; texts; mean of the judge on the humans' scale (in
          its range where no scale is known) and human_mean, each with `_low` and `_high`; cluster, beaten_by and
          human_cluster, human_beaten_by; held; error: the mean of judge less human, with `_low` and `_high`;
        - against: a record a correlation over systems and each series that this one is compared with, as
          `paired.default_pairs` has them: judge, decoding, lambda, temperature; systems, articles: that have a text in
          every cell; statistic; difference, this less that, with `_low` and `_high` (`boot_both`); p (`permuted_both`);
          p_holm: corrected over all of the dimension and statistic; reason: why there is no test, else None;
        - reason: why figures are missing, else None.
    """
    of_humans: dict[Any, Any] = {}  # human clusters and means by what they rest on, for all sides of a dimension
    records = {id(side): _record(side, of_humans) for side in sides}
    tables: dict[tuple[str, ...], list[Sample]] = {}
    for side in sides:
        tables.setdefault(side.cell.table, []).append(side)
    for table in tables.values():
        _compare(table, records)
    return list(records.values())


def _record(side: Sample, of_humans: dict[Any, Any]) -> dict[str, Any]:
    rated = ~np.isnan(side.human)
    judge, human, groups, systems = (values[rated] for values in (side.on_scale, side.human, side.groups, side.systems))
    order, errors = _order(side), _errors(side)
    by_system = errors.pop("by_system", {})
    record: dict[str, Any] = side.head | {"texts": int(rated.sum())}
    record |= system_record(judge, human, groups, systems, side.resamples, side.seed)
    record |= dict.fromkeys(("clusters", "human_clusters", "means_held", "systems_held")) | {"ranking": []}
    record |= order | errors | {"against": []}
    if not rated.any():
        record["reason"] = "No text has a rating."
    if not 2 <= record["systems"] <= MOST_SYSTEMS:
        return record
    # clusters and means of humans and judge
    key = side.cell.split, side.cell.dimension, tuple(side.names[rated].tolist())
    if key not in of_humans:
        clusters = system_clusters(human, groups, systems, side.seed)
        of_humans[key] = {row["system"]: row for row in clusters}, _means(human, groups, systems, side)
    theirs, human_means = of_humans[key]
    ours, means = system_clusters(judge, groups, systems, side.seed), _means(judge, groups, systems, side)
    for row in ours:
        name, held = row["system"], None
        mean, human_row = means[name], {**theirs[name], **human_means[name]}
        if side.scale is not None and mean["mean_low"] is not None:
            held = bool(mean["mean_low"] <= human_row["mean"] <= mean["mean_high"])
        record["ranking"].append(
            {"system": name, **mean, "cluster": row["cluster"], "beaten_by": row["beaten_by"]}
            | {f"human_{key}": human_row[key] for key in ("mean", "mean_low", "mean_high", "cluster", "beaten_by")}
            | {"held": held}
            | by_system.get(name, unknown(["error"]))
        )
    record["clusters"], record["human_clusters"] = ours[-1]["cluster"], max(row["cluster"] for row in theirs.values())
    held_means = [row["held"] for row in record["ranking"] if row["held"] is not None]
    if held_means:
        record |= {"means_held": float(np.mean(held_means)), "systems_held": sum(held_means)}
    elif side.scale is None:
        reasons = [record["reason"], "No held means: the humans' scale is not known."]
        record["reason"] = " ".join(filter(None, reasons))
    return record


def _means(values: np.ndarray, groups: np.ndarray, systems: np.ndarray, side: Sample) -> dict[str, dict[str, Any]]:
    """System -> texts, and its mean with the 95 % interval, by its number of articles."""
    clusters = Clusters.of(groups, side.resamples, side.seed)
    names, system = np.unique(systems, return_inverse=True)
    means = system_means(values, system, len(names), clusters)
    records = _by_system("mean", means, _articles(system, len(names), clusters))
    return {str(name): {"texts": int((system == s).sum()), **records[s]} for s, name in enumerate(names)}


def _articles(system: np.ndarray, systems: int, clusters: Clusters) -> list[int]:
    """The number of articles in which each system has a text."""
    return [len(np.unique(clusters.number[system == s])) for s in range(systems)]


def _by_system(name: str, values: np.ndarray, articles: Sequence[int]) -> list[dict[str, float | None]]:
    """A record a system of values [1 + B, S], with the interval for its number of articles; none for one article."""
    return [
        with_interval(name, values[: None if count > 1 else 1, s], expanded(count)) for s, count in enumerate(articles)
    ]


# Compared with one rater


def _why_not(side: Sample, panel: Panel) -> tuple[int, str]:
    """The number of systems, and why a judge is not compared with one rater over them; empty where it is."""
    systems = len(np.unique(side.systems))
    if not 2 <= systems <= MOST_SYSTEMS:
        why = "all texts are of one system" if systems < 2 else f"there are more than {MOST_SYSTEMS} systems"
    elif not side.raters:
        why = "only means of ratings are known"
    else:
        why = "no rater rated enough texts that others rated, too" if panel.missing else ""
    return systems, why


def _order(side: Sample) -> dict[str, Any]:
    """`ORDER`: means over raters, weighted by their texts."""
    panel = Panel(side.ratings, side.clusters)
    systems, why = _why_not(side, panel)
    if why:
        return unknown(ORDER) | {"pairwise_reason": f"Pairs are not compared with one rater: {why}."}
    system, clusters = np.unique(side.systems, return_inverse=True)[1], panel.clusters
    totals, mass = np.zeros((2, len(clusters.weights))), np.zeros(len(clusters.weights))
    for column in panel.counted:
        rows = ~np.isnan(panel.others[:, column])
        others, judge, rater = (
            PairedSystems(mean_table(values[rows], system[rows], clusters.number[rows], (systems, clusters.count)))
            for values in (panel.others[:, column], side.scores, panel.ratings[:, column])
        )
        shares = np.stack([ordered_alike(one, others, clusters.weights) for one in (judge, rater)])
        texts = np.where(np.isnan(shares[0]), 0.0, clusters.sums(1.0 * rows))
        totals += texts * np.nan_to_num(shares)
        mass += texts
    judge_share, ceiling = (divided(total, mass) for total in totals)
    figures = dict(zip(ORDER, (judge_share, ceiling, judge_share - ceiling), strict=True))
    return clusters.record(figures) | {"pairwise_reason": None}


def _errors(side: Sample) -> dict[str, Any]:
    """`ERRORS`, error_system, error_reason; and by_system: each system's error of raw scores with its interval."""
    panel = Panel(side.ratings, side.clusters)
    systems, why = _why_not(side, panel)
    names, system = np.unique(side.systems, return_inverse=True)
    record: dict[str, Any] = unknown(ERRORS) | {"error_system": None, "error_reason": None}
    rated, compared = ~np.isnan(side.human), 2 <= systems <= MOST_SYSTEMS
    if side.scale is None or not rated.any() or not compared:
        reason = "the humans' scale is unknown" if side.scale is None else "no text has a rating" if compared else why
        return record | {"error_reason": f"No errors of systems' means: {reason}."}
    clusters = Clusters.of(side.groups[rated], side.resamples, side.seed)
    articles = _articles(system[rated], systems, clusters)
    for kind, scores in (
        ("", side.on_scale),
        ("calibrated_", cross_fitted(side.scores, side.human, side.groups, seed=side.seed)),
        ("unseen_", cross_fitted(side.scores, side.human, side.systems, seed=side.seed)),
    ):
        errors = system_means((scores - side.human)[rated], system[rated], systems, clusters)
        record |= distances_record(f"{kind}error", *_distances(errors, articles), clusters)
        if not kind:
            record["error_system"] = str(names[np.nanargmax(np.abs(errors[0]))])
            record["by_system"] = dict(zip(map(str, names), _by_system("error", errors, articles), strict=True))
    if why:
        return record
    # one rater from the others: means over raters, weighted by their texts
    clusters = panel.clusters
    totals, mass = np.zeros((2, 2, len(clusters.weights))), np.zeros(len(clusters.weights))
    for column in panel.counted:
        apart = panel.ratings[:, column] - panel.others[:, column]
        rows = np.isfinite(apart)
        errors = system_means(apart, system, systems, clusters)
        distances = np.stack(_distances(errors))
        texts = np.where(np.isnan(distances[0, 0]), 0.0, clusters.sums(1.0 * rows))
        totals += texts * np.nan_to_num(distances)
        mass += texts
    both = divided(totals, np.broadcast_to(mass, totals.shape))
    return record | distances_record("rater_error", both[0], both[1], clusters)


def system_means(values: np.ndarray, system: np.ndarray, systems: int, clusters: Clusters) -> np.ndarray:
    """[1 + B, S] the mean of values [N], such as judge less human, of each system's texts; NaN without any."""
    known = np.isfinite(values)[:, None] & (system[:, None] == np.arange(systems))
    return divided(clusters.sums(np.where(known, values[:, None], 0.0)), clusters.sums(1.0 * known))


def _distances(errors: np.ndarray, articles: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Distances of errors [1 + B, S] from 0, mean and largest [2, 1 + B], NaN where none is known; and those of errors
    that differ from 0 by noise alone: the resamples' from the data's. Of the data alone where a system has only one of
    `articles`, whose noise no resample shows."""

    def apart(values: np.ndarray) -> np.ndarray:
        known = ~np.isnan(values).all(axis=1)
        distances = np.full((2, len(values)), np.nan)
        sizes = np.abs(values[known])
        distances[:, known] = np.nanmean(sizes, axis=1), np.nanmax(sizes, axis=1)
        return distances

    errors = errors[:1] if min(articles, default=2) < 2 else errors
    return apart(errors), apart(errors - errors[:1])


def distances_record(
    name: str, distances: np.ndarray, noise: np.ndarray, clusters: Clusters
) -> dict[str, float | None]:
    """The record of a mean and a largest distance [2, 1 + B], name and name_largest, neither below 0.

    Distances grow with noise: those of resamples exceed that of the data, as that exceeds the truth. The mean excess
    is taken off the resamples twice. The low end is 0 where `noise` [2, 1 + B], of errors that are truly 0, reaches the
    distance. Of simulated judges on 20 and 60 articles of 6 and 16 systems, the interval of the largest error then
    holds the truth in 82 to 99 % of cases, and that of the mean in 92 to 99 %, but 77 to 97 % where one system is far
    off and all others are right. Percentiles as they are hold it in 47 to 95 %.
    """
    record: dict[str, float | None] = {}
    for key, values, chance in zip((name, f"{name}_largest"), distances, noise, strict=True):
        excess = np.nanmean(values[1:]) - values[0] if np.isfinite(values[1:]).any() else 0.0
        record |= clusters.record({key: np.concatenate([values[:1], np.maximum(values[1:] - 2 * excess, 0.0)])})
        value, low, high = (record[f"{key}{end}"] for end in ("", "_low", "_high"))
        if value is not None and low is not None and high is not None:
            by_chance = value <= np.nanquantile(chance[1:], expanded(clusters.count)[1])
            record |= {f"{key}_low": 0.0 if by_chance else min(low, value), f"{key}_high": max(high, value)}
    return record


# Two judges


def _compare(sides: Sequence[Sample], records: Mapping[int, dict[str, Any]]) -> None:
    """Puts the tests of a dimension's judges into their records."""
    by_cell = {side.cell: side for side in sides}
    series, tests = series_of(by_cell), list[dict[str, Any]]()
    for one, other in default_pairs(by_cell, {side.cell.decoding: side.rule for side in sides}):
        for first in (ranges for key, ranges in series.items() if key[4:6] == one):
            for second in (ranges for key, ranges in series.items() if key[4:6] == other):
                for score_range in (score_range for score_range in first if score_range in second):
                    judge, rival = by_cell[first[score_range]], by_cell[second[score_range]]
                    rows = _tests(judge, rival)
                    records[id(judge)]["against"] += rows
                    tests += [row for row in rows if row["p"] is not None]
    for statistic in dict.fromkeys(row["statistic"] for row in tests):
        family = [row for row in tests if row["statistic"] == statistic]
        for row, p in zip(family, holm(np.array([row["p"] for row in family])).tolist(), strict=True):
            row["p_holm"] = p


def _tests(first: Sample, second: Sample) -> list[dict[str, Any]]:
    """A record a correlation."""
    record: dict[str, Any] = {name: second.head[name] for name in ("judge", "decoding", "lambda", "temperature")}
    record |= {"systems": 0, "articles": 0, "statistic": None} | unknown(["difference"]) | {"p": None, "p_holm": None}
    # the texts that both judges and the humans scored, by system and article
    rows, other = (np.flatnonzero(~np.isnan(side.human)) for side in (first, second))
    _, places, others = np.intersect1d(first.names[rows], second.names[other], return_indices=True)
    rows, other = rows[places], other[others]
    names, system = np.unique(first.systems[rows], return_inverse=True)
    group = np.unique(first.groups[rows], return_inverse=True)[1]
    if not 2 < len(names) <= MOST_SYSTEMS:
        return [record | {"reason": f"No test: correlations over systems take 3 to {MOST_SYSTEMS} of them."}]
    columns = first.scores[rows], second.scores[other], first.human[rows]
    tables = [mean_table(values, system, group) for values in columns]
    whole = ~np.isnan(tables[2]).any(axis=0)
    if whole.sum() < 2:
        return [record | {"reason": "No test: fewer than two groups have a text of every system."}]
    ours, theirs, human = (table[:, whole] for table in tables)
    drawn = first.resamples, first.seed
    tests = permuted_both(ours, theirs, human, *drawn) if first.resamples else []
    p_values = {test["statistic"]: test["p"] for test in tests}
    sizes = {"systems": len(names), "articles": int(whole.sum())}
    return [
        record | sizes | gap | {"p": p_values.get(gap["statistic"]), "reason": None}
        for gap in boot_both(ours, theirs, human, *drawn)
    ]
