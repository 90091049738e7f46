"""Fields of settings: their annotations say what they take, and pydantic says what they do not,
with the key in front.

Example:
    >>> @dataclasses.dataclass(frozen=True)
    ... class Pace:
    ...     share: Annotated[float, Ge(0), Lt(1)] = 0.1
    ...     batch: Count | None = None
    ...     unit: Annotated[str, OneOf(("one", "norm"))] = "one"
    ...
    ...     def __post_init__(self) -> None:
    ...         check_fields(self, "pace")
    >>> Pace(share=1.5, batch=0)
    Traceback (most recent call last):
    judgebench.words.errors.UserError: pace.share: 1.5 should be less than 1.
    pace.batch: 0 should be greater than or equal to 1.
    >>> settings_of(Pace, {"bach": 3}, "pace")
    Traceback (most recent call last):
    judgebench.words.errors.UserError: pace.bach is unknown; pace.batch is the nearest.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, NotRequired, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from omegaconf import OmegaConf
from typing_extensions import TypedDict

from judgebench.runtime.dropped import refuse_names, up_to_date
from judgebench.runtime.parsing import faults
from judgebench.types import Row
from judgebench.words.errors import UserError, shown

__all__ = ["LEVELS", "MOST_RESAMPLES", "MetricSettings", "NotBlank", "OneOf"]
__all__ += ["Ranking", "RunSettings"]
__all__ += [
    "Annotated",
    "Ge",
    "Gt",
    "Le",
    "Lt",
    "check_fields",
    "known_keys",
    "nearest",
    "plain",
    "settings_of",
]

Settings = TypeVar("Settings")

Share = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0)]
Amount = Annotated[float, Ge(0)]
"""Bounds that many settings have: a part of a whole; how many of something; a number or none; a
number above 0; one that is not below."""


@dataclass(frozen=True)
class OneOf:
    """Marks a field that takes one of some texts."""

    choices: Sequence[str]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.literal_schema(list(self.choices))


@dataclass(frozen=True)
class NotBlank:
    """Marks a text that must not be blank, or a list that needs an entry; no text is a list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        def filled(value: Any) -> Any:
            if value is not None and not (value.strip() if isinstance(value, str) else value):
                raise ValueError("should not be empty")
            return value

        return core_schema.no_info_before_validator_function(filled, handler(source))


Words = Annotated[str, NotBlank()]
"""A text that says something."""


def check_fields(settings: Any, key: str, of: Sequence[str] = ()) -> None:
    """Checks that the fields of a dataclass (those named in `of`, or all) hold what their
    annotations say; strictly, so "1" is not a number. An annotation may be `Annotated` with bounds
    (`Ge`, `Gt`, `Le`, `Lt`), `OneOf` and `NotBlank`. The values stay as they are: keys of stored
    readings are made of some."""
    names = [field.name for field in dataclasses.fields(settings) if not of or field.name in of]
    _check(type(settings), tuple(names), {name: getattr(settings, name) for name in names}, key)


def settings_of(make: Callable[..., Settings], mapping: Any, key: str) -> Settings:
    """The settings that a mapping of the configuration holds, as a dataclass, or what a function
    makes of them; `UserError` with each key that is unknown or missing, and each value that it does
    not take."""
    names = list(inspect.signature(make).parameters)
    mapping = plain(mapping)
    if not isinstance(mapping, Mapping):
        raise UserError(f"{key}: {shown(mapping)} should be a mapping with {', '.join(names)}.")
    known_keys(mapping, names, key)
    of_class = make.func if isinstance(make, partial) else make  # what is bound is no setting
    _check(of_class, tuple(names), dict(mapping), key)
    return make(**mapping)


