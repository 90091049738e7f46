"""Shapes of plain values, of files and of settings: pydantic checks them, and each place that it
refuses has a clause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, Union

from typing_extensions import TypedDict

from judgebench.words.errors import UserError, shown

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


def check_shape(value: Any, shape: Any, name: str, remedy: str = "", at: str = "") -> None:
    """Checks that a plain value has a shape.

    Args:
        shape: a type as pydantic takes it, and `{"key": shape}` for an object that has these keys
            at least, "key?" for one that may be missing, `{str: shape}` for any keys, `[shape]` for
            a list, and a tuple of shapes any of which will do; `None` takes any value.
        at: position of `value` inside its source.

    Raises:
        UserError: another shape; says where.

    Example:
        >>> check_shape({"n": ["1"]}, {"n": [int]}, "a.json")
        Traceback (most recent call last):
        judgebench.words.errors.UserError: a.json: n[0]: '1' should be a valid integer.
    """
    if shape is not None and (clauses := refusals(value, checker(shape), at)):
        raise UserError(f"{name}: {clauses[0]}{f'; {remedy}' if remedy else ''}.")


def checker(shape: Any, **config: Any) -> TypeAdapter[Any]:
    """Checker of values of a shape, see `check_shape`; of an object's shape, pydantic's `config`
    says how."""
    from pydantic import TypeAdapter  # which few commands need

    kind = _typed(shape)
    if config:
        kind.__pydantic_config__ = config
    return TypeAdapter(kind)


def refusals(value: Any, check: TypeAdapter[Any], at: str = "") -> list[str]:
    """A clause for each place of a value that is refused, strictly, so "1" is not a number; none of
    one that is taken."""
    from pydantic import ValidationError

    try:
        check.validate_python(value, strict=True)
    except ValidationError as error:
        return _faults(error, value, at)
    return []


def _typed(shape: Any) -> Any:
    """A shape as a type."""
    if isinstance(shape, list):
        return list[_typed(shape[0])]  # type: ignore[misc]
    if isinstance(shape, tuple):
        return Union[tuple(map(_typed, shape))]  # noqa: UP007 - as many as there are
    if not isinstance(shape, dict):
        return shape
    if str in shape:
        return dict[str, _typed(shape[str])]  # type: ignore[misc]
    keys = {key.removesuffix("?"): _typed(inner) for key, inner in shape.items()}
    make: Any = TypedDict
    return make(
        "Object",
        {key: NotRequired[inner] if f"{key}?" in shape else inner for key, inner in keys.items()},
    )


def _faults(error: ValidationError, value: Any, at: str) -> list[str]:
    """The place, and what pydantic says of it."""
    starts: dict[str, str] = {}  # of a clause, by its place
    words: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_context=False):
        node = value
        place = at
        kind = fault["type"]
        for part in fault["loc"]:  # of which some name no place, but a type of a union
            keys: Any = node if isinstance(node, dict) else ()
            if isinstance(node, list | tuple):
                keys = range(len(node))
            if part in keys or (kind == "missing" and part == fault["loc"][-1]):
                place = (
                    f"{place}[{part}]"
                    if isinstance(part, int)
                    else f"{place}.{part[:60]}".removeprefix(".")
                )
                node = node[part] if part in keys else None
        message = (
            fault["msg"]
            .removeprefix("Value error, ")
            .removeprefix("Input ")
            .replace("dictionary", "mapping")
        )
        if kind == "sequence_str" or message.endswith("instance of Sequence"):
            message = "should be a valid list"
        if kind in ("missing", "extra_forbidden"):
            starts[place] = f"{place} is {'not given' if kind == 'missing' else 'unknown'}"
            words[place] = []
        else:
            starts[place] = f"{place}{': ' if place else ''}{shown(fault['input'])}"
            if place in words:
                message = message.removeprefix("should ")
            words.setdefault(place, []).append(message)
    # of a list or mapping that is refused for one of its entries, the entry is at fault
    return [
        " ".join([starts[place], ", or ".join(dict.fromkeys(messages))]).rstrip()
        for place, messages in words.items()
        if not any(other.startswith((f"{place}.", f"{place}[")) for other in words)
    ]
