"""From scores to the records of metrics.json.

A record per (split, dimension, range, attack, defense, judge, decoding, lambda, temperature) and level holds JSON's own
types, never NaN. Besides these keys:

- rule: `argmax` or `expectation`, what the decoding's scores are;
- n: pairs (dataset), groups (document), systems (system); groups: distinct groups;
- pearson, spearman, kendall, each with `_low` and `_high` of its 95 % percentile interval, `_bca_low` and
  `_bca_high` of its BCa interval, groups resampled; these are None with fewer than two groups or without
  resamples; at system level they speak for these systems, and `_systems_low` and `_systems_high`, where systems
  are resampled as well, for systems like these (None at other levels, and with fewer than three systems); at
  document level `_varied`, the value without the groups whose humans do not differ (None at other levels);
- missing: a sentence that says why the three are None (nobody rated, one system), or why their intervals are
  (one group, too many systems); else None;
- constant, constant_groups, human_constant_groups: see `Correlated`;
- failed_share, clamped_share: of the answers; mean_score: failed ones included, at the minimum as scored;
- modal_score, modal_share: see `favorite`; bias_wasserstein, bias_kl, bias_shift: see `bias`, of what was
  rated;
- stability, self_agreement: see there, over the ranges in which this judge and decoding stand (None for one
  range); tuning may set lambda and temperature anew in each;
- flags: failure signatures, of `constant`, `constant humans`, `inverted` and `unstable`;
- where texts are compared what `comparative` returns, alike at all levels;
- where attack is not none, against the clean scores of the same cell: what `robustness` returns, alike at all
  levels, and of this level clean_spearman and spearman_change, with `_low` and `_high` of its paired interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.config.fields import MetricSettings
from judgebench.metrics.bias import bias, favorite, is_unstable, self_agreement, stability
from judgebench.metrics.cells import COMPARED, Cell, cells, checked, series_of
from judgebench.metrics.levels import LEVELS, Correlated, correlate
from judgebench.metrics.preference import comparative
from judgebench.metrics.resampling import FEWEST, RESAMPLES
from judgebench.metrics.robustness import CLEAN, against_clean
from judgebench.stats.correlation import CORRELATIONS
from judgebench.types import CLAMPED, FAILED

CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE = "constant", "constant humans", "inverted", "unstable"
"""Failure signatures: the judge always says the same; the humans do; its Spearman interval lies wholly below 0; its
Spearman depends on the score range (see `is_unstable`). The last two rest on resamples, and are not raised on fewer
than `FEWEST` groups, whose resamples tell too little."""

_USED = ("example_id", "group_id", "system_id", "score", "status", "human")


def evaluate(
    scores: Mapping[str, np.ndarray],
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    scale: Mapping[str, tuple[float, float] | None] | None = None,
    rules: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Agreement of each judge under each condition with the humans.

    Args:
        scores: `cells.COLUMNS` [rows], one row per example, condition, judge and decoding. lambda and temperature are
            None or NaN where a decoding has none; human is None or NaN where nobody rated, and such a row counts in the
            shares and the mean alone. Where texts are compared, also `cells.COMPARED`.
        dataset: its name, put into each record.
        levels, resamples, seed: see `check_metric_settings`; records over the same groups are resampled alike.
        scale: dimension -> lowest and highest score that a human can give; without it bias is None.
        rules: name of a decoding -> its `rule`, put into its records.

    Returns:
        A record per cell, in the order in which these appear, and level; see above.

    Raises:
        ValueError: a column missing or of another length, a score that is not finite, or an example twice in one cell.
        UserError: settings that `check_metric_settings` refuses.
    """
    check_metric_settings(levels, resamples, seed)
    columns = checked(scores)
    used = [*_USED, *(name for name in COMPARED if name in columns)]
    rows_of = cells(columns)
    parts = {cell: {name: columns[name][rows] for name in used} for cell, rows in rows_of.items()}
    described = {cell: _described(cell, part, scale, resamples, seed) for cell, part in parts.items()}
    correlated = {}
    for cell, part in parts.items():
        rated = np.isfinite(part["human"])
        judge, human, groups, systems = (part[name][rated] for name in ("score", "human", "group_id", "system_id"))
        for level in levels:
            correlated[cell, level] = correlate(level, judge, human, groups, systems, resamples=resamples, seed=seed)
    records: dict[tuple[Cell, str], dict[str, Any]] = {}
    for ranges in series_of(rows_of).values():
        series = list(ranges.values())
        agreement = self_agreement([dict(zip(parts[c]["example_id"], parts[c]["score"], strict=True)) for c in series])
        for level in levels:
            known = [correlated[cell, level] for cell in series if correlated[cell, level].known]
            over = {"stability": stability(known), "self_agreement": agreement}
            unstable = is_unstable(known)
            for cell in series:
                found = correlated[cell, level]
                head = {"dataset": dataset, "split": cell.split, "level": level}
                named = cell.named | {"rule": (rules or {}).get(cell.decoding)}
                record = head | named | _measured(found) | described[cell] | over
                record["flags"] = _flags(record, found.constant_humans, unstable and found.known)
                records[cell, level] = record
    for cell in (cell for cell in rows_of if cell.attack != CLEAN):
        changes = against_clean(cell, parts, correlated, levels, resamples, seed)
        for level, changed in zip(levels, changes, strict=True):
            records[cell, level] |= changed
    return [records[cell, level] for cell in rows_of for level in levels]


