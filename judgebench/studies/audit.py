"""The audit: whatever moves a judge beside the quality that people see, by two instruments.

    data      a regression on what varies in the data by itself, at equal quality
              (`judgebench.stats.regression`, `judgebench.studies.varying`); of recorded answers, too
    probes    one thing is changed in text, prompt or range, and all else stays: the mean difference
              of scores of the same texts

All effects are by how much the judge's scores are moved, mapped end to end onto the humans' scale.
Their clusters are the groups, and their p values are corrected together (Holm) for one judge,
decoding and range. An effect's share of variance is, of data, the part of what quality does not
explain that only this explains; of a probe, the part of the variance of a text's scores, unchanged
and changed, that the change makes: mean(difference^2) / 4 of the variance of both together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from judgebench.decoding.scores import REPEAT
from judgebench.stats.clusters import FEWEST, Clusters, keys_of
from judgebench.stats.maps import rescale
from judgebench.stats.regression import Effect, paired_effect, rating_error, regression_effects
from judgebench.studies.paired import correct
from judgebench.studies.probes import PROBE, Probe
from judgebench.studies.scores import CLEAN, COLUMNS, JudgeScores, Scores, ScoreSeries
from judgebench.studies.varying import factors_of
from judgebench.types import (
    FAILED,
    Array,
    Columns,
    Example,
    Key,
    Record,
    Rows,
    by_key,
)

if TYPE_CHECKING:
    import pandas as pd

DATA = "data"
PROBES = "probes"
"""Instruments of a record."""

RANGE_FACTOR = "score range"
NAMES_FACTOR = "names of scores"
REPEATED = "same prompt again"
ORDER = "order of a pair"
UNPROBED = {RANGE_FACTOR, NAMES_FACTOR, REPEATED, ORDER}
"""What is beside the probes, of what a run has: it does not do for a verdict."""

_ALONE = "texts are judged alone; prompt=comparative asks about pairs, in both orders"
_ONCE = "each prompt was read once; a judge whose answers are drawn can be asked again"
_ONE_RANGE = "one range was asked; ranges=[[1,5],[E,D,C,B,A]] asks in two"
_UNREAD = "no answer to it could be read"
_DEFENDED = "probes are asked without a defense"
_APART = "it is the same in all texts, or follows from what stands above"
_NO_SCORES = Scores.of(dict.fromkeys(COLUMNS, ()))


@dataclass(frozen=True)
class Probing:
    """Texts, and conditions that were asked about them besides.

    Attributes:
        examples: the judged texts, in the order of their file.
        judge: the name of its model.
        scores: of probes, see `changed_scores`.
        probes: those that were asked for.
        answers: see `judgebench.decoding.scores.decode_answers`.
        reason: why no probe was asked; None where they were.
        changed: attack and defense of the conditions that change some prompt.
    """

    examples: Sequence[Example]
    judge: str
    scores: Scores = _NO_SCORES
    probes: Sequence[Probe] = ()
    answers: Columns = field(default_factory=dict)
    reason: str | None = None
    changed: Collection[tuple[str, str]] = ()


def probed_rows(table: pd.DataFrame) -> pd.Series:
    """[rows] True for those of a probe, of a table with the columns attack and defense."""
    return table["attack"].str.startswith(PROBE) | table["defense"].str.startswith(PROBE)


def changed_prompts(readings: pd.DataFrame) -> pd.DataFrame:
    """The texts and conditions whose prompt is another than without any attack or defense, by
    readings.parquet's columns, of a run with all of its conditions."""
    import pandas as pd  # it takes long to import

    prompts = pd.MultiIndex.from_frame(readings[["example_id", "prompt"]])
    clean = (readings["attack"] == CLEAN) & (readings["defense"] == CLEAN)
    other = readings[~prompts.isin(prompts[clean])]
    return other[["example_id", "dimension", "attack", "defense"]].drop_duplicates()


def changed_scores(scores: pd.DataFrame, changed: pd.DataFrame) -> Scores:
    """Of the scores of probes those that could be read, about `changed_prompts`."""
    read = scores[scores["status"] != FAILED]
    return Scores.of(read.merge(changed))


