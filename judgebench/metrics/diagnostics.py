"""What is wrong with a judge, in numbers: its bias, its stability over ranges, its likeness to its assistant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.metrics.agreement import mean_pairwise_spearman
from judgebench.metrics.correlation import CORRELATIONS, pearson
from judgebench.metrics.histogram import kl_divergence, mapped, mode, wasserstein
from judgebench.metrics.intervals import Resampled
from judgebench.types import ScoreRange

UNSTABLE_ABOVE = 0.05
"""A standard deviation of Spearman over ranges that is worth a flag: about that of the CD paper's own example, Llama
3.1 8B on coherence (0.367, 0.338, 0.257, 0.372: 0.053)."""

_SPEARMAN = CORRELATIONS.index("spearman")
_NOISE = 0.95  # the quantile of what sampling alone brings about


def bias(
    judge: np.ndarray, human: np.ndarray, score_range: ScoreRange, scale: tuple[float, float] | None
) -> dict[str, float | None]:
    """How far the judge's scores as a whole lie from the humans', whatever their order.

    The humans are mapped linearly to the range. For `bias_kl` both are rounded half up to the nearest candidate.

    Args:
        judge: [n] scores in the range.
        human: [n] on the data's own scale.
        scale: its ends.

    Returns:
        bias_wasserstein: `wasserstein` of the two; bias_kl: `kl_divergence` of the judge's from the humans';
        bias_shift: the judge's mean less the humans', as a share of the range, above 0 where the judge scores too high.
        None without a scale of some length, or without a rating.
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
    """modal_score: the candidate that most scores [n >= 1] lie nearest to; modal_share: their share."""
    score, share = mode(judge, score_range)
    return {"modal_score": score, "modal_share": share}


def stability(found: Sequence[Resampled]) -> float | None:
    """The standard deviation (n - 1 in the denominator) over ranges of a judge's Spearman; None for a single range."""
    values = [one.values[_SPEARMAN] for one in found]
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def is_unstable(found: Sequence[Resampled]) -> bool:
    """Whether Spearman depends on the range: `stability` above `UNSTABLE_ABOVE`, and more than sampling noise explains.

    Sampling noise is the standard deviation over ranges of what a resample adds to each range's own mean; the articles
    are resampled jointly, so that an easy article, easy in every range, is no instability. `stability` must exceed what
    95 % of the resamples show. Without resamples nothing is flagged.

    Args:
        found: the correlations in each range, over the same groups and resamples.
    """
    spread = stability(found)
    if spread is None or spread <= UNSTABLE_ABOVE or not all(one.resampled.shape[1] for one in found):
        return False
    resampled = np.stack([one.resampled[_SPEARMAN] for one in found])
    noise = (resampled - resampled.mean(axis=1, keepdims=True)).std(axis=0, ddof=1)
    return bool(spread > np.quantile(noise, _NOISE))


def self_agreement(scores: Sequence[Mapping[str, float]]) -> float | None:
    """How far a judge ranks the same texts alike whatever the range: the mean Spearman over pairs of ranges.

    Args:
        scores: example_id -> score, for each range.

    Returns:
        The mean, a constant range counting 0.0; None with a single range.
    """
    examples = {name: row for row, name in enumerate(dict.fromkeys(name for given in scores for name in given))}
    table = np.full((len(examples), len(scores)), np.nan)
    for column, given in enumerate(scores):
        table[[examples[name] for name in given], column] = list(given.values())
    return mean_pairwise_spearman(table)


def family_similarity(main: np.ndarray, assistant: np.ndarray) -> dict[str, float | None]:
    """How alike main model and assistant are in what they prefer to say: what contrasting them can take away.

    Args:
        main, assistant: [N, K] log-probabilities of the candidates.

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


_CONDITION = ("split", "dimension", "range_min", "range_max", "range_step", "attack", "defense")


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
    cells: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(readings[name] for name in _CONDITION), strict=True)):
        if readings["main_logprobs"][row] is not None and readings["assistant_logprobs"][row] is not None:
            cells.setdefault(key, []).append(row)
    records = []
    for key, rows in cells.items():
        main, assistant = (
            np.array([list(readings[name][row]) for row in rows], dtype=np.float64)
            for name in ("main_logprobs", "assistant_logprobs")
        )
        record = dict(zip(_CONDITION, (_json(value) for value in key), strict=True)) | {"n": len(rows)}
        record |= family_similarity(main, assistant)
        candidates = [str(text) for text in readings["candidates"][rows[0]]]
        for name, logprobs in (("main", main), ("assistant", assistant)):
            counts = np.bincount(logprobs.argmax(axis=1), minlength=len(candidates))
            record |= {f"{name}_mode": candidates[int(counts.argmax())]}
            record |= {f"{name}_mode_share": float(counts.max() / len(rows))}
        records.append(record)
    return records


def _json(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
