"""A judge's distribution over scores as a forecast of what raters say, and of its own errors.

A judge that gives 40 % to a 4 and 60 % to a 5 has said more than the 4.6 or the 5 that a decoding takes from it. Here
the whole distribution is measured against single raters' scores: by proper scores, by calibration, by the mass that
lies on scores at all, by intervals of single texts, and by whether the judge knows which of its scores are wrong.

Distributions are brought to the humans' categories first (`onto_categories`), so that ranges can be compared. Figures
are means over the raters of a text, then over texts, with intervals from resampled articles (`clusters.Clusters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from judgebench.decoding.rules import Contrastive, candidate_distribution, expected_value, has_answer
from judgebench.stats.clusters import MOST_ENTRIES, RESAMPLES, Clusters, divided, unknown
from judgebench.stats.points import cross_fitted, on_scale
from judgebench.stats.scores import Sample

PAIR = "pair"
"""The judge of decodings that contrast main and assistant."""

NOT_ANSWERING = "not answering"
"""The flag of a judge most of whose probability lies on other texts than scores."""

FLOOR = 1e-6
"""The least probability that the log score takes: beyond, a single text would decide it."""

ANSWERS = 0.5
"""The mean candidate mass below which a judge is not answering: most of its probability lies on other texts."""

LEVEL = 0.9
"""Share of texts whose interval is to hold the humans' score."""

KEPT = tuple(round(share / 10, 1) for share in range(1, 11))
"""Shares of texts kept at which a curve of risks has a point."""

FIGURES = (
    *("rps", "rps_others", "rps_base", "rps_skill", "log_score", "log_base", "ece", "ece_categories"),
    *("confidence", "confirmed", "overconfidence"),
)
"""Figures of `forecast_record`, which says each."""

_BINS = 10  # of a reliability diagram over [0, 1]
_ROUNDING = 1e-9
_RISKS = ("risk", "area", "area_best", "gain")


# Forecasts of the raters' scores


