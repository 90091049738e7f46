"""How work ends early: a mistake that a user can mend, and Ctrl-C."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but for tab and line end: a terminal obeys them
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"  # marks of direction, breaks, and of no width
    "|\r(?!\n)"
)


def escape_control(text: str) -> str:
    """A text in which every character that steers instead of being read stands as Python would write it.

    What data and phrases hold may steer a terminal, or turn a line around so that a number reads as another.

    Joiners (U+200C, U+200D) stay: scripts and emoji need them.

    Example:
        >>> escape_control("\\x1b[31mred\\x1b[0m, \\u202edetrever, zero\\u200bwidth")
        '\\\\x1b[31mred\\\\x1b[0m, \\\\u202edetrever, zero\\\\u200bwidth'
        >>> text = "Tab\\tand line\\nstay, as do \u00fc, \u597d and \U0001f469\\u200d\U0001f52c"
        >>> escape_control(text) == text
        True
    """
    return _UNSEEN.sub(lambda match: _escaped(ord(match[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class UserError(Exception):
    """A mistake of the user's, told in one sentence: what was wrong, where, and what would be right.

    The command line prints the sentence without a traceback and exits with code 2. What data may hold and no terminal
    can show (half a character), or would obey (an escape sequence), stands in it as its number.
    """

    def __init__(self, sentence: object = "") -> None:
        super().__init__(escape_control(str(sentence)).encode("utf-8", "backslashreplace").decode("utf-8"))


class ReportedElsewhere(UserError):
    """A mistake that another process of the same run tells the user."""


class Refusal(SystemExit):
    """Ends the program with code 2; `sentence` is for whoever started the work to print.

    A sweep records it as the reason why one of its jobs failed, and goes on.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(2)
        self.sentence = f"{sentence.rstrip('.')}."

    def __reduce__(self) -> tuple[type[Refusal], tuple[str]]:
        return Refusal, (self.sentence,)  # launchers send it between processes


class Terminated(KeyboardInterrupt):
    """The system, or a cluster's scheduler, asks the program to end (SIGTERM), which it does as by Ctrl-C."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; `sentence` says what is kept, for whoever started the work to print."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
