"""The ways of choosing lambda and t (config group `tune`), each a class that a config file names,
and what a setting is worth in one dimension and range.

published.csv holds tables 3 to 5 of "Contrastive Decoding Mitigates Score Range Bias in
LLM-as-a-Judge" (arXiv 2510.18196), with the models' hub ids for their printed names.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from judgebench.data.dataset import DEV, TEST
from judgebench.decoding.rules import Contrastive
from judgebench.decoding.scores import ranged
from judgebench.settings.fields import Annotated, Ge, Gt, NotBlank, OneOf, check_fields
from judgebench.stats.correlation import is_constant, spearman
from judgebench.types import Array, RatingKey, Reading, ScoreRange
from judgebench.words.errors import UserError

EQUAL = 1e-12
"""Correlations closer than this are one: they differ by the rounding of a square root."""

LAMBDAS = (0.01, 0.1, 0.5, 1.0)
TEMPERATURES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
"""The paper's grid (its section 4)."""

FILE = Path(__file__).with_name("published.csv")


class Setting(NamedTuple):
    """One choice of the hyperparameters; scores depend on `kappa` alone."""

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
        cell: RatingKey,
        readings: Mapping[str, Sequence[Reading]],
        decoding: Contrastive,
        grid: Sequence[Setting],
    ) -> None:
        self.cell = cell
        self.readings = readings
        self.decoding = decoding
        self.grid = grid
        self._sides = {
            split: (
                ranged(rows),
                np.array([reading.prompt.example.human[cell[0]] for reading in rows]),
            )
            for split, rows in readings.items()
        }
        self._scores: dict[float, dict[str, Array]] = {}

    def scores(self, setting: Setting) -> dict[str, Array]:
        """Split -> the scores [n] of its texts."""
        if setting.kappa not in self._scores:
            decoding = replace(
                self.decoding, lambda_=setting.lambda_, temperature=setting.temperature
            )
            self._scores[setting.kappa] = {
                split: decoding.scores(*side) for split, (side, _) in self._sides.items()
            }
        return self._scores[setting.kappa]

    def at(self, setting: Setting) -> Point:
        """The worth of a setting."""
        scores = self.scores(setting)
        rho = {split: spearman(scores[split], human) for split, (_, human) in self._sides.items()}
        return {
            "lambda": setting.lambda_,
            "temperature": setting.temperature,
            "kappa": setting.kappa,
            DEV: rho.get(DEV),
            TEST: rho.get(TEST),
            "constant": is_constant(scores[DEV]) if DEV in scores else None,
        }

    @cached_property
    def points(self) -> list[Point]:
        return [self.at(setting) for setting in self.grid]

    @cached_property
    def vectors(self) -> int:
        """The number of different vectors of scores that the grid gives, over both splits."""
        vectors = set()
        for setting in self.grid:
            vectors.add(tuple(np.concatenate([*self.scores(setting).values()]).tolist()))
        return len(vectors)

    @cached_property
    def best(self) -> Setting | None:
        """The grid's best by dev, see `best_point`; None without dev examples."""
        if DEV not in self.readings:
            return None
        values = [float(point[DEV] or 0) for point in self.points]
        constant = [bool(point["constant"]) for point in self.points]
        return self.grid[best_point(self.grid, values, constant)]


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

    def check(self, cells: Sequence[RatingKey], models: tuple[str | None, str | None]) -> None:
        """Raises `UserError`, before anything is read, for cells for which nothing can be chosen.

        Args:
            models: main model and assistant as configured (None: it is no model of its own).
        """

    def choose(self, measured: MeasuredCell) -> Setting | None:
        """The setting of one decoding in one dimension and range; None where nothing can be
        chosen there."""
        raise NotImplementedError

    def at_edge(self, setting: Setting) -> bool:
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

    def choose(self, measured: MeasuredCell) -> Setting | None:
        return measured.best


METRICS = ("spearman", "pearson", "error", "pairs", "agreement")
"""What a setting may be chosen for: a correlation with the humans' scores; the mean absolute error
of its scores after a straight line to theirs; the share of pairs of texts with different labels
that it orders as the humans do; the share of texts in the humans' class."""

FEW_LABELS = 5
"""Values of labels below which settings are chosen for pairs, as long as nothing else is asked for:
a rank correlation with so many ties cannot come near 1, and rewards scores that are tied, too."""


@dataclass
class CrossFit(Tuner):
    """Every article's lambda and t, weights and thresholds are learned from the articles of other
    folds, so that all articles are test articles; see `judgebench.tuning.choose`.

    Attributes:
        folds: into which the articles are dealt to learn, and twice as many to test the choice;
            fewer where fewer were rated.
        repeats: dealings with another seed, over which the promise of the choice is averaged.
        metric: what judge, decoding and range are chosen for; None: see `metric_of`. Kappa is
            always chosen for Spearman.
    """

    folds: Annotated[int, Ge(2)] = 5
    repeats: Annotated[int, Ge(1)] = 3
    metric: Annotated[str, OneOf(METRICS)] | None = None
    seed: int = 0
    name = "crossfit"
    needs_dev = False

    def metric_of(self, labels: int, ordered: bool = True) -> str:
        """The metric that a setting is chosen for, of labels with so many values, or of classes without
        order: agreement of these, pairs of fewer than `FEW_LABELS`, else Spearman."""
        if self.metric is not None:
            return self.metric
        if not ordered:
            return "agreement"
        return "pairs" if labels < FEW_LABELS else "spearman"


@cache
def published_settings() -> Mapping[tuple[str, str], Mapping[RatingKey, Setting]]:
    """The paper's settings: (main, assistant) -> (dimension, range) -> setting."""
    rows: dict[tuple[str, str], dict[RatingKey, Setting]] = {}
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

    def check(self, cells: Sequence[RatingKey], models: tuple[str | None, str | None]) -> None:
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

    def choose(self, measured: MeasuredCell) -> Setting | None:
        return self._settings[measured.cell]
