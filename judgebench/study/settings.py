"""The settings of a sweep, checked before anything runs, and the sampler that they name."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hydra.utils import instantiate
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler

from judgebench.runtime.errors import UserError


@dataclass(frozen=True)
class Settings:
    """The settings under `hydra.sweeper`; conf/hydra/sweeper/optuna.yaml says what each means.

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


_LISTED = ("GridSampler", "BruteForceSampler")
"""Every point once is what `claims` does; these would hand a point to two workers, and end with an exception."""

_EXAMPLE = "give for example {_target_: optuna.samplers.TPESampler}"


def is_grid(sampler: Mapping[str, Any]) -> bool:
    """True where every point is run once, so that nothing is left to sample."""
    return sampler_name(sampler) in _LISTED


def sampler_name(sampler: Mapping[str, Any]) -> str:
    """The sampler's class, without its module.

    Raises:
        UserError: none is named.
    """
    target = sampler.get("_target_") if hasattr(sampler, "get") else None
    if not isinstance(target, str) or not target:
        raise UserError(f"hydra.sweeper.sampler: {sampler!r} names no class; {_EXAMPLE}.")
    return target.rpartition(".")[2]


def sampler_for(sampler: Mapping[str, Any], seed: int | None) -> Callable[[int], BaseSampler]:
    """Trial number -> the sampler that draws its point.

    With a seed, each trial gets a generator of its own, drawn from seed and number: two workers never draw the same
    row of numbers, and a study that goes on after a kill does not begin its row again. (Quasi-random samplers keep
    theirs, which all workers share.)

    Raises:
        UserError: no such class, or arguments that it does not take.
    """
    if is_grid(sampler):
        return lambda number: RandomSampler()
    given = {key: value for key, value in sampler.items() if key != "_target_"}
    made = _made(sampler, {})
    seeded = "seed" in inspect.signature(type(made)).parameters
    own = given.get("seed") if given.get("seed") is not None else seed
    if not seeded or own is None:
        return lambda number: made
    if isinstance(made, QMCSampler):
        shared = _made(sampler, {"seed": own})
        return lambda number: shared
    return lambda number: _made(sampler, {"seed": int(np.random.SeedSequence([own, number]).generate_state(1)[0])})


def _made(sampler: Mapping[str, Any], more: Mapping[str, Any]) -> BaseSampler:
    target = str(sampler["_target_"])
    module, _, name = target.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever importing raises
        raise UserError(f"hydra.sweeper.sampler: there is no {target}; {_EXAMPLE}.") from error
    if not isinstance(kind, type) or not issubclass(kind, BaseSampler):
        raise UserError(f"hydra.sweeper.sampler: {target} is no sampler of Optuna's; {_EXAMPLE}.")
    try:
        made: BaseSampler = instantiate({**sampler, **more})
    except Exception as error:
        cause = error.__cause__ or error
        raise UserError(
            f"hydra.sweeper.sampler: {target} does not take that: {' '.join(str(cause).split())}"
        ) from error
    return made
