"""A judge's distribution over scores as a forecast of the raters' scores: proper scores, calibration and mass.

Everything is brought to the humans' categories first (`onto_categories`), so that ranges can be compared. A text's
raters are draws from its own distribution; scores are means over the raters of a text, then over texts. Each figure
comes for every row of weights [B, G] of the groups, `group` [N] numbering each text's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from judgebench.metrics.correlation import rating_table
from judgebench.metrics.resampling import (
    RESAMPLES,
    divided,
    group_sums,
    interval_ends,
    means,
    numbered_groups,
    unknown,
    with_interval,
)

FLOOR = 1e-6
"""The least probability that the log score takes: beyond, a single text would decide it."""

BINS = 10
"""Equal bins of a reliability diagram over [0, 1]."""

ANSWERS = 0.5
"""The mean candidate mass below which a judge is not answering: most of its probability lies on other texts."""


def onto_categories(probabilities: np.ndarray, values: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Probabilities [N, K] of candidates as probabilities [N, C] of categories, each candidate's shared by the two
    categories beside it, so that the mean stays; what lies outside goes to the end.

    Args:
        values: [K] the candidates on the humans' scale (see `points.on_scale`).
        categories: [C >= 2] ascending.

    Example:
        >>> onto_categories(np.array([[0.5, 0.5]]), np.array([1.0, 2.25]), np.array([1.0, 2.0, 3.0])).tolist()
        [[0.5, 0.375, 0.125]]
    """
    return probabilities @ _shares(values, categories)


