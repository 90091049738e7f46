"""The store of readings: durable, content-addressed, never computed twice.

One model's answer to one prompt is a *model reading*, stored under a key made of everything that it
depends on: the model's fingerprint, its dtype, the exact tokens, the candidates' token paths, or
the way of generation. So a model read as one run's judge serves as another's assistant.

One SQLite file; a batch is committed whole or not at all, so `kill -9` at any moment loses at most
the batch under way. A row that does not match its checksum, over its key and its content, counts as
missing, and is read again; damaged rows are counted and said, once. A row whose key has changed is
not found, so its prompt is read again, too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from judgebench.readings.claims import holders_of
from judgebench.readings.reading import (
    FoundReadings,
    ModelReading,
    checksum,
    first_impossible,
    pack_readings,
    unpack_readings,
)
from judgebench.runtime.distributed import Processes, process_group
from judgebench.runtime.files import (
    NO_STORE,
    FileState,
    begin_sha256,
    file_state,
    inode,
    on_network,
    sha256_of,
)
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

_FORMAT = 2
_APPLICATION = int.from_bytes(b"judg")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS readings (
    key TEXT PRIMARY KEY,
    logprobs BLOB,
    text TEXT,
    seconds REAL NOT NULL,
    checksum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    key TEXT PRIMARY KEY,
    ids BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digests (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    checksum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS proofs (
    facts TEXT PRIMARY KEY,
    checksum INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY,
    holder TEXT NOT NULL
) WITHOUT ROWID;
"""
_ROWS = """
SELECT CAST(key AS BLOB), logprobs, CAST(text AS BLOB), seconds, ids, checksum
FROM readings LEFT JOIN tokens USING (key)
"""  # as bytes: a damaged text may not be UTF-8, and must not hide its neighbors
Row = tuple[bytes, bytes | None, bytes | None, float, bytes | None, int]
"""A reading as it is stored: key, log-probabilities (float32), text, seconds, tokens (int32) and
checksum."""
_DIGESTS: dict[FileState, str] = {}
"""State -> SHA-256 of a file, for stores in memory, of which a scoring has one a shard."""
_AT_ONCE = 500
"""Keys per query; SQLite limits the variables of a statement."""


