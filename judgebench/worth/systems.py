"""Systems ranked by each judge of a run beside the humans' ranking: accuracy over pairs, compared with one rater's;
errors of means, clusters, and tests of two judges. See `system_level`, `system_raters`, `system_tests` and
`tied_pairs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.metrics.cells import series_of
from judgebench.metrics.paired import default_pairs
from judgebench.metrics.resampling import holm, interval_ends, numbered_groups, percentile_interval, unknown
from judgebench.worth.judge_scores import JudgeScores
from judgebench.worth.system_level import MOST_SYSTEMS, mean_table, system_clusters, system_record
from judgebench.worth.system_raters import raters_record
from judgebench.worth.system_tests import boot_both, permuted_both


def system_records(sides: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """Agreement of every judge, decoding and range with the humans about systems, over the texts that humans rated.

    Returns:
        A record a side, of JSON's own types: the keys of `JudgeScores.head`; texts; those of `system_record`, and

        - clusters, human_clusters: how many clusters of systems each tells apart, see `system_clusters`; None with one
          system;
        - means_held: the share of systems whose humans' mean lies in the 95 % interval of the judge's own mean on the
          humans' scale, articles resampled; systems_held: how many; both None without a scale or two articles. A noisy
          judge holds more, so that these are no measure of a judge;
        - those of `system_raters.raters_record`: the judge compared with one rater, and errors of systems' means;
        - ranking: a record a system, the judge's best first: system; texts; mean of the judge on the humans' scale (in
          its range where no scale is known) and human_mean, each with `_low` and `_high`; cluster, beaten_by and
          human_cluster, human_beaten_by; held; error: the mean of judge less human, with `_low` and `_high`;
        - against: a record a correlation over systems and each series that this one is compared with, as
          `paired.default_pairs` has them: judge, decoding, lambda, temperature; systems, articles: that have a text in
          every cell; statistic; difference, this less that, with `_low` and `_high` (`boot_both`); p (`permuted_both`);
          p_holm: corrected over all of the dimension and statistic; reason: why there is no test, else None;
        - reason: why figures are missing, else None.
    """
    known: dict[Any, Any] = {}
    records = {id(side): _record(side, known) for side in sides}
    tables: dict[tuple[str, ...], list[JudgeScores]] = {}
    for side in sides:
        tables.setdefault(side.cell.table, []).append(side)
    for own in tables.values():
        _compared(own, records)
    return [records[id(side)] for side in sides]


def _record(side: JudgeScores, known: dict[Any, Any]) -> dict[str, Any]:
    """Args: known: human clusters by what they rest on, for all sides of a dimension share them."""
    rated = ~np.isnan(side.human)
    judge, human, groups, systems = (one[rated] for one in (side.on_scale, side.human, side.groups, side.systems))
    record: dict[str, Any] = side.head | {"texts": int(rated.sum())}
    empty: dict[str, Any] = {
        "clusters": None,
        "human_clusters": None,
        "means_held": None,
        "systems_held": None,
        "ranking": [],
    }
    found = system_record(judge, human, groups, systems, side.resamples, side.seed)
    with_raters, errors = raters_record(side)
    record |= found | empty | with_raters | {"against": []}
    if not rated.any():
        record["reason"] = "No text has a rating."
    if not 2 <= found["systems"] <= MOST_SYSTEMS:
        return record
    key = side.cell.split, side.cell.dimension, tuple(side.names[rated].tolist())
    if key not in known:
        known[key] = system_clusters(human, groups, systems, side.seed), _means(human, groups, systems, side)
    theirs, human_means = known[key]
    ours, means = system_clusters(judge, groups, systems, side.seed), _means(judge, groups, systems, side)
    of_humans = {one["system"]: one for one in theirs}
    for one in ours:
        name = one["system"]
        mean = means[name]
        held = None
        if side.scale is not None and mean["mean_low"] is not None:
            held = bool(mean["mean_low"] <= human_means[name]["mean"] <= mean["mean_high"])
        record["ranking"].append(
            {"system": name, **mean, "cluster": one["cluster"], "beaten_by": one["beaten_by"]}
            | {f"human_{end}": human_means[name][end] for end in ("mean", "mean_low", "mean_high")}
            | {f"human_{of}": of_humans[name][of] for of in ("cluster", "beaten_by")}
            | {"held": held}
            | (errors.get(name) or unknown(["error"]))
        )
    record |= {"clusters": ours[-1]["cluster"], "human_clusters": theirs[-1]["cluster"]}
    told = [one["held"] for one in record["ranking"] if one["held"] is not None]
    if told:
        record |= {"means_held": float(np.mean(told)), "systems_held": sum(told)}
    elif side.scale is None:
        record["reason"] = " ".join(filter(None, [found["reason"], "No held means: the humans' scale is not known."]))
    return record


def _means(values: np.ndarray, groups: np.ndarray, systems: np.ndarray, side: JudgeScores) -> dict[str, dict[str, Any]]:
    """System -> texts, and its mean with the 95 % interval, articles resampled."""
    group, weights = numbered_groups(groups, side.resamples, side.seed)
    names, system = np.unique(systems, return_inverse=True)
    place, shape = system * weights.shape[1] + group, (len(names), weights.shape[1])
    sums, sizes = (
        np.bincount(place, one, shape[0] * shape[1]).reshape(shape) for one in (values, np.ones(len(values)))
    )
    drawn, mass = weights @ sums.T, weights @ sizes.T
    found = np.divide(drawn, mass, out=np.full_like(drawn, np.nan), where=mass > 0)
    records = {}
    for number, name in enumerate(names):
        articles = int((sizes[number] > 0).sum())
        resampled = found[1:, number]
        ends = percentile_interval(resampled[~np.isnan(resampled)], interval_ends(articles)) if articles > 1 else None
        low, high = ends or (None, None)
        mean = {"mean": float(found[0, number]), "mean_low": low, "mean_high": high}
        records[str(name)] = {"texts": int(sizes[number].sum())} | mean
    return records


def _compared(sides: Sequence[JudgeScores], records: Mapping[int, dict[str, Any]]) -> None:
    """Puts the tests of a dimension's judges into their records."""
    columns = {name: np.array([getattr(side.cell, name) for side in sides]) for name in ("judge", "decoding")}
    pairs = default_pairs(columns, {side.cell.decoding: side.rule for side in sides})
    held = {side.cell: side for side in sides}
    series = series_of(held)
    for one, other in pairs:
        for first in (ranges for key, ranges in series.items() if key[4:6] == one):
            for second in (ranges for key, ranges in series.items() if key[4:6] == other):
                for at in (at for at in first if at in second):
                    mine = held[first[at]]
                    records[id(mine)]["against"] += _tested(mine, held[second[at]])
    tested = [one for side in sides for one in records[id(side)]["against"] if one["p"] is not None]
    for statistic in dict.fromkeys(one["statistic"] for one in tested):
        family = [one for one in tested if one["statistic"] == statistic]
        for one, p in zip(family, holm(np.array([one["p"] for one in family])).tolist(), strict=True):
            one["p_holm"] = p


