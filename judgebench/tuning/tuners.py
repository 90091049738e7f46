"""The ways of choosing lambda and t (config group `tune`), each a class that a config file names,
and what a setting is worth in one dimension and range.

published.csv holds tables 3 to 5 of "Contrastive Decoding Mitigates Score Range Bias in
LLM-as-a-Judge" (arXiv 2510.18196), with the models' hub ids for their printed names.

`optimum` is exact over all kappa = lambda / t in [0, inf), along the path of greedy scores. At
kappa a candidate k of an example has the adjusted score m_k - kappa * a_k (`contrast`), a line in
kappa. The greedy score is the candidate on top, so an example's path is the upper envelope of K
lines: it starts at the main model's best candidate, moves to ever smaller a_k, and changes at most
K - 1 times. Between two neighboring breakpoints of all examples together no score changes, and
whatever depends on scores alone is constant. From piece to piece a change moves one example, so
correlations follow from sums of whole numbers along the path, which are exact.

*At a breakpoint* two candidates of an example tie. Decoding computes in float64 and takes the first
candidate of a tie, but whether rounding leaves the tie standing is chance, there and as far around
as rounding reaches (about 1e-12 of kappa, by the readings' resolution). The pieces of a path
therefore are the open intervals between those neighborhoods: on each, `Contrastive` gives the
piece's scores bit by bit. Breakpoints whose neighborhoods overlap count as one. *At kappa = 0* the
decoding is the plain one: candidates that tie in the main model tie there, the first wins, and any
kappa above 0 may decide otherwise; then 0 is a piece of its own.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from judgebench.config.fields import Annotated, Ge, Gt, NotBlank, OneOf, check_fields
from judgebench.data.dataset import DEV, TEST
from judgebench.decoding.rules import (
    LARGEST_KAPPA,
    Contrastive,
    checked_logprobs,
    floored,
    plausible,
)
from judgebench.runtime.errors import UserError
from judgebench.stats.correlation import is_constant, ratio, spearman, tied_ranks
from judgebench.types import LABELS, RANGE, Reading, ScoreRange

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 8 * np.finfo(np.float64).eps
"""Generous for the two roundings of m - kappa * a, in each of the two candidates that are
compared."""


@dataclass(frozen=True)
class KappaPath:
    """Greedy contrastive scores of N examples with K candidates, on all P pieces of [0, inf).

    Attributes:
        values: [K] the candidates as numbers, ascending.
        start: [N] int64, the candidate at kappa = 0.
        kappa: [E] float64 ascending, the breakpoints of single examples, up to the largest kappa
            that may be decoded.
        example, before, after: [E] int64, whose score changes there, from which candidate to which.
        low, high: [P] float64, the pieces, ascending; the last never ends (inf). The first begins
            at 0 and holds there too; it is [0, 0] where 0 is a piece of its own.
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
        candidate = self.start.copy()
        changed = slice(int(self.reached[piece]))
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


