"""The key of an endpoint: read from the environment, sent to its server, and taken out of whatever that says."""

from __future__ import annotations

import os
import re
from typing import Any

from judgebench.judges.api.settings import ApiSpec
from judgebench.runtime.errors import UserError

_MASK = "***"
_SHORTEST = 8
"""A shorter key guards nothing, and taking it out of answers could change a score: a key may be called 4."""


def key_of(spec: ApiSpec) -> str | None:
    """The key of an endpoint, from the environment.

    Raises:
        UserError: its variable is not set, or holds what can be no key. The sentence does not show it.
    """
    if spec.key_variable is None:
        return None
    key = os.environ.get(spec.key_variable, "").strip()
    if not key:
        raise UserError(
            f"{spec.role}.key_variable: the environment variable {spec.key_variable} is not set; put the key there, or "
            f"give {spec.role}.key_variable=null for a server that asks for none."
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise UserError(
            f"{spec.role}.key_variable: what the environment variable {spec.key_variable} holds is no key, for it has "
            "line ends, blanks or characters that are not ASCII in it; put the key there alone."
        )
    return key


def without_key(value: Any, key: str | None) -> Any:
    """A server's text, or the JSON that it answers, with `***` wherever it repeats the key."""
    if key is None or len(key) < _SHORTEST:
        return value
    if isinstance(value, str):
        return value.replace(key, _MASK)
    if isinstance(value, list):
        return [without_key(item, key) for item in value]
    if isinstance(value, dict):
        return {without_key(name, key): without_key(item, key) for name, item in value.items()}
    return value
