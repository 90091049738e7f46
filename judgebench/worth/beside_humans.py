"""Records of one judge beside its humans: agreement in points, the alternative annotator test, and Spearman for raters
who do not err; raw, and calibrated by what texts of other groups teach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.metrics.resampling import interval_ends, means, numbered_groups, unknown, with_interval
from judgebench.stats.clusters import Clusters, divided
from judgebench.worth.alternative import alternative_record
from judgebench.worth.judge_scores import JudgeScores
from judgebench.worth.points import POINTS_FIGURES, cross_fitted, points_record, rounded
from judgebench.worth.raters import Panel
from judgebench.worth.reliability import disattenuated_record

RAW, CALIBRATED = "raw", "calibrated"
"""Scores mapped linearly to the humans' scale; and those that isotonic regression on other groups' texts makes of
them, see `points.cross_fitted`."""

_DISATTENUATED = ("reliability", "disattenuated_spearman")
_NO_SCALE = "The humans' scale is unknown, so that scores of a range cannot be mapped to it."
_NO_MAP = "No calibrated scores: they take rated texts of two groups, to learn from one and to score the other."
_MEANS = "several ratings of a text, and only one, or their mean, is known."


def beside_humans_records(sides: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """The records of beside_humans.json: two a judge, decoding and range, `RAW` and `CALIBRATED`; assistants, which
    serve a pair and judge for nobody, are left out.

    Returns:
        the head; scores: raw or calibrated; texts and groups behind its points; what `points.points_record` says, its
        reason as points_reason; mae_saved with its interval: the raw scores' mae less the calibrated ones', paired text
        by text, and mae_constant, of the one score for all texts that has the least; both of calibrated scores
        alone; rmse, the root mean square distance from the humans' mean, and r2: 1 less its square over that of one
        score for all texts, the mean rating of other groups' texts (rmse_constant), both with intervals; of calibrated
        scores also rmse_unseen, r2_unseen and rmse_constant_unseen: learned from texts of other systems, so that whole
        systems are left out; what `alternative.alternative_record` says of the scores, rounded to what a
        rater may give, its reason as alternative_reason and each of `raters` with its name (rater);
        tested_spearman_others with its interval: of these rounded scores, see `Panel.agreement`; reliability of the
        humans' means and disattenuated_spearman with intervals, of raw scores alone, with disattenuated_reason.
    """
    judges = [one for one in sides if one.cell.judge != "assistant"]
    return [_record(one, kind, scores) for one in judges for kind, scores in _both(one).items()]


def _both(one: JudgeScores) -> dict[str, np.ndarray]:
    raw = np.full(len(one.scores), np.nan) if one.scale is None else one.on_scale
    return {RAW: raw, CALIBRATED: cross_fitted(one.scores, one.human, one.groups, seed=one.seed)}


def _record(one: JudgeScores, kind: str, scores: np.ndarray) -> dict[str, Any]:
    drawn = {"resamples": one.resamples, "seed": one.seed}
    missing = None if np.isfinite(scores).any() else _NO_SCALE if kind == RAW else _NO_MAP
    points = points_record(scores, one.ratings, one.groups, one.categories, **drawn)
    points["points_reason"] = missing or points["reason"]
    if not one.raters:
        points |= unknown([f"single_{name}" for name in POINTS_FIGURES])
        points["points_reason"] = " ".join(
            filter(None, [points["points_reason"], f"Figures with one rater take {_MEANS}"])
        )
    tested = scores if one.categories is None else rounded(scores, one.categories)
    record = one.head | {"scores": kind} | points | _alternative(one, tested, missing)
    record |= (
        _saved(one, kind, scores)
        | _explained(one, kind, scores)
        | _with_others(one, tested)
        | _disattenuated(one, kind, drawn)
    )
    del record["reason"]
    return record


def _saved(one: JudgeScores, kind: str, scores: np.ndarray) -> dict[str, float | None]:
    known = np.isfinite(scores) & np.isfinite(one.human)
    if kind == RAW or one.scale is None or not known.any():
        return unknown(["mae_saved"]) | {"mae_constant": None}
    group, weights = numbered_groups(one.groups[known], one.resamples, one.seed)
    saved = (np.abs(one.on_scale - one.human) - np.abs(scores - one.human))[known]
    every = np.ones(len(saved), dtype=bool)
    found = with_interval("mae_saved", means(saved, group, weights, every), interval_ends(weights.shape[1]))
    human = one.human[known]
    return found | {"mae_constant": float(np.abs(human - np.median(human)).mean())}


def _explained(one: JudgeScores, kind: str, scores: np.ndarray) -> dict[str, float | None]:
    """Like compared with like: the squared distances of scores, and of constants that the same texts teach."""
    record = unknown(["rmse", "r2", "rmse_unseen", "r2_unseen"])
    record |= {"rmse_constant": None, "rmse_constant_unseen": None}
    sides = {"": (scores, one.groups)}
    if kind == CALIBRATED:
        sides["_unseen"] = cross_fitted(one.scores, one.human, one.systems, seed=one.seed), one.systems
    for end, (values, left_out) in sides.items():
        constant = cross_fitted(one.scores, one.human, left_out, "constant", seed=one.seed)
        known = np.isfinite(values) & np.isfinite(constant) & np.isfinite(one.human)
        if one.scale is None or not known.any():
            continue
        clusters = Clusters.of(one.groups[known], one.resamples, one.seed)
        errors, spread = (clusters.mean((side - one.human)[known] ** 2) for side in (values, constant))
        record |= clusters.record({f"rmse{end}": np.sqrt(errors), f"r2{end}": 1 - divided(errors, spread)})
        record[f"rmse_constant{end}"] = float(np.sqrt(spread[0]))
    return record


def _alternative(one: JudgeScores, scores: np.ndarray, missing: str | None) -> dict[str, Any]:
    found = alternative_record(scores, one.ratings, one.groups, resamples=one.resamples, seed=one.seed)
    reason = missing or (found["reason"] if one.raters else f"The test takes {_MEANS}")
    found["raters"] = [{"rater": one.raters[rater.pop("column")]} | rater for rater in found["raters"]]
    for name in ("texts", "groups", "reason"):
        del found[name]
    return found | {"alternative_reason": reason}


def _with_others(one: JudgeScores, scores: np.ndarray) -> dict[str, float | None]:
    panel = Panel(one.ratings, one.groups, one.resamples, one.seed)
    known = panel.missing is None and np.isfinite(scores).all()
    name = "tested_spearman_others"
    return with_interval(name, panel.agreement(scores)) if known else unknown([name])


def _disattenuated(one: JudgeScores, kind: str, drawn: Mapping[str, int]) -> dict[str, Any]:
    if kind != RAW:
        return unknown(_DISATTENUATED) | {"disattenuated_reason": "It is of raw scores alone."}
    if not one.raters:
        return unknown(_DISATTENUATED) | {"disattenuated_reason": f"Reliability takes {_MEANS}"}
    found = disattenuated_record(one.scores, one.ratings, one.groups, **drawn)
    kept = {name: found[name] for name in unknown(_DISATTENUATED)}
    return kept | {"disattenuated_reason": found["reason"]}
