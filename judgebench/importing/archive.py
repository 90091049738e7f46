"""Archives of Inspect's logs (.eval), read entry by entry.

An entry is inflated to the size that the archive says and no further, and counts only with its
checksum; so a small file that would fill the memory is refused, and a damaged one is not read.
"""

from __future__ import annotations

import copy
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from judgebench.words.errors import UserError, reason

_LARGE = 2**26
_RATIO = 200
"""Bytes of an entry, inflated, from which on it may be so many times as large as in the file."""

_LARGEST = 2**30
_ZSTD = 93
"""Bytes of an entry at most; the number of a method of compression that `zipfile` does not know."""

_END, _COUNTED = b"PK\5\6", 2**16 - 1
"""What the end of an archive begins with; the number of entries that it says of as many or more."""


def read_entries(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the entries; of two of one name the last counts.

    Raises:
        UserError: no archive, a damaged one, or an entry that would be far larger than its file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_count(path, archive)
            entries = {entry.filename: entry for entry in archive.infolist()}
            for entry in archive.infolist():
                name = entry.filename
                size = entry.file_size
                if size > _LARGEST or (size > _LARGE and size > _RATIO * entry.compress_size):
                    raise UserError(
                        f"{path.name}: {name} would be {size:,} bytes of {entry.compress_size:,}, "
                        "which is more than is read; write the log again without what is not "
                        "needed, as its events."
                    )
                # one that does not count is read too, for its name may have been another's
                content = _content(archive, entry)
                if entries[name] is entry:
                    yield name, content
    except UserError:
        raise
    # the archive's, its methods' and the system's own errors have no common base
    except Exception as error:
        raise UserError(
            f"{path.name}: this is no whole archive ({reason(error)}); give the log as Inspect "
            "wrote it."
        ) from error


def _check_count(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuses an archive whose list of entries is not as long as its end says: one changed length
    in the list hides entries behind it, which `zipfile` does not notice."""
    held = len(archive.infolist())
    with path.open("rb") as file:
        file.seek(archive.start_dir)
        _, found, end = file.read().rpartition(_END)
    (counted,) = struct.unpack_from("<H", end, 6)
    if not found or (counted, held)[counted == _COUNTED] != held:
        raise ValueError(f"{held} of its {counted} entries are in its list")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.compress_type != _ZSTD:
        return archive.read(entry)
    import pyarrow as pa

    # the bytes as they are stored, of which no checksum is known
    stored = copy.copy(entry)
    stored.compress_type = zipfile.ZIP_STORED
    stored.file_size = entry.compress_size
    del stored.CRC
    raw = pa.py_buffer(archive.read(stored))
    with pa.input_stream(raw, compression="zstd") as stream:
        content: bytes = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {entry.filename!r}")
    return content
