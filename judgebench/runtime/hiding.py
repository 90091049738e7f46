"""Secrets stay out of what a process prints: Hydra's and Python's own messages repeat what was given to them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judgebench.runtime.files import atomic
from judgebench.runtime.masking import MASK, SHORTEST_REPEATED, environment_secrets, looks_secret, without_passwords

_GIVEN = re.compile(r"(?P<key>[A-Za-z_][\w.\-]*)(?P<is>\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,{}\[\]\"']+)")
"""A key and what it is set to, wherever it stands in an override: `judge.api_key=x`, `judge={api_key: x}`."""
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
    """The secrets that `masked_argument` takes out of arguments, as far as it is long enough to be a secret."""
    found = set()
    for argument in arguments:
        key, _, value = argument.partition("=")
        if looks_secret(key) and not _HARMLESS.fullmatch(value):
            found |= {value, value.strip("\"'")}
        found |= {one["value"].strip("\"'") for one in _GIVEN.finditer(argument) if _masked(one) != one[0]}
    return {one for one in found if len(one) >= SHORTEST_REPEATED}


def _masked(found: re.Match[str]) -> str:
    if not looks_secret(found["key"]) or _HARMLESS.fullmatch(found["value"]):
        return found[0]
    return f"{found['key']}{found['is']}{MASK}"


class Hiding:
    """A stream that writes `***` where a secret would stand; all else is the stream's own."""

    def __init__(self, stream: Any, hide: Callable[[str], str]) -> None:
        self._stream, self._hide = stream, hide

    def write(self, text: str) -> int:
        """Writes the text without secrets; the number is of the text that was given."""
        self._stream.write(self._hide(text))
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        """Writes lines, one by one."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def hiding(arguments: Sequence[str]) -> Iterator[Callable[[str], str]]:
    """Until the block ends, neither stdout nor stderr shows a secret of the command line or of the environment.

    Yields:
        what takes the secrets out of a text.
    """
    hide = hider(argument_secrets(arguments) | environment_secrets())
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Hiding(stream, hide) for stream in kept)
    try:
        yield hide
    finally:
        sys.stdout, sys.stderr = kept


def hider(secrets: set[str]) -> Callable[[str], str]:
    """A function that masks every one of `secrets` in a text, the longest first."""
    if not secrets:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))))
    return lambda text: pattern.sub(MASK, text)


def hide_in_file(path: Path, arguments: Sequence[str]) -> None:
    """Takes the secrets of a command line out of a text file that another library has written of it, if it exists."""
    secrets = argument_secrets(arguments)
    if secrets and path.is_file():
        text = path.read_text("utf-8")
        if (shown := hider(secrets)(text)) != text:
            with atomic(path) as temporary:
                temporary.write_text(shown, "utf-8")
