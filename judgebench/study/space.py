"""The settings of a sweep, its sampler, and its search space: Hydra's override syntax as Optuna's
distributions."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    RangeSweep,
    Transformer,
)
from hydra.errors import HydraException
from hydra.utils import instantiate
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from judgebench.settings.fields import Annotated, Ge, Le, NotBlank, check_fields
from judgebench.types import Record, Row
from judgebench.words.errors import UserError


@dataclass(frozen=True)
class Settings:
    """The settings under `hydra.sweeper`; conf/hydra/sweeper/optuna.yaml says what each means.
    `UserError` of values that cannot be."""

    sampler: Row
    directions: str | Sequence[str] = ("maximize",)
    storage: Annotated[str, NotBlank()] | None = None
    study_name: str | None = None
    n_trials: Annotated[int, Ge(1)] | None = None
    n_jobs: Annotated[int, Ge(1)] = 1
    max_failure_rate: Annotated[float, Ge(0), Le(1)] = 0.25
    seed: Annotated[int, Ge(0)] | None = None
    retry: bool = False
    may_differ: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, key in (("directions", "direction"), ("may_differ", "may_differ")):
            texts = getattr(self, name)
            texts = [texts] if isinstance(texts, str) else texts
            if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
                raise UserError(
                    f"hydra.sweeper.{key}: {texts!r} is neither a text nor a list of texts."
                )
            object.__setattr__(self, name, list(texts))
        if self.study_name is not None:
            # a name of digits is a number to YAML
            object.__setattr__(self, "study_name", str(self.study_name))
        checked = ("storage", "n_trials", "n_jobs", "max_failure_rate", "seed", "retry")
        check_fields(self, "hydra.sweeper", of=checked)
        if self.storage is not None and not self.study_name:
            raise UserError(
                "hydra.sweeper.study_name: a study that is kept needs a name, under which other "
                "workers and a later start find it."
            )


def sampler_name(sampler: Row) -> str:
    """The sampler's class, without its module; `UserError` where none is named."""
    target = sampler.get("_target_") if hasattr(sampler, "get") else None
    if not isinstance(target, str) or not target:
        raise UserError(f"hydra.sweeper.sampler: {sampler!r} names no class; {_EXAMPLE}.")
    return target.rpartition(".")[2]


_EXAMPLE = "give for example {_target_: optuna.samplers.TPESampler}"


def is_grid(sampler: Row) -> bool:
    """True where every point is run once: the queue does that, Optuna's samplers would give two
    workers one."""
    return sampler_name(sampler) in ("GridSampler", "BruteForceSampler")


def sampler_for(sampler: Row, seed: int | None) -> BaseSampler:
    """The sampler of a study; `UserError` of a class or arguments that do not exist.

    With a seed, the numbers of a trial depend on seed and trial alone, see `SeededSampler`.
    Quasi-random samplers keep one row of numbers, which all workers share.
    """
    if is_grid(sampler):
        return RandomSampler()
    target = str(sampler["_target_"])
    module, _, name = target.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever importing raises
        raise UserError(f"hydra.sweeper.sampler: there is no {target}; {_EXAMPLE}.") from error
    if not isinstance(kind, type) or not issubclass(kind, BaseSampler):
        raise UserError(f"hydra.sweeper.sampler: {target} is no sampler of Optuna's; {_EXAMPLE}.")

    def made(**more: Any) -> BaseSampler:
        try:
            return instantiate({**sampler, **more})
        except Exception as error:
            cause = " ".join(str(error.__cause__ or error).split())
            raise UserError(
                f"hydra.sweeper.sampler: {target} does not take that: {cause}"
            ) from error

    root: Any = sampler.get("seed") if sampler.get("seed") is not None else seed
    if root is None or "seed" not in inspect.signature(kind).parameters:
        return made()
    whole = made(seed=root)  # its arguments are looked at before the first trial
    if issubclass(kind, QMCSampler):
        return whole
    return SeededSampler(lambda state: made(seed=state), root)


