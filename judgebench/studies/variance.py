"""Score range bias as variance: how much of a score is due to the text, and how much to the range,
judge or rater that was asked, by the components of `judgebench.stats.variance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from judgebench.stats.clusters import Estimate, keys_of, resampled_and_left_out, unknown
from judgebench.stats.maps import rescale
from judgebench.stats.variance import (
    FACET_PARTS,
    CrossedScores,
    facet_share,
    share_of,
    share_record,
)
from judgebench.studies.scores import JudgeScores, ScoreSeries, series_of
from judgebench.types import LABELS, RANGE, Array, Key, Record, Rows

RANGES = "ranges"
JUDGES = "judges"
HUMANS = "humans"
"""Values of `study` in records of `variance_records`: text x range of one judge and decoding, text
x range x judge of main and assistant, text x rater."""

_SAME = 1e-20  # a variance of parts of a range that is rounding alone
_FACETS = ("range", "judge", "rater")


# --- components ---------------------------------------------------------------------------------


def component_records(scores: CrossedScores) -> Rows:
    """A record an effect, such as "text x range", the smallest sets of facets first: its variance,
    its share in the sum of all (negative ones as 0), and a note on a negative estimate, or why
    there is none."""
    records = []
    clusters = scores.clusters
    for effect, values in scores.components.items():
        note = None
        if np.isnan(values[0]):
            note = "No component: too few scores agree in other facets alone."
        elif values[0] < 0:
            note = "A negative estimate: it counts as 0 in the shares."
        resampled, _ = resampled_and_left_out(values, clusters)
        records.append(
            {
                # in the order of the facets, for a set has none
                "effect": " x ".join(facet for facet in scores.facets if facet in effect),
                "facets": len(effect),
                **clusters.record({"variance": resampled}),
                **share_record("share", share_of(scores.components, [effect]), clusters),
                "note": note,
            }
        )
    return records


# --- the study ----------------------------------------------------------------------------------


def variance_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/variance.json: of each series over two ranges or more (`RANGES`, as
    given and calibrated), of main and assistant (`JUDGES`), and of the raters of each dimension
    (`HUMANS`).

    After `JudgeScores.head`, where a study that is over some of its keys has None: calibrated, True
    where each range's scores were mapped to the humans' scale first, by what texts of other groups
    teach (`scores.cross_fitted`); and what `_study` says.
    """
    records = []
    tables: dict[tuple[str, ...], dict[ScoreSeries, JudgeScores]] = {}
    for sample in samples:
        tables.setdefault(sample.cell.table, {})[sample.cell] = sample
    humans: dict[tuple[str, str], Record] = {}
    for table in tables.values():
        # 1. each series over its ranges
        by_judge: dict[Key, dict[str, dict[Any, JudgeScores]]] = {}
        for cells in series_of(table).values():
            ranged = {score_range: table[cell] for score_range, cell in cells.items()}
            if len(ranged) > 1:
                records.append(_of_ranges(list(ranged.values()), calibrated=False))
                records.append(_of_ranges(list(ranged.values()), calibrated=True))
            cell = next(iter(cells.values()))
            by_judge.setdefault((cell.decoding, *cell.hyperparameters), {})[cell.judge] = ranged
        # 2. main and assistant
        for judges in by_judge.values():
            # both judges' scores in each range that both were asked in
            others = judges.get("assistant", {})
            asked = []
            for score_range, sample in judges.get("main", {}).items():
                if score_range in others:
                    asked += [sample, others[score_range]]
            if asked:
                records.append(_of_judges(asked))
        # 3. the raters
        first = next(iter(table.values()))
        key = first.cell.split, first.cell.dimension
        if key not in humans:
            humans[key] = _of_raters(first)
    return records + list(humans.values())


def _of_judges(asked: Sequence[JudgeScores]) -> Record:
    """The record of main and assistant, whose scores in each range follow each other."""
    facets: tuple[str, ...] = ("text", "judge")
    values, rows = _shared(asked)  # [texts, 2 x ranges]
    if len(asked) > 2:
        facets = ("text", "range", "judge")
        # main and assistant alternate, range by range
        values = values.reshape(len(values), -1, 2)
    scores = CrossedScores(values, facets, asked[0].clusters.at(rows))
    record = _head(asked) | {"judge": None, "study": JUDGES, "calibrated": False}
    return record | _study(scores)