def _tested(first: JudgeScores, second: JudgeScores) -> list[dict[str, Any]]:
    """A record a correlation."""
    head = {name: second.head[name] for name in ("judge", "decoding", "lambda", "temperature")}
    rows, other = (np.flatnonzero(~np.isnan(side.human)) for side in (first, second))
    _, one, two = np.intersect1d(first.names[rows], second.names[other], return_indices=True)
    rows, other = rows[one], other[two]
    empty = head | {"systems": 0, "articles": 0, "statistic": None, "difference": None, "difference_low": None}
    empty |= {"difference_high": None, "p": None, "p_holm": None}
    names, system = np.unique(first.systems[rows], return_inverse=True)
    group = np.unique(first.groups[rows], return_inverse=True)[1]
    if not 2 < len(names) <= MOST_SYSTEMS:
        return [empty | {"reason": f"No test: correlations over systems take 3 to {MOST_SYSTEMS} of them."}]
    ours, theirs, human = (
        mean_table(values, system, group) for values in (first.scores[rows], second.scores[other], first.human[rows])
    )
    whole = ~np.isnan(human).any(axis=0)
    if whole.sum() < 2:
        return [empty | {"reason": "No test: fewer than two groups have a text of every system."}]
    tables = ours[:, whole], theirs[:, whole], human[:, whole]
    tests = permuted_both(*tables, permutations=first.resamples, seed=first.seed) if first.resamples else []
    gaps = boot_both(*tables, resamples=first.resamples, seed=first.seed)
    sizes = {"systems": len(names), "articles": int(whole.sum())}
    p_values = {str(test["statistic"]): test["p"] for test in tests}
    return [empty | sizes | gap | {"p": p_values.get(str(gap["statistic"])), "reason": None} for gap in gaps]