class ReadingStore:
    """The readings at `path`; made if missing. Several processes of one machine may use it at once;
    those of several machines on a network file system that locks files for all of them (NFS 4,
    Lustre, GPFS).

    Raises:
        UserError: `path` is not a store of this format, cannot be read or written, or was deleted
            under way.
    """

    def __init__(self, path: Path):
        self.path = path
        self._absolute = Path(os.path.abspath(path))
        self._network = on_network(path)
        self._damaged_keys: set[str] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            # a write-ahead log is faster and lets others read meanwhile, but the processes must
            # share memory: on a network file system only a rollback journal is right
            journal = "TRUNCATE" if self._network else "WAL"
            for pragma in (f"journal_mode={journal}", "synchronous=NORMAL", "cell_size_check=ON"):
                self._db.execute(f"PRAGMA {pragma}")
            new = not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if not new and self._db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                raise UserError(
                    f"store={path}: this is the database of another program; name another file."
                )
            if version not in (0, _FORMAT):
                raise UserError(
                    f"store={path}: this store has format {version}, and this version of "
                    f"judgebench reads format {_FORMAT}; name another file."
                )
            # before its tables, or another process that opens it meanwhile would take it for foreign
            self._db.execute(f"PRAGMA application_id={_APPLICATION}")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version={_FORMAT}")
            self._file = self._identity()
        # a damaged file may also say in broken text why it cannot be read
        except (sqlite3.DatabaseError, OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"store={path}: no store of readings can be opened there ({error}); name a file "
                "that can be written."
            ) from error

    def close(self) -> None:
        self._db.close()

    def settle(self) -> None:
        """Waits until what all processes of this run have read is stored; one process has nothing
        to wait for."""

    def missing(self, keys: Iterable[str]) -> set[str]:
        """The keys without a reading that matches its checksum."""
        wanted = set(keys)
        return wanted.difference(self.intact(wanted))

    def put(self, readings: Sequence[ModelReading]) -> None:
        """Adds readings, all or none; intact ones of the same key stay. A reading that no model
        gives is a `UserError`: log-probabilities above 0 or not a number, half a character."""
        self._insert([row_of(reading, self.path) for reading in readings])

    def add(self, rows: Sequence[Row]) -> int:
        """Adds intact rows of another store as `put` adds readings, and gives the number of those
        that it lacked."""
        there = self.intact({row[0].decode() for row in rows})
        new = {row[0]: row for row in rows if row[0].decode() not in there}
        self._insert([*new.values()])
        return len(new)

    def _insert(self, rows: Sequence[Row]) -> None:
        again = [(row[0].decode(),) for row in rows if row[0].decode() in self._damaged_keys]
        with self._writing():
            for table in ("readings", "tokens") if again else ():
                self._db.executemany(f"DELETE FROM {table} WHERE key = ?", again)
            self._db.executemany(
                "INSERT INTO readings (key, logprobs, text, seconds, checksum) VALUES (CAST(? "
                "AS TEXT), ?, CAST(? AS TEXT), ?, ?) ON CONFLICT (key) DO NOTHING",
                [(*row[:4], row[5]) for row in rows],
            )
            # those of another process's reading of the same key would not match it
            self._db.executemany(
                "INSERT OR REPLACE INTO tokens (key, ids) SELECT key, ? FROM readings WHERE "
                "key = CAST(? AS TEXT) AND checksum = ?",
                [(ids, key, mark) for key, _, _, _, ids, mark in rows if ids is not None],
            )
        self._damaged_keys.difference_update(key for (key,) in again)

    def claim(self, keys: Iterable[str], holder: str) -> dict[str, str]:
        """Claims readings that are to be asked for, in the place of all that the holder has claimed
        before; gives key -> holder of those that are another's. See `judgebench.readings.claims`."""
        wanted = sorted(set(keys))
        found: list[tuple[str, str]] = []
        with self._writing():
            self._db.execute("DELETE FROM claims WHERE holder = ?", (holder,))
            for at in range(0, len(wanted), _AT_ONCE):
                part = wanted[at : at + _AT_ONCE]
                query = f"SELECT key, holder FROM claims WHERE key IN ({_places(part)})"
                found += self._db.execute(query, part).fetchall()
            # those of a holder that has ended are free
            there = {name for _, name in found}
            gone = there.difference(holders_of(self.path, there))
            self._db.executemany("DELETE FROM claims WHERE holder = ?", [(name,) for name in gone])
            others = {key: name for key, name in found if name not in gone}
            free = [(key, holder) for key in wanted if key not in others]
            self._db.executemany("INSERT INTO claims VALUES (?, ?)", free)
        return others

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """All that is written in the block, or nothing; what SQLite says of a file that it cannot
        write is a `UserError`."""
        self._check_file()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            raise UserError(
                f"store={self.path}: cannot be written ({error}). What was stored stays; run the "
                "same command again when there is room."
            ) from error
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:  # its subclasses say a mistake of ours
                raise
            raise self._damaged(error) from error

    def get(self, keys: Iterable[str]) -> FoundReadings:
        """The readings of the keys that match their checksums."""
        readings = FoundReadings(self.path)
        for key, (_, logprobs, text, seconds, ids, _) in self.intact(set(keys)).items():
            readings[key] = ModelReading(
                key,
                logprobs=None if logprobs is None else np.frombuffer(logprobs, np.float32),
                text=None if text is None else text.decode(),
                seconds=seconds,
                tokens=None if ids is None else np.frombuffer(ids, np.int32),
            )
        return readings

    def file_digest(self, path: Path) -> str:
        """SHA-256 of a file's content, remembered while its size and time of change stay the
        same."""
        state = file_state(path)
        if (known := self.known_digest(state)) is not None:
            return known
        digest = sha256_of(path)
        _DIGESTS[state] = digest
        mark = checksum(_name_of(state), None, digest.encode(), 0.0, None)
        # only a shortcut for later: where it cannot be kept, as on a full disk, the first reading
        # reports it
        with suppress(sqlite3.OperationalError):
            self._db.execute(
                "INSERT OR REPLACE INTO digests (path, size, modified, sha256, checksum) VALUES "
                "(?, ?, ?, ?, ?)",
                (*state, digest, mark),
            )
        return digest

    def known_digest(self, state: FileState) -> str | None:
        """The remembered digest of a file in this state; None without one."""
        if self._file is None and state in _DIGESTS:
            return _DIGESTS[state]
        with self._reading():
            row = self._db.execute(
                "SELECT CAST(sha256 AS BLOB), checksum FROM digests WHERE path=? AND size=? AND "
                "modified=?",
                state,
            ).fetchone()
        known = row is not None and row[1] is not None
        if known and row[1] == checksum(_name_of(state), None, row[0], 0.0, None):
            return str(row[0], "ascii")
        return None

    def proven(self, facts: str) -> bool:
        """True where a proof that depends on these facts alone is held to have succeeded; a damaged
        entry holds nothing."""
        with self._reading():
            held = self._db.execute(
                "SELECT checksum FROM proofs WHERE facts=?", (facts,)
            ).fetchone()
        return held == (checksum(facts.encode(), None, None, 0.0, None),)

    def add_proof(self, facts: str) -> None:
        """Holds that a proof has succeeded, see `proven`."""
        # only a shortcut for later, as a file's digest is
        with suppress(sqlite3.OperationalError):
            self._db.execute(
                "INSERT OR REPLACE INTO proofs VALUES (?, ?)",
                (facts, checksum(facts.encode(), None, None, 0.0, None)),
            )

    def rows(self) -> Iterator[Row]:
        """All rows in the order of their keys, damaged ones too."""
        with self._reading():
            yield from self._db.execute(f"{_ROWS} ORDER BY key")

    def remember(self, other: ReadingStore) -> None:
        """Takes over the digests of files, and the proofs, that another store remembers."""
        with self._reading():
            rows = other._db.execute(
                "SELECT path, size, modified, sha256, checksum FROM digests"
            ).fetchall()
            self._db.executemany("INSERT OR IGNORE INTO digests VALUES (?, ?, ?, ?, ?)", rows)
            rows = other._db.execute("SELECT facts, checksum FROM proofs").fetchall()
            self._db.executemany("INSERT OR IGNORE INTO proofs VALUES (?, ?)", rows)

    def intact(self, keys: set[str]) -> dict[str, Row]:
        """Key -> its row, of those that match their checksums and hold what a model can say."""
        self._check_file()
        rows = []
        with self._reading():
            ordered = sorted(keys)
            for at in range(0, len(ordered), _AT_ONCE):
                part = ordered[at : at + _AT_ONCE]
                query = f"{_ROWS} WHERE key IN ({_places(part)})"
                rows += self._db.execute(query, part).fetchall()
        intact = {row[0].decode(): row for row in rows if is_intact(row)}
        if len(intact) < len(rows):
            names = [row[0] for row in rows if isinstance(row[0], bytes)]
            damaged = {name.decode("utf-8", "replace") for name in names}.difference(intact)
            self._warn(keys & damaged)
        return intact

    def _warn(self, damaged: set[str]) -> None:
        """Says how many readings are damaged, of those that it has not said so of."""
        new = damaged - self._damaged_keys
        self._damaged_keys |= new
        if new:
            print_safely(
                f"judgebench: store={self.path}: {len(new):,} of its readings do not match their "
                "checksums or cannot be read any more, as after a fault of the disk, or hold what "
                "no model says; they are read again.",
                error=True,
            )

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of the file; None where there is none, as of a store in memory. Over a
        network an inode may change while the file stays, so there any file will do."""
        place = inode(self._absolute)
        return (0, 0) if place and self._network else place

    def _check_file(self) -> None:
        """Checks that the file is still that which was opened: what goes to a deleted one is lost
        with the run."""
        if self._file is not None and self._identity() != self._file:
            raise UserError(
                f"store={self.path}: the file was deleted, moved or replaced while this run used "
                "it, so what is read cannot be stored there; put it back or leave it away, and run "
                "the same command again: what it lacks is read again."
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns what SQLite says of a file that it cannot read into a `UserError`."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> UserError:
        return UserError(
            f"store={self.path}: this store cannot be read any more ({error}), as after another "
            "program has cut or changed the file; restore it, or name another file, and what that "
            "lacks is read again."
        )


class SharedStore(ReadingStore):
    """The store of a run of several processes. All but `put` is called by all of them, in the same
    order.

    SQLite's write-ahead log is shared memory of one machine, and over a network file system its
    locking cannot be trusted. So the first process opens the file; the others ask it, and send it
    their readings, batch by batch.
    """

    def __init__(self, path: Path, processes: Processes):
        self._processes = processes
        self.path = path
        if processes.first:
            self._store = ReadingStore(path)

    def close(self) -> None:
        if self._processes.first:
            self._store.close()

    def missing(self, keys: Iterable[str]) -> set[str]:
        return self._processes.agree(lambda: self._store.missing(keys))

    def get(self, keys: Iterable[str]) -> FoundReadings:
        return self._processes.agree(lambda: self._store.get(keys))

    def file_digest(self, path: Path) -> str:
        """The digest of the first process's file: the others take its weights."""
        return self._processes.agree(lambda: self._store.file_digest(path))

    def proven(self, facts: str) -> bool:
        """True where all processes' facts are the first one's, which its store holds as proven."""
        held, asked = self._processes.agree(lambda: (self._store.proven(facts), facts))
        return held and asked == facts

    def add_proof(self, facts: str) -> None:
        if self._processes.first:
            self._store.add_proof(facts)

    def put(self, readings: Sequence[ModelReading]) -> None:
        """Adds readings; those of other processes are stored when the first process has read its
        current batch."""
        if not self._processes.first:
            if readings:
                self._processes.send(pack_readings(readings))
            return
        self._store.put(readings)
        for message in self._processes.mail():
            self._store.put(unpack_readings(message))

    def settle(self) -> None:
        for message in self._processes.all_mail():
            self._store.put(unpack_readings(message))


