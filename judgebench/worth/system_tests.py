"""Two judges compared over systems: PERM-BOTH, which swaps their scores of single texts, and BOOT-BOTH, which resamples
systems and articles. Deutsch, Dror and Roth, "A Statistical Analysis of Summarization Evaluation Metrics Using
Resampling Methods" (TACL 2021), sections 3 and 4.

Both speak of systems like these, of which there are few: they find less than `paired.compare`, which speaks of these
very systems on other articles.
"""

from __future__ import annotations

import numpy as np

from judgebench.metrics.correlation import CORRELATIONS, MOST_ENTRIES, correlate_rows
from judgebench.metrics.resampling import RESAMPLES, permutation_p_value, weights_of, with_interval

_DIGITS = 12  # of means of spread 1, to which they are rounded: those equal in truth must tie


def permuted_both(
    first: np.ndarray,
    second: np.ndarray,
    human: np.ndarray,
    permutations: int = RESAMPLES,
    seed: int = 0,
    swapped: np.ndarray | None = None,
) -> list[dict[str, float | str]]:
    """The PERM-BOTH test of two judges at system level: their standardized scores of single texts are swapped.

    Args:
        first, second, human: [S, G] complete tables, see `mean_table`.
        permutations, seed: how many swaps are drawn.
        swapped: [P, S * G] of 0 and 1, the swaps to use in place of drawn ones; all there are, if given.

    Returns:
        A record a correlation of the systems' means with the humans': statistic; difference: first less second; p:
        two-sided.

    Raises:
        ValueError: tables of other shapes, or with empty cells.
    """
    tables = _complete(first, second, human)
    count, articles = tables[0].shape
    ours, theirs = (_standardized(side) for side in tables[:2])
    truth = np.round(tables[2].mean(axis=1), _DIGITS)
    exact = swapped is not None
    rng = np.random.default_rng([seed, 3])
    rows = permutations if swapped is None else len(swapped)
    permuted = np.empty((3, rows))
    step = max(1, MOST_ENTRIES // max(1, count * articles))
    for start in range(0, rows, step):
        size = min(step, rows - start)
        mask = (
            rng.integers(0, 2, (size, count * articles), dtype=np.int8)
            if swapped is None
            else swapped[start : start + size]
        )
        moved = (mask.reshape(size, count, articles) * (theirs - ours)).sum(axis=2)
        permuted[:, start : start + size] = _gap((ours.sum(axis=1) + moved), theirs.sum(axis=1) - moved, truth)
    observed = _gap(ours.sum(axis=1)[None], theirs.sum(axis=1)[None], truth)[:, 0]
    return [
        {"statistic": name, "difference": float(gap), "p": permutation_p_value(float(gap), null, exact)}
        for name, gap, null in zip(CORRELATIONS, observed, permuted, strict=True)
    ]


def _complete(*tables: np.ndarray) -> list[np.ndarray]:
    found = [np.asarray(table, dtype=np.float64) for table in tables]
    if len({table.shape for table in found}) > 1 or found[0].ndim != 2 or not all(np.isfinite(t).all() for t in found):
        raise ValueError("judges are compared by complete tables [S, G] of one shape")
    return found


def _standardized(table: np.ndarray) -> np.ndarray:
    spread = table.std()
    return (table - table.mean()) / spread if spread > 0 else np.zeros_like(table)


def _gap(ours: np.ndarray, theirs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[3, P] the difference of two sides' correlations over systems, [P, S] each, with [S]."""
    human = np.broadcast_to(truth, ours.shape)
    one, other = (correlate_rows(np.round(side, _DIGITS - 2), human) for side in (ours, theirs))
    return one - other


def boot_both(
    first: np.ndarray, second: np.ndarray, human: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> list[dict[str, float | str | None]]:
    """The difference of two judges' correlations over systems, systems and articles resampled together (BOOT-BOTH).

    Args:
        first, second, human: [S, G] complete tables, see `mean_table`.

    Returns:
        A record a correlation: statistic; difference: first less second, with `_low` and `_high` of its 95 % interval.

    Raises:
        ValueError: see `permuted_both`.
    """
    sides = _complete(first, second, human)
    weights = weights_of(sides[0].shape[1], resamples, seed)
    means = [np.round(weights @ side.T / weights.sum(axis=1, keepdims=True), _DIGITS) for side in sides]
    systems = len(sides[0])
    # The stream of `levels.correlate`, whose resamples over systems these are.
    drawn = np.random.default_rng([seed, 2]).integers(0, systems, (len(weights) - 1, systems))
    drawn = np.vstack([np.arange(systems)[None], drawn])
    ours, theirs, truth = (np.take_along_axis(side, drawn, axis=1) for side in means)
    gaps = correlate_rows(ours, truth) - correlate_rows(theirs, truth)
    gaps[:, (drawn == drawn[:, :1]).all(axis=1)] = np.nan
    return [
        {"statistic": name, **with_interval("difference", gap)} for name, gap in zip(CORRELATIONS, gaps, strict=True)
    ]
