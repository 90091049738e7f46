"""Progress of what takes minutes: a line that changes in a terminal, elsewhere one every 30
seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from rich.console import Console
from rich.markup import escape
from rich.status import Status

EVERY = 30.0
"""Seconds between two lines, where there is no terminal."""


def left(done: float, total: float, seconds: float) -> str:
    """The time left at the speed so far; empty before anything is done.

    Example:
        >>> left(100, 400, 60.0), left(0, 400, 60.0), left(400, 400, 240.0)
        ('3 min 0 s left', '', '')
    """
    rest = round(seconds * (total - done) / done) if done else 0
    return f"{rest // 60} min {rest % 60} s left" if rest > 0 else ""


class Progressing:
    """Readings done of all, the time and the dollars left; a context. Of work in several parts the
    whole is shown: what is done of a part while `part` holds goes there.

    Args:
        what: what is done, as "Reading with Qwen2.5".
        total: readings in all.
        shown: False says nothing.
        unit: what is counted.
        before: how many of all were done earlier, at another speed.
    """

    _whole: ClassVar[Progressing | None] = None

    def __init__(
        self, what: str, total: int, shown: bool = True, unit: str = "readings", before: int = 0
    ) -> None:
        # a sweep keeps what its trials print in a file, but a user before a terminal wants to see
        # the reading
        self._console = Console(stderr=sys.stderr.isatty(), quiet=not shown)
        self._what = what
        self._total = total
        self._unit = unit
        self._before = before
        self._done = before
        self._spent = 0.0
        self._paid = 0.0
        self._part: tuple[int, int] | None = None  # where it begins, and its size
        self._status: Status | None = None

    def __enter__(self) -> Progressing:
        self._start = self._said = time.monotonic()
        if self._console.is_terminal and not self._console.quiet and Progressing._whole is None:
            self._status = self._console.status(self._what)
            self._status.start()
        return self

    @contextmanager
    def part(self, size: int) -> Iterator[None]:
        """Work on the next `size` of all, which are done when the block ends well."""
        begin = self._done
        self._part = (begin, size)
        Progressing._whole = self
        try:
            yield
        finally:
            self._part = None
            Progressing._whole = None
            self._paid = self._spent
        self._say(begin + size)

    def advance(self, readings: int, dollars: float = 0.0) -> None:
        """So many readings more; dollars: spent so far on all of them."""
        self._done = min(self._done + readings, self._total)
        self._spent = dollars
        whole = Progressing._whole
        if whole is None or whole._part is None:
            self._say(self._done)
        else:  # a part may be read by several models, one after the other
            begin, size = whole._part
            whole._spent = whole._paid + dollars
            whole._say(max(whole._done, begin + size * self._done // self._total))

    def _say(self, done: int) -> None:
        self._done = done
        now = time.monotonic()
        here = done - self._before
        parts = [left(here, self._total - self._before, now - self._start)]
        if self._unit != "readings" and here:
            parts.insert(0, f"{here / (now - self._start):,.3g} {self._unit} a second")
        if self._spent and here:
            parts.append(
                f"${self._spent:.4g} of about "
                f"${self._spent * (self._total - self._before) / here:.4g}"
            )
        line = ", ".join(
            [f"{self._what}: {done:,} of {self._total:,} {self._unit}", *filter(None, parts)]
        )
        if self._status is not None:
            self._status.update(escape(line))
        elif now - self._said >= EVERY:
            self._said = now
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __exit__(self, *raised: object) -> None:
        whole = Progressing._whole
        if whole is not None and whole is not self:
            whole._paid = whole._spent
        if self._status is not None:
            self._status.stop()
