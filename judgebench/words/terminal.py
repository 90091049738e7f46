"""The one place that prints: text that steers no terminal, and gives no command to a service that
runs the program."""

from __future__ import annotations

import os
import re
import sys

from judgebench.words.errors import escape_control

_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|#(?=#\w*\[)", re.MULTILINE)
"""What services for CI take for a command: `::` at the start of a line, and `##[` or `##vso[`
anywhere in it (GitHub's workflow commands of both versions, Azure's logging commands, TeamCity's
service messages)."""


def printable(text: str) -> str:
    """A text that neither a terminal nor a service for CI obeys: see `escape_control`; a mark that
    opens a command of such a service stands as Python would write it.

    Example:
        >>> print(printable("::error::lost, std::vector and ##[endgroup]"))
        \\x3a:error::lost, std::vector and \\x23#[endgroup]
    """
    return _COMMAND.sub(
        lambda match: f"{match[0][:-1]}\\x{ord(match[0][-1]):02x}", escape_control(text)
    )


def print_safely(*texts: object, error: bool = False) -> None:
    """Prints texts, a line each and `printable`, to standard output or, as an `error`, to standard
    error; to nobody where who read it has gone, as behind `| head`."""
    lines = [printable(str(text)) for text in texts]
    stream = sys.stderr if error else sys.stdout
    try:
        print(*lines, sep="\n", file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