def category_shares(values: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[n, C] the shares of ascending categories in each value [n]: of the two beside it, so that the mean stays; what
    lies outside goes to the end.

    Example:
        >>> category_shares(np.array([2.25, 9.0]), np.array([1.0, 2.0, 3.0])).tolist()
        [[0.0, 0.75, 0.25], [0.0, 0.0, 1.0]]
    """
    inside = np.clip(values, categories[0], categories[-1])
    upper = np.clip(np.searchsorted(categories, inside), 1, len(categories) - 1)
    share = (inside - categories[upper - 1]) / (categories[upper] - categories[upper - 1])
    shares = np.zeros((len(values), len(categories)))
    rows = np.arange(len(values))
    shares[rows, upper], shares[rows, upper - 1] = share, 1 - share
    return shares


def onto_categories(probabilities: np.ndarray, values: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Probabilities [N, K] of candidates, whose values [K] lie on the humans' scale, as those [N, C] of categories."""
    return probabilities @ category_shares(values, categories)


def rater_shares(ratings: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[N, C] the shares of a text's raters who gave each category; NaN without a rating. Ratings [N, R], NaN where
    there is none; one between two categories counts for both in part."""
    given = ~np.isnan(ratings)
    shares = np.zeros((len(ratings), len(categories)))
    np.add.at(shares, np.nonzero(given)[0], category_shares(ratings[given], categories))
    return divided(shares, np.broadcast_to(given.sum(axis=1, keepdims=True), shares.shape))


def ranked_scores(forecast: np.ndarray, shares: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[N] the ranked probability score of each text, mean over its raters, as a share of the scale: 0 for certainty of
    what all raters say, 1 for certainty of the far end. Epstein (1969), a mean over the borders of equally spaced
    categories; for all others the continuous ranked probability score, divided by the scale's length.

    Args:
        forecast, shares: [N, C] probabilities of the judge, and shares of the raters.

    Example:
        >>> unsure, raters = np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 1.0, 0.0]])
        >>> ranked_scores(unsure, raters, np.array([1.0, 2.0, 3.0])).tolist()  # at two borders: (.5 ** 2 + 0) / 2
        [0.125]
    """
    width = np.diff(categories) / (categories[-1] - categories[0])
    judge, human = (side.cumsum(axis=1)[:, :-1] for side in (forecast, shares))
    return ((judge - human) ** 2 + human * (1 - human)) @ width


def log_scores(forecast: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """[N] less the log-probability (nats) of a rater's score, mean over the text's raters; probabilities below `FLOOR`
    count as that."""
    return -(shares * np.log(np.maximum(forecast, FLOOR))).sum(axis=1)


class Reliability(NamedTuple):
    """A reliability diagram: what was forecast and what came, in equal bins of the forecast.

    Attributes:
        share, forecast, observed: [1 + B, bins] the bin's share of the forecasts, their mean, and the mean of what
            came; the last two NaN where a bin is empty.
    """

    share: np.ndarray
    forecast: np.ndarray
    observed: np.ndarray

    @classmethod
    def of(cls, forecast: np.ndarray, observed: np.ndarray, clusters: Clusters, bins: int = _BINS) -> Reliability:
        """Forecasts and outcomes [N, M] in [0, 1], M of each text; a bin holds its upper end."""
        at = np.clip(np.ceil(np.clip(forecast, 0, 1) * bins - 1e-12) - 1, 0, bins - 1)
        member = at[..., None] == np.arange(bins)
        columns = (np.ones_like(forecast), forecast, observed)
        mass, said, came = (clusters.sums((member * column[..., None]).sum(axis=1)) for column in columns)
        total = np.broadcast_to(mass.sum(axis=1, keepdims=True), mass.shape)
        return cls(divided(mass, total), divided(said, mass), divided(came, mass))

    @property
    def error(self) -> np.ndarray:
        """[1 + B] the expected calibration error: the mean distance of forecast and outcome over bins, by their shares;
        Naeini et al. (2015). Chance alone makes it larger than 0, and its interval with it: more so with few texts."""
        return (self.share * np.nan_to_num(np.abs(self.forecast - self.observed))).sum(axis=1)

    def records(self, clusters: Clusters) -> list[dict[str, Any]]:
        """A record a bin that holds something: low and high end, share, forecast, observed with interval."""
        bins = self.share.shape[1]
        return [
            {"bin_low": place / bins, "bin_high": (place + 1) / bins}
            | {"share": float(self.share[0, place]), "forecast": float(self.forecast[0, place])}
            | clusters.record({"observed": self.observed[:, place]})
            for place in np.flatnonzero(self.share[0] > 0)
        ]


def forecast_record(
    probabilities: np.ndarray,
    values: np.ndarray,
    ratings: np.ndarray,
    groups: np.ndarray,
    categories: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """A judge's distributions as forecasts of the raters' scores: `FIGURES` with intervals, texts, groups; floored, the
    share of texts in which a rater's category had less than `FLOOR`; diagram and diagram_categories, the bins behind
    ece and ece_categories; reason: why figures are None, else None.

    Args:
        probabilities: [N, K] of the candidates, brought to sum 1 in each text; NaN where the judge said nothing.
        values: [K] the candidates on the humans' scale.
        ratings: [N, R], NaN where a rater gave none.
        groups: [N] labels of the texts' groups, which are resampled.
        categories: [C >= 2] all numbers that a rater may give, ascending.
    """
    total = probabilities.sum(axis=1)
    used = ~np.isnan(ratings).all(axis=1) & (np.nan_to_num(total) > 0)
    forecast = onto_categories(probabilities[used] / total[used, None], values, categories)
    shares, clusters = rater_shares(ratings[used], categories), Clusters.of(groups[used], resamples, seed)
    # the base knows the ratings of all texts of other groups, and nothing of the text
    sums, sizes = clusters.totals(shares), np.bincount(clusters.number, minlength=clusters.count)
    rest = np.broadcast_to((len(shares) - sizes)[:, None], sums.shape)
    base = divided(sums.sum(axis=0) - sums, rest)[clusters.number]
    others, paired = others_scores(ratings[used], categories)
    scores, base_scores = (ranked_scores(side, shares, categories) for side in (forecast, base))
    rps, rps_base = clusters.mean(scores), clusters.mean(base_scores)
    # the most likely category of each text, and how many raters gave it
    first = forecast.argmax(axis=1)[:, None]
    top, agreed = (np.take_along_axis(side, first, axis=1) for side in (forecast, shares))
    confidence, confirmed = clusters.mean(top[:, 0]), clusters.mean(agreed[:, 0])
    favorites, every = Reliability.of(top, agreed, clusters), Reliability.of(forecast, shares, clusters)
    figures = {
        "rps": rps,
        "rps_others": clusters.mean(others, paired),  # of texts with two raters or more
        "rps_base": rps_base,
        "rps_skill": 1 - divided(rps, rps_base),  # above 0 where the judge knows something of the texts
        "log_score": clusters.mean(log_scores(forecast, shares)),
        "log_base": clusters.mean(log_scores(base, shares)),
        "ece": favorites.error,
        "ece_categories": every.error,
        "confidence": confidence,  # of each text's most likely category
        "confirmed": confirmed,  # the share of raters who gave it
        "overconfidence": confidence - confirmed,
    }
    reason = "No baseline and no intervals: there is one group, and both take at least two."
    if not used.any():
        reason = "No forecast: no text has both probabilities and a rating."
    return {
        "texts": len(forecast),
        "groups": clusters.count,
        **clusters.record(figures),
        "floored": float(((shares > 0) & (forecast < FLOOR)).any(axis=1).mean()) if used.any() else None,
        "diagram": favorites.records(clusters),
        "diagram_categories": every.records(clusters),
        "reason": reason if clusters.count < 2 else None,
    }


def others_scores(ratings: np.ndarray, categories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N] the ranked score of the other raters' shares as the forecast of each rater, mean over raters; and [N] where
    there are two raters or more."""
    given = ~np.isnan(ratings)
    paired = given.sum(axis=1) > 1
    total = np.zeros(len(ratings))
    for column in range(ratings.shape[1]):
        rows = given[:, column] & paired
        others = rater_shares(np.delete(ratings[rows], column, axis=1), categories)
        total[rows] += ranked_scores(others, category_shares(ratings[rows, column], categories), categories)
    return total / np.maximum(given.sum(axis=1), 1), paired


def mass_record(logprobs: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """The probability that lies on candidate scores at all, from log-probabilities [N, K] over the full vocabulary:
    mass, mean over texts with interval; mass_lowest; below: the share of texts under `ANSWERS`; answers: whether the
    mean reaches it; None without texts."""
    mass = np.minimum(np.exp(special.logsumexp(logprobs, axis=1)), 1.0)
    clusters = Clusters.of(groups, resamples, seed)
    record: dict[str, Any] = clusters.record({"mass": clusters.mean(mass)})
    if not len(mass):
        return record | dict.fromkeys(("mass_lowest", "below", "answers"))
    shares: dict[str, Any] = {"mass_lowest": float(mass.min()), "below": float((mass < ANSWERS).mean())}
    return record | shares | {"answers": bool(mass.mean() >= ANSWERS)}


# Intervals of single texts


def conformal_quantile(scores: np.ndarray, group: np.ndarray, level: float) -> float:
    """The number that the score of a text of a new group exceeds with a chance of at most 1 - level; infinite where
    there are too few groups, fewer than level / (1 - level).

    With one text a group it is the usual split-conformal quantile, the ceil((n + 1) level)-th smallest score. Each
    group counts alike, and one place is kept for the unseen one: Lee, Barber and Willett, "Distribution-free inference
    with hierarchical data" (2023).

    Args:
        scores: [n] of the calibration texts.
        group: [n] numbers of their groups; a group's texts share its weight.

    Example:
        >>> conformal_quantile(np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1]), 0.5)  # weights 1/2 1/2 | 1, of 2 + 1
        2.0
    """
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    reached = (1 / sizes[number[order]]).cumsum()
    place = np.searchsorted(reached, level * (len(sizes) + 1) - _ROUNDING)
    return float(scores[order[place]]) if place < len(order) else float("inf")


def text_intervals(
    scores: np.ndarray, human: np.ndarray, groups: np.ndarray, scale: tuple[float, float], seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Conformal intervals of the humans' score of each text, split by group: a new text belongs to a new article, so
    articles, not texts, are exchangeable.

    Coverage is at least `LEVEL` on average over new articles, for any judge, and at most 1 / (articles + 1) more. Where
    a half has too few groups for that, the other half's intervals are the whole scale.

    Args:
        scores: [N] the judge's on the humans' scale, best its expectation; NaN where it gave none. Intervals of a
            biased judge are wide: `points.cross_fitted` takes the bias off, after which coverage holds nearly, as
            texts of both halves have taught the map.
        human: [N] the humans' means, NaN where nobody rated: such texts get intervals, and teach nothing.
        groups: [N] labels.
        scale: the ends of the humans' scale, which no interval leaves.

    Returns:
        [N] the lower and upper ends, NaN where the judge gave no score; and [N] 0 or 1, the half of the groups in which
        a text lies: its interval comes of the other half.
    """
    asked = np.isfinite(scores)
    known = asked & np.isfinite(human)
    labels, group = np.unique(groups, return_inverse=True)
    order = np.random.default_rng([seed, 2]).permutation(len(labels))
    order = order[np.argsort(~np.isin(order, group[known]), kind="stable")]  # rated groups are dealt first
    half = np.empty(len(labels), dtype=np.int64)
    half[order] = np.arange(len(labels)) % 2
    split, margin = half[group], np.full(len(scores), np.nan)
    for side in (0, 1):
        taught = known & (split != side)
        margin[split == side] = conformal_quantile(np.abs(human - scores)[taught], group[taught], LEVEL)
    return np.clip(scores - margin, *scale), np.clip(scores + margin, *scale), split


def coverage_record(
    scores: np.ndarray,
    human: np.ndarray,
    groups: np.ndarray,
    scale: tuple[float, float],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The share of rated texts whose interval (`text_intervals`) holds the humans' mean, and the intervals' width:
    level; coverage, width with intervals; coverage_reason: why there is nothing, or nothing shorter than the scale."""
    low, high, _ = text_intervals(scores, human, groups, scale, seed)
    known = np.isfinite(human) & np.isfinite(low)
    clusters = Clusters.of(groups[known], resamples, seed)
    inside = ((low - _ROUNDING <= human) & (human <= high + _ROUNDING))[known]
    figures = {"coverage": clusters.mean(1.0 * inside), "width": clusters.mean((high - low)[known])}
    needed, reason = 2 * round(LEVEL / (1 - LEVEL)), None
    if not known.any():
        reason = "No coverage: no rated text has an interval."
    elif clusters.count < needed:
        reason = (
            f"The intervals are the whole scale: shorter ones take {needed} groups, and there are {clusters.count}."
        )
    return {"level": LEVEL} | clusters.record(figures) | {"coverage_reason": reason}


# Errors that a judge knows of


def kept_risks(
    unsure: np.ndarray, loss: np.ndarray, clusters: Clusters, shares: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The risk-coverage curve: texts [N] are kept from the surest on, and those equally sure come in any order, so that
    each counts their mean loss. El-Yaniv and Wiener, "On the Foundations of Noise-free Selective Classification"
    (2010).

    Returns:
        area: [1 + B] the mean over texts of the mean loss of those up to it; risks: [1 + B, shares] the mean loss where
        so large a share of the texts is kept, by the first text that reaches it.

    Example:
        >>> surest_first = np.array([0.1, 0.2]), np.array([0.0, 1.0])
        >>> area, risks = kept_risks(*surest_first, Clusters.of([0, 0]), (0.5, 1.0))
        >>> area.tolist(), risks.tolist()  # 0 with the first alone, then .5 with both
        ([0.25], [[0.0, 0.5]])
    """
    order = np.argsort(unsure, kind="stable")
    ranked, group, loss = unsure[order], clusters.number[order], loss[order]
    # texts in blocks of equally sure ones
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    block = np.repeat(np.arange(len(starts)), np.diff([*starts, len(ranked)]))
    alike = bool((loss == loss[starts][block]).all())  # then a block's mean is its texts' own loss, in any resample
    area, risks = np.empty(len(clusters.weights)), np.empty((len(clusters.weights), len(shares)))
    step = max(1, MOST_ENTRIES // (4 * len(loss)))
    for start in range(0, len(area), step):
        here = slice(start, start + step)
        mass = clusters.weights[here, group]
        lost = mass * loss
        if not alike:
            mean = divided(np.add.reduceat(lost, starts, axis=1), np.add.reduceat(mass, starts, axis=1))
            lost = mass * np.nan_to_num(mean)[:, block]
        kept = mass.cumsum(axis=1)
        risk = lost.cumsum(axis=1) / np.maximum(kept, 1.0)
        area[here] = (mass * risk).sum(axis=1) / kept[:, -1]
        for column, share in enumerate(shares):
            at = (kept < share * kept[:, -1:] - _ROUNDING).sum(axis=1)
            risks[here, column] = risk[np.arange(len(risk)), at]
    return area, risks


def risk_record(
    unsure: np.ndarray, loss: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The mean loss of the texts that a judge keeps when a person gets those it is least sure of.

    Args:
        unsure: [N] how unsure the judge is, such as its standard deviation. The texts to send to a person are those
            with the most.
        loss: [N] what its score costs, such as the distance from the humans' mean; NaN where it is unknown.
        groups: [N] labels.

    Returns:
        risk: the mean loss of all; area: the mean of the curve, and area_best, that of a judge that knows its own loss;
        gain: the share of the way from `risk` to `area_best` that `area` goes, 0 for sending any texts, 1 for the best,
        below 0 for the wrong ones; all with intervals; curve: a record for each of `KEPT` (kept, risk with interval);
        risk_reason.
    """
    known = np.isfinite(unsure) & np.isfinite(loss)
    unsure, loss, clusters = unsure[known], loss[known], Clusters.of(groups[known], resamples, seed)
    if not len(loss):
        return unknown(_RISKS) | {"curve": [], "risk_reason": "No curve: no text has a loss."}
    area, risks = kept_risks(unsure, loss, clusters, KEPT)
    best, total = kept_risks(loss, loss, clusters)[0], clusters.mean(loss)
    gain = divided(total - area, np.where(total - best > _ROUNDING, total - best, 0.0))
    record: dict[str, Any] = clusters.record(dict(zip(_RISKS, (total, area, best, gain), strict=True)))
    curve = [{"kept": share, **clusters.record({"risk": risks[:, k]})} for k, share in enumerate(KEPT)]
    reason = "No gain: all texts cost the same." if record["gain"] is None else None
    return record | {"curve": curve, "risk_reason": reason}


# The study


def distribution_of(side: Sample) -> tuple[np.ndarray | None, str]:
    """The judge's adjusted log-probabilities [N, K], up to a constant of each row; or None and the reason, a sentence.

    Greedy and expectation share the model's own. A pair's are those of `Contrastive` with the cell's lambda and
    temperature, and are believed only where the scores are theirs: a decoding of the user's own may contrast by
    another law.
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
    if not any(np.abs(law - side.scores).max(initial=0.0) <= _ROUNDING * np.abs(values).max() for law in laws):
        return None, "No probabilities: the decoding's scores are not those of contrastive decoding."
    return adjusted, ""


def forecast_records(sides: Sequence[Sample]) -> list[dict[str, Any]]:
    """The records of worth/forecasts.json, one a distribution: its head (of the first decoding that has it);
    decodings: all that have it; and what the functions above return, with mass_reason. Without probabilities texts,
    groups (0) and reason alone."""
    shared: dict[tuple[Any, ...], tuple[list[Sample], np.ndarray | None, str]] = {}
    for side in sides:
        cell, (logprobs, reason) = side.cell, distribution_of(side)
        key: tuple[Any, ...] = (cell.table, cell.range, cell.judge)
        if logprobs is None:
            key += (cell.decoding, *cell.knobs)
        elif cell.lambda_ is not None and cell.temperature is not None:
            key += (cell.lambda_ / cell.temperature, side.alpha) if cell.judge == PAIR else ()
        shared.setdefault(key, ([], logprobs, reason))[0].append(side)
    records = []
    for decodings, logprobs, reason in shared.values():
        record = decodings[0].head | {"decodings": [side.cell.decoding for side in decodings]}
        nothing = {"texts": 0, "groups": 0, "reason": reason}
        records.append(record | (nothing if logprobs is None else _record(decodings[0], logprobs)))
    return records


def _record(side: Sample, logprobs: np.ndarray) -> dict[str, Any]:
    """All records of one distribution, from its log-probabilities [N, K], up to a constant of each row."""
    judge, drawn = side.cell.judge, (side.resamples, side.seed)
    values, probabilities = np.array(side.cell.range.values), candidate_distribution(logprobs)
    scale = side.scale if side.scale is not None and side.scale[0] < side.scale[1] else None
    placed = values if scale is None else on_scale(values, side.cell.range, scale)
    # as a forecast of single ratings
    if side.categories is not None and len(side.categories) > 1:
        record = forecast_record(probabilities, placed, side.ratings, side.groups, side.categories, *drawn)
    else:
        why = "the humans' ratings are no list of whole numbers, so nobody can say which ones were to be forecast"
        texts, groups = len(probabilities), len(np.unique(side.groups))
        record = {"texts": texts, "groups": groups, "reason": f"No forecast: {why}."}
    # the mass on scores
    reason = None
    if judge == PAIR:
        reason = "No mass: a contrast has none, but main model and assistant have."
    elif judge not in side.over_vocabulary:
        reason = "No mass: the judge's probabilities are not known over all tokens."
    if reason is None:
        record |= mass_record(side.logprobs[judge], side.groups, *drawn)
    else:
        record |= unknown(["mass"]) | dict.fromkeys(("mass_lowest", "below", "answers"))
    record["mass_reason"] = reason
    # intervals of single texts, and errors
    if scale is None:
        why = "nobody knows the humans' scale"
        record |= unknown(("coverage", "width", *_RISKS)) | {"level": LEVEL, "curve": []}
        return record | {"coverage_reason": f"No intervals: {why}.", "risk_reason": f"No errors: {why}."}
    mean = probabilities @ placed
    expected = np.where(has_answer(logprobs), mean, np.nan)
    spread = np.sqrt((probabilities * (placed - mean[:, None]) ** 2).sum(axis=1)).round(9)  # ties stay ties
    fitted = cross_fitted(expected, side.human, side.groups, seed=side.seed)
    record |= coverage_record(fitted, side.human, side.groups, scale, *drawn)
    return record | risk_record(spread, np.abs(expected - side.human), side.groups, *drawn)


_PLACE = ("split", "dimension", "range_min", "range_max", "range_step", "range_labels", "attack", "defense", "judge")


def with_silent(
    metrics: Sequence[Mapping[str, Any]], forecasts: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Metrics with the flag `NOT_ANSWERING` where forecasts tell that a judge is not; those of attacked texts as they
    were."""
    silent = {tuple(record.get(name) for name in _PLACE) for record in forecasts if record.get("answers") is False}
    return [
        {**record, "flags": [*record["flags"], NOT_ANSWERING]}
        if tuple(record.get(name) for name in _PLACE) in silent
        else record
        for record in metrics
    ]
