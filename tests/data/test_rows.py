"""Rows of files, and data sets of the hub."""

from __future__ import annotations

import json
from typing import Any

import pytest
from huggingface_hub import constants

from judgebench.data.benchmarks import SummEval
from judgebench.data.rows import FileRow, is_hub_id, is_parquet, json_array, json_lines, json_rows, parquet_rows
from judgebench.runtime.errors import UserError

ROW = FileRow(
    {"text": "word", "number": 2, "real": 0.5, "yes": True, "none": None, "list": [1, "a"], "object": {"k": 1}},
    "mine.jsonl line 3",
    3,
)


def test_lines_know_their_number_and_blank_ones_count_but_are_skipped(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"k": 1}\n\n  \r\n{"k": "\xe2\x80\xa8\xc3\xa9"}')
    assert [(row.values, row.place, row.position) for row in json_lines(path)] == [
        ({"k": 1}, "a.jsonl line 1", 1),
        ({"k": "\u2028é"}, "a.jsonl line 4", 4),
    ]


def test_a_list_and_lines_of_the_same_objects_give_the_same_rows(tmp_path):
    values = [{"k": i} for i in range(3)]
    (tmp_path / "a.json").write_text(" \n" + json.dumps(values, indent=2))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, values)))
    as_list, as_lines = json_rows(tmp_path / "a.json"), json_rows(tmp_path / "a.jsonl")
    assert [row.values for row in as_list] == [row.values for row in as_lines] == values


@pytest.mark.parametrize(
    ("content", "reader", "sentence"),
    [
        (b'{"k": 1}\n{"k": \n', json_lines, "f line 2: not valid JSON .*one whole JSON object"),
        (b'{"k": 1}\n[1]\n', json_lines, "f line 2: holds a list; each line must be one JSON object"),
        (b'{"k": 1}\n{"k": "\xe9"}\n', json_lines, "f line 2: not UTF-8 .byte 0xe9 at position 8.; save the file as"),
        (b'{"k": ' + b"1" * 5000 + b"}", json_lines, "f line 1: not valid JSON"),
        (b'[{"k": 1},\n{"k"}]', json_array, "f: not valid JSON .*line 2 column 5"),
        (b'[\n"\xe9"]', json_array, "f line 2: not UTF-8"),
        (b'{"k": 1}', json_array, "f: holds a dict; it must be one JSON list of objects"),
        (b'[{"k": 1}, 2]', json_array, "f entry 2: holds a int; each entry must be an object"),
        (b"PAR1 and no more", parquet_rows, "f: cannot be read as parquet .*give a whole parquet file"),
    ],
)
def test_a_broken_file_is_told_with_its_place(tmp_path, content, reader, sentence):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        list(reader(path))


@pytest.mark.parametrize("reader", [json_lines, json_array, json_rows])
def test_a_missing_file_and_a_folder_are_told(tmp_path, reader):
    with pytest.raises(UserError, match=r"nowhere: there is no such file; data.path must be an existing file"):
        list(reader(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"this is a folder; data.path must be a file"):
        list(reader(tmp_path))


def test_a_folder_without_parquet_is_told(tmp_path):
    assert is_parquet(tmp_path)
    with pytest.raises(UserError, match=r"no parquet file in this folder"):
        list(parquet_rows(tmp_path))


def test_getters_return_what_is_there():
    assert ROW.text("text") == ROW.identifier("text") == "word"
    assert ROW.identifier("number") == "2"
    assert (ROW.number("number"), ROW.number("real")) == (2.0, 0.5)
    assert ROW.inner("object").number("k") == 1.0
    assert (ROW.has("text"), ROW.has("none"), ROW.has("other")) == (True, False, False)
    assert FileRow({"l": ["a", "b"]}, "x", 1).texts("l") == ["a", "b"]
    assert [inner.number("k") for inner in FileRow({"l": [{"k": 1}, {"k": 2}]}, "x", 1).inners("l")] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("get", "sentence"),
    [
        (lambda r: r.text("none"), "field 'none' is missing or null; the fields here are 'text', "),
        (lambda r: r.text("other"), "field 'other' is missing or null"),
        (lambda r: r.text("number"), "field 'number' must be text, got 2"),
        (lambda r: r.number("text"), "field 'text' must be a number, got 'word'"),
        (lambda r: r.number("yes"), "field 'yes' must be a number, got True"),
        (lambda r: r.identifier("real"), "field 'real' must be a name or a whole number, got 0.5"),
        (lambda r: r.identifier("yes"), "field 'yes' must be a name or a whole number, got True"),
        (lambda r: r.inner("text"), "field 'text' must be an object, as in {...}, got 'word'"),
        (lambda r: r.texts("text"), "field 'text' must be a list with at least one entry, got 'word'"),
        (lambda r: r.numbers("list"), r"field 'list\[1\]' must be a number, got 'a'"),
        (lambda r: r.inners("list"), r"field 'list\[0\]' must be an object"),
        (lambda r: r.inner("object").text("k"), "field 'object': field 'k' must be text, got 1"),
    ],
)
def test_a_wrong_field_is_told_with_its_place(get, sentence):
    with pytest.raises(UserError, match=r"^mine.jsonl line 3.*" + sentence):
        get(ROW)