class SeededSampler(BaseSampler):
    """A sampler whose draws for a trial depend on the seed and on the number of the trial.

    So two workers never draw the same row of numbers, and a study that goes on after a kill does
    not begin its row again.

    Args:
        make: a seed -> the sampler that draws one trial.
        seed: of the study.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make = make
        self._seed = seed
        self._number: int | None = None

    def _of(self, trial: FrozenTrial) -> BaseSampler:
        if trial.number != self._number:
            state = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)
            self._sampler = self._make(int(state[0]))
            self._number = trial.number
        return self._sampler

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> Record:
        return self._of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._of(trial).sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._of(trial).before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._of(trial).after_trial(study, trial, state, values)


Value = str | int | float | bool
MOST_POINTS = 10_000
"""Points of a grid; more would take a lifetime."""


@dataclass(frozen=True)
class Param:
    """One swept key: samplers draw from its distribution; `values` are all, in order, or None of
    infinitely many."""

    distribution: BaseDistribution
    values: tuple[Value, ...] | None

    def text(self, value: Value) -> str:
        """`value` as it stands in an override; steps of a decimal fraction get no binary tail (0.1
        + 0.2 is 0.3)."""
        stepped = (
            isinstance(self.distribution, FloatDistribution) and self.distribution.step is not None
        )
        return str(float(f"{value:.12g}")) if stepped else str(value)


@dataclass(frozen=True)
class Space:
    """The search space of a sweep: the swept keys, and the overrides that every job gets, as they
    were typed."""

    params: Mapping[str, Param]
    fixed: tuple[str, ...]

    @classmethod
    def parse(
        cls,
        params: Row,
        arguments: Sequence[str] = (),
        config_loader: ConfigLoader | None = None,
    ) -> Space:
        """From `hydra.sweeper.params` and the command line, which wins where both name a key;
        `UserError` of what is no override, holds nothing to choose from, or names a choice twice.

        The syntax is that of hydra-optuna-sweeper: `a,b` and `choice(a, b)` are categories;
        `range(start, stop, step)` are numbers from start on and below stop; `interval(low, high)`
        is everything between, and `int(interval(low, high))` the whole numbers; `tag(log,
        interval(low, high))` is drawn on a logarithmic scale.

        Example:
            >>> params = {"t": "range(0.5, 2, step=0.5)", "x": "choice(a,b)"}
            >>> space = Space.parse(params, ["x=a", "+k=int(interval(1, 9))"])
            >>> sorted(space.params), space.fixed
            (['+k', 't'], ('x=a',))
            >>> space.params["t"].values
            (0.5, 1.0, 1.5)
        """
        parser = OverridesParser.create(config_loader=config_loader)
        overrides: dict[str, Override] = {}
        for key, value in params.items():
            try:
                override = parser.parse_override(f"{key}={'null' if value is None else value}")
            except HydraException as error:
                reason = str(error).splitlines()[0]
                raise UserError(
                    f"hydra.sweeper.params.{key}: {value!r} is no override ({reason})."
                ) from error
            overrides[override.get_key_element()] = override
        overrides |= {
            override.get_key_element(): override
            for override in map(parser.parse_override, arguments)
        }
        swept = {
            key: _swept(override)
            for key, override in overrides.items()
            if override.is_sweep_override()
        }
        if not swept:
            raise UserError(
                "hydra.sweeper.params: nothing is swept; give at least one key several values, as "
                "in hydra.sweeper.params={decoding.lambda: '0.1,0.5'}."
            )
        return cls(
            swept,
            tuple(
                str(override.input_line) for key, override in overrides.items() if key not in swept
            ),
        )

    def grid(self) -> dict[str, dict[str, Value]]:
        """Every combination of values by an identity of it, the last key changing fastest;
        `UserError` where they are infinitely or too many."""
        for key, param in self.params.items():
            if param.values is None:
                raise UserError(
                    f"hydra.sweeper.params.{key}: a grid needs values that can be listed; give "
                    "choice(...) or range(...), or take another sampler."
                )
        columns = [param.values or () for param in self.params.values()]
        if (count := math.prod(map(len, columns))) > MOST_POINTS:
            raise UserError(
                f"hydra.sweeper.params: the grid has {count} points; at most {MOST_POINTS} are "
                "supported."
            )
        points = [
            dict(zip(self.params, values, strict=True)) for values in itertools.product(*columns)
        ]
        return {json.dumps(point, sort_keys=True): point for point in points}

    def overrides(self, point: Mapping[str, Value]) -> list[str]:
        """A job's overrides: the fixed ones, then the point's."""
        return [
            *self.fixed,
            *(f"{key}={param.text(point[key])}" for key, param in self.params.items()),
        ]

    def shown(self, point: Mapping[str, Value]) -> str:
        """A point as people read it: numbers with five digits."""
        texts = {key.lstrip("+"): param.text(point[key]) for key, param in self.params.items()}
        for key, text in texts.items():
            with suppress(ValueError):
                texts[key] = f"{float(text):.5g}" if "." in text else text
        return " ".join(f"{key}={text}" for key, text in texts.items())

    def described(self) -> Record:
        """Key -> its distribution, as JSON; equal for equal spaces."""
        return {
            key: json.loads(distribution_to_json(param.distribution))
            for key, param in self.params.items()
        }


def _swept(override: Override) -> Param:
    """The parameter of a study that an override sweeps."""
    value: Any = override.value()
    tags: set[str] = getattr(value, "tags", set())

    def check(holds: bool, fault: str) -> None:
        if not holds:
            raise UserError(f"{override.input_line}: {fault}.")

    interval = isinstance(value, IntervalSweep)
    check(
        not tags or (tags == {"log"} and interval),
        "the only tag is log, and only interval(...) takes it",
    )
    if interval:
        low = value.start
        high = value.end
        log = "log" in tags
        check(low < high, "the first end must lie below the second")
        check(low > 0 or not log, "a logarithmic interval lies above 0")
        if not (isinstance(low, int) and isinstance(high, int)):
            return Param(FloatDistribution(float(low), float(high), log=log), None)
        listed = high - low < MOST_POINTS and not log
        return Param(
            IntDistribution(low, high, log=log), tuple(range(low, high + 1)) if listed else None
        )
    if isinstance(value, RangeSweep):
        check(value.step != 0, "the step must not be 0")
        numbers = tuple(value.range())
        check(bool(numbers), "the range is empty; start must lie before stop, which is left out")
        if all(isinstance(number, int) for number in numbers) and not value.shuffle:
            return Param(
                IntDistribution(min(numbers), max(numbers), step=abs(int(value.step))), numbers
            )
        if not value.shuffle:
            # hydra adds binary fractions up; the last of range(0, 0.3, 0.1) must be 0.2 and lie on
            # the grid
            first, by, stop = (Decimal(str(part)) for part in (value.start, value.step, value.stop))
            steps = int(((stop - first) / by).to_integral_value(rounding="ROUND_CEILING"))
            exact = tuple(float(first + by * i) for i in range(steps))
            return Param(FloatDistribution(min(exact), max(exact), step=abs(float(by))), exact)
    else:
        numbers = tuple(value.list if isinstance(value, ChoiceSweep) else override.sweep_iterator())
    # shuffled values keep their order: every worker of a study must see the same distribution;
    # numbers stay numbers; all else is kept as it stands in an override, quoted and escaped
    choices = tuple(
        item if isinstance(item, int | float | bool) else Transformer.str(item) for item in numbers
    )
    texts = [str(choice) for choice in choices]
    check(bool(choices), "there is nothing to choose from")
    check(len(set(texts)) == len(texts), f"{', '.join(texts)} names one twice")
    return Param(CategoricalDistribution(choices), choices)
