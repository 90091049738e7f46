"""Time: seconds spent by stage, and an end to calls of foreign code that may never come to one."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

SECONDS = 60.0
"""More than any chat template or tokenizer takes for a few prompts."""

T = TypeVar("T")


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


class NeverEnds(Exception):
    """A call has taken more than its time."""


class _Job:
    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.result: Any = None
        self.error: BaseException | None = None
        self.left = False
        self.done = threading.Event()


class _Worker:
    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="judgebench-time-limit")
        self._thread.start()

    def _work(self) -> None:
        left = False
        while not left:
            job = self.jobs.get()
            try:
                job.result = job.call()
            except BaseException as error:  # it is raised again where the call was made
                job.error = error
            left = job.left
            job.done.set()

    def stop(self) -> None:
        """Ends a loop of Python; what runs outside of Python runs on, and does not keep the program from ending."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(SystemExit)
        )


_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


def within(call: Callable[[], T], seconds: float | None = None) -> T:
    """The result of a call that must end within a limit; it costs a few microseconds more.

    Args:
        call: code of Python, or of a library that lets go of Python's lock meanwhile.
        seconds: None takes `SECONDS`.

    Raises:
        NeverEnds: it has not ended in time.
    """
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    job = _Job(call)
    worker.jobs.put(job)
    if not job.done.wait(SECONDS if seconds is None else seconds):
        job.left = True
        worker.stop()
        raise NeverEnds
    _idle.append(worker)
    if job.error is not None:
        raise job.error
    result: T = job.result
    return result
