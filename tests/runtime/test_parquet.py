"""Parquet files of our own: what is read is what was written, or the file is refused."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from judgebench.data.rows import parquet_rows
from judgebench.runtime.parquet import DIGESTS, Damaged, read_rows, read_schema, read_table, write_table
from judgebench.words.errors import UserError

TABLE = pa.table(
    {
        "text": ["a", None, "", "Ünïcode"],
        "scores": pa.array([[0.5, None], [], None, [-np.inf]], pa.list_(pa.float32())),
        "labels": pa.array([["x"], None, ["", "y"], []], pa.list_(pa.string())),
        "number": pa.array([1.5, float("nan"), None, -0.0]),
        "digest": pa.array([b"1" * 8, b"2" * 8, None, b"4" * 8], pa.binary(8)),
        "yes": [True, None, False, True],
        "what": pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}]),
    }
).replace_schema_metadata({"note": "of the run"})


def test_what_is_written_is_read_whole_in_columns_and_in_pieces(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, TABLE)
    assert repr(read_table(path).to_pydict()) == repr(TABLE.to_pydict())
    assert read_table(path).schema.metadata == read_schema(path).metadata == {b"note": b"of the run"}
    assert read_table(path, ["yes", "text"]).to_pydict() == TABLE.select(["yes", "text"]).to_pydict()
    assert next(iter(read_rows(path)))["text"] == "a"
    # digests are of values: pieces and other encodings of a table give the same
    pieces = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])
    write_table(tmp_path / "pieces.parquet", pieces, use_dictionary=False)
    assert pq.read_schema(path).metadata[DIGESTS] == pq.read_schema(tmp_path / "pieces.parquet").metadata[DIGESTS]


@pytest.mark.parametrize("flips", [300, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_no_flipped_bit_gives_other_values(tmp_path, flips):
    path, chance, refused = tmp_path / "t.parquet", random.Random(flips), 0
    write_table(path, TABLE)
    whole = bytearray(path.read_bytes())
    for _ in range(flips):
        data, at = whole.copy(), chance.randrange(len(whole) * 8)
        data[at // 8] ^= 1 << at % 8
        path.write_bytes(data)
        try:
            assert repr(read_table(path).to_pydict()) == repr(TABLE.to_pydict())
            # a flip may hide all metadata, and the digests with it: the values are as they were
            assert (read_schema(path).metadata or {}).get(b"note") in (None, b"of the run")
        except (Damaged, pa.ArrowException, OSError, ValueError):
            refused += 1
    assert refused > flips / 5


def test_a_column_that_was_exchanged_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, TABLE)
    metadata = pq.read_schema(path).metadata
    pq.write_table(TABLE.set_column(0, "text", [["a", None, "", "b"]]).replace_schema_metadata(metadata), path)
    with pytest.raises(Damaged, match="column 'text' does not hold what was written"):
        read_table(path)
    with pytest.raises(UserError, match=r"t.parquet: cannot be read as parquet \(column 'text' does not hold"):
        list(parquet_rows(path))
    assert read_table(path, ["yes"]).to_pydict() == {"yes": TABLE["yes"].to_pylist()}
    pq.write_table(TABLE.drop_columns("text").replace_schema_metadata(metadata), path)
    with pytest.raises(Damaged, match="its columns are not those"):
        read_table(path)
    pq.write_table(TABLE.replace_schema_metadata({**metadata, b"note": b"other"}), path)
    with pytest.raises(Damaged, match="its metadata is not what was written"):
        read_schema(path)


def test_a_file_without_digests_is_read_as_it_is(tmp_path):
    pq.write_table(TABLE, tmp_path / "old.parquet")
    assert repr(read_table(tmp_path / "old.parquet").to_pydict()) == repr(TABLE.to_pydict())
