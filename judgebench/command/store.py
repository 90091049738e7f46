"""The command line: `python -m judgebench store COMMAND STORE ...`, which verifies stores of
readings or merges them.

  verify STORE ...       compares every reading with its checksum; exit code 1 where one does not
                         match
  merge A B ... out=C    adds the readings of stores to another, which is made if missing; exact
                         to the last bit

A store is a SQLite file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from judgebench.command.words import Words
from judgebench.runtime.files import user_path
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.readings.store import ReadingStore

_WORDS = Words(
    "store", __doc__, "python -m judgebench store verify outputs/readings.sqlite", ["out"]
)
_AT_ONCE = 2**16


@_WORDS
def main(words: list[str], given: dict[str, str]) -> int:
    """Does as the command line says; 0, 1 where `verify` finds damage, 2 after a user's mistake."""
    command, *stores = words or [""]
    if command not in ("verify", "merge"):
        _WORDS.refuse(f"{command or 'nothing'}: there is no such command; there are verify, merge")
    if command == "verify" and given:
        _WORDS.refuse("verify has no settings")
    if not stores or (command == "merge" and not given.get("out")):
        _WORDS.refuse(f"{command} lacks {'out=STORE' if stores else 'a store'}")
    from judgebench.data.rows import existing
    from judgebench.readings.store import ReadingStore

    # all of them are there, before the first is looked at
    opened = []
    for path in map(user_path, stores):
        opened.append(ReadingStore(existing(path, "STORE")))
    if command == "merge":
        return _merge(opened, user_path(given["out"]))
    return max(map(_verify, opened))


def _verify(store: ReadingStore) -> int:
    from judgebench.readings.store import is_intact

    intact = damaged = 0
    for row in store.rows():
        if is_intact(row):
            intact += 1
        else:
            damaged += 1
    if not damaged:
        print_safely(f"{store.path}: {intact:,} readings, all as they were written")
        return 0
    print_safely(
        f"{store.path}: {intact:,} readings as they were written; {damaged:,} do not match their "
        "checksums. A run that needs them reads them again; `python -m judgebench store merge "
        f"{store.path} out=OTHER` leaves them out."
    )
    return 1


def _merge(stores: Sequence[ReadingStore], out: Path) -> int:
    from judgebench.readings.store import ReadingStore, is_intact

    if any(out.resolve() == store.path.resolve() for store in stores):
        raise UserError(f"{out}: it is one of the stores that are merged; name another.")
    target = ReadingStore(out)
    added = present = damaged = 0
    for store in stores:
        target.remember(store)
        every = iter(store.rows())
        while rows := list(islice(every, _AT_ONCE)):
            intact = [row for row in rows if is_intact(row)]
            new = target.add(intact)
            added += new
            present += len(intact) - new
            damaged += len(rows) - len(intact)
        store.close()
    target.close()
    left_out = f"; {damaged:,} that do not match their checksums were left out" if damaged else ""
    print_safely(f"{added:,} readings added, {present:,} were there{left_out}", out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
