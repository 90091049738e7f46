"""The exact optimum over all kappa, and correlation along the path of kappa: a change moves a single example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from judgebench.decoding.path import KappaPath, kappa_path
from judgebench.decoding.rules import LARGEST_KAPPA, Contrastive
from judgebench.metrics.correlation import ratio
from judgebench.types import ScoreRange

if TYPE_CHECKING:
    import pandas as pd


def spearman_along(path: KappaPath, human: np.ndarray) -> np.ndarray:
    """Spearman's rho of the scores on each piece with `human` [N] -> [P]; 0.0 where either is constant.

    Raises:
        ValueError: another shape, NaN or infinite values.
    """
    human = np.asarray(human, dtype=np.float64)
    if human.shape != path.start.shape:
        raise ValueError(f"human must have shape [{len(path.start)}], got {list(human.shape)}")
    if not np.isfinite(human).all():
        raise ValueError("human must be finite numbers")
    # twice the distance from the mean rank, whole numbers
    ranks = (2 * stats.rankdata(human)).astype(np.int64) - (len(human) + 1)
    counts = _summed(path, np.ones(len(human), dtype=np.int64))
    held = _summed(path, ranks)
    places = 2 * counts.cumsum(axis=1) - counts - len(human)
    varied = (counts * places * places).sum(axis=1)
    human_varied = np.full(len(path), (ranks * ranks).sum())
    return ratio(*(part.astype(np.float64) for part in ((places * held).sum(axis=1), varied, human_varied)))


def constant_along(path: KappaPath) -> np.ndarray:
    """True where all scores on a piece are equal: [P] bool; see `judgebench.metrics.correlation.is_constant`."""
    counts = _summed(path, np.ones(len(path.start), dtype=np.int64))
    return np.asarray((counts > 0).sum(axis=1) <= 1)


def _summed(path: KappaPath, weights: np.ndarray) -> np.ndarray:
    """Sums of the examples' weights [N] by candidate on each piece: [P, K]."""
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


@dataclass(frozen=True)
class KappaCurve:
    """A step function of kappa on [0, inf).

    Attributes:
        start: [P] ascending from 0, where each step begins; the last never ends.
        value: [P] the value on each.
    """

    start: np.ndarray
    value: np.ndarray


def curves(readings: pd.DataFrame, scores: pd.DataFrame, record: Mapping[str, Any]) -> dict[str, KappaCurve]:
    """Split -> Spearman's rho of the greedy contrastive scores with the humans, exactly, as a function of kappa.

    Args:
        readings, scores: of the run folder (scores know the human of each example).
        record: of tuning.json; its dimension, range and alpha say what is looked at.

    Returns:
        A curve for each split that has examples; none where the record's rule is expectation: such scores have no path.
    """
    if record["rule"] != "argmax":
        return {}
    of_cell, of_scores = (_cell(frame, record) for frame in (readings, scores))
    human = dict(zip(of_scores["example_id"], of_scores["human"], strict=True))
    ends = (float(record[name]) for name in ("range_min", "range_max", "range_step"))
    values = np.array(ScoreRange(*ends).values)
    found = {}
    for split, rows in of_cell.groupby("split", sort=True):
        main, assistant = (
            np.array(rows[f"{who}_logprobs"].tolist(), dtype=np.float32) for who in ("main", "assistant")
        )
        path = kappa_path(main, assistant, values, float(record["alpha"]))
        rho = spearman_along(path, np.array([human[example] for example in rows["example_id"]], dtype=np.float64))
        steps = np.concatenate([[True], np.diff(rho) != 0])
        found[str(split)] = KappaCurve(path.low[steps], rho[steps])
    return found


def _cell(frame: pd.DataFrame, record: Mapping[str, Any]) -> pd.DataFrame:
    held = (frame["attack"] == "none") & (frame["defense"] == "none")
    for name in ("dimension", "range_min", "range_max", "range_step"):
        held &= frame[name] == record[name]
    return frame[held]


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