def kappa_path(
    main: np.ndarray, assistant: np.ndarray, values: np.ndarray, alpha: float = 0.0
) -> KappaPath:
    """The path of `Contrastive(kappa, alpha=alpha).scores(main, assistant, values)`, for `rule`
    argmax, of log-probabilities [N, K] and candidates [K]. Time goes as N * K * K at worst.
    ValueError for shapes that do not fit, NaN or +inf, or values that do not ascend."""
    values = np.asarray(values, dtype=np.float64)
    main = checked_logprobs("main", main, values)
    assistant = checked_logprobs("assistant", assistant, values)
    if len(main) != len(assistant):
        raise ValueError(
            f"assistant must have the main model's {len(main)} rows, got {len(assistant)}"
        )
    slopes = floored(assistant)
    heights = np.where(plausible(main, alpha), main, -math.inf)

    # 1. At kappa = 0 the first of equal heights wins; just above, the one of them that sinks least.
    plain = heights.argmax(axis=1)
    possible = np.isfinite(heights.max(axis=1))  # a row of zeros stays at its first candidate
    start = np.where(
        possible, _least(slopes, heights, heights == heights.max(axis=1, keepdims=True)), plain
    )
    tied = np.flatnonzero(plain != start)

    # 2. The changes in the order of kappa; those of the ties at 0 come first.
    changes = [
        (np.zeros(len(tied)), tied, plain[tied], start[tied]),
        *_changes(heights, slopes, start, possible),
    ]
    kappa, example, before, after = (np.concatenate(part) for part in zip(*changes, strict=True))
    order = np.argsort(kappa, kind="stable")
    kappa = kappa[order]
    example = example[order]
    before = before[order]
    after = after[order]

    # 3. Within its reach of a breakpoint rounding may decide: farther away the winner leads any
    # other line by at least the distance times the smallest gap of slopes, which is more than the
    # rounding of m - kappa * a.
    height = np.abs(np.where(np.isfinite(heights), heights, 0.0)).max(axis=1, initial=0.0)
    slope = np.abs(slopes).max(axis=1, initial=0.0)
    gaps = np.diff(np.sort(slopes, axis=1), axis=1)
    least = np.where(gaps > 0, gaps, math.inf).min(axis=1, initial=math.inf)
    reach = _ROUNDING * (height[example] + kappa * slope[example]) / least[example]

    # 4. The pieces are the open intervals above 0 that are farther from every breakpoint than its
    # reach.
    order = np.argsort(kappa - reach, kind="stable")
    opens = np.concatenate([(kappa - reach)[order], [math.inf]])
    closes = np.concatenate([[0.0], np.maximum.accumulate((kappa + reach)[order])])
    low = closes[opens > closes]
    high = opens[opens > closes]
    reached = np.searchsorted(kappa, low, side="right").astype(np.int64)
    if reached[0]:  # something changes at 0, or too near to tell: 0 is a piece of its own
        low, high, reached = (
            np.concatenate([np.zeros(1, part.dtype), part]) for part in (low, high, reached)
        )
    return KappaPath(values, plain, kappa, example, before, after, low, high, reached)


