"""Systems ranked by each judge of a run, compared with the humans' ranking and with what one rater
does.

A judge that orders 80 % of pairs of systems as the humans do is as good as a human where one rater
orders 80 % as the others do. In pairs, rater and judge meet the same means of the other raters, on
the same texts, as in `humans.Panel`. In errors, the judge meets the mean of all raters, which is a
little easier: with three raters of independent noise its variance is 1 / 3 in place of 1 / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from judgebench.stats.clusters import (
    Clusters,
    Numbers,
    expanded,
    safe_divide,
    unknown,
    with_intervals,
)
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.studies.scores import JudgeScores
from judgebench.studies.system_pairs import (
    PairedSystems,
    SystemSample,
    centered,
    mean_table,
    ordered_alike,
    system_record,
    too_few_or_many,
)
from judgebench.types import Array, Record, Rows

ORDER = ("pairwise_others", "pairwise_ceiling", "pairwise_difference")
"""Share of pairs of systems that the judge, and one rater, order as the other raters do; the former
less the latter, see `centered`. Pairs that the other raters tie are left out, and a pair that the judge or the
rater ties counts half."""

_KINDS = ("", "calibrated_", "unseen_", "constant_", "rater_")

ERRORS = tuple(f"{kind}error{end}" for kind in _KINDS for end in ("", "_largest"))
"""Mean and largest distance of systems' means from the humans': of raw scores, of scores calibrated
with articles left out and with whole systems left out, of the mean rating of other systems, and of
one rater from the others."""

SAVED = ("error_largest_saved", "unseen_error_largest_saved")
"""What raw scores, and scores calibrated with whole systems left out, take off the largest error of
the mean rating of other systems."""

_DIGITS = 12  # of means, to which they are rounded: those equal in truth must tie


def system_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/systems.json: of every judge, decoding and range its agreement with the
    humans about systems, over the texts that humans rated."""
    # many judges are of the same texts, and of the same people
    humans = {id(sample.panel): _Humans(sample) for sample in samples}
    return [_record(sample, humans[id(sample.panel)]) for sample in samples]