def audit_records(samples: Sequence[JudgeScores], probing: Probing) -> Rows:
    """The records of worth/audit.json: an effect each, of every judge, decoding and range.

    After `JudgeScores.head`: instrument, factor, level; neutral (True where it should not matter);
    texts, groups; effect with its interval, p and p_holm; share of variance; width, the length of
    the scale whose points these are; ratings (of data: "several" or "one" a text); reason, why there
    is no effect.
    """
    records = []
    # a judge and decoding under one condition, in all ranges
    for series in by_key(samples, _series).values():
        texts = {sample.cell: PairedTexts.of(sample) for sample in series}
        for sample in series:
            rows = [
                *_data_rows(sample, probing),
                *_range_rows(sample.cell, texts),
                *_probe_rows(texts, probing),
                _repeat_row(sample.cell, texts[sample.cell], probing.answers),
                _record(PROBES, ORDER, reason=_ALONE),
            ]
            correct(rows)
            records += [sample.head | row for row in rows]
    return records


def _series(sample: JudgeScores) -> Key:
    cell = sample.cell
    return cell.judge, cell.decoding, cell.table


def pair_audit_records(scores: Scores, probing: Probing, dataset: str) -> Rows:
    """The same of texts that are compared, in probabilities of winning: the first place instead of
    the second, and probes."""
    records = []
    for cell in scores.cells:
        if cell.attack != CLEAN or cell.split != scores.split:
            continue
        part = scores.part(cell)
        texts = PairedTexts(
            _shares(cell, part).to_frame("clean").assign(group=part["group_id"]), 1.0
        )
        first, second = part["score_first"], part["score_second"]
        order = texts.record(ORDER, "first, not second", clean=second, changed=first)
        rows = [order, *_probe_rows({cell: texts}, probing)]
        correct(rows)
        records += [{"dataset": dataset, **cell.named, **row} for row in rows]
    return records


# --- records ------------------------------------------------------------------------------------


def _record(
    instrument: str,
    factor: str,
    effect: Effect | None = None,
    reason: str | None = None,
    **known: Any,
) -> Record:
    """A record of an effect, or the reason why there is none: too few clusters carry it, too."""
    record: Record = {
        "instrument": instrument,
        "factor": factor,
        "level": None,
        "neutral": True,
        **dict.fromkeys(("texts", "groups")),
        **keys_of("effect", None),
        **dict.fromkeys(("p", "p_holm", "share", "width", "ratings")),
        "reason": reason,
        **known,
    }
    if effect is None:
        return record
    if effect.clusters < FEWEST:
        few = f"too few groups carry it: {effect.clusters:.1f} of {FEWEST}"
        return record | {"reason": few}
    if effect.p is None:
        return record | {"reason": "what varies tells the humans' scores, and leaves no quality"}
    numbers = keys_of("effect", effect.estimate)
    return record | numbers | {"p": effect.p, "share": effect.share}


class PairedTexts(NamedTuple):
    """Scores that others of the same texts are compared with.

    Attributes:
        table: of each text, by its name: clean, its score as a part of the range; group.
        width: the length of the scale of effects.
    """

    table: pd.DataFrame
    width: float

    @classmethod
    def of(cls, sample: JudgeScores) -> PairedTexts:
        columns = {"example_id": sample.names, "score": sample.scores}
        table = _shares(sample.cell, columns).to_frame("clean").assign(group=sample.groups)
        ends = sample.cell.range.ends
        # of ratings that are all alike the scale has no length
        return cls(table, float(np.ptp(sample.scale or ends) or np.ptp(ends)))

    def record(self, factor: str, level: str, neutral: bool = True, **columns: Any) -> Record:
        """The record of the mean difference of the columns clean and changed, by texts that have
        both."""
        both = self.table.assign(**columns).dropna()
        differences = (both["changed"] - both["clean"]).to_numpy(float) * self.width
        clusters = Clusters.of(both["group"], 0)
        effect = paired_effect(differences, clusters)
        spread = both[["clean", "changed"]].stack().var(ddof=0) * self.width**2
        share = (differences**2).sum() / (4 * len(both) * spread or 1.0)
        return _record(
            PROBES,
            factor,
            effect._replace(share=float(share)),
            level=level,
            neutral=neutral,
            texts=len(both),
            groups=clusters.count,
            width=self.width,
        )


def _shares(cell: ScoreSeries, part: Any) -> pd.Series:
    """The scores of a cell's texts as parts of its range, by the texts' names."""
    import pandas as pd  # it takes long to import

    return pd.Series(rescale(part["score"], cell.range.ends), part["example_id"])


# --- what varies in the data ----------------------------------------------------------------------


