"""Workers, and their claims on points: every point of a study is run by one worker, whatever is killed when.

No worker leads, and no lock is held. A trial is made running, with its point and its worker in it, by one write. Trials
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
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from judgebench.study.space import Space, Value

WORKER, ENDED, REASON, RETRY_OF, POINT = "worker", "ended", "reason", "retry_of", "point"
"""User attributes of a trial: who runs it, how it ended without a value and why, the lost trial that it repeats, its
point of the grid."""

FAILED, LOST, DUPLICATE, SURPLUS = "failed", "lost", "duplicate", "surplus"
"""Values of `ENDED`: the job failed; its worker died; another worker was first; the study had enough trials."""


@cache
def _host() -> str:
    parts = [socket.gethostname()]
    try:
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8], os.readlink("/proc/self/ns/pid")]
    except OSError:  # no Linux
        parts += [f"{psutil.boot_time():.0f}"]
    return "/".join(parts)


@dataclass(frozen=True)
class Worker:
    """A process: its machine (with the time of its start, and the namespace in which process numbers count), its
    number, and the time at which it began, for numbers are used again."""

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
        worker = trial.user_attrs.get(WORKER) or {}
        try:
            lives = Worker(str(worker["host"]), int(worker["pid"]), float(worker["started"])).lives()
        except (KeyError, TypeError, ValueError):  # not one of ours
            lives = None
        if lives is not None:
            return not lives
        beat = worker.get("beat")
        if trial.number not in self._seen or self._seen[trial.number][0] != beat:
            self._seen[trial.number] = (beat, time.monotonic())
        return time.monotonic() - self._seen[trial.number][1] > self._grace


@contextmanager
def beating(storage: BaseStorage, trial_ids: Iterable[int], me: Worker, interval: float) -> Iterator[None]:
    """Counts the beats of running trials up, every `interval` seconds in a thread of its own, until the block ends."""
    end = threading.Event()

    def beat() -> None:
        count = 0
        while not end.wait(interval):
            count += 1
            for trial_id in trial_ids:
                # finished meanwhile, or the storage is away for a while: the next beat, or the end, will tell
                with suppress(Exception):
                    storage.set_trial_user_attr(trial_id, WORKER, me.attribute(count))

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
    attributes = trial.user_attrs
    return str(attributes.get(POINT) or f"sample {attributes.get(RETRY_OF, trial.number)}")


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
            holds = trial.state in (TrialState.RUNNING, TrialState.COMPLETE) or failed(trial)
            if holds and trial.number not in forgiven:
                standing.holders.setdefault(task(trial), trial)
            elif trial.user_attrs.get(ENDED) in (LOST, FAILED):
                standing.lost.setdefault(task(trial), trial)
        standing.lost = {key: trial for key, trial in standing.lost.items() if key not in standing.holders}
        return standing

    def count(self, *states: TrialState) -> int:
        return sum(trial.state in states for trial in self.holders.values())


@dataclass
class Claims:
    """Takes points for one worker.

    Attributes:
        grid: the points to be run, each once, see `Space.grid`; None where a sampler makes points up.
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

    def trial_id(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def standing(self) -> Standing:
        """The state of the study now, after the trials of dead workers are closed, and those that an earlier sweep of
        this same process left behind."""
        trials, gone = self.trials(), []
        mine = self.me.attribute(0).items() - {("beat", 0)}
        for trial in (trial for trial in trials if trial.state == TrialState.RUNNING):
            left = trial.number not in self._taken and mine <= (trial.user_attrs.get(WORKER) or {}).items()
            if left or self.watch.dead(trial):
                gone.append(self.close(trial.number, LOST, "its worker died"))
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
        # one that died while it was drawing has half a point, and nothing is lost with it
        lost = next((trial for trial in standing.lost.values() if trial.params.keys() == set(self.space.params)), None)
        if self.grid is not None:
            free = next(key for key in self.grid if key not in standing.holders)
            number = self._make(self.grid[free], {POINT: free})
        elif lost is not None:
            number = self._make(lost.params, {RETRY_OF: lost.user_attrs.get(RETRY_OF, lost.number)})
        else:
            number = self._make({}, {})
            self.before_sampling(number)
            self._draw(Trial(self.study, self.trial_id(number)))
        # it is ours if no earlier one stands for the same, and the study has not enough without it
        trials = self.trials()
        ours = next(trial for trial in trials if trial.number == number)
        earlier = Standing.of([trial for trial in trials if trial.number < number], self.forgiven)
        if task(ours) in earlier.holders:
            self.close(number, DUPLICATE, f"trial {earlier.holders[task(ours)].number} has the same point")
        elif earlier.count(TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            self.close(number, SURPLUS, f"the study has its {self.most} trials")
        else:
            return ours
        return None

    def close(self, number: int, how: str, reason: str) -> bool:
        """Ends a running trial without a value; False where somebody else ended it before."""
        trial_id = self.trial_id(number)
        try:
            self.storage.set_trial_user_attr(trial_id, ENDED, how)
            self.storage.set_trial_user_attr(trial_id, REASON, reason)
            return self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False

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

    def _draw(self, trial: Trial) -> None:
        for key, param in self.space.params.items():
            match param.distribution:
                case CategoricalDistribution() as kind:
                    trial.suggest_categorical(key, kind.choices)
                case IntDistribution() as kind:
                    trial.suggest_int(key, kind.low, kind.high, step=kind.step, log=kind.log)
                case FloatDistribution() as kind:
                    trial.suggest_float(key, kind.low, kind.high, step=kind.step, log=kind.log)
