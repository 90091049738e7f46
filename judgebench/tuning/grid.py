"""The grid of lambda and t that the CD paper searches, and what a development split says of its points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.runtime.errors import UserError

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
    """Every lambda with every t.

    Attributes:
        lambdas: at least 0 (config key `tune.lambdas`).
        temperatures: above 0 (`tune.temperatures`).

    Raises:
        UserError: an empty list, or a value outside of these bounds.

    Example:
        >>> grid = Grid()
        >>> len(grid.settings), len(set(map(same, grid.settings)))
        (24, 18)
    """

    lambdas: Sequence[float] = LAMBDAS
    temperatures: Sequence[float] = TEMPERATURES

    def __post_init__(self) -> None:
        for key, least in (("lambdas", "at least 0"), ("temperatures", "above 0")):
            given: Any = getattr(self, key)
            # Hydra's lists are sequences of their own kind
            if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
                raise UserError(f"tune.{key}: {given!r} is not a list with at least one number.")
            for one in given:
                number = isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)
                if not number or one < 0 or (one == 0 and key == "temperatures"):
                    raise UserError(f"tune.{key}: {one!r} is not a finite number {least}.")
            object.__setattr__(self, key, tuple(float(one) for one in given))

    @property
    def settings(self) -> list[Setting]:
        """Lambda by lambda, in each t by t."""
        return [Setting(lambda_, temperature) for lambda_ in self.lambdas for temperature in self.temperatures]

    def at_edge(self, setting: Setting) -> bool:
        """Whether a setting's kappa is not strictly between the grid's smallest and largest."""
        kappas = [same(one) for one in self.settings]
        return not min(kappas) < same(setting) < max(kappas)


def same(setting: Setting) -> float:
    """Kappa without the last digits, in which 0.1 / 5 and 0.01 / 0.5 may differ: equal ones are one decoding."""
    return float(f"{setting.kappa:.12g}")
