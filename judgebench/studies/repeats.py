"""The same judge asked again: how far its answers to one prompt differ.

A judge whose answers are drawn (`samples`, a temperature that cannot be set, recorded repeats) has
a score of which a part is chance. The mean of several answers hides that part, and a judge that
answers once is used with all of it.

    components   a score is a sum of effects of the text, the range (its own, and with the text) and
                 the repeat. The repeat's is the mean variance of the answers to one prompt; the
                 others are those of the prompts' means (`judgebench.studies.variance`), less what
                 the repeat leaves in them. Where no answer is missing these are the estimates of
                 the analysis of variance: Brennan, "Generalizability Theory" (2001)
    spread       the standard deviation of an answer around the mean of its prompt's, as part of the
                 range
    changed      the chance that two answers to one prompt differ: of a prompt with n answers, c of
                 each score, 1 - sum c (c - 1) / n (n - 1)
    flipped      the same for passing and failing
    needed       answers whose mean lies within a part of the range from the mean of all, in 95 of
                 100 cases: (1.96 spread / part)^2
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from judgebench.decoding.scores import REPEAT
from judgebench.stats.clusters import RESAMPLES, Clusters, safe_divide, unknown, without_nan
from judgebench.stats.variance import CrossedScores, share_of, share_record
from judgebench.studies.scores import CELL, CLEAN, ScoreSeries, shown_split
from judgebench.types import LABELS, RANGE, Array, Columns, Record, Row, Rows

WIDTHS = (0.1, 0.05, 0.02)
"""Half widths, as parts of the range, for which `needed` says how many answers they take."""

SHARES = ("texts_share", "range_share", "repeat_share")
"""Parts of a score's variance: of the text, of the range with its interaction, of the repeat."""

_NORMAL = 1.959963984540054  # ends of a 95 % interval
_ROUNDING = 1e-9
_REPEATS = frozenset({REPEAT})


