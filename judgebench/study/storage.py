"""Storage of a study, which several workers share and a killed one goes on with, and the file of its results.

Workers claim points, so that each point of a study is run by one of them, killed workers or not. No worker leads, and
no lock is kept. A trial is made running, with its point and its worker in it, by one write. Trials are numbered in the
order in which they are made, so of two that stand for the same point all workers agree on the lower number; who made
the other closes it and never runs it. A dead worker's trial is closed as lost, and its point stands free again: whoever
looks next may take it, and it makes no difference how far the one who closed it came. (Optuna's own claims and
heartbeats are those of databases alone; a journal has neither.)
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import filelock
import optuna
import psutil
from optuna.exceptions import DuplicatedStudyError, StorageInternalError, UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic, user_path
from judgebench.study.space import Settings, Space, Value

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


# --- the study -------------------------------------------------------------------------------------------------------


STUDY = "study.json"
_JOURNAL = "journal:"
_DIRECTIONS = ("maximize", "minimize")
_SPACE, _SAMPLER, _FIXED = "space", "sampler", "fixed"
_CONNECT_SECONDS = 10
_LONGEST_LINE = 2**20
"""Bytes of a journal's line, which holds one attribute at the most, that are looked at."""


def open_storage(storage: str | None) -> BaseStorage:
    """The storage that `hydra.sweeper.storage` names; `UserError`, without its password, where it cannot be used.

    Args:
        storage: None (in memory, gone with the process); `journal:FILE` or a path ending in .journal or .log (a file
            that workers share, on one machine or a network file system); a database's address, such as
            sqlite:///studies.db or postgresql+psycopg://user@host/database.
    """
    key = "hydra.sweeper.storage"
    if storage is None:
        return InMemoryStorage()
    if storage.startswith(_JOURNAL) or ("://" not in storage and storage.endswith((".journal", ".log"))):
        path = user_path(storage.removeprefix(_JOURNAL).removeprefix("//"))
        try:
            if path.is_file():  # empty, or it begins with an entry, or with half of one, as a killed worker leaves it
                with path.open("rb") as file:
                    line = file.readline(_LONGEST_LINE)
                whole = b'"worker_id"' in line or not line.endswith(b"\n")
                if not (whole and line.startswith(b'{"op_code"'[: len(line)])):
                    raise UserError(
                        f"{key}: {path} is no journal of Optuna's, and nothing was written to it; name a journal, or a "
                        "file that does not exist yet."
                    )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            return JournalStorage(JournalFileBackend(str(path), lock_obj=FileLock(path)))
        except OSError as error:
            raise UserError(
                f"{key}: {path} cannot be written ({error.strerror or error}); choose another file."
            ) from error
        except (ValueError, KeyError, AssertionError) as error:
            raise UserError(f"{key}: {path} is no journal of Optuna's; choose another file.") from error
    if "://" not in storage:
        raise UserError(
            f"{key}: {storage!r} is no storage; give null, journal:FILE, sqlite:///FILE or "
            "postgresql+psycopg://USER@HOST/DATABASE."
        )
    shown = shown_storage(storage)
    try:
        return get_storage(_connected(storage))
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        hint = " (pip install 'judgebench[postgresql]')" if "psycopg" in str(error) else ""
        raise UserError(f"{key}: {shown} names no database that is supported here{hint}.") from error
    except (SQLAlchemyError, StorageInternalError, OSError, RuntimeError) as error:
        raise UserError(f"{key}: {shown} cannot be used ({_cause(error)}).") from error


def shown_storage(storage: str | None) -> str | None:
    """A storage's name without its password."""
    if storage is None or "://" not in storage or storage.startswith(_JOURNAL):
        return storage
    try:
        return make_url(storage).render_as_string(hide_password=True)
    except ArgumentError:
        return storage.split("://")[0] + "://***"