def _name_of(state: FileState) -> bytes:
    return repr(state).encode("utf-8", "backslashreplace")


def _places(values: Sequence[str]) -> str:
    """Places of so many values in a query."""
    return ",".join("?" * len(values))


def row_of(reading: ModelReading, store: Path) -> Row:
    """The row of a reading; `UserError` of one that no model gives, see `ReadingStore.put`."""
    logprobs = (
        None if reading.logprobs is None else np.asarray(reading.logprobs, np.float32).tobytes()
    )
    ids = None if reading.tokens is None else np.asarray(reading.tokens, np.int32).tobytes()
    try:
        text = None if reading.text is None else reading.text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"store={store}: an answer holds half a character ({error.object[error.start]!a}, a "
            "surrogate without its partner), so it is not stored."
        ) from error
    if (wrong := first_impossible(logprobs)) is not None:
        raise UserError(
            f"store={store}: a reading holds the log-probability {wrong}, which is above 0 or not "
            "a number, so it is not stored. Whoever gave it, model or server, cannot be used as a "
            "judge."
        )
    key = reading.key.encode()
    mark = checksum(key, logprobs, text, reading.seconds, ids)
    return key, logprobs, text, reading.seconds, ids, mark  # type: ignore[return-value]  # what SQLite refuses


def is_intact(row: Row) -> bool:
    """True of a row that matches its checksum and holds what a model can say: whoever wrote a
    number that is not a log-probability gave it a checksum."""
    return row[5] is not None and row[5] == checksum(*row[:5]) and first_impossible(row[1]) is None


def begin_digests(path: Path, files: Sequence[Path]) -> None:
    """Begins to compute the digests of files that the store at a path does not remember; nothing is
    written where there is none yet, and what is wrong with it says whoever opens it to read."""
    with suppress(UserError, OSError):
        store = ReadingStore(path if path.is_file() else Path(":memory:"))
        for file in files:
            if store.known_digest(file_state(file)) is None:
                begin_sha256(file)
        store.close()


def open_store(path: Path) -> ReadingStore:
    """The store of this run, however many processes it has: a SQLite file, or `NO_STORE`.

    Raises:
        UserError: see `ReadingStore`.
    """
    place = Path(":memory:") if str(path) == NO_STORE else path
    processes = process_group()
    return ReadingStore(place) if processes.count == 1 else SharedStore(place, processes)
