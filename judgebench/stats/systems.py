"""Systems ranked by each judge of a run, compared with the humans' ranking and with what one rater
does.

A judge that orders 80 % of pairs of systems as the humans do is as good as a human where one rater
orders 80 % as the others do. In pairs, rater and judge meet the same means of the other raters, on
the same texts, as in `humans.Panel`. In errors, the judge meets the mean of all raters, which is a
little easier: with three raters of independent noise its variance is 1 / 3 in place of 1 / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from judgebench.stats.clusters import Clusters, divided, expanded, unknown, with_intervals
from judgebench.stats.humans import CALIBRATED, RAW, Panel
from judgebench.stats.paired import default_pairs, holm
from judgebench.stats.scores import JudgeScores, series_of
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
"""Share of pairs of systems that the judge, and one rater, order as the other raters do; the former
less the latter. Pairs that the other raters tie are left out, and a pair that the judge or the
rater ties counts half."""

_KINDS = ("", "calibrated_", "unseen_", "constant_", "rater_")

ERRORS = tuple(f"{kind}error{end}" for kind in _KINDS for end in ("", "_largest"))
"""Mean and largest distance of systems' means from the humans': of raw scores, of scores calibrated
with articles left out and with whole systems left out, of the mean rating of other systems, and of
one rater from the others."""

SAVED = ("error_largest_saved", "unseen_error_largest_saved")
"""What raw scores, and scores calibrated with whole systems left out, take off the largest error of
the mean rating of other systems."""


def system_records(samples: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """The records of worth/systems.json: of every judge, decoding and range its agreement with the
    humans about systems, over the texts that humans rated; and in `against` the tests of two
    judges."""
    # human clusters and means by what they rest on, for all samples of a dimension
    of_humans: dict[Any, Any] = {}
    records = {id(sample): _record(sample, of_humans) for sample in samples}
    tables: dict[tuple[str, ...], list[JudgeScores]] = {}
    for sample in samples:
        tables.setdefault(sample.cell.table, []).append(sample)
    # two judges: each series that `paired.default_pairs` compares, corrected over all of the
    # dimension and statistic
    for table in tables.values():
        by_cell = {sample.cell: sample for sample in table}
        series = series_of(by_cell)
        tests = list[dict[str, Any]]()
        for ours, theirs in default_pairs(
            by_cell, {sample.cell.decoding: sample.rule for sample in table}
        ):
            for first in (ranges for key, ranges in series.items() if key[4:6] == ours):
                for second in (ranges for key, ranges in series.items() if key[4:6] == theirs):
                    for score_range in (
                        score_range for score_range in first if score_range in second
                    ):
                        judge = by_cell[first[score_range]]
                        rival = by_cell[second[score_range]]
                        rows = _tests(judge, rival)
                        records[id(judge)]["against"] += rows
                        tests += [row for row in rows if row["p"] is not None]
        for statistic in dict.fromkeys(row["statistic"] for row in tests):
            family = [row for row in tests if row["statistic"] == statistic]
            for row, p in zip(
                family, holm(np.array([row["p"] for row in family])).tolist(), strict=True
            ):
                row["p_holm"] = p
    return list(records.values())


def _record(sample: JudgeScores, of_humans: dict[Any, Any]) -> dict[str, Any]:
    rated = ~np.isnan(sample.human)
    clusters = sample.clusters.at(rated)
    systems = sample.systems[rated]
    judge = sample.on_scale[rated]
    human = sample.human[rated]
    record: dict[str, Any] = (
        sample.head | {"texts": int(rated.sum())} | system_record(judge, human, systems, clusters)
    )
    record |= dict.fromkeys(("clusters", "human_clusters", "means_held", "systems_held"))
    # errors of systems' means, and pairs of systems, of judge and of one rater
    panel = Panel(sample.ratings, sample.clusters)
    names = np.unique(sample.systems)
    few = ""
    if not 2 <= len(names) <= MOST_SYSTEMS:
        few = (
            "all texts are of one system"
            if len(names) < 2
            else f"there are more than {MOST_SYSTEMS} systems"
        )
    no_rater = few or ("" if sample.raters else "only means of ratings are known")
    if not no_rater and panel.missing:
        no_rater = "no rater rated enough texts that others rated, too"
    order = unknown(ORDER) | {
        "pairwise_reason": f"Pairs are not compared with one rater: {no_rater}."
    }
    unmeasured = "the humans' scale is unknown" if sample.scale is None else few
    if not unmeasured and not rated.any():
        unmeasured = "no text has a rating"
    errors: dict[str, Any] = unknown((*ERRORS, *SAVED)) | {
        "error_system": None,
        "better_scores": None,
    }
    errors["error_reason"] = f"No errors of systems' means: {unmeasured}." if unmeasured else None
    by_system: dict[str, dict[str, float | None]] = {}
    if not no_rater:
        order = _order(sample, panel)
    if not unmeasured:
        of_judge, by_system = _errors(sample, clusters, rated)
        errors |= of_judge | ({} if no_rater else _rater_errors(sample, panel))
    record |= {"ranking": []} | order | errors | {"against": []}
    if not rated.any():
        record["reason"] = "No text has a rating."
    if not 2 <= record["systems"] <= MOST_SYSTEMS:
        return record
    # clusters and means of humans and judge
    key = sample.cell.split, sample.cell.dimension, tuple(sample.names[rated].tolist())
    if key not in of_humans:
        of_humans[key] = _ranked(human, systems, clusters)
    theirs = {row["system"]: row for row in of_humans[key]}
    inside = []
    for row in _ranked(judge, systems, clusters):
        human_row = theirs[row["system"]]
        row |= {
            f"human_{name}": human_row[name]
            for name in ("mean", "mean_low", "mean_high", "cluster", "beaten_by")
        }
        row["held"] = None
        if sample.scale is not None and row["mean_low"] is not None:
            row["held"] = bool(row["mean_low"] <= human_row["mean"] <= row["mean_high"])
            inside.append(row["held"])
        record["ranking"].append(row | by_system.get(row["system"], unknown(["error"])))
    record |= {
        name: max(row[name[:-1]] for row in record["ranking"])
        for name in ("clusters", "human_clusters")
    }
    if inside:
        record |= {"means_held": float(np.mean(inside)), "systems_held": sum(inside)}
    elif sample.scale is None:
        reasons = [record["reason"], "No means are compared: the humans' scale is not known."]
        record["reason"] = " ".join(filter(None, reasons))
    return record


def _ranked(values: np.ndarray, systems: np.ndarray, clusters: Clusters) -> list[dict[str, Any]]:
    """The records of `system_clusters`, with texts, and with the interval of the mean by the
    system's articles."""
    names, system = np.unique(systems, return_inverse=True)
    means = _by_system("mean", system_means(values, system, len(names), clusters), system, clusters)
    texts = np.bincount(system)
    place = {str(name): s for s, name in enumerate(names)}
    return [
        {
            "system": row["system"],
            "texts": int(texts[place[row["system"]]]),
            **means[place[row["system"]]],
        }
        | {name: row[name] for name in ("cluster", "beaten_by")}
        for row in system_clusters(values, clusters.number, systems, clusters.seed)
    ]


