"""Workers, and their claims on points: every point of a study is run by one worker, whatever is killed when.

No worker leads, and no lock is kept. A trial is made running, with its point and its worker in it, by one write. Trials
are numbered in the order in which they are made, so of two that stand for the same point all workers agree on the lower
number; who made the other closes it and never runs it. A dead worker's trial is closed as lost, and its point stands
free again: whoever looks next may take it, and it makes no difference how far the one who closed it came. (Optuna's own
claims and heartbeats are those of databases alone; a journal has neither.)
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import optuna
import psutil
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from judgebench.study.space import Space, Value

WORKER, ENDED, REASON, RETRY_OF, POINT = "worker", "ended", "reason", "retry_of", "point"
"""User attributes of a trial: who runs it, how it ended without a value and why, the lost trial that it repeats, its
point of the grid."""

FAILED, LOST, DUPLICATE, SURPLUS = "failed", "lost", "duplicate", "surplus"
"""Values of `ENDED`: the job failed; its worker died; another worker was first; the study had enough trials."""


def this_process() -> dict[str, Any]:
    """The value of `WORKER`: a machine (with the time of its start, and the namespace in which process numbers count),
    a process's number, and the time at which it began, for numbers are used again."""
    return {"host": _host(), "pid": os.getpid(), "started": psutil.Process().create_time()}


@cache
def _host() -> str:
    parts = [socket.gethostname()]
    try:
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8], os.readlink("/proc/self/ns/pid")]
    except OSError:  # no Linux
        parts += [f"{psutil.boot_time():.0f}"]
    return "/".join(parts)


def lives(worker: Mapping[str, Any]) -> bool | None:
    """True where a worker's process runs; None where that cannot be seen from here."""
    if worker.get("host") != _host():
        return None
    try:
        process = psutil.Process(int(worker["pid"]))
        # the clock that start times are read from may be set a little in between
        return abs(process.create_time() - worker["started"]) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (psutil.AccessDenied, KeyError, TypeError, ValueError):  # or not one of ours
        return None


class Watch:
    """Recognizes trials whose worker died. On this machine the process itself is looked up; elsewhere a beat that has
    not changed for `grace` seconds of *our* clock means death: clocks of machines differ."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._seen: dict[int, tuple[Any, float]] = {}

    def __call__(self, trial: FrozenTrial) -> bool:
        """True where the worker of a running trial is gone."""
        worker = trial.user_attrs.get(WORKER) or {}
        alive = lives(worker)
        if alive is not None:
            return not alive
        if trial.number not in self._seen or self._seen[trial.number][0] != worker.get("beat"):
            self._seen[trial.number] = (worker.get("beat"), time.monotonic())
        return time.monotonic() - self._seen[trial.number][1] > self._grace


@contextmanager
def beating(
    storage: BaseStorage, trial_ids: Iterable[int], worker: Mapping[str, Any], interval: float
) -> Iterator[None]:
    """Counts the beats of running trials up, every `interval` seconds in a thread of its own, until the block ends."""
    end = threading.Event()

    def beat() -> None:
        count = 0
        while not end.wait(interval):
            count += 1
            for trial_id in trial_ids:
                # finished meanwhile, or the storage is away for a while: the next beat, or the end, will show it
                with suppress(Exception):
                    storage.set_trial_user_attr(trial_id, WORKER, {**worker, "beat": count})

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def failed(trial: FrozenTrial) -> bool:
    """True where the trial's job failed, and it was not closed for another reason."""
    return trial.state == TrialState.FAIL and trial.user_attrs.get(ENDED, FAILED) == FAILED


def task(trial: FrozenTrial) -> str:
    """The point of the grid that a trial stands for, or the sample, which its repetitions share."""
    return str(trial.user_attrs.get(POINT) or f"sample {trial.user_attrs.get(RETRY_OF, trial.number)}")


def holders_of(trials: Collection[FrozenTrial], forgiven: Collection[int] = ()) -> dict[str, FrozenTrial]:
    """Task -> the trial that holds it: running, complete or failed, of several the lowest number; failed ones whose
    number is `forgiven` hold nothing."""
    holders: dict[str, FrozenTrial] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        holds = trial.state in (TrialState.RUNNING, TrialState.COMPLETE) or failed(trial)
        if holds and trial.number not in forgiven:
            holders.setdefault(task(trial), trial)
    return holders


