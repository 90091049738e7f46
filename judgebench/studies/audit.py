"""The audit: whatever moves a judge beside the quality that people see, by two instruments.

    data      a regression of judge less human on what varies in the data by itself
              (`judgebench.stats.regression`, `judgebench.studies.varying`); of recorded answers, too
    probes    one thing is changed in text, prompt or range, and all else stays: the mean difference
              of scores of the same texts

All effects are in points of the humans' scale, their clusters are the groups, and their p values
are corrected together (Holm) for one judge, decoding and range. An effect's share of variance is,
of data, the part of the variance of judge less human that only this explains; of a probe, the part
of the variance of a text's scores, unchanged and changed, that the change makes:
mean(difference^2) / 4 of the variance of both together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from judgebench.decoding.scores import REPEAT
from judgebench.stats.clusters import FEWEST, Clusters, Estimate, keys_of
from judgebench.stats.maps import rescale
from judgebench.stats.regression import (
    Effect,
    Moments,
    paired_effect,
    rating_error,
    regression_effects,
)
from judgebench.studies.paired import correct
from judgebench.studies.probes import PROBE, Asked
from judgebench.studies.scores import CLEAN, JudgeScores, Scores, ScoreSeries
from judgebench.studies.varying import factors_of
from judgebench.types import FAILED, LABELS, RANGE, Array, Columns, Example, Key, Record, Row, Rows

if TYPE_CHECKING:
    import pandas as pd

DATA = "data"
PROBES = "probes"
"""Instruments of a record."""

RANGE_FACTOR = "score range"
NAMES_FACTOR = "names of scores"
TURNED_FACTOR = "direction of the scale"
REPEATED = "same prompt again"
ORDER = "order of a pair"

ISOTONIC = "isotonic"
END_TO_END = "end to end"
"""Maps from the judge's scale to the humans'."""

_ALONE = "texts are judged alone: prompt=comparative asks about pairs, in both orders"
_ONCE = "each prompt was read once: a judge whose answers are drawn can be asked again"
_ONE_RANGE = "one range was asked: ranges=[[1,5],[E,D,C,B,A]] asks in two"
_LEFT = 1e-8  # of a column's squares, below which it says nothing of its own


@dataclass(frozen=True)
class Probing:
    """Texts, and conditions that were asked about them besides.

    Attributes:
        examples: the judged texts, in the order of their file.
        judge: the name of its model.
        asked: probes.
        scores: of the probes' conditions alone; None where they were not asked.
        changed: (attack, defense, dimension) -> the texts whose prompt a probe changes.
        answers: see `judgebench.decoding.scores.decode_answers`.
        reason: why no probe was asked; None where they were.
    """

    examples: Sequence[Example]
    judge: str = ""
    asked: Sequence[Asked] = ()
    scores: Scores | None = None
    changed: Mapping[Key, frozenset[str]] = field(default_factory=dict)
    answers: Columns = field(default_factory=dict)
    reason: str | None = None


def probed_rows(table: pd.DataFrame) -> pd.Series:
    """[rows] True for those of a probe, of a table with the columns attack and defense."""
    return table["attack"].str.startswith(PROBE) | table["defense"].str.startswith(PROBE)


def changed_prompts(readings: pd.DataFrame) -> dict[Key, frozenset[str]]:
    """(attack, defense, dimension) of each probe -> the texts about which another prompt is read
    than without it: readings.parquet's columns, of a run with all of its conditions."""
    changed: dict[Key, frozenset[str]] = {}
    probes = readings[probed_rows(readings)]
    if not len(probes):
        return changed
    import pandas as pd  # it takes long to import

    # a text in a range, and in a place where texts are compared
    keys = ["example_id", "dimension", *RANGE]
    keys += [name for name in (LABELS, "order") if name in readings]
    plain = readings[(readings["attack"] == CLEAN) & (readings["defense"] == CLEAN)]
    prompts = plain.fillna({LABELS: ""}).set_index(keys)["prompt"]
    of_condition = ["attack", "defense", "dimension"]
    for condition, part in probes.fillna({LABELS: ""}).groupby(of_condition, sort=False):
        before = prompts.reindex(pd.MultiIndex.from_frame(part[keys])).to_numpy()
        other = part["prompt"].to_numpy() != before
        changed[tuple(condition)] = frozenset(part["example_id"][other])
    return changed


def audit_records(samples: Sequence[JudgeScores], probing: Probing) -> Rows:
    """The records of worth/audit.json: an effect each, of every judge, decoding and range.

    After `JudgeScores.head`: instrument, factor, level; neutral (True where it should not matter);
    texts, groups; effect with its interval, p and p_holm; comparisons (how many p were corrected
    together); share of variance; width, the length of the scale whose points these are; map and
    ratings (of data: `ISOTONIC` or `END_TO_END`, "several" or "one" a text); reason, why there is
    no effect.
    """
    records = []
    for sample in samples:
        alike = [other for other in samples if _same_series(sample.cell, other.cell)]
        rows = _data_rows(sample, probing)
        rows += _range_rows(sample, alike)
        rows += _probe_rows(alike, probing)
        rows.append(_repeat_row(sample, probing.answers))
        rows.append(_missing(PROBES, ORDER, _ALONE))
        records += _corrected([sample.head | row for row in rows])
    return records


