"""Standard vectors as a safetensors file: numbers as tensors, their origin as metadata that any reader can show."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from judgebench.runtime.errors import UserError
from judgebench.runtime.files import check_run_file
from judgebench.runtime.parsing import parse_json
from judgebench.tutor.spec import Sizes
from judgebench.tutor.vectors import Origin, StandardVectors

_FORMAT = "judgebench standard vectors 1"
_ARRAYS = ("high", "low", "separability", "chance", "norms", "scores", "low_points", "high_points", "shares")
_NUMBERS = {"layer": int, "low_threshold": float, "high_threshold": float}
_ORIGIN = {**{one.name: str for one in fields(Origin)}, "groups": [str], "seed": int, "candidates": int}
"""Name -> its shape, see `judgebench.runtime.shape.check_shape`."""


def save_vectors(vectors: StandardVectors, path: Path) -> None:
    """Writes the file, whole or not at all.

    Raises:
        UserError: it cannot be written.
    """
    counts = {"high_count": len(vectors.high_points), "low_count": len(vectors.low_points)}
    numbers = {name: getattr(vectors, name) for name in _NUMBERS} | counts
    metadata = {"format": _FORMAT, **{name: repr(value) for name, value in numbers.items()}}
    metadata |= {name: json.dumps(value) for name, value in asdict(vectors.origin).items()}
    data = save({name: np.ascontiguousarray(getattr(vectors, name)) for name in _ARRAYS}, metadata)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise UserError(f"tutor: the standard vectors cannot be written to {path} ({error}).") from error


def load_vectors(path: Path, tutor_fingerprint: str, sizes: Sizes) -> StandardVectors:
    """Vectors that another run has saved, if they are this tutor's.

    Args:
        tutor_fingerprint: SHA-256 of the tutor's content (`tutor.voice.fingerprint`).
        sizes: the tutor's (`tutor.spec.sizes`).

    Raises:
        UserError: no such file, another kind of file, or vectors of another model.
    """
    where = f"tutor.vectors={path}"
    if not path.is_file():
        raise UserError(f"{where}: there is no such file; give one that a run with a tutor has saved, or null.")
    check_run_file(path, "tutor.vectors")
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise UserError(f"{where}: cannot be read as safetensors ({error}).") from error
    if metadata.get("format") != _FORMAT:
        raise UserError(
            f"{where}: holds no standard vectors that this version of judgebench reads; give a file that a run with a "
            "tutor has saved."
        )
    try:
        origin = _origin(metadata, where)
        numbers = _read(metadata, _NUMBERS, where)
        vectors = StandardVectors(**{name: arrays[name] for name in _ARRAYS}, **numbers, origin=origin)
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{where}: parts of it are missing or damaged ({error!r}); find the vectors again.") from error
    if {vectors.high.shape, vectors.low.shape} != {(sizes.layers, sizes.hidden)}:
        raise UserError(
            f"{where}: its vectors are of {origin.tutor}, with {_shape(vectors.high)}, and the tutor has "
            f"{sizes.layers} layers of size {sizes.hidden}; find vectors with this tutor, or choose {origin.tutor}."
        )
    if origin.tutor_fingerprint != tutor_fingerprint:
        raise UserError(
            f"{where}: its vectors are of {origin.tutor} with the fingerprint {origin.tutor_fingerprint[:12]}, and the "
            f"tutor has {tutor_fingerprint[:12]}: another model, or the same in other files. Find vectors with this "
            "tutor."
        )
    return vectors


def _origin(metadata: dict[str, str], where: str) -> Origin:
    given = _read(metadata, _ORIGIN, where)
    return Origin(**given | {"groups": tuple(given["groups"])})


def _read(metadata: dict[str, str], shapes: dict[str, Any], where: str) -> dict[str, Any]:
    remedy = "parts of it are damaged, so find the vectors again"
    return {
        name: parse_json(metadata[name], f"{where}: {name}", shape=one, remedy=remedy) for name, one in shapes.items()
    }


def _shape(array: np.ndarray) -> str:
    return f"{array.shape[0]} layers of size {array.shape[1]}" if array.ndim == 2 else f"shape {list(array.shape)}"