def repeat_records(
    answers: Columns,
    decisions: Sequence[Row],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rows:
    """The records of worth/repeats.json: one a judge, dimension, defense and range, and one over
    its ranges, of the reported split and of texts that are not attacked.

    Args:
        answers: see `judgebench.decoding.scores.decode_answers`; empty without repeats.
        decisions: see `judgebench.studies.decisions.decision_records`, for the pass mark.

    Returns:
        `ScoreSeries.named`, with None for the range of the record over ranges and for what is not asked;
        texts, groups, repeats (most answers to one prompt), failed_share; `SHARES`, changed and
        flipped with intervals by groups; spread; needed: a list of {width, answers}; reason.
    """
    if not answers:
        return []
    table = pd.DataFrame({name: list(column) for name, column in answers.items()})
    if LABELS not in table:
        table[LABELS] = ""
    shown = table["split"] == shown_split(table["split"])
    # unattacked texts alone: what an attack does is told elsewhere
    table = table[shown & (table["attack"] == CLEAN)]
    marks = {_asked(record): record.get("pass_mark") for record in decisions}
    records: Rows = []
    for _, judged in table.groupby(["dimension", "defense", "judge"], sort=False):
        parts = [part for _, part in judged.groupby([*RANGE, LABELS], sort=False)]
        for part in parts:
            head = _head(part, dataset)
            mark = marks.get(_asked(head))
            records.append(head | {"pass_mark": mark} | _record([part], mark, resamples, seed))
        if len(parts) > 1:
            head = _head(judged, dataset) | dict.fromkeys(RANGE) | {"pass_mark": None}
            head.pop(LABELS, None)
            records.append(head | _record(parts, None, resamples, seed))
    return records


def _head(part: pd.DataFrame, dataset: str) -> Record:
    """The keys that a record begins with, of the first row; lambda and temperature are of answers
    that are drawn, and None."""
    first = part.iloc[0]
    known = {name: first[name] for name in (*CELL, LABELS)}
    cell = ScoreSeries.of(known)._replace(lambda_=None, temperature=None)
    return {"dataset": dataset, **cell.named}


def _asked(record: Row) -> ScoreSeries:
    """Judge, condition and range of a record, whatever the decoding."""
    return ScoreSeries.of(record)._replace(decoding="", lambda_=None, temperature=None)


def _record(parts: Sequence[pd.DataFrame], mark: float | None, resamples: int, seed: int) -> Record:
    """The figures of one range, or of several over the texts that all have."""
    # 1. scores as parts of their range: [T, ranges, repeats]
    tables = [_part_table(part) for part in parts]
    most = max(len(table.columns) for table in tables)
    # a range may have been asked fewer times: its missing answers are NaN, not zeros
    aligned = [table.reindex(columns=range(most)) for table in tables]
    table = pd.concat(aligned, axis=1, join="inner").sort_index()
    values = table.to_numpy().reshape(len(table), len(parts), most)
    clusters = Clusters.of(table.index.get_level_values("group_id"), resamples, seed)
    failed = [part["score"].isna().mean() for part in parts]
    record: Record = {
        "texts": len(table),
        "groups": clusters.count,
        "repeats": most,
        "failed_share": float(np.mean(failed)),
        **_components_record(values, clusters),
        **unknown(("changed", "flipped")),
    }
    # 2. how often another answer says something else
    if len(parts) == 1:
        single = values[:, 0]
        record |= clusters.record({"changed": _differing(single, clusters)})
        if mark is not None:
            low, high = parts[0][["range_min", "range_max"]].iloc[0]
            # the mark as part of the range, as the scores are
            at = (mark - low) / (high - low) - _ROUNDING
            passes = 1.0 * (single >= at)
            passes[np.isnan(single)] = np.nan
            record |= clusters.record({"flipped": _differing(passes, clusters)})
    return record


def _part_table(part: pd.DataFrame) -> pd.DataFrame:
    """[texts, repeats] the answers of one range, as parts of the way from its lowest score to its
    highest."""
    low, high = part[["range_min", "range_max"]].iloc[0]
    shares = part.assign(score=(part["score"] - low) / (high - low))
    return shares.pivot(index=["example_id", "group_id"], columns=REPEAT, values="score")


def _components_record(values: Array, clusters: Clusters) -> Record:
    """`SHARES`, spread and needed of scores [T, ranges, repeats], and the reason for what is
    missing."""
    record: Record = {**unknown(SHARES), "spread": None, "needed": [], "reason": None}
    # 1. components of the means of a prompt's answers
    counts = (~np.isnan(values)).sum(axis=2)
    means = safe_divide(np.nansum(values, axis=2), counts)  # [T, ranges]
    answered = (counts > 0).any(axis=1)
    facets: tuple[str, ...] = ("text", "range") if means.shape[1] > 1 else ("text",)
    crossed = CrossedScores(means if len(facets) > 1 else means[:, 0], facets, clusters)
    # 2. the repeat's, and what it leaves in the means
    # around the prompt's own mean: what text and range make is in that mean
    apart = np.nansum((values - means[:, :, None]) ** 2, axis=2)
    several = counts > 1
    within = np.nansum(safe_divide(apart, counts - 1.0), axis=1)
    # a mean of n answers still has the n-th part of the repeat's variance, which is taken off below
    left = np.nansum(safe_divide(1.0, counts), axis=1)
    repeat, part_left = (
        safe_divide(
            crossed.clusters.sums(above[answered]), crossed.clusters.sums(1.0 * below[answered])
        )
        for above, below in ((within, several.sum(axis=1)), (left, (counts > 0).sum(axis=1)))
    )
    components = dict(crossed.components)
    # the error of a single score, as the means show it, holds what the repeat has left in them
    last = frozenset(facets)
    components[last] = components[last] - repeat * part_left
    components[_REPEATS] = repeat
    of_data = [part[0] for part in components.values()]
    if np.isnan(of_data).any():
        record["reason"] = "No components: too few texts have several answers that could be read."
        return record
    # 3. an answer around the mean of its prompt's
    spread = math.sqrt(max(components[_REPEATS][0], 0.0))
    record["spread"] = spread
    for width in WIDTHS:
        needed = math.ceil((_NORMAL * spread / width) ** 2 - _ROUNDING)
        record["needed"].append({"width": width, "answers": max(1, needed)})
    # 4. shares
    if np.maximum(of_data, 0.0).sum() <= _ROUNDING:
        record["reason"] = "No shares: all answers are the same."
        return record
    effects = {
        "texts_share": [frozenset({"text"})],
        "range_share": [effect for effect in components if "range" in effect],
        "repeat_share": [_REPEATS],
    }
    for name, of_name in effects.items():
        if of_name:
            share = share_of(components, of_name)
            record |= share_record(name, share, crossed.clusters)
    return record


def _differing(answers: Array, clusters: Clusters) -> Array:
    """[1 + B] the mean over texts of the chance that two of a text's answers [N, M] differ; texts
    with fewer than two that could be read are left out."""
    chances = np.full(len(answers), np.nan)
    for row, values in enumerate(answers):
        counts = np.unique(without_nan(values), return_counts=True)[1]
        read = counts.sum()
        if read > 1:
            # without replacement: an answer never meets itself, so few repeats do not look too
            # stable
            chances[row] = 1 - (counts * (counts - 1)).sum() / (read * (read - 1))
    several = ~np.isnan(chances)
    return clusters.mean(np.nan_to_num(chances), several)
