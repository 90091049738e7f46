"""Files of a model: those of a folder that transformers loads, which must be ordinary files of it; and GGUF parsed
once, which takes longer than reading the weights of a small model.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from os import PathLike, fspath, stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_json

if TYPE_CHECKING:
    from gguf import GGUFReader

_WHOLE = "model.safetensors"
_INDEX = ".safetensors.index.json"


def weight_files(folder: Path, named: str | None, where: str) -> list[str]:
    """The weights that are loaded, as paths below the folder; none where there are none.

    Args:
        named: their name in the model's configuration (`transformers_weights`), if any.
        where: the config key and its value, for errors.

    Raises:
        UserError: the index of the weights is damaged, or a file lies outside of the folder.
    """
    if importlib.util.find_spec("peft") is not None and (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{where}: the folder holds an adapter (adapter_config.json), and the model that it adapts lies elsewhere; "
            "merge it into that model, and give the folder of the whole."
        )
    name = named or (_WHOLE if (folder / _WHOLE).is_file() else f"model{_INDEX}")
    if not named and not (folder / name).is_file():
        return []
    names = [name]
    if name.endswith(_INDEX):
        shape = {"weight_map": {str: str}}
        index = read_json(folder / name, f"{where}: {name}", shape=shape, remedy="fetch it again")
        names += sorted(set(index["weight_map"].values()))
    # the hub's cache: files are links to blobs, whose names are their digests
    root = folder.resolve()
    inside = [root, *([root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [])]
    for each in names:
        pure = PureWindowsPath(each)
        if pure.drive or pure.root or ".." in pure.parts or ".." in PurePosixPath(each).parts:
            raise UserError(
                f"{where}: its weights are said to lie in {each!r}, outside of its folder; give a folder that holds "
                "all of its weights."
            )
        check_regular([folder / each], where)
        target = (folder / each).resolve()
        if (folder / each).exists() and not any(target.is_relative_to(place) for place in inside):
            raise UserError(
                f"{where}: {each} is a link to {target}, outside of the model's folder; copy the file there, or give "
                "the folder that it lies in."
            )
    return names


def check_regular(paths: Iterable[Path], where: str) -> None:
    """Raises UserError for a device or a pipe, or a link to one, which might never end."""
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(
                f"{where}: {path.name} is no ordinary file but a device or a pipe, or a link to one; fetch the model "
                "again."
            )


_parsed: dict[str, tuple[tuple[int, int], GGUFReader]] = {}
"""Path of a GGUF file -> its size and time of change, and what was parsed."""


@contextmanager
def parsed_once() -> Iterator[None]:
    """Within it, transformers gets a GGUF file as it was parsed before, unless the file has changed since: it asks the
    package `gguf` for a reader three times a model, and for the names of all tensors once a module."""
    import gguf

    def read(path: str | PathLike[str]) -> GGUFReader:
        status, name = stat(path), fspath(path)
        state = (status.st_size, status.st_mtime_ns)
        if name not in _parsed or _parsed[name][0] != state:
            _parsed[name] = (state, _reader_class()(path))
        return _parsed[name][1]

    with patch.object(gguf, "GGUFReader", read), patch.object(gguf, "get_tensor_name_map", _tensor_names()):
        yield


def forget(path: str | PathLike[str]) -> None:
    """Lets go of a parsed GGUF file, which holds a small array for every token of the vocabulary."""
    _parsed.pop(fspath(path), None)


@cache
def _reader_class() -> type[GGUFReader]:
    from gguf.gguf_reader import GGUFReader  # the package's own name of it is patched

    class Reader(GGUFReader):
        # every slice of numpy's memory map is a memory map again, which costs several times the slice
        @property  # type: ignore[override] # the library declares the map's own class
        def data(self) -> np.ndarray[Any, Any]:
            return self._bytes

        @data.setter
        def data(self, mapped: np.ndarray[Any, Any]) -> None:
            self._bytes = mapped.view(np.ndarray)

    return Reader


@cache
def _tensor_names() -> Any:
    from gguf.tensor_mapping import TensorNameMap

    return lru_cache(maxsize=2)(TensorNameMap)
