"""What a sweep is asked for, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgebench.runtime.errors import UserError


@dataclass(frozen=True)
class Settings:
    """What `hydra.sweeper` asks for; conf/hydra/sweeper/optuna.yaml says what each means.

    Raises:
        UserError: a value that cannot be.
    """

    sampler: Mapping[str, Any]
    directions: str | Sequence[str] = ("maximize",)
    storage: str | None = None
    study_name: str | None = None
    n_trials: int | None = None
    n_jobs: int = 1
    max_failure_rate: float = 0.25
    seed: int | None = None
    retry_failed: bool = False
    heartbeat: float = 10.0
    may_differ: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directions", _texts("direction", self.directions))
        object.__setattr__(self, "may_differ", _texts("may_differ", self.may_differ))
        if self.study_name is not None:
            object.__setattr__(self, "study_name", str(self.study_name))  # a name of digits is a number to YAML
        for name, least in (("n_trials", 1), ("n_jobs", 1), ("seed", 0)):
            value = getattr(self, name)
            optional = name != "n_jobs" and value is None
            if not optional and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise UserError(f"hydra.sweeper.{name}: {value!r} is not a whole number of at least {least}.")
        for name, low, high in (("max_failure_rate", 0.0, 1.0), ("heartbeat", 0.1, math.inf)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
                bounds = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
                raise UserError(f"hydra.sweeper.{name}: {value!r} is not a number {bounds}.")
        if not isinstance(self.retry_failed, bool):
            raise UserError(f"hydra.sweeper.retry_failed: {self.retry_failed!r} is neither true nor false.")
        if self.storage is not None and not self.study_name:
            raise UserError(
                "hydra.sweeper.study_name: a study that is kept needs a name, under which other workers and a later "
                "start find it."
            )


def _texts(name: str, given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        raise UserError(f"hydra.sweeper.{name}: {given!r} is neither a text nor a list of texts.")
    return list(texts)
