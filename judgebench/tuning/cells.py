"""One dimension and range under one decoding: the settings of lambda and t, and what they are worth on dev and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from judgebench.config.fields import Annotated, Ge, Gt, NotBlank, check_fields
from judgebench.data.dataset import DEV, TEST, rated
from judgebench.decoding.rules import Contrastive
from judgebench.stats.correlation import is_constant, spearman
from judgebench.tuning.optimum import EQUAL, Optimum, optimum
from judgebench.types import Reading, ScoreRange

LAMBDAS = (0.01, 0.1, 0.5, 1.0)
TEMPERATURES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
"""The paper's grid (its section 4)."""


@dataclass(frozen=True, order=True)
class Setting:
    """One choice of the knobs; scores depend on `kappa` alone."""

    lambda_: float
    temperature: float

    @property
    def kappa(self) -> float:
        return self.lambda_ / self.temperature


@dataclass(frozen=True)
class Grid:
    """Every lambda with every t (config keys `tune.lambdas`, `tune.temperatures`).

    Raises:
        UserError: an empty list, or a value out of bounds.

    Example:
        >>> grid = Grid()
        >>> len(grid.settings), len(set(map(same, grid.settings)))
        (24, 18)
    """

    lambdas: Annotated[Sequence[Annotated[float, Ge(0)]], NotBlank()] = LAMBDAS
    temperatures: Annotated[Sequence[Annotated[float, Gt(0)]], NotBlank()] = TEMPERATURES

    def __post_init__(self) -> None:
        check_fields(self, "tune")
        for key in ("lambdas", "temperatures"):
            object.__setattr__(self, key, tuple(map(float, getattr(self, key))))

    @property
    def settings(self) -> list[Setting]:
        """Lambda by lambda, in each t by t."""
        return [Setting(lambda_, temperature) for lambda_ in self.lambdas for temperature in self.temperatures]

    def at_edge(self, setting: Setting) -> bool:
        """True where a setting's kappa is not strictly between the grid's smallest and largest."""
        kappas = [same(one) for one in self.settings]
        return not min(kappas) < same(setting) < max(kappas)


def same(setting: Setting) -> float:
    """Kappa without the last digits, in which 0.1 / 5 and 0.01 / 0.5 may differ: equal ones are one decoding."""
    return float(f"{setting.kappa:.12g}")


Cell = tuple[str, ScoreRange]
"""Dimension and range. Tuning looks at clean texts without a defense; what is chosen serves the others too."""


@dataclass(frozen=True)
class SplitExamples:
    """One split's examples of a cell.

    Attributes:
        main, assistant: [N, K] float32 log-probabilities of the candidates.
        human: [N] float64.
        groups: number of articles.
    """

    main: np.ndarray
    assistant: np.ndarray
    human: np.ndarray
    groups: int

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> SplitExamples:
        """From readings of one condition that have log-probabilities of main model and assistant; those of texts that
        nobody rated are left out."""
        readings = [one for one in readings if rated([one.prompt.example], one.prompt.condition.dimension)]
        examples = [reading.prompt.example for reading in readings]
        return cls(
            np.array([reading.main_logprobs for reading in readings], dtype=np.float32),
            np.array([reading.assistant_logprobs for reading in readings], dtype=np.float32),
            np.array([e.human[r.prompt.condition.dimension] for e, r in zip(examples, readings, strict=True)]),
            len({example.group_id for example in examples}),
        )


@dataclass(frozen=True)
class MeasuredSetting:
    """A setting and what it is worth: Spearman's rho with the humans, None where a split has no example.

    Attributes:
        constant: True where it gives every dev text the same score: then there is no correlation, and `dev` is 0.0 by
            convention; None without dev examples.
    """

    setting: Setting
    dev: float | None
    test: float | None
    constant: bool | None


class MeasuredCell:
    """A cell under one contrasting decoding, of which `alpha` and `rule` count: the worth of any setting there.

    Args:
        parts: split -> its examples; a split without any is left out.
    """

    def __init__(self, cell: Cell, parts: dict[str, SplitExamples], decoding: Contrastive, grid: Grid) -> None:
        self.cell = cell
        self.parts = parts
        self.decoding = decoding
        self.grid = grid
        self._values = np.array(cell[1].values)
        self._known: dict[float, MeasuredSetting] = {}
        self._vectors: dict[float, bytes] = {}

    def at(self, setting: Setting) -> MeasuredSetting:
        """Spearman's rho on dev and test under a setting."""
        key = setting.kappa
        if key not in self._known:
            decoding = replace(self.decoding, lambda_=setting.lambda_, temperature=setting.temperature)
            scores = {s: decoding.scores(p.main, p.assistant, self._values) for s, p in self.parts.items()}
            worth = {split: spearman(scores[split], part.human) for split, part in self.parts.items()}
            constant = is_constant(scores[DEV]) if DEV in scores else None
            self._known[key] = MeasuredSetting(setting, worth.get(DEV), worth.get(TEST), constant)
            self._vectors[key] = b"".join(scores[split].tobytes() for split in sorted(scores))
        return replace(self._known[key], setting=setting)

    @cached_property
    def points(self) -> list[MeasuredSetting]:
        return [self.at(setting) for setting in self.grid.settings]

    @cached_property
    def distinct(self) -> tuple[int, int]:
        """Numbers of different kappas in the grid, and of different vectors of scores (over both splits)."""
        settings = [point.setting for point in self.points]
        return len(set(map(same, settings))), len({self._vectors[setting.kappa] for setting in settings})

    @cached_property
    def best(self) -> MeasuredSetting | None:
        """The grid's best by dev, see `best_of`; None without dev examples."""
        values = [point.dev for point in self.points if point.dev is not None]
        constant = [int(bool(point.constant)) for point in self.points]
        return self.points[best_of(self.grid, values, constant)] if values else None

    @cached_property
    def exact(self) -> Optimum | None:
        """The best over all kappa, by dev; None without dev examples, and where scores are expectations: these change
        with every kappa, so there is no path."""
        part = self.parts.get(DEV)
        if part is None or self.decoding.rule != "argmax":
            return None
        return optimum(part.main, part.assistant, self._values, part.human, self.decoding.alpha)


def best_of(grid: Grid, values: Sequence[float], constant: Sequence[int]) -> int:
    """Index of the grid's setting with the largest value; of equals, but for rounding, the smallest kappa, which
    changes the judge least, then the first.

    Args:
        values: of the settings, in the grid's order.
        constant: in how many ranges each setting gives every text the same score. Those with the fewest alone are
            chosen from: the 0.0 that stands for such a correlation is no value, and would beat every negative one.
    """
    least = min(constant)
    top = max(value for value, count in zip(values, constant, strict=True) if count == least)
    settings = grid.settings
    best = (i for i, value in enumerate(values) if constant[i] == least and value >= top - EQUAL)
    return min(best, key=lambda i: (same(settings[i]), i))


def examples_by_cell(readings: Sequence[Reading]) -> dict[Cell, dict[str, SplitExamples]]:
    """Cell -> split -> examples that somebody rated, of the readings of clean texts without a defense, in order of
    appearance."""
    held: dict[Cell, dict[str, list[Reading]]] = {}
    for reading in readings:
        condition = reading.prompt.condition
        if (condition.attack, condition.defense) == ("none", "none"):
            held.setdefault((condition.dimension, condition.range), {}).setdefault(reading.split, []).append(reading)
    made = {cell: {split: SplitExamples.of(rows) for split, rows in splits.items()} for cell, splits in held.items()}
    return {cell: {split: part for split, part in splits.items() if len(part.human)} for cell, splits in made.items()}
