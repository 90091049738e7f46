"""Rows of files of any kind, and data sets of the hub."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants

from judgebench.data.benchmarks import SummEval
from judgebench.data.rows import (
    FileRow,
    data_files,
    file_rows,
    is_hub_id,
    is_parquet,
    json_array,
    json_lines,
    json_rows,
    names_within,
    parquet_rows,
    table_rows,
)
from judgebench.words.errors import UserError

ROW = FileRow(
    {"text": "word", "number": 2, "real": 0.5, "yes": True, "none": None, "list": [1, "a"], "object": {"k": 1},
     "half": "a\ud83d", "big": 10**400},
    "mine.jsonl line 3",
    3,
)  # fmt: skip
CELLS = {"text": 'A, "b"\nc', "score": "3"}


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_each_kind_of_file_gives_the_same_rows(tmp_path, kind):
    cells = {**CELLS, "text": CELLS["text"].replace("\n", " ")} if kind == "tsv" else CELLS
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([cells]), path)
    else:
        written = {
            "csv": 'text,score\r\n"A, ""b""\nc",3\r\n', "tsv": f"text\tscore\n{cells['text']}\t3\n",
            "json": json.dumps([cells], indent=1), "jsonl": json.dumps(cells),
        }  # fmt: skip
        path.write_bytes(b"\xef\xbb\xbf" + written[kind].encode())
    (read,) = file_rows(path)
    assert read.values == cells
    assert read.number("score") == 3
    assert read.place.startswith(f"rows.{kind} ")
    assert read.identifier("{folder}/{file}") == f"{tmp_path.name}/rows"


def test_lines_know_their_number_and_blank_ones_count_but_are_skipped(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"k": 1}\n\n  \r\n{"k": "\xe2\x80\xa8\xc3\xa9"}')
    rows = [(row.values, row.place, row.position) for row in json_lines(path)]
    assert rows == [({"k": 1}, "a.jsonl line 1", 1), ({"k": "\u2028é"}, "a.jsonl line 4", 4)]
    (tmp_path / "f.csv").write_text('a,b\n1,"x\ny"\n\n2,\n')
    table = list(table_rows(tmp_path / "f.csv"))
    assert [row.place for row in table] == ["f.csv line 3", "f.csv line 5"]
    assert not table[1].has("b"), "an empty cell is missing"


def test_rows_may_lie_inside_an_object(tmp_path):
    path = tmp_path / "f.json"
    path.write_text('{"of": {"rows": [{"k": 1}, [{"k": 2}, {"k": 3}]]}}')
    rows = [(row.number("k"), row.place) for row in file_rows(path, "of.rows")]
    assert rows == [(1, "f.json entry 1"), (2, "f.json entry 2"), (3, "f.json entry 2")]
    with pytest.raises(UserError, match=r"f.json, field 'rows': holds a NoneType; it must be one JSON list of objects"):
        list(file_rows(path, "rows"))


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("content", "reader", "sentence"),
    [
        (b'{"k": 1}\n{"k": \n', json_lines, "f line 2: not valid JSON .*one whole JSON object"),
        (b'{"k": 1}\n[1]\n', json_lines, "f line 2: holds a list; each line must be one JSON object"),
        (b'{"k": 1}\n{"k": "\xe9"}\n', json_lines, "f line 2: .*not UTF-8: byte 0xe9 at position 8"),
        (b'{"k": ' + b"1" * 5000 + b"}", json_lines, "f line 1: not valid JSON"),
        (
            b'{"k": 1}\n{"k": ' + DEEP + b"}",
            json_lines,
            "f line 2: not valid JSON \\(lists or objects are nested too deep\\)",
        ),
        (DEEP, json_rows, "f: not valid JSON \\(lists or objects are nested too deep\\)"),
        (b'[{"k": 1},\n{"k"}]', json_array, "f: not valid JSON .*line 2 column 5"),
        (b'[\n"\xe9"]', json_array, "f: .*not UTF-8: byte 0xe9"),
        (b'{"k": 1}', json_array, "f: holds a dict; it must be one JSON list of objects"),
        (b'[{"k": 1}, 2]', json_array, "f entry 2: holds a int; each entry must be one JSON object"),
        (b"PAR1 and no more", parquet_rows, "f: cannot be read as parquet .*give a whole parquet file"),
        (b"a,b\n1\n", table_rows, "f line 2: has 1 cells and the header 2; all lines need as many"),
        (b"a;b\n1;2\n3;4;5\n", table_rows, "f line 3: has 3 cells and the header 2"),
        (b"a,a\n1,2\n", table_rows, "f line 1: two columns are called 'a'"),
        (b'a,b\n1,"x\ny"\n2,"open\n3,c\n', table_rows, "f line 4: a quotation mark in the row that begins here"),
        (b'a,b\n1,"open\n2,"c"\n3,d\n', table_rows, r"f line 2: a quotation mark in the .*\(line 3: "),
        (b"a\n\xff\n", table_rows, "f cannot be read .*not UTF-8: byte 0xff at position 3.; save the file as UTF-8"),
    ],
)
def test_a_broken_file_is_named_with_its_place(tmp_path, content, reader, sentence):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{sentence}"):
        list(reader(path))


FAR = pa.array([2**60, 5]).view(pa.timestamp("us"))


@pytest.mark.parametrize(
    "column",
    [
        FAR,
        FAR.cast(pa.timestamp("us", "UTC")),
        pa.array([2**31 - 1, 5], pa.int32()).view(pa.date32()),
        pa.array([2**60, 5]).view(pa.duration("s")),
        pa.StructArray.from_arrays([FAR], ["when"]),
        pa.ListArray.from_arrays([0, 1, 2], FAR),
        pa.array([0, 1]).view(pa.timestamp("s", "Nowhere/Atlantis")),
    ],
    ids=lambda column: str(column.type),
)
def test_a_date_that_python_cannot_hold_harms_no_other_column(tmp_path, column):
    pq.write_table(pa.table({"text": ["a", "b"], "when": column}), tmp_path / "far.parquet")
    rows = list(parquet_rows(tmp_path / "far.parquet"))
    assert [row.text("text") for row in rows] == ["a", "b"]
    for wanted in (rows[0].text, rows[0].identifier, rows[0].number):
        with pytest.raises(UserError, match=r"far.parquet row 1: field 'when' must be .*out of range"):
            wanted("when")


def test_two_columns_of_one_name_are_refused_in_parquet_too(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], ["id", "text", "text"])
    pq.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(UserError, match=r"twice.parquet: two columns are called 'text'; give each a name of its own"):
        list(parquet_rows(tmp_path / "twice.parquet"))


def test_rows_without_names_are_called_by_their_files_paths_where_those_would_be_alike():
    files = [Path(name) for name in ("d/x/a.jsonl", "d/y/b.jsonl")]
    assert names_within(files) == ["x/a/", "y/b/"]
    assert names_within(files[:1]) == [""]
    alike = [Path(name) for name in ("d/x/p/a.jsonl", "d/y/p/a.jsonl", "d/y/p/a.csv")]
    assert names_within(alike) == ["x/p/a.jsonl/", "y/p/a.jsonl/", "y/p/a.csv/"]
    assert names_within(alike[:2], Path("d")) == ["x/p/a/", "y/p/a/"]
    assert names_within(alike[1:], Path("d")) == ["a.jsonl/", "a.csv/"]


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for reader in (json_lines, json_array, json_rows, table_rows, data_files):
        with pytest.raises(UserError, match=r"nowhere: there is no such file; data.path must be an existing file"):
            list(reader(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"this is a folder; data.path must be a file"):
        list(json_lines(tmp_path))
    assert is_parquet(tmp_path)
    with pytest.raises(UserError, match=r"no parquet file in this folder"):
        list(parquet_rows(tmp_path))


def test_a_folder_gives_its_data_files_by_name(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/x.csv", "a.json", "notes.txt", "z.tsv"):
        (tmp_path / name).touch()
    assert [file.relative_to(tmp_path).as_posix() for file in data_files(tmp_path)] == ["a.json", "b/x.csv", "z.tsv"]


def test_getters_return_what_is_there():
    assert ROW.text("text") == ROW.identifier("text") == "word"
    assert ROW.identifier("number") == "2"
    assert (ROW.number("number"), ROW.number("real")) == (2.0, 0.5)
    assert ROW.inner("object").number("k") == ROW.number("object.k") == 1.0
    assert (ROW.has("text"), ROW.has("none"), ROW.has("other")) == (True, False, False)
    assert [inner.number("k") for inner in FileRow({"l": [{"k": 1}, {"k": 2}]}, "x", 1).inners("l")] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("get", "sentence"),
    [
        (lambda r: r.text("none"), "field 'none' is missing or null; the fields here are 'text', "),
        (lambda r: r.text("other"), "field 'other' is missing or null"),
        (lambda r: r.text("number"), "field 'number' must be text, got 2"),
        (lambda r: r.text("half"), r"field 'half' must be text of whole characters, got '\\ud83d'"),
        (lambda r: r.number("text"), "field 'text' must be a number, got 'word'"),
        (lambda r: r.number("yes"), "field 'yes' must be a number, got True"),
        (lambda r: r.number("big"), "field 'big' must be a number, got a number of too many digits"),
        (lambda r: r.identifier("real"), "field 'real' must be a name or a whole number, got 0.5"),
        (lambda r: r.identifier("yes"), "field 'yes' must be a name or a whole number, got True"),
        (lambda r: r.inner("text"), "field 'text' must be an object, as in {...}, got 'word'"),
        (lambda r: r.inners("text"), "field 'text' must be a list with at least one entry, got 'word'"),
        (lambda r: r.scores("list"), r"field 'list\[1\]' must be a number, got 'a'"),
        (lambda r: r.inners("list"), r"field 'list\[0\]' must be an object"),
        (lambda r: r.inner("object").text("k"), "field 'object': field 'k' must be text, got 1"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(get, sentence):
    with pytest.raises(UserError, match=r"^mine.jsonl line 3.*" + sentence) as error:
        get(ROW)
    assert str(error.value).encode(), "it can be printed"


@pytest.mark.parametrize("path", ["mteb/summeval", "lyon-nlp/summarization-summeval-fr-p2p", "a_b/c.d-e"])
def test_owner_and_name_are_a_hub_id_unless_there_is_such_a_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_hub_id(path)
    (tmp_path / path.split("/")[0]).mkdir()
    assert not is_hub_id(path)


@pytest.mark.parametrize(
    "path",
    ["summeval", "summeval.jsonl", "data/summeval.jsonl", "a/b.parquet", "a/b/c", "/mteb/summeval", "../summeval",
     "./summeval", "~/summeval", "mteb\\summeval", "mteb/", "/x"],
)  # fmt: skip
def test_other_paths_are_local(path):
    assert not is_hub_id(path)


@pytest.mark.parametrize(("path", "name"), [("hub", "mteb/summeval"), ("some-owner/some-name",) * 2])
def test_an_unreachable_hub_is_a_sentence(tmp_path, monkeypatch, path, name):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError) as error:
        SummEval(path, layouts=[{"fields": {"source": "text", "output": "decoded", "human": "scores"}}]).setup()
    sentence = str(error.value)
    assert sentence.startswith(f"data.path: the data set '{name}' is not in the local cache and the Hugging Face hub")
    assert sentence.endswith("give it with data.path=FILE.parquet.")


def test_a_table_with_semicolons_is_read_as_excel_writes_it_in_many_countries(tmp_path):
    file = tmp_path / "grades.csv"
    file.write_text('\ufeffFrage;Antwort;Note\n"A; b?";Ja, gut.;4\n')
    assert [dict(row.values) for row in table_rows(file)] == [{"Frage": "A; b?", "Antwort": "Ja, gut.", "Note": "4"}]


@pytest.mark.parametrize(("name", "sign"), [("t.csv", ";"), ("t.tsv", "\t")])
def test_a_column_of_numbers_with_decimal_commas_gets_points(tmp_path, name, sign):
    path = tmp_path / name
    lines = ["text,more;grade;word;mean", "Eins, zwei;3,5;1,5;", "3,5;4;N/A;-2,25", ";;2;1"]
    path.write_text("\n".join(lines).replace("text,more", "text").replace(";", sign), encoding="utf-8")
    rows = list(table_rows(path))
    assert [row.value("grade") for row in rows] == ["3.5", "4", None]
    assert [row.value("mean") for row in rows] == [None, "-2.25", "1"]
    assert [row.value("text") for row in rows] == ["Eins, zwei", "3,5", None]
    assert [row.value("word") for row in rows] == ["1,5", "N/A", "2"]
    assert [row.position for row in rows] == [2, 3, 4]
    assert (rows[0].number("grade"), rows[0].text("grade")) == (3.5, "3,5")  # a text stays as it is
    with pytest.raises(UserError, match=r"line 2: field 'word' must be a number with a decimal point .*, got '1,5'"):
        rows[0].scores("word", words=True)


def test_a_path_may_count_from_the_end_of_a_list():
    row = FileRow({"messages": [{"content": "Why?"}, {"content": "So."}]}, "chat.jsonl line 1", 1)
    assert (row.text("messages.-1.content"), row.text("messages.-2.content")) == ("So.", "Why?")
    assert not row.has("messages.-3.content")
