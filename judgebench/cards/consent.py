"""A card comes from anybody: texts and keys go to the address that it names only where the user here says so."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from judgebench.config.keys import typed_overrides
from judgebench.judges.api.http import is_loopback
from judgebench.runtime.errors import UserError
from judgebench.runtime.hiding import masked_argument
from judgebench.runtime.shape import shown

_HOST = re.compile(r"[0-9A-Za-z.:_-]+")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def check_consent(role: str, part: Mapping[str, Any], given: Mapping[str, Any], hosts: Sequence[str]) -> None:
    """Checks that the user agrees to what a card's judge or assistant would be sent, before anything is.

    This machine's own servers need no consent to texts; a key needs it everywhere.

    Args:
        part: the card's judge or assistant.
        given: what the user has set of it; whoever names an address or a key variable agrees to it.
        hosts: that the user has named for texts.

    Raises:
        UserError: the user has not agreed; names the host and the command that would.
    """
    url, variable = given.get("url", part.get("url")), part.get("key_variable")
    if url is None:
        return
    host = _host(url)
    texts = not ("url" in given or is_loopback(url) or host in (one.lower() for one in hosts))
    key = variable is not None and "key_variable" not in given
    if not texts and not key:
        return
    if key and not (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
        raise UserError(f"card: parts.{role}.key_variable is {shown(variable)}, which is no name of a variable.")
    sent = " and ".join(
        [
            *(["every text that is scored"] if texts else []),
            *([f"the key in the environment variable {variable}"] if key else []),
        ]
    )
    more = [*([f"send_to={host}"] if texts else []), *([f"+{role}.key_variable={variable}"] if key else [])]
    python = [
        *([f"send_to={host!r}"] if texts else []),
        *([f"{role}={{'key_variable': {variable!r}}}"] if key else []),
    ]
    raise UserError(
        f"card: its {role} is at {url} and would be sent {sent}. If you trust {host}, say so: "
        f"{_command(more)} (in Python {', '.join(python)})."
    )


def _host(url: Any) -> str:
    try:
        host = urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        host = None
    if host is None or not _HOST.fullmatch(host) or not url.isascii() or not url.isprintable():
        raise UserError(f"card: {shown(url)} is no address of a server, as http://127.0.0.1:8000/v1 is one.")
    return host


def _command(more: Sequence[str]) -> str:
    """The command under way, with more arguments."""
    known = [masked_argument(one) for one in typed_overrides()]
    if not any(one.startswith("card=") for one in known):
        return " ".join(more)
    return shlex.join(["python", "-m", "judgebench.score", *known, *more])
