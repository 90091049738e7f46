"""What comes from outside is plain and within limits, or one sentence."""

import json
import math
import os
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from judgebench.runtime.parsing import Limits, parse_json, parse_yaml, read_json, read_text, read_yaml
from judgebench.runtime.shapes import check_shape
from judgebench.words.errors import UserError, shown

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGED = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n} {{{', '.join(f'k{j}: *a{n - 1}' for j in range(10))}}}\n" for n in range(1, 12)
)
LARGE = f"a: &a {'x' * 100_000}\n"
ALIASES = ", ".join(["*a"] * 10_000)

DEEP = "lists or objects are nested too deep"


def _told(kind, reason):
    return rf"not valid {kind} \(.*({reason}).*\)"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(value=PLAIN)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_json_is_read_as_the_standard_library_reads_it(value):
    assert parse_json(json.dumps(value), "a") == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode(), "a") == value


@given(value=PLAIN)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_yaml_is_read_as_it_was_written(value):
    text = yaml.safe_dump(value, allow_unicode=True)
    assert parse_yaml(text, "a") == yaml.safe_load(text)


def test_an_alias_stands_for_what_it_names():
    assert parse_yaml("a: &a [1, {b: c}]\nd: *a\ne: *a", "y") == {key: [1, {"b": "c"}] for key in "ade"}
    assert parse_yaml("a: &a {b: 1}\nc: {<<: *a}", "y") == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1e999}', "1e999 is no number, or too large"),
        ('{"a": 1' + "0" * 400 + "}", "int too large to convert to float"),
        ("1" * 5000, r"Exceeds the limit \(4300 digits\)"),
        ("[" * 100_000 + "]" * 100_000, DEEP),
        ("[" * 100_000, DEEP),
        ("[" * 101 + "]" * 101, DEEP),
        ('{"a": "x\\ud800"}', "surrogates not allowed"),
        ('{"\\udc00": 1}', "surrogates not allowed"),
        ('{"a": "\ud800"}', "surrogates not allowed"),
        ('{"a": NaN}', "NaN is no number"),
        ("-Infinity", "-Infinity is no number"),
        ("", "Expecting value"),
        (b'{"a": "\xff"}', "it is not UTF-8: byte 0xff at position 8"),
        ("[" + "1," * 300 + "1]", "more than 200 values"),
        ('"' + "a" * 20_000_000 + '"', "more than 10,000,000 bytes"),
    ],
)
def test_json_that_is_none_is_one_sentence(text, reason):
    few = Limits(size=10_000_000, nodes=200)
    with pytest.raises(UserError, match=rf"^x\.json: {_told('JSON', reason)}; mend it\.$"):
        parse_json(text, "x.json", limits=few, remedy="mend it")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [*a]", "for a list or mapping that it is in"),
        (BOMB, "aliases counted as what they stand for"),
        (MERGED, "more than 100,000 values, aliases counted as what they stand for"),
        (f"{LARGE}b: [{ALIASES}]", "more than 4,194,304 characters, aliases counted as what they stand for"),
        (f"{LARGE}b: {{{', '.join(f'k{n}: *a' for n in range(10_000))}}}", "more than 4,194,304 characters"),
        (f"{LARGE}b: &b [{', '.join(['*a'] * 30)}]\nc: [*b, *b]", "more than 4,194,304 characters"),
        (f"a: &a [{'9' * 2_000_000}]\nb: [{ALIASES}]", "more than 4,194,304 characters"),
        (f"{LARGE}b: &b {{k: *a}}\nc: [{', '.join(['{<<: *b}'] * 10_000)}]", "more than 4,194,304 characters"),
        ("[" * 50_000, DEEP),
        ("{a: " * 50_000, DEEP),
        ("- " * 5000, DEEP),
        ("? " * 3000, DEEP),
        ("a: 1" + "0" * 5000, "Exceeds the limit"),
        ("a: 0x" + "f" * 500, "too large"),
        ("a: .nan", "nan is no number"),
        ("a: 1.0e+999", "inf is no number"),
        ("a: 2026-01-01", "is a date; write it in quotation marks"),
        ("a: 9999-99-99", "month"),
        ("1: 2", "the key 1 is no text"),
        ("? [a]\n: b", "unhashable key"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("!!set {b}", "is a set"),
        ("!!int ''", "index out of range"),
        ("!!timestamp x", "groupdict"),
        ('a: "\\ud800"', "surrogates not allowed|invalid Unicode"),
        ("a: b: c", "mapping values are not allowed"),
        ("a\n---\nb", "single document"),
        ("\0", "unacceptable character"),
    ],
)
def test_yaml_that_is_none_is_one_sentence(text, reason):
    began = time.monotonic()
    with pytest.raises(UserError, match=rf"^card=x: {_told('YAML', reason)}\.$"):
        parse_yaml(text, "card=x")
    assert time.monotonic() - began < 10


