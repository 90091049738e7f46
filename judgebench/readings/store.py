"""The store of readings: durable, content-addressed, never computed twice.

What one model says to one prompt is a *model reading*, stored under a key made of everything it depends on: the model's
fingerprint, its dtype, the exact tokens, the candidates' token paths, or how the answer was generated. A judge's
reading is its main model's and its assistant's together, so a second pass completes it, a model read as one run's judge
serves as another's assistant, and two models can never be mistaken for each other.

One SQLite file; a batch is committed whole or not at all, so `kill -9` at any moment loses at most the batch under way.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.errors import UserError
from judgebench.readings.mounts import on_network

_FORMAT = 1
_APPLICATION = int.from_bytes(b"judg")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS readings (
    key TEXT PRIMARY KEY,
    logprobs BLOB,
    text TEXT,
    seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    key TEXT PRIMARY KEY,
    ids BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digests (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    sha256 TEXT NOT NULL
) WITHOUT ROWID;
"""
_AT_ONCE = 500
"""Keys per query; SQLite limits the variables of a statement."""


@dataclass(frozen=True)
class ModelReading:
    """What one model says to one prompt.

    Attributes:
        key: of `reading_key`.
        logprobs: [candidates] float32, or None where the answer was generated.
        text: the generated answer, or None.
        seconds: wall time of its forward passes.
        tokens: [tokens] int32 of the generated answer, where whoever asked wants them back: a text does not always
            give them again.
    """

    key: str
    logprobs: np.ndarray | None
    text: str | None
    seconds: float
    tokens: np.ndarray | None = None


def reading_key(identity: dict[str, Any], token_ids: np.ndarray) -> str:
    """The address of a model reading.

    Args:
        identity: everything but the prompt that the reading depends on; JSON-serialisable.
        token_ids: [tokens] the prompt.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256(json.dumps({"format": _FORMAT, **identity}, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(token_ids, dtype=np.int32).tobytes())
    return digest.hexdigest()


class ReadingStore:
    """The readings at `path`; made if missing. Several processes of one machine may use it at once; those of several
    machines where it lies on a network file system that locks files for all of them (NFS 4, Lustre, GPFS).

    Raises:
        UserError: `path` is not a store of this format, or cannot be written.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute(f"PRAGMA journal_mode={journal_mode(path)}")
            self._db.execute("PRAGMA synchronous=NORMAL")
            new = not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
            found = self._db.execute("PRAGMA user_version").fetchone()[0]
            if not new and self._db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                raise UserError(f"store={path}: this is the database of another program; name another file.")
            if found not in (0, _FORMAT):
                raise UserError(
                    f"store={path}: this store has format {found}, and this version of judgebench reads format "
                    f"{_FORMAT}; name another file."
                )
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA application_id={_APPLICATION}")
            self._db.execute(f"PRAGMA user_version={_FORMAT}")
        # a damaged file may also say in what is no text why it cannot be read
        except (sqlite3.DatabaseError, OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"store={path}: no store of readings can be opened there ({error}); name a file that can be written."
            ) from error

    def close(self) -> None:
        """Leaves the file whole and alone."""
        self._db.close()

    def settle(self) -> None:
        """Waits until what all processes of this run have read is stored; one process has nothing to wait for."""

    def missing(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that have no reading."""
        wanted = set(keys)
        return wanted - {row[0] for row in self._select("SELECT key FROM readings", sorted(wanted))}

    def put(self, readings: Sequence[ModelReading]) -> None:
        """Adds readings, all or none; what is there stays as it is.

        Raises:
            UserError: the file cannot be written, as on a full disk.
        """
        rows = [
            (r.key, None if r.logprobs is None else np.asarray(r.logprobs, np.float32).tobytes(), r.text, r.seconds)
            for r in readings
        ]
        written = [(r.key, np.asarray(r.tokens, np.int32).tobytes()) for r in readings if r.tokens is not None]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO readings VALUES (?, ?, ?, ?) ON CONFLICT (key) DO NOTHING", rows)
            self._db.executemany("INSERT INTO tokens VALUES (?, ?) ON CONFLICT (key) DO NOTHING", written)
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise UserError(
                    f"store={self.path}: cannot be written ({error}). What was stored stays; run the same command "
                    "again when there is room."
                ) from error
            if type(error) is sqlite3.DatabaseError:  # not what its subclasses say of a mistake of ours
                raise self._damaged(error) from error
            raise

    def get(self, keys: Iterable[str]) -> dict[str, ModelReading]:
        """The readings of those of `keys` that have one."""
        rows = self._select(
            "SELECT key, logprobs, text, seconds, ids FROM readings LEFT JOIN tokens USING (key)", sorted(set(keys))
        )
        try:
            return {
                key: ModelReading(key, _array(logprobs, np.float32), text, seconds, _array(ids, np.int32))
                for key, logprobs, text, seconds, ids in rows
            }
        except (ValueError, TypeError) as error:  # numbers that are cut off, or of another kind
            raise self._damaged(error) from error

    def file_digest(self, path: Path) -> str:
        """SHA-256 of a file's content, remembered while its size and time of change stay the same."""
        path = path.resolve()
        stat = path.stat()
        with self._reading():
            row = self._db.execute(
                "SELECT sha256 FROM digests WHERE path=? AND size=? AND modified=?",
                (str(path), stat.st_size, stat.st_mtime_ns),
            ).fetchone()
        if row is not None:
            return str(row[0])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        # only a shortcut for later: where it cannot be kept, as on a full disk, the first reading will tell
        with suppress(sqlite3.OperationalError):
            self._db.execute(
                "INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?)",
                (str(path), stat.st_size, stat.st_mtime_ns, digest),
            )
        return digest

    def _select(self, query: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            with self._reading():
                rows += self._db.execute(f"{query} WHERE key IN ({','.join('?' * len(part))})", part).fetchall()
        return rows

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns what SQLite says of a file that it cannot read into a `UserError`."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> UserError:
        return UserError(
            f"store={self.path}: this store cannot be read any more ({error}), as after another program has cut or "
            "changed the file; restore it, or name another file, and what that lacks is read anew."
        )


def journal_mode(path: Path) -> str:
    """How SQLite makes a commit whole. A write-ahead log is the faster and lets others read meanwhile, but the
    processes must share memory; on a network file system, which other machines may use too, only a rollback journal
    is right."""
    return "TRUNCATE" if on_network(path) else "WAL"


def _array(blob: bytes | None, dtype: type[np.generic]) -> np.ndarray | None:
    return None if blob is None else np.frombuffer(blob, dtype)
