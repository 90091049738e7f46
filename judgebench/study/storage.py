"""Storage of a study, which several workers share and a later start goes on with, and the file of
its results."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import optuna
from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from judgebench.runtime.files import atomic, user_path
from judgebench.study.queue import ENDED, REASON, RETRY_OF, TASK
from judgebench.study.space import Settings, Space
from judgebench.types import Record
from judgebench.words.errors import UserError

STUDY = "study.json"
_JOURNAL = "journal:"
_DIRECTIONS = ("maximize", "minimize")
_SPACE = "space"
_SAMPLER = "sampler"
_FIXED = "fixed"
_CONNECT_SECONDS = 10
_LONGEST_LINE = 2**20
"""Bytes of a journal's line, which holds one attribute at the most, that are looked at."""


def open_storage(storage: str | None) -> BaseStorage:
    """The storage that `hydra.sweeper.storage` names; `UserError`, without its password, where it
    cannot be used.

    Args:
        storage: None (in memory, gone with the process); `journal:FILE` or a path ending in
            .journal or .log (a file that workers share, on one machine or a network file system); a
            database's address, such as sqlite:///studies.db or
            postgresql+psycopg://user@host/database.
    """
    key = "hydra.sweeper.storage"
    if storage is None:
        return InMemoryStorage()
    if storage.startswith(_JOURNAL) or (
        "://" not in storage and storage.endswith((".journal", ".log"))
    ):
        path = user_path(storage.removeprefix(_JOURNAL).removeprefix("//"))
        try:
            # empty, or it begins with an entry, or with half of one, as a killed worker leaves it
            if path.is_file():
                with path.open("rb") as file:
                    line = file.readline(_LONGEST_LINE)
                whole = b'"worker_id"' in line or not line.endswith(b"\n")
                if not (whole and line.startswith(b'{"op_code"'[: len(line)])):
                    raise UserError(
                        f"{key}: {path} is no journal of Optuna's, and nothing was written to it; "
                        "name a journal, or a file that does not exist yet."
                    )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            return JournalStorage(JournalFileBackend(str(path), lock_obj=FileLock(path)))
        except OSError as error:
            raise UserError(
                f"{key}: {path} cannot be written ({error.strerror or error}); choose another file."
            ) from error
        except (ValueError, KeyError, AssertionError) as error:
            raise UserError(
                f"{key}: {path} is no journal of Optuna's; choose another file."
            ) from error
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
        raise UserError(
            f"{key}: {shown} names no database that is supported here{hint}."
        ) from error
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
    """Keeps writers of a journal apart, with a lock that the system takes back when its holder is
    killed.

    Optuna's own lock is a file that a killed holder leaves behind; the others wait half a minute
    for it, then guess. A killed writer may also leave half a line, behind which the journal could
    not be read any more: whoever comes next cuts it off.
    """

    def __init__(self, journal: Path) -> None:
        self._journal, self._lock = journal, filelock.FileLock(f"{journal}.flock")

    def acquire(self) -> bool:
        self._lock.acquire()
        with self._journal.open("rb+") as file:
            if (
                file.seek(0, os.SEEK_END)
                and file.seek(-1, os.SEEK_END) >= 0
                and file.read(1) != b"\n"
            ):
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        return True

    def release(self) -> None:
        self._lock.release()


def _connected(address: str) -> RDBStorage:
    """Connects to a database, up to five times: workers that start together make the tables
    together, and all but one fail at some step."""
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
            f"hydra.sweeper.storage: {shown_storage(storage)} failed under way ({_cause(error)}); "
            "nothing is lost, start the same command again."
        ) from error