def test_what_a_caller_checks_itself_may_pass():
    loose = Limits(loose=True)
    assert parse_json('"\\ud800"', "a", limits=loose) == "\ud800"
    assert math.isnan(parse_json("NaN", "a", limits=loose))
    assert math.isnan(parse_yaml(".nan", "a", limits=loose))
    assert parse_json('"\\ud83d\\ude00"', "a") == "\U0001f600"
    assert parse_json(b"\xef\xbb\xbf[]", "a") == []


def test_only_a_regular_file_is_read(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b" " * 101)
    (tmp_path / "latin").write_bytes(b"\xe9")
    for path, reason in {
        tmp_path: "Is a directory",
        tmp_path / "pipe": "it is no regular file",
        tmp_path / "none": "No such file or directory",
        tmp_path / "none\0": "embedded null byte",
        Path("/dev/zero"): "it is no regular file",
        tmp_path / "large": "it has more than 100 bytes",
    }.items():
        for read in (read_json, read_yaml):
            with pytest.raises(UserError, match=rf"^that file cannot be read \(.*{reason}.*\)\.$"):
                read(path, "that file", limits=Limits(size=100))
    with pytest.raises(UserError, match=r"it is not UTF-8: byte 0xe9 at position 1"):
        read_text(tmp_path / "latin", "that file")
    (tmp_path / "crlf").write_bytes(b"a\r\nb\r")
    assert read_text(tmp_path / "crlf", "that file") == "a\r\nb\r"


SHAPE = {"name": str, "size": float, "counts?": [(int, None)], "by": {str: {"on": bool}}, "any": object}
GOOD = {"name": "a", "size": 1, "counts": [1, None], "by": {"x": {"on": True}}, "any": [], "more": 1}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"name": None}, "name: None should be a valid string"),
        ({"size": True}, "size: True should be a valid number"),
        ({"size": "1"}, "size: '1' should be a valid number"),
        ({"counts": [1, 2.5]}, r"counts\[1\]: 2.5 should be a valid integer"),
        ({"by": {"x": {}}}, "by.x.on is not given"),
        ({"by": [1]}, r"by: \[1\] should be a valid mapping"),
        ({"by": {"x": {"on": 10**5000}}}, "by.x.on: a number of too many digits should be a valid boolean"),
    ],
)
def test_a_value_of_another_shape_is_told_with_its_place(change, fault):
    check_shape(GOOD, SHAPE, "a.json")
    with pytest.raises(UserError, match=f"^a.json: {fault}; mend it\\.$"):
        check_shape({**GOOD, **change}, SHAPE, "a.json", "mend it")
    with pytest.raises(UserError, match=r"^a.json: \[\] should be a valid mapping\.$"):
        parse_json("[]", "a.json", shape=SHAPE)


def test_any_value_is_shown_in_a_few_characters():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, "a" * 1000, list(range(1000)), {str(n): [n] * 100 for n in range(1000)}, 10**5000, "\ud800"):
        assert len(shown(value)) <= 60
