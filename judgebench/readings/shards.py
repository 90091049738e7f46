"""Readings as Parquet files in a folder, for stores of more than a million: `store=parquet:FOLDER`.

    FOLDER/_recent.sqlite                        what was read last, a `ReadingStore`: durable batch
    by batch FOLDER/prefix=new/DIGEST-ROWS.parquet        shards of any keys: of a flush, or of
    `add_shard` FOLDER/prefix=ab/DIGEST-ROWS.parquet         shards of the keys that begin with ab

A shard is sorted by key, and named after the digest of its keys and their number: the same readings
added twice are one file, and a changed key anywhere shows. Its pages have checksums, and each row
has that of `reading.checksum`. Nothing is changed in place: a file is written beside, renamed, and
only then what it replaces is removed. Look-ups hold 8 bytes a key in memory, at most `_MOST_KEYS`
keys at once.

pandas reads it as `pandas.read_parquet("FOLDER")`, DuckDB as `read_parquet('FOLDER/*/*.parquet')`.
A key stands in two files while these are merged, and until then where two processes have read it
and each added a shard.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore, Row, SharedStore, is_intact, row_of
from judgebench.runtime.distributed import here
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import PARQUET, UNTIL_THE_END, Held, atomic, locked, place_of
from judgebench.runtime.parsing import read_json

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("logprobs", pa.list_(pa.float32())),
        ("text", pa.string()),
        ("seconds", pa.float64()),
        ("tokens", pa.list_(pa.int32())),
        ("checksum", pa.uint32()),
    ]
)
"""Columns of a shard. Keys are hexadecimal text, as in SQLite: compressed they take 1 % more than
their 32 bytes would, and whoever reads them elsewhere needs not convert them."""

MANY = 1_000_000
"""Readings in a SQLite file beyond which new ones go to shards beside it."""
_FLUSH = 2**15
"""Readings in `_recent.sqlite` that become a shard."""
_DEAL = 2**26
"""Bytes of new shards that are dealt out by prefix: of a million readings of five candidates."""
_WHOLE = 2**24
"""Bytes of a shard that is merged no more."""
_FEW = 8
_MOST = 64
"""Smaller shards of a prefix, and new ones, that are merged."""
_GROUP = 1024
"""Rows that are read where one is looked up."""
_MOST_KEYS = 2**26
"""Keys in memory: 512 MB."""
_NEW = "new"
_RECENT = "_recent.sqlite"
_PENDING = "_pending.json"
_NAME = re.compile(r"([0-9a-f]{16})-(\d+)\.parquet")

_FAULTS = (OSError, pa.ArrowException, ValueError, TypeError, KeyError, MemoryError, OverflowError)
"""What pyarrow raises of a damaged file."""


class ParquetStore(ReadingStore):
    """The readings in a folder; made if missing. Several processes may use it at once, see
    `ReadingStore`; those that only add, on any machine that has the folder, call `add_shard`.

    Args:
        older: another store that is looked up, too, and stays as it is.

    Raises:
        UserError: as `ReadingStore` does. A damaged shard raises nothing: its readings count as
            missing.
    """

    def __init__(self, folder: Path, older: ReadingStore | None = None):
        self.folder = Path(os.path.abspath(folder))
        self._older = older
        self._files: dict[str, list[Path]] = {}
        self._codes: dict[Path, np.ndarray] = {}
        self._damaged_files: dict[Path, int] = {}
        super().__init__(folder / _RECENT)
        self.path = Path(f"{PARQUET}{folder}")
        with self._reading():
            # what is moved to shards is not found among the remains
            self._db.execute("PRAGMA secure_delete=ON")
            self._recent: int = self._db.execute("SELECT count(*) FROM readings").fetchone()[0]

    def put(self, readings: Sequence[ModelReading]) -> None:
        super().put(readings)
        self._recent += len(readings)
        if self._recent >= _FLUSH:
            self.flush()

    def settle(self) -> None:
        """Merges the shards that have come since."""
        self.flush(_FLUSH)

    def close(self) -> None:
        """Moves what is recent to a shard, and closes."""
        self.flush()
        for place in [place for place, store in _opened.items() if store is self]:
            del _opened[place]
        super().close()
        if self._older is not None:
            self._older.close()

    def file_digest(self, path: Path) -> str:
        return super().file_digest(path) if self._older is None else self._older.file_digest(path)

    def model_files(self) -> list[Path]:
        return super().model_files() if self._older is None else self._older.model_files()

    def missing(self, keys: Iterable[str]) -> set[str]:
        absent = super().missing(keys)
        return absent if self._older is None or not absent else self._older.missing(absent)

    def add_shard(self, readings: Sequence[ModelReading]) -> None:
        """Adds readings as a shard of their own, see `add_shard`."""
        add_shard(self.folder, readings)

    def _insert(self, rows: Sequence[Row]) -> None:
        if len(rows) < _FLUSH:
            return super()._insert(rows)
        there = self.intact({row[0].decode() for row in rows})
        return _write(
            self.folder / f"prefix={_NEW}",
            _table_of([row for row in rows if row[0].decode() not in there]),
        )

    def flush(self, least: int = 1) -> None:
        """Moves what is recent to a shard, if there is so much of it, and merges shards; while
        another process does so, nothing."""
        self._check_file()
        self._recent = 0  # where another does it, this one looks again after as many more
        try:
            with locked(self.folder), self._reading():
                self._recover()
                rows = [row for row in super().rows() if is_intact(row)]
                if len(rows) >= least:
                    keys = {row[0].decode() for row in rows}
                    # a process that was killed left them in both
                    there = self._of_shards(keys, set())
                    self._add(
                        _NEW, _table_of([row for row in rows if row[0].decode() not in there])
                    )
                    self._remove([row[:1] for row in rows])
                    self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._merge_all()
        except Held:
            return
        except OSError as error:
            raise UserError(
                f"store={self.path}: cannot be written ({error.strerror or error}). What was "
                "stored stays; run the same command again when there is room."
            ) from error

    def rows(self) -> Iterator[Row]:
        """All rows of shards that can be read, damaged ones too, and then the recent; one key may
        have several."""
        for file in self._all():
            for _, table in self._tables(file):
                yield from _rows_of(table)
        yield from super().rows()

    def counts(self) -> tuple[int, int, int]:
        counts = np.array(super().counts())
        for file in self._all():
            for _, table in self._tables(file, columns=["key", "logprobs", "text"]):
                counts += [
                    len(table),
                    *(len(table) - table[name].null_count for name in ("logprobs", "text")),
                ]
        readings, scored, written = counts.tolist()
        return readings, scored, written

    def files(self) -> list[Path]:
        return [*super().files(), *self._all()]

    def lost(self) -> int:
        return sum(self._damaged_files.values())

    def prune(self, drop: Callable[[Row], bool], dry_run: bool) -> int:
        """As of `ReadingStore`; of a file that cannot be read whole, what can be is written
        anew."""
        try:
            with locked(self.folder):
                self._recover()
                count = super().prune(drop, dry_run)
                for file in self._all():
                    parts = [part for _, part in self._tables(file)] or [SCHEMA.empty_table()]
                    kept = (
                        pa.array([not drop(row) for row in _rows_of(part)], pa.bool_())
                        for part in parts
                    )
                    table = pa.concat_tables(
                        part.filter(mask) for part, mask in zip(parts, kept, strict=True)
                    )
                    count += _size(file) - len(table)
                    if not dry_run and len(table) < _size(file):
                        self._exchange([file], {_prefix(file): _distinct(table)})
                        self._damaged_files.pop(file, None)
                return count
        except Held as held:
            raise UserError(f"store={self.path}: it is in use ({held}); try again.") from held

    def _all(self) -> list[Path]:
        return [file for files in self._listed().values() for file in files]

    def intact(self, keys: set[str]) -> dict[str, Row]:
        """As `ReadingStore.intact`: of shards, then of the recent, then of shards again if there
        are others by now, for readings go that way."""
        damaged: set[str] = set()
        found = self._of_shards(keys, damaged)
        known = self._files
        found |= super().intact(keys - found.keys())
        if self._older is not None:
            found |= self._older.intact(keys - found.keys())
        if len(found) < len(keys) and self._listed() != known:
            found |= self._of_shards(keys - found.keys(), damaged)
        self._warn(damaged - found.keys())
        return found

    # --- look-ups in shards ----------------------------------------------------------------------

    def _listed(self) -> dict[str, list[Path]]:
        """Prefix -> its shards. It is listed until nothing changes: a listing under which files are
        replaced may have neither the old nor the new."""
        while (files := shards_of(self.folder)) != self._files:
            self._files = files
            there = {file for of_prefix in files.values() for file in of_prefix}
            self._codes = {file: codes for file, codes in self._codes.items() if file in there}
        return files

    def _of_shards(self, keys: set[str], damaged: set[str]) -> dict[str, Row]:
        """Key -> its row, of the shards' rows that match their checksums; the keys of others are
        added to `damaged`."""
        by_prefix: dict[str, list[str]] = {}
        for key in keys:
            by_prefix.setdefault(key[:2], []).append(key)
        while True:
            found: dict[str, Row] = {}
            try:
                for prefix, files in self._listed().items():
                    for file in files:
                        wanted = [
                            k
                            for k in (keys if prefix == _NEW else by_prefix.get(prefix, ()))
                            if k not in found
                        ]
                        for row in self._rows(file, wanted) if wanted else ():
                            if is_intact(row):
                                found[row[0].decode()] = row
                            else:
                                damaged.add(row[0].decode("utf-8", "replace"))
                return found
            except FileNotFoundError:  # another process has just replaced it
                continue

    def _rows(self, file: Path, keys: Sequence[str]) -> Iterator[Row]:
        """The rows of some keys in a shard."""
        # 1. the index: a code of each row's key, in the order of the rows; a row group that cannot
        # be read has none
        if file not in self._codes:
            while sum(map(len, self._codes.values())) > _MOST_KEYS:
                del self._codes[next(iter(self._codes))]
            codes = np.zeros(_size(file), np.uint64)
            for first, table in self._tables(file, columns=["key"]):
                codes[first : first + len(table)] = _codes(table["key"], file)
            self._codes[file] = np.maximum.accumulate(codes)
        codes = self._codes[file]
        wanted = _codes(pa.chunked_array([keys], pa.string()), file)
        # 2. the row groups in which they may be; those of two keys with one code are both read
        begin = np.searchsorted(codes, wanted)
        end = np.searchsorted(codes, wanted, "right")
        there = np.flatnonzero(begin < end).tolist()
        groups = {
            group for i in there for group in range(begin[i] // _GROUP, (end[i] - 1) // _GROUP + 1)
        }
        chosen = pa.array([keys[i] for i in there], pa.string())
        for _, table in self._tables(file, sorted(groups)) if groups else ():
            yield from _rows_of(table.filter(pc.is_in(table["key"], chosen)))

    def _tables(
        self, file: Path, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> list[tuple[int, pa.Table]]:
        """Rows of a shard, and the number of the first; where a row group cannot be read the others
        are, one by one, and it is said once."""
        rows = _size(file)
        lost = 0
        tables = []
        try:
            with pq.ParquetFile(file, page_checksum_verification=True) as opened:
                sizes = [
                    opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)
                ]
                if opened.schema_arrow != SCHEMA or sizes != [
                    min(_GROUP, rows - at) for at in range(0, rows, _GROUP)
                ]:
                    raise ValueError
                every = list(range(len(sizes)) if groups is None else groups)
                try:
                    table = opened.read_row_groups(every, columns)
                    if groups is None and file.name != _name(table["key"]):
                        raise ValueError
                    return [(_GROUP * every[0], table)]
                except _FAULTS:
                    for group in every:
                        try:
                            tables.append((_GROUP * group, opened.read_row_group(group, columns)))
                        except _FAULTS:
                            lost += sizes[group]
        except FileNotFoundError:
            raise
        except _FAULTS:
            lost = rows
        if file not in self._damaged_files:
            print(
                f"judgebench: store={self.path}: {file.relative_to(self.folder)} is damaged, as "
                f"after a fault of the disk; up to {lost or rows:,} of its {rows:,} readings are "
                "read again.",
                file=sys.stderr,
            )
        self._damaged_files[file] = max(self._damaged_files.get(file, 0), lost)
        return tables

    # --- shards in place of others ---------------------------------------------------------------

    def _merge_all(self) -> None:
        """Deals out the new shards by prefix once they are large, and merges those of a prefix that
        are small and many; damaged ones stay as they are."""
        taken: list[Path] = []
        size = 0
        for file in self._listed().get(_NEW, ()):
            if file not in self._damaged_files:
                taken.append(file)
                size += file.stat().st_size
            if size >= _DEAL:
                self._replace(taken, deal=True)
                taken = []
                size = 0
        for prefix, files in self._listed().items():
            small = [
                one
                for one in files
                if one not in self._damaged_files and one.stat().st_size < _WHOLE
            ]
            if len(small) >= (_MOST if prefix == _NEW else _FEW):
                self._replace(small)

    def _replace(self, files: Sequence[Path], deal: bool = False) -> None:
        """Writes the readings of shards as one, or one a prefix, and removes those."""
        # 1. the shards that can be read whole
        read = {file: self._tables(file) for file in files}
        files = [file for file in files if file not in self._damaged_files]
        if not files:
            return
        table = _distinct(pa.concat_tables(part for file in files for _, part in read[file]))
        del read
        pieces = {_prefix(files[0]): table}
        if deal:
            starts = (
                pc.utf8_slice_codeunits(table["key"], 0, 2).combine_chunks().dictionary_encode()
            )
            prefixes = starts.dictionary.to_pylist()
            bounds = np.searchsorted(starts.indices.to_numpy(), range(len(prefixes) + 1)).tolist()
            pieces = {
                one: table.slice(bounds[i], bounds[i + 1] - bounds[i])
                for i, one in enumerate(prefixes)
            }
        self._exchange(files, pieces)

    def _exchange(self, files: Sequence[Path], pieces: Mapping[str, pa.Table]) -> None:
        """Writes shards, by prefix, and removes others; a process that finds that begun takes it
        back, or ends it."""
        new = [self._place(prefix, piece) for prefix, piece in pieces.items()]
        self._to_remove([file for file in new if not file.exists()])
        for prefix, piece in pieces.items():
            self._add(prefix, piece)
        self._to_remove([file for file in files if file not in new])
        self._recover()

    def _place(self, prefix: str, table: pa.Table) -> Path:
        return self.folder / f"prefix={prefix}" / _name(table["key"])

    def _add(self, prefix: str, table: pa.Table) -> None:
        """Writes a shard; a damaged one of the same keys is no more."""
        _write(self.folder / f"prefix={prefix}", table)
        self._codes.pop(self._place(prefix, table), None)
        self._damaged_files.pop(self._place(prefix, table), None)

    def _to_remove(self, files: Sequence[Path]) -> None:
        with atomic(self.folder / _PENDING) as temporary:
            temporary.write_text(
                json.dumps([str(file.relative_to(self.folder)) for file in files]), "utf-8"
            )

    def _recover(self) -> None:
        """Ends an exchange of shards that was begun, or takes it back."""
        if (pending := self.folder / _PENDING).is_file():
            names = set(read_json(pending, str(pending), shape=[str]))
            for file in (file for files in shards_of(self.folder).values() for file in files):
                if str(file.relative_to(self.folder)) in names:
                    file.unlink(missing_ok=True)
            pending.unlink()


def shards_of(folder: Path) -> dict[str, list[Path]]:
    """Prefix, or `new`, -> its shards."""
    return {
        _prefix(place / "any"): [
            file for file in sorted(place.iterdir()) if _NAME.fullmatch(file.name)
        ]
        for place in sorted(folder.glob("prefix=*"))
    }


def add_shard(folder: Path, readings: Sequence[ModelReading]) -> None:
    """Adds readings to the store in a folder as a shard of their own, whole or not at all, from any
    process of any machine that has the folder; it opens nothing else. The same readings may be
    added again, as after a failure.

    Raises:
        UserError: a reading that no model gives, see `ReadingStore.put`.
        OSError: it cannot be written.
    """
    _write(folder / f"prefix={_NEW}", _table_of([row_of(reading, folder) for reading in readings]))


def _write(folder: Path, table: pa.Table) -> None:
    """Writes rows, which are sorted by key and distinct, as a shard."""
    if len(table):
        with atomic(folder / _name(table["key"])) as temporary:
            pq.write_table(
                table,
                temporary,
                _GROUP,
                compression="zstd",
                use_dictionary=False,
                write_statistics=["key"],
                write_page_checksum=True,
            )


def _name(keys: pa.ChunkedArray) -> str:
    """The file name of a shard with these keys."""
    ends, data = _text(keys)
    digest = hashlib.blake2b(np.diff(ends).astype(np.int32).tobytes(), digest_size=8)
    digest.update(data[ends[0] : ends[-1]].tobytes())
    return f"{digest.hexdigest()}-{len(keys)}.parquet"


def _prefix(file: Path) -> str:
    return file.parent.name.removeprefix("prefix=")


def _size(file: Path) -> int:
    """Rows of a shard."""
    named = _NAME.fullmatch(file.name)
    assert named is not None
    return int(named[2])


def _text(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """[rows + 1] offsets of texts, and their bytes."""
    texts = column.combine_chunks()
    _, ends, data = texts.buffers()
    found = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return found, np.frombuffer(data or b"", np.uint8)


def _codes(keys: pa.ChunkedArray, file: Path) -> np.ndarray:
    """[keys] eight characters of each as a number, of the same order as the keys; of a shard of one
    prefix, those behind it."""
    prefix = _prefix(file)
    ends, data = _text(keys)
    at = ends[:-1, None] + (0 if prefix == _NEW else len(prefix)) + np.arange(8)
    letters = np.where(at < ends[1:, None], data[np.minimum(at, len(data) - 1)], 0).astype(np.uint8)
    return letters.view(">u8")[:, 0].astype(np.uint64)


def _table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table, sorted by key, each key once."""
    keys, logprobs, texts, seconds, tokens, marks = zip(*rows, strict=True) if rows else [()] * 6
    text = (pa.array(column, pa.binary()).cast(pa.string()) for column in (keys, texts))
    columns = [
        next(text),
        _lists(logprobs, np.float32),
        next(text),
        seconds,
        _lists(tokens, np.int32),
        marks,
    ]
    return _distinct(
        pa.Table.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )
    )


