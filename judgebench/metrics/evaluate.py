"""From scores to the records of metrics.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from judgebench.errors import UserError
from judgebench.metrics.bootstrap import RESAMPLES
from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.levels import LEVELS, Correlated, correlate
from judgebench.types import CLAMPED, FAILED

CONSTANT, CONSTANT_HUMANS, INVERTED = "constant", "constant humans", "inverted"
"""Failure signatures: the judge always says the same; the humans do; its Spearman interval lies wholly below 0."""

MOST_RESAMPLES = 100_000
"""More would move no third digit of an interval, and fill the memory."""

_CELL = (
    *("split", "dimension", "range_min", "range_max", "range_step", "attack", "defense"),
    *("judge", "decoding", "lambda", "temperature"),
)
_COLUMNS = (*_CELL, "example_id", "group_id", "system_id", "score", "status", "human")


def evaluate(
    scores: Mapping[str, np.ndarray],
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """How well each judge under each condition agrees with the humans.

    Args:
        scores: columns [rows], one row per example, condition, judge and decoding: example_id, group_id,
            system_id, split, dimension, range_min, range_max, range_step, attack, defense, judge, decoding, lambda,
            temperature, score, status, human. lambda and temperature are None or NaN where a decoding has none; human
            is None or NaN where nobody rated, and such a row counts in the shares and the mean alone.
        dataset: its name, put into each record.
        levels, resamples, seed: see `check_settings`; records over the same groups are resampled alike.

    Returns:
        A record per (split, dimension, range, attack, defense, judge, decoding, lambda, temperature), in the order in
        which these appear, and level: JSON's own types, never NaN. Besides these keys:

        - n: pairs (dataset), groups (document), systems (system); groups: distinct groups;
        - pearson, spearman, kendall, each with `_low` and `_high` of its 95 % interval; the interval is None with fewer
          than two groups or without resamples, all are None where nobody rated;
        - constant, constant_groups: see `Correlated`;
        - failed_share, clamped_share: of the answers; mean_score: failed ones included, at the minimum as scored;
        - flags: failure signatures, of `constant`, `constant humans` and `inverted`.

    Raises:
        ValueError: a column missing or of another length, a score that is not finite, or an example twice in one cell.
        UserError: settings that `check_settings` refuses.
    """
    check_settings(levels, resamples, seed)
    columns = _checked(scores)
    records = []
    for cell, rows in _cells(columns).items():
        part = {
            name: columns[name][rows] for name in ("example_id", "group_id", "system_id", "score", "status", "human")
        }
        named = dict(zip(_CELL, cell, strict=True))
        if len(set(part["example_id"].tolist())) < len(rows):
            raise ValueError(f"scores: an example appears twice under {named}")
        rated = np.isfinite(part["human"])
        judge, human, groups, systems = (part[name][rated] for name in ("score", "human", "group_id", "system_id"))
        described = _described(part)
        for level in levels:
            found = correlate(level, judge, human, groups, systems, resamples=resamples, seed=seed)
            head = {"dataset": dataset, "split": named["split"], "level": level}
            record = head | named | _measured(found) | described
            records.append(record | {"flags": _flags(record, bool(found.constant_humans and found.n))})
    return records


def check_settings(levels: Sequence[str], resamples: int, seed: int) -> None:
    """Refuses what `evaluate` cannot work with; to be asked before anything is read.

    Args:
        levels: at least one of `LEVELS`, none twice.
        resamples: of the groups, behind each 95 % interval: 0 (no intervals) to `MOST_RESAMPLES`.
        seed: of the resampling, a whole number >= 0.

    Raises:
        UserError: anything else, named by its config key.
    """
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
        raise UserError(f"metrics.levels: {levels!r} is not a list with at least one of {', '.join(LEVELS)}.")
    for position, level in enumerate(levels):
        if level not in LEVELS:
            raise UserError(f"metrics.levels: {level!r} is not one of {', '.join(LEVELS)}.")
        if level in levels[:position]:
            raise UserError(f"metrics.levels: {level!r} stands there twice; name each level once.")
    for name, value in (("resamples", resamples), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
            raise UserError(f"metrics.{name}: {value!r} is not a whole number of at least 0.")
    if resamples > MOST_RESAMPLES:
        raise UserError(
            f"metrics.resamples: {resamples} is more than {MOST_RESAMPLES}, beyond which intervals gain nothing; "
            f"1000 is usual, 10000 is plenty."
        )


def _measured(found: Correlated) -> dict[str, Any]:
    record: dict[str, Any] = {"n": found.n, "groups": found.groups}
    for name, value, ends in zip(CORRELATIONS, found.values, found.intervals(), strict=True):
        low, high = ends or (None, None)
        record |= {name: float(value) if found.n else None, f"{name}_low": low, f"{name}_high": high}
    # Without a human rating there is nothing to say about the judge.
    return record | {"constant": bool(found.constant and found.n), "constant_groups": found.constant_groups}


def _described(part: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {
        "failed_share": float((part["status"] == FAILED).mean()),
        "clamped_share": float((part["status"] == CLAMPED).mean()),
        "mean_score": float(part["score"].mean()),
    }


def _flags(record: Mapping[str, Any], constant_humans: bool) -> list[str]:
    inverted = record["spearman_high"] is not None and record["spearman_high"] < 0
    signatures = ((CONSTANT, record["constant"]), (CONSTANT_HUMANS, constant_humans), (INVERTED, inverted))
    return [flag for flag, holds in signatures if holds]


def _checked(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    missing = [name for name in _COLUMNS if name not in scores]
    if missing:
        raise ValueError(f"scores: missing columns {', '.join(missing)}")
    columns = {name: np.asarray(scores[name]) for name in _COLUMNS}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"scores: columns of different lengths {lengths}")
    for name in ("range_min", "range_max", "range_step", "lambda", "temperature", "score", "human"):
        columns[name] = columns[name].astype(np.float64)
    if not np.isfinite(columns["score"]).all():
        raise ValueError("scores: score must be finite; a failed answer is scored at the minimum")
    return columns


def _cells(columns: Mapping[str, np.ndarray]) -> dict[tuple[Any, ...], list[int]]:
    """Rows by cell, in order of first appearance."""
    keys = [[_plain(value) for value in columns[name].tolist()] for name in _CELL]
    cells: dict[tuple[Any, ...], list[int]] = {}
    for row, cell in enumerate(zip(*keys, strict=True)):
        cells.setdefault(cell, []).append(row)
    return cells


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
