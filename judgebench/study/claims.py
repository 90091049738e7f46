"""Workers, and their claims on points: every point of a study is run by one worker, whatever is killed when.

No worker leads, and no lock is held. A trial is made running, with its point and its worker in it, by one write. Trials
are numbered in the order in which they are made, so of two that stand for the same point all workers agree on the lower
number; who made the other closes it and never runs it. A dead worker's trial is closed as lost, and its point stands
free again: whoever looks next may take it, and it makes no difference how far the one who closed it came.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import optuna
import psutil
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from judgebench.study.space import Space, Value, point_key

WORKER = "worker"
"""The trial's user attribute that names who runs it."""


@dataclass(frozen=True)
class Worker:
    """A process.

    Attributes:
        host: the machine, the time it was started, and the namespace in which process numbers count (containers).
        started: time at which the process began, for numbers are used again.
    """

    host: str
    pid: int
    started: float

    @classmethod
    def me(cls) -> Worker:
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
    """Recognizes trials whose worker died. On this machine the process itself is looked up; elsewhere a beat that has
    not changed for `grace` seconds of *our* clock means death: clocks of machines differ."""

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
    """Counts the beats of running trials up, every `interval` seconds in a thread of its own, until the block ends.

    Args:
        trial_ids: the trials, in the storage's numbering.
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


ENDED, REASON, RETRY_OF, POINT = "ended", "reason", "retry_of", "point"
"""User attributes: how a trial without a value ended and why, the lost trial that it repeats, its point of the grid."""

FAILED, LOST, DUPLICATE, SURPLUS = "failed", "lost", "duplicate", "surplus"
"""Values of `ENDED`: the job failed; its worker died; another worker was first; the study had enough trials."""


@dataclass
class Standing:
    """The state of a study at one moment.

    Attributes:
        holders: task (see `task`) -> the trial that holds it: running, complete or failed, the lowest number.
        lost: task that nobody holds any more -> the lost trial.
    """

    holders: dict[str, FrozenTrial] = field(default_factory=dict)
    lost: dict[str, FrozenTrial] = field(default_factory=dict)

    @classmethod
    def of(cls, trials: Collection[FrozenTrial], forgiven: Collection[int] = ()) -> Standing:
        """The state that a study's trials make; failed ones whose number is `forgiven` hold nothing."""
        standing = cls()
        for trial in sorted(trials, key=lambda trial: trial.number):
            key = task(trial)
            if _holds(trial) and trial.number not in forgiven:
                standing.holders.setdefault(key, trial)
            elif trial.user_attrs.get(ENDED) in (LOST, FAILED):
                standing.lost.setdefault(key, trial)
        standing.lost = {key: trial for key, trial in standing.lost.items() if key not in standing.holders}
        return standing

    def count(self, *states: TrialState) -> int:
        return sum(trial.state in states for trial in self.holders.values())