def _of_raters(sample: JudgeScores) -> Record:
    """The record of the raters of a judge's texts."""
    record = {
        **_head([sample]),
        **dict.fromkeys((*RANGE, "decoding", "lambda", "temperature")),
        "judge": HUMANS,
        "study": HUMANS,
        "calibrated": False,
    }
    record.pop(LABELS, None)
    parts = rescale(sample.ratings, sample.scale or (0.0, 1.0))
    with np.errstate(invalid="ignore"):  # of a scale without length
        scores = CrossedScores(parts, ("text", "rater"), sample.clusters)
    record |= _study(scores, has_unit=sample.scale is not None)
    if not sample.raters:
        record |= {
            "raters": None,
            "reason": "No components: only one rating of each text, or their mean, is known.",
        }
    return record


def _of_ranges(samples: Sequence[JudgeScores], calibrated: bool) -> Record:
    first = samples[0]
    values, rows = _shared(samples, calibrated)
    record = _head(samples) | {"study": RANGES, "calibrated": calibrated}
    scores = CrossedScores(values, ("text", "range"), first.clusters.at(rows))
    has_unit = not calibrated or first.scale is not None
    record |= _study(scores, has_unit)
    if calibrated and np.isnan(values).all():
        record["reason"] = "Not calibrated: that takes two groups of rated texts at least."
    return record


def _head(samples: Sequence[JudgeScores]) -> Record:
    """The keys of `JudgeScores.head`, None where these differ in them."""
    heads = [sample.head for sample in samples]
    same = dict(heads[0])
    for name, value in heads[0].items():
        if any(head.get(name) != value for head in heads):
            same[name] = None
    if len({sample.cell.range for sample in samples}) > 1:
        same |= dict.fromkeys(RANGE)
        same.pop(LABELS, None)
    return same


def _shared(samples: Sequence[JudgeScores], calibrated: bool = False) -> tuple[Array, Array]:
    """[n, samples] scores of the texts that all have, by name, as part of the way from the lowest
    to the highest of their range, or calibrated and as part of the humans' scale where it is known;
    and [n] rows of the first sample."""
    columns = []
    for sample in samples:
        scores = sample.scores
        ends = sample.cell.range.ends
        if calibrated:
            scores = sample.calibrated
            ends = sample.scale or (0.0, 1.0)
        columns.append(pd.Series(rescale(scores, ends), sample.names))
    # crossed: only texts that all of them scored
    table = pd.concat(columns, axis=1, join="inner").sort_index()
    return table.to_numpy(), pd.Index(samples[0].names).get_indexer(table.index)


def _study(scores: CrossedScores, has_unit: bool = True) -> Record:
    """The keys of a record from texts on: how many texts, groups and levels of facets (None of
    another); spread: the standard deviation of a score, as part of its range, or of the humans'
    scale; the texts' share and the facets' (see `facet_share`); components; reason: why there is
    nothing of this, else None. Without `has_unit` a spread is None.
    """
    facets = scores.facets[1:]
    levels = dict(zip(facets, scores.values.shape[1:], strict=True))
    record: Record = {
        "texts": len(scores.values),
        "groups": scores.clusters.count,
        **{f"{facet}s": levels.get(facet) for facet in _FACETS},
        "spread": None,
        **unknown(["texts_share"]),
    }
    for facet in _FACETS:
        record |= unknown(f"{facet}_{kind}" for kind in FACET_PARTS)
    components = component_records(scores)
    variances = [part["variance"] for part in components]
    known = [variance for variance in variances if variance is not None]
    total = sum(max(variance, 0.0) for variance in known)
    reason = None
    if record["texts"] < 2:
        reason = "No components: fewer than two texts have scores."
    elif len(known) < len(variances):
        reason = (
            "No components: too few scores of other texts, ranges, judges or raters meet each "
            "other."
        )
    elif total <= _SAME:
        reason = "No components: all scores are the same."
    record |= {"components": components, "reason": reason}
    if reason is not None:
        return record
    record["spread"] = float(np.sqrt(total)) if has_unit else None
    record |= keys_of("texts_share", Estimate.of(components[0], "share"))
    for facet in facets:
        for name, value in facet_share(scores, facet).items():
            record[f"{facet}_{name}"] = value
    return record
