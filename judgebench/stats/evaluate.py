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

from judgebench.config.fields import MetricSettings
from judgebench.stats.bias import bias, favorite, stability
from judgebench.stats.clusters import FEWEST, RESAMPLES, Clusters, percentile_interval, unknown, with_intervals
from judgebench.stats.correlation import CORRELATIONS, mean_pairwise_spearman
from judgebench.stats.levels import LEVELS, Correlated, correlate
from judgebench.stats.preferences import comparative
from judgebench.stats.robustness import against_clean
from judgebench.stats.scores import CLEAN, Cell, Scores, series_of
from judgebench.types import CLAMPED, FAILED

CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE = "constant", "constant humans", "inverted", "unstable"
"""Failure signatures: the judge always says the same; the humans do; its Spearman interval lies wholly below 0; its
Spearman depends on the score range (see `stability`). The last two rest on resamples, and are not raised on fewer
than `FEWEST` groups, whose resamples say too little."""


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
