"""Seconds spent by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up the seconds spent in each named stage, as `with clock("read")`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def move(self, seconds: float, source: str, target: str) -> None:
        """Counts seconds under `target` that are counted under `source`, or will be when that stage ends."""
        self.seconds[source] = self.seconds.get(source, 0.0) - seconds
        self.seconds[target] = self.seconds.get(target, 0.0) + seconds

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began
