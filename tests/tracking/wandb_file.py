"""Reads a .wandb file back: the records of an offline run, as W&B wrote them.

The file is a LevelDB log: a 7-byte file header, then blocks of 32 KiB with records of
checksum (4 bytes) | length (2) | kind (1) | data, where kind tells a whole record from a first, middle or last part.
W&B's own reader in Python is gone since 0.31.
"""

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

_FILE_HEADER, _BLOCK, _HEADER = 7, 32 * 1024, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass
class Logged:
    """What a run logged: its config, the last value of each summary and history key, the artifacts that it was asked to
    keep (type and names of the files), and whether it was finished."""

    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    artifacts: list[tuple[str, set[str]]] = field(default_factory=list)
    exit_code: int | None = None


def the_file(folder: Path, seconds: float = 20) -> Path:
    """The run file below a folder, once W&B's background service has made it: on a busy machine it may be late."""
    end = time.monotonic() + seconds
    while not (found := list(folder.rglob("*.wandb"))) and time.monotonic() < end:
        time.sleep(0.05)
    (file,) = found
    return file


def read_finished(path: Path, seconds: float = 20) -> Logged:
    """Waits for the run's last record: W&B's background service may still be writing when `finish` returns."""
    end = time.monotonic() + seconds
    while (logged := read(path)).exit_code is None and time.monotonic() < end:
        time.sleep(0.05)
    return logged


def read(path: Path) -> Logged:
    logged = Logged()
    for record in records(path):
        kind = record.WhichOneof("record_type")
        logged.kinds.append(kind)
        if kind == "config":
            logged.config |= _items(record.config.update)
        elif kind == "run":
            logged.config |= _items(record.run.config.update)
        elif kind == "summary":
            logged.summary |= _items(record.summary.update)
        elif kind == "history":
            logged.history |= _items(record.history.item)
        elif kind == "request" and record.request.WhichOneof("request_type") == "log_artifact":
            _artifact(logged, record.request.log_artifact.artifact)
        elif kind == "artifact":
            _artifact(logged, record.artifact)
        elif kind == "exit":
            logged.exit_code = record.exit.exit_code
    return logged


def records(path: Path) -> Iterator[Record]:
    """The whole records of the file; a part that is still being written is left out."""
    data = path.read_bytes()
    assert data[:4] in (b":W&B", b"")
    at, parts = _FILE_HEADER, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:  # a header never straddles two blocks
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        part = data[at + _HEADER : at + _HEADER + length]
        if len(part) < length:
            return
        at += _HEADER + length
        if kind == _FULL:
            yield Record.FromString(part)
        elif kind in (_FIRST, _MIDDLE):
            parts += part
        elif kind == _LAST:
            yield Record.FromString(parts + part)
            parts = b""
        else:
            raise AssertionError(f"{path}: kind {kind} at byte {at}")


def _artifact(logged: Logged, artifact: Any) -> None:
    if artifact.type != "run_table":  # W&B's own, one a table
        logged.artifacts.append((artifact.type, {entry.path for entry in artifact.manifest.contents}))


def _items(items: Any) -> dict[str, Any]:
    """Key -> value; a nested key becomes nested dicts."""
    found: dict[str, Any] = {}
    for item in items:
        parts = list(item.nested_key) or [item.key]
        inner = found
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = json.loads(item.value_json)
    return found
