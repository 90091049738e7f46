"""Range bias: favorite scores, the experts' scores on a judge's range, bias and stability, how alike two models are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from judgebench.report.formats import is_known, percent, signed_two, three, two
from judgebench.report.table import Col, View, records
from judgebench.results.results import Results, unattacked
from judgebench.results.series import (
    NO_DEFENSE,
    SeriesIndex,
    condition_text,
    defenses_of,
    first_condition,
    labelled,
    range_of,
    ranges_of,
)
from judgebench.stats.bias import candidate_index, histogram, mapped
from judgebench.stats.scores import shown_split
from judgebench.types import FAILED, ScoreRange

MAPPING_NOTE = "Human scores are mapped linearly to the range and rounded to the nearest score, half up."
"""What a reader must be told wherever mapped scores are shown."""


Scale = tuple[float, float] | None
"""The lowest and highest score that a human can give; None where humans prefer and do not score (texts compared)."""


def spans(scale: Scale) -> bool:
    """True for a scale of some length. One taken from equal human scores has none, and nothing maps from it."""
    return scale is not None and scale[0] < scale[1]


def mapping_note(scale: Scale) -> str:
    """`MAPPING_NOTE`, or why there are no mapped scores to show."""
    if scale is None:
        return "Humans are left out: their preferences are no scores."
    return MAPPING_NOTE if spans(scale) else "Humans are left out: their scores do not differ, and no scale is known."


def to_range(human: ArrayLike, scale: Scale, score_range: ScoreRange) -> NDArray[np.float64]:
    """Human scores, mapped linearly from the data's scale to the range and rounded to its nearest score, half up.

    Args:
        human: [n] scores on the data's own scale.
        scale: see `Scale`.

    Returns:
        [n] scores of the range; [0] where the scale has no length (see `spans`), hence nothing can be mapped.

    Example:
        >>> to_range([1, 2.5, 5], (1, 5), ScoreRange(0, 4)).tolist()
        [0.0, 2.0, 4.0]
        >>> to_range([3, 3], (3, 3), ScoreRange(0, 4)).tolist()
        []
    """
    if scale is None:
        return np.empty(0)
    exact = mapped(np.asarray(human, dtype=np.float64), scale, score_range)
    return np.empty(0) if exact is None else np.asarray(score_range.values)[candidate_index(exact, score_range)]


def human_scores(scores: pd.DataFrame) -> NDArray[np.float64]:
    """[examples] one human score per example, though each example has a row per judge and decoding."""
    return scores.drop_duplicates("example_id")["human"].dropna().to_numpy(dtype=np.float64)


def shares(values: ArrayLike, score_range: ScoreRange) -> NDArray[np.float64]:
    """[candidates] the share of the values [n] that lies nearest to each score of the range; zeros without values."""
    given = np.asarray(values, dtype=np.float64)
    return histogram(given, score_range) / max(1, len(given))


def most_frequent(found: ArrayLike) -> list[int]:
    """Positions of the largest of the shares [candidates]: several where they tie, none where all are 0."""
    values = np.asarray(found, dtype=np.float64)
    top = values.max(initial=0.0)
    return [int(i) for i in np.flatnonzero(np.isclose(values, top, rtol=0, atol=1e-12))] if top > 0 else []


def is_discrete(scores: pd.DataFrame) -> bool:
    """True if at least half of the scores are scores of their range, not values between them."""
    found = 0
    for score_range, part in ranges_of(scores):
        position = (part["score"].to_numpy(dtype=np.float64) - score_range.minimum) / score_range.step
        found += int(np.sum(np.abs(position - np.round(position)) < 1e-6))
    return 2 * found >= len(scores)


HUMANS = "humans"


def favorites(results: Results) -> pd.DataFrame:
    """The score that each judge with discrete scores, and the humans where they can be mapped, give most often.

    Columns: dimension, range, who, score (several where they tie) and share of the texts that get it, failed: share of
    answers that could not be read, for which the lowest score stands. Rows are of the figures' scores: test split,
    without attack and defense where there are such. Empty where texts are compared.
    """
    scores, found = results.scores, []
    for dimension in [] if results.compares else dict.fromkeys(scores["dimension"]):
        own = scores[scores["dimension"] == dimension]
        rows, _ = first_condition(own[own["split"] == shown_split(own["split"])])
        index = SeriesIndex.from_frame(rows)
        discrete = [series for series, part in index.parts(rows).items() if is_discrete(part)]
        for score_range, part in ranges_of(rows):
            parts = index.parts(part)
            held = {str(series): parts[series] for series in discrete if series in parts}
            given = {who: one["score"].to_numpy() for who, one in held.items()}
            failed = {who: float((one["status"] == FAILED).mean()) for who, one in held.items()}
            given[HUMANS] = to_range(human_scores(part), results.scale[dimension], score_range)
            at = {"dimension": dimension, "range": str(score_range)}
            found += [
                at | _favorite(who, score_range, values) | {"failed": failed.get(who, 0.0)}
                for who, values in given.items()
                if len(values)
            ]
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
    notes = ["The score given most often, and the share of texts with it; “or” where several are given equally often."]
    notes += [MAPPING_NOTE] if any(map(spans, scale.values())) else []
    return " ".join([*notes, *(f"{name}: {mapping_note(one)}" for name, one in scale.items() if not spans(one))])


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
        verb, each = "has" if top["failed"] else "says", " each" if " or " in top["score"] else ""
        sentence = (
            f"{dimension}: {judge} {verb} {top['score']} for {percent(top['share'])} of the texts{each} in range "
        )
        sentence += f"{top['range']}{', where it is most set on one score' if len(given) > 1 else ''}"
        human = own[(own["who"] == HUMANS) & (own["range"] == top["range"])]
        if len(human):
            score, share = human[["score", "share"]].iloc[0]
            sentence += f"; the humans' most frequent score there is {score} ({percent(share)})"
        if top["failed"]:
            sentence += f"; the lowest score stands in for the {percent(top['failed'])} of answers that failed"
        sentences.append(f"{sentence}.")
    return sentences


def favorite_text(row: Mapping[str, Any]) -> str | None:
    """The score that a judge gives most often and its share, as "3 (61 %)" or "C (61 %)", of a record of metrics.json;
    None where they are not known."""
    score = row.get("modal_score")
    if score is None or not is_known(score):
        return None
    own = range_of(row)
    return f"{own.text(score) if own.labels else f'{score:g}'} ({percent(row['modal_share'])})"


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
    frame["modal"] = [favorite_text(row) for row in records(frame)]
    return frame


def _diagnostics_note(results: Results, rows: pd.DataFrame) -> str:
    first, *others = defenses_of(results.clean) or [NO_DEFENSE]
    if not others:
        return _NOTE
    sentence = "without defense" if first == NO_DEFENSE else f"under the defense {first}"
    return f"{_NOTE} All {sentence}; metrics.json has the same of {', '.join(others)}."


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
            "condition": condition_text({**one, "defense": NO_DEFENSE}),
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
