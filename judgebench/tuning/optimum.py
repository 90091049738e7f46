"""The exact optimum over all kappa: no grid, no search, nothing left to find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judgebench.decoding.contrastive import LARGEST_KAPPA, Contrastive
from judgebench.decoding.path import KappaPath, kappa_path
from judgebench.tuning.along import spearman_along

EQUAL = 1e-12
"""Correlations closer than this are one: they differ by the rounding of a square root."""


@dataclass(frozen=True)
class Optimum:
    """Where Spearman's rho with the humans is best over all kappa in [0, inf).

    Attributes:
        kappa: the recommended one: the middle of the widest optimal interval (of equally wide ones the first); twice
            its lower end, or 1 if that is 0, where that interval never ends; 0 where it begins at 0 and holds there,
            for then the plain decoding is as good as any.
        value: the best Spearman; that of `kappa`, and of every kappa inside an optimal interval.
        low, high: the ends of the interval that `kappa` lies in; high is inf where it never ends.
        intervals: all optimal intervals, ascending. Each has one vector of scores; two may touch.
        breakpoints: distinct values of kappa at which any score changes.
    """

    kappa: float
    value: float
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
    found = spearman_along(path, human)
    usable = np.ones(len(path), dtype=bool)
    while True:  # ends at the latest at kappa = 0, where the path is what decoding does by definition
        best = np.flatnonzero(usable & (found >= found[usable].max() - EQUAL))
        widest = int(best[np.argmax(path.high[best] - path.low[best])])
        kappa = _inside(path, widest)
        decoded = Contrastive(kappa, alpha=alpha).scores(main, assistant, values)
        if np.array_equal(decoded, path.scores(widest)):
            break
        usable[widest] = False
    return Optimum(
        kappa=kappa,
        value=float(found[widest]),
        low=float(path.low[widest]),
        high=float(path.high[widest]),
        intervals=tuple((float(path.low[piece]), float(path.high[piece])) for piece in best),
        breakpoints=len(path) - 1,
    )


def _inside(path: KappaPath, piece: int) -> float:
    if piece == 0:
        return 0.0
    low, high = float(path.low[piece]), float(path.high[piece])
    return min(2 * low or 1.0, LARGEST_KAPPA) if np.isinf(high) else (low + high) / 2
