"""Readings one by one: their keys, their checksums, numbers that no model gives, their columns in readings.parquet."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from judgebench.decoding.scores import key_columns
from judgebench.runtime.errors import UserError
from judgebench.types import Prompt, Reading

_KEY_FORMAT = 1
"""Part of every key: readings of stores without checksums keep theirs."""
_SLACK = 1e-3
"""Rounding of a log-probability that is 0."""
_MORE = 0.01
"""Rounding of shares that sum to 1: servers give log-probabilities in a few digits."""


@dataclass(frozen=True)
class ModelReading:
    """One model's answer to one prompt.

    Attributes:
        key: of `reading_key`.
        logprobs: [candidates] float32, or None where the answer was generated.
        seconds: wall time of its forward passes.
        tokens: [tokens] int32 of the generated answer, where they are needed: a text does not always give them again.
    """

    key: str
    logprobs: np.ndarray | None
    text: str | None
    seconds: float
    tokens: np.ndarray | None = None


def reading_key(identity: dict[str, Any], token_ids: np.ndarray) -> str:
    """The address of a model reading, 64 hexadecimal digits.

    Args:
        identity: everything that the reading depends on but the prompt's [tokens]; JSON-serialisable.
    """
    digest = hashlib.sha256(json.dumps({"format": _KEY_FORMAT, **identity}, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(token_ids, dtype=np.int32).tobytes())
    return digest.hexdigest()


class FoundReadings(dict[str, ModelReading]):
    """Readings by key; a key that has none is a `UserError`, since it was there, or was just read."""

    def __init__(self, store: Path, readings: Iterable[ModelReading] = ()):
        super().__init__((reading.key, reading) for reading in readings)
        self.store = store

    def __reduce__(self) -> Any:
        return FoundReadings, (self.store, list(self.values()))

    def __missing__(self, key: str) -> ModelReading:
        raise UserError(
            f"store={self.store}: a reading that was stored is there no more, or does not match its checksum; run the "
            "same command again, and it is read again."
        )


def checksum(key: Any, logprobs: Any, text: Any, seconds: Any, ids: Any) -> int | None:
    """CRC-32 over a row's key and content, each bytes or None; None where a part is of another kind, as in a damaged
    row. It shows every change of up to 32 neighboring bits, and of one bit in any place."""
    try:
        lengths = (-1 if part is None else len(part) for part in (logprobs, text, ids))
        head = struct.pack("<iiid", *lengths, seconds or 0.0)
        return crc32(b"".join((key, head, logprobs or b"", text or b"", ids or b"")))
    except (TypeError, struct.error):
        return None


def pack_readings(readings: Sequence[ModelReading]) -> bytes:
    """JSON for another process, exact to the last bit. Not pickled: unpickling runs what was sent, and the mailbox is
    open to the network."""
    rows = []
    for reading in readings:
        logprobs = None if reading.logprobs is None else np.asarray(reading.logprobs, np.float32).tolist()
        tokens = None if reading.tokens is None else np.asarray(reading.tokens, np.int32).tolist()
        rows.append((reading.key, logprobs, reading.text, reading.seconds, tokens))
    return json.dumps(rows).encode()


def unpack_readings(message: bytes) -> list[ModelReading]:
    """The readings that `pack_readings` has packed."""
    readings = []
    for key, logprobs, text, seconds, tokens in json.loads(message):
        logs = None if logprobs is None else np.array(logprobs, np.float32)
        readings.append(ModelReading(key, logs, text, seconds, None if tokens is None else np.array(tokens, np.int32)))
    return readings


def first_impossible(logprobs: bytes | None) -> float | None:
    """The first of [candidates] float32 that is not a log-probability: not a number, or above 0 by more than rounding;
    None if all are. Minus infinity, of what cannot be, is one."""
    values = np.frombuffer(logprobs or b"", np.float32)
    possible = values <= _SLACK
    return None if possible.all() else float(values[~possible][0])


def is_possible(logprobs: Sequence[float]) -> bool:
    """True of log-probabilities [candidates] that a model can give: numbers of at most 0, of at most 1 together, since
    no candidate is part of another."""
    return all(logprob <= _SLACK for logprob in logprobs) and math.fsum(map(math.exp, logprobs)) <= 1 + _MORE


def check_shares(logprobs: Sequence[float], prompt: Prompt, store: Path) -> None:
    """Raises UserError for log-probabilities [candidates] that no model gives."""
    if not is_possible(logprobs):
        raise UserError(
            f"store={store}: the candidates' probabilities of example {prompt.example.example_id} ({prompt.condition}) "
            f"sum to {math.fsum(map(math.exp, logprobs)):.4g}, and to no more than 1 they can. Whoever gave them, "
            "model or server, cannot be used as a judge; with another one, or another store=, they are read again."
        )


def reading_columns(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    """The columns of readings.parquet, one row a reading."""
    ways, prompts = [reading.generation for reading in readings], [reading.prompt for reading in readings]
    columns: dict[str, list[Any]] = {**key_columns(readings)}
    columns["candidates"] = [list(prompt.condition.range.candidates) for prompt in prompts]
    for name in ("main_logprobs", "assistant_logprobs", "text"):
        columns[name] = [getattr(reading, name) for reading in readings]
    for name, field in (("judge", "judge"), ("decoding", "decoding"), ("lambda", "lambda_")):
        columns[name] = [getattr(way, field, None) for way in ways]
    columns["temperature"] = [getattr(way, "temperature", None) for way in ways]
    columns["prompt"] = [prompt.text for prompt in prompts]
    columns["prompt_tokens"] = [len(prompt.token_ids) for prompt in prompts]
    for name in ("source_tokens_cut", "control_tokens"):
        columns[name] = [getattr(prompt, name) for prompt in prompts]
    columns["seconds"] = [reading.seconds for reading in readings]
    return columns
