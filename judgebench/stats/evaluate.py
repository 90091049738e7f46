"""From scores to the records of metrics.json.

A record per (split, dimension, range, attack, defense, judge, decoding, lambda, temperature) and level holds JSON's own
types, never NaN. Besides these keys:

- rule: `argmax` or `expectation`, what the decoding's scores are;
- n: pairs (dataset), groups (document), systems (system); groups: distinct groups;
- pearson, spearman, kendall, each with `_low` and `_high` of its 95 % percentile interval, groups resampled, which
  are None with fewer than two groups or without resamples; at system level they speak for these systems, and
  `_systems_low` and `_systems_high`, where systems are resampled as well, for systems like these (None at other
  levels, and with fewer than three systems); at document level `_varied`, the value without the groups whose
  humans do not differ (None at other levels);
- missing: a sentence that says why the three are None (nobody rated, one system), or why their intervals are
  (one group, too many systems); else None;
- constant, constant_groups, human_constant_groups: see `Correlated`;
- failed_share, clamped_share: of the answers; mean_score: failed ones included, at the minimum as scored;
- modal_score, modal_share: see `favorite`; bias_wasserstein, bias_kl, bias_shift: see `bias`, of what was
  rated;
- stability: see there; self_agreement: the mean Spearman of the judge with itself over pairs of ranges; both over the
  ranges in which this judge and decoding stand (None for one range); tuning may choose another lambda and temperature
  in each;
- flags: failure signatures, of `constant`, `constant humans`, `inverted` and `unstable`;
- where texts are compared what `comparative` returns, alike at all levels;
- where attack is not none, against the clean scores of the same cell: what `robustness` returns, alike at all
  levels, and of this level clean_spearman and spearman_change, with `_low` and `_high` of its paired interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from judgebench.config.fields import MetricSettings
from judgebench.stats.clusters import FEWEST, RESAMPLES, Clusters, percentile_interval, unknown, with_intervals
from judgebench.stats.correlation import CORRELATIONS, SPEARMAN, mean_pairwise_spearman, pearson
from judgebench.stats.levels import LEVELS, Correlated, correlate
from judgebench.stats.preferences import comparative
from judgebench.stats.robustness import against_clean
from judgebench.stats.scores import CLEAN, Cell, Scores, series_of
from judgebench.types import CLAMPED, FAILED, LABELS, RANGE, ScoreRange

CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE = "constant", "constant humans", "inverted", "unstable"
"""Failure signatures: the judge always says the same; the humans do; its Spearman interval lies wholly below 0; its
Spearman depends on the score range (see `stability`). The last two rest on resamples, and are not raised on fewer
than `FEWEST` groups, whose resamples say too little."""

SMOOTHING = 0.5
"""Added to every count before shares are taken for `bias_kl`: a score that was never given is rare, not impossible."""

UNSTABLE_ABOVE = 0.05
"""A standard deviation of Spearman over ranges that is worth a flag: about that of the CD paper's own example, Llama
3.1 8B on coherence (0.367, 0.338, 0.257, 0.372: 0.053)."""

_TIE = 1e-9  # means of experts and steps of a range carry rounding errors; a tie must stay a tie
_NOISE = 0.95  # the quantile of what sampling alone brings about


def evaluate(
    scores: Scores | Mapping[str, Any],
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    scale: Mapping[str, tuple[float, float] | None] | None = None,
    rules: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Agreement of each judge under each condition with the humans: a record per cell, in the order in which these
    appear, and level; see above.

    Args:
        levels, resamples, seed: see `MetricSettings`; records over the same groups are resampled alike.
        scale: dimension -> lowest and highest score that a human can give; without it bias is None.
        rules: name of a decoding -> its `rule`, put into its records.
    """
    check_metric_settings(levels, resamples, seed)
    table = Scores.of(scores)
    # 1. each cell by itself; texts that nobody rated count in the shares and the mean alone
    parts = {cell: table.part(cell) for cell in table.cells}
    correlated: dict[tuple[Cell, str], Correlated] = {}
    described: dict[Cell, dict[str, Any]] = {}
    for cell, part in parts.items():
        rated, score, status = np.isfinite(part["human"]), part["score"], part["status"]
        judge, human, groups, systems = (part[name][rated] for name in ("score", "human", "group_id", "system_id"))
        clusters = Clusters.of(groups, resamples, seed)
        for level in levels:
            correlated[cell, level] = correlate(level, judge, human, clusters, systems)
        shares = {"failed_share": float((status == FAILED).mean()), "clamped_share": float((status == CLAMPED).mean())}
        described[cell] = shares | {"mean_score": float(score.mean())} | favorite(score, cell.range)
        described[cell] |= bias(judge, human, cell.range, (scale or {}).get(cell.dimension))
        if table.compares:
            pairs = Clusters.of(part["group_id"], resamples, seed)
            described[cell] |= comparative(part["score_first"], part["score_second"], part["human"], pairs)
    # 2. each judge over its ranges
    records: dict[tuple[Cell, str], dict[str, Any]] = {}
    for ranges in series_of(table.cells).values():
        cells = list(ranges.values())
        by_range = (pd.Series(parts[cell]["score"], parts[cell]["example_id"]) for cell in cells)
        agreement = mean_pairwise_spearman(pd.concat(by_range, axis=1).to_numpy())
        for level in levels:
            values = [correlated[cell, level].values for cell in cells if correlated[cell, level].known]
            spread, unstable = stability(values)
            for cell in cells:
                head = {"dataset": dataset, "split": cell.split, "level": level} | cell.named
                head |= {"rule": (rules or {}).get(cell.decoding)}
                record = head | _of_level(correlated[cell, level]) | described[cell]
                record |= {"stability": spread, "self_agreement": agreement}
                record["flags"] = _flags(correlated[cell, level], record["spearman_high"], unstable)
                records[cell, level] = record
    # 3. attacked texts against the clean ones
    for cell in (cell for cell in table.cells if cell.attack != CLEAN):
        changes = against_clean(cell, parts, correlated, levels, resamples, seed)
        for level, changed in zip(levels, changes, strict=True):
            records[cell, level] |= changed
    return [records[cell, level] for cell in table.cells for level in levels]