def known_keys(names: Iterable[Any], known: Sequence[str], key: str) -> None:
    """Refuses keys that are not `known` with a `UserError`; of those that were dropped, it is about
    these alone."""
    unknown = [str(name) for name in names if name not in known]
    refuse_names(f"{key}.{name}" for name in unknown)
    sentences = []
    for name in unknown:
        remedy = f"there are {', '.join(known) or 'none'}"
        near = nearest(name, known)
        if near:
            remedy = f"{key}.{near} is the nearest"
        sentences.append(f"{key}.{name} is unknown; {remedy}.")
    if sentences:
        raise UserError(*sentences)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most like a mistyped name; None where none is like it."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def plain(value: Any) -> Any:
    """A value of the configuration as plain Python, its references resolved."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


@cache
def _validator(make: Any, names: tuple[str, ...]) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    hints = get_type_hints(make, include_extras=True)
    typed: Any = TypedDict
    optional = {
        parameter.name
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is not inspect.Parameter.empty
    }
    shape = typed(
        make.__name__,
        {name: NotRequired[hints[name]] if name in optional else hints[name] for name in names},
    )
    shape.__pydantic_config__ = ConfigDict(
        strict=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )
    return TypeAdapter(shape).validator


def _check(make: Any, names: tuple[str, ...], values: Row, key: str) -> None:
    from pydantic import ValidationError

    values = {
        name: OmegaConf.to_object(value) if OmegaConf.is_config(value) else value
        for name, value in values.items()
    }
    try:
        _validator(make, names).validate_python(values)
    except ValidationError as error:
        refuse_names(f"{key}.{name}={value}".removeprefix(".") for name, value in values.items())
        raise UserError(*(f"{clause}." for clause in faults(error, values, key))) from None


LOGGER_MODES = ("offline", "online", "disabled")
"""Values of `logger.mode`: files that `wandb sync` can send later, at once, or nothing."""

LEVELS = ("dataset", "document", "system")
"""Levels of correlation: over all pairs, within each article, over the systems' means."""

MOST_RESAMPLES = 100_000
"""More would move no third digit of an interval, and fill the memory."""


@dataclass(frozen=True)
class MetricSettings:
    """conf/config.yaml's `metrics`; `UserError` of values that cannot be.

    Args:
        levels: at least one of `LEVELS`, none twice.
        resamples: of the groups, behind each 95 % interval: 0 (no intervals), or 2 to
            `MOST_RESAMPLES`.
    """

    levels: Annotated[Sequence[Annotated[str, OneOf(LEVELS)]], NotBlank()]
    resamples: Annotated[int, Ge(0), Le(MOST_RESAMPLES)]
    seed: Natural

    def __post_init__(self) -> None:
        check_fields(self, "metrics")
        if len(set(self.levels)) < len(self.levels):
            raise UserError(
                f"metrics.levels: {list(self.levels)} names one twice; name each level once."
            )
        if self.resamples == 1:
            raise UserError(
                "metrics.resamples: a single resample does not vary, so it says nothing of "
                "uncertainty; take 0 (no intervals), or at least 2: 1000 is usual."
            )


@dataclass(frozen=True)
class Ranking:
    """conf/config.yaml's `pairwise`.

    Attributes:
        position: whether the first place has a parameter.
        prior: comparisons given beforehand, see `bradley_terry.fit_strengths`.
        reference: the system whose strength is 0; None puts the mean there.
        human_tie: humans' preferences up to this are ties.
    """

    position: bool = True
    prior: Annotated[float, Ge(0.001), Le(1000)] = 1.0
    reference: str | int | None = None
    human_tie: Amount = 0.0

    @classmethod
    def parse(cls, given: Any) -> Ranking:
        """From the config key `pairwise`."""
        ranking = settings_of(cls, up_to_date({"pairwise": given})["pairwise"], "pairwise")
        return replace(
            ranking,
            prior=float(ranking.prior),
            reference=None if ranking.reference is None else str(ranking.reference),
            human_tie=float(ranking.human_tie),
        )

    def check(self, systems: Collection[str]) -> None:
        """Raises `UserError` where the reference is none of the systems compared."""
        if self.reference is not None and self.reference not in systems:
            raise UserError(
                f"pairwise.reference: no text is by {self.reference!r}; the systems are "
                f"{', '.join(sorted(systems))}."
            )