def test_values_that_cannot_be_stored_are_told():
    row = FileRow(json.loads('{"text": "a\\ud83d", "big": 1' + "0" * 400 + "}"), "f line 1", 1)
    with pytest.raises(UserError, match=r"f line 1: field 'text' holds half a character"):
        row.text("text")
    with pytest.raises(UserError, match=r"f line 1: field 'big' must be a number of ordinary size"):
        row.number("big")


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("content", "reader", "line"),
    [
        (b'{"k": 1}\n{"k": ' + DEEP + b"}", json_lines, 2),
        (b'[{"k": 1},\n{"t": "[[\\"", "k": ' + DEEP + b"},\n{}]", json_array, 2),
        (DEEP, json_rows, 1),
    ],
)
def test_nesting_too_deep_is_told_with_its_line(tmp_path, content, reader, line):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"^f line {line}: lists or objects are nested too deep to be read"):
        list(reader(path))


def test_a_wrong_field_that_is_nested_too_deep_to_be_shown_is_told():
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(UserError, match=r"f line 1: field 'k' must be text, got something nested deep"):
        FileRow({"k": value}, "f line 1", 1).text("k")


def test_a_sentence_about_half_a_character_can_be_printed(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"coherenc\\ud800e": 1}\n')
    (row,) = json_lines(tmp_path / "data.jsonl")
    with pytest.raises(UserError) as error:
        row.number("coherence")
    assert str(error.value).encode().count(b"\\ud800") == 1


@pytest.mark.parametrize("path", ["mteb/summeval", "lyon-nlp/summarization-summeval-fr-p2p", "a_b/c.d-e"])
def test_owner_and_name_are_a_hub_id(path):
    assert is_hub_id(path)


@pytest.mark.parametrize(
    "path",
    ["summeval", "summeval.jsonl", "data/summeval.jsonl", "a/b.parquet", "a/b/c", "/mteb/summeval", "../summeval",
     "./summeval", "~/summeval", "mteb\\summeval", "mteb/", "/x"],
)  # fmt: skip
def test_other_paths_are_local(path):
    assert not is_hub_id(path)


def test_a_path_in_an_existing_folder_is_local_even_if_mistyped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_hub_id("mteb/summeval")
    (tmp_path / "mteb").mkdir()
    assert not is_hub_id("mteb/summeval")


@pytest.mark.parametrize(("path", "name"), [("hub", "mteb/summeval"), ("some-owner/some-name",) * 2])
def test_an_unreachable_hub_is_told_in_a_sentence(tmp_path, monkeypatch, path, name):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError) as error:
        SummEval(path).setup()
    told = str(error.value)
    assert told.startswith(f"data.path: the data set '{name}' is not in the local cache and the Hugging Face hub")
    assert told.endswith("give it with data.path=FILE.parquet.")
