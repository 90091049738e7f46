"""Optuna's samplers, named by `_target_`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hydra.utils import instantiate
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler

from judgebench.runtime.errors import UserError

_LISTED = ("GridSampler", "BruteForceSampler")
"""Every point once is what `claims` does; these would hand a point to two workers, and end with an exception."""

_EXAMPLE = "give for example {_target_: optuna.samplers.TPESampler}"


def is_grid(sampler: Mapping[str, Any]) -> bool:
    """Whether every point is run once, so that nothing is left to sample."""
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