def _changes(
    heights: np.ndarray, slopes: np.ndarray, start: np.ndarray, possible: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """All changes above 0, every example's next one at a time: kappa, example, candidate before and
    after."""
    rows = np.flatnonzero(possible)
    now = start[possible]
    reached = np.zeros(int(possible.sum()))
    while rows.size:
        here = np.arange(len(rows))
        gaps = slopes[rows, now][:, None] - slopes[rows]  # above 0 for what may still overtake
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at = np.where(gaps > 0, (heights[rows, now][:, None] - heights[rows]) / gaps, math.inf)
        soonest = at.min(axis=1)
        # of what overtakes together the one that sinks least goes on
        after = _least(slopes[rows], heights[rows], at == soonest[:, None])
        # rounding must not turn the order of an example's changes
        reached = np.maximum(reached, soonest)
        going = here[reached <= LARGEST_KAPPA]
        rows = rows[going]
        now = now[going]
        after = after[going]
        reached = reached[going]
        yield reached, rows, now, after
        now = after


def _least(slopes: np.ndarray, heights: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Of the allowed lines the one with the smallest slope, of such the highest, of such the first:
    [N, K] -> [N]."""
    least = np.where(allowed, slopes, math.inf)
    allowed = allowed & (least == least.min(axis=1, keepdims=True))
    return np.where(allowed, heights, -math.inf).argmax(axis=1)


def spearman_along(path: KappaPath, human: np.ndarray) -> np.ndarray:
    """Spearman's rho of the scores on each piece with `human` [N] -> [P]; 0.0 where either is
    constant; ValueError for another shape, NaN or infinite values."""
    human = np.asarray(human, dtype=np.float64)
    if human.shape != path.start.shape:
        raise ValueError(f"human must have shape [{len(path.start)}], got {list(human.shape)}")
    if not np.isfinite(human).all():
        raise ValueError("human must be finite numbers")
    # twice the distance from the mean rank, whole numbers
    ranks = np.add(*tied_ranks(human)) - (len(human) + 1)
    counts = path.sums(np.ones(len(human), dtype=np.int64))
    places = 2 * counts.cumsum(axis=1) - counts - len(human)
    varied = (counts * places * places).sum(axis=1)
    human_varied = np.full(len(path), (ranks * ranks).sum())
    return ratio(
        *(
            part.astype(np.float64)
            for part in ((places * path.sums(ranks)).sum(axis=1), varied, human_varied)
        )
    )


def constant_along(path: KappaPath) -> np.ndarray:
    """True where all scores on a piece are equal: [P] bool; see
    `judgebench.stats.correlation.is_constant`."""
    counts = path.sums(np.ones(len(path.start), dtype=np.int64))
    return np.asarray((counts > 0).sum(axis=1) <= 1)


EQUAL = 1e-12
"""Correlations closer than this are one: they differ by the rounding of a square root."""


@dataclass(frozen=True)
class Optimum:
    """The best Spearman's rho with the humans over all kappa in [0, inf), and the intervals that
    reach it.

    Kappas that give every text the same score have no correlation: they are left out unless all are
    such.

    Attributes:
        kappa: the recommended one, of several optimal intervals: 0 where one begins at 0 and holds
            there, for then the plain decoding is as good as any; else the middle of the widest that
            ends (of equally wide ones the first); else, in one that never ends, twice its lower
            end, or 1 if that is 0. Never to end is no merit: far out the assistant alone decides.
        value: the best Spearman; that of `kappa`, and of every kappa inside an optimal interval.
        constant: True where every kappa gives all texts the same score; `value` is then 0.0 by
            convention.
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
    main: np.ndarray,
    assistant: np.ndarray,
    values: np.ndarray,
    human: np.ndarray,
    alpha: float = 0.0,
) -> Optimum:
    """The best kappa for contrastive decoding by argmax; see `kappa_path`, which names the
    arguments and errors.

    Its scores are those of `Contrastive(kappa, alpha=alpha)` bit by bit, which is checked: a piece
    so small that decoding within it rounds to other scores is of no use and is passed over.

    Args:
        human: [N] the human scores.
    """
    path = kappa_path(main, assistant, values, alpha)
    rho = spearman_along(path, human)
    constant = constant_along(path)
    usable = np.ones(len(path), dtype=bool)
    # ends at the latest at kappa = 0, where the path is what decoding does by definition
    while True:
        choice = usable & ~constant if (usable & ~constant).any() else usable
        best = np.flatnonzero(choice & (rho >= rho[choice].max() - EQUAL))
        # of the best pieces kappa = 0 where it is among them, else the widest that ends, else the
        # last
        width = path.high[best] - path.low[best]
        piece = 0 if best[0] == 0 else int(best[np.argmax(np.where(np.isinf(width), -1.0, width))])
        low = float(path.low[piece])
        high = float(path.high[piece])
        kappa = min(2 * low or 1.0, LARGEST_KAPPA) if np.isinf(high) else (low + high) / 2
        kappa = 0.0 if piece == 0 else kappa
        decoded = Contrastive(kappa, alpha=alpha).scores(main, assistant, values)
        if np.array_equal(decoded, path.scores(piece)):
            break
        usable[piece] = False
    intervals = tuple((float(path.low[piece]), float(path.high[piece])) for piece in best)
    return Optimum(
        kappa, float(rho[piece]), bool(constant[piece]), low, high, intervals, len(path) - 1
    )


# --- paths of a run folder ----------------------------------------------------------------------


def split_arrays(
    readings: pd.DataFrame, scores: pd.DataFrame, cell: Mapping[str, Any]
) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Split -> main and assistant [N, K] float32 and human [N] float64 of the rated texts of a
    dimension and range, without attack and defense, from the run folder's readings and scores."""
    parts = []
    for frame in (readings, scores):
        kept = (frame["attack"] == "none") & (frame["defense"] == "none")
        for name in ("dimension", *RANGE, *([LABELS] if LABELS in frame else [])):
            kept &= frame[name] == cell.get(name, "")
        parts.append(frame[kept])
    human = parts[0]["example_id"].map(
        dict(zip(parts[1]["example_id"], parts[1]["human"], strict=True))
    )
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
    """A step function of kappa on [0, inf): the `value` [P] of each step from its `start` [P] on,
    ascending from 0."""

    start: np.ndarray
    value: np.ndarray


def curves(
    readings: pd.DataFrame, scores: pd.DataFrame, record: Mapping[str, Any]
) -> dict[str, KappaCurve]:
    """Split -> Spearman's rho of the greedy contrastive scores with the humans, exactly, as a
    function of kappa, in the cell of a record of tuning.json (see `split_arrays`); none where its
    rule is expectation: such scores have no path."""
    if record["rule"] != "argmax":
        return {}
    steps = {}
    for split, (main, assistant, human) in split_arrays(readings, scores, record).items():
        path = kappa_path(
            main, assistant, np.array(ScoreRange.of(record).values), float(record["alpha"])
        )
        rho = spearman_along(path, human)
        first = np.concatenate([[True], np.diff(rho) != 0])
        steps[split] = KappaCurve(path.low[first], rho[first])
    return steps


# --- tuners -------------------------------------------------------------------------------------


LAMBDAS = (0.01, 0.1, 0.5, 1.0)
TEMPERATURES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
"""The paper's grid (its section 4)."""

FILE = Path(__file__).with_name("published.csv")

PER_RANGE = "_per_range"
"""What is added to a decoding's name where it is tuned range by range beside another tuning."""

Cell = tuple[str, ScoreRange]
"""Dimension and range. Tuning looks at clean texts without a defense; what is chosen serves the
others too."""


class Setting(NamedTuple):
    """One choice of the knobs; scores depend on `kappa` alone."""

    lambda_: float
    temperature: float

    @property
    def kappa(self) -> float:
        return self.lambda_ / self.temperature

    @property
    def same(self) -> float:
        """Kappa without the last digits, in which 0.1 / 5 and 0.01 / 0.5 may differ: equal ones are
        one decoding."""
        return float(f"{self.kappa:.12g}")


Point = dict[str, float | bool | None]
"""A setting and its worth, as in tuning.json: lambda, temperature, kappa; dev and test, Spearman's
rho with the humans (None where a split has no example); constant, true where every dev text gets
the same score: then there is no correlation, and dev is 0.0 by convention (None without dev
examples)."""


class MeasuredCell:
    """A cell under one contrasting decoding, of which `alpha` and `rule` count: the worth of any
    setting there.

    Attributes:
        readings: split -> the readings of rated clean texts without a defense; a split without any
            is left out.
    """

    def __init__(
        self,
        cell: Cell,
        readings: Mapping[str, Sequence[Reading]],
        decoding: Contrastive,
        grid: Sequence[Setting],
    ) -> None:
        self.cell = cell
        self.readings = readings
        self.decoding = decoding
        self.grid = grid
        self._values = np.array(cell[1].values)
        self._arrays = {
            split: (
                np.array([reading.main_logprobs for reading in rows], dtype=np.float32),
                np.array([reading.assistant_logprobs for reading in rows], dtype=np.float32),
                np.array([reading.prompt.example.human[cell[0]] for reading in rows]),
            )
            for split, rows in readings.items()
        }
        self._measured: dict[float, tuple[Point, bytes]] = {}

    def at(self, setting: Setting) -> Point:
        """The worth of a setting."""
        return {"lambda": setting.lambda_, "temperature": setting.temperature} | self._at(setting)[
            0
        ]

    def _at(self, setting: Setting) -> tuple[Point, bytes]:
        """Worth and vectors of scores, by kappa."""
        if setting.kappa not in self._measured:
            decoding = replace(
                self.decoding, lambda_=setting.lambda_, temperature=setting.temperature
            )
            scores = {
                split: decoding.scores(main, assistant, self._values)
                for split, (main, assistant, _) in self._arrays.items()
            }
            rho = {split: spearman(scores[split], self._arrays[split][2]) for split in scores}
            point: Point = {"kappa": setting.kappa, DEV: rho.get(DEV), TEST: rho.get(TEST)}
            point["constant"] = is_constant(scores[DEV]) if DEV in scores else None
            self._measured[setting.kappa] = (
                point,
                b"".join(scores[split].tobytes() for split in sorted(scores)),
            )
        return self._measured[setting.kappa]

    @cached_property
    def points(self) -> list[Point]:
        return [self.at(setting) for setting in self.grid]

    @cached_property
    def vectors(self) -> int:
        """The number of different vectors of scores that the grid gives, over both splits."""
        return len({self._at(setting)[1] for setting in self.grid})

    @cached_property
    def best(self) -> Setting | None:
        """The grid's best by dev, see `best_point`; None without dev examples."""
        if DEV not in self.readings:
            return None
        values, constant = (
            [float(point[key] or 0) for point in self.points] for key in (DEV, "constant")
        )
        return self.grid[best_point(self.grid, values, constant)]

    @cached_property
    def exact(self) -> Optimum | None:
        """The best over all kappa, by dev; None without dev examples, and where scores are
        expectations: these change with every kappa, so there is no path."""
        if DEV not in self.readings or self.decoding.rule != "argmax":
            return None
        main, assistant, human = self._arrays[DEV]
        return optimum(main, assistant, self._values, human, self.decoding.alpha)


def best_point(grid: Sequence[Setting], values: Sequence[float], constant: Sequence[float]) -> int:
    """Index of the setting with the largest of `values`; of equals, but for rounding, the smallest
    kappa, which changes the judge least, then the first. Only settings that give every text the
    same score in the fewest ranges (`constant`) are chosen from: the 0.0 that stands for such a
    correlation is no value, and would beat every negative one."""
    least = min(constant)
    top = max(value for value, number in zip(values, constant, strict=True) if number == least)
    best = (i for i, value in enumerate(values) if constant[i] == least and value >= top - EQUAL)
    return min(best, key=lambda i: (grid[i].same, i))


@dataclass
class Tuner:
    """Base of all ways of tuning; `UserError` of fields that hold something else.

    Attributes:
        lambdas, temperatures: the grid is every lambda with every t; it is measured, whichever way
            the choice is made.
        decodings: names of the decodings that are tuned; None: every one that contrasts.
        needs_dev: True where it chooses by the development split.

    Example:
        >>> grid = Dev().grid
        >>> len(grid), len({setting.same for setting in grid})
        (24, 18)
    """

    lambdas: Annotated[Sequence[Annotated[float, Ge(0)]], NotBlank()] = LAMBDAS
    temperatures: Annotated[Sequence[Annotated[float, Gt(0)]], NotBlank()] = TEMPERATURES
    decodings: Sequence[str] | None = None
    name: ClassVar[str]
    needs_dev: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "tune")

    @cached_property
    def grid(self) -> list[Setting]:
        """Lambda by lambda, in each t by t."""
        return [
            Setting(float(lambda_), float(t)) for lambda_ in self.lambdas for t in self.temperatures
        ]

    def check(self, cells: Sequence[Cell], models: tuple[str | None, str | None]) -> None:
        """Raises `UserError`, before anything is read, for cells for which nothing can be chosen.

        Args:
            models: main model and assistant as configured (None: it is no model of its own).
        """

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        """The settings of one decoding in all ranges of one dimension: suffix of the decoding's
        name ("": none) -> a setting for each of `measured`."""
        raise NotImplementedError

    def way(self, measured: MeasuredCell) -> str:
        """The name of the tuner that chooses for this cell."""
        return self.name

    def at_edge(self, measured: MeasuredCell, setting: Setting) -> bool:
        """True where a choice lies at an end of what was measured, so that the best may lie beyond:
        its kappa is not strictly between the grid's smallest and largest."""
        kappas = [point.same for point in self.grid]
        return not min(kappas) < setting.same < max(kappas)


