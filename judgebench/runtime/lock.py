"""One run at a time in a folder: a lock that the system takes back when its holder is killed."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, which refuses by itself to replace files that another process has open
    fcntl = None  # type: ignore[assignment]

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A link in a folder of somebody else's may lead anywhere: nothing is written through one."""

LOCK = ".lock"
"""The file in the folder; it says who holds it, and goes when the holder is done."""


UNTIL_THE_END = ExitStack()
"""Holds locks until the work of a command is done, however that ends; `judgebench.cli.handle_errors` closes it."""


class Held(Exception):
    """Somebody else holds the lock: `holder`, as far as it is known."""

    def __init__(self, holder: Mapping[str, Any]) -> None:
        super().__init__(described(holder))
        self.holder = holder


def described(holder: Mapping[str, Any]) -> str:
    """A lock's holder in words.

    Example:
        >>> described({"pid": 7, "host": "here", "since": "2026-01-31 12:00:00"})
        'process 7 on here, since 2026-01-31 12:00:00'
    """
    known = {name: holder.get(name, "unknown") for name in ("pid", "host", "since")}
    return "process {pid} on {host}, since {since}".format(**known)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; a folder that was made for it and stays empty goes again with its parents.

    The lock is the system's (flock), not the file's existence: a file that a killed run has left behind holds nobody
    up.

    Raises:
        Held: another process, or another part of this one, holds it.
        OSError: the folder cannot be made or written.
    """
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        handle = _acquired(folder / LOCK)
        try:
            yield
        finally:
            # while it is still held: whoever opens the path from now on gets a file of its own
            with suppress(OSError):
                (folder / LOCK).unlink()
            os.close(handle)
    finally:
        with suppress(OSError):  # not empty, or a neighbor's too by now
            for one in made:
                one.rmdir()


def _acquired(path: Path) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR | _NO_LINK, 0o666)
        except FileNotFoundError:  # its holder was done, and removed the folder that it had made
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise OSError(errno.ELOOP, f"its {path.name} is a symbolic link; remove it") from error
        try:
            there = os.fstat(handle)
            if not stat.S_ISREG(there.st_mode) or there.st_nlink > 1:
                raise OSError(errno.EINVAL, f"its {path.name} is no file of its own; remove it")
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, path):
                content = {
                    "pid": os.getpid(),
                    "host": socket.gethostname(),
                    "since": time.strftime("%Y-%m-%d %H:%M:%S"),
                }
                os.ftruncate(handle, 0)
                os.pwrite(handle, json.dumps(content).encode(), 0)
                return handle
        except BlockingIOError as error:
            holder = _holder(handle)
            os.close(handle)
            raise Held(holder) from error
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder was done, and removed it between our opening and our locking


def _is_at(handle: int, path: Path) -> bool:
    try:
        ours, there = os.fstat(handle), os.stat(path)
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _holder(handle: int) -> Mapping[str, Any]:
    """The holder's own entry in the file; empty if it is just about to write it."""
    try:
        content = json.loads(os.pread(handle, 4096, 0))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
