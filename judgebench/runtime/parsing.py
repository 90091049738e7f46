"""The one door for what comes from outside: JSON and YAML of files, servers and command lines, read within limits.

What passes is plain (dict with text keys, list, text, number, bool, None), no larger and no deeper than the limits, and
of the shape that was asked for. Everything else is one `UserError` that names its source.

Example:
    >>> parse_json('{"phrase": "so good"}', "phrase.json", shape={"phrase": str})
    {'phrase': 'so good'}
    >>> parse_json('{"phrase": NaN}', "phrase.json")
    Traceback (most recent call last):
    judgebench.runtime.errors.UserError: phrase.json: not valid JSON (NaN is no number).
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Union

import yaml
from typing_extensions import TypedDict
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from judgebench.runtime.errors import UserError, shown

if TYPE_CHECKING:
    from pydantic import ValidationError

_HALF = re.compile("[\ud800-\udfff]")
_LONGEST_NUMBER = 1000
"""Characters of a number; longer ones take quadratic time to read."""
_SAFE_DIGITS = 300
"""A whole number that has fewer is in the range of a float."""
_MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bounds of what one source may hold.

    Attributes:
        size: bytes.
        depth: of nested lists and objects.
        nodes: values and keys, where a YAML alias counts as all that it stands for. The characters of its texts count
            so too, and may be as many as `size`.
        halves, nan, keys: let half surrogates, NaN and Infinity, and YAML's keys that are no text pass to a caller that
            checks them itself.
    """

    size: int = 64 * _MIB
    depth: int = 100
    nodes: int = 5_000_000
    halves: bool = False
    nan: bool = False
    keys: bool = False


LIMITS = Limits()
"""For JSON."""
YAML_LIMITS = Limits(size=4 * _MIB, nodes=100_000)
"""For YAML, which takes longer to read."""


class _Refused(ValueError):
    """A reason, as a clause."""


def read_json(path: Path, name: str, *, shape: Any = None, limits: Limits = LIMITS, remedy: str = "") -> Any:
    """The content of a JSON file; see `parse_json`."""
    return parse_json(read_bytes(path, name, limits.size, remedy), name, shape=shape, limits=limits, remedy=remedy)


def read_yaml(path: Path, name: str, *, shape: Any = None, limits: Limits = YAML_LIMITS, remedy: str = "") -> Any:
    """The content of a YAML file; see `parse_yaml`."""
    return parse_yaml(read_bytes(path, name, limits.size, remedy), name, shape=shape, limits=limits, remedy=remedy)


def read_text(path: Path, name: str, *, size: int = LIMITS.size, remedy: str = "") -> str:
    """The text of a UTF-8 file, its line ends as they are; `UserError` where it cannot be read."""
    return _guarded(lambda: _contents(path, size).decode("utf-8"), name, " cannot be read", remedy)


def read_bytes(path: Path, name: str, size: int = LIMITS.size, remedy: str = "") -> bytes:
    """The bytes of a regular file; `UserError` where there is none, it is too large, or unreadable."""
    return _guarded(lambda: _contents(path, size), name, " cannot be read", remedy)


def parse_json(
    text: str | bytes | bytearray, name: str, *, shape: Any = None, limits: Limits = LIMITS, remedy: str = ""
) -> Any:
    """The value that a JSON text holds.

    Args:
        text: UTF-8 where it is bytes.
        name: names the text in an error, as "card=judge_card.yaml" or "data.jsonl line 3".
        shape: see `check_shape`; None takes any.
        remedy: a clause that says what would be right.

    Raises:
        UserError: no JSON, NaN or Infinity, a number that no float holds, half a surrogate,
            more than `limits` allow, or another shape.
    """

    def read() -> Any:
        content = _text(text, limits.size)
        value = json.loads(
            content,
            parse_int=_whole,
            parse_float=lambda number: float(_bounded(number)),
            parse_constant=None if limits.nan else _constant,
        )
        opened = content.count("[") + content.count("{")
        # the walk takes as long as the reading, so it is left out where nothing can be wrong
        halves = not limits.halves and ("\\u" in content or (isinstance(text, str) and not content.isascii()))
        if halves or opened > limits.depth or content.count(",") + opened >= limits.nodes:
            _check_plain(value, limits, leaves=halves)
        return value

    value = _guarded(read, name, ": not valid JSON", remedy)
    check_shape(value, shape, name, remedy)
    return value


