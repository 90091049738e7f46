"""Texts that a person should see: intervals per text that hold the humans' score, and the risk of those kept.

Intervals are conformal, split by group: a new text belongs to a new article, so articles, not texts, are exchangeable.
Each article counts alike in the quantile and one place is kept for the unseen one (Lee, Barber and Willett,
"Distribution-free inference with hierarchical data", 2023): coverage is at least the level wanted, on average
over new articles, for any judge and any number of articles, and at most 1 / (articles + 1) more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.metrics.correlation import MOST_ENTRIES
from judgebench.metrics.resampling import (
    RESAMPLES,
    divided,
    interval_ends,
    means,
    numbered_groups,
    unknown,
    with_interval,
)

LEVEL = 0.9
"""Share of texts whose interval is to hold the humans' score."""

_ROUNDING = 1e-9


def conformal_quantile(scores: np.ndarray, group: np.ndarray, level: float) -> float:
    """The number that the score of a text of a new group exceeds with a chance of at most 1 - level; infinite where
    there are too few groups, fewer than level / (1 - level).

    With one text a group it is the usual split-conformal quantile, the ceil((n + 1) level)-th smallest score.

    Args:
        scores: [n] of the calibration texts.
        group: [n] numbers of their groups; a group's texts share its weight.
    """
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    reached = (1 / sizes[number[order]]).cumsum()
    place = np.searchsorted(reached, level * (len(sizes) + 1) - _ROUNDING)
    return float(scores[order[place]]) if place < len(order) else float("inf")


@dataclass(frozen=True)
class TextIntervals:
    """Intervals of the humans' score, one a text.

    Attributes:
        low, high: [N] the ends; NaN where the judge gave no score.
        split: [N] 0 or 1: the half of the groups in which the text lies; its interval comes of the other half.
    """

    low: np.ndarray
    high: np.ndarray
    split: np.ndarray

    @property
    def width(self) -> np.ndarray:
        """[N] high less low."""
        return self.high - self.low


