"""Claims on readings that somebody asks a server for now, so that commands with one store pay for
no answer twice.

A claim is a row of the store, key -> holder, and ends with its holder. A holder is a command, which
holds the lock of a folder beside the store until it ends, however it ends; or a batch, as long as
its note is there. No clock is asked: a killed command's claims are free at once, and a stopped
one's are kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from judgebench.runtime.files import Held, locked, writing

_COMMAND = re.compile("[0-9a-f]{32}")
_BATCH = re.compile("judgebench-[0-9a-f]{32}")


def batch_name() -> str:
    """A name for a new batch, and of its note."""
    return f"judgebench-{uuid4().hex}"


def is_batch(holder: str) -> bool:
    return _BATCH.fullmatch(holder) is not None


def beside(store: Path, kind: str) -> Path:
    """A folder beside a store: the same by whatever path, link or working directory the store is
    named."""
    return Path(f"{os.path.realpath(store)}.{kind}")


def notes_of(store: Path) -> Path:
    """The folder with the notes of batches."""
    return beside(store, "batches")


def _locks_of(store: Path) -> Path:
    return beside(store, "asking")


@contextmanager
def holding(store: Path) -> Iterator[str]:
    """The name of a new holder, this command, for the length of the block."""
    name = uuid4().hex
    folder = _locks_of(store)
    with writing(f"store={store}: the folder {folder}"):
        lock = locked(folder / name)
        lock.__enter__()
    try:
        yield name
    finally:
        lock.__exit__(None, None, None)
        with suppress(OSError):  # others are at work
            folder.rmdir()


def holders_of(store: Path, names: Iterable[str]) -> dict[str, str]:
    """Name -> holder in words, of the holders that are still there."""
    said = {name: holder_of(store, name) for name in sorted(set(names))}
    return {name: words for name, words in said.items() if words is not None}


def holder_of(store: Path, name: str) -> str | None:
    """The holder of this name, in words; None where there is none any more."""
    if is_batch(name):
        note = notes_of(store) / f"{name}.json"
        return f"the batch that {note} notes" if note.is_file() else None
    folder = _locks_of(store) / name
    if not _COMMAND.fullmatch(name) or not folder.is_dir():
        return None
    try:
        with locked(folder):
            pass
    except Held as error:
        return str(error)
    except OSError as error:
        return f"a command of which {folder} cannot be opened ({error.strerror})"
    for left in (folder, folder.parent):
        with suppress(OSError):  # others are at work
            left.rmdir()
    return None