@dataclass
class Claims:
    """Takes points for one worker.

    Attributes:
        grid: the points to be run, each once, by `point_key`; None where a sampler makes points up.
        most: trials to complete.
        before_sampling: called with the number of a trial before its point is drawn.
        forgiven: numbers of failed trials whose points are run again.
    """

    study: optuna.Study
    storage: BaseStorage
    space: Space
    me: Worker
    grid: Mapping[str, Mapping[str, Value]] | None
    most: int
    watch: Watch
    before_sampling: Callable[[int], None] = lambda number: None
    forgiven: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._study_id = self.storage.get_study_id_from_name(self.study.study_name)
        self._taken: set[int] = set()

    def trials(self) -> list[FrozenTrial]:
        return self.storage.get_all_trials(self._study_id, deepcopy=False)

    def standing(self) -> Standing:
        """The state of the study now, after the trials of dead workers are closed."""
        trials = self.trials()
        gone = [t for t in trials if t.state == TrialState.RUNNING and (self._left(t) or self.watch.dead(t))]
        for trial in gone:
            self.close(trial.number, LOST, "its worker died")
        return Standing.of(self.trials() if gone else trials, self.forgiven)

    def some_free(self, standing: Standing) -> bool:
        """True where the study needs another trial, and a point is free for one."""
        if standing.count(TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            return False
        return self.grid is None or any(key not in standing.holders for key in self.grid)

    def take(self, standing: Standing) -> FrozenTrial | None:
        """The next trial for this worker, running; None where nothing is free or another worker was faster."""
        if not self.some_free(standing):
            return None
        if self.grid is not None:
            free = next(key for key in self.grid if key not in standing.holders)
            return self._first(self._make(self.grid[free], {POINT: free}))
        # one that died while it was drawing has half a point, and nothing is lost with it
        lost = next((one for one in standing.lost.values() if one.params.keys() == self.space.params.keys()), None)
        if lost is not None:
            return self._first(self._make(lost.params, {RETRY_OF: lost.user_attrs.get(RETRY_OF, lost.number)}))
        number = self._make({}, {})
        self.before_sampling(number)
        trial = Trial(self.study, self.trial_id(number))
        for key, distribution in self.space.distributions.items():
            _suggest(trial, key, distribution)
        return self._first(number)

    def close(self, number: int, how: str, reason: str) -> bool:
        """Ends a running trial without a value; False where somebody else ended it before."""
        trial_id = self.trial_id(number)
        try:
            self.storage.set_trial_user_attr(trial_id, ENDED, how)
            self.storage.set_trial_user_attr(trial_id, REASON, reason)
            return self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False

    def trial_id(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def _left(self, trial: FrozenTrial) -> bool:
        """True where an earlier sweep of this same process left the trial behind."""
        mine = self.me.attribute(0).items() - {("beat", 0)}
        return trial.number not in self._taken and mine <= (trial.user_attrs.get(WORKER) or {}).items()

    def _make(self, point: Mapping[str, Value], attributes: Mapping[str, Any]) -> int:
        """Makes a running trial by one write: a kill leaves no trial without its worker's name."""
        template = create_trial(
            state=TrialState.RUNNING,
            params=dict(point),
            distributions={key: self.space.params[key].distribution for key in point},
            user_attrs={WORKER: self.me.attribute(0), **attributes},
        )
        number = self.storage.get_trial(self.storage.create_new_trial(self._study_id, template)).number
        self._taken.add(number)
        return number

    def _first(self, number: int) -> FrozenTrial | None:
        """The trial, if no earlier one stands for the same and the study has not enough without it."""
        trials = self.trials()
        mine = next(trial for trial in trials if trial.number == number)
        earlier = Standing.of([trial for trial in trials if trial.number < number], self.forgiven)
        if task(mine) in earlier.holders:
            self.close(number, DUPLICATE, f"trial {earlier.holders[task(mine)].number} has the same point")
            return None
        if earlier.count(TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            self.close(number, SURPLUS, f"the study has its {self.most} trials")
            return None
        return mine


def task(trial: FrozenTrial) -> str:
    """The point of the grid that a trial stands for, or the sample, which its repetitions share."""
    attributes = trial.user_attrs
    if POINT in attributes:
        return str(attributes[POINT])
    return f"sample {attributes.get(RETRY_OF, trial.number)}"


def grid_of(space: Space) -> dict[str, dict[str, Value]]:
    """The points of the grid, by `point_key`."""
    return {point_key(point): point for point in space.grid()}


def failed(trial: FrozenTrial) -> bool:
    """True where the trial's job failed, and it was not closed for another reason."""
    return trial.state == TrialState.FAIL and trial.user_attrs.get(ENDED, FAILED) == FAILED


def _holds(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.RUNNING, TrialState.COMPLETE) or failed(trial)


def _suggest(trial: Trial, key: str, distribution: optuna.distributions.BaseDistribution) -> None:
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        trial.suggest_categorical(key, distribution.choices)
    elif isinstance(distribution, optuna.distributions.IntDistribution):
        trial.suggest_int(key, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    elif isinstance(distribution, optuna.distributions.FloatDistribution):
        trial.suggest_float(key, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
