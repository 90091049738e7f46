"""Files of any kind: tables, parquet, JSON inside an object, and folders of them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from judgebench.data.rows import data_files, file_rows, table_rows
from judgebench.runtime.errors import UserError

ROW = {"text": 'A, "b"\nc', "score": "3"}


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_each_kind_of_file_gives_the_same_rows(tmp_path, kind):
    row = {**ROW, "text": ROW["text"].replace("\n", " ")} if kind == "tsv" else ROW
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([row]), path)
    else:
        written = {
            "csv": 'text,score\r\n"A, ""b""\nc",3\r\n', "tsv": f"text\tscore\n{row['text']}\t3\n",
            "json": json.dumps([row]), "jsonl": json.dumps(row),
        }  # fmt: skip
        path.write_bytes(b"\xef\xbb\xbf" * (kind != "json") + written[kind].encode())
    (read,) = file_rows(path)
    assert read.values == row
    assert read.number("score") == 3
    assert read.place.startswith(f"rows.{kind} ")
    assert read.identifier("{folder}/{file}") == f"{tmp_path.name}/rows"


def test_rows_may_lie_inside_an_object(tmp_path):
    path = tmp_path / "f.json"
    path.write_text('{"of": {"rows": [{"k": 1}, [{"k": 2}, {"k": 3}]]}}')
    assert [(row.number("k"), row.place) for row in file_rows(path, "of.rows")] == [
        (1, "f.json entry 1"), (2, "f.json entry 2"), (3, "f.json entry 2")
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"f.json, field 'rows': holds a NoneType; it must be one JSON list of objects"):
        list(file_rows(path, "rows"))


def test_an_empty_cell_is_missing_and_places_are_lines(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text('a,b\n1,"x\ny"\n\n2,\n')
    rows = list(table_rows(path))
    assert [row.place for row in rows] == ["f.csv line 3", "f.csv line 5"]
    assert not rows[1].has("b")


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"a,b\n1\n", "f.csv line 2: has 1 cells and the header 2; all lines need as many"),
        (b"a,a\n1,2\n", "f.csv line 1: two columns are called 'a'"),
        (b"a\n\xff\n", "f.csv line 2: not UTF-8"),
        (b'a\n"x\0"\n1\r2\n', "f.csv line 3: no line of a table"),
    ],
)
def test_what_is_no_table_is_told(tmp_path, raw, sentence):
    (tmp_path / "f.csv").write_bytes(raw)
    with pytest.raises(UserError, match=sentence):
        list(table_rows(tmp_path / "f.csv"))


def test_a_folder_gives_its_data_files_by_name(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/x.csv", "a.json", "notes.txt", "z.tsv"):
        (tmp_path / name).touch()
    assert [file.relative_to(tmp_path).as_posix() for file in data_files(tmp_path)] == ["a.json", "b/x.csv", "z.tsv"]
    with pytest.raises(UserError, match=r"there is no such file"):
        data_files(tmp_path / "c.csv")
