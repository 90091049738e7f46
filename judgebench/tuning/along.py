"""Correlation with the humans on every piece of a path, without correlating anew: a change moves one example.

From piece to piece only counts change, so they are summed along the path: how many examples each candidate holds,
and how much of the humans' ranks or scores (for Kendall's tau how many of each human score, a table [K, H]). All three
correlations follow from these by sums over candidates. Counts and ranks are whole numbers, so those sums are exact.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from judgebench.decoding.path import KappaPath
from judgebench.metrics.correlation import MOST_ENTRIES, ratio


def spearman_along(path: KappaPath, human: np.ndarray) -> np.ndarray:
    """Spearman's rho of the scores on each piece with `human` [N] -> [P]; 0.0 where either is constant.

    Raises:
        ValueError: another shape, NaN or infinite values. So do `pearson_along` and `kendall_along`.
    """
    human = _checked(path, human)
    # twice the distance from the mean rank, whole numbers
    ranks = (2 * stats.rankdata(human)).astype(np.int64) - (len(human) + 1)
    counts = _summed(path, np.ones(len(human), dtype=np.int64))
    held = _summed(path, ranks)
    places = 2 * counts.cumsum(axis=1) - counts - len(human)
    varied = (counts * places * places).sum(axis=1)
    return ratio(*(part.astype(np.float64) for part in ((places * held).sum(axis=1), varied, _like(varied, ranks))))


def pearson_along(path: KappaPath, human: np.ndarray) -> np.ndarray:
    """Pearson's r of the scores on each piece with `human` [N] -> [P]; 0.0 where either is constant."""
    human = _checked(path, human)
    centered = human - human[0] if len(human) else human
    centered = centered - centered.mean() if len(human) else human  # in two steps, so that equal humans become exact 0
    counts = _summed(path, np.ones(len(human), dtype=np.int64))
    held = _summed(path, centered)
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    first = path.values[(counts > 0).argmax(axis=1)][:, None] if len(human) else np.zeros((len(path), 1))
    apart = path.values - first
    apart = apart - (counts * apart).sum(axis=1, keepdims=True) / total
    varied = (counts * apart * apart).sum(axis=1)
    return ratio((apart * held).sum(axis=1), varied, _like(varied, centered))


def kendall_along(path: KappaPath, human: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of the scores on each piece with `human` [N] -> [P]; 0.0 where either is constant.

    Time goes as P * K * H with H distinct human scores.
    """
    human = _checked(path, human)
    distinct, which = np.unique(human, return_inverse=True)
    width = len(path.values) * len(distinct)
    table = np.zeros(width, dtype=np.int64)
    np.add.at(table, path.start * len(distinct) + which, 1)
    parts, done = [], 0
    step = max(1, MOST_ENTRIES // max(1, width))
    for first in range(0, len(path), step):
        reached = path.reached[first : first + step]
        moves = np.zeros((len(reached), width), dtype=np.int64)
        events = slice(done, int(reached[-1]))
        piece = np.searchsorted(reached, np.arange(events.start, events.stop), side="right")
        seen = which[path.example[events]]
        np.add.at(moves, (piece, path.before[events] * len(distinct) + seen), -1)
        np.add.at(moves, (piece, path.after[events] * len(distinct) + seen), 1)
        tables = table + moves.cumsum(axis=0)
        table, done = tables[-1], events.stop
        parts.append(_tau(tables.reshape(len(reached), len(path.values), len(distinct))))
    return np.concatenate(parts)


def constant_along(path: KappaPath) -> np.ndarray:
    """Whether all scores are equal on each piece -> [P] bool; see `judgebench.metrics.correlation.is_constant`."""
    counts = _summed(path, np.ones(len(path.start), dtype=np.int64))
    return np.asarray((counts > 0).sum(axis=1) <= 1)


def _tau(tables: np.ndarray) -> np.ndarray:
    """Tau-b of contingency tables [P, K, H] whole numbers -> [P]."""
    below = tables.cumsum(axis=1) - tables  # of the candidates below, by human score
    less = below.cumsum(axis=2) - below
    more = below.sum(axis=2, keepdims=True) - less - below
    judge, human, total = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))
    concordant = (tables * (less - more)).sum(axis=(1, 2))
    untied = [(total * total - (side * side).sum(axis=1)) // 2 for side in (judge, human)]
    return ratio(*(part.astype(np.float64) for part in (concordant, *untied)))


def _summed(path: KappaPath, weights: np.ndarray) -> np.ndarray:
    """What each candidate holds of the examples' weights [N] on each piece: [P, K]."""
    count = len(path.values)
    begin = np.zeros(count, dtype=weights.dtype)
    np.add.at(begin, path.start, weights)
    moved = np.zeros((len(path), count), dtype=weights.dtype)
    piece = np.searchsorted(path.reached, np.arange(len(path.kappa)), side="right")
    inside = piece < len(path)  # what changes after the last piece cannot be seen
    carried = weights[path.example[inside]]
    np.add.at(moved, (piece[inside], path.before[inside]), -carried)
    np.add.at(moved, (piece[inside], path.after[inside]), carried)
    return np.asarray(begin + moved.cumsum(axis=0))


def _like(varied: np.ndarray, centered: np.ndarray) -> np.ndarray:
    return np.full(len(varied), (centered * centered).sum())


def _checked(path: KappaPath, human: np.ndarray) -> np.ndarray:
    human = np.asarray(human, dtype=np.float64)
    if human.shape != path.start.shape:
        raise ValueError(f"human must have shape [{len(path.start)}], got {list(human.shape)}")
    if not np.isfinite(human).all():
        raise ValueError("human must be finite numbers")
    return human
