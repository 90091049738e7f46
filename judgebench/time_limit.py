"""Calls of code that comes with a model, which may never end: they run in a thread of their own, and are left there."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

SECONDS = 60.0
"""More than any chat template or tokenizer takes for a few prompts."""

T = TypeVar("T")


class NeverEnds(Exception):
    """A call that has taken more than its time."""


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
    """What a call gives, or raises; it costs a few microseconds more than the call itself.

    Args:
        call: code of Python, or of a library that lets go of Python's lock meanwhile.
        seconds: None takes `SECONDS`.

    Raises:
        NeverEnds: it has not come to an end in time.

    Example:
        >>> within(lambda: 3)
        3
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