def pair_audit_records(scores: Scores, probing: Probing, dataset: str, **resampling: int) -> Rows:
    """The same of texts that are compared, in probabilities of winning: the first place instead of
    the second, and probes."""
    records = []
    for cell in scores.cells:
        if cell.attack != CLEAN or cell.split != scores.split:
            continue
        part = scores.part(cell)
        clusters = Clusters.of(part["group_id"], **resampling)
        sides = part["score_second"], part["score_first"]
        order = _paired(ORDER, "first, not second", *sides, clusters)
        rows = [order | {"width": 1.0}]
        for asked in probing.asked:
            rows.append(_probe_row(cell, part, (0.0, 1.0), probing, asked))
        head = {"dataset": dataset, **cell.named}
        records += _corrected([head | row for row in rows])
    return records


# --- records ------------------------------------------------------------------------------------


def _corrected(rows: Rows) -> Rows:
    """Records with Holm's correction over all of them."""
    comparisons = correct(rows)
    return [row | {"comparisons": comparisons} for row in rows]


def _missing(instrument: str, factor: str, reason: str, **known: Any) -> Record:
    """A record of what could not be measured."""
    row: Record = {
        "instrument": instrument,
        "factor": factor,
        "level": None,
        "neutral": True,
        "texts": None,
        "groups": None,
        **keys_of("effect", None),
        **dict.fromkeys(("p", "p_holm", "share", "width", "map", "ratings")),
        "reason": reason,
    }
    return row | known


def _measured(instrument: str, factor: str, effect: Effect, **known: Any) -> Record:
    """A record of an effect; without interval, p and share where too few clusters carry it."""
    row = _missing(instrument, factor, "", **known)
    if effect.clusters < FEWEST:
        return row | {"reason": f"too few groups carry it: {effect.clusters:.1f} of {FEWEST}"}
    numbers = keys_of("effect", effect.estimate) | {"p": effect.p, "share": effect.share}
    return row | numbers | {"reason": None}


def _paired(factor: str, level: str, clean: Array, changed: Array, clusters: Clusters) -> Record:
    """The record of the same texts' scores [N], unchanged and changed."""
    known = {"level": level, "texts": len(clean), "groups": clusters.count}
    effect = paired_effect(changed - clean, clusters)
    spread = float(np.var(np.concatenate([clean, changed])))
    share = float(np.mean((changed - clean) ** 2)) / 4 / spread if spread > 0 else 0.0
    return _measured(PROBES, factor, effect._replace(share=share), **known)


# --- what varies in the data ----------------------------------------------------------------------


def _data_rows(sample: JudgeScores, probing: Probing) -> Rows:
    """A record for each level of each factor."""
    place = {example.example_id: at for at, example in enumerate(probing.examples)}
    there = np.array([name in place for name in sample.names.tolist()], bool)
    rated = np.isfinite(sample.human) & there
    places = np.array([place[name] for name in sample.names[rated].tolist()], int)
    clusters = sample.clusters.at(rated)
    examples = [probing.examples[at] for at in places.tolist()]
    if clusters.count < FEWEST:
        return [_missing(DATA, "all", f"too few rated groups: {clusters.count} of {FEWEST}")]
    factors = factors_of(examples, places, probing.judge)
    rows = [_missing(DATA, one.name, one.reason) for one in factors if one.reason is not None]
    known = [factor for factor in factors if factor.level is not None]
    if np.ptp(sample.scores[rated]) == 0:
        same = "the judge gives every text the same score"
        return rows + [_missing(DATA, one.name, same, level=one.level) for one in known]
    # 1. columns that say something of their own
    columns = [factor.values for factor in known]
    kept = _independent(columns)
    apart = "it cannot be told apart from what stands above"
    rows += [
        _missing(DATA, one.name, apart, level=one.level)
        for at, one in enumerate(known)
        if at not in kept
    ]
    if not kept:
        return rows
    # 2. the judge on the humans' scale
    x = np.column_stack([columns[at] for at in kept])
    error = rating_error(sample.ratings[rated]) if sample.raters else None
    human = sample.human[rated]
    mapped = ISOTONIC
    moments = Moments.of(sample.calibrated[rated], human, x, error, clusters)
    if not moments.follows:
        mapped = END_TO_END
        moments = Moments.of(sample.on_scale[rated], human, x, error, clusters)
    # 3. effects
    low, high = sample.scale or sample.cell.range.ends
    about = {
        "texts": int(rated.sum()),
        "groups": clusters.count,
        "map": mapped,
        "ratings": "several" if moments.reliable else "one",
        "width": high - low,
    }
    effects = regression_effects(moments, [known[at].name for at in kept])
    for at, effect in zip(kept, effects, strict=True):
        level = {"level": known[at].level}
        rows.append(_measured(DATA, known[at].name, effect, **about, **level))
    return rows


