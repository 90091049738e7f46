"""GGUF files parsed once: transformers parses a file anew for its tokenizer, its configuration and its weights.

Parsing goes through the vocabulary token by token, in Python; of a vocabulary of 150,000 it takes longer than reading
the weights of a small model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from os import PathLike, fspath, stat
from typing import Any
from unittest.mock import patch

import gguf
import numpy as np
from gguf.tensor_mapping import TensorNameMap

_parsed: dict[str, tuple[tuple[int, int], gguf.GGUFReader]] = {}


class _Reader(gguf.GGUFReader):
    # every slice of numpy's memory map is a memory map again, which costs several times the slice
    @property  # type: ignore[override] # the library declares the map's own class
    def data(self) -> np.ndarray[Any, Any]:
        return self._bytes

    @data.setter
    def data(self, mapped: np.ndarray[Any, Any]) -> None:
        self._bytes = mapped.view(np.ndarray)


def _read(path: str | PathLike[str]) -> gguf.GGUFReader:
    status = stat(path)
    state = (status.st_size, status.st_mtime_ns)
    known = _parsed.get(fspath(path))
    if known is not None and known[0] == state:
        return known[1]
    reader = _Reader(path)
    _parsed[fspath(path)] = (state, reader)
    return reader


_names = lru_cache(maxsize=2)(TensorNameMap)


@contextmanager
def parsed_once() -> Iterator[None]:
    """Within it, transformers gets a GGUF file as it was parsed before, unless the file has changed since.

    transformers asks the package `gguf` for a reader three times a model, and for the names of all tensors once a
    module; the answers are the same each time.
    """
    with patch.object(gguf, "GGUFReader", _read), patch.object(gguf, "get_tensor_name_map", _names):
        yield


def forget(path: str | PathLike[str]) -> None:
    """Lets go of a parsed file, which holds a small array for every token of the vocabulary."""
    _parsed.pop(fspath(path), None)
