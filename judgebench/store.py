"""The command line: `python -m judgebench.store COMMAND STORE ...`, what stores of readings hold,
whole or not.

  list STORE             readings, bytes, kinds, models whose files it knows, dates of its files
  verify STORE           compares every reading with its checksum; exit code 1 where one does not
  match copy FROM TO           adds the readings of one store to another, which is made if missing;
  exact to the last bit merge A B out=C        the same of several
  prune STORE damaged=true dry_run=false       removes what does not match its checksum
  prune STORE longer_than=10000 dry_run=false  removes readings of more bytes, as of long answers;
  they are read again

A store is a SQLite file or parquet:FOLDER. Several may be given. `prune` only counts, unless
dry_run=false is given.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from judgebench.runtime.errors import Refusal, UserError
from judgebench.runtime.files import PARQUET, user_path

if TYPE_CHECKING:
    from judgebench.readings.store import ReadingStore, Row

_EXAMPLE = "python -m judgebench.store verify outputs/readings.sqlite"
_SETTINGS = {
    "list": (),
    "verify": (),
    "copy": (),
    "merge": ("out",),
    "prune": ("damaged", "longer_than", "dry_run"),
}
_AT_ONCE = 2**16


def main(arguments: Sequence[str] | None = None) -> int:
    """Does as the command line says; 0, 1 where `verify` finds damage, 2 after a user's mistake."""
    from judgebench.cli import as_sentence

    parser = argparse.ArgumentParser(
        prog="python -m judgebench.store",
        usage="%(prog)s [-h] COMMAND STORE [STORE ...] [KEY=VALUE ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND STORE", help="see above")
    parser.error = _refuse  # type: ignore[method-assign]
    try:
        with as_sentence():
            command, *words = parser.parse_args(arguments).words or [""]
            if command not in _SETTINGS:
                _refuse(
                    f"{command or 'nothing'}: there is no such command; there are "
                    f"{', '.join(_SETTINGS)}"
                )
            given = dict(
                word.split("=", 1) for word in words if "=" in word and not user_path(word).exists()
            )
            stores = [word for word in words if "=" not in word or user_path(word).exists()]
            if wrong := [key for key in given if key not in _SETTINGS[command]]:
                _refuse(
                    f"{command} has no {', '.join(wrong)}, but "
                    f"{', '.join(_SETTINGS[command]) or 'no settings'}"
                )
            if (
                not stores
                or (command == "copy" and len(stores) != 2)
                or (command == "merge" and not given.get("out"))
            ):
                _refuse(
                    f"{command} lacks a store"
                    if command != "copy"
                    else "copy takes two stores, FROM and TO"
                )
            if command == "copy":
                given["out"] = stores.pop()
            if command in ("copy", "merge"):
                return _copy(stores, given["out"])
            if command == "prune":
                return _prune(stores, given)
            # all of them are there, before the first is looked at
            return max(
                [
                    (_list if command == "list" else _verify)(one)
                    for name in stores
                    for one in _opened(name)
                ]
            )
    except Refusal as refusal:
        print(f"judgebench: {refusal.sentence}", file=sys.stderr)
        return 2


def _refuse(message: str) -> NoReturn:
    raise UserError(f"{message}; give it as {_EXAMPLE}.")


def _named(name: str) -> Path:
    """A store as it is named; a folder may lack its `parquet:`."""
    return Path(f"{PARQUET}{name}") if user_path(name).is_dir() else user_path(name)


def _opened(name: str) -> list[ReadingStore]:
    """A store that is there: a SQLite file may have a folder beside it."""
    from judgebench.data.rows import existing
    from judgebench.readings.shards import ParquetStore, file_of, shards_beside
    from judgebench.readings.store import ReadingStore

    path = _named(name)
    existing(file_of(path), "STORE")
    if str(path).startswith(PARQUET):
        return [ParquetStore(file_of(path).parent)]
    beside = shards_beside(path)
    return [ReadingStore(path), *([ParquetStore(beside)] if beside.is_dir() else [])]