def _shares(values: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[n, C] the shares of the categories in each value."""
    inside = np.clip(values, categories[0], categories[-1])
    upper = np.clip(np.searchsorted(categories, inside), 1, len(categories) - 1)
    share = (inside - categories[upper - 1]) / (categories[upper] - categories[upper - 1])
    found = np.zeros((len(values), len(categories)))
    rows = np.arange(len(values))
    found[rows, upper], found[rows, upper - 1] = share, 1 - share
    return found


def rater_shares(ratings: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[N, C] the shares of a text's raters who gave each category; NaN where nobody rated. A rating between two
    categories counts for both in part."""
    given = ~np.isnan(ratings)
    found = np.zeros((len(ratings), len(categories)))
    np.add.at(found, np.nonzero(given)[0], _shares(ratings[given], categories))
    size = given.sum(axis=1, keepdims=True)
    return np.divide(found, size, out=np.full(found.shape, np.nan), where=size > 0)


def ranked_scores(forecast: np.ndarray, shares: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[N] the ranked probability score of each text, mean over its raters, as a share of the scale: 0 for certainty of
    what all raters say, 1 for certainty of the far end. Epstein (1969), a mean over the borders of equally spaced
    categories; for all others the continuous ranked probability score, divided by the scale's length.

    Args:
        forecast, shares: [N, C] probabilities of the judge, and shares of the raters.
    """
    width = np.diff(categories) / (categories[-1] - categories[0])
    judge, human = (side.cumsum(axis=1)[:, :-1] for side in (forecast, shares))
    return ((judge - human) ** 2 + human * (1 - human)) @ width


def log_scores(forecast: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """[N] less the log-probability (nats) of a rater's score, mean over the text's raters; probabilities below `FLOOR`
    count as that."""
    return -(shares * np.log(np.maximum(forecast, FLOOR))).sum(axis=1)


def candidate_mass(logprobs: np.ndarray) -> np.ndarray:
    """[N] the probability that lies on candidate scores at all, from log-probabilities [N, K] over the full
    vocabulary; at most 1."""
    return np.minimum(np.exp(special.logsumexp(logprobs, axis=1)), 1.0)


def mass_record(
    logprobs: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES, seed: int = 0, threshold: float = ANSWERS
) -> dict[str, Any]:
    """The candidate mass of a judge: texts; groups; mass, mean with interval; mass_lowest; below: the share of texts
    under the threshold; answers: whether the mean reaches it; None without texts.

    Raises:
        ValueError: shapes that do not fit, or NaN.
    """
    logprobs = np.asarray(logprobs, dtype=np.float64)
    if logprobs.ndim != 2 or len(groups) != len(logprobs) or np.isnan(logprobs).any():
        raise ValueError("logprobs must be [N, K] without NaN, and groups [N]")
    mass = candidate_mass(logprobs)
    group, weights = numbered_groups(groups, resamples, seed)
    found = with_interval(
        "mass", means(mass, group, weights, np.ones(len(mass), bool)), interval_ends(weights.shape[1])
    )
    some = len(mass) > 0
    return {"texts": len(mass), "groups": weights.shape[1], **found} | {
        "mass_lowest": float(mass.min()) if some else None,
        "below": float((mass < threshold).mean()) if some else None,
        "answers": bool(mass.mean() >= threshold) if some else None,
    }


class Diagram:
    """A reliability diagram: what was forecast and what came, in equal bins of the forecast.

    Attributes:
        share, forecast, observed: [B, bins] the bin's share of the forecasts, their mean, and the mean of what came;
            the last two NaN where a bin is empty.
    """

    def __init__(
        self, forecast: np.ndarray, observed: np.ndarray, group: np.ndarray, weights: np.ndarray, bins: int = BINS
    ) -> None:
        """forecast, observed: [n] in [0, 1]; group: [n] numbers; weights: [B, G]. A bin holds its upper end."""
        at = np.clip(np.ceil(np.clip(forecast, 0, 1) * bins - 1e-12).astype(np.int64) - 1, 0, bins - 1)
        count = weights.shape[1]
        held = [
            weights @ np.bincount(group * bins + at, weights=column, minlength=count * bins).reshape(count, bins)
            for column in (np.ones(len(forecast)), forecast, observed)
        ]
        self.share = held[0] / np.maximum(held[0].sum(axis=1, keepdims=True), 1)
        self.forecast, self.observed = (divided(one, held[0]) for one in held[1:])

    @property
    def error(self) -> np.ndarray:
        """[B] the expected calibration error: the mean distance of forecast and outcome over bins, by their shares;
        Naeini et al. (2015). Chance alone makes it larger than 0, the more so the fewer texts there are,
        and its interval with it."""
        return (self.share * np.nan_to_num(np.abs(self.forecast - self.observed))).sum(axis=1)

    @property
    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """[B] each: the mean forecast, and the mean of what came."""
        forecast, observed = ((self.share * np.nan_to_num(part)).sum(axis=1) for part in (self.forecast, self.observed))
        return forecast, observed

    def records(self, ends: tuple[float, float]) -> list[dict[str, Any]]:
        """A record a bin that holds something: low and high end, share, forecast, observed with interval."""
        bins = self.share.shape[1]
        return [
            {"bin_low": one / bins, "bin_high": (one + 1) / bins}
            | {"share": float(self.share[0, one]), "forecast": float(self.forecast[0, one])}
            | with_interval("observed", self.observed[:, one], ends)
            for one in np.flatnonzero(self.share[0] > 0)
        ]


def favorites_diagram(forecast: np.ndarray, shares: np.ndarray, group: np.ndarray, weights: np.ndarray) -> Diagram:
    """The diagram of each text's most likely category: its probability, and the share of raters who gave it."""
    first = forecast.argmax(axis=1)
    rows = np.arange(len(forecast))
    return Diagram(forecast[rows, first], shares[rows, first], group, weights)


def categories_diagram(forecast: np.ndarray, shares: np.ndarray, group: np.ndarray, weights: np.ndarray) -> Diagram:
    """The diagram of all categories of all texts together."""
    kinds = forecast.shape[1]
    return Diagram(forecast.ravel(), shares.ravel(), np.repeat(group, kinds), weights)


FORECAST_FIGURES = (
    *("rps", "rps_others", "rps_base", "rps_skill", "log_score", "log_base", "ece", "ece_categories"),
    *("confidence", "confirmed", "overconfidence"),
)
"""Figures of `forecast_record` that have intervals."""


def forecast_record(
    probabilities: np.ndarray,
    values: np.ndarray,
    ratings: np.ndarray,
    groups: np.ndarray,
    categories: Sequence[float] | np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The worth of a judge's distributions as forecasts of the raters' scores.

    Args:
        probabilities: [N, K] of the candidates, brought to sum 1 in each text; NaN where the judge said nothing.
        values: [K] the candidates on the humans' scale.
        ratings: [N, R], NaN where a rater gave none.
        groups: [N] labels of the texts' groups, which are resampled.
        categories: [C >= 2] all numbers that a rater may give, ascending.

    Returns:
        texts, groups. rps: mean of `ranked_scores`; rps_others: that of the other raters' shares as the forecast of
        each rater, over texts with two or more; rps_base: that of the ratings of all texts of other groups, whatever
        the text; rps_skill: 1 - rps / rps_base, above 0 where the judge knows something; log_score, log_base: alike;
        floored: the share of texts in which a rater's category had less than `FLOOR`; ece, ece_categories: of
        `favorites_diagram` and `categories_diagram`; confidence: the mean probability of each text's most likely
        category; confirmed: the mean share of raters who gave it; overconfidence: the difference; each of
        `FORECAST_FIGURES` with `_low` and `_high`.
        diagram, diagram_categories: their bins; reason: why figures are None, else None.

    Raises:
        ValueError: shapes that do not fit, negative probabilities, infinite ratings.
    """
    ratings, kinds = rating_table(ratings), np.asarray(categories, dtype=np.float64)
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if probabilities.shape != (len(ratings), len(values)) or len(groups) != len(ratings) or len(kinds) < 2:
        raise ValueError("probabilities [N, K], values [K], ratings [N, R], groups [N], categories [C >= 2] do not fit")
    if (probabilities < 0).any():
        raise ValueError("probabilities must not be negative")
    total = probabilities.sum(axis=1)
    used = ~np.isnan(ratings).all(axis=1) & (np.nan_to_num(total) > 0)
    forecast = onto_categories(probabilities[used] / total[used, None], np.asarray(values, dtype=np.float64), kinds)
    ratings = ratings[used]
    group, weights = numbered_groups(np.asarray(groups)[used], resamples, seed)
    ends = interval_ends(weights.shape[1])
    record: dict[str, Any] = {"texts": len(ratings), "groups": weights.shape[1]}
    if not len(ratings):
        reason = "No forecast: no text has both probabilities and a rating."
        found: dict[str, Any] = {**unknown(FORECAST_FIGURES), "floored": None, "diagram": [], "diagram_categories": []}
        return record | found | {"reason": reason}
    shares = rater_shares(ratings, kinds)
    diagrams = [make(forecast, shares, group, weights) for make in (favorites_diagram, categories_diagram)]
    figures = _figures(forecast, shares, ratings, kinds, (group, weights))
    confidence, confirmed = diagrams[0].totals
    figures |= {"ece": diagrams[0].error, "ece_categories": diagrams[1].error}
    figures |= {"confidence": confidence, "confirmed": confirmed, "overconfidence": confidence - confirmed}
    for name in FORECAST_FIGURES:
        record |= with_interval(name, figures[name], ends)
    record["floored"] = float(((shares > 0) & (forecast < FLOOR)).any(axis=1).mean())
    record |= {"diagram": diagrams[0].records(ends), "diagram_categories": diagrams[1].records(ends)}
    one = "No baseline and no intervals: there is one group, and both take at least two."
    return record | {"reason": one if weights.shape[1] < 2 else None}


def _figures(
    forecast: np.ndarray,
    shares: np.ndarray,
    ratings: np.ndarray,
    kinds: np.ndarray,
    drawn: tuple[np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """All but the calibration errors, each [B]."""
    group, weights = drawn
    every = np.ones(len(forecast), dtype=bool)
    rps = means(ranked_scores(forecast, shares, kinds), group, weights, every)
    logs = means(log_scores(forecast, shares), group, weights, every)
    base = _base(shares, group, weights.shape[1])
    known = ~np.isnan(base[:, 0])
    rps_base = means(ranked_scores(base, shares, kinds), group, weights, known)
    log_base = means(log_scores(base, shares), group, weights, known)
    others, paired = _others(ratings, kinds)
    return {
        "rps": rps,
        "rps_others": means(others, group, weights, paired),
        "rps_base": rps_base,
        "rps_skill": 1 - divided(rps, rps_base),
        "log_score": logs,
        "log_base": log_base,
    }


def _base(shares: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[N, C] the mean shares of all texts of other groups; NaN with one group."""
    sums, sizes = group_sums(shares, group, count), np.bincount(group, minlength=count)
    rest = len(shares) - sizes
    left = np.broadcast_to(rest[:, None], sums.shape).astype(np.float64)
    return divided(sums.sum(axis=0) - sums, left)[group]


def _others(ratings: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N] the ranked score of the other raters' shares, mean over raters; and [N] where there are two raters."""
    given = ~np.isnan(ratings)
    paired = given.sum(axis=1) > 1
    total = np.zeros(len(ratings))
    for column in range(ratings.shape[1]):
        of = given[:, column] & paired
        rest = np.delete(ratings[of], column, axis=1)
        if of.any():
            total[of] += ranked_scores(rater_shares(rest, kinds), _shares(ratings[of, column], kinds), kinds)
    return total / np.maximum(given.sum(axis=1), 1), paired
