"""A judge's distribution over scores as a forecast of what raters say, and of its own errors.

A judge that gives 40 % to a 4 and 60 % to a 5 has said more than the 4.6 or the 5 that a decoding
takes from it. Here the whole distribution is measured, by three laws:

1. **Proper scores** and **calibration** against single raters' scores: `forecast_record`.
2. The **mass** that lies on scores at all: `mass_record`.
3. **Intervals** of single texts, which hold the humans' score with a promised chance:
  `coverage_record`.

The text above, with raters who say 4, 5, 5 on a scale from 1 to 5:

- At the borders 1|2, 2|3, 3|4, 4|5 the judge's probability of lying below is 0, 0, 0, .4. Of the
  rater who said 4 it is 0, 0, 0, 1; of the others 0 everywhere. Mean squared distances are .36 / 4
  = .09, and .16 / 4 = .04 twice: the ranked probability score `rps` is their mean, .0567.
- The likeliest category is 5, with `confidence` .6, and 2 of 3 raters say so (`confirmed`).

Distributions are brought to the humans' categories first (`category_shares`), so that ranges can be
compared. Figures are means over the raters of a text, then over texts, with intervals from
resampled articles (`clusters.Clusters`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.decoding.rules import (
    Contrastive,
    candidate_distribution,
    expected_value,
    has_answer,
)
from judgebench.stats.clusters import Clusters, safe_divide, unknown
from judgebench.stats.conformal import LEVEL, text_intervals
from judgebench.stats.folds import cross_fitted
from judgebench.stats.maps import rescale
from judgebench.stats.scoring_rules import (
    calibration_error,
    category_shares,
    others_scores,
    ranked_scores,
    rater_shares,
)
from judgebench.studies.scores import JudgeScores, with_flag
from judgebench.types import LABELS, RANGE, Array, Key, Record, Records, Row, Rows, Scale

PAIR = "pair"
"""The judge of decodings that contrast main and assistant."""

NOT_ANSWERING = "not answering"
"""The flag of a judge most of whose probability lies on other texts than scores."""


ANSWERS = 0.5
"""The mean candidate mass below which a judge is not answering."""


FIGURES = ("rps", "rps_others", "rps_skill", "ece", "confidence", "confirmed")
"""Figures of `forecast_record`, which says each."""

_ROUNDING = 1e-9
_MASS = ("mass", "mass_low", "mass_high", "answers")


def probability_score_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/forecasts.json, one a distribution, which several `decodings` may share:
    the head of the first, and the three records of this module; without probabilities texts, groups
    (0) and reason alone."""
    shared: dict[Key, tuple[list[JudgeScores], Array | None, str]] = {}
    for sample in samples:
        cell = sample.cell
        logprobs, reason = distribution_of(sample)
        key: Key = (cell.table, cell.range, cell.judge)
        # a distribution is one record, whichever decodings read it; without one each has its own
        # reason
        if logprobs is None:
            key += (cell.decoding, *cell.hyperparameters)
        elif cell.judge == PAIR and cell.lambda_ is not None and cell.temperature is not None:
            key += (cell.lambda_ / cell.temperature, sample.alpha)
        shared.setdefault(key, ([], logprobs, reason))[0].append(sample)
    records = []
    for sharing, logprobs, reason in shared.values():
        first = sharing[0]
        record: Record = dict(first.head)
        record["decodings"] = [sample.cell.decoding for sample in sharing]
        if logprobs is None:
            record |= {"texts": 0, "groups": 0, "reason": reason}
        else:
            record |= _record(first, logprobs)
        records.append(record)
    return records


