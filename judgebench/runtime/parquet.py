"""Parquet files in which no changed bit goes unnoticed: a checksum of each page, and digests of
what they hold.

The digests stand in the file's own metadata: one of each column's values, one of the other
metadata. They depend on the values alone, not on the version of pyarrow or on how a table is cut
into pieces. A file without them, of another program or an earlier version, is read unchecked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from judgebench.runtime.parsing import check_columns
from judgebench.types import Record

DIGESTS = b"judgebench.digests"
"""Name of the metadata that holds the digests: {name of a column: digest, "": digest of the other
metadata}."""


class Damaged(ValueError):
    """A file does not hold what was written."""


def write_table(path: Path, table: pa.Table, **options: Any) -> None:
    """Writes a file, compressed by zstd; `options` are those of `pyarrow.parquet.write_table`."""
    notes = dict(table.schema.metadata or {})
    digests = {name: _digest(table[name]) for name in table.column_names} | {"": _digest_of(notes)}
    table = table.replace_schema_metadata({**notes, DIGESTS: json.dumps(digests)})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True, **options)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The table, or some of its columns.

    Raises:
        Damaged: it is not what was written.
        pa.ArrowException, OSError: it cannot be read.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        schema, digests = _checked(file.schema_arrow)
        table = file.read(
            columns=None if columns is None else list(columns)
        ).replace_schema_metadata(schema.metadata)
    if digests is not None:
        if columns is None and table.column_names != list(digests):
            raise Damaged("its columns are not those that were written")
        for name in table.column_names:
            if _digest(table[name]) != digests.get(name):
                raise Damaged(f"column {name!r} does not hold what was written")
    return table


def read_schema(path: Path) -> pa.Schema:
    """The file's schema and metadata; raises as `read_table` does."""
    with pq.ParquetFile(path) as file:
        return _checked(file.schema_arrow)[0]


def read_rows(path: Path) -> Iterator[Record]:
    """The rows of anybody's file; one that is not ours, and may be large, is read in pieces.
    Decimals are given as floats. Raises as `read_table`, and `Damaged` where a column would be far
    larger in memory than it is in the file."""
    with pq.ParquetFile(path) as file:
        check_columns(file.schema_arrow.names, path.name)
        ours = DIGESTS in (file.schema_arrow.metadata or {})
    for batch in read_table(path).to_batches(1024) if ours else _batches(path):
        columns = [_cells_of(column) for column in batch.columns]
        yield from (
            dict(zip(batch.schema.names, values, strict=True))
            for values in zip(*columns, strict=True)
        )


_ROWS = 1024
_AT_ONCE = 2**26
"""Rows that are read at once, at most; and bytes that they may take, if each held the largest text
that a column can have. A single row may take more."""

_LARGE = 2**26
_LARGEST = 2**33
_RATIO = 200
"""Bytes of a column in a group of rows, and of all rows, from which on they may be so many times as
many as in the file."""


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a file in pieces that are small in memory, too: a text that stands once in the
    file for several rows stands once in a piece, or, where that cannot be, the piece has few rows.
    """
    rows = _ROWS
    texts = set[str]()
    packed = set[str]()
    with pq.ParquetFile(path) as file:
        notes = file.metadata
    for group in map(notes.row_group, range(notes.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name = column.path_in_schema
            unpacked = column.total_uncompressed_size
            if unpacked > _LARGE and unpacked > _RATIO * max(1, column.total_compressed_size):
                raise Damaged(
                    f"column {name!r} would be {unpacked:,} bytes of "
                    f"{column.total_compressed_size:,}"
                )
            if column.physical_type == "BYTE_ARRAY":
                texts.add(name)
            if "DELTA_BYTE_ARRAY" in column.encodings or "." in name:
                packed.add(name)
                rows = min(rows, max(1, _AT_ONCE // max(1, unpacked)))
    shared = [*(texts - packed)]
    with pq.ParquetFile(path, read_dictionary=shared, page_checksum_verification=True) as file:
        total = 0
        for batch in file.iter_batches(batch_size=rows):
            for column in map(batch.column, shared):
                if pa.types.is_dictionary(column.type):
                    lengths = pc.binary_length(column.dictionary)
                    total += pc.sum(lengths.take(column.indices)).as_py() or 0
            if total > _LARGEST and total > _RATIO * path.stat().st_size:
                raise Damaged(f"its rows would be more than {_LARGEST:,} bytes")
            yield batch


def _cells_of(column: pa.Array) -> list[Any]:
    """A column's values as Python has them; a text that rows share is one."""
    if pa.types.is_dictionary(column.type):
        texts = _cells_of(column.dictionary)
        return [None if i is None else texts[i] for i in column.indices.to_pylist()]
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    try:
        values: list[Any] = column.to_pylist()
    except (ArithmeticError, LookupError, ValueError):
        values = [*map(_value, column)]
    return values


