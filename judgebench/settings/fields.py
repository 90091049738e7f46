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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from omegaconf import OmegaConf

from judgebench.runtime.shapes import checker, refusals
from judgebench.types import Row
from judgebench.words.errors import UserError, shown

__all__ = ["Annotated", "Ge", "Gt", "Le", "Lt"]

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


@dataclass(frozen=True)
class Distinct:
    """Marks a list that names nothing twice."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        def different(values: Any) -> Any:
            if len({*values}) < len(values):
                raise ValueError("names one twice; name each once")
            return values

        return core_schema.no_info_after_validator_function(different, handler(source))


Words = Annotated[str, NotBlank()]
"""A text that says something."""


def check_fields(settings: Any, key: str, of: Sequence[str] = ()) -> None:
    """Checks that the fields of a dataclass (those named in `of`, or all) hold what their
    annotations say; strictly, so "1" is not a number. An annotation may be `Annotated` with bounds
    (`Ge`, `Gt`, `Le`, `Lt`), `OneOf`, `NotBlank` and `Distinct`. The values stay as they are: keys
    of stored readings are made of some.

    Its `faults`, if it has any, are sentences on fields that do not go together, each of which is
    right by itself. `UserError` with all mistakes."""
    names = [field.name for field in dataclasses.fields(settings) if not of or field.name in of]
    _check(type(settings), tuple(names), {name: getattr(settings, name) for name in names}, key)
    if sentences := list(getattr(settings, "faults", tuple)()):
        raise UserError(*sentences)


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
    """Refuses keys that are not `known` with a `UserError`."""
    unknown = [str(name) for name in names if name not in known]
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
def _checker(make: Any, names: tuple[str, ...]) -> Any:
    """Checker of some fields of a dataclass, or of some arguments of a function."""
    hints = get_type_hints(make, include_extras=True)
    needed = {
        parameter.name
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is inspect.Parameter.empty
    }
    shape = {name if name in needed else f"{name}?": hints[name] for name in names}
    return checker(shape, strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


def _check(make: Any, names: tuple[str, ...], values: Row, key: str) -> None:
    values = {
        name: OmegaConf.to_object(value) if OmegaConf.is_config(value) else value
        for name, value in values.items()
    }
    if clauses := refusals(values, _checker(make, names), key):
        raise UserError(*(f"{clause}." for clause in clauses))