def distribution_of(sample: JudgeScores) -> tuple[Array | None, str]:
    """The judge's adjusted log-probabilities [N, K], up to a constant of each row; or None and the
    reason, a sentence.

    Greedy and expectation share the model's own. A pair's are those of `Contrastive` with the
    cell's lambda and temperature, and are believed only where the scores are theirs: a decoding of
    the user's own may contrast by another law.
    """
    cell = sample.cell
    values = np.array(cell.range.values)
    if cell.judge in sample.logprobs and cell.judge != PAIR:
        return sample.logprobs[cell.judge], ""
    if cell.judge != PAIR:
        reason = (
            "No probabilities: the judge's answers are known, and not what else it might have said."
        )
        return None, reason
    if len(sample.logprobs) < 2:
        return None, "No probabilities: those of main model and assistant are not both known."
    if cell.lambda_ is None or cell.temperature is None:
        return None, "No probabilities: the lambda or the temperature of the decoding is unknown."
    law = Contrastive(cell.lambda_, cell.temperature, sample.alpha)
    adjusted = law.adjusted(sample.logprobs["main"], sample.logprobs["assistant"], values)
    # what is known is what the law gives: whether the scores came of it is tried, and not believed
    rounding = _ROUNDING * np.abs(values).max()
    for scores in (values[adjusted.argmax(axis=1)], expected_value(adjusted, values)):
        if np.abs(scores - sample.scores).max(initial=0.0) <= rounding:
            return adjusted, ""
    return None, "No probabilities: the decoding's scores are not those of contrastive decoding."


def _record(sample: JudgeScores, logprobs: Array) -> Record:
    """All records of one distribution, from its log-probabilities [N, K], up to a constant of each
    row."""
    judge = sample.cell.judge
    clusters = sample.clusters
    values = np.array(sample.cell.range.values)
    probabilities = candidate_distribution(logprobs)
    scale = sample.scale
    if scale is not None and scale[0] >= scale[1]:
        scale = None
    placed = values if scale is None else rescale(values, sample.cell.range.ends, scale)
    # 1. as a forecast of single ratings
    reason = (
        "No forecast: the humans' ratings are no list of whole numbers, so their categories are "
        "unknown."
    )
    record = {
        "texts": len(probabilities),
        "groups": clusters.count,
        "reason": reason,
    }
    if sample.categories is not None and len(sample.categories) > 1:
        record = forecast_record(probabilities, sample.ratings, clusters, placed, sample.categories)
    # 2. the mass on scores
    if judge in sample.over_vocabulary and judge != PAIR:
        record |= mass_record(sample.logprobs[judge], clusters) | {"mass_reason": None}
    else:
        reason = "the judge's probabilities are not known over all tokens."
        if judge == PAIR:
            reason = "a contrast has none, but main model and assistant have."
        record |= dict.fromkeys(_MASS) | {"mass_reason": f"No mass: {reason}"}
    # 3. intervals of single texts, on the humans' scale
    if scale is None:
        record |= unknown(("coverage", "width")) | {"level": LEVEL}
        return record | {"coverage_reason": "No intervals: the humans' scale is unknown."}
    # the expectation uses the whole distribution, and has the fewest ties
    expected = np.where(has_answer(logprobs), probabilities @ placed, np.nan)
    fitted = cross_fitted(expected, sample.human, sample.groups, seed=sample.seed)
    return record | coverage_record(fitted, sample.human, clusters, scale)


# --- 1. forecasts of the raters' scores ---------------------------------------------------------