@dataclass(frozen=True)
class _Humans:
    """The humans' side of systems, the same for all judges of the same texts.

    Attributes:
        sample: one of the judges.
    """

    sample: JudgeScores

    @cached_property
    def rated(self) -> Array:
        """[N] True for the texts that somebody rated."""
        return ~np.isnan(self.sample.human)

    @cached_property
    def clusters(self) -> Clusters:
        """Of these texts."""
        return self.sample.clusters.at(self.rated)

    @cached_property
    def fifths(self) -> Clusters:
        """The same, with each fifth of the articles left out."""
        return self.clusters.fifths

    @cached_property
    def systems(self) -> tuple[Array, Array]:
        """Names of the systems of all texts, and the number [N] of each text's."""
        return np.unique(self.sample.systems, return_inverse=True)

    @cached_property
    def of_rated(self) -> tuple[Array, Array]:
        """The same of the rated texts."""
        return np.unique(self.sample.systems[self.rated], return_inverse=True)

    @cached_property
    def pairs(self) -> PairedSystems:
        """Pairs of the systems of rated texts; none where they are not compared."""
        names, system = self.of_rated
        table = np.zeros((len(names), 0))
        if not too_few_or_many(len(names)):
            table = mean_table(self.sample.human[self.rated], system, self.clusters.number)
        return PairedSystems(table, self.clusters)

    @cached_property
    def means(self) -> list[Numbers]:
        """The means of the systems of rated texts, with intervals."""
        return self.means_of(self.sample.human)

    def means_of(self, scores: Array) -> list[Numbers]:
        """The same of scores [N]."""
        names, system = self.of_rated
        means = system_means(scores[self.rated], system, len(names), self.clusters)
        return _by_system("mean", means, system, self.clusters)

    def rater_pairs(self, values: Array, column: int) -> PairedSystems:
        """Pairs of systems by values [N] on the texts that a rater and others rated."""
        panel = self.sample.panel
        names, system = self.systems
        rows = ~np.isnan(panel.others[:, column])
        shape = len(names), panel.clusters.count
        table = mean_table(values[rows], system[rows], panel.clusters.number[rows], shape)
        return PairedSystems(table, panel.clusters)

    @cached_property
    def others(self) -> dict[int, PairedSystems]:
        """Column of a counted rater -> pairs of systems by the mean of the other raters."""
        panel = self.sample.panel
        return {
            column: self.rater_pairs(panel.others[:, column], column) for column in panel.counted
        }

    @cached_property
    def ceiling(self) -> Array:
        """[1 + B] the share of pairs that one rater orders as the others do."""
        panel = self.sample.panel

        def share(column: int, rows: Array) -> Array:
            rater = self.rater_pairs(panel.ratings[:, column], column)
            return ordered_alike(rater, self.others[column])

        return panel.over_raters(share)

    @cached_property
    def constant(self) -> _Errors:
        """Of the mean rating of other systems."""
        return self.errors_of(self.sample.constant_unseen)

    def errors_of(self, scores: Array) -> _Errors:
        """The errors of systems' means by scores [N]."""
        names, system = self.systems
        apart = scores - self.sample.human
        of_texts = (
            apart[self.rated],
            system[self.rated],
            len(names),
        )
        # errors of single texts cancel in a system's mean; what is left is its bias
        errors = system_means(*of_texts, self.clusters)  # [1 + B, S]
        # of a system with one article no resample shows the noise
        shown = errors[:1] if min(self.articles) < 2 else errors
        distances, noise = _distances(shown)
        without_fifths = system_means(*of_texts, self.fifths)
        in_parts, _ = _distances(without_fifths)
        return _Errors(errors, distances, noise, in_parts[1])

    @cached_property
    def articles(self) -> list[int]:
        """Numbers of articles of which each system has rated texts."""
        names, system = self.systems
        return _articles(system[self.rated], len(names), self.clusters)

    @cached_property
    def rater_errors(self) -> Numbers:
        """`ERRORS` of one rater from the others: means over raters, weighted by their texts."""
        panel = self.sample.panel
        names, system = self.systems

        def distances(column: int, _: Array) -> Array:
            apart = panel.ratings[:, column] - panel.others[:, column]
            return np.stack(_distances(system_means(apart, system, len(names), panel.clusters)))

        sizes, noise = panel.over_raters(distances)
        return distances_record("rater_error", sizes, noise, panel.clusters)


class _Errors(NamedTuple):
    """Errors of systems' means [1 + B, S]; their `_distances` and those of noise; and the largest
    [1 + P] with each fifth of the articles left out."""

    of_systems: Array
    distances: Array
    noise: Array
    in_parts: Array

    @property
    def largest(self) -> Array:
        """[1 + B] without the excess of noise."""
        return without_excess(self.distances[1])


def _record(sample: JudgeScores, humans: _Humans) -> Record:
    rated = humans.rated
    record = {
        **sample.head,
        "texts": int(rated.sum()),
        **system_record(sample.on_scale[rated], humans.of_rated[1], humans.pairs),
        "means_held": None,
        "systems_held": None,
        "ranking": [],
    }
    # 1. pairs of systems, compared with one rater's
    few = too_few_or_many(len(humans.systems[0]))
    no_rater = few
    if not few and not sample.raters:
        no_rater = "only means of ratings are known"
    elif not few and sample.panel.missing:
        no_rater = "no rater rated enough texts that others rated, too"
    record |= unknown(ORDER)
    record["pairwise_reason"] = f"Pairs are not compared with one rater: {no_rater}."
    if not no_rater:
        record |= _order(sample, humans)
    # 2. errors of systems' means, of judge and of one rater
    unmeasured = "the humans' scale is unknown" if sample.scale is None else few
    if not unmeasured and not rated.any():
        unmeasured = "no text has a rating"
    by_system: dict[str, Numbers] = {}
    record |= {
        **unknown((*ERRORS, *SAVED)),
        "error_system": None,
        "better_scores": None,
        "error_reason": f"No errors of systems' means: {unmeasured}." if unmeasured else None,
    }
    if not unmeasured:
        of_judge, by_system = _errors(sample, humans)
        record |= of_judge
        if not no_rater:
            record |= humans.rater_errors
    # 3. means of systems, judge and humans
    if not rated.any():
        record["reason"] = "No text has a rating."
    if too_few_or_many(record["systems"]):
        return record
    # the plain question of a reader: does the judge's interval hold what humans say of the system?
    record["ranking"] = _ranking(sample, humans)
    for row in record["ranking"]:
        row |= by_system.get(row["system"], unknown(["error"]))
    inside = [row["held"] for row in record["ranking"] if row["held"] is not None]
    if inside:
        record |= {"means_held": float(np.mean(inside)), "systems_held": sum(inside)}
    elif sample.scale is None:
        reasons = [record["reason"], "No means are compared: the humans' scale is not known."]
        record["reason"] = " ".join(filter(None, reasons))
    return record


