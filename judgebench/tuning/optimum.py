"""The exact optimum over all kappa = lambda / t in [0, inf), along the path of greedy scores.

At kappa a candidate k of an example has the adjusted score m_k - kappa * a_k (`contrast`), a line in kappa. The greedy
score is the candidate on top, so an example's path is the upper envelope of K lines: it starts at the main model's best
candidate, moves to ever smaller a_k, and changes at most K - 1 times. Between two neighboring breakpoints of all
examples together no score changes, and whatever depends on scores alone is constant. From piece to piece a change moves
one example, so correlations follow from sums of whole numbers along the path, which are exact.

*At a breakpoint* two candidates of an example tie. Decoding computes in float64 and takes the first candidate of a tie,
but whether rounding leaves the tie standing is chance, there and as far around as rounding reaches (about 1e-12 of
kappa, by the readings' resolution). The pieces of a path therefore are the open intervals between those
neighborhoods: on each, `Contrastive` gives the piece's scores bit by bit. Breakpoints whose neighborhoods overlap count
as one. *At kappa = 0* the decoding is the plain one: candidates that tie in the main model tie there, the first wins,
and any kappa above 0 may decide otherwise; then 0 is a piece of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.decoding.rules import LARGEST_KAPPA, Contrastive, checked_logprobs, floored, plausible
from judgebench.stats.correlation import ratio
from judgebench.types import LABELS, RANGE, ScoreRange

if TYPE_CHECKING:
    import pandas as pd


_ROUNDING = 8 * np.finfo(np.float64).eps
"""Generous for the two roundings of m - kappa * a, in each of the two candidates that are compared."""


@dataclass(frozen=True)
class KappaPath:
    """Greedy contrastive scores of N examples with K candidates, on all P pieces of [0, inf).

    Attributes:
        values: [K] the candidates as numbers, ascending.
        start: [N] int64, the candidate at kappa = 0.
        kappa: [E] float64 ascending, the breakpoints of single examples, up to the largest kappa that may be decoded.
        example, before, after: [E] int64, whose score changes there, from which candidate to which.
        low, high: [P] float64, the pieces, ascending; the last never ends (inf). The first begins at 0 and holds there
            too; it is [0, 0] where 0 is a piece of its own.
        reached: [P] int64, how many of the E changes lie before each piece.

    Example:
        >>> main, assistant = np.log([[0.6, 0.4]]), np.log([[0.8, 0.2]])
        >>> path = kappa_path(main, assistant, np.array([1.0, 2.0]))
        >>> path.kappa.round(4), [path.scores(piece).tolist() for piece in range(len(path))]
        (array([0.2925]), [[1.0], [2.0]])
    """

    values: np.ndarray
    start: np.ndarray
    kappa: np.ndarray
    example: np.ndarray
    before: np.ndarray
    after: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reached: np.ndarray

    def __len__(self) -> int:
        """P, the number of pieces."""
        return len(self.low)

    def scores(self, piece: int) -> np.ndarray:
        """The scores [N] float64 on a piece."""
        candidate, changed = self.start.copy(), slice(int(self.reached[piece]))
        # where an example changes several times, numpy's assignment leaves the last
        candidate[self.example[changed]] = self.after[changed]
        return self.values[candidate]

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Sums of the examples' weights [N] by candidate on each piece: [P, K]."""
        begin = np.zeros(len(self.values), dtype=weights.dtype)
        np.add.at(begin, self.start, weights)
        moved = np.zeros((len(self), len(self.values)), dtype=weights.dtype)
        piece = np.searchsorted(self.reached, np.arange(len(self.kappa)), side="right")
        inside = piece < len(self)  # what changes after the last piece cannot be seen
        carried = weights[self.example[inside]]
        np.add.at(moved, (piece[inside], self.before[inside]), -carried)
        np.add.at(moved, (piece[inside], self.after[inside]), carried)
        return np.asarray(begin + moved.cumsum(axis=0))