def forecast_record(
    probabilities: Array,
    ratings: Array,
    clusters: Clusters,
    values: Array,
    categories: Array,
) -> Record:
    """A judge's distributions as forecasts of the raters' scores: `FIGURES` with intervals.

    Args:
        probabilities: [N, K] of the candidates, brought to sum 1 in each text; NaN where the judge
            said nothing.
        ratings: [N, R], NaN where a rater gave none.
        values: [K] the candidates on the humans' scale.
        categories: [C >= 2] all numbers that a rater may give, ascending.
    """
    total = probabilities.sum(axis=1)
    used = ~np.isnan(ratings).all(axis=1) & (np.nan_to_num(total) > 0)
    clusters = clusters.at(used)
    ratings = ratings[used]
    forecast = (probabilities[used] / total[used, None]) @ category_shares(values, categories)
    shares = rater_shares(ratings, categories)
    # the base knows the ratings of all texts of other groups, and nothing of the text
    sums = clusters.totals(shares)
    sizes = np.bincount(clusters.number, minlength=clusters.count)
    rest = (len(shares) - sizes)[:, None]
    # of other groups, for ratings of the text's own article would tell the base something of the
    # text
    base = safe_divide(sums.sum(axis=0) - sums, rest)[clusters.number]
    rps = clusters.mean(ranked_scores(forecast, shares, categories))
    rps_base = clusters.mean(ranked_scores(base, shares, categories))
    # the likeliest category of each text, and the share of raters who gave it
    likeliest = forecast.argmax(axis=1)[:, None]
    top = np.take_along_axis(forecast, likeliest, axis=1)
    agreed = np.take_along_axis(shares, likeliest, axis=1)
    figures = {
        "rps": rps,
        # of texts with two raters or more
        "rps_others": clusters.mean(*others_scores(ratings, categories)),
        # above 0 where the judge knows something of the texts
        "rps_skill": 1 - safe_divide(rps, rps_base),
        "ece": calibration_error(top, agreed, clusters),  # of the likeliest category alone
        "confidence": clusters.mean(top[:, 0]),
        "confirmed": clusters.mean(agreed[:, 0]),
    }
    reason = None
    if clusters.count < 2:
        reason = "No baseline and no intervals: there is one group, and both take at least two."
        if not used.any():
            reason = "No forecast: no text has both probabilities and a rating."
    record = {"texts": len(forecast), "groups": clusters.count}
    return record | clusters.record(figures) | {"reason": reason}


# --- 2. the mass on scores ----------------------------------------------------------------------


def mass_record(logprobs: Array, clusters: Clusters) -> Record:
    """The probability that lies on candidate scores at all, from log-probabilities [N, K] over the
    full vocabulary: its mean over texts with interval, and if the mean reaches `ANSWERS` (the judge
    answers); None without texts."""
    # candidates exclude each other, so their probabilities add up; rounding may pass 1
    mass = np.minimum(np.exp(scipy.special.logsumexp(logprobs, axis=1)), 1.0)
    record = dict.fromkeys(_MASS) | clusters.record({"mass": clusters.mean(mass)})
    if len(mass):
        record["answers"] = bool(mass.mean() >= ANSWERS)
    return record


def with_silent(metrics: Records, forecasts: Records) -> list[Row]:
    """Metrics with the flag `NOT_ANSWERING` where forecasts say so of the judge; those of attacked
    texts as they were."""
    silent = [record for record in forecasts if record.get("answers") is False]
    names = ("split", "dimension", *RANGE, LABELS, "attack", "defense", "judge")
    return with_flag(NOT_ANSWERING, metrics, silent, names)


# --- 3. intervals of single texts ---------------------------------------------------------------


def coverage_record(scores: Array, human: Array, clusters: Clusters, scale: Scale) -> Record:
    """The share of rated texts whose interval (`text_intervals`) holds the humans' mean, and the
    intervals' width."""
    low, high, _ = text_intervals(scores, human, clusters, scale)
    rated = np.isfinite(human) & np.isfinite(low)
    inside = (low - _ROUNDING <= human) & (human <= high + _ROUNDING)
    clusters = clusters.at(rated)
    needed = 2 * round(LEVEL / (1 - LEVEL))
    figures = {
        "coverage": clusters.mean(1.0 * inside[rated]),
        "width": clusters.mean((high - low)[rated]),
    }
    reason = None
    if not rated.any():
        reason = "No coverage: no rated text has an interval."
    elif clusters.count < needed:
        reason = (
            f"The intervals are the whole scale: shorter ones take {needed} groups, and there are "
            f"{clusters.count}."
        )
    return {"level": LEVEL} | clusters.record(figures) | {"coverage_reason": reason}