def system_means(
    values: np.ndarray, system: np.ndarray, systems: int, clusters: Clusters
) -> np.ndarray:
    """[1 + B, S] the mean of values [N], such as judge less human, of each system's texts; NaN
    without any."""
    of_system = np.isfinite(values)[:, None] & (system[:, None] == np.arange(systems))
    return divided(
        clusters.sums(np.where(of_system, values[:, None], 0.0)), clusters.sums(1.0 * of_system)
    )


def _by_system(
    name: str, values: np.ndarray, system: np.ndarray, clusters: Clusters
) -> list[dict[str, float | None]]:
    """A record a system of values [1 + B, S], with the interval for its number of articles; none
    for one article."""
    articles = [len(np.unique(clusters.number[system == s])) for s in range(values.shape[1])]
    return [
        with_intervals({name: values[: None if count > 1 else 1, s]}, expanded(count))
        for s, count in enumerate(articles)
    ]


# --- errors, and one rater in the judge's place -------------------------------------------------


def _order(sample: JudgeScores, panel: Panel) -> dict[str, Any]:
    """`ORDER`: means over raters, weighted by their texts."""
    names, system = np.unique(sample.systems, return_inverse=True)
    clusters = panel.clusters

    def shares(column: int, rows: np.ndarray) -> np.ndarray:
        others, judge, rater = (
            PairedSystems(
                mean_table(
                    values[rows], system[rows], clusters.number[rows], (len(names), clusters.count)
                )
            )
            for values in (panel.others[:, column], sample.scores, panel.ratings[:, column])
        )
        return np.stack([ordered_alike(side, others, clusters.weights) for side in (judge, rater)])

    judge, ceiling = panel.over_raters(shares)
    figures = dict(zip(ORDER, (judge, ceiling, judge - ceiling), strict=True))
    tied = (
        "Pairs are not compared with one rater: the other raters' means of all systems are the "
        "same."
    )
    return clusters.record(figures) | {"pairwise_reason": tied if np.isnan(judge[0]) else None}