def _lists(parts: Sequence[bytes | None], kind: type) -> pa.Array:
    """Lists of numbers of four bytes each."""
    ends = np.cumsum([0, *(len(part or b"") // 4 for part in parts)], dtype=np.int32)
    values = pa.array(np.frombuffer(b"".join(part or b"" for part in parts), kind))
    return pa.ListArray.from_arrays(
        pa.array(ends), values, mask=pa.array([part is None for part in parts], pa.bool_())
    )


def _rows_of(table: pa.Table) -> Iterator[Row]:
    columns: list[Any] = []
    for name in SCHEMA.names:
        column = table[name].combine_chunks()
        if pa.types.is_list(column.type):
            ends = column.offsets.to_pylist()
            data = column.values.to_numpy(zero_copy_only=False).tobytes()
            valid = column.is_valid().to_pylist()
            columns.append(
                [
                    data[4 * a : 4 * b] if v else None
                    for v, a, b in zip(valid, ends, ends[1:], strict=False)
                ]
            )
        else:
            columns.append(
                (
                    column.cast(pa.binary()) if pa.types.is_string(column.type) else column
                ).to_pylist()
            )
    yield from zip(*columns, strict=True)


def _distinct(table: pa.Table) -> pa.Table:
    """The rows sorted by key, of several with one key the first that matches its checksum."""
    table = table.sort_by("key").combine_chunks()
    keys = table["key"]
    kept = np.ones(len(table), bool)
    held = 0
    for at in np.flatnonzero(pc.equal(keys[:-1], keys[1:]).to_numpy()) if len(table) > 1 else ():
        held = int(at) if kept[at] else held
        kept[int(at) + 1 if is_intact(next(_rows_of(table.slice(held, 1)))) else held] = False
    return table if kept.all() else table.filter(pa.array(kept))


# --- the store that a configuration names -------------------------------------------------------


_opened: dict[tuple[Path, int, int], ParquetStore] = {}
"""Stores in folders by folder, process and thread: each holds its index once."""


def file_of(store: Path) -> Path:
    """The SQLite file that a store always has."""
    return place_of(store) / _RECENT if str(store).startswith(PARQUET) else store


def shards_beside(path: Path) -> Path:
    """The folder of what a SQLite file has no more room for."""
    return path.with_name(f"{path.name}.shards")


def open_store(path: Path) -> ReadingStore:
    """The store of this run, however many processes it has: `parquet:FOLDER`, or a SQLite file;
    beside one with more than `MANY` readings, new ones go to a folder, which is said when it is
    made.

    Raises:
        UserError: see `ReadingStore` and `place_of`.
    """
    processes = here()
    return _open(path) if processes.count == 1 else SharedStore(path, processes, _open)


def _open(path: Path) -> ReadingStore:
    older = None
    folder = place_of(path)
    if not str(path).startswith(PARQUET):
        older = ReadingStore(path)
        folder = shards_beside(path)
        if not folder.is_dir():
            if str(path) == ":memory:" or (count := older.about()) <= MANY:
                return older
            print(
                f"judgebench: store={path}: it has about {count:,} readings, so from now on new "
                f"ones go to Parquet files in {folder}; those that it has stay there, and both are "
                "looked up.",
                file=sys.stderr,
            )
    elif folder.is_file():
        raise UserError(f"store={path}: this is a file; name a folder, or leave away {PARQUET}.")
    place = (Path(os.path.abspath(folder)), os.getpid(), threading.get_ident())
    store = _opened.get(place)
    if store is None or not store.is_there():
        store = _opened[place] = ParquetStore(folder, older)
        UNTIL_THE_END.callback(_end, place)
    return store


def _end(place: tuple[Path, int, int]) -> None:
    store = _opened.pop(place, None)
    # what cannot become a shard now stays where it is, and is found there
    if store is not None and place[1:] == (os.getpid(), threading.get_ident()):
        with suppress(UserError, sqlite3.Error):
            store.close()
