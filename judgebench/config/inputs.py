"""The files and folders that a configuration reads, so that no command writes over one of them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judgebench.data.rows import local_path
from judgebench.runtime.files import Input, check_outputs, user_path
from judgebench.settings.fields import plain

_GROUPS = (
    "card",
    "readings",
    "labels",
    "judge",
    "assistant",
    "prompt",
    "attacks",
    "defenses",
    "audit",
    "tutor",
)
"""Keys whose values may name files, or hold keys that do."""


def inputs_of(config: Mapping[Any, Any]) -> Iterator[Input]:
    """The inputs of a configuration on this machine: its texts, and each file that a value of
    `_GROUPS` names, wherever it stands there; of a folder, as that of a model, the files in it."""
    for name in _GROUPS:
        for key, text in _texts(name, plain(config.get(name))):
            # of os.path, which takes any text for a path
            place = os.path.expanduser(text)
            files = [Path(place)]
            if os.path.isdir(place):
                files = sorted(Path(place).iterdir())
            for file in files:
                if os.path.isfile(file):
                    yield Input(f"{key}={text}", file)
    data = plain(config.get("data"))
    path = data.get("path") if isinstance(data, Mapping) else None
    if isinstance(path, str) and path.strip():
        yield _data(path, data.get("layouts"))


def store_of(given: str | Path, inputs: Iterable[Input]) -> Input:
    """The store of readings, over which nothing else may be written; `UserError` where it is one of
    the inputs."""
    path = user_path(given)
    store = Input(f"store={path}", path)
    # readings are added to a store that a judge is read from, too
    others = [source for source in inputs if ".store=" not in source.name]
    if not store.path.is_dir():
        check_outputs([store[:2]], (source._replace(patterns=()) for source in others))
    return store


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each text inside a plain value, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(f"{key}.{name}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(key, item)


def _data(path: str, layouts: Any) -> Input:
    """The texts: a file; a folder, of which everything or what fits a layout is read; or a
    pattern."""
    here = local_path(path)
    name = f"data.path={path}"
    if glob.has_magic(path) and not here.exists():
        plain_part = re.split(r"[*?\[]", str(here))[0]
        folder = os.path.dirname(plain_part)
        pattern = str(here).removeprefix(folder).lstrip("/")
        return Input(name, Path(folder), [pattern.replace("**/", "*")])
    patterns = []
    for layout in layouts if isinstance(layouts, list) else [{}]:
        if isinstance(layout, Mapping):
            patterns.append(str(layout.get("files") or "*"))
    return Input(name, here, patterns)