def _errors(
    sample: JudgeScores, clusters: Clusters, rated: np.ndarray
) -> tuple[dict[str, Any], dict[str, dict[str, float | None]]]:
    """`ERRORS` of the judge, `SAVED`, error_system, the system with the largest of raw scores, and
    better_scores: raw where their largest error is below that of scores calibrated by other
    systems, with each fifth of the articles left out, too; else calibrated. And each system's
    error."""
    names, system = np.unique(sample.systems, return_inverse=True)
    system = system[rated]
    record = dict[str, Any]()
    by_system = dict[str, dict[str, float | None]]()
    largest = dict[str, np.ndarray]()
    of_parts = dict[str, np.ndarray]()
    # of a system with one article no resample shows the noise
    single = any(len(np.unique(clusters.number[system == s])) < 2 for s in range(len(names)))
    kinds = {
        "": sample.on_scale,
        "calibrated_": sample.calibrated,
        "unseen_": sample.calibrated_unseen,
    }
    kinds["constant_"] = sample.constant_unseen
    for kind, scores in kinds.items():
        apart = (scores - sample.human)[rated]
        errors = system_means(apart, system, len(names), clusters)
        if not kind:
            record["error_system"] = str(names[np.nanargmax(np.abs(errors[0]))])
            by_system = dict(
                zip(map(str, names), _by_system("error", errors, system, clusters), strict=True)
            )
        distances, noise = _distances(errors[:1] if single else errors)
        record |= distances_record(f"{kind}error", distances, noise, clusters)
        largest[kind] = without_excess(distances[1])
        of_parts[kind] = _distances(system_means(apart, system, len(names), clusters.fifths))[0]
    for kind, name in zip(("", "unseen_"), SAVED, strict=True):
        record |= clusters.record({name: largest["constant_"] - largest[kind]})
    raw_is_better = (of_parts[""][1] < of_parts["unseen_"][1]).all()
    record["better_scores"] = RAW if raw_is_better else CALIBRATED
    return record, by_system


def _rater_errors(sample: JudgeScores, panel: Panel) -> dict[str, float | None]:
    """`ERRORS` of one rater from the others: means over raters, weighted by their texts."""
    names, system = np.unique(sample.systems, return_inverse=True)
    clusters = panel.clusters

    def distances(column: int, _: np.ndarray) -> np.ndarray:
        apart = panel.ratings[:, column] - panel.others[:, column]
        return np.stack(_distances(system_means(apart, system, len(names), clusters)))

    sizes, noise = panel.over_raters(distances)
    return distances_record("rater_error", sizes, noise, clusters)


def _distances(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of errors [1 + B, S] from 0, mean and largest [2, 1 + B], NaN where none is known;
    and those of errors that differ from 0 by noise alone: the resamples' from the data's."""

    def apart(values: np.ndarray) -> np.ndarray:
        measured = ~np.isnan(values).all(axis=1)
        distances = np.full((2, len(values)), np.nan)
        sizes = np.abs(values[measured])
        distances[:, measured] = np.nanmean(sizes, axis=1), np.nanmax(sizes, axis=1)
        return distances

    return apart(errors), apart(errors - errors[:1])


def without_excess(values: np.ndarray) -> np.ndarray:
    """Distances [1 + B], the data's first, whose resamples are corrected for their mean excess, see
    `distances_record`."""
    if not np.isfinite(values[1:]).any():
        return values
    excess = np.nanmean(values[1:]) - values[0]
    return np.concatenate([values[:1], values[1:] - 2 * excess])


def distances_record(
    name: str, distances: np.ndarray, noise: np.ndarray, clusters: Clusters
) -> dict[str, float | None]:
    """The record of a mean and a largest distance [2, 1 + B], name and name_largest, neither below
    0.

    Distances grow with noise: those of resamples exceed that of the data, as that exceeds the
    truth. The mean excess is taken off the resamples twice. The low end is 0 where `noise` [2, 1 +
    B], of errors that are truly 0, reaches the distance. Of simulated judges on 20 and 60 articles
    of 6 and 16 systems, the interval of the largest error then holds the truth in 82 to 99 % of
    cases, and that of the mean in 92 to 99 %, but 77 to 97 % where one system is far off and all
    others are right. Percentiles as they are hold it in 47 to 95 %.
    """
    record: dict[str, float | None] = {}
    for key, values, chance in zip((name, f"{name}_largest"), distances, noise, strict=True):
        record |= clusters.record({key: np.maximum(without_excess(values), 0.0)})
        value = record[key]
        low = record[f"{key}_low"]
        if value is not None and low is not None:
            by_chance = value <= np.nanquantile(chance[1:], expanded(clusters.count)[1])
            record[f"{key}_low"] = 0.0 if by_chance else low
    return record


# --- two judges ---------------------------------------------------------------------------------


def _tests(first: JudgeScores, second: JudgeScores) -> list[dict[str, Any]]:
    """A record a correlation: the difference, first less second, by `boot_both`, and p by
    `permuted_both`."""
    record: dict[str, Any] = {
        name: second.head[name] for name in ("judge", "decoding", "lambda", "temperature")
    }
    record |= (
        {"systems": 0, "articles": 0, "statistic": None}
        | unknown(["difference"])
        | {"p": None, "p_holm": None}
    )
    # the texts that both judges and the humans scored, by system and article
    rows, other = (np.flatnonzero(~np.isnan(sample.human)) for sample in (first, second))
    _, places, others = np.intersect1d(first.names[rows], second.names[other], return_indices=True)
    rows = rows[places]
    other = other[others]
    names, system = np.unique(first.systems[rows], return_inverse=True)
    group = np.unique(first.groups[rows], return_inverse=True)[1]
    if not 2 < len(names) <= MOST_SYSTEMS:
        return [
            record
            | {"reason": f"No test: correlations over systems take 3 to {MOST_SYSTEMS} of them."}
        ]
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