def _value(scalar: pa.Scalar) -> Any:
    """A cell as Python has it; bytes, which no field takes, where it has no such value, as a date
    in the year 40000."""
    try:
        return scalar.as_py()
    except (ArithmeticError, LookupError, ValueError):
        return f"{scalar.type} out of range".encode()


def join_tables(path: Path, parts: Sequence[Path]) -> None:
    """Writes one file of several of the same columns, each of them checked; one column at a time is
    in memory."""
    schema = read_schema(parts[0]).with_metadata(None)
    digests = {}
    for name in schema.names:
        chunks = [chunk for part in parts for chunk in read_table(part, [name])[name].chunks]
        digests[name] = _digest(pa.chunked_array(chunks, schema.field(name).type))
    notes = {DIGESTS: json.dumps(digests | {"": _digest_of({})})}
    with pq.ParquetWriter(
        path, schema.with_metadata(notes), compression="zstd", write_page_checksum=True
    ) as writer:
        for part in parts:
            writer.write_table(read_table(part).replace_schema_metadata(notes))


def _checked(schema: pa.Schema) -> tuple[pa.Schema, Any]:
    """The schema without the digests, and the digests, of which that of the metadata is compared;
    None without any."""
    notes = dict(schema.metadata or {})
    if DIGESTS not in notes:
        return schema, None
    digests = json.loads(notes.pop(DIGESTS))
    if _digest_of(notes) != digests.pop("", None):
        raise Damaged("its metadata is not what was written")
    return schema.with_metadata(notes or None), digests


def _digest_of(notes: Mapping[bytes, bytes]) -> str:
    return hashlib.blake2b(repr(sorted(notes.items())).encode(), digest_size=16).hexdigest()


def _digest(column: pa.ChunkedArray) -> str:
    """Digest of a column's values: which are missing, and kind, lengths and bytes of the others,
    list by list. Texts are not copied: a column of them may be most of a run's memory."""
    digest = hashlib.blake2b(digest_size=16)
    todo = [(column.type, column.chunks)]
    while todo:
        kind, chunks = todo.pop()
        valid = _joined([chunk.is_valid() for chunk in chunks], bool)
        digest.update(len(valid).to_bytes(8))
        digest.update(np.packbits(valid).tobytes())
        chunks = [chunk.drop_null() for chunk in chunks]
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if pa.types.is_list(kind):
            lengths = _joined([chunk.value_lengths() for chunk in chunks], np.int64)
            digest.update(b"list" + lengths.tobytes())
            todo.append((kind.value_type, [chunk.flatten() for chunk in chunks]))
        elif is_text or pa.types.is_binary(kind):
            texts = [chunk.cast(pa.large_binary()) for chunk in chunks]
            lengths = _joined([pc.binary_length(chunk) for chunk in texts], np.int64)
            digest.update((b"text" if is_text else b"bytes") + lengths.tobytes())
            for chunk in texts:
                _, offsets, content = chunk.buffers()
                ends = np.frombuffer(offsets, np.int64)[chunk.offset :][: len(chunk) + 1]
                if len(chunk) and content is not None:
                    digest.update(memoryview(content)[ends[0] : ends[-1]])
        else:
            values = pa.chunked_array(chunks, kind).combine_chunks()
            numbers = values.to_numpy(zero_copy_only=False)
            digest.update(str(kind).encode())
            digest.update(
                numbers.tobytes() if numbers.dtype != object else repr(values.to_pylist()).encode()
            )
    return digest.hexdigest()


def _joined(parts: Sequence[pa.Array], kind: Any) -> np.ndarray:
    """One array of the values of several, none of which is missing."""
    arrays = [part.to_numpy(zero_copy_only=False).astype(kind) for part in parts]
    return np.concatenate(arrays) if arrays else np.zeros(0, kind)
