"""One thing that takes input from outside, and the promise that all such things make."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from judgebench.words.errors import UserError


@dataclass(frozen=True)
class Target:
    """One thing that takes input from outside.

    Attributes:
        share: of all cases.
        case: what a source of chance makes; check: raises AssertionError where a promise is broken, and whatever else
            it should not.
        seconds: of processor time that one case may take.
    """

    name: str
    share: float
    case: Callable[[random.Random], Any]
    check: Callable[[Any], None]
    seconds: float = 2.0


def told(call: Callable[[], Any]) -> Any:
    """What a call gives; None where it refuses in a sentence."""
    try:
        return call()
    except UserError as error:
        check_sentence(error)
        return None


def check_sentence(error: UserError) -> None:
    text = str(error)
    assert text.strip(), "the error says nothing"
    text.encode()  # it must be printable


@cache
def folder_of_cases() -> Path:
    return Path(tempfile.mkdtemp(prefix="judgebench-fuzz-"))


def written(name: str, data: bytes) -> Path:
    path = folder_of_cases() / name
    path.write_bytes(data)
    return path