class Dev(Tuner):
    """The CD paper's protocol: per dimension and range, the grid's best Spearman on the development
    split.

    Of equals the smallest kappa is taken, then the first of the grid: the paper does not say. A
    point that gives every dev text the same score has no correlation, and is taken only where all
    points do.
    """

    name = "dev"

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        return {"": [cell.best for cell in measured if cell.best is not None]}


METRICS = ("spearman", "pearson", "error", "stability", "rps")
"""What a setting may be chosen for: a correlation with the humans' scores; the mean absolute error
of its scores after a straight line to theirs; how little its scores depend on the range (distance
from their mean over all ranges); the ranked probability score of its distribution against single
raters' scores (of a free answer: the humans' mean), its range mapped to their scale end to end."""


@dataclass
class CrossFit(Tuner):
    """Every article's lambda and t, weights and thresholds are learned from the articles of other
    folds, so that all articles are test articles; see `judgebench.tuning.choose`.

    Attributes:
        folds: into which the articles are dealt to learn, and twice as many to test the choice;
            fewer where fewer were rated.
        repeats: dealings with another seed, over which the promise of the choice is averaged.
        metric: what judge, decoding and range are chosen for; kappa is always chosen for Spearman.
    """

    folds: Annotated[int, Ge(2)] = 5
    repeats: Annotated[int, Ge(1)] = 3
    metric: Annotated[str, OneOf(METRICS)] = "spearman"
    seed: int = 0
    name = "crossfit"
    needs_dev = False