def _independent(columns: Sequence[Array]) -> list[int]:
    """The places of the columns [N] that do not follow from those before them and a constant."""
    kept: list[int] = []
    basis: list[Array] = []
    for place, values in enumerate(columns):
        rest = centered = values - values.mean()
        for vector in basis:
            rest = rest - (vector @ rest) * vector
        squares = float(rest @ rest)
        if squares > _LEFT * float(centered @ centered):
            kept.append(place)
            basis.append(rest / np.sqrt(squares))
    return kept


# --- what was asked besides -----------------------------------------------------------------------


def _same_series(cell: ScoreSeries, other: ScoreSeries) -> bool:
    """True for cells of one judge and decoding under one condition, in whichever range."""
    same_judge = (cell.judge, cell.decoding) == (other.judge, other.decoding)
    return same_judge and cell.table == other.table


def _range_rows(sample: JudgeScores, alike: Sequence[JudgeScores]) -> Rows:
    """A record for each other range of the same series."""
    rows = []
    ends = sample.scale or sample.cell.range.ends
    for other in alike:
        asked = other.cell.range
        if asked == sample.cell.range:
            continue
        factor = RANGE_FACTOR
        if asked.worded or sample.cell.range.worded:
            factor = NAMES_FACTOR
        elif asked.reversed != sample.cell.range.reversed:
            factor = TURNED_FACTOR
        _, here, there = np.intersect1d(sample.names, other.names, return_indices=True)
        own = rescale(sample.scores[here], sample.cell.range.ends, ends)
        theirs = rescale(other.scores[there], asked.ends, ends)
        level = f"{asked}, not {sample.cell.range}"
        row = _paired(factor, level, own, theirs, sample.clusters.at(here))
        rows.append(row | {"width": ends[1] - ends[0]})
    return rows or [_missing(PROBES, RANGE_FACTOR, _ONE_RANGE)]


def _probe_rows(alike: Sequence[JudgeScores], probing: Probing) -> Rows:
    """A record for each probe, of the range in which it was asked."""
    rows = []
    for asked in probing.asked:
        row = _missing(PROBES, asked.title, probing.reason or asked.missing, neutral=asked.neutral)
        for sample in alike:
            part = {
                "example_id": sample.names,
                "group_id": sample.groups,
                "score": sample.scores,
            }
            found = _probe_row(sample.cell, part, sample.scale, probing, asked)
            if found["level"] is not None:
                row = found
        rows.append(row)
    return rows


def _probe_row(
    cell: ScoreSeries, part: Columns, scale: Any, probing: Probing, asked: Asked
) -> Record:
    """The record of a probe on the texts of a cell; without a level where it was not asked there."""
    known = {"neutral": asked.neutral}
    attack, defense = asked.condition
    probed = cell._replace(attack=attack, defense=defense)
    unasked = _missing(PROBES, asked.title, probing.reason or asked.missing, **known)
    scores = probing.scores
    if scores is None or probed not in scores.cells or cell.defense != CLEAN:
        return unasked
    # texts whose prompt is another, and whose answers could be read
    changed = scores.part(probed)
    names = probing.changed.get((attack, defense, cell.dimension), frozenset())
    read = changed["status"] != FAILED
    there = np.array([name in names for name in changed["example_id"].tolist()], bool) & read
    clean = part["example_id"].astype(str)
    theirs = changed["example_id"][there].astype(str)
    shared, here, rows = np.intersect1d(clean, theirs, return_indices=True)
    if not len(shared):
        return unasked
    ends = scale or cell.range.ends
    before = rescale(part["score"][here], cell.range.ends, ends)
    after = rescale(changed["score"][there][rows], cell.range.ends, ends)
    clusters = Clusters.of(part["group_id"][here], 0)
    row = _paired(asked.title, f"in range {cell.range}", before, after, clusters)
    return row | known | {"width": ends[1] - ends[0]}


def _repeat_row(sample: JudgeScores, answers: Columns) -> Record:
    """The record of the second answer to each prompt beside the first."""
    if not answers:
        return _missing(PROBES, REPEATED, _ONCE)
    import pandas as pd  # it takes long to import

    table = pd.DataFrame({name: list(column) for name, column in answers.items()})
    cell = sample.cell
    same = ("split", "dimension", "attack", "defense", "judge", "range_min", "range_max")
    for name in same:
        table = table[table[name] == getattr(cell, name)]
    table = table[table[REPEAT] < 2].dropna(subset=["score"])
    several = table.pivot(index=["example_id", "group_id"], columns=REPEAT, values="score").dropna()
    if several.shape[1] < 2 or not len(several):
        return _missing(PROBES, REPEATED, _ONCE)
    ends = sample.scale or cell.range.ends
    first, second = rescale(several.to_numpy(), cell.range.ends, ends).T
    groups = several.index.get_level_values("group_id").to_numpy()
    row = _paired(REPEATED, "second answer, not first", first, second, Clusters.of(groups, 0))
    return row | {"width": ends[1] - ends[0]}


def effect_of(row: Row) -> Estimate | None:
    """The effect of a record, as a part of its scale."""
    effect = Estimate.of(row, "effect")
    if effect is None:
        return None
    parts = [None if end is None else end / row["width"] for end in effect]
    return Estimate(float(parts[0] or 0.0), *parts[1:])