def _data_rows(sample: JudgeScores, probing: Probing) -> Iterator[Record]:
    """A record for each level of each factor."""
    import pandas as pd  # it takes long to import

    names = pd.Index([example.example_id for example in probing.examples])
    places = names.get_indexer(pd.Index(sample.names))
    rated = np.isfinite(sample.human) & (places >= 0)
    clusters = sample.clusters.at(rated)
    if clusters.count < FEWEST:
        few = f"too few rated groups: {clusters.count} of {FEWEST}"
        yield _record(DATA, "all", reason=few)
        return
    if np.ptp(sample.human[rated]) == 0:
        yield _record(DATA, "all", reason="all human scores are alike")
        return
    # 1. factors, and those that say something of their own
    examples = [probing.examples[at] for at in places[rated]]
    known = []
    for factor in factors_of(examples, places[rated], probing.judge):
        if factor.level is None:
            yield _record(DATA, factor.name, reason=factor.reason)
        else:
            known.append(factor)
    x = np.column_stack([factor.values for factor in known])
    apart = _independent(x)
    for factor in compress(known, ~apart):
        yield _record(DATA, factor.name, reason=_APART, level=factor.level)
    # 2. effects
    effects, reliable = regression_effects(
        sample.on_scale[rated],
        sample.human[rated],
        x[:, apart],
        rating_error(sample.ratings[rated]),
        clusters,
    )
    about: Record = {
        "texts": len(x),
        "groups": clusters.count,
        "ratings": "several" if reliable else "one",
        "width": float(np.ptp(sample.scale or sample.cell.range.ends)),
    }
    for factor, effect in zip(compress(known, apart), effects, strict=True):
        yield _record(DATA, factor.name, effect, level=factor.level, **about)


def _independent(x: Array) -> Array:
    """[K] True for the columns of x [N, K] that do not follow from those before them and a
    constant."""
    design = np.insert(x, 0, 1.0, axis=1)
    counts = range(1, design.shape[1] + 1)
    return np.diff([np.linalg.matrix_rank(design[:, :count]) for count in counts]) > 0


# --- what was asked besides -----------------------------------------------------------------------


def _range_rows(cell: ScoreSeries, alike: Mapping[ScoreSeries, PairedTexts]) -> Rows:
    """A record for each other range of the same series."""
    rows = []
    for other, texts in alike.items():
        asked = other.range
        if asked == cell.range:
            continue
        worded = asked.worded or cell.range.worded
        factor = NAMES_FACTOR if worded else RANGE_FACTOR
        level = f"{asked}, not {cell.range}"
        rows.append(alike[cell].record(factor, level, changed=texts.table["clean"]))
    return rows or [_record(PROBES, RANGE_FACTOR, reason=_ONE_RANGE)]


def _probe_rows(alike: Mapping[ScoreSeries, PairedTexts], probing: Probing) -> Iterator[Record]:
    """A record for each probe, of the range in which it was asked."""
    defended = all(cell.defense != CLEAN for cell in alike)
    for probe in probing.probes:
        attack, defense = probe.condition
        missing = _UNREAD if probe.condition in probing.changed else probe.missing
        reason = probing.reason or (_DEFENDED if defended else missing)
        row = _record(PROBES, probe.title, reason=reason, neutral=probe.neutral)
        for cell, texts in alike.items():
            probed = cell._replace(attack=attack, defense=defense)
            if cell.defense == CLEAN and probed in probing.scores.cells:
                changed = _shares(probed, probing.scores.part(probed))
                level = f"in range {cell.range}"
                row = texts.record(probe.title, level, probe.neutral, changed=changed)
        yield row


def _repeat_row(cell: ScoreSeries, texts: PairedTexts, answers: Columns) -> Record:
    """The record of the second answer to each prompt beside the first."""
    import pandas as pd  # it takes long to import

    if not answers:
        return _record(PROBES, REPEATED, reason=_ONCE)
    table = pd.DataFrame({name: list(column) for name, column in answers.items()})
    same = ["split", "dimension", "attack", "defense", "judge", "range_min", "range_max"]
    wanted = [cell.named[name] for name in same]
    table = table[(table[same] == wanted).all(axis=1)]
    turns = (table[table[REPEAT] == turn] for turn in (0, 1))
    first, second = (_shares(cell, part) for part in turns)
    if not len(second):
        return _record(PROBES, REPEATED, reason=_ONCE)
    return texts.record(REPEATED, "second answer, not first", clean=first, changed=second)
