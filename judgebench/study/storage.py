"""Storage of a study, which several workers share and a killed one goes on with, and the files of its results."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import BaseJournalFileLock
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic
from judgebench.study.claims import ENDED, POINT, REASON, RETRY_OF, WORKER
from judgebench.study.space import Settings

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_JOURNAL = "journal:"
_DIRECTIONS = ("maximize", "minimize")
_SPACE, _SAMPLER, _FIXED = "space", "sampler", "fixed"
_CONNECT_SECONDS = 10
_LONGEST_LINE = 2**20
"""Bytes of a journal's line, which holds one attribute at the most, that are looked at."""


def open_storage(given: str | None) -> BaseStorage:
    """The storage that `hydra.sweeper.storage` names.

    Args:
        given: None (in memory, gone with the process); `journal:FILE` or a path ending in .journal or .log (a file
            that workers share, on one machine or a network file system); a database's address, such as
            sqlite:///studies.db or postgresql+psycopg://user@host/database.

    Raises:
        UserError: none of these, or it cannot be reached; the sentence has no password.
    """
    if given is None:
        return InMemoryStorage()
    if not isinstance(given, str) or not given.strip():
        raise UserError(f"hydra.sweeper.storage: {given!r} is neither null nor a text.")
    if given.startswith(_JOURNAL) or ("://" not in given and given.endswith((".journal", ".log"))):
        return _journal(Path(given.removeprefix(_JOURNAL).removeprefix("//")).expanduser())
    if "://" not in given:
        raise UserError(
            f"hydra.sweeper.storage: {given!r} is no storage; give null, journal:FILE, sqlite:///FILE or "
            "postgresql+psycopg://USER@HOST/DATABASE."
        )
    return _database(given)


def shown_storage(given: str | None) -> str | None:
    """A storage's name without its password."""
    if given is None or "://" not in given or given.startswith(_JOURNAL):
        return given
    try:
        return make_url(given).render_as_string(hide_password=True)
    except ArgumentError:
        return given.split("://")[0] + "://***"


def open_study(
    storage: BaseStorage,
    name: str | None,
    directions: Sequence[str],
    space: Mapping[str, Any],
    sampler: str,
    fixed: Sequence[str],
) -> optuna.Study:
    """The study of that name: a new one, or the one that other workers or an earlier start made.

    Args:
        directions: "maximize" or "minimize", one an objective.
        space: `Space.described`.
        sampler: its class.
        fixed: the overrides that every job of the study gets.

    Raises:
        UserError: the study of that name has other directions, another space, or other fixed overrides, so that its
            trials cannot be compared.
    """
    for direction in directions:
        if direction not in _DIRECTIONS:
            raise UserError(f"hydra.sweeper.direction: {direction!r} is not one of {', '.join(_DIRECTIONS)}.")
    if not directions:
        raise UserError("hydra.sweeper.direction: it is empty; give maximize or minimize, or a list of them.")
    wanted: dict[str, Any] = {_SPACE: dict(space), _FIXED: sorted(fixed)}
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=list(directions))  # type: ignore[arg-type]
    except DuplicatedStudyError:
        study = optuna.load_study(study_name=name, storage=storage)
    known = study.user_attrs
    if known or study.get_trials(deepcopy=False):
        there = [direction.name.lower() for direction in study.directions]
        if there != list(directions):
            what = f"set of directions ({', '.join(there)} instead of {', '.join(directions)})"
            raise UserError(_other(study, what, "hydra.sweeper.direction"))
        if known.get(_SPACE, wanted[_SPACE]) != wanted[_SPACE]:
            raise UserError(_other(study, "search space", "what is swept"))
        if known.get(_FIXED, wanted[_FIXED]) != wanted[_FIXED]:
            what = f"set of overrides ({_listed(known[_FIXED])} instead of {_listed(wanted[_FIXED])})"
            raise UserError(_other(study, what, "these, or allow them in hydra.sweeper.may_differ,"))
    # whoever was killed between making the study and describing it, or is about to, writes the same
    for key, value in {**wanted, _SAMPLER: sampler}.items():
        if key not in known:
            study.set_user_attr(key, value)
    return study


