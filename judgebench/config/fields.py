"""Fields of settings: their annotations say what they take, pydantic finds what they do not, and one place words it.

Example:
    >>> @dataclasses.dataclass(frozen=True)
    ... class Pace:
    ...     share: Annotated[float, Ge(0), Lt(1)] = 0.1
    ...     batch: Annotated[int, Ge(1)] | None = None
    ...     unit: Annotated[str, OneOf(("one", "norm"))] = "one"
    ...
    ...     def __post_init__(self) -> None:
    ...         check_fields(self, "pace")
    >>> Pace(share=1.5, batch=0)
    Traceback (most recent call last):
    judgebench.runtime.errors.UserError: pace.share: 1.5 is not a number of at least 0 and below 1.
    pace.batch: 0 is neither null nor a whole number of at least 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from omegaconf import OmegaConf

from judgebench.runtime.errors import UserError, shown

__all__ = ["LEVELS", "MEASURE", "MOST_RESAMPLES", "MetricSettings", "NotBlank", "OneOf", "RunSettings", "Wording"]
__all__ += ["Annotated", "Ge", "Gt", "Le", "Lt", "check_fields", "known_keys", "named", "plain"]


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

        return core_schema.no_info_before_validator_function(_filled, handler(source))


@dataclass(frozen=True)
class Wording:
    """Describes what a field takes, where its bounds do not say it well."""

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(source)


def check_fields(settings: Any, key: str, of: Sequence[str] = ()) -> None:
    """Checks that the fields of a dataclass hold what their annotations say; strictly, so "1" is no number.

    The values stay as they are: keys of stored readings are made of some.

    Args:
        settings: an instance, as in its `__post_init__`. An annotation may be `Annotated` with bounds (`Ge`, `Gt`,
            `Le`, `Lt`), `OneOf`, `NotBlank` and `Wording`.
        key: the config key of the settings.
        of: the fields to check; all, where none is named.

    Raises:
        UserError: a sentence for each field that holds something else.
    """
    from pydantic import ValidationError

    cls: Any = type(settings)
    validator, hints = _validator(cls, tuple(of))
    values = {name: getattr(settings, name) for name in hints}
    given = {name: OmegaConf.to_object(one) if OmegaConf.is_config(one) else one for name, one in values.items()}
    try:
        validator.validate_python(given)
    except ValidationError as error:
        names = dict.fromkeys(str(fault["loc"][0]) for fault in error.errors(include_url=False, include_context=False))
        stem = f"{key}." if key else ""
        raise UserError(*(f"{stem}{name}: {shown(given[name])} is {_not(hints[name])}." for name in names)) from None


def plain(value: Any) -> Any:
    """A value of the configuration as plain Python, its references resolved."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def named(cls: type, given: Any, key: str, example: str = "conf/config.yaml shows what it is") -> dict[str, Any]:
    """A mapping of the configuration whose keys are the fields of a dataclass; `UserError` where it is none, or with
    each key that is unknown or missing."""
    fields = [field.name for field in dataclasses.fields(cls) if field.init]
    if not isinstance(given, Mapping):
        raise UserError(f"{key}: {shown(given)} is no group of settings; it has {', '.join(fields)}.")
    known_keys(given, fields, key)
    if missing := [f"{key}.{name} is not given; {example}." for name in fields if name not in given]:
        raise UserError(*missing)
    return {str(name): value for name, value in given.items()}


def known_keys(given: Mapping[Any, Any], known: Sequence[str], key: str) -> None:
    """Refuses keys that are not `known` with a `UserError`."""
    if unknown := [f"{key}.{name} is unknown; there are {', '.join(known)}." for name in given if name not in known]:
        raise UserError(*unknown)


@cache
def _validator(cls: Any, of: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    types = get_type_hints(cls, include_extras=True)
    hints = {field.name: types[field.name] for field in dataclasses.fields(cls) if not of or field.name in of}
    make: Any = TypedDict
    shape = make(cls.__name__, hints)
    shape.__pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return TypeAdapter(shape).validator, hints


def _filled(value: Any) -> Any:
    if value is not None and not (value.strip() if isinstance(value, str) else value):
        raise ValueError("empty")
    return value


def _not(hint: Any) -> str:
    """A value that a field does not take, as "not a whole number of at least 1"."""
    kinds = [kind for kind in _kinds(hint) if kind is not NoneType]
    nullable = len(kinds) < len(_kinds(hint))
    if len(kinds) == 1 and kinds[0] is bool:
        return "neither true nor false"
    words = " nor ".join(_words(kind) for kind in kinds)
    return f"neither {'null nor ' if nullable else ''}{words}" if nullable or len(kinds) > 1 else f"not {words}"


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _words(hint: Any) -> str:
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *marks_ = get_args(hint)
        marks = tuple(marks_)
    for mark in marks:
        if isinstance(mark, Wording):
            return mark.words
        if isinstance(mark, OneOf):
            return f"one of {', '.join(mark.choices)}"
    if get_origin(hint) is Sequence or hint is Sequence:
        return f"a list of {_words(get_args(hint)[0]).removeprefix('a ').replace('number', 'numbers', 1)}"
    kind = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(hint, "what it takes")
    return f"{kind} {_bounds(marks)}".rstrip()


def _bounds(marks: Sequence[Any]) -> str:
    low = next((mark for mark in marks if isinstance(mark, Ge | Gt)), None)
    high = next((mark for mark in marks if isinstance(mark, Le | Lt)), None)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f"from {_number(low.ge)} to {_number(high.le)}"
    ends = [f"of at least {_number(low.ge)}" if isinstance(low, Ge) else f"above {_number(low.gt)}"] if low else []
    ends += [f"at most {_number(high.le)}" if isinstance(high, Le) else f"below {_number(high.lt)}"] if high else []
    return " and ".join(ends)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


MEASURE = "measure"
"""The value of `dry_run` that reads a little, to estimate how long the whole takes."""

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
        resamples: of the groups, behind each 95 % interval: 0 (no intervals), or 2 to `MOST_RESAMPLES`.
    """

    levels: Annotated[Sequence[str], NotBlank(), Wording(f"a list with at least one of {', '.join(LEVELS)}")]
    resamples: Annotated[int, Ge(0)]
    seed: Annotated[int, Ge(0)]

    def __post_init__(self) -> None:
        check_fields(self, "metrics")
        if unknown := [level for level in self.levels if level not in LEVELS]:
            raise UserError(f"metrics.levels: {unknown[0]!r} is not one of {', '.join(LEVELS)}.")
        if twice := [level for level in LEVELS if list(self.levels).count(level) > 1]:
            raise UserError(f"metrics.levels: {twice[0]!r} stands there twice; name each level once.")
        if self.resamples == 1:
            raise UserError(
                "metrics.resamples: a single resample does not vary, so it says nothing of uncertainty; take 0 (no "
                "intervals), or at least 2: 1000 is usual."
            )
        if self.resamples > MOST_RESAMPLES:
            raise UserError(
                f"metrics.resamples: {self.resamples} is more than {MOST_RESAMPLES}, beyond which intervals gain "
                "nothing; 1000 is usual, 10000 is plenty."
            )


@dataclass(frozen=True)
class RunSettings:
    """Keys of conf/config.yaml that are switches."""

    report: bool
    worth: bool
    examples: bool
    dry_run: Annotated[bool | Annotated[str, OneOf((MEASURE,))], Wording(f"one of true, false and {MEASURE}")]

    def __post_init__(self) -> None:
        check_fields(self, "")