class Exact(Dev):
    """The exact optimum over all kappa on the development split, per dimension and range; lambda is
    kappa and t is 1.

    Scores by expectation change with every kappa and have no exact path: they are tuned as by
    `Dev`, and tuning.json says so. See `judgebench.tuning.tuners`.
    """

    name = "exact"

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        pairs = zip(measured, super().choose(measured)[""], strict=True)
        return {
            "": [
                best if cell.exact is None else Setting(cell.exact.kappa, 1.0)
                for cell, best in pairs
            ]
        }

    def way(self, measured: MeasuredCell) -> str:
        return Dev.name if measured.exact is None else self.name

    def at_edge(self, measured: MeasuredCell, setting: Setting) -> bool:
        """True where the optimal interval begins at 0, where nothing is contrasted, or never
        ends."""
        if measured.exact is None:
            return super().at_edge(measured, setting)
        return measured.exact.low == 0 or measured.exact.high == float("inf")


class Shared(Dev):
    """One setting for all ranges of a dimension: the grid's best mean of dev Spearman over the
    ranges.

    The ablation of tuning per range, whose choices are kept as the decoding `<name>_per_range`, so
    that the loss by one setting for all can be seen. Only points with the fewest ranges in which
    they give every dev text the same score are chosen from.
    """

    name = "shared"

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        # of each setting, over the ranges
        points = list(zip(*(cell.points for cell in measured), strict=True))
        means = [fmean(float(point[DEV] or 0) for point in of_setting) for of_setting in points]
        constant = [sum(bool(point["constant"]) for point in of_setting) for of_setting in points]
        setting = self.grid[best_point(self.grid, means, constant)]
        return {"": [setting] * len(measured), PER_RANGE: super().choose(measured)[""]}