@dataclass(frozen=True)
class Margins:
    """The config key `verdict`; `UserError` of values that cannot be.

    Attributes:
        near_rater: how far below one rater's share a judge's may lie for a yes, and by which part
            of the scale its error may exceed a rater's.
        half_way: the part of the way from a coin to one rater that earns "with care".
        assumed_rater: one rater's share of pairs, where no text has two ratings.
        explains: the part of the variance of ratings that calibrated scores explain at least, of
            articles that did not teach the calibration, so that they are better than always saying
            the mean rating.
        attack_change: largest change of a mean score under attack, as a part of the range.
        attack_rise: largest share of texts whose score rises far under attack, less the share of
            those whose score falls as far.
        attack_order: largest loss of Spearman under attack.
        failed: the share of answers that could not be read above which there is no yes.
        fewest: articles below which there is no verdict.
        right: the share of the texts that people pass, and of those that they fail, which a judge
            decides alike at least, where no text has two labels.
        alike: the part of raters' agreement with each other that a judge's with them reaches at
            least, so that it replaces one.
        pairs: pairs of systems below which a judge that compares them earns "with care" at most.
        labels: texts with two ratings below which it is the same for a judge that replaces a rater.
    """

    near_rater: Annotated[float, Ge(0), Le(0.5)] = 0.03
    half_way: Share = 0.5
    assumed_rater: Annotated[float, Ge(0.5), Le(1)] = 0.75
    explains: Share = 0.05
    attack_change: Share = 0.1
    attack_rise: Share = 0.1
    attack_order: Annotated[float, Ge(0), Le(2)] = 0.1
    failed: Share = 0.05
    fewest: Annotated[int, Ge(2)] = 10
    right: Annotated[float, Ge(0.5), Le(1)] = 0.8
    alike: Share = 0.8
    pairs: Annotated[int, Ge(1)] = 21
    labels: Annotated[int, Ge(1)] = 100

    def __post_init__(self) -> None:
        check_fields(self, "verdict")


@dataclass(frozen=True)
class Costs:
    """The config key `costs`: `false_pass` and `false_fail`, prices of two mistakes, of which the
    ratio counts: a text that people fail is passed, and a text that they pass is failed; `threshold`,
    the score from which a text passes, as the judge says it, where it is not to be chosen (see
    `ScoreRange.threshold`); `UserError` of values that cannot be."""

    false_pass: Annotated[float, Gt(0)] = 1.0
    false_fail: Annotated[float, Gt(0)] = 1.0
    threshold: float | str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "costs")


RATER = "rater"
"""The `error` of `Asking` that is one rater's."""


@dataclass(frozen=True)
class Asking:
    """The config key `ask`: `error`, the largest share of mistakes among the texts that a judge
    decides, so that people see the others, or `rater`: that which one rater makes; `UserError` of
    values that cannot be."""

    error: Annotated[float, Gt(0), Lt(0.5)] | Annotated[str, OneOf((RATER,))] = 0.05

    def __post_init__(self) -> None:
        check_fields(self, "ask")


@dataclass(frozen=True)
class IntervalSettings:
    """conf/score.yaml's `coverage`, the share of texts whose interval is to hold the humans' score,
    and `wide`, the share of the humans' scale beyond which an interval is too wide to use;
    `UserError` of values that cannot be."""

    coverage: Annotated[float, Gt(0), Lt(1)] = 0.9
    wide: Annotated[float, Gt(0), Le(1)] = 0.5

    def __post_init__(self) -> None:
        check_fields(self, "")


@dataclass(frozen=True)
class RunSettings:
    """Keys of conf/config.yaml that are switches."""

    report: bool
    human_agreement: bool
    examples: bool
    dry_run: bool
    baseline: str | None
    print: Annotated[str, OneOf(("answer", "all", "none"))]
    figures: Annotated[str, OneOf(("png",))] | None = None
    compile: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self, "")