def _ranking(sample: JudgeScores, humans: _Humans) -> Rows:
    """A record a system, the best by the judge first: its rated texts; the means of judge and
    humans with intervals by its articles; held: whether the judge's interval has the humans'
    mean."""
    names, system = humans.of_rated
    texts = np.bincount(system).tolist()
    judge = humans.means_of(sample.on_scale)
    rows = []
    for place, name in enumerate(names.tolist()):
        row = {
            "system": str(name),
            "texts": texts[place],
            **judge[place],
            **{f"human_{key}": value for key, value in humans.means[place].items()},
            "held": None,
        }
        if sample.scale is not None and row["mean_low"] is not None:
            inside = row["mean_low"] <= row["human_mean"] <= row["mean_high"]
            row["held"] = bool(inside)
        rows.append(row)
    return sorted(rows, key=lambda row: (-round(row["mean"], _DIGITS), row["system"]))


def system_means(values: Array, system: Array, systems: int, clusters: Clusters) -> Array:
    """[1 + B, S] the mean of values [N], such as judge less human, of each system's texts; NaN
    without any."""
    # a column a system, so that all of them are one product with the weights
    of_system = np.isfinite(values)[:, None] & (system[:, None] == np.arange(systems))
    return safe_divide(
        clusters.sums(np.where(of_system, values[:, None], 0.0)), clusters.sums(1.0 * of_system)
    )


def _articles(system: Array, systems: int, clusters: Clusters) -> list[int]:
    """Numbers of articles of which each system has texts."""
    return [len(np.unique(clusters.number[system == number])) for number in range(systems)]


def _by_system(name: str, values: Array, system: Array, clusters: Clusters) -> list[Numbers]:
    """A record a system of values [1 + B, S], with the interval for its number of articles; none
    for one article."""
    articles = _articles(system, values.shape[1], clusters)
    return [
        # a system's interval knows as many articles as it has texts of, and no more
        with_intervals({name: values[: None if count > 1 else 1, s]}, expanded(count))
        for s, count in enumerate(articles)
    ]


# --- errors, and one rater in the judge's place -------------------------------------------------


def _order(sample: JudgeScores, humans: _Humans) -> Record:
    """`ORDER`, and `SAMPLED` of the judge: means over raters, weighted by their texts."""
    panel = sample.panel
    compared: list[SystemSample] = []
    texts: list[float] = []

    def share(column: int, rows: Array) -> Array:
        # the judge on this rater's texts alone: both meet the same means, on the same texts
        ours = humans.rater_pairs(sample.scores, column)
        judge = ordered_alike(ours, humans.others[column])
        if np.isfinite(judge[0]):
            compared.append(SystemSample.of(ours, humans.others[column]))
            texts.append(float(rows.sum()))
        return judge

    judge = panel.over_raters(share)
    difference = centered(judge - humans.ceiling)
    figures = dict(zip(ORDER, (judge, humans.ceiling, difference), strict=True))
    record = panel.clusters.record(figures)
    if compared:
        record |= SystemSample.mean(compared, texts).record(judge, panel.clusters)
    tied = (
        "Pairs are not compared with one rater: the other raters' means of all systems are the "
        "same."
    )
    return record | {"pairwise_reason": tied if np.isnan(judge[0]) else None}