def check_metric_settings(levels: Sequence[str], resamples: int, seed: int) -> None:
    """Raises `UserError` for settings that are no `MetricSettings`."""
    # numbers of numpy are taken from who calls from Python
    numbers = (int(value) if isinstance(value, np.integer) else value for value in (resamples, seed))
    MetricSettings(levels, *numbers)


def _measured(found: Correlated) -> dict[str, Any]:
    record: dict[str, Any] = {"n": found.n, "groups": found.groups}
    intervals, bca_intervals, over_systems = found.intervals(), found.bca_intervals(), found.over_systems_intervals()
    for k, name in enumerate(CORRELATIONS):
        record[name] = float(found.values[k]) if found.known else None
        record |= _ends(name, intervals[k]) | _ends(f"{name}_bca", bca_intervals[k])
    record |= {"constant": found.constant, "constant_groups": found.constant_groups}
    record |= {"human_constant_groups": found.human_constant_groups, "missing": found.missing}
    for k, name in enumerate(CORRELATIONS):
        record[f"{name}_varied"] = None if found.varied is None else float(found.varied[k])
        record |= _ends(f"{name}_systems", over_systems[k])
    return record


def _ends(name: str, interval: tuple[float, float] | None) -> dict[str, float | None]:
    return dict(zip((f"{name}_low", f"{name}_high"), interval or (None, None), strict=True))


def _described(
    cell: Cell,
    part: Mapping[str, np.ndarray],
    scale: Mapping[str, tuple[float, float] | None] | None,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """The part of a record that is alike at all levels."""
    score_range, rated = cell.range, np.isfinite(part["human"])
    ends = (scale or {}).get(cell.dimension)
    record = {
        "failed_share": float((part["status"] == FAILED).mean()),
        "clamped_share": float((part["status"] == CLAMPED).mean()),
        "mean_score": float(part["score"].mean()),
        **favorite(part["score"], score_range),
        **bias(part["score"][rated], part["human"][rated], score_range, ends),
    }
    if "score_first" in part:
        first, second, human, groups = (part[name] for name in ("score_first", "score_second", "human", "group_id"))
        record |= comparative(first, second, human, groups, resamples, seed)
    return record


def _flags(record: Mapping[str, Any], constant_humans: bool, unstable: bool) -> list[str]:
    enough = record["groups"] >= FEWEST
    inverted = enough and record["spearman_high"] is not None and record["spearman_high"] < 0
    signatures = (
        (CONSTANT, record["constant"]),
        (CONSTANT_HUMANS, constant_humans),
        (INVERTED, inverted),
        (UNSTABLE, enough and unstable),
    )
    return [flag for flag, holds in signatures if holds]
