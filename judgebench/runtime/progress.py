"""Progress of what takes minutes: a bar in a terminal, elsewhere a plain line every 30 seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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
    """Readings done of all, the time and the dollars left; a context.

    Args:
        what: what is done, as "Reading with Qwen2.5".
        total: readings in all.
        shown: False says nothing.
    """

    def __init__(self, what: str, total: int, shown: bool = True) -> None:
        # a sweep keeps what its trials print in a file, but a user before a terminal wants to see the reading
        self._console = Console(stderr=sys.stderr.isatty(), quiet=not shown)
        self._what, self._total, self._done, self._spent = what, total, 0, 0.0
        self._bar: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> Progressing:
        self._start = self._said = time.monotonic()
        if self._console.is_terminal and not self._console.quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[left]}"), console=self._console)
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._total, left="")
        return self

    def advance(self, readings: int, dollars: float = 0.0) -> None:
        """So many readings more; dollars: spent so far on all of them."""
        self._done, self._spent = min(self._done + readings, self._total), dollars
        now = time.monotonic()
        parts = [left(self._done, self._total, now - self._start)]
        if self._spent:
            parts.append(f"${self._spent:.4g} of about ${self._spent * self._total / self._done:.4g}")
        words = ", ".join(filter(None, parts))
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, left=words)
        elif now - self._said >= EVERY:
            self._said = now
            line = f"{self._what}: {self._done:,} of {self._total:,} readings{f', {words}' if words else ''}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.stop()