def text_intervals(
    scores: np.ndarray,
    human: np.ndarray,
    groups: np.ndarray,
    scale: tuple[float, float],
    spread: np.ndarray | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> TextIntervals:
    """Intervals from each half of the groups for the other half, so that every text has one.

    Each reaches as far below the score as above. Where a half has too few groups for the level, the other half's
    intervals are the whole scale.

    Args:
        scores: [N] the judge's on the humans' scale, best its expectation; NaN where it gave none. Intervals of a
            biased judge are wide: `points.cross_fitted` takes the bias off, after which coverage holds nearly, as
            texts of both halves have taught the map.
        human: [N] the humans' means, NaN where nobody rated: such texts get intervals, and teach nothing.
        groups: [N] labels.
        scale: the ends of the humans' scale, which no interval leaves.
        spread: [N] > 0 how unsure the judge is of each text, such as its standard deviation; intervals are wider in
            proportion. None: all alike, before the scale cuts them.

    Raises:
        ValueError: a spread that is not above 0, or a level outside (0, 1).
    """
    scores, human = np.asarray(scores, dtype=np.float64), np.asarray(human, dtype=np.float64)
    unit = np.ones(len(scores)) if spread is None else np.asarray(spread, dtype=np.float64)
    asked = np.isfinite(scores)
    if not (unit[asked] > 0).all() or not 0 < level < 1:
        raise ValueError("spread must be above 0 wherever there is a score, and level between 0 and 1")
    known = asked & np.isfinite(human)
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    order = np.random.default_rng([seed, 2]).permutation(len(labels))
    order = order[np.argsort(~np.isin(order, group[known]), kind="stable")]  # rated groups are dealt first
    half = np.empty(len(labels), dtype=np.int64)
    half[order] = np.arange(len(labels)) % 2
    split = half[group]
    low, high = np.full(len(scores), np.nan), np.full(len(scores), np.nan)
    for one in (0, 1):
        taught, here = known & (split != one), asked & (split == one)
        margin = conformal_quantile(np.abs(human - scores)[taught] / unit[taught], group[taught], level)
        low[here] = np.clip(scores[here] - margin * unit[here], *scale)
        high[here] = np.clip(scores[here] + margin * unit[here], *scale)
    return TextIntervals(low, high, split)


def coverage_record(
    intervals: TextIntervals, human: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The coverage of intervals over rated texts: texts, groups; coverage, width (means with intervals); reason."""
    human = np.asarray(human, dtype=np.float64)
    known = np.isfinite(human) & np.isfinite(intervals.low)
    group, weights = numbered_groups(np.asarray(groups)[known], resamples, seed)
    record: dict[str, Any] = {"texts": int(known.sum()), "groups": weights.shape[1]}
    if not known.any():
        return record | unknown(("coverage", "width")) | {"reason": "No coverage: no rated text has an interval."}
    every, ends = np.ones(len(group), dtype=bool), interval_ends(weights.shape[1])
    low, high, said = (values[known] for values in (intervals.low, intervals.high, human))
    inside = 1.0 * ((low - _ROUNDING <= said) & (said <= high + _ROUNDING))
    for name, values in (("coverage", inside), ("width", high - low)):
        record |= with_interval(name, means(values, group, weights, every), ends)
    return record | {"reason": None}


def kept_risks(
    unsure: np.ndarray, loss: np.ndarray, group: np.ndarray, weights: np.ndarray, shares: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The risk-coverage curve in each row of weights [B, G]: texts [N] are kept from the surest on, and those equally
    sure come in any order, so that each counts their mean loss.

    Returns:
        area: [B] the mean over texts of the mean loss of those up to it; risks: [B, shares] the mean loss where so
        large a share of the texts is kept, by the first text that reaches it.
    """
    order = np.argsort(unsure, kind="stable")
    ranked, group, loss = unsure[order], group[order], loss[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    block = np.repeat(np.arange(len(starts)), np.diff([*starts, len(ranked)]))
    alike = bool((loss == loss[starts][block]).all())  # then a block's mean is its texts' own loss, in any resample
    area, risks = np.empty(len(weights)), np.empty((len(weights), len(shares)))
    step = max(1, MOST_ENTRIES // (4 * len(loss)))
    for start in range(0, len(weights), step):
        mass = weights[start : start + step, group]
        lost = mass * loss
        if not alike:
            mean = divided(np.add.reduceat(lost, starts, axis=1), np.add.reduceat(mass, starts, axis=1))
            lost = mass * np.nan_to_num(mean)[:, block]
        kept = mass.cumsum(axis=1)
        risk = lost.cumsum(axis=1) / np.maximum(kept, 1.0)
        area[start : start + step] = (mass * risk).sum(axis=1) / kept[:, -1]
        for column, share in enumerate(shares):
            at = (kept < share * kept[:, -1:] - _ROUNDING).sum(axis=1)
            risks[start : start + step, column] = risk[np.arange(len(risk)), at]
    return area, risks


SHARES = tuple(round(share / 10, 1) for share in range(1, 11))
"""Shares of texts kept at which `risk_record` tells the risk."""


def risk_record(
    unsure: np.ndarray,
    loss: np.ndarray,
    groups: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The risk-coverage curve: the mean loss of the texts that a judge keeps when a person gets those it is least sure
    of. El-Yaniv and Wiener, "On the Foundations of Noise-free Selective Classification" (2010).

    Args:
        unsure: [N] how unsure the judge is: less its top probability, its standard deviation, an interval's width. The
            texts to send to a person are those with the most.
        loss: [N] what its score costs, such as the distance from the humans' mean; NaN where it is not known.
        groups: [N] labels.

    Returns:
        texts, groups; risk: the mean loss of all; area: the mean of the curve, and area_best, that of a judge that
        knows its own loss; gain: the share of the way from `risk` to `area_best` that `area` goes, 0 for sending any
        texts, 1 for the best, below 0 for the wrong ones; all with intervals; curve: a record for each of `SHARES`
        (kept, risk with interval); reason.

    Raises:
        ValueError: other shapes.
    """
    unsure, loss = np.asarray(unsure, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    if unsure.ndim != 1 or not unsure.shape == loss.shape == np.shape(groups):
        raise ValueError("unsure, loss and groups must be vectors of one length")
    known = np.isfinite(unsure) & np.isfinite(loss)
    unsure, loss = unsure[known], loss[known]
    group, weights = numbered_groups(np.asarray(groups)[known], resamples, seed)
    record: dict[str, Any] = {"texts": len(loss), "groups": weights.shape[1]}
    names = ("risk", "area", "area_best", "gain")
    if not len(loss):
        return record | unknown(names) | {"curve": [], "reason": "No curve: no text has a loss."}
    ends = interval_ends(weights.shape[1])
    area, risks = kept_risks(unsure, loss, group, weights, SHARES)
    best = kept_risks(loss, loss, group, weights)[0]
    total = means(loss, group, weights, np.ones(len(loss), dtype=bool))
    gain = divided(total - area, np.where(total - best > _ROUNDING, total - best, 0.0))
    for name, values in zip(names, (total, area, best, gain), strict=True):
        record |= with_interval(name, values, ends)
    curve = [{"kept": share, **with_interval("risk", risks[:, k], ends)} for k, share in enumerate(SHARES)]
    reason = None if record["gain"] is not None else "No gain: all texts cost the same."
    return record | {"curve": curve, "reason": reason}
