"""Secrets stay out of what a run writes, and of its sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judgebench.runtime.files import atomic

MASK = "***"
"""What stands where a secret stood."""

_SECRET_WORDS = {
    "key",
    "keys",
    "apikey",
    "apikeys",
    "token",
    "tokens",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pwd",
    "credential",
    "credentials",
    "authorization",
    "bearer",
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")
SHORTEST_REPEATED = 16
"""Shorter masked texts are not looked for elsewhere: `label_key: coherence` must not erase every
"coherence"."""
_PLACES = ("PWD", "OLDPWD")
"""Variables whose names only look like a password's."""


def looks_secret(key: str) -> bool:
    """True if a key's name has a word such as key, token, secret or password. A `key_variable`
    names where a key is.

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
    variables = os.environ if environment is None else environment
    return {
        value
        for name, value in variables.items()
        if name not in _PLACES
        and looks_secret(name)
        and len(value) >= SHORTEST_REPEATED
        and not value.startswith("/")
    }


def mask_secrets(config: Any) -> Any:
    """A copy of a resolved config, as plain dicts, lists, strings and numbers, that shows no
    secret.

    Masked are: text anywhere under a key that looks secret; the same text, if long, wherever else
    it occurs (an interpolation such as `header: "Bearer ${judge.api_key}"` copies it), and so what
    the environment keeps as a secret (`${oc.env:OPENAI_API_KEY}`); the password in an address
    (`postgresql://me:***@host/db`). Numbers stay, except under `password` and `secret`:
    `max_new_tokens: 5` counts, it opens no door.

    Example:
        >>> mask_secrets({"api_key": "sk-0123456789abcd", "header": "Bearer sk-0123456789abcd", "max_tokens": 5})
        {'api_key': '***', 'header': 'Bearer ***', 'max_tokens': 5}
    """
    secrets = environment_secrets()

    def masked(node: Any, secret: bool = False, numbers_too: bool = False) -> Any:
        if isinstance(node, Mapping):
            return {
                key if isinstance(key, str | int | float | bool) else str(key): masked(
                    value,
                    secret or looks_secret(str(key)),
                    numbers_too
                    or re.search(r"pass|pwd|secret", str(key), re.IGNORECASE) is not None,
                )
                for key, value in node.items()
            }
        if isinstance(node, list | tuple | set):
            return [masked(value, secret, numbers_too) for value in node]
        if node is None or isinstance(node, bool):
            return node
        if isinstance(node, int | float):
            return MASK if secret and numbers_too else node
        text = str(node)
        if secret and len(text) >= SHORTEST_REPEATED:
            secrets.add(text)
        return MASK if secret and text else text

    def without_copies(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: without_copies(value) for key, value in node.items()}
        if isinstance(node, list):
            return [without_copies(value) for value in node]
        return without_passwords(hide(node)) if isinstance(node, str) else node

    shown = masked(config)
    hide = hider(secrets)
    return without_copies(shown)


def without_passwords(text: str) -> str:
    """A text whose addresses show no password: `postgresql://me:***@host/db`."""
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", text)


_GIVEN = re.compile(
    r"(?P<key>[A-Za-z_][\w.\-]*)(?P<is>\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,{}\[\]\"']+)"
)
"""A key and what it is set to, wherever it stands in an override: `judge.api_key=x`,
`judge={api_key: x}`."""
_HARMLESS = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|null|none|\$\{.*", re.IGNORECASE)
"""Counts, switches, and interpolations, which name a secret without telling it."""


def masked_argument(argument: str) -> str:
    """A command line's argument without the secrets that it sets.

    Example:
        >>> masked_argument("+judge.api_key=sk-1"), masked_argument("judge={token: hf_1, path: a}")
        ('+judge.api_key=***', 'judge={token: ***, path: a}')
        >>> masked_argument("judge.max_new_tokens=5")
        'judge.max_new_tokens=5'
    """
    key, equals, value = argument.partition("=")
    if equals and looks_secret(key) and value and not _HARMLESS.fullmatch(value):
        return f"{key}={MASK}"
    return without_passwords(_GIVEN.sub(_masked, argument))


def argument_secrets(arguments: Sequence[str]) -> set[str]:
    """The secrets that `masked_argument` takes out of arguments, as far as they are long enough to
    be secrets."""
    secrets = set()
    for argument in arguments:
        key, _, value = argument.partition("=")
        if looks_secret(key) and not _HARMLESS.fullmatch(value):
            secrets |= {value, value.strip("\"'")}
        secrets |= {
            match["value"].strip("\"'")
            for match in _GIVEN.finditer(argument)
            if _masked(match) != match[0]
        }
    return {secret for secret in secrets if len(secret) >= SHORTEST_REPEATED}


def _masked(match: re.Match[str]) -> str:
    if not looks_secret(match["key"]) or _HARMLESS.fullmatch(match["value"]):
        return match[0]
    return f"{match['key']}{match['is']}{MASK}"


def hider(secrets: set[str]) -> Callable[[str], str]:
    """A function that masks every one of `secrets` in a text, the longest first."""
    if not secrets:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))))
    return lambda text: pattern.sub(MASK, text)


def hide_in_file(path: Path, arguments: Sequence[str]) -> None:
    """Masks the secrets of a command line in a text file that another library has written, if it
    exists."""
    secrets = argument_secrets(arguments)
    if secrets and path.is_file():
        text = path.read_text("utf-8")
        if (shown := hider(secrets)(text)) != text:
            with atomic(path) as temporary:
                temporary.write_text(shown, "utf-8")