def _list(store: ReadingStore) -> int:
    readings, scored, written = store.counts()
    stats = [file.stat() for file in store.files()]
    first, last = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(of(s.st_mtime for s in stats)))
        for of in (min, max)
    )
    print(
        f"{store.path}: {readings:,} readings, {sum(stat.st_size for stat in stats):,} bytes in "
        f"{len(stats)} files"
    )
    print(
        f"  {scored:,} with log-probabilities, {written:,} with a text; its files were written "
        f"{first} to {last}"
    )
    for folder in dict.fromkeys(
        file if file.suffix == ".gguf" else file.parent for file in store.model_files()
    ):
        print(f"  read on this machine: {folder}")
    return 0


def _verify(store: ReadingStore) -> int:
    from judgebench.readings.store import is_intact

    whole = damaged = 0
    for row in store.rows():
        whole, damaged = (whole + 1, damaged) if is_intact(row) else (whole, damaged + 1)
    lost = store.lost()
    if not damaged and not lost:
        print(f"{store.path}: {whole:,} readings, all as they were written")
        return 0
    print(
        f"{store.path}: {whole:,} readings as they were written; {damaged:,} do not match their "
        f"checksums, and up to {lost:,} are in files that cannot be read. A run that needs them "
        f"reads them again; `python -m judgebench.store prune {store.path} damaged=true "
        "dry_run=false` removes what is left of them."
    )
    return 1


def _copy(sources: Sequence[str], out: str) -> int:
    from judgebench.readings.shards import ParquetStore, file_of
    from judgebench.readings.store import ReadingStore, is_intact

    stores = [store for name in sources for store in _opened(name)]
    path = _named(out)
    if any(file_of(path).resolve() == file_of(_named(name)).resolve() for name in sources):
        raise UserError(f"{out}: it is copied from itself; name another store.")
    target = (
        ParquetStore(file_of(path).parent) if str(path).startswith(PARQUET) else ReadingStore(path)
    )
    added = there = damaged = 0
    for store in stores:
        target.remember(store)
        every = iter(store.rows())
        while rows := list(islice(every, _AT_ONCE)):
            intact = [row for row in rows if is_intact(row)]
            new = target.add(intact)
            target.settle()
            added = added + new
            there = there + len(intact) - new
            damaged = damaged + len(rows) - len(intact)
        damaged += store.lost()
        ReadingStore.close(store)  # as it is, without a flush
    target.close()
    left = f"; {damaged:,} that do not match their checksums were left out" if damaged else ""
    print(f"{added:,} readings added, {there:,} were there{left}", out, sep="\n")
    return 0


def _prune(names: Sequence[str], given: dict[str, str]) -> int:
    drop = _dropped(given)
    dry = given.get("dry_run", "true")
    if dry not in ("true", "false"):
        raise UserError(f"dry_run={dry}: give true or false.")
    for store in [store for name in names for store in _opened(name)]:
        count = store.prune(drop, dry == "true")
        if dry == "true":
            print(f"{store.path}: {count:,} readings would be removed; with dry_run=false they are")
        else:
            print(f"{store.path}: {count:,} readings removed")
    return 0


def _dropped(given: dict[str, str]) -> Callable[[Row], bool]:
    """The condition of what is removed: what is damaged in any case."""
    from judgebench.readings.store import is_intact

    size = given.get("longer_than")
    if (size is None and given.get("damaged") != "true") or (
        size is not None and not size.isdecimal()
    ):
        raise UserError(
            "prune: say what is removed, as damaged=true, or longer_than=BYTES with a whole number."
        )
    most = sys.maxsize if size is None else int(size)
    return lambda row: (
        not is_intact(row) or sum(map(len, (row[1] or b"", row[2] or b"", row[4] or b""))) > most
    )


if __name__ == "__main__":
    sys.exit(main())