def kappa_path(main: np.ndarray, assistant: np.ndarray, values: np.ndarray, alpha: float = 0.0) -> KappaPath:
    """The path of `Contrastive(kappa, alpha=alpha).scores(main, assistant, values)`, for `rule` argmax, of
    log-probabilities [N, K] and candidates [K]. Time goes as N * K * K at worst. ValueError for shapes that do not fit,
    NaN or +inf, or values that do not ascend."""
    import torch

    values = np.asarray(values, dtype=np.float64)
    main = checked_logprobs("main", main, values)
    assistant = checked_logprobs("assistant", assistant, values)
    if len(main) != len(assistant):
        raise ValueError(f"assistant must have the main model's {len(main)} rows, got {len(assistant)}")
    slopes = floored(torch.from_numpy(assistant)).numpy()
    heights = np.where(plausible(torch.from_numpy(main), alpha).numpy(), main, -math.inf)

    # 1. At kappa = 0 the first of equal heights wins; just above, the one of them that sinks least.
    plain = heights.argmax(axis=1)
    possible = np.isfinite(heights.max(axis=1))  # a row of zeros stays at its first candidate
    start = np.where(possible, _least(slopes, heights, heights == heights.max(axis=1, keepdims=True)), plain)
    tied = np.flatnonzero(plain != start)

    # 2. The changes in the order of kappa; those of the ties at 0 come first.
    changes = [(np.zeros(len(tied)), tied, plain[tied], start[tied]), *_changes(heights, slopes, start, possible)]
    kappa, example, before, after = (np.concatenate(part) for part in zip(*changes, strict=True))
    order = np.argsort(kappa, kind="stable")
    kappa, example, before, after = kappa[order], example[order], before[order], after[order]

    # 3. Within its reach of a breakpoint rounding may decide: farther away the winner leads any other line by at least
    # the distance times the smallest gap of slopes, which is more than the rounding of m - kappa * a.
    height = np.abs(np.where(np.isfinite(heights), heights, 0.0)).max(axis=1, initial=0.0)
    slope = np.abs(slopes).max(axis=1, initial=0.0)
    gaps = np.diff(np.sort(slopes, axis=1), axis=1)
    least = np.where(gaps > 0, gaps, math.inf).min(axis=1, initial=math.inf)
    reach = _ROUNDING * (height[example] + kappa * slope[example]) / least[example]

    # 4. The pieces are the open intervals above 0 that are farther from every breakpoint than its reach.
    order = np.argsort(kappa - reach, kind="stable")
    opens = np.concatenate([(kappa - reach)[order], [math.inf]])
    closes = np.concatenate([[0.0], np.maximum.accumulate((kappa + reach)[order])])
    low, high = closes[opens > closes], opens[opens > closes]
    reached = np.searchsorted(kappa, low, side="right").astype(np.int64)
    if reached[0]:  # something changes at 0, or too near to tell: 0 is a piece of its own
        low, high, reached = (np.concatenate([np.zeros(1, part.dtype), part]) for part in (low, high, reached))
    return KappaPath(values, plain, kappa, example, before, after, low, high, reached)


