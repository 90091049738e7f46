"""Files that are either whole or not there: a kill at any moment leaves the old file, or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path next to `path`; what is written there becomes `path` when the block ends well.

    The temporary file lies in the same folder because a rename is atomic only within one file system. It is synced to
    the disk first, so that a power cut cannot leave the new name with old or empty content. If the block raises, the
    temporary file goes and `path` stays as it was.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with atomic(path) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> path.read_text()
        'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # what is written goes through no link that somebody has put there
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder to sync it, and needs not
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
