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
_pack = struct.Struct("<iiid").pack
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
        text: the generated answer, or None.
        seconds: wall time of its forward passes.
        tokens: [tokens] int32 of the generated answer, where whoever asked wants them back: a text does not always
            give them again.
    """

    key: str
    logprobs: np.ndarray | None
    text: str | None
    seconds: float
    tokens: np.ndarray | None = None


def reading_key(identity: dict[str, Any], token_ids: np.ndarray) -> str:
    """The address of a model reading.

    Args:
        identity: everything but the prompt that the reading depends on; JSON-serialisable.
        token_ids: [tokens] the prompt.

    Returns:
        64 hexadecimal digits.
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
        """For other processes, which get them pickled."""
        return FoundReadings, (self.store, list(self.values()))

    def __missing__(self, key: str) -> ModelReading:
        raise UserError(
            f"store={self.store}: a reading that was stored is there no more, or does not match its checksum; run the "
            "same command again, and it is read anew."
        )


def checksum(key: Any, logprobs: Any, text: Any, seconds: Any, ids: Any) -> int | None:
    """CRC-32 over a row's key and content, and over which of its parts are there. It shows every change of up to 32
    neighboring bits, and of one bit in any place.

    Args:
        key, logprobs, text, ids: bytes, or None where a row has no such part.
        seconds: a number.

    Returns:
        None where a part is of another kind, as in a damaged row.
    """
    logs, said, tokens = logprobs or b"", text or b"", ids or b""
    try:
        head = _pack(
            -1 if logprobs is None else len(logs),
            -1 if text is None else len(said),
            -1 if ids is None else len(tokens),
            seconds or 0.0,
        )
        return crc32(b"".join((key, head, logs, said, tokens)))
    except (TypeError, struct.error):
        return None


def first_impossible(logprobs: np.ndarray) -> float | None:
    """The first value that is no log-probability: not a number, or above 0 by more than rounding; None if all are.
    Minus infinity, of what cannot be, is one."""
    if (logprobs <= _SLACK).all():
        return None
    return float(logprobs[~(logprobs <= _SLACK)][0])


def check_shares(logprobs: Sequence[float], prompt: Prompt, store: Path) -> None:
    """Refuses log-probabilities of a prompt's candidates that together are likelier than certain: no candidate is part
    of another, so their probabilities sum to 1 at most.

    Args:
        logprobs: [candidates].
        prompt, store: named in the error.

    Raises:
        UserError: they sum to more than 1.
    """
    total = math.fsum(map(math.exp, logprobs))
    if not total <= 1 + _MORE:
        raise UserError(
            f"store={store}: the candidates' probabilities of example {prompt.example.example_id} ({prompt.condition}) "
            f"sum to {total:.4g}, and to no more than 1 they can. Whoever gave them, model or server, cannot be used "
            "as a judge; with another one, or another store=, they are read anew."
        )


def reading_columns(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    """One row a reading; judge, decoding, lambda and temperature say how a generated text came about."""
    how = [reading.generation for reading in readings]
    return {
        **key_columns(readings),
        "candidates": [list(reading.prompt.condition.range.candidates) for reading in readings],
        "main_logprobs": [reading.main_logprobs for reading in readings],
        "assistant_logprobs": [reading.assistant_logprobs for reading in readings],
        "text": [reading.text for reading in readings],
        "judge": [h.judge if h else None for h in how],
        "decoding": [h.decoding if h else None for h in how],
        "lambda": [h.lambda_ if h else None for h in how],
        "temperature": [h.temperature if h else None for h in how],
        "prompt": [reading.prompt.text for reading in readings],
        "prompt_tokens": [len(reading.prompt.token_ids) for reading in readings],
        "source_tokens_cut": [reading.prompt.source_tokens_cut for reading in readings],
        "control_tokens": [reading.prompt.control_tokens for reading in readings],
        "seconds": [reading.seconds for reading in readings],
    }