class FileLock(BaseJournalFileLock):
    """Keeps writers of a journal apart, with a lock that the system takes back when its holder is killed.

    Optuna's own lock is a file that a killed holder leaves behind; the others wait half a minute for it, then guess.
    A killed writer may also leave half a line, behind which nobody could read the journal any more: whoever comes next
    cuts it off.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._path = journal.with_name(f"{journal.name}.flock")
        self._handle: int | None = None

    def acquire(self) -> bool:
        handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self._handle = handle
        self._cut_half_line()
        return True

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _cut_half_line(self) -> None:
        with self._journal.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                return
            file.seek(size - 1)
            if file.read(1) == b"\n":
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


@contextmanager
def storage_errors(given: str | None) -> Iterator[None]:
    """Turns the failure of a storage under way into one sentence."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, OSError) as error:
        raise UserError(
            f"hydra.sweeper.storage: {shown_storage(given)} failed under way ({_cause(error)}); nothing is lost, "
            "start the same command again."
        ) from error


def _journal(path: Path) -> BaseStorage:
    try:
        if path.is_file() and not _is_journal(path):
            raise UserError(
                f"hydra.sweeper.storage: {path} is no journal of Optuna's, and nothing was written to it; name a "
                "journal, or a file that does not exist yet."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        lock = FileLock(path) if fcntl is not None else JournalFileOpenLock(str(path))
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except OSError as error:
        raise UserError(
            f"hydra.sweeper.storage: {path} cannot be written ({error.strerror or error}); choose another file."
        ) from error
    except (ValueError, KeyError, AssertionError) as error:
        raise UserError(f"hydra.sweeper.storage: {path} is no journal of Optuna's; choose another file.") from error


def _is_journal(path: Path) -> bool:
    """True of an empty file, and of one whose first line is an entry of a journal, or half of one, as a killed worker
    leaves it."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        return line.startswith(b'{"op_code"'[: len(line)])
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and {"op_code", "worker_id"} <= set(entry)


def _database(given: str) -> BaseStorage:
    shown = shown_storage(given)
    try:
        url = make_url(given)
        if url.drivername in ("postgres", "postgresql"):
            url = url.set(drivername="postgresql+psycopg")
        settings: dict[str, Any] = {"pool_pre_ping": True}
        if url.drivername.startswith("sqlite"):
            # workers wait for each other instead of failing
            settings["connect_args"] = {"timeout": 60}
            if url.database and url.database != ":memory:":
                Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        if url.drivername == "postgresql+psycopg":
            settings["connect_args"] = {"connect_timeout": _CONNECT_SECONDS}
        return get_storage(_connected(url.render_as_string(hide_password=False), settings))
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        hint = " (pip install 'judgebench[postgresql]')" if "psycopg" in str(error) else ""
        raise UserError(f"hydra.sweeper.storage: {shown} names no database that is supported here{hint}.") from error
    except (SQLAlchemyError, StorageInternalError, OSError, RuntimeError) as error:
        raise UserError(f"hydra.sweeper.storage: {shown} cannot be used ({_cause(error)}).") from error


def _connected(url: str, settings: Mapping[str, Any]) -> RDBStorage:
    """Connects, up to five times: workers that start together make the tables together, and all but one fail at some
    step."""
    for last in (False, False, False, False, True):
        try:
            # percent signs and braces of a password are not Optuna's to fill in
            return RDBStorage(url.replace("{", "{{").replace("}", "}}"), engine_kwargs=dict(settings))
        except (DBAPIError, StorageInternalError) as error:
            unreachable = isinstance(error, OperationalError) and error.statement is None
            if last or unreachable:
                raise
            time.sleep(0.3)
    raise AssertionError


def _other(study: optuna.Study, what: str, mend: str) -> str:
    return (
        f"hydra.sweeper.study_name: there is a study {study.study_name!r} with another {what}, whose "
        f"trials cannot be compared with these; change {mend} or choose another study_name."
    )


def _cause(error: BaseException) -> str:
    while (cause := getattr(error, "orig", None) or error.__cause__) is not None:
        error = cause
    return " ".join(str(error).split())[:300].rstrip(".")


def _listed(overrides: Sequence[str]) -> str:
    return " ".join(overrides) or "none"


STUDY, RESULTS = "study.json", "optimization_results.yaml"


def check_folder(folder: Path, settings: Settings) -> None:
    """Checks that a sweep's folder has no trials of another stored study, whose runs this one's would replace; else
    `UserError` with that study's name."""
    try:
        found = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        there = found["study_name"], found["storage"]
    except (OSError, ValueError, KeyError, TypeError):  # no study has ended here
        return
    if there[1] is not None and there != (settings.study_name, shown_storage(settings.storage)):
        raise UserError(
            f"run_dir: {folder} holds the runs of study {there[0]} in {there[1]}; name another folder, as run_dir=DIR, "
            "or go on with that study."
        )


def write_results(
    folder: Path,
    study: optuna.Study,
    trials: Collection[FrozenTrial],
    settings: Settings,
    sampler: str,
    most: int,
) -> dict[str, Any]:
    """Writes both files and returns the content of study.json; `UserError` where the folder cannot be written.

    study.json holds study_name, storage (no password), sampler, directions, n_trials, space; `best` (number, params,
    values; of several objectives `front`, a list of such); `trials`, each with number, state, params, values, seconds,
    attributes (of the job), and ended, reason, retry_of where there are such."""
    best = [_short(trial) for trial in best_trials(trials, study.directions)]
    single = len(study.directions) == 1
    content = {
        "study_name": settings.study_name,
        "storage": shown_storage(settings.storage),
        "sampler": sampler,
        "directions": [direction.name.lower() for direction in study.directions],
        "n_trials": most,
        "space": study.user_attrs.get("space", {}),
        **({"best": best[0] if best else None} if single else {"front": best}),
        "trials": [_whole(trial) for trial in trials],
    }
    results: dict[str, Any] = {"name": "optuna"}
    if single:
        results |= {"best_params": best[0]["params"], "best_value": best[0]["values"][0]} if best else {}
    else:
        results |= {"solutions": [{"params": one["params"], "values": one["values"]} for one in best]}
    try:
        with atomic(folder / STUDY) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        with atomic(folder / RESULTS) as temporary:
            temporary.write_text(yaml.safe_dump(results, sort_keys=False, allow_unicode=True), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"run_dir: what the sweep found cannot be written to {folder} ({error.strerror or error}); mend that, and "
            "start the same command again."
        ) from error
    return content


def best_trials(trials: Collection[FrozenTrial], directions: Sequence[StudyDirection]) -> list[FrozenTrial]:
    """The Pareto front of the complete trials, ascending by number; of one objective the first best alone."""
    done = sorted((trial for trial in trials if trial.state == TrialState.COMPLETE), key=lambda trial: trial.number)
    front = pareto_front([trial.values for trial in done], [direction.name.lower() for direction in directions])
    return [done[position] for position in (front[:1] if len(directions) == 1 else front)]


def _short(trial: FrozenTrial) -> dict[str, Any]:
    return {"number": trial.number, "params": trial.params, "values": _plain(trial.values)}


def _whole(trial: FrozenTrial) -> dict[str, Any]:
    given: Mapping[str, Any] = trial.user_attrs
    known = {key: given[key] for key in (ENDED, REASON, RETRY_OF) if key in given}
    began, ended = trial.datetime_start, trial.datetime_complete
    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "params": trial.params,
        "values": _plain(trial.values),
        "seconds": round((ended - began).total_seconds(), 3) if began and ended else None,
        **known,
        "attributes": {
            key: value for key, value in given.items() if key not in (ENDED, REASON, RETRY_OF, POINT, WORKER)
        },
    }


def _plain(values: Sequence[float] | None) -> list[float | None] | None:
    return None if values is None else [value if math.isfinite(value) else None for value in values]


def pareto_front(values: Sequence[Sequence[float]], directions: Sequence[str]) -> list[int]:
    """The positions of those values that no others beat: better in one and at least as good in all.

    Args:
        directions: maximize or minimize, one an objective.

    Example:
        >>> pareto_front([(1, 5), (2, 5), (2, 6), (0, 1)], ["maximize", "minimize"])
        [1, 3]
    """
    signs = [1.0 if direction == "minimize" else -1.0 for direction in directions]
    costs = [[sign * value for sign, value in zip(signs, point, strict=True)] for point in values]
    return [
        position
        for position, own in enumerate(costs)
        if not any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in costs)
    ]