def _changes(
    heights: np.ndarray, slopes: np.ndarray, start: np.ndarray, possible: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """All changes above 0, every example's next one at a time: kappa, example, candidate before and after."""
    rows, now, reached = np.flatnonzero(possible), start[possible], np.zeros(int(possible.sum()))
    while rows.size:
        here = np.arange(len(rows))
        gaps = slopes[rows, now][:, None] - slopes[rows]  # above 0 for what may still overtake
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at = np.where(gaps > 0, (heights[rows, now][:, None] - heights[rows]) / gaps, math.inf)
        soonest = at.min(axis=1)
        # of what overtakes together the one that sinks least goes on
        after = _least(slopes[rows], heights[rows], at == soonest[:, None])
        reached = np.maximum(reached, soonest)  # rounding must not turn the order of an example's changes
        going = here[reached <= LARGEST_KAPPA]
        rows, now, after, reached = rows[going], now[going], after[going], reached[going]
        yield reached, rows, now, after
        now = after


def _least(slopes: np.ndarray, heights: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Of the allowed lines the one with the smallest slope, of such the highest, of such the first: [N, K] -> [N]."""
    least = np.where(allowed, slopes, math.inf)
    allowed = allowed & (least == least.min(axis=1, keepdims=True))
    return np.where(allowed, heights, -math.inf).argmax(axis=1)


def spearman_along(path: KappaPath, human: np.ndarray) -> np.ndarray:
    """Spearman's rho of the scores on each piece with `human` [N] -> [P]; 0.0 where either is constant; ValueError for
    another shape, NaN or infinite values."""
    human = np.asarray(human, dtype=np.float64)
    if human.shape != path.start.shape:
        raise ValueError(f"human must have shape [{len(path.start)}], got {list(human.shape)}")
    if not np.isfinite(human).all():
        raise ValueError("human must be finite numbers")
    # twice the distance from the mean rank, whole numbers
    ranks = (2 * scipy.stats.rankdata(human)).astype(np.int64) - (len(human) + 1)
    counts = path.sums(np.ones(len(human), dtype=np.int64))
    places = 2 * counts.cumsum(axis=1) - counts - len(human)
    varied = (counts * places * places).sum(axis=1)
    human_varied = np.full(len(path), (ranks * ranks).sum())
    return ratio(*(part.astype(np.float64) for part in ((places * path.sums(ranks)).sum(axis=1), varied, human_varied)))


def constant_along(path: KappaPath) -> np.ndarray:
    """True where all scores on a piece are equal: [P] bool; see `judgebench.stats.correlation.is_constant`."""
    counts = path.sums(np.ones(len(path.start), dtype=np.int64))
    return np.asarray((counts > 0).sum(axis=1) <= 1)


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
        constant: True where every kappa gives all texts the same score; `value` is then 0.0 by convention.
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

    def record(self, test: float | None) -> dict[str, Any]:
        """As in tuning.json, with Spearman's rho on the test split."""
        record = {"kappa": self.kappa, "dev": self.value, "test": test, "constant": self.constant}
        record |= {"low": self.low, "high": _ending(self.high), "width": _ending(self.width)}
        intervals = [[low, _ending(high)] for low, high in self.intervals]
        return record | {"intervals": intervals, "breakpoints": self.breakpoints}


def _ending(value: float) -> float | None:
    return value if math.isfinite(value) else None


def optimum(
    main: np.ndarray, assistant: np.ndarray, values: np.ndarray, human: np.ndarray, alpha: float = 0.0
) -> Optimum:
    """The best kappa for contrastive decoding by argmax; see `kappa_path`, which names the arguments and errors.

    Its scores are those of `Contrastive(kappa, alpha=alpha)` bit by bit, which is checked: a piece so small that
    decoding within it rounds to other scores is of no use and is passed over.

    Args:
        human: [N] the human scores.
    """
    path = kappa_path(main, assistant, values, alpha)
    rho, constant = spearman_along(path, human), constant_along(path)
    usable = np.ones(len(path), dtype=bool)
    while True:  # ends at the latest at kappa = 0, where the path is what decoding does by definition
        choice = usable & ~constant if (usable & ~constant).any() else usable
        best = np.flatnonzero(choice & (rho >= rho[choice].max() - EQUAL))
        # of the best pieces kappa = 0 where it is among them, else the widest that ends, else the last
        width = path.high[best] - path.low[best]
        piece = 0 if best[0] == 0 else int(best[np.argmax(np.where(np.isinf(width), -1.0, width))])
        low, high = float(path.low[piece]), float(path.high[piece])
        kappa = min(2 * low or 1.0, LARGEST_KAPPA) if np.isinf(high) else (low + high) / 2
        kappa = 0.0 if piece == 0 else kappa
        decoded = Contrastive(kappa, alpha=alpha).scores(main, assistant, values)
        if np.array_equal(decoded, path.scores(piece)):
            break
        usable[piece] = False
    intervals = tuple((float(path.low[piece]), float(path.high[piece])) for piece in best)
    return Optimum(kappa, float(rho[piece]), bool(constant[piece]), low, high, intervals, len(path) - 1)


# --- of a run folder --------------------------------------------------------------------------------------------------


def split_arrays(
    readings: pd.DataFrame, scores: pd.DataFrame, cell: Mapping[str, Any]
) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Split -> main and assistant [N, K] float32 and human [N] float64 of the rated texts of a dimension and range,
    without attack and defense, from the run folder's readings and scores."""
    parts = []
    for frame in (readings, scores):
        kept = (frame["attack"] == "none") & (frame["defense"] == "none")
        for name in ("dimension", *RANGE, *([LABELS] if LABELS in frame else [])):
            kept &= frame[name] == cell.get(name, "")
        parts.append(frame[kept])
    human = parts[0]["example_id"].map(dict(zip(parts[1]["example_id"], parts[1]["human"], strict=True)))
    return {
        str(split): (
            np.array(rows["main_logprobs"].tolist(), dtype=np.float32),
            np.array(rows["assistant_logprobs"].tolist(), dtype=np.float32),
            human[rows.index].to_numpy(dtype=np.float64),
        )
        for split, rows in parts[0][np.isfinite(human.astype(float))].groupby("split", sort=True)
    }


@dataclass(frozen=True)
class KappaCurve:
    """A step function of kappa on [0, inf): the `value` [P] of each step from its `start` [P] on, ascending from 0."""

    start: np.ndarray
    value: np.ndarray


def curves(readings: pd.DataFrame, scores: pd.DataFrame, record: Mapping[str, Any]) -> dict[str, KappaCurve]:
    """Split -> Spearman's rho of the greedy contrastive scores with the humans, exactly, as a function of kappa, in the
    cell of a record of tuning.json (see `split_arrays`); none where its rule is expectation: such scores have no
    path."""
    if record["rule"] != "argmax":
        return {}
    steps = {}
    for split, (main, assistant, human) in split_arrays(readings, scores, record).items():
        path = kappa_path(main, assistant, np.array(ScoreRange.of(record).values), float(record["alpha"]))
        rho = spearman_along(path, human)
        first = np.concatenate([[True], np.diff(rho) != 0])
        steps[split] = KappaCurve(path.low[first], rho[first])
    return steps
