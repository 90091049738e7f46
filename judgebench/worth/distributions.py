"""Each judge's distribution over scores beside the humans: as a forecast, in the mass on scores, in intervals of single
texts, and in what it knows of its own errors.

A judge has one distribution in a range, whichever decoding takes a score from it: greedy and expectation share the
model's own, and a contrast has that of its adjusted log-probabilities (see `rules.contrast`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.decoding.rules import Contrastive, candidate_distribution, expected_value, has_answer
from judgebench.metrics.resampling import unknown
from judgebench.worth.abstention import LEVEL, coverage_record, risk_record, text_intervals
from judgebench.worth.forecast import forecast_record, mass_record
from judgebench.worth.judge_scores import JudgeScores
from judgebench.worth.points import cross_fitted, on_scale

PAIR = "pair"
"""The judge of decodings that contrast main and assistant."""

NOT_ANSWERING = "not answering"
"""The flag of a judge most of whose probability lies on other texts than scores."""

_EQUAL = 1e-9  # scores no farther apart differ by rounding alone
_MASS = ("mass", "mass_low", "mass_high", "mass_lowest", "below", "answers")
_RISKS = ("risk", "area", "area_best", "gain")


Found = tuple[np.ndarray | None, str]
"""What `distribution_of` returns."""


def distribution_of(side: JudgeScores) -> Found:
    """The judge's adjusted log-probabilities [N, K], up to a constant of each row; or None and the reason, a sentence.

    A pair's are those of `Contrastive` with the cell's lambda and temperature, and are believed only where the scores
    are theirs: a decoding of the user's own may contrast by another law.
    """
    cell, values = side.cell, np.array(side.cell.range.values)
    if cell.judge != PAIR:
        if cell.judge in side.logprobs:
            return side.logprobs[cell.judge], ""
        return None, "No probabilities: the judge's answers are known, and not what else it might have said."
    if len(side.logprobs) < 2:
        return None, "No probabilities: those of main model and assistant are not both known."
    if cell.lambda_ is None or cell.temperature is None:
        return None, "No probabilities: the decoding tells neither lambda nor temperature."
    rule = Contrastive(cell.lambda_, cell.temperature, side.alpha)
    adjusted = rule.adjusted(side.logprobs["main"], side.logprobs["assistant"], values)
    laws = (values[adjusted.argmax(axis=1)], expected_value(adjusted, values))
    if not any(np.abs(law - side.scores).max(initial=0.0) <= _EQUAL * np.abs(values).max() for law in laws):
        return None, "No probabilities: the decoding's scores are not those of contrastive decoding."
    return adjusted, ""


def forecast_records(sides: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """A record for every distribution: its head (of the first decoding that has it), `decodings`, all that have it;
    what `forecast_record` finds; `mass` and the like, see `mass_record`, and mass_reason; coverage and width of the
    intervals of single texts, with level and coverage_reason; risk, area, gain and curve, see `risk_record`, and
    risk_reason."""
    records = []
    for held, (logprobs, reason) in _shared(sides):
        side = held[0]
        record = side.head | {"decodings": [one.cell.decoding for one in held]}
        if logprobs is None:
            records.append(record | {"texts": 0, "groups": 0, "reason": reason})
        else:
            records.append(record | _record(side, logprobs))
    return records


def _shared(sides: Sequence[JudgeScores]) -> Iterable[tuple[list[JudgeScores], Found]]:
    """Judges and decodings by their distribution, and that."""
    held: dict[tuple[Any, ...], tuple[list[JudgeScores], Found]] = {}
    for side in sides:
        cell, found = side.cell, distribution_of(side)
        own: tuple[Any, ...] = (cell.table, cell.range, cell.judge)
        if found[0] is None:
            own += (cell.decoding, *cell.knobs)
        elif cell.judge == PAIR and cell.lambda_ is not None and cell.temperature is not None:
            own += (cell.lambda_ / cell.temperature, side.alpha)
        held.setdefault(own, ([], found))[0].append(side)
    return held.values()


def _record(side: JudgeScores, logprobs: np.ndarray) -> dict[str, Any]:
    """All that is found of a distribution from its log-probabilities [N, K], up to a constant of each row."""
    values = np.array(side.cell.range.values)
    scale = side.scale if side.scale is not None and side.scale[0] < side.scale[1] else None
    placed = values if scale is None else on_scale(values, side.cell.range, scale)
    found, drawn = candidate_distribution(logprobs), (side.resamples, side.seed)
    record: dict[str, Any] = {}
    if side.categories is not None and len(side.categories) > 1:
        record |= forecast_record(found, placed, side.ratings, side.groups, side.categories, *drawn)
    else:
        why = "the humans' ratings are no list of whole numbers, so nobody can say which ones were to be forecast"
        record |= {"texts": len(found), "groups": len(np.unique(side.groups)), "reason": f"No forecast: {why}."}
    record |= _mass(side)
    if scale is None:
        why = "nobody knows the humans' scale"
        record |= {"coverage_reason": f"No intervals: {why}.", "risk_reason": f"No errors: {why}."}
        return record | unknown(("coverage", "width", *_RISKS)) | {"level": LEVEL, "curve": []}
    answered = has_answer(logprobs)
    expected = np.where(answered, found @ placed, np.nan)
    record |= _coverage(side, expected, scale)
    spread = np.sqrt((found * (placed - (found @ placed)[:, None]) ** 2).sum(axis=1)).round(9)  # ties stay ties
    risk = risk_record(spread, np.abs(expected - side.human), side.groups, *drawn)
    return record | {name: risk[name] for name in (*unknown(_RISKS), "curve")} | {"risk_reason": risk["reason"]}


def _mass(side: JudgeScores) -> dict[str, Any]:
    """The mass of a judge on scores; None, and the reason, where it has no log-probabilities over all tokens."""
    judge = side.cell.judge
    reason = None
    if judge == PAIR:
        reason = "No mass: a contrast has none, but main model and assistant have."
    elif judge not in side.over_vocabulary:
        reason = "No mass: the judge's probabilities are not known over all tokens."
    if reason is not None:
        return dict.fromkeys(_MASS) | {"mass_reason": reason}
    found = mass_record(side.logprobs[judge], side.groups, side.resamples, side.seed)
    return {name: found[name] for name in _MASS} | {"mass_reason": None}


def _coverage(side: JudgeScores, expected: np.ndarray, scale: tuple[float, float]) -> dict[str, Any]:
    """Coverage of conformal intervals around the expected score [N], whose bias texts of other groups have taught."""
    fitted = cross_fitted(expected, side.human, side.groups, seed=side.seed)
    intervals = text_intervals(fitted, side.human, side.groups, scale, seed=side.seed)
    found = coverage_record(intervals, side.human, side.groups, side.resamples, side.seed)
    reason, needed = found["reason"], 2 * round(LEVEL / (1 - LEVEL))
    if reason is None and found["groups"] < needed:
        reason = (
            f"The intervals are the whole scale: shorter ones take {needed} groups, and there are {found['groups']}."
        )
    kept = {name: found[name] for name in unknown(("coverage", "width"))}
    return {"level": LEVEL} | kept | {"coverage_reason": reason}


def with_silent(
    metrics: Sequence[Mapping[str, Any]], forecasts: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Metrics with the flag `NOT_ANSWERING` where forecasts tell that a judge is not; those of attacked texts as they
    were."""
    silent = {_place(record) for record in forecasts if record.get("answers") is False}
    return [
        {**record, "flags": [*record["flags"], NOT_ANSWERING]} if _place(record) in silent else record
        for record in metrics
    ]


_PLACE = ("split", "dimension", "range_min", "range_max", "range_step", "range_labels", "attack", "defense", "judge")


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in _PLACE)
