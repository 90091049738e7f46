"""At which level judge and humans are compared: all pairs, within each document, or system against system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from judgebench.errors import UserError
from judgebench.metrics.bootstrap import RESAMPLES, group_weights, interval, resampled_correlations
from judgebench.metrics.correlation import correlate_rows, is_constant, kendall, pearson, spearman

LEVELS = ("dataset", "document", "system")


def shown_level(levels: Iterable[str]) -> str:
    """The level that is told where only one is: dataset where there is one, else the first.

    Example:
        >>> shown_level(["system", "dataset"]), shown_level(["system", "document"])
        ('dataset', 'system')
    """
    found = list(dict.fromkeys(levels))
    return LEVELS[0] if LEVELS[0] in found or not found else found[0]


@dataclass(frozen=True)
class Correlated:
    """The correlations of judge and humans at one level.

    Attributes:
        values: [3] pearson, spearman, kendall (tau-b).
        resampled: [3, B] the same of each resample of groups; [3, 0] with fewer than two groups.
        n: what was correlated: pairs (dataset), groups (document), systems (system).
        groups: distinct groups, the unit of resampling.
        constant: whether the judge always says the same: over all pairs (dataset), within every group (document), in
            the mean over every system (system). The values are then 0.0.
        constant_humans: the same of the humans.
        constant_groups: document level: groups without a correlation, which count as 0.0, because judge or humans are
            constant there; else None.
    """

    values: np.ndarray
    resampled: np.ndarray
    n: int
    groups: int
    constant: bool
    constant_humans: bool = False
    constant_groups: int | None = None

    def intervals(self) -> list[tuple[float, float] | None]:
        """[3] the 95 % intervals of `values`; None with fewer than two groups, or without resamples."""
        return [interval(row) for row in self.resampled]


def correlate(
    level: str,
    judge: np.ndarray,
    human: np.ndarray,
    groups: np.ndarray,
    systems: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Correlated:
    """Judge against humans at one level, with resamples of the groups.

    - `dataset`: one correlation over all pairs; the CD paper's.
    - `document`: the mean over groups of the correlation within each; G-Eval's, except that groups where it is
      undefined count as 0.0 instead of being left out.
    - `system`: one correlation over the systems, of judge's and humans' means; the systems stay, their means are
      resampled.

    Args:
        level: one of `LEVELS`.
        judge, human: [N] finite numbers.
        groups, systems: [N] labels. Equal sets of groups are resampled alike (see `group_weights`).
        resamples: B, of the groups; 0 gives no intervals.
        seed: of the resampling.

    Raises:
        UserError: an unknown level.
        ValueError: shapes that do not fit, NaN or infinite values.
    """
    if level not in LEVELS:
        raise UserError(f"levels: {level!r} is not one of {', '.join(LEVELS)}.")
    values = np.array([pearson(judge, human), spearman(judge, human), kendall(judge, human)])
    judge, human = np.asarray(judge, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if len(groups) != len(judge) or len(systems) != len(judge):
        raise ValueError(f"groups and systems must have {len(judge)} labels, got {len(groups)} and {len(systems)}")
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    count = len(labels)
    weights = group_weights(count, resamples if count >= 2 else 0, seed)
    if level == "dataset":
        resampled = resampled_correlations(judge, human, group, weights)
        return Correlated(values, resampled, len(judge), count, is_constant(judge), is_constant(human))
    if level == "document":
        return _documents(judge, human, group, weights)
    return _systems(judge, human, group, np.asarray(systems), weights)


def difference(first: Correlated, second: Correlated) -> list[tuple[float, tuple[float, float] | None]]:
    """[3] first minus second of each correlation: the value and its paired 95 % interval (None without resamples).

    Both must stem from the same groups, resamples and seed: then resample b of one is resample b of the other, and what
    both owe to easy or hard articles cancels.

    Raises:
        ValueError: not so.
    """
    if first.groups != second.groups or first.resampled.shape != second.resampled.shape:
        raise ValueError("a paired difference needs two correlations over the same groups and resamples")
    gaps = first.resampled - second.resampled
    return [(float(a - b), interval(gap)) for a, b, gap in zip(first.values, second.values, gaps, strict=True)]


def _documents(judge: np.ndarray, human: np.ndarray, group: np.ndarray, weights: np.ndarray) -> Correlated:
    count = weights.shape[1]
    within = resampled_correlations(judge, human, group, np.eye(count, dtype=np.int64))  # [3, G]
    judge_varies, human_varies = (_varies_in(values, group, count) for values in (judge, human))
    return Correlated(
        values=within.mean(axis=1) if count else np.zeros(3),
        resampled=within @ weights.T / max(1, count),
        n=count,
        groups=count,
        constant=not judge_varies.any(),
        constant_humans=not human_varies.any(),
        constant_groups=int((~(judge_varies & human_varies)).sum()),
    )


def _varies_in(values: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[G] whether a group holds two different values."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return low < high


def _systems(
    judge: np.ndarray, human: np.ndarray, group: np.ndarray, systems: np.ndarray, weights: np.ndarray
) -> Correlated:
    labels, system = np.unique(systems, return_inverse=True)
    drawn = np.vstack([np.ones((1, weights.shape[1]), dtype=weights.dtype), weights])  # the data itself comes first
    shape = (weights.shape[1], len(labels))
    sizes = np.zeros(shape)
    np.add.at(sizes, (group, system), 1.0)
    mass = drawn @ sizes  # [1 + B, S]
    x, y = (_means(values, group, system, drawn, mass) for values in (judge, human))
    correlations = np.zeros((3, len(drawn)))
    whole = (mass > 0).all(axis=1)
    correlations[:, whole] = correlate_rows(x[whole], y[whole])
    for row in np.flatnonzero(~whole):  # a system whose articles were not drawn has no mean in this resample
        there = mass[row] > 0
        correlations[:, row] = correlate_rows(x[row : row + 1, there], y[row : row + 1, there])[:, 0]
    return Correlated(
        correlations[:, 0], correlations[:, 1:], len(labels), shape[0], is_constant(x[0]), is_constant(y[0])
    )


def _means(
    values: np.ndarray, group: np.ndarray, system: np.ndarray, drawn: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """[1 + B, S] the systems' means, shifted and scaled by what correlations do not see; 0 where `mass` is 0.

    Rounded to 12 digits of the spread: means that are equal in truth must tie, whatever order they were summed in.
    """
    spread = np.ptp(values) if len(values) else 0.0
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    sums = np.zeros((drawn.shape[1], mass.shape[1]))
    np.add.at(sums, (group, system), scaled)
    return np.round(np.divide(drawn @ sums, mass, out=np.zeros_like(mass), where=mass > 0), 12)
