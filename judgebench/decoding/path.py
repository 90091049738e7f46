"""Contrastive decoding at every kappa at once: the exact path of its greedy scores, kappa = lambda / t in [0, inf).

At kappa a candidate k of an example has the adjusted score m_k - kappa * a_k (`contrast`), a line in kappa. The greedy
score is the candidate on top, so an example's path is the upper envelope of K lines: it starts at the main model's best
candidate, moves to ever smaller a_k, and changes at most K - 1 times. Between two neighboring breakpoints of all
examples together no score changes, and whatever depends on scores alone is constant.

*At a breakpoint* two candidates of an example tie. Decoding computes in float64 and takes the first candidate of a tie,
but whether rounding leaves the tie standing is chance, there and as far around as rounding reaches (about 1e-12 of
kappa, by the readings' resolution). The pieces of a path therefore are the open intervals between those
neighborhoods: on each, `Contrastive` gives the piece's scores bit by bit. Breakpoints whose neighborhoods overlap count
as one. *At kappa = 0* the decoding is the plain one: candidates that tie in the main model tie there, the first wins,
and any kappa above 0 may decide otherwise; then 0 is a piece of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from judgebench.decoding.rules import LARGEST_KAPPA, checked_logprobs, floored, plausible

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
        held = self.start.copy()
        self._change(held, 0, int(self.reached[piece]))
        return self.values[held]

    def all_scores(self) -> Iterator[np.ndarray]:
        """The scores [N] float64 on every piece, one after the other, at the cost of what changes between them."""
        held, done = self.start.copy(), 0
        for reached in self.reached.tolist():
            self._change(held, done, reached)
            done = reached
            yield self.values[held]

    def _change(self, held: np.ndarray, done: int, upto: int) -> None:
        # where an example changes several times, numpy's assignment leaves the last
        held[self.example[done:upto]] = self.after[done:upto]


def kappa_path(main: np.ndarray, assistant: np.ndarray, values: np.ndarray, alpha: float = 0.0) -> KappaPath:
    """The path of `Contrastive(kappa, alpha=alpha).scores(main, assistant, values)`, for `rule` argmax.

    Zeros (-inf) are read as `contrast` reads them. alpha does not depend on kappa: it takes lines away. Time goes as
    N * K * K at worst.

    Args:
        main, assistant: [N, K] log-probabilities, float32 or float64; -inf is a probability of 0.
        values: [K] the candidates as numbers, ascending.
        alpha: plausibility, in [0, 1].

    Raises:
        ValueError: shapes that do not fit, NaN or +inf, values not ascending.
    """
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

    # 3. The pieces: what the neighborhoods of breakpoints leave free.
    low, high, reached = _pieces(kappa, _reach(kappa, example, heights, slopes))
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


def _reach(kappa: np.ndarray, example: np.ndarray, heights: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The distance from its breakpoint within which rounding may decide an example's score: [E].

    Farther away the winner leads any other line by at least the distance times the smallest gap of slopes, which is
    more than the rounding of m - kappa * a.
    """
    finite = np.isfinite(heights)
    height = np.abs(np.where(finite, heights, 0.0)).max(axis=1, initial=0.0)
    slope = np.abs(slopes).max(axis=1, initial=0.0)
    gaps = np.diff(np.sort(slopes, axis=1), axis=1)
    least = np.where(gaps > 0, gaps, math.inf).min(axis=1, initial=math.inf)
    return np.asarray(_ROUNDING * (height[example] + kappa * slope[example]) / least[example])


def _pieces(kappa: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The open intervals above 0 that are farther from every breakpoint than its reach: low, high, changes before."""
    order = np.argsort(kappa - reach, kind="stable")
    opens = np.concatenate([(kappa - reach)[order], [math.inf]])
    closes = np.concatenate([[0.0], np.maximum.accumulate((kappa + reach)[order])]) if len(kappa) else np.zeros(1)
    free = opens > closes
    low, high = closes[free], opens[free]
    return low, high, np.searchsorted(kappa, low, side="right").astype(np.int64)