def open_study(
    storage: BaseStorage, settings: Settings, space: Space, sampler: str, fixed: Sequence[str]
) -> optuna.Study:
    """The study of the settings' name: a new one, or the one that other workers or an earlier start
    made; `UserError` where that one has other directions, another space, or other `fixed`
    overrides, which every job of the study gets: its trials cannot be compared."""
    directions = list(settings.directions)
    for direction in directions:
        if direction not in _DIRECTIONS:
            raise UserError(
                f"hydra.sweeper.direction: {direction!r} is not one of {', '.join(_DIRECTIONS)}."
            )
    if not directions:
        raise UserError(
            "hydra.sweeper.direction: it is empty; give maximize or minimize, or a list of them."
        )
    wanted = {_SPACE: space.described(), _FIXED: sorted(fixed)}
    name = settings.study_name
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=directions)  # type: ignore[arg-type]
    except DuplicatedStudyError:
        study = optuna.load_study(study_name=name, storage=storage)
    known = study.user_attrs
    if known or study.get_trials(deepcopy=False):
        there = [direction.name.lower() for direction in study.directions]
        before, now = (
            " ".join(overrides) or "none"
            for overrides in (known.get(_FIXED, wanted[_FIXED]), wanted[_FIXED])
        )
        differing = {
            f"set of directions ({', '.join(there)} instead of {', '.join(directions)})": there
            != directions,
            "search space": known.get(_SPACE, wanted[_SPACE]) != wanted[_SPACE],
            f"set of overrides ({before} instead of {now})": before != now,
        }
        if other := next((what for what, differs in differing.items() if differs), None):
            raise UserError(
                f"hydra.sweeper.study_name: there is a study {study.study_name!r} with another "
                f"{other}, whose trials cannot be compared with these; ask for the same, choose "
                "another study_name, or name overrides that may differ in hydra.sweeper.may_differ."
            )
    # whoever was killed between making the study and describing it, or is about to, writes the same
    for key, value in {**wanted, _SAMPLER: sampler}.items():
        if key not in known:
            study.set_user_attr(key, value)
    return study


def check_folder(folder: Path, settings: Settings) -> None:
    """Checks that a sweep's folder has no trials of another stored study, whose runs this one's
    would replace; else `UserError` with that study's name."""
    try:
        content = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        there = content["study_name"], content["storage"]
    except (OSError, ValueError, KeyError, TypeError):  # no study has ended here
        return
    if there[1] is not None and there != (settings.study_name, shown_storage(settings.storage)):
        raise UserError(
            f"run_dir: {folder} holds the runs of study {there[0]} in {there[1]}; name another "
            "folder, as run_dir=DIR, or go on with that study."
        )


def write_study(
    folder: Path,
    study: optuna.Study,
    trials: Collection[FrozenTrial],
    settings: Settings,
    sampler: str,
    most: int,
) -> None:
    """Writes study.json; `UserError` where the folder cannot be written.

    It holds study_name, storage (no password), sampler, directions, n_trials, space; `best`
    (number, params, values; of several objectives `front`, a list of such); `trials`, each that was
    begun, with number, state, params, values, seconds, attributes (of the job), and ended, reason,
    retry_of where there are such."""
    # 1. a record a trial
    records: dict[int, Record] = {}
    shown = (ENDED, REASON, RETRY_OF)
    hidden = (*shown, TASK)
    for trial in trials:
        if trial.state == TrialState.WAITING:
            continue
        attributes = trial.user_attrs
        duration = trial.duration
        records[trial.number] = {
            "number": trial.number,
            "state": trial.state.name.lower(),
            "params": trial.params,
            "values": trial.values
            and [value if math.isfinite(value) else None for value in trial.values],
            "seconds": None if duration is None else round(duration.total_seconds(), 3),
            **{key: attributes[key] for key in shown if key in attributes},
            "attributes": {key: value for key, value in attributes.items() if key not in hidden},
        }
    # 2. the best of them, and the file
    best = [
        {key: records[trial.number][key] for key in ("number", "params", "values")}
        for trial in best_trials(study)
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
        write_json(folder / STUDY, content)
    except OSError as error:
        raise UserError(
            f"run_dir: the results of the sweep cannot be written to {folder} "
            f"({error.strerror or error}); mend that, and start the same command again."
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Writes a whole file, or none."""
    with atomic(path) as temporary:
        text = json.dumps(content, indent=1, ensure_ascii=False)
        temporary.write_text(f"{text}\n", encoding="utf-8")


def best_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The Pareto front of the complete trials, ascending by number; of one objective the first best
    alone."""
    front = study.best_trials
    return front[:1] if len(study.directions) == 1 else front
