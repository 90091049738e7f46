"""Files that are whole or not there and overwrite no input; one run at a time in a folder; digests;
CSV; disks."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import psutil

from judgebench.runtime.parsing import read_json
from judgebench.words.errors import UserError, escape_control

DIGESTS = "digests.json"
"""Digests of a folder's files: one small file, written last, that shows whether any other has
changed since, as in `{"sha256": {"metrics.json": "...", "attack/phrase.json": "..."}}`.

A folder without it is read unchecked: an earlier version of judgebench wrote it. So is a file that
it does not name.
"""

_FORMULA = (*"=+-@", *"＝＋－＠")
"""Signs that a spreadsheet takes for the beginning of a formula, also in full width and behind
white space."""

NETWORK = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "davfs",
        "sshfs",
        "9p",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "panfs",
        "pvfs2",
        "orangefs",
        "wekafs",
    )
)
"""Types of file systems over a network, as Linux names them; those of FUSE without their
`fuse.`."""


_PIECE = 2**24
"""Bytes of a file that a thread hashes at once."""

NO_STORE = "none"
"""The value of `store` that keeps no reading: what is read stays in memory until the run ends."""


def user_path(path: object) -> Path:
    """A path as a user writes it; a home that there is not stays as it is written."""
    return Path(os.path.expanduser(str(path)))


class Input(NamedTuple):
    """A file or folder that a command reads.

    Attributes:
        name: how the user names it, as "data.path=texts.jsonl".
        patterns: of a folder, which files below it are read; `fnmatch` compares them with the ends
            of their paths.
    """

    name: str
    path: Path
    patterns: Sequence[str] = ()


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")  # a drive of Windows has one letter


def check_outputs(outputs: Iterable[tuple[str, Path]], inputs: Iterable[Input]) -> None:
    """Refuses files that a command would write where writing would destroy an input, or become one;
    `UserError` names both. An output counts as an input for those behind it.

    Args:
        outputs: how the user names each, as "out=scores.jsonl", and the file.
    """
    sources = list(inputs)
    for name, path in outputs:
        if _ADDRESS.match(str(path)):
            raise UserError(
                f"{name}: results are written to a folder of this machine, or one that is mounted "
                "there; name one, and copy them afterwards."
            )
        if os.path.exists(path) and not os.path.isfile(path):
            kind = "a folder" if os.path.isdir(path) else "no regular file"
            raise UserError(f"{name}: this is {kind}; name a file.")
        place = Path(os.path.realpath(path))
        for source in sources:
            if _identity(path) == _identity(source.path):
                raise UserError(
                    f"{name}: it would overwrite {source.name}, which the same command uses; name "
                    "another place."
                )
            if _lies_in(place, source):
                raise UserError(
                    f"{name}: it lies in {source.name}, so that the next command would read it as "
                    "a part of that; name a place outside of it."
                )
        sources.append(Input(name, path))


def inode(path: str | Path) -> tuple[int, int] | None:
    """Device and inode of a file or folder; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # or a name that none can have
        return None
    return status.st_dev, status.st_ino


def _identity(path: Path) -> object:
    """The same; the resolved path of what does not exist."""
    place = os.path.realpath(path)
    return inode(place) or place


def _lies_in(place: Path, source: Input) -> bool:
    """True where a resolved path lies in the folder of an input and fits one of its patterns."""
    if not source.patterns or not os.path.isdir(source.path):
        return False
    for folder in place.parents:
        if _identity(folder) == _identity(source.path):
            inside = f"/{place.relative_to(folder).as_posix()}"
            return any(fnmatch(inside, f"*/{pattern}") for pattern in source.patterns)
    return False


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path next to `path`; its content becomes `path` when the block ends well.

    The temporary file lies in the same folder because a rename is atomic only within one file
    system. It is synced to the disk first, so that a power cut cannot leave the new name with old
    or empty content. If the block raises, the temporary file goes and `path` stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    # what is written goes through no link that somebody has put there
    temporary.unlink(missing_ok=True)
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


class Changed(ValueError):
    """A file has changed since it was written; the reason, as a clause."""


def write_digests(folder: Path, names: Iterable[str]) -> None:
    """Adds the digests of files (paths below the folder, with `/`) to those that a folder has
    already."""
    known = _known(folder) or {}
    digests = known | {name: sha256_of(folder / name) for name in names}
    with atomic(folder / DIGESTS) as temporary:
        temporary.write_text(
            json.dumps({"sha256": dict(sorted(digests.items()))}, indent=1) + "\n", encoding="utf-8"
        )


def check_digest(folder: Path, name: str) -> None:
    """Compares a file with its digest, if it has one.

    Args:
        name: the file's path below the folder, with `/`.

    Raises:
        Changed: they differ, or the digests cannot be read.
        OSError: the file cannot be read.
    """
    known = _known(folder)
    if known is not None and name in known and known[name] != sha256_of(folder / name):
        raise Changed(
            f"it has changed since the run wrote it, for its SHA-256 is not that in {DIGESTS}; if "
            f"the change was meant, remove {folder / DIGESTS}"
        )


def check_run_file(path: Path, key: str) -> None:
    """Compares a file in a run's folder, or one folder below, with its digest; `UserError` where
    they differ, or the digests cannot be read.

    Args:
        key: the config key that names the file, for the error.
    """
    whole = path.resolve()
    for folder in whole.parents[:2]:
        if (folder / DIGESTS).is_file():
            try:
                check_digest(folder, whole.relative_to(folder).as_posix())
            except Changed as error:
                raise UserError(
                    f"{key}: {path} cannot be read ({error}); restore the file or run again."
                ) from error
            except OSError:  # its reader says why it cannot be read
                return
            return


