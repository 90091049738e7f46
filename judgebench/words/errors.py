"""Ends of work before its time, by a mistake that a user can mend or by Ctrl-C; and seconds spent
by stage."""

from __future__ import annotations

import re
import reprlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

_UNSEEN = re.compile(
    # control characters but for tab and line end: a terminal obeys them
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    # marks of direction, breaks, and of no width
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
    "\ud800-\udfff\ufffe\uffff]"  # half characters and no characters, which XML forbids
    "|\r(?!\n)"
)


def escape_control(text: str) -> str:
    """A text in which every character that steers a terminal, or turns a line around, stands as
    Python would write it.

    Joiners (U+200C, U+200D) stay: scripts and emoji need them.

    Example:
        >>> escape_control("\\x1b[31mred\\x1b[0m, \\u202edetrever, zero\\u200bwidth")
        '\\\\x1b[31mred\\\\x1b[0m, \\\\u202edetrever, zero\\\\u200bwidth'
    """
    return _UNSEEN.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if match[0] < "\u0100" else ascii(match[0])[1:-1],
        text,
    )


_SHOWN = 60
"""Characters of a value that an error repeats."""


class _Brief(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        return "a number of too many digits" if x.bit_length() > 256 else repr(x)


_BRIEF = _Brief()
_BRIEF.maxstring = _BRIEF.maxother = _SHOWN
_BRIEF.maxlevel = 3


def shown(value: Any) -> str:
    """A value of any size, in a few characters.

    Example:
        >>> shown(["a" * 100])
        "['aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    text = _BRIEF.repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def reason(error: BaseException) -> str:
    """The message of an exception on one line, without the mark at its end; its name where it has
    none."""
    words = " ".join(str(error).split())[:300]
    return words.rstrip(".") or type(error).__name__


class UserError(Exception):
    """A mistake that the user can mend: a sentence on what was wrong, where, and what would be
    right; or several such.

    The command line prints the sentences without a traceback and exits with code 2. Characters that
    no terminal can show (half a character), or would obey (an escape sequence), stand in them as
    numbers.

    Attributes:
        sentences: one for each mistake.
        give: key of the configuration -> the plain value that would be right; empty where that is
            not known.
        command: a line that ends with the command that would be right; empty where that is not
            known.
    """

    def __init__(
        self, *sentences: object, give: Mapping[str, Any] | None = None, command: str = ""
    ) -> None:
        self.give = dict(give or {})
        self.command = escape_control(command)
        shown = (
            escape_control(str(sentence)).encode("utf-8", "backslashreplace")
            for sentence in sentences
        )
        self.sentences = tuple(dict.fromkeys(sentence.decode("utf-8") for sentence in shown))
        super().__init__("\n".join(self.sentences))

    @property
    def listed(self) -> str:
        """The sentence; of several, a line each; and the command that would be right."""
        lines = [as_line(sentence) for sentence in self.sentences]
        if len(lines) > 1:
            lines = [f"{len(lines)} mistakes:", *(f"- {line}" for line in lines)]
        if self.command:
            lines.append(self.command)
        return "\n".join(lines)


class Mistakes:
    """Collects mistakes, to report them together.

    Example:
        >>> mistakes = Mistakes()
        >>> for text in "1x2":
        ...     with mistakes.caught():
        ...         if not text.isdigit():
        ...             raise UserError(f"{text} is no digit.")
        >>> mistakes.tell()
        Traceback (most recent call last):
        judgebench.words.errors.UserError: x is no digit.
    """

    def __init__(self) -> None:
        self._errors: list[UserError] = []

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Keeps a `UserError` that is raised inside."""
        try:
            yield
        except UserError as error:
            self._errors.append(error)

    def add(self, sentence: str) -> None:
        self._errors.append(UserError(sentence))

    @property
    def found(self) -> bool:
        return bool(self._errors)

    def tell(self) -> None:
        """Raises `UserError` of all mistakes, if there is any."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            sentences = [sentence for error in self._errors for sentence in error.sentences]
            raise UserError(
                *sentences, give=dict(chain(*(error.give.items() for error in self._errors)))
            )


class ReportedElsewhere(UserError):
    """A mistake that another process of the same run reports."""


def as_line(sentence: str) -> str:
    """A sentence with one mark at its end."""
    return sentence if sentence.endswith("?") else f"{sentence.rstrip('.')}."


class ComeBack(UserError):
    """No mistake: work that goes on elsewhere, whose result the same command fetches later. Exit
    code 75."""

    code = 75


class Refusal(SystemExit):
    """Ends the program with a code, mostly 2; whoever started the work prints `sentence`. A sweep
    records it as the reason why a job failed, and goes on."""

    def __init__(self, sentence: str, code: int = 2) -> None:
        super().__init__(code)
        self.sentence = as_line(sentence)

    def __reduce__(self) -> tuple[type[Refusal], tuple[str, Any]]:
        return Refusal, (self.sentence, self.code)  # launchers send it between processes


class Terminated(KeyboardInterrupt):
    """SIGTERM of the system or a scheduler, which ends the program as Ctrl-C does."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; `sentence` says what is kept."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


# --- seconds by stage ---------------------------------------------------------------------------


class Clock:
    """Adds up the seconds spent in each named stage, as `with clock("read")`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def move(self, seconds: float, source: str, target: str) -> None:
        """Counts seconds under `target` that are counted under `source`, or will be when that stage
        ends."""
        self.seconds[source] = self.seconds.get(source, 0.0) - seconds
        self.seconds[target] = self.seconds.get(target, 0.0) + seconds

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began
