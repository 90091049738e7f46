"""The shape of a plain value, as of JSON or YAML: which keys an object has, and what kinds of values."""

from __future__ import annotations

import reprlib
from typing import Any

from judgebench.runtime.errors import UserError

_SHOWN = 60
"""Characters of a value that an error repeats."""
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _SHOWN
_BRIEF.maxlong = 80
_BRIEF.maxlevel = 3


def check_shape(value: Any, shape: Any, name: str, remedy: str = "", at: str = "") -> None:
    """Checks that a plain value has a shape.

    Args:
        shape: a type (`float` takes any number, `object` anything), None, a tuple of shapes any of which will do,
            `[shape]` for a list of such, `{str: shape}` for an object whose values are such, or `{"key": shape}` for
            an object that has these keys at least; "key?" may be missing.
        at: where `value` stands inside its source.

    Raises:
        UserError: another shape; says where.

    Example:
        >>> check_shape({"n": 1, "x": [2, None]}, {"n": int, "x": [(float, None)], "y?": str}, "a.json")
        >>> check_shape({"n": "1"}, {"n": int}, "a.json")
        Traceback (most recent call last):
        judgebench.runtime.errors.UserError: a.json: n must be a whole number, got '1'.
    """
    if shape is not None and (fault := _fault(value, shape, at)) is not None:
        raise UserError(f"{name}: {fault}{f'; {remedy}' if remedy else ''}.")


def shown(value: Any) -> str:
    """A value of any size, in a few characters.

    Example:
        >>> shown(["a" * 100])
        "['aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of too many digits"
    text = _BRIEF.repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_KINDS: dict[Any, str] = {
    dict: "an object",
    list: "a list",
    tuple: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    None: "null",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """The kind of a value, in words."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def _fault(value: Any, shape: Any, at: str) -> str | None:
    """A clause on the first thing in a value that has not its shape."""
    if isinstance(shape, tuple):
        faults = [_fault(value, one, at) for one in shape]
        if None in faults:
            return None
        deeper = [fault for one, fault in zip(shape, faults, strict=True) if _fits(value, _outer(one))]
        return deeper[0] if deeper else _wrong(value, " or ".join(_KINDS[_outer(one)] for one in shape), at)
    if not _fits(value, _outer(shape)):
        return _wrong(value, _KINDS[_outer(shape)], at)
    inner: list[tuple[Any, Any, str]] = []
    if isinstance(shape, list):
        inner = [(item, shape[0], f"{at}[{i}]") for i, item in enumerate(value)]
    elif isinstance(shape, dict):
        for key, one in shape.items():
            if key is str:
                inner += [(item, one, _below(at, name)) for name, item in value.items()]
            elif (plain := key.removesuffix("?")) in value:
                inner.append((value[plain], one, _below(at, plain)))
            elif plain == key:
                return f"{_below(at, key)} is missing"
    return next((fault for one in inner if (fault := _fault(*one)) is not None), None)


def _outer(shape: Any) -> Any:
    return type(shape) if isinstance(shape, list | dict) else shape


def _fits(value: Any, kind: Any) -> bool:
    if kind is object:
        return True
    if kind is None:
        return value is None
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, kind)


def _wrong(value: Any, wanted: str, at: str) -> str:
    return f"{at or 'it'} must be {wanted}, got {shown(value)}"


def _below(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key[:_SHOWN]
