"""The one door for what comes from outside: JSON and YAML of files, servers and command lines, read
within limits.

What passes is plain (dict with text keys, list, text, number, bool, None), no larger and no deeper
than the limits, and of the shape that was asked for. Everything else is one `UserError` that names
its source.

Example:
    >>> parse_json('{"phrase": "so good"}', "phrase.json", shape={"phrase": str})
    {'phrase': 'so good'}
    >>> parse_json('{"phrase": NaN}', "phrase.json")
    Traceback (most recent call last):
    judgebench.words.errors.UserError: phrase.json: not valid JSON (NaN is no number, or too large).
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from judgebench.runtime.shapes import check_shape
from judgebench.words.errors import UserError, reason, shown

_MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bounds of what one source may hold.

    Attributes:
        size: bytes.
        depth: of nested lists and objects.
        nodes: values and keys, where a YAML alias counts as all that it stands for. The characters
            of its texts count so too, and may be as many as `size`.
        loose: lets half surrogates, NaN and Infinity pass to a caller that checks them itself.
    """

    size: int = 64 * _MIB
    depth: int = 100
    nodes: int = 5_000_000
    loose: bool = False


LIMITS = Limits()
"""For JSON."""
YAML_LIMITS = Limits(size=4 * _MIB, nodes=100_000)
"""For YAML, which takes longer to read."""


def read_json(
    path: Path, name: str, *, shape: Any = None, limits: Limits = LIMITS, remedy: str = ""
) -> Any:
    """The content of a JSON file; see `parse_json`."""
    return parse_json(
        read_bytes(path, name, limits.size, remedy), name, shape=shape, limits=limits, remedy=remedy
    )


def read_yaml(
    path: Path, name: str, *, shape: Any = None, limits: Limits = YAML_LIMITS, remedy: str = ""
) -> Any:
    """The content of a YAML file; see `parse_yaml`."""
    return parse_yaml(
        read_bytes(path, name, limits.size, remedy), name, shape=shape, limits=limits, remedy=remedy
    )


def read_text(path: Path, name: str, *, size: int = LIMITS.size, remedy: str = "") -> str:
    """The text of a UTF-8 file, its line ends as they are; `UserError` where it cannot be read."""
    with _one_sentence(f"{name} cannot be read", remedy):
        return _contents(path, size).decode("utf-8")


def read_bytes(path: Path, name: str, size: int = LIMITS.size, remedy: str = "") -> bytes:
    """The bytes of a regular file; `UserError` where there is none, it is too large, or
    unreadable."""
    with _one_sentence(f"{name} cannot be read", remedy):
        return _contents(path, size)


def parse_json(
    text: str | bytes | bytearray,
    name: str,
    *,
    shape: Any = None,
    limits: Limits = LIMITS,
    remedy: str = "",
) -> Any:
    """The value that a JSON text holds.

    Args:
        text: UTF-8 where it is bytes.
        name: names the text in an error, as "card=judge_card.yaml" or "data.jsonl line 3".
        shape: see `check_shape`; None takes any.
        remedy: a clause that says what would be right.

    Raises:
        UserError: no JSON, NaN or Infinity, a number that no float holds, half a surrogate, more
            than `limits` allow, or another shape.
    """
    with _one_sentence(f"{name}: not valid JSON", remedy):
        content = _within(text, limits)
        value = _decoder(limits.loose).decode(content)
        # the walk takes as long as the reading, so it is left out where nothing can be wrong
        opened = content.count("[") + content.count("{")
        nodes = opened + content.count(",")
        if opened > limits.depth or nodes >= limits.nodes:
            _check_plain(value, limits)
        beyond_ascii = "\\u" in content or not content.isascii()
        if not limits.loose and beyond_ascii:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # refuses half a surrogate
    check_shape(value, shape, name, remedy)
    return value


@lru_cache(maxsize=8)  # the cell of a row is asked for one thing after the other
def opened(text: str) -> Any:
    """The list or object that a text is as JSON, as in a cell of a table; else the text."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return parse_json(text, "")
    except UserError:
        return text


def parse_yaml(
    text: str | bytes,
    name: str,
    *,
    shape: Any = None,
    limits: Limits = YAML_LIMITS,
    remedy: str = "",
) -> Any:
    """The value that one YAML document holds, whose keys must be text; see `parse_json`. An alias
    that stands for itself, a date, bytes and a class are refused too."""
    with _one_sentence(f"{name}: not valid YAML", remedy):
        content = _within(text, limits)
        _count(content, limits)
        value = _check_plain(_Loader(content).get_single_data(), limits)
    check_shape(value, shape, name, remedy)
    return value


@contextmanager
def _one_sentence(fault: str, remedy: str) -> Iterator[None]:
    """Makes one sentence of all that is raised: parsers of others' text raise what they like."""
    end = f"; {remedy}." if remedy else "."
    try:
        yield
    except RecursionError as error:
        raise UserError(f"{fault} (lists or objects are nested too deep){end}") from error
    except Exception as error:
        why = getattr(error, "strerror", None) or reason(error)
        if isinstance(error, UnicodeDecodeError):
            why = (
                f"it is not UTF-8: byte 0x{error.object[error.start]:02x} at position "
                f"{error.start + 1}"
            )
        if "nesting depth" in why:  # of libyaml
            why = "lists or objects are nested too deep"
        raise UserError(f"{fault} ({why}){end}") from error