def parse_yaml(
    text: str | bytes, name: str, *, shape: Any = None, limits: Limits = YAML_LIMITS, remedy: str = ""
) -> Any:
    """The value that one YAML document holds, whose keys must be text; see `parse_json`. An alias that stands for
    itself, a date, bytes and a class are refused too.

    Raises:
        UserError: as `parse_json`, and for an alias that stands for itself, a date, bytes or a class.
    """

    def read() -> Any:
        loader = _Loader(_text(text, limits.size), limits)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
        return _check_plain(value, limits, leaves=True)

    value = _guarded(read, name, ": not valid YAML", remedy)
    check_shape(value, shape, name, remedy)
    return value


def _guarded(read: Callable[[], Any], name: str, fault: str, remedy: str) -> Any:
    """Result of `read`, or one sentence. Parsers of others' text raise whatever they like, so all is caught."""
    end = f"; {remedy}." if remedy else "."
    try:
        return read()
    except RecursionError as error:
        raise UserError(f"{name}: lists or objects are nested too deep to be read{end}") from error
    except Exception as error:
        raise UserError(f"{name}{fault} ({_reason(error)}){end}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start + 1}"
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    return (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(".")


def _contents(path: Path, size: int) -> bytes:
    # a pipe without a writer would wait for one
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _Refused("it is no regular file")
        return _within(file.read(size + 1), size)


def _within(text: Any, size: int) -> Any:
    if len(text) > size:
        raise _Refused(f"it has more than {size:,} bytes")
    return text


def _text(text: str | bytes | bytearray, size: int) -> str:
    given = _within(text, size)
    return given if isinstance(given, str) else given.decode("utf-8-sig")


def _whole(text: str) -> int:
    return int(text) if len(text) < _SAFE_DIGITS else int(_bounded(text))


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_NUMBER or math.isinf(float(text)):
        raise _Refused(f"the number {shown(text)[1:-1]} is too large or too long")
    return text


def _constant(text: str) -> float:
    raise _Refused(f"{text} is no number")


def _check_plain(value: Any, limits: Limits, leaves: bool) -> Any:
    """The same value, if it is plain and within `limits`; texts and numbers are checked where `leaves`."""
    level: list[Any] = [[value]]  # the containers of one depth
    count = 0
    for _ in range(limits.depth + 1):
        below: list[Any] = []
        for node in level:
            count += len(node)
            if leaves and isinstance(node, dict):
                for key in node:
                    _check_leaf(key, limits)
            items = node.values() if isinstance(node, dict) else node
            for item in items:
                if isinstance(item, dict | list):
                    below.append(item)
                elif leaves:
                    _check_leaf(item, limits)
            if count > limits.nodes:
                raise _Refused(f"it holds more than {limits.nodes:,} values")
        if not below:
            return value
        level = below
    raise RecursionError


def _check_leaf(leaf: Any, limits: Limits) -> None:
    if isinstance(leaf, str):
        if not limits.halves and (half := _HALF.search(leaf)):
            raise _Refused(f"half a character, {half[0]!a}: a surrogate without its partner")
    elif isinstance(leaf, float):
        if not limits.nan and not math.isfinite(leaf):
            raise _Refused(f"{leaf!r} is no number")
    elif leaf is not None and not isinstance(leaf, int):
        kind = f"a {type(leaf).__name__}"
        raise _Refused(f"{shown(leaf)} is {kind}; write it in quotation marks")


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _Nodes(Composer, CParser, SafeConstructor, Resolver):
        """Events of the C library, which is several times as fast, and nodes of Python, which can be counted."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

else:
    _Nodes = yaml.SafeLoader  # type: ignore[assignment,misc]


class _Loader(_Nodes):
    """Counts what it composes before it makes anything of it."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text)
        self._limits, self._depth, self._count, self._length = limits, 0, 0, 0
        self._weights: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node, or the one that an alias stands for, counted again."""
        alias, count, length = self.check_event(yaml.AliasEvent), self._count, self._length
        self._depth += 1
        if self._depth > self._limits.depth + 1:
            raise RecursionError
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if alias and id(node) not in self._weights:
            raise _Refused("an alias stands for a list or mapping that it is in")
        text = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        values, characters = self._weights[id(node)] if alias else (1, text)
        self._count += values
        self._length += characters
        for total, most, unit in (
            (self._count, self._limits.nodes, "values"),
            (self._length, self._limits.size, "characters"),
        ):
            if total > most:
                raise _Refused(f"it holds more than {most:,} {unit}, aliases counted as what they stand for")
        self._weights.setdefault(id(node), (self._count - count, self._length - length))
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys are text; `<<` is one of them, and means nothing."""
        made: dict[Any, Any] = {}
        for key_node, value in node.value:
            key = self.construct_object(key_node, deep=True)
            if type(key) is not str and not (self._limits.keys and isinstance(key, int)):
                raise _Refused(f"the key {shown(key)} is no text")
            made[key] = self.construct_object(value, deep=deep)
        return made


def _number(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(loader: Any, node: Any) -> Any:
        if len(str(node.value)) > _LONGEST_NUMBER:
            raise _Refused(f"the number {shown(node.value)[1:-1]} is too large or too long")
        value = make(loader, node)
        float(value)  # refuses what no float holds
        return value

    return checked


_Loader.add_constructor("tag:yaml.org,2002:int", _number(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor("tag:yaml.org,2002:float", _number(yaml.SafeLoader.construct_yaml_float))


def check_shape(value: Any, shape: Any, name: str, remedy: str = "", at: str = "") -> None:
    """Checks that a plain value has a shape.

    Args:
        shape: a type as pydantic takes it, and `{"key": shape}` for an object that has these keys at least, "key?" for
            one that may be missing, `{str: shape}` for any keys, `[shape]` for a list, and a tuple of shapes any of
            which will do; `None` takes any value.
        at: position of `value` inside its source.

    Raises:
        UserError: another shape; says where.

    Example:
        >>> check_shape({"n": ["1"]}, {"n": [int]}, "a.json")
        Traceback (most recent call last):
        judgebench.runtime.errors.UserError: a.json: n[0]: '1' should be a valid integer.
    """
    from pydantic import TypeAdapter, ValidationError  # which few commands need

    if shape is None:
        return
    try:
        TypeAdapter(_typed(shape)).validate_python(value, strict=True)
    except ValidationError as error:
        raise UserError(f"{name}: {faults(error, value, at)[0]}{f'; {remedy}' if remedy else ''}.") from None


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
    return make("Object", {key: NotRequired[inner] if f"{key}?" in shape else inner for key, inner in keys.items()})


def faults(error: ValidationError, value: Any, at: str = "") -> list[str]:
    """A clause for each place of a value that pydantic refuses: the place, and what pydantic says of it."""
    words: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_context=False):
        node, place, kind = value, at, fault["type"]
        for part in fault["loc"]:  # of which some name no place, but a type of a union
            keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list | tuple) else ()
            if part in keys or (kind == "missing" and part == fault["loc"][-1]):
                place = f"{place}[{part}]" if isinstance(part, int) else f"{place}.{part[:60]}".removeprefix(".")
                node = node[part] if part in keys else None
        message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ").replace("dictionary", "mapping")
        if kind == "sequence_str" or message.endswith("instance of Sequence"):
            message = "should be a valid list"
        if kind in ("missing", "extra_forbidden"):
            words[f"{place} is {'not given' if kind == 'missing' else 'unknown'}"] = []
        else:
            start = f"{place}{': ' if place else ''}{shown(fault['input'])}"
            words[start] = [*words.get(start, ()), message.removeprefix("should ") if start in words else message]
    return [" ".join([start, ", or ".join(dict.fromkeys(messages))]).rstrip() for start, messages in words.items()]