class FileLock(BaseJournalFileLock):
    """Keeps writers of a journal apart, with a lock that the system takes back when its holder is killed.

    Optuna's own lock is a file that a killed holder leaves behind; the others wait half a minute for it, then guess.
    A killed writer may also leave half a line, behind which the journal could not be read any more: whoever comes next
    cuts it off.
    """

    def __init__(self, journal: Path) -> None:
        self._journal, self._lock = journal, filelock.FileLock(f"{journal}.flock")

    def acquire(self) -> bool:
        self._lock.acquire()
        with self._journal.open("rb+") as file:
            if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        return True

    def release(self) -> None:
        self._lock.release()


def _connected(address: str) -> RDBStorage:
    """Connects to a database, up to five times: workers that start together make the tables together, and all but one
    fail at some step."""
    url = make_url(address)
    settings: dict[str, Any] = {"pool_pre_ping": True}
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername == "postgresql+psycopg":
        settings["connect_args"] = {"connect_timeout": _CONNECT_SECONDS}
    if url.drivername.startswith("sqlite"):
        settings["connect_args"] = {"timeout": 60}  # workers wait for each other instead of failing
        if url.database and url.database != ":memory:":
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    # percent signs and braces of a password are not Optuna's to fill in
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    for attempt in range(5):
        try:
            return RDBStorage(text, engine_kwargs=dict(settings))
        except (DBAPIError, StorageInternalError) as error:
            unreachable = isinstance(error, OperationalError) and error.statement is None
            if attempt == 4 or unreachable:
                raise
            time.sleep(0.3)
    raise AssertionError


def _cause(error: BaseException) -> str:
    while (cause := getattr(error, "orig", None) or error.__cause__) is not None:
        error = cause
    return " ".join(str(error).split())[:300].rstrip(".")


@contextmanager
def storage_errors(storage: str | None) -> Iterator[None]:
    """Turns the failure of a storage under way into one sentence."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, OSError) as error:
        raise UserError(
            f"hydra.sweeper.storage: {shown_storage(storage)} failed under way ({_cause(error)}); nothing is lost, "
            "start the same command again."
        ) from error


def open_study(
    storage: BaseStorage, settings: Settings, space: Space, sampler: str, fixed: Sequence[str]
) -> optuna.Study:
    """The study of the settings' name: a new one, or the one that other workers or an earlier start made; `UserError`
    where that one has other directions, another space, or other `fixed` overrides, which every job of the study gets:
    its trials cannot be compared."""
    directions = list(settings.directions)
    for direction in directions:
        if direction not in _DIRECTIONS:
            raise UserError(f"hydra.sweeper.direction: {direction!r} is not one of {', '.join(_DIRECTIONS)}.")
    if not directions:
        raise UserError("hydra.sweeper.direction: it is empty; give maximize or minimize, or a list of them.")
    wanted: dict[str, Any] = {_SPACE: space.described(), _FIXED: sorted(fixed)}
    name = settings.study_name
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=directions)  # type: ignore[arg-type]
    except DuplicatedStudyError:
        study = optuna.load_study(study_name=name, storage=storage)
    known = study.user_attrs
    if known or study.get_trials(deepcopy=False):
        there = [direction.name.lower() for direction in study.directions]
        before, now = (
            " ".join(overrides) or "none" for overrides in (known.get(_FIXED, wanted[_FIXED]), wanted[_FIXED])
        )
        differing = {
            f"set of directions ({', '.join(there)} instead of {', '.join(directions)})": there != directions,
            "search space": known.get(_SPACE, wanted[_SPACE]) != wanted[_SPACE],
            f"set of overrides ({before} instead of {now})": before != now,
        }
        if other := next((what for what, differs in differing.items() if differs), None):
            raise UserError(
                f"hydra.sweeper.study_name: there is a study {study.study_name!r} with another {other}, whose trials "
                "cannot be compared with these; ask for the same, choose another study_name, or name overrides that "
                "may differ in hydra.sweeper.may_differ."
            )
    # whoever was killed between making the study and describing it, or is about to, writes the same
    for key, value in {**wanted, _SAMPLER: sampler}.items():
        if key not in known:
            study.set_user_attr(key, value)
    return study


def check_folder(folder: Path, settings: Settings) -> None:
    """Checks that a sweep's folder has no trials of another stored study, whose runs this one's would replace; else
    `UserError` with that study's name."""
    try:
        content = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        there = content["study_name"], content["storage"]
    except (OSError, ValueError, KeyError, TypeError):  # no study has ended here
        return
    if there[1] is not None and there != (settings.study_name, shown_storage(settings.storage)):
        raise UserError(
            f"run_dir: {folder} holds the runs of study {there[0]} in {there[1]}; name another folder, as run_dir=DIR, "
            "or go on with that study."
        )