@cache
def published_settings() -> Mapping[tuple[str, str], Mapping[Cell, Setting]]:
    """The paper's settings: (main, assistant) -> (dimension, range) -> setting."""
    rows: dict[tuple[str, str], dict[Cell, Setting]] = {}
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            cell = (row["dimension"], ScoreRange(float(row["range_min"]), float(row["range_max"])))
            setting = Setting(float(row["lambda"]), float(row["temperature"]))
            rows.setdefault((row["main"], row["assistant"]), {})[cell] = setting
    return rows


@dataclass
class Published(Tuner):
    """The CD paper's own choices (its tables 3 to 5), for its models, dimensions and ranges.

    Attributes:
        main, assistant: hub ids of the paper's models, where the judge's and the assistant's path
            are others (local folders); None takes the paths.
    """

    main: str | None = None
    assistant: str | None = None
    name = "published"
    needs_dev = False

    def check(self, cells: Sequence[Cell], models: tuple[str | None, str | None]) -> None:
        main = self.main or models[0]
        assistant = self.assistant or models[1]
        published = published_settings()
        if (main or "", assistant or "") not in published:
            pairs = "; ".join(f"{first} with {second}" for first, second in published)
            raise UserError(
                f"tune=published: the paper has no settings for {main} with "
                f"{assistant or 'no second model'}, only for {pairs}; if local folders hold such a "
                "pair, say which with tune.main= and tune.assistant=."
            )
        self._settings = published[main or "", assistant or ""]
        if missing := [cell for cell in cells if cell not in self._settings]:
            names = ", ".join(f"{dimension} {score_range}" for dimension, score_range in missing)
            raise UserError(
                f"tune=published: the paper has no setting for {names}; it has coherence, "
                "relevance and consistency in 0-4, 1-5, 2-6 and 3-7. Leave the others out of "
                "dimensions and ranges, or take tune=dev."
            )

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        return {"": [self._settings[cell.cell] for cell in measured]}
