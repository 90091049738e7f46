"""Range bias: the scores that judges favor, how their scores differ from the humans', and how alike two models are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from judgebench.report.formats import percent, signed_two, three, two
from judgebench.report.humans import (
    MAPPING_NOTE,
    human_scores,
    is_discrete,
    mapping_note,
    most_frequent,
    shares,
    spans,
    to_range,
)
from judgebench.report.table import Col, View
from judgebench.results.results import Results, unattacked
from judgebench.results.series import (
    NO_DEFENSE,
    SeriesIndex,
    defenses_of,
    first_condition,
    labelled,
    range_of,
    ranges_of,
    shown_split,
)
from judgebench.types import ScoreRange

HUMANS = "humans"


def favorites(results: Results) -> pd.DataFrame:
    """The score that each judge with discrete scores, and the humans where they can be mapped, give most often.

    Columns: dimension, range, who, score (several where they tie) and share of the texts that get it. Rows are of the
    figures' scores: test split, without attack and defense where there are such. Empty where texts are compared.
    """
    scores, found = results.scores, []
    for dimension in [] if results.compares else dict.fromkeys(scores["dimension"]):
        own = scores[scores["dimension"] == dimension]
        rows, _ = first_condition(own[own["split"] == shown_split(own["split"])])
        index = SeriesIndex.from_frame(rows)
        discrete = [series for series, part in index.parts(rows).items() if is_discrete(part)]
        for score_range, part in ranges_of(rows):
            parts = index.parts(part)
            given = {str(series): parts[series]["score"].to_numpy() for series in discrete if series in parts}
            given[HUMANS] = to_range(human_scores(part), results.scale[dimension], score_range)
            at = {"dimension": dimension, "range": str(score_range)}
            found += [at | _favorite(who, score_range, values) for who, values in given.items() if len(values)]
    return pd.DataFrame(found)


def _favorite(who: str, score_range: ScoreRange, values: NDArray[np.float64]) -> dict[str, Any]:
    found = shares(values, score_range)
    best = most_frequent(found)
    names = " or ".join(score_range.candidates[i] for i in best)
    return {"who": who, "score": names, "share": float(found[best[0]])}


def _favorite_frame(results: Results) -> pd.DataFrame:
    """A row a dimension and range, a column for whoever scores."""
    found = favorites(results)
    if not len(found):
        return found
    found["cell"] = [f"{score} ({percent(share)})" for score, share in zip(found["score"], found["share"], strict=True)]
    wide = found.pivot_table(index=["dimension", "range"], columns="who", values="cell", aggfunc="first", sort=False)
    return wide.reset_index()


def _favorite_note(results: Results, rows: pd.DataFrame) -> str:
    scale = {dimension: results.scale[dimension] for dimension in dict.fromkeys(rows["dimension"])}
    told = ["The score given most often, and the share of texts with it; “or” where several are given equally often."]
    told += [MAPPING_NOTE] if any(map(spans, scale.values())) else []
    return " ".join([*told, *(f"{name}: {mapping_note(one)}" for name, one in scale.items() if not spans(one))])


def favorite_tables(results: Results) -> list[Any]:
    """The table of favorite scores, a column for each judge and decoding, the humans last."""
    frame = _favorite_frame(results)
    who = sorted((name for name in frame.columns if name not in ("dimension", "range")), key=lambda one: one == HUMANS)
    view = View(
        "favorites",
        "Favorite scores",
        lambda _: frame,
        [Col("range", "range", left=True), *(Col(name, name, left=True, optional=True) for name in who)],
        by=["dimension"],
        title="{dimension}",
        note=_favorite_note,
    )
    return view(results)


def favorite_sentences(results: Results, judge: str = "main, greedy") -> list[str]:
    """One sentence a dimension: the range in which the judge is most set on one score, against the humans there."""
    found, sentences = favorites(results), []
    for dimension, own in found.groupby("dimension", sort=False) if len(found) else ():
        given = own[own["who"] == judge]
        if not len(given):
            continue
        top = given.iloc[int(given["share"].to_numpy().argmax())]
        sentence = f"{dimension}: {judge} says {top['score']} for {percent(top['share'])} of the texts in range "
        sentence += f"{top['range']}{', where it is most set on one score' if len(given) > 1 else ''}"
        human = own[(own["who"] == HUMANS) & (own["range"] == top["range"])]
        if len(human):
            score, share = human[["score", "share"]].iloc[0]
            sentence += f"; the humans' most frequent score there is {score} ({percent(share)})"
        sentences.append(f"{sentence}.")
    return sentences


# --- diagnostics ------------------------------------------------------------------------------------------------------

_NOTE = (
    "Wasserstein: how far, as a share of the range, the judge's scores must move on average to be distributed as the "
    "humans' are; it says nothing of which texts get them. Shift: the judge's mean less the humans', as a share of the "
    "range; above 0 the judge scores higher. KL: divergence of the judge's histogram from the humans', in nats. Modal "
    "score: the score given most often, and its share. SD: standard deviation of Spearman over the ranges. Self: mean "
    "Spearman of the judge with itself in the other ranges."
)


def _diagnosed(results: Results) -> list[Mapping[str, Any]]:
    """The metrics of clean texts that know of bias, of the reported split and level, without defense, else under the
    first one."""
    shown = [record for record in results.clean if (record["split"], record["level"]) == (results.split, results.level)]
    first = next(iter(defenses_of(shown)), NO_DEFENSE)
    return [record for record in shown if record["defense"] == first and record.get("modal_share") is not None]


def _diagnostics_frame(results: Results) -> pd.DataFrame:
    rows = [] if results.compares else _diagnosed(results)
    if not rows:
        return pd.DataFrame()
    frame = labelled(rows)
    conditions = list(dict.fromkeys(frame["condition"]))
    frame = frame.sort_values("series", key=lambda names: names.map(list(dict.fromkeys(names)).index), kind="stable")
    frame = frame.sort_values("condition", key=lambda names: names.map(conditions.index), kind="stable")
    frame["modal"] = [
        None if pd.isna(score) else f"{score:g} ({percent(share)})"
        for score, share in zip(frame["modal_score"], frame["modal_share"], strict=True)
    ]
    return frame


def _diagnostics_note(results: Results, rows: pd.DataFrame) -> str:
    first, *others = defenses_of(results.clean) or [NO_DEFENSE]
    if not others:
        return _NOTE
    told = "without defense" if first == NO_DEFENSE else f"under the defense {first}"
    return f"{_NOTE} All {told}; metrics.json has the same of {', '.join(others)}."


DIAGNOSTICS = View(
    "diagnostics",
    "Bias and stability",
    _diagnostics_frame,
    (
        Col("judge, decoding", "series", left=True, width=24),
        Col("range", "range", left=True),
        Col("Wasserstein", "bias_wasserstein", three),
        Col("shift", "bias_shift", signed_two),
        Col("KL", "bias_kl", two),
        Col("modal score", "modal", left=True),
        Col("SD", "stability", three, optional=True),
        Col("self", "self_agreement", three, optional=True),
    ),
    by=["condition"],
    title="{condition}",
    sections=["series"],
    once=["series", "stability", "self_agreement"],
    note=_diagnostics_note,
)
"""Bias and stability of each judge and decoding."""


def _similarity_frame(results: Results) -> pd.DataFrame:
    known = {(one["dimension"], one["attack"], one["defense"]) for one in _diagnosed(results)}
    rows = [
        {
            "condition": ", ".join(
                [one["dimension"], *([] if one["attack"] == "none" else [f"attack {one['attack']}"])]
            ),
            "range": str(range_of(one)),
            "correlation": one["logprob_correlation"],
            "agreement": one["mode_agreement"],
            **{who: f"{one[f'{who}_mode']} ({percent(one[f'{who}_mode_share'])})" for who in ("main", "assistant")},
        }
        for one in ([] if results.compares else unattacked(results.similarity))
        if one["split"] == results.split and (one["dimension"], one["attack"], one["defense"]) in known
    ]
    return pd.DataFrame(rows)


SIMILARITY = View(
    "similarity",
    "Main and assistant",
    _similarity_frame,
    (
        Col("range", "range", left=True),
        Col("log-probabilities correlate", "correlation", two),
        Col("same most likely score", "agreement", percent),
        Col("main's", "main", left=True),
        Col("assistant's", "assistant", left=True),
    ),
    by=["condition"],
    title="{condition}",
    note="Correlation of their mean log-probabilities of the candidates; share of texts of which both find the same "
    "score most likely; the scores that each most often does. Contrasting takes away what both prefer.",
)
"""How alike main model and assistant are."""