def check_metric_settings(levels: Sequence[str], resamples: int, seed: int) -> None:
    """Raises `UserError` for settings that are no `MetricSettings`."""
    # numbers of numpy are taken from who calls from Python
    numbers = (int(value) if isinstance(value, np.integer) else value for value in (resamples, seed))
    MetricSettings(levels, *numbers)


def _of_level(measured: Correlated) -> dict[str, Any]:
    """The part of a record that differs from level to level."""
    record: dict[str, Any] = {"n": measured.n, "groups": measured.groups}
    record |= (
        with_intervals(dict(zip(CORRELATIONS, measured.values, strict=True)))
        if measured.known
        else unknown(CORRELATIONS)
    )
    names = ("constant", "constant_groups", "human_constant_groups", "missing")
    record |= {name: getattr(measured, name) for name in names}
    for name, values, k in zip(CORRELATIONS, measured.over_systems, range(3), strict=True):
        record[f"{name}_varied"] = None if measured.varied is None else float(measured.varied[k])
        low, high = percentile_interval(values[~np.isnan(values)]) or (None, None)
        record |= {f"{name}_systems_low": low, f"{name}_systems_high": high}
    return record


def _flags(measured: Correlated, spearman_high: float | None, unstable: bool) -> list[str]:
    """The failure signatures that are raised."""
    enough = measured.groups >= FEWEST
    flags = {
        CONSTANT: measured.constant,
        CONSTANT_HUMANS: measured.constant_humans,
        INVERTED: enough and spearman_high is not None and spearman_high < 0,
        UNSTABLE: enough and unstable and measured.known,
    }
    return [flag for flag, holds in flags.items() if holds]


# --- bias of a judge, stability over ranges, likeness to its assistant ------------------------------------------------


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
