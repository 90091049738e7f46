"""Archives of Inspect's logs (.eval), read entry by entry.

An entry is inflated to the size that the archive says and no further, and counts only with its
checksum; so a small file that would fill the memory is refused, and a damaged one is not read.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from judgebench.runtime.errors import UserError, reason

_LARGE = 2**26
_RATIO = 200
"""Bytes of an entry, inflated, from which on it may be so many times as large as in the file."""

_LARGEST = 2**30
_ZSTD = 93
"""Bytes of an entry at most; the number of a method of compression that `zipfile` does not know."""

_END, _COUNTED = b"PK\5\6", 2**16 - 1
"""What the end of an archive begins with; the number of entries that it says of as many or more."""

_HEADER = struct.Struct("<4s22xHH")
"""An entry's own header: its signature, and the lengths of its name and of what follows that."""


def read_entries(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the entries that are `wanted`; of two of one name the last counts.

    Raises:
        UserError: no archive, a damaged one, or an entry that would be far larger than its file.
    """
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            _check_count(file, archive)
            entries = {entry.filename: entry for entry in archive.infolist()}
            for entry in entries.values():
                _begin(file, entry)
            for name, entry in entries.items():
                if wanted(name):
                    yield name, _content(path, file, entry)
    except UserError:
        raise
    # the archive's, its methods' and the system's own errors have no common base
    except Exception as error:
        raise UserError(
            f"{path.name}: this is no whole archive ({reason(error)}); give the log as Inspect "
            "wrote it."
        ) from error


def _check_count(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """Refuses an archive whose list of entries is not as long as its end says: one changed length
    in the list hides entries behind it, which `zipfile` does not notice."""
    held = len(archive.infolist())
    file.seek(archive.start_dir)
    _, found, end = file.read().rpartition(_END)
    (counted,) = struct.unpack_from("<H", end, 6)
    if not found or (counted, held)[counted == _COUNTED] != held:
        raise ValueError(f"{held} of its {counted} entries are in its list")


def _begin(file: BinaryIO, entry: zipfile.ZipInfo) -> None:
    """Moves to an entry's content; an entry has the name that the list at the end gives it."""
    file.seek(entry.header_offset)
    signature, length, extra = _HEADER.unpack(file.read(_HEADER.size))
    name = file.read(length).decode("utf-8", "replace")
    if signature != b"PK\3\4" or name != entry.orig_filename:
        raise ValueError(f"{entry.filename} is not where the list of entries says")
    file.seek(extra, 1)


def _content(path: Path, file: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    size = entry.file_size
    packed = size > _LARGE and size > _RATIO * entry.compress_size
    if packed or size > _LARGEST:
        raise UserError(
            f"{path.name}: {entry.filename} would be {size:,} bytes of {entry.compress_size:,}, "
            "which is more than is read; write the log again without what is not needed, as its "
            "events."
        )
    _begin(file, entry)
    raw = file.read(entry.compress_size)
    content = _inflated(raw, entry.compress_type, size + 1)
    if len(content) != size or zlib.crc32(content) != entry.CRC:
        raise ValueError(f"{entry.filename} has not its checksum")
    return content


def _inflated(raw: bytes, method: int, most: int) -> bytes:
    if method == _ZSTD:
        import pyarrow as pa

        with pa.input_stream(pa.py_buffer(raw), compression="zstd") as stream:
            return stream.read(most)
    if method == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, most)
    if method != zipfile.ZIP_STORED:
        raise ValueError(f"it is compressed by a method that is not known here, {method}")
    return raw[:most]
