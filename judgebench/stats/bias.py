"""Diagnostics of a judge: its bias, its stability over ranges, its likeness to its assistant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from judgebench.stats.correlation import SPEARMAN, pearson
from judgebench.types import LABELS, RANGE, ScoreRange

if TYPE_CHECKING:
    import pandas as pd

SMOOTHING = 0.5
"""Added to every count before `kl_divergence` takes shares: a score that was never given is rare, not impossible."""

UNSTABLE_ABOVE = 0.05
"""A standard deviation of Spearman over ranges that is worth a flag: about that of the CD paper's own example, Llama
3.1 8B on coherence (0.367, 0.338, 0.257, 0.372: 0.053)."""

_TIE = 1e-9  # means of experts and steps of a range carry rounding errors; a tie must stay a tie
_NOISE = 0.95  # the quantile of what sampling alone brings about


def mapped(human: np.ndarray, scale: tuple[float, float], score_range: ScoreRange) -> np.ndarray | None:
    """Human scores [n], mapped linearly from the data's scale to the range; None where the scale has no length.

    Example:
        >>> mapped(np.array([1, 2.5, 5]), (1, 5), ScoreRange(0, 4)).tolist()
        [0.0, 1.5, 4.0]
    """
    low, high = scale
    if not low < high:
        return None
    share = (np.asarray(human, dtype=np.float64) - low) / (high - low)
    return score_range.minimum + share * (score_range.maximum - score_range.minimum)


def candidate_index(values: np.ndarray, score_range: ScoreRange) -> np.ndarray:
    """[n] int64 the position of the candidate nearest to each value; half up, never outside.

    Example:
        >>> candidate_index(np.array([1, 2.5, 9]), ScoreRange(1, 5)).tolist()
        [0, 2, 4]
    """
    steps = (np.asarray(values, dtype=np.float64) - score_range.minimum) / score_range.step
    nearest = np.floor(steps + 0.5 + _TIE).astype(np.int64)
    return np.clip(nearest, 0, len(score_range.values) - 1)


def histogram(values: np.ndarray, score_range: ScoreRange) -> np.ndarray:
    """[candidates] int64 how many of the values [n] lie nearest to each candidate."""
    return np.bincount(candidate_index(values, score_range), minlength=len(score_range.values))


def bias(
    judge: np.ndarray, human: np.ndarray, score_range: ScoreRange, scale: tuple[float, float] | None
) -> dict[str, float | None]:
    """Distance of the judge's scores [n] as a whole from the humans' [n] on a scale with these ends, mapped linearly to
    the range; None without a scale of some length, or without a rating.

    Returns:
        bias_wasserstein: the Wasserstein-1 distance, the mean distance of the sorted scores, as a share of the range.
        bias_kl: KL(humans || judge) in nats of the histograms over the candidates, smoothed by `SMOOTHING`.
        bias_shift: the judge's mean less the humans', as a share of the range.

    Example:
        >>> record = bias(np.array([4.0, 4.0, 5.0]), np.array([1.0, 2.0, 5.0]), ScoreRange(1, 5), (1, 5))
        >>> [round(value, 3) for value in record.values()]  # 3 + 2 + 0 points of distance over 3 texts and 4 points
        [0.417, 0.453, 0.417]
    """
    target = mapped(human, scale, score_range) if scale is not None and len(human) else None
    if target is None:
        return {"bias_wasserstein": None, "bias_kl": None, "bias_shift": None}
    width = score_range.maximum - score_range.minimum
    p, q = (histogram(values, score_range) + SMOOTHING for values in (target, judge))
    return {
        "bias_wasserstein": float(np.abs(np.sort(judge) - np.sort(target)).mean() / width),
        "bias_kl": float(special.rel_entr(p / p.sum(), q / q.sum()).sum()),
        "bias_shift": float((judge.mean() - target.mean()) / width),
    }


def favorite(judge: np.ndarray, score_range: ScoreRange) -> dict[str, float]:
    """modal_score: the candidate that most scores [n >= 1] lie nearest to, the lowest of equals; modal_share: their
    share."""
    counts = histogram(judge, score_range)
    return {"modal_score": score_range.values[int(counts.argmax())], "modal_share": float(counts.max() / len(judge))}


def stability(correlations: Sequence[np.ndarray]) -> tuple[float | None, bool]:
    """The standard deviation (n - 1 in the denominator) of a judge's Spearman over ranges, each [3, 1 + B] as in
    `Correlated.values`, None for a single range; and whether Spearman depends on the range: it is above
    `UNSTABLE_ABOVE`, and beyond what noise explains.

    Sampling noise is the standard deviation over ranges of what a resample adds to each range's own mean; the articles
    are resampled jointly, so that an easy article, easy in every range, is no instability. The deviation must exceed
    what 95 % of the resamples show. Without resamples nothing is unstable.
    """
    if len(correlations) < 2:
        return None, False
    spread = float(np.std([in_range[SPEARMAN, 0] for in_range in correlations], ddof=1))
    if spread <= UNSTABLE_ABOVE or any(in_range.shape[1] == 1 for in_range in correlations):
        return spread, False
    resampled = np.stack([in_range[SPEARMAN, 1:] for in_range in correlations])
    noise = (resampled - resampled.mean(axis=1, keepdims=True)).std(axis=0, ddof=1)
    return spread, bool(spread > np.quantile(noise, _NOISE))


def family_records(readings: pd.DataFrame) -> list[dict[str, Any]]:
    """Likeness of main model and assistant under each condition: what contrasting them can take away.

    Args:
        readings: readings.parquet, one row per example and condition.

    Returns:
        A record per split, dimension, range, attack and defense, in order of appearance, with these keys and: n
        (examples); logprob_correlation, Pearson's r over candidates of the two models' mean log-probabilities (None
        with fewer than two candidates that both find possible); mode_agreement, the share of examples with the same
        most likely candidate, the first of equals; main_mode and assistant_mode, the candidate that is most often the
        most likely one, the lowest of equals; main_mode_share, assistant_mode_share. JSON's own types, never NaN.
        Readings without log-probabilities of both models give none.
    """
    columns = ["main_logprobs", "assistant_logprobs"]
    keys = ["split", "dimension", *RANGE, "attack", "defense", *([LABELS] if LABELS in readings else [])]
    records = []
    for key, part in readings.dropna(subset=columns).groupby(keys, sort=False, dropna=False):
        record: dict[str, Any] = dict(zip(keys, key, strict=True))
        if not isinstance(record.get(LABELS, "-"), str) or not record.get(LABELS, "-"):
            del record[LABELS]
        main, assistant = (np.array(part[name].tolist(), dtype=np.float64) for name in columns)
        # which candidates each finds likely, on the whole and text by text
        means, modes = (main.mean(axis=0), assistant.mean(axis=0)), (main.argmax(axis=1), assistant.argmax(axis=1))
        possible = np.isfinite(means[0]) & np.isfinite(means[1])
        record |= {"n": len(part), "logprob_correlation": None}
        if possible.sum() > 1:
            record["logprob_correlation"] = pearson(means[0][possible], means[1][possible])
        record["mode_agreement"] = float((modes[0] == modes[1]).mean())
        for name, mode in zip(("main", "assistant"), modes, strict=True):
            counts = np.bincount(mode)
            record[f"{name}_mode"] = str(part["candidates"].iloc[0][int(counts.argmax())])
            record[f"{name}_mode_share"] = float(counts.max() / len(part))
        records.append(record)
    return records
