"""Secrets stay out of what a run writes down."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
"""What stands where a secret stood."""

_SECRET_WORDS = {
    *("key", "keys", "apikey", "apikeys", "token", "tokens", "secret", "secrets", "password", "passwords", "passwd"),
    *("passphrase", "pwd", "credential", "credentials", "authorization", "bearer"),
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")
SHORTEST_REPEATED = 16
"""Shorter masked texts are not hunted for elsewhere: `label_key: coherence` must not erase every "coherence"."""
_PLACES = ("PWD", "OLDPWD")
"""Variables whose names only look like a password's."""


def looks_secret(key: str) -> bool:
    """True if a key's name has a word such as key, token, secret or password. A `key_variable` names where a key is.

    Example:
        >>> looks_secret("api_key"), looks_secret("hfToken"), looks_secret("OPENAI_API_KEY"), looks_secret("tokenizer")
        (True, True, True, False)
        >>> looks_secret("key_variable")
        False
    """
    words = [word.lower() for word in _WORD.findall(key)]
    return words[-1:] != ["variable"] and any(word in _SECRET_WORDS for word in words)


def environment_secrets(environment: Mapping[str, str] | None = None) -> set[str]:
    """Values of variables such as `OPENAI_API_KEY`: long texts that are no paths.

    Example:
        >>> environment_secrets({"HF_TOKEN": "hf_0123456789abcdef", "PWD": "/home/me/a/long/path", "HOME": "/home/me"})
        {'hf_0123456789abcdef'}
    """
    held = os.environ if environment is None else environment
    return {
        value
        for name, value in held.items()
        if name not in _PLACES and looks_secret(name) and len(value) >= SHORTEST_REPEATED and not value.startswith("/")
    }


def mask_secrets(config: Any) -> Any:
    """A copy of a resolved config, as plain dicts, lists, strings and numbers, that shows no secret.

    Masked are: text anywhere under a key that looks secret; the same text, if long, wherever else it occurs (an
    interpolation such as `header: "Bearer ${judge.api_key}"` copies it), and so what the environment keeps as a secret
    (`${oc.env:OPENAI_API_KEY}`); the password in an address (`postgresql://me:***@host/db`).
    Numbers stay, except under `password` and `secret`: `max_new_tokens: 5` counts, it opens no door.

    Example:
        >>> mask_secrets({"api_key": "sk-0123456789abcd", "header": "Bearer sk-0123456789abcd", "max_tokens": 5})
        {'api_key': '***', 'header': 'Bearer ***', 'max_tokens': 5}
    """
    secrets: set[str] = set()
    masked = _mask(config, inside_secret=False, numbers_too=False, secrets=secrets)
    long = {secret for secret in secrets if len(secret) >= SHORTEST_REPEATED} | environment_secrets()
    repeated = sorted(long, key=len, reverse=True)
    return _replace(masked, repeated)


def _mask(node: Any, inside_secret: bool, numbers_too: bool, secrets: set[str]) -> Any:
    if isinstance(node, Mapping):
        return {
            _plain_key(key): _mask(
                value,
                inside_secret or looks_secret(str(key)),
                numbers_too or re.search(r"pass|pwd|secret", str(key), re.IGNORECASE) is not None,
                secrets,
            )
            for key, value in node.items()
        }
    if isinstance(node, list | tuple | set):
        return [_mask(value, inside_secret, numbers_too, secrets) for value in node]
    if node is None or isinstance(node, bool):
        return node
    if isinstance(node, int | float):
        return MASK if inside_secret and numbers_too else node
    text = str(node)
    if inside_secret and text:
        secrets.add(text)
        return MASK
    return text


def _replace(node: Any, secrets: list[str]) -> Any:
    if isinstance(node, dict):
        return {key: _replace(value, secrets) for key, value in node.items()}
    if isinstance(node, list):
        return [_replace(value, secrets) for value in node]
    if isinstance(node, str):
        for secret in secrets:
            node = node.replace(secret, MASK)
        return without_passwords(node)
    return node


def without_passwords(text: str) -> str:
    """A text whose addresses show no password: `postgresql://me:***@host/db`."""
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", text)


def _plain_key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | bool) else str(key)
