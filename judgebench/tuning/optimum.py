"""The exact optimum over all kappa: no grid, no search, nothing left to find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judgebench.decoding.path import KappaPath, kappa_path
from judgebench.decoding.rules import LARGEST_KAPPA, Contrastive
from judgebench.tuning.curves import constant_along, spearman_along

EQUAL = 1e-12
"""Correlations closer than this are one: they differ by the rounding of a square root."""


@dataclass(frozen=True)
class Optimum:
    """The best Spearman's rho with the humans over all kappa in [0, inf), and the intervals that reach it.

    Kappas that give every text the same score have no correlation: they are left out unless all are such.

    Attributes:
        kappa: the recommended one, of several optimal intervals: 0 where one begins at 0 and holds there, for then the
            plain decoding is as good as any; else the middle of the widest that ends (of equally wide ones the first);
            else, in one that never ends, twice its lower end, or 1 if that is 0. Never to end is no
            merit: far out the assistant alone decides.
        value: the best Spearman; that of `kappa`, and of every kappa inside an optimal interval.
        constant: whether every kappa gives all texts the same score; `value` is then 0.0 by convention.
        low, high: the ends of the interval that `kappa` lies in; high is inf where it never ends.
        intervals: all optimal intervals, ascending. Each has one vector of scores; two may touch.
        breakpoints: distinct values of kappa at which any score changes.
    """

    kappa: float
    value: float
    constant: bool
    low: float
    high: float
    intervals: tuple[tuple[float, float], ...]
    breakpoints: int

    @property
    def width(self) -> float:
        """Of the interval that `kappa` lies in; inf where it never ends."""
        return self.high - self.low


def optimum(
    main: np.ndarray, assistant: np.ndarray, values: np.ndarray, human: np.ndarray, alpha: float = 0.0
) -> Optimum:
    """The best kappa for contrastive decoding by argmax; see `kappa_path`, which names the arguments and errors.

    Its scores are those of `Contrastive(kappa, alpha=alpha)` bit by bit, which is checked: a piece so small that
    decoding within it rounds to other scores is of no use to anybody and is passed over.

    Args:
        human: [N] the human scores.
    """
    path = kappa_path(main, assistant, values, alpha)
    found, constant = spearman_along(path, human), constant_along(path)
    usable = np.ones(len(path), dtype=bool)
    while True:  # ends at the latest at kappa = 0, where the path is what decoding does by definition
        choice = usable & ~constant if (usable & ~constant).any() else usable
        best = np.flatnonzero(choice & (found >= found[choice].max() - EQUAL))
        piece = _recommended(path, best)
        kappa = _inside(path, piece)
        decoded = Contrastive(kappa, alpha=alpha).scores(main, assistant, values)
        if np.array_equal(decoded, path.scores(piece)):
            break
        usable[piece] = False
    return Optimum(
        kappa=kappa,
        value=float(found[piece]),
        constant=bool(constant[piece]),
        low=float(path.low[piece]),
        high=float(path.high[piece]),
        intervals=tuple((float(path.low[piece]), float(path.high[piece])) for piece in best),
        breakpoints=len(path) - 1,
    )


def _recommended(path: KappaPath, best: np.ndarray) -> int:
    """Of the best pieces, ascending: kappa = 0 where it is among them, else the widest that ends, else the last."""
    if best[0] == 0:
        return 0
    width = path.high[best] - path.low[best]
    return int(best[np.argmax(np.where(np.isinf(width), -1.0, width))])


def _inside(path: KappaPath, piece: int) -> float:
    if piece == 0:
        return 0.0
    low, high = float(path.low[piece]), float(path.high[piece])
    return min(2 * low or 1.0, LARGEST_KAPPA) if np.isinf(high) else (low + high) / 2