def _contents(path: Path, size: int) -> bytes:
    # a pipe without a writer would wait for one
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(f"it has more than {size:,} bytes")
    return content


def _within(text: str | bytes | bytearray, limits: Limits) -> str:
    if len(text) > limits.size:
        raise ValueError(f"it has more than {limits.size:,} bytes")
    return text if isinstance(text, str) else text.decode("utf-8-sig")


@cache
def _decoder(loose: bool) -> json.JSONDecoder:
    numbers = _finite(float)
    return json.JSONDecoder(
        parse_int=_finite(int), parse_float=numbers, parse_constant=None if loose else numbers
    )


def _finite(make: Callable[[str], float]) -> Callable[[str], float]:
    """A reader of numbers that refuses what no float holds."""

    def number(text: str) -> float:
        value = make(text)
        if not math.isfinite(value):
            raise ValueError(f"{text[:60]} is no number, or too large")
        return value

    return number


def _check_plain(value: Any, limits: Limits) -> Any:
    """The same value, if it is plain and within `limits`."""
    level = [value]
    count = 0
    depth = 0
    while level:
        below = []
        for node in level:
            if depth == limits.depth and isinstance(node, dict | list):
                raise RecursionError
            if isinstance(node, dict):
                if odd := [
                    key
                    for key in node
                    if not isinstance(key, str) and not (limits.loose and type(key) is int)
                ]:
                    raise ValueError(f"the key {shown(odd[0])} is no text")
                below += [*node, *node.values()]
            elif isinstance(node, list):
                below += node
            elif isinstance(node, str) and not limits.loose:
                node.encode("utf-8")  # refuses half a surrogate
            elif isinstance(node, int | float) and not (limits.loose or math.isfinite(node)):
                raise ValueError(f"{node!r} is no number")
            elif not isinstance(node, str | int | float | None):
                raise ValueError(
                    f"{shown(node)} is a {type(node).__name__}; write it in quotation marks"
                )
        count += len(below)
        if count > limits.nodes:
            raise ValueError(f"it holds more than {limits.nodes:,} values")
        level = below
        depth = depth + 1
    return value


_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):
    """Refuses numbers of base 60, as 1:30, which is 90, and whole numbers that no float holds."""


def _number(loader: Any, node: yaml.ScalarNode) -> Any:
    if ":" in node.value:
        raise ValueError(
            f"{shown(node.value)} is a number of base 60; write it in quotation marks, or in full"
        )
    value = _Safe.yaml_constructors[node.tag](loader, node)
    float(value)
    return value


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)


def check_columns(names: Sequence[str], name: str) -> None:
    """Checks that the columns of a table have names of their own; else `UserError`."""
    if doubled := [column for i, column in enumerate(names) if column in names[:i]]:
        raise UserError(
            f"{name}: two columns are called '{doubled[0]}'; give each a name of its own."
        )


def _count(text: str, limits: Limits) -> None:
    """Refuses a YAML text that holds more than `limits`, before anything is made of it; an alias
    counts as what it stands for."""
    sizes: dict[str, tuple[int, int]] = {}  # anchor -> values and characters
    opened: list[tuple[str | None, int, int]] = []
    values = characters = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values, characters))
            values += 1
            if len(opened) > limits.depth + 1:
                raise RecursionError
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values_before, characters_before = opened.pop()
            if anchor:
                sizes[anchor] = values - values_before, characters - characters_before
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            characters += len(event.value)
            if event.anchor:
                sizes[event.anchor] = 1, len(event.value)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(
                    f"alias {event.anchor} stands for nothing, or for a list or mapping that it is "
                    "in"
                )
            values = values + sizes[event.anchor][0]
            characters = characters + sizes[event.anchor][1]
        for total, most, unit in (
            (values, limits.nodes, "values"),
            (characters, limits.size, "characters"),
        ):
            if total > most:
                raise ValueError(
                    f"it holds more than {most:,} {unit}, aliases counted as what they stand for"
                )