def count(holders: Mapping[str, FrozenTrial], *states: TrialState) -> int:
    """The number of tasks whose holders are in one of some states."""
    return sum(trial.state in states for trial in holders.values())


@dataclass
class Claims:
    """Takes points for one worker.

    Attributes:
        worker: see `this_process`.
        grid: the points to be run, each once, see `Space.grid`; None where a sampler makes points up.
        most: trials to complete.
        dead: true of a running trial whose worker is gone, see `Watch`.
        sampler: the number of a trial -> what draws its point.
        forgiven: numbers of failed trials whose points are run again.
    """

    study: optuna.Study
    storage: BaseStorage
    space: Space
    worker: Mapping[str, Any]
    grid: Mapping[str, Mapping[str, Value]] | None
    most: int
    dead: Callable[[FrozenTrial], bool]
    sampler: Callable[[int], BaseSampler] | None = None
    forgiven: frozenset[int] = frozenset()
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._study_id = self.storage.get_study_id_from_name(self.study.study_name)

    def trials(self) -> list[FrozenTrial]:
        return self.storage.get_all_trials(self._study_id, deepcopy=False)

    def trial_id(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def holders(self) -> dict[str, FrozenTrial]:
        """See `holders_of`: now, after the trials of dead workers are closed, and those that an earlier sweep of this
        same process left behind."""
        for trial in self.trials():
            if trial.state == TrialState.RUNNING:
                ours = self.worker.items() <= (trial.user_attrs.get(WORKER) or {}).items()
                if self.dead(trial) or (ours and trial.number not in self.taken):
                    self.close(trial.number, LOST, "its worker died")
        return holders_of(self.trials(), self.forgiven)

    def some_free(self, holders: Mapping[str, FrozenTrial]) -> bool:
        """True where the study needs another trial, and a point is free for one."""
        if count(holders, TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            return False
        return self.grid is None or not self.grid.keys() <= holders.keys()

    def take(self, holders: Mapping[str, FrozenTrial]) -> FrozenTrial | None:
        """The next trial for this worker, running; None where nothing is free or another worker was faster."""
        if not self.some_free(holders):
            return None
        # 1. a point: of the grid; or one that was lost; or a new one
        point: Mapping[str, Value] = {}
        attributes: dict[str, Any] = {WORKER: {**self.worker, "beat": 0}}
        if self.grid is not None:
            attributes[POINT] = next(key for key in self.grid if key not in holders)
            point = self.grid[attributes[POINT]]
        else:
            for trial in self.trials():
                # one that died while it was drawing has half a point, and nothing is lost with it
                whole = trial.params.keys() == self.space.params.keys()
                if whole and trial.user_attrs.get(ENDED) in (LOST, FAILED) and task(trial) not in holders:
                    point, attributes[RETRY_OF] = trial.params, trial.user_attrs.get(RETRY_OF, trial.number)
                    break
        # 2. a running trial by one write: a kill leaves none without its worker's name
        distributions = {key: self.space.params[key].distribution for key in point}
        template = create_trial(
            state=TrialState.RUNNING, params=dict(point), distributions=distributions, user_attrs=attributes
        )
        trial_id = self.storage.create_new_trial(self._study_id, template)
        number = self.storage.get_trial(trial_id).number
        self.taken.add(number)
        if not point:
            if self.sampler is not None:
                self.study.sampler = self.sampler(number)
            drawn = Trial(self.study, trial_id)
            for key, param in self.space.params.items():
                drawn._suggest(key, param.distribution)
        # 3. it is ours if no earlier one stands for the same, and the study has not enough without it
        trials = self.trials()
        ours = next(trial for trial in trials if trial.number == number)
        earlier = holders_of([trial for trial in trials if trial.number < number], self.forgiven)
        if task(ours) in earlier:
            self.close(number, DUPLICATE, f"trial {earlier[task(ours)].number} has the same point")
        elif count(earlier, TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            self.close(number, SURPLUS, f"the study has its {self.most} trials")
        else:
            return ours
        return None

    def close(self, number: int, how: str, reason: str) -> bool:
        """Ends a running trial without a value; False where another worker ended it before."""
        trial_id = self.trial_id(number)
        try:
            self.storage.set_trial_user_attr(trial_id, ENDED, how)
            self.storage.set_trial_user_attr(trial_id, REASON, reason)
            return self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False
