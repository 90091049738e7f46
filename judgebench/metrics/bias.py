"""Diagnostics of a judge: its bias, its stability over ranges, its likeness to its assistant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from judgebench.metrics.resampling import Resampled
from judgebench.stats.correlation import CORRELATIONS, mean_pairwise_spearman, pearson
from judgebench.types import LABELS, RANGE, ScoreRange

SMOOTHING = 0.5
"""Added to every count before `kl_divergence` takes shares: a score that was never given is rare, not impossible."""

_TIE = 1e-9  # means of experts and steps of a range carry rounding errors; a tie must stay a tie


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


def wasserstein(first: np.ndarray, second: np.ndarray, score_range: ScoreRange) -> float:
    """The Wasserstein-1 distance of two samples of one size [n], normalized by the range to [0, 1]: the mean distance
    of their sorted values."""
    width = score_range.maximum - score_range.minimum
    return float(np.abs(np.sort(first) - np.sort(second)).mean() / width)


def kl_divergence(first: np.ndarray, second: np.ndarray, score_range: ScoreRange) -> float:
    """KL(first || second) in nats of two samples' histograms over the candidates, smoothed by `SMOOTHING`."""
    p, q = (histogram(values, score_range) + SMOOTHING for values in (first, second))
    return float(special.rel_entr(p / p.sum(), q / q.sum()).sum())


UNSTABLE_ABOVE = 0.05
"""A standard deviation of Spearman over ranges that is worth a flag: about that of the CD paper's own example, Llama
3.1 8B on coherence (0.367, 0.338, 0.257, 0.372: 0.053)."""

_SPEARMAN = CORRELATIONS.index("spearman")
_NOISE = 0.95  # the quantile of what sampling alone brings about


def bias(
    judge: np.ndarray, human: np.ndarray, score_range: ScoreRange, scale: tuple[float, float] | None
) -> dict[str, float | None]:
    """Distance of the judge's scores [n] as a whole from the humans' [n] on a scale with these ends, mapped linearly to
    the range.

    Returns:
        bias_wasserstein: `wasserstein` of the two; bias_kl: `kl_divergence` of the judge's from the humans';
            bias_shift: the judge's mean less the humans', as a share of the range. None without a scale of some length,
            or without a rating.
    """
    target = mapped(human, scale, score_range) if scale is not None and len(human) else None
    if target is None:
        return {"bias_wasserstein": None, "bias_kl": None, "bias_shift": None}
    return {
        "bias_wasserstein": wasserstein(judge, target, score_range),
        "bias_kl": kl_divergence(target, judge, score_range),
        "bias_shift": float((judge.mean() - target.mean()) / (score_range.maximum - score_range.minimum)),
    }


def favorite(judge: np.ndarray, score_range: ScoreRange) -> dict[str, float]:
    """modal_score: the candidate that most scores [n >= 1] lie nearest to, the lowest of equals; modal_share: their
    share."""
    counts = histogram(judge, score_range)
    return {"modal_score": score_range.values[int(counts.argmax())], "modal_share": float(counts.max() / len(judge))}


def stability(correlations: Sequence[Resampled]) -> float | None:
    """The standard deviation (n - 1 in the denominator) over ranges of a judge's Spearman; None for a single range."""
    values = [in_range.values[_SPEARMAN] for in_range in correlations]
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def is_unstable(correlations: Sequence[Resampled]) -> bool:
    """True where Spearman depends on the range: `stability` above `UNSTABLE_ABOVE`, and beyond what noise explains.

    Sampling noise is the standard deviation over ranges of what a resample adds to each range's own mean; the articles
    are resampled jointly, so that an easy article, easy in every range, is no instability. `stability` must exceed what
    95 % of the resamples show. Without resamples nothing is flagged.
    """
    spread = stability(correlations)
    if spread is None or spread <= UNSTABLE_ABOVE or not all(each.resampled.shape[1] for each in correlations):
        return False
    resampled = np.stack([each.resampled[_SPEARMAN] for each in correlations])
    noise = (resampled - resampled.mean(axis=1, keepdims=True)).std(axis=0, ddof=1)
    return bool(spread > np.quantile(noise, _NOISE))


def self_agreement(scores: Sequence[Mapping[str, float]]) -> float | None:
    """Agreement of a judge with itself, the mean Spearman over pairs of ranges (see `mean_pairwise_spearman`), from
    example_id -> score of each range."""
    examples = {name: row for row, name in enumerate(dict.fromkeys(name for given in scores for name in given))}
    table = np.full((len(examples), len(scores)), np.nan)
    for column, given in enumerate(scores):
        table[[examples[name] for name in given], column] = list(given.values())
    return mean_pairwise_spearman(table)


def family_similarity(main: np.ndarray, assistant: np.ndarray) -> dict[str, float | None]:
    """Likeness of main model and assistant, by log-probabilities [N, K] of the candidates: what contrasting them can
    take away.

    Returns:
        logprob_correlation: Pearson's r over candidates of the two models' mean log-probabilities (None with fewer than
            two candidates that both find possible); mode_agreement: the share of examples with the same most likely
            candidate, the first of equals.
    """
    means = [np.asarray(side, dtype=np.float64).mean(axis=0) for side in (main, assistant)]
    possible = np.isfinite(means[0]) & np.isfinite(means[1])
    modes = [np.asarray(side).argmax(axis=1) for side in (main, assistant)]
    return {
        "logprob_correlation": pearson(means[0][possible], means[1][possible]) if possible.sum() > 1 else None,
        "mode_agreement": float((modes[0] == modes[1]).mean()),
    }


_CONDITION = ("split", "dimension", *RANGE, "attack", "defense")


def family_records(readings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """`family_similarity` under each condition of a run that has read an assistant.

    Args:
        readings: columns of readings.parquet, one row per example and condition: split, dimension, range_min,
            range_max, range_step, attack, defense, candidates, main_logprobs, assistant_logprobs.

    Returns:
        A record per split, dimension, range, attack and defense, in order of appearance, with these keys and: n
        (examples), logprob_correlation, mode_agreement, main_mode and assistant_mode (the candidate that is most often
        the most likely one, the lowest of equals), main_mode_share, assistant_mode_share. JSON's own types, never NaN.
        Readings without log-probabilities of both models give none.
    """
    keys = [*_CONDITION, *([LABELS] if LABELS in readings else [])]
    cells: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(readings[name] for name in keys), strict=True)):
        if readings["main_logprobs"][row] is not None and readings["assistant_logprobs"][row] is not None:
            cells.setdefault(key, []).append(row)
    records = []
    for key, rows in cells.items():
        main, assistant = (
            np.array([list(readings[name][row]) for row in rows], dtype=np.float64)
            for name in ("main_logprobs", "assistant_logprobs")
        )
        plain = (value.item() if isinstance(value, np.generic) else value for value in key)
        record = dict(zip(keys, plain, strict=True)) | {"n": len(rows)}
        if not record.get(LABELS, True):
            del record[LABELS]
        record |= family_similarity(main, assistant)
        candidates = [str(text) for text in readings["candidates"][rows[0]]]
        for name, logprobs in (("main", main), ("assistant", assistant)):
            counts = np.bincount(logprobs.argmax(axis=1), minlength=len(candidates))
            record |= {f"{name}_mode": candidates[int(counts.argmax())]}
            record |= {f"{name}_mode_share": float(counts.max() / len(rows))}
        records.append(record)
    return records