def _known(folder: Path) -> dict[str, str] | None:
    """Name -> SHA-256 of each file; None where the folder has no digests."""
    path = folder / DIGESTS
    if not path.is_file():
        return None
    try:
        digests: dict[str, str] = read_json(path, str(path), shape={"sha256": {str: str}})["sha256"]
        return digests
    except UserError as error:
        raise Changed(
            f"{path} is damaged; restore it, or remove it to read the folder unchecked"
        ) from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; awaited where it is under way, see
    `begin_sha256`."""
    begun = _under_way.pop(file_state(path), None)
    if begun is not None:
        return begun.result()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


FileState = tuple[str, int, int]
"""Path, size and time of change (ns) of a file: while they stay, its content is taken to stay."""

_under_way: dict[FileState, Future[str]] = {}


def file_state(path: Path) -> FileState:
    """The state of a file, by its path without links."""
    path = path.resolve()
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns


def begin_sha256(path: Path) -> None:
    """Begins to compute a large file's SHA-256 in a thread of its own, once; `sha256_of` gives it.
    The thread ends with the process."""
    state = file_state(path)
    if state not in _under_way:
        _under_way[state] = future = Future[str]()
        Thread(target=_compute_sha256, args=(path, future), daemon=True).start()


def _compute_sha256(path: Path, future: Future[str]) -> None:
    try:
        digest = hashlib.sha256()
        # each piece waits for Python's lock, which imports hold meanwhile: few large ones
        piece = memoryview(bytearray(_PIECE))
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(piece):
                digest.update(piece[:size])
        future.set_result(digest.hexdigest())
    # whatever it is, who waits for the digest has to know
    except BaseException as error:
        future.set_exception(error)


# a process that is forked has none of these threads, and would wait for ever
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_under_way.clear)


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV file's text; its cells are `csv_cell`s."""
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(csv_cell, columns))
        writer.writerows(map(csv_cell, row) for row in rows)
        return file.getvalue()


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula and no terminal for a command; numbers stay as
    they are.

    Example:
        >>> csv_cell("=HYPERLINK(1)"), csv_cell("-0.5"), csv_cell(-0.5), csv_cell("\\x1b[2J"), csv_cell("a - b")
        ("'=HYPERLINK(1)", '-0.5', -0.5, '\\\\x1b[2J', 'a - b')
    """
    if not isinstance(value, str):
        return value
    text = escape_control(value)
    with suppress(ValueError):
        float(value)
        if value == value.strip():
            return text
    start = value.lstrip()
    return (
        f"'{text}" if start.startswith(_FORMULA) or value.startswith(("\t", "\r", "\n")) else text
    )


def on_network(path: Path) -> bool:
    """True where a path, which need not exist, lies on a network file system; false where the
    system does not say."""
    real = path.resolve()
    disks = [
        disk for disk in psutil.disk_partitions(all=True) if real.is_relative_to(disk.mountpoint)
    ]
    # of two mounts at one place the later hides the earlier
    deepest = max(
        enumerate(disks),
        key=lambda disk: (len(Path(disk[1].mountpoint).parts), disk[0]),
        default=None,
    )
    return deepest is not None and deepest[1].fstype.removeprefix("fuse.") in NETWORK


try:
    import fcntl
# Windows, which refuses by itself to replace files that another process has open
except ImportError:
    fcntl = None  # type: ignore[assignment]

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A link in a folder of somebody else's may lead anywhere: nothing is written through one."""

LOCK = ".lock"
"""The file in the folder; it says who holds it, and goes when the holder is done."""


UNTIL_THE_END = ExitStack()
"""Holds locks until the work of a command is done, however that ends;
`judgebench.runtime.ending.ending` closes it."""


@contextmanager
def writing(place: object, remedy: str = "") -> Iterator[None]:
    """Makes a `UserError` of a file that cannot be written, with a remedy behind the reason."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{place} cannot be written ({reason}){remedy}.") from error


_MOST_GONE = 1000


class Held(Exception):
    """Another process holds the lock; its message says which."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; a folder that was made for it and stays empty is removed with its
    parents.

    The lock is the system's (flock), not the file's existence: a file that a killed run leaves
    behind blocks no other.

    Raises:
        Held: another process, or another part of this one, holds it.
        OSError: the folder cannot be made or written.
    """
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
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
            for parent in made:
                parent.rmdir()


def _acquired(path: Path) -> int:
    gone = 0  # times in a row that what was just made was not there
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_RDWR | _NO_LINK, 0o666)
        except (FileNotFoundError, FileExistsError) as error:
            # its holder was done, and removed the folder that it had made; or it is no folder, or
            # can be made nowhere, as in a working directory that is gone
            is_file = any(os.path.lexists(each) and not each.is_dir() for each in path.parents)
            gone += 1
            if gone > _MOST_GONE or (is_file and isinstance(error, FileExistsError)):
                raise
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise OSError(errno.ELOOP, f"its {path.name} is a symbolic link; remove it") from error
        try:
            opened = os.fstat(handle)
            if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1:
                raise OSError(errno.EINVAL, f"its {path.name} is no file of its own; remove it")
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(opened, path.stat()):
                    since = time.strftime("%Y-%m-%d %H:%M:%S")
                    content = (
                        f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode()
                    )
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, content, 0)
                    return handle
        except BlockingIOError as error:
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace") or "another process"
            os.close(handle)
            raise Held(escape_control(holder)) from error
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder was done, and removed it between our opening and our locking
