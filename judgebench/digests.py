"""Digests of a folder's files: one small file, written last, that shows whether any other has changed since.

A folder without it is read unchecked: an earlier version of judgebench wrote it. So is a file that it does not name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from judgebench.atomic import atomic
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_json

NAME = "digests.json"
"""`{"sha256": {"metrics.json": "...", "attack/phrase.json": "..."}}`"""


class Changed(ValueError):
    """A file that is not what was written; the reason, as a clause."""


def write_digests(folder: Path, names: Iterable[str]) -> None:
    """Writes the digests of files of a folder beside those that it has already.

    Args:
        names: paths below the folder, with `/`.
    """
    known = _known(folder) or {}
    digests = known | {name: _sha256(folder / name) for name in names}
    with atomic(folder / NAME) as temporary:
        temporary.write_text(json.dumps({"sha256": dict(sorted(digests.items()))}, indent=1) + "\n", encoding="utf-8")


def check_digest(folder: Path, name: str) -> None:
    """Compares a file with its digest, where there is one.

    Args:
        name: the file's path below the folder, with `/`.

    Raises:
        Changed: they differ, or the digests cannot be read.
        OSError: the file cannot be read.
    """
    known = _known(folder)
    if known is not None and name in known and known[name] != _sha256(folder / name):
        raise Changed(
            f"it has changed since the run wrote it, for its SHA-256 is not that in {NAME}; if the change was meant, "
            f"remove {folder / NAME}"
        )


def check_run_file(path: Path, key: str) -> None:
    """Compares a file with its digest, where it lies in a run's folder or one folder below.

    Args:
        key: the config key that names it, for the error.

    Raises:
        UserError: they differ, or the digests cannot be read.
    """
    whole = path.resolve()
    for folder in whole.parents[:2]:
        if (folder / NAME).is_file():
            try:
                check_digest(folder, whole.relative_to(folder).as_posix())
            except Changed as error:
                raise UserError(f"{key}: {path} cannot be read ({error}); restore the file or run again.") from error
            except OSError:  # whoever reads it tells why it cannot be read
                return
            return


def _known(folder: Path) -> dict[str, str] | None:
    """Name -> SHA-256 of each file; None where the folder has no digests."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        digests: dict[str, str] = read_json(path, str(path), shape={"sha256": {str: str}})["sha256"]
        return digests
    except UserError as error:
        raise Changed(f"{path} is damaged; restore it, or remove it to read the folder unchecked") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
