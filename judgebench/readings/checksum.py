"""Checksums of stored rows, and numbers that no model gives."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from judgebench.runtime.errors import UserError
from judgebench.types import Prompt

_pack = struct.Struct("<iiid").pack
_SLACK = 1e-3
"""Rounding of a log-probability that is 0."""
_MORE = 0.01
"""Rounding of shares that sum to 1: servers give log-probabilities in a few digits."""


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
    That of the impossible, minus infinity, is one."""
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