def write_study(
    folder: Path, study: optuna.Study, trials: Collection[FrozenTrial], settings: Settings, sampler: str, most: int
) -> None:
    """Writes study.json; `UserError` where the folder cannot be written.

    It holds study_name, storage (no password), sampler, directions, n_trials, space; `best` (number, params, values; of
    several objectives `front`, a list of such); `trials`, each with number, state, params, values, seconds, attributes
    (of the job), and ended, reason, retry_of where there are such."""
    # 1. a record a trial
    records, shown = dict[int, dict[str, Any]](), (ENDED, REASON, RETRY_OF)
    for trial in trials:
        attributes, began, ended = trial.user_attrs, trial.datetime_start, trial.datetime_complete
        records[trial.number] = {
            "number": trial.number,
            "state": trial.state.name.lower(),
            "params": trial.params,
            "values": trial.values and [value if math.isfinite(value) else None for value in trial.values],
            "seconds": round((ended - began).total_seconds(), 3) if began and ended else None,
            **{key: attributes[key] for key in shown if key in attributes},
            "attributes": {key: value for key, value in attributes.items() if key not in (*shown, POINT, WORKER)},
        }
    # 2. the best of them, and the file
    best = [
        {key: records[trial.number][key] for key in ("number", "params", "values")}
        for trial in best_trials(trials, study.directions)
    ]
    content = {
        "study_name": settings.study_name,
        "storage": shown_storage(settings.storage),
        "sampler": sampler,
        "directions": [direction.name.lower() for direction in study.directions],
        "n_trials": most,
        "space": study.user_attrs.get(_SPACE, {}),
        **({"front": best} if len(study.directions) > 1 else {"best": best[0] if best else None}),
        "trials": list(records.values()),
    }
    try:
        with atomic(folder / STUDY) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"run_dir: the results of the sweep cannot be written to {folder} ({error.strerror or error}); mend that, "
            "and start the same command again."
        ) from error


def best_trials(trials: Collection[FrozenTrial], directions: Sequence[StudyDirection]) -> list[FrozenTrial]:
    """The Pareto front of the complete trials, ascending by number; of one objective the first best alone."""
    done = sorted((trial for trial in trials if trial.state == TrialState.COMPLETE), key=lambda trial: trial.number)
    front = pareto_front([trial.values for trial in done], [direction.name.lower() for direction in directions])
    return [done[position] for position in (front[:1] if len(directions) == 1 else front)]


def pareto_front(values: Sequence[Sequence[float]], directions: Sequence[str]) -> list[int]:
    """The positions of those values that no others beat: better in one and at least as good in all.

    Example:
        >>> pareto_front([(1, 5), (2, 5), (2, 6), (0, 1)], ["maximize", "minimize"])
        [1, 3]
    """
    signs = [1.0 if direction == "minimize" else -1.0 for direction in directions]
    costs = [[sign * value for sign, value in zip(signs, point, strict=True)] for point in values]
    return [
        position
        for position, cost in enumerate(costs)
        if not any(other != cost and all(a <= b for a, b in zip(other, cost, strict=True)) for other in costs)
    ]
