"""The worker of a trial, and whether its process still lives."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

WORKER = "worker"
"""The trial's user attribute that names who runs it."""


@dataclass(frozen=True)
class Worker:
    """A process.

    Attributes:
        host: the machine, this time it is up, and the namespace in which process numbers count (containers).
        pid: the process's number; started: when it began, for numbers are used again.
    """

    host: str
    pid: int
    started: float

    @classmethod
    def me(cls) -> Worker:
        """This process."""
        return cls(_host(), os.getpid(), psutil.Process().create_time())

    def attribute(self, beat: int) -> dict[str, Any]:
        """The value of a trial's `WORKER`; `beat` counts up as long as the worker lives."""
        return {"host": self.host, "pid": self.pid, "started": self.started, "beat": beat}

    def lives(self) -> bool | None:
        """True where the process runs; None where that cannot be seen from here."""
        if self.host != _host():
            return None
        try:
            process = psutil.Process(self.pid)
            # the clock that start times are read from may be set a little in between
            return abs(process.create_time() - self.started) < 2 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return None


class Watch:
    """Tells trials whose worker died. On this machine the process itself is looked up; of others, a beat that has not
    changed for `grace` seconds of *our* clock means death: clocks of machines differ."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._seen: dict[int, tuple[Any, float]] = {}

    def dead(self, trial: FrozenTrial) -> bool:
        """True where the worker of a running trial is gone."""
        given = trial.user_attrs.get(WORKER) or {}
        try:
            lives = Worker(str(given["host"]), int(given["pid"]), float(given["started"])).lives()
        except (KeyError, TypeError, ValueError):  # not one of ours
            lives = None
        if lives is not None:
            return not lives
        beat = given.get("beat")
        if trial.number not in self._seen or self._seen[trial.number][0] != beat:
            self._seen[trial.number] = (beat, time.monotonic())
        return time.monotonic() - self._seen[trial.number][1] > self._grace


class Heartbeat:
    """Counts the beats of running trials up, in a thread of its own, until the block ends.

    Args:
        trial_ids: the trials, in the storage's numbering.
        interval: seconds between two beats.
    """

    def __init__(self, storage: BaseStorage, trial_ids: Iterable[int], me: Worker, interval: float) -> None:
        self._storage, self._trial_ids, self._me, self._interval = storage, list(trial_ids), me, interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        beat = 0
        while not self._end.wait(self._interval):
            beat += 1
            for trial_id in self._trial_ids:
                # finished meanwhile, or the storage is away for a while: the next beat, or the end, will tell
                with suppress(Exception):
                    self._storage.set_trial_user_attr(trial_id, WORKER, self._me.attribute(beat))


@cache
def _host() -> str:
    parts = [socket.gethostname()]
    try:
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8], os.readlink("/proc/self/ns/pid")]
    except OSError:  # no Linux
        parts += [f"{psutil.boot_time():.0f}"]
    return "/".join(parts)
