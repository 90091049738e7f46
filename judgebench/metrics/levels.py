"""At which level judge and humans are compared: all pairs, within each document, or system against system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from judgebench.errors import UserError
from judgebench.metrics.bootstrap import RESAMPLES, group_weights, left_out, resampled_correlations
from judgebench.metrics.correlation import correlate_rows, is_constant, kendall, pearson, spearman, vectors
from judgebench.metrics.intervals import Resampled

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
class Correlated(Resampled):
    """The correlations of judge and humans at one level.

    Attributes:
        values: [3] pearson, spearman, kendall (tau-b).
        resampled: [3, B] the same of each resample of groups; [3, 0] with fewer than two groups.
        jackknife: [3, G] the same without each group in turn; [3, 0] where there are no resamples.
        n: what was correlated: pairs (dataset), groups (document), systems (system).
        groups: distinct groups, the unit of resampling.
        constant: whether the judge always says the same: over all pairs (dataset), within every group (document), in
            the mean over every system (system). The values are then 0.0.
        constant_humans: the same of the humans.
        constant_groups: document level: groups without a correlation, which count as 0.0, because judge or humans are
            constant there; else None.
    """

    n: int
    groups: int
    constant: bool
    constant_humans: bool = False
    constant_groups: int | None = None


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
    judge, human = vectors(judge, human)
    if len(groups) != len(judge) or len(systems) != len(judge):
        raise ValueError(f"groups and systems must have {len(judge)} labels, got {len(groups)} and {len(systems)}")
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    system = np.unique(np.asarray(systems), return_inverse=True)[1]
    count = len(labels)
    drawn = group_weights(count, resamples if count >= 2 else 0, seed)
    both = np.vstack([drawn, left_out(count)]) if len(drawn) else drawn
    found = correlations_at(level, judge, human, group, system, both)
    resampled, jackknife = found[:, : len(drawn)], found[:, len(drawn) :]
    data = np.ones((1, count), dtype=np.int32)
    if level == "dataset":
        values = np.array([pearson(judge, human), spearman(judge, human), kendall(judge, human)])
    else:
        values = correlations_at(level, judge, human, group, system, data)[:, 0]
    if level == "document":
        varies = [_varies_in(side, group, count) for side in (judge, human)]
        constant, constant_humans = (not side.any() for side in varies)
        alike = int((~(varies[0] & varies[1])).sum())
        return Correlated(values, resampled, jackknife, count, count, constant, constant_humans, alike)
    if level == "system":
        judge, human = (_means(side, group, system, data)[0] for side in (judge, human))
    return Correlated(values, resampled, jackknife, len(judge), count, is_constant(judge), is_constant(human))


def correlations_at(
    level: str, judge: np.ndarray, human: np.ndarray, group: np.ndarray, system: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The correlations of each resample at one level of `LEVELS`, see `correlate`.

    Args:
        judge, human: [N] finite numbers.
        group, system: [N] numbered from 0, without gaps.
        weights: [B, G] how often each group was drawn, at least one in each resample.

    Returns:
        [3, B] in the order of `CORRELATIONS`.
    """
    if level == "dataset":
        return resampled_correlations(judge, human, group, weights)
    if level == "document":
        within = _within(judge, human, group, weights.shape[1])
        return within @ weights.T / np.maximum(weights.sum(axis=1), 1)
    x, y = (_means(side, group, system, weights) for side in (judge, human))
    correlations = np.zeros((3, len(weights)))
    there = ~np.isnan(x)
    whole = there.all(axis=1)
    correlations[:, whole] = correlate_rows(x[whole], y[whole])
    for row in np.flatnonzero(~whole):  # a system whose articles were not drawn has no mean in this resample
        held = there[row]
        correlations[:, row] = correlate_rows(x[row : row + 1, held], y[row : row + 1, held])[:, 0]
    return correlations


def _within(judge: np.ndarray, human: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[3, G] each group's own correlations; 0.0 where judge or humans are constant in it."""
    sizes = np.bincount(group, minlength=count)
    order, starts = np.argsort(group, kind="stable"), sizes.cumsum() - sizes
    found = np.zeros((3, count))
    for size in np.unique(sizes[sizes > 1]):
        here = np.flatnonzero(sizes == size)
        rows = order[starts[here, None] + np.arange(size)]
        found[:, here] = correlate_rows(judge[rows], human[rows])
    return found


def _varies_in(values: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[G] whether a group holds two different values."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return low < high


def _means(values: np.ndarray, group: np.ndarray, system: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[B, S] the systems' means in each resample, shifted and scaled by what correlations do not see; NaN where a
    system was not drawn.

    Rounded to 12 digits of the spread: means that are equal in truth must tie, whatever order they were summed in.
    """
    spread = np.ptp(values) if len(values) else 0.0
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    shape = (weights.shape[1], int(system.max(initial=-1)) + 1)
    sizes, sums = np.zeros(shape), np.zeros(shape)
    np.add.at(sizes, (group, system), 1.0)
    np.add.at(sums, (group, system), scaled)
    drawn = weights.astype(np.float64)
    mass = drawn @ sizes
    return np.round(np.divide(drawn @ sums, mass, out=np.full_like(mass, np.nan), where=mass > 0), 12)
