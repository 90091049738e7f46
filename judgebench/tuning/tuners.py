"""The ways of choosing lambda and t (config group `tune`), each a class that a config file names.

published.csv holds tables 3 to 5 of "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge" (arXiv
2510.18196), with the models' hub ids for their printed names.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from judgebench.runtime.errors import UserError
from judgebench.tuning.cells import LAMBDAS, TEMPERATURES, Cell, Grid, MeasuredCell, Setting, best_of
from judgebench.types import ScoreRange

FILE = Path(__file__).with_name("published.csv")


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


PER_RANGE = "_per_range"
"""What is added to a decoding's name where it is tuned range by range beside another tuning."""


class Tuner:
    """Base of all ways of tuning.

    Args:
        lambdas, temperatures: the grid, see `Grid`; it is measured, whichever way the choice is made.
        decodings: names of the decodings that are tuned; None: every one that contrasts.

    Attributes:
        needs_dev: True where it chooses by the development split.

    Raises:
        UserError: from the constructor, anything that is not as said here.
    """

    name: ClassVar[str]
    needs_dev: ClassVar[bool] = True

    def __init__(
        self,
        lambdas: Sequence[float] = LAMBDAS,
        temperatures: Sequence[float] = TEMPERATURES,
        decodings: Sequence[str] | None = None,
    ) -> None:
        self.grid = Grid(lambdas, temperatures)
        if isinstance(decodings, str) or (decodings is not None and not all(isinstance(d, str) for d in decodings)):
            raise UserError(f"tune.decodings: {decodings!r} is neither null nor a list of decodings' names.")
        self.decodings = None if decodings is None else tuple(decodings)

    def check(self, cells: Sequence[Cell], models: tuple[str | None, str | None]) -> None:
        """Raises `UserError`, before anything is read, for cells for which nothing can be chosen.

        Args:
            models: main model and assistant as configured (None: it is no model of its own).
        """

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        """The settings of one decoding in all ranges of one dimension: suffix of the decoding's name ("": none) -> a
        setting for each of `measured`."""
        raise NotImplementedError

    def way(self, measured: MeasuredCell) -> str:
        """The name of the tuner that chooses for this cell."""
        return self.name

    def at_edge(self, measured: MeasuredCell, setting: Setting) -> bool:
        """True where a choice lies at an end of what was measured, so that the best may lie beyond."""
        return self.grid.at_edge(setting)


def _grid_best(measured: Sequence[MeasuredCell]) -> list[Setting]:
    return [one.best.setting for one in measured if one.best is not None]


class Dev(Tuner):
    """The CD paper's protocol: per dimension and range, the grid's best Spearman on the development split.

    Of equals the smallest kappa is taken, then the first of the grid: the paper does not say. A point that gives every
    dev text the same score has no correlation, and is taken only where all points do.
    """

    name = "dev"

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        return {"": _grid_best(measured)}


class Exact(Tuner):
    """The exact optimum over all kappa on the development split, per dimension and range; lambda is kappa and t is 1.

    Scores by expectation change with every kappa and have no exact path: they are tuned as by `Dev`, and tuning.json
    says so. See `judgebench.tuning.optimum`.
    """

    name = "exact"

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        pairs = zip(measured, _grid_best(measured), strict=True)
        return {"": [best if one.exact is None else Setting(one.exact.kappa, 1.0) for one, best in pairs]}

    def way(self, measured: MeasuredCell) -> str:
        return Dev.name if measured.exact is None else self.name

    def at_edge(self, measured: MeasuredCell, setting: Setting) -> bool:
        """True where the optimal interval begins at 0, where nothing is contrasted, or never ends."""
        if measured.exact is None:
            return super().at_edge(measured, setting)
        return measured.exact.low == 0 or measured.exact.high == float("inf")


class Shared(Tuner):
    """One setting for all ranges of a dimension: the grid's best mean of dev Spearman over the ranges.

    The ablation of tuning per range, whose choices are kept beside it as the decoding `<name>_per_range`, so that what
    one setting for all loses can be told. Only points with the fewest ranges in which they give every dev text the same
    score are chosen from.
    """

    name = "shared"

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        settings = list(zip(*(one.points for one in measured), strict=True))  # each with its points over the ranges
        means = [fmean(point.dev or 0.0 for point in points) for points in settings]
        constant = [sum(bool(point.constant) for point in points) for points in settings]
        setting = self.grid.settings[best_of(self.grid, means, constant)]
        return {"": [setting] * len(measured), PER_RANGE: _grid_best(measured)}


class Published(Tuner):
    """The CD paper's own choices (its tables 3 to 5), for its models, dimensions and ranges.

    Args:
        main, assistant: hub ids of the paper's models, where the judge's and the assistant's path are others (local
            folders); None takes the paths.
        kwargs: see `Tuner`.
    """

    name = "published"
    needs_dev = False

    def __init__(self, main: str | None = None, assistant: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for key, value in (("main", main), ("assistant", assistant)):
            if value is not None and not isinstance(value, str):
                raise UserError(f"tune.{key}: {value!r} is no model's id.")
        self.main, self.assistant = main, assistant
        self._chosen: Mapping[Cell, Setting] = {}

    def check(self, cells: Sequence[Cell], models: tuple[str | None, str | None]) -> None:
        """See `Tuner.check`; looks the settings up."""
        main, assistant = self.main or models[0], self.assistant or models[1]
        published = published_settings()
        held = published.get((main or "", assistant or ""))
        if held is None:
            pairs = "; ".join(f"{one} with {other}" for one, other in published)
            raise UserError(
                f"tune=published: the paper has no settings for {main} with {assistant or 'no second model'}, only for "
                f"{pairs}; if local folders hold such a pair, say which with tune.main= and tune.assistant=."
            )
        if missing := [cell for cell in cells if cell not in held]:
            named = ", ".join(f"{dimension} {score_range}" for dimension, score_range in missing)
            raise UserError(
                f"tune=published: the paper has no setting for {named}; it has coherence, relevance and consistency in "
                "0-4, 1-5, 2-6 and 3-7. Leave the others out of dimensions and ranges, or take tune=dev."
            )
        self._chosen = held

    def choose(self, measured: Sequence[MeasuredCell]) -> Mapping[str, Sequence[Setting]]:
        return {"": [self._chosen[one.cell] for one in measured]}