def _errors(sample: JudgeScores, humans: _Humans) -> tuple[Record, dict[str, Numbers]]:
    """`ERRORS` of the judge, `SAVED`, error_system, the system with the largest of raw scores, and
    better_scores: raw where their largest error is below that of scores calibrated by other
    systems, with each fifth of the articles left out, too; else calibrated. And each system's
    error."""
    names, system = humans.systems
    clusters = humans.clusters
    kinds = {
        "": humans.errors_of(sample.on_scale),
        "calibrated_": humans.errors_of(sample.calibrated),
        "unseen_": humans.errors_of(sample.calibrated_unseen),
        "constant_": humans.constant,
    }
    raw = kinds[""]
    record: Record = {"error_system": str(names[np.nanargmax(np.abs(raw.of_systems[0]))])}
    rows = _by_system("error", raw.of_systems, system[humans.rated], clusters)
    by_system = dict(zip(map(str, names), rows, strict=True))
    for kind, errors in kinds.items():
        # the largest of many errors is large by noise alone: resamples show how large
        record |= distances_record(f"{kind}error", errors.distances, errors.noise, clusters)
    for kind, name in zip(("", "unseen_"), SAVED, strict=True):
        # paired: both errors are of the same resample
        saved = humans.constant.largest - kinds[kind].largest
        record |= clusters.record({name: saved})
    # a fifth of the articles may be all that speaks for raw scores
    raw_is_better = (raw.in_parts < kinds["unseen_"].in_parts).all()
    record["better_scores"] = RAW if raw_is_better else CALIBRATED
    return record, by_system


def _distances(errors: Array) -> tuple[Array, Array]:
    """Distances of errors [1 + B, S] from 0, mean and largest [2, 1 + B], NaN where none is known;
    and those of errors that differ from 0 by noise alone: the resamples' from the data's."""

    def apart(values: Array) -> Array:
        measured = ~np.isnan(values).all(axis=1)
        distances = np.full((2, len(values)), np.nan)
        sizes = np.abs(values[measured])
        distances[:, measured] = np.nanmean(sizes, axis=1), np.nanmax(sizes, axis=1)
        return distances

    return apart(errors), apart(errors - errors[:1])


def without_excess(values: Array) -> Array:
    """Distances [1 + B], the data's first, whose resamples are corrected for their mean excess, see
    `distances_record`."""
    if not np.isfinite(values[1:]).any():
        return values
    # resample over data as data over truth: once to come to the data's place, once to the truth's
    excess = np.nanmean(values[1:]) - values[0]
    return np.concatenate([values[:1], values[1:] - 2 * excess])


def distances_record(name: str, distances: Array, noise: Array, clusters: Clusters) -> Numbers:
    """The record of a mean and a largest distance [2, 1 + B], name and name_largest, neither below
    0.

    Distances grow with noise: those of resamples exceed that of the data, as that exceeds the
    truth. The mean excess is taken off the resamples twice. The low end is 0 where `noise` [2, 1 +
    B], of errors that are truly 0, reaches the distance. Of simulated judges on 20 and 60 articles
    of 6 and 16 systems, the interval of the largest error then holds the truth in 82 to 99 % of
    cases, and that of the mean in 92 to 99 %, but 77 to 97 % where one system is far off and all
    others are right. Percentiles as they are hold it in 47 to 95 %.
    """
    end = expanded(clusters.count)[1]
    record: Numbers = {}
    for key, values, chance in zip((name, f"{name}_largest"), distances, noise, strict=True):
        positive = np.maximum(without_excess(values), 0.0)
        record |= clusters.record({key: positive})
        value = record[key]
        low = record[f"{key}_low"]
        if value is None or low is None:
            continue
        # so large a distance comes about where all errors are truly 0
        if value <= np.nanquantile(chance[1:], end):
            record[f"{key}_low"] = 0.0
    return record
