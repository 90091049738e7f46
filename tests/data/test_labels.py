"""Files of labels, joined to the texts that they are about."""

import hashlib
import json
from contextlib import suppress

import numpy as np
import pytest

from judgebench.data.jsonl import JsonLines
from judgebench.data.labels import content_digest, read_labels, row_checksum
from judgebench.types import Example
from judgebench.words.errors import UserError
from tests.conftest import write_rows

TEXTS = [
    {"example_id": f"t{i}", "group_id": f"g{i // 2}", "source": f"Article {i // 2}.", "output": f"Text {i}."}
    for i in range(6)
]


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """Files of labels, by name -> the data set with them."""
    monkeypatch.chdir(tmp_path)
    write_rows("texts.jsonl", TEXTS)

    def joined(texts=None, fields=None, scale=None, classes=None, **files):
        if texts is not None:
            write_rows("texts.jsonl", texts)
        for name, rows in files.items():
            if isinstance(rows, str):
                (tmp_path / f"{name}.csv").write_text(rows)
            else:
                write_rows(f"{name}.jsonl", rows)
        names = [f"{name}.csv" if isinstance(rows, str) else f"{name}.jsonl" for name, rows in files.items()]
        data = JsonLines(
            "texts.jsonl",
            fields={"source": "source", "output": "output", "human": "human"} | (fields or {}),
            labels=",".join(names),
            scale=scale,
            classes=classes,
        )
        data.setup()
        return data

    return joined


def label(name, value, rater="ann", **more):
    return {"example_id": name, "dimension": "quality", "label": value, "rater": rater, **more}


def human(data):
    return {example.example_id: example.human["quality"] for example in data.examples}


def kinds(data):
    return sorted((record["kind"], record["example_id"]) for record in data.joined)


def test_raters_of_several_files_are_averaged_and_differences_listed(joined):
    ann = [label("t0", "pass"), label("t1", "fail")]
    data = joined(ann=ann, ben=[label("t0", "pass", "ben"), label("t1", "pass", "ben"), label("t2", "fail", "ben")])
    scores = human(data)
    assert (scores["t0"], scores["t1"], scores["t2"]) == (1, 0.5, 0)
    assert scores["t3"] != scores["t3"]  # nobody rated it
    assert data.raters == ("ann", "ben")
    (conflict,) = data.joined
    assert conflict["labels"] == {"ann": "fail", "ben": "pass"}
    assert "joined to 3 texts: 1 on which raters differ" in data.note


def test_files_from_elsewhere_take_the_name_of_the_file_for_a_rater(joined):
    data = joined(cem="example_id,label\nt0,2\nt1,4\nt2,\n", dora="example_id,label\nt0,4\n")
    assert (human(data)["t0"], human(data)["t1"]) == (3, 4)
    assert data.raters == ("cem", "dora")


def test_labels_stand_beside_those_of_the_data_file(joined):
    texts = [{**TEXTS[0], "human": {"quality": {"dora": 1}}}, {**TEXTS[1], "human": None}, *TEXTS[2:]]
    data = joined(texts=texts, ann=[label("t0", 0), label("t1", 1)])
    assert (human(data)["t0"], human(data)["t1"]) == (0.5, 1)


def test_the_first_label_of_a_rater_counts_and_the_second_is_agreement_with_oneself(joined):
    rows = [
        label("t0", 5, repeat=1, time="3"),
        label("t0", 3, repeat=0, time="1"),
        label("t1", 4, repeat=0, time="2"),
        label("t1", 4, repeat=1, time="4"),
    ]
    data = joined(ann=rows, copy_of_ann=rows)
    assert (human(data)["t0"], human(data)["t1"]) == (3, 4)
    assert data.raters == ()
    assert "The same label again: ann 1 of 2." in data.note


@pytest.mark.parametrize("time", [None, "2026-01-01T10:00:00Z"])
def test_two_labels_of_one_rater_of_which_neither_is_newer_are_refused_in_any_order_of_files(joined, time):
    first, second = [label("t0", 5, "ann", time=time)], [label("t0", 2, "ann", time=time), label("t1", 3)]
    for files in ({"a": first, "b": second}, {"a": second, "b": first}):
        with pytest.raises(
            UserError, match=r"^b.jsonl line 1: rater 'ann' gives .* 't0', and at a.jsonl line 1 .*Leave"
        ):
            joined(**files)
    # the same label twice is one
    assert human(joined(a=first, b=[label("t0", 5, "ann", time=time, reason="so"), *second[1:]]))["t0"] == 5


def test_unclear_texts_are_unrated_and_not_0(joined):
    data = joined(ann=[label("t0", None, unclear=True), label("t1", 1), label("t2", 0), label("t3", "unclear")])
    assert human(data)["t0"] != human(data)["t0"]
    assert kinds(data) == [("unclear", "t0"), ("unclear", "t3")]


def test_changed_unknown_and_second_looks_are_listed_and_not_joined(joined):
    example = Example("t0", "g0", "", "Article 0.", " Text 0.\n", {})
    rows = [
        label("t0", 1, digest=content_digest(example)),
        label("t1", 1, digest="0" * 64),
        label("elsewhere", 1),
        label("t2", 0, second_look=True),
        label("t3", 0),
    ]
    data = joined(ann=rows)
    assert [name for name, score in human(data).items() if score == score] == ["t0", "t3"]
    assert kinds(data) == [("changed", "t1"), ("second_look", "t2"), ("unknown", "elsewhere")]


def test_pages_say_which_class_is_worst_and_how_texts_were_drawn(joined):
    rows = [label("t0", "b", choices=["a", "b"], probability=0.5), label("t1", "a", choices=["a", "b"], probability=1)]
    data = joined(ann=rows)
    assert data.classes["quality"].names == ("a", "b")
    assert "drawn with probabilities of 0.5 to 1, and count alike" in data.note
    rows = [label("t0", 2, scale=[1, 5], probability=0.5), label("t1", 3, scale=[1, 5], probability=0.5)]
    data = joined(ann=rows)
    assert data.scale["quality"] == (1, 5)
    assert "probabilities" not in data.note
    data = joined(ann=[label("t0", 6, scale=[6, 1]), label("t1", 2, scale=[6, 1])])
    assert (human(data)["t0"], human(data)["t1"], data.reversed) == (1, 5, ("quality",))


def test_a_label_outside_the_declared_scale_is_refused_with_its_line(joined):
    with pytest.raises(UserError, match=r"ben.jsonl line 2: the label 44 of 't1' lies outside the scale, 1 to 5"):
        joined(scale=[5, 1], ann=[label("t0", 5)], ben=[label("t0", 4, "ben"), label("t1", 44, "ben")])


TEN = [label("t0", 4, scale=[1, 10])]
FIVE = [label("t1", 4, "ben", scale=[1, 5])]
FALLING = [label("t1", 1, "ben", scale=[5, 1])]
RISING = [label("t0", "pass", choices=["fail", "pass"])]
TURNED = [label("t1", "fail", "ben", choices=["pass", "fail"])]


@pytest.mark.parametrize(("one", "other"), [(TEN, FIVE), (FIVE, FALLING), (RISING, TURNED), (TEN, TURNED)])
def test_labels_of_other_scales_and_classes_are_refused_whatever_the_order_of_files(joined, one, other):
    one = [{**row, "rater": "ann", "example_id": "t0"} for row in one]
    for files in ({"a": one, "b": other}, {"a": other, "b": one}):
        with pytest.raises(UserError, match=r"b.jsonl line 1: its label is on .*; a.jsonl line 1 has "):
            joined(**files)


def test_a_page_of_another_scale_than_the_datas_is_refused(joined):
    for ends in ([1, 10], [5, 1], [6, 1]):
        with pytest.raises(UserError, match=r"on the scale from 1 to 5, worst first; data.scale has the scale from"):
            joined(scale=ends, ben=FIVE)
    assert human(joined(scale=[1, 5], ben=FIVE))["t1"] == 4
    assert human(joined(scale=[5, 1], ben=FALLING))["t1"] == 5
    # classes that the user has put in order are joined by their names
    data = joined(classes=["fail", "pass"], a=RISING, b=TURNED)
    assert (human(data)["t0"], human(data)["t1"]) == (1, 0)


def test_of_a_raters_two_labels_the_newer_counts_whichever_file_comes_first(joined):
    old = [label("t0", "pass", time="2026-01-01T10:00:00.000Z", repeat=0)]
    new = [label("t0", "fail", time="2026-01-01T12:00:00.000+01:00", repeat=0)]
    newest = [label("t0", "pass", time="2026-01-01T11:30:00.000Z", repeat=1)]
    more = [label("t1", "pass", time="2026-01-01T10:00:00.000Z")]
    for files in ({"labels_ann": old + more, "labels_ann_1": new}, {"labels_ann": new, "labels_ann_1": old + more}):
        data = joined(**files)
        assert human(data)["t0"] == 0
        (record,) = data.joined
        assert (record["kind"], record["label"], record["newer"]) == ("older", "pass", "fail")
        assert "1 for which the rater gave a newer one" in data.note
    # a text that is shown again is no correction
    assert human(joined(a=newest, b=new, c=more))["t0"] == 0


def test_a_class_may_be_called_unclear_in_a_page_of_its_own(joined):
    rows = [label("t0", "unclear", unclear=False), label("t1", "clear", unclear=False), label("t2", None, unclear=True)]
    data = joined(classes=["unclear", "clear"], ann=rows)
    assert (human(data)["t0"], human(data)["t1"]) == (0, 1)
    assert [record["kind"] for record in data.joined] == ["unclear"]


def checked(row):
    return {**row, "check": row_checksum(row)}


@pytest.mark.parametrize("value", ["pass", 3, 0.25, 1e-7, 12345678.5, None, True])
def test_a_changed_line_is_refused_and_one_without_a_checksum_read(joined, tmp_path, value):
    rows = [label("t0", 1, probability=0.0000123, note=value, scale=[0, 1]), label("t1", 0, scale=[0, 1])]
    assert human(joined(ann=rows)) == pytest.approx(human(joined(ann=list(map(checked, rows)))), nan_ok=True)
    text = (tmp_path / "ann.jsonl").read_text()
    silent = 0
    for place in range(0, len(text) - 1):
        flipped = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        (tmp_path / "flipped.jsonl").write_text(flipped)
        try:
            labels = list(read_labels(tmp_path / "flipped.jsonl"))
        except UserError:
            continue
        same = [{name: each.row.values.get(name) for name in row} for each, row in zip(labels, rows, strict=False)]
        silent += same != rows
    assert silent == 0


@pytest.mark.parametrize("scale", [[], [1], ["a", "b"], {"a": 1}, [1, 1], [True, False], [[1], [2]], 3, [1, 2, 3]])
def test_a_scale_that_is_none_is_named(joined, scale):
    with pytest.raises(UserError, match=r"ann.jsonl line 1: field 'scale' must be the worst and the best label"):
        joined(ann=[label("t0", 1, scale=scale)])


ODD = [None, True, [], {}, [1], [1, 5], ["a", "b"], {"a": 1}, 0, -1, 1e308, 10**400, "", "x", "1", "unclear", "2026"]
ODD += [[[1], [2]], [None, None], "\u0000", "[1, 5]", [1, "a"], float("inf"), {"ann": {"ben": 1}}, [True, False]]


@pytest.mark.parametrize("seed", range(60))
def test_odd_labels_are_read_or_refused_in_a_sentence(joined, seed):
    """50 files a seed: a row or two of a page, of which some fields hold what they should not."""
    rng = np.random.default_rng(seed)
    row = label("t0", 1, digest=None, unclear=False, reason="so", time="2026-01-01T10:00:00Z", repeat=0)
    row |= {"probability": 0.5, "page": "p", "seed": 0, "scale": [1, 5], "choices": None, "second_look": False}
    for _ in range(50):
        rows = []
        for name in ("t0", "t1"):
            odd = {str(key): ODD[rng.integers(len(ODD))] for key in rng.choice(list(row), rng.integers(3))}
            rows.append({**row, "example_id": name, **odd})
            if rng.random() < 0.2:
                rows[-1]["check"] = row_checksum(rows[-1])
        with suppress(UserError):
            joined(ann=rows)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([label("elsewhere", 1)], "ann.jsonl rate no text of the data, for of 1 labels: 1 of unknown ids, not joined"),
        ([label("t0", 1, second_look=True)], "1 of a second look"),
        ([label("t0", 1, digest="0" * 64)], "1 of texts that have changed since"),
        ([label("t0", None, unclear=True)], "1 unclear"),
        ([], "for of 0 labels; give labels of these texts, whose example_id is as 't0'"),
        ([label("t0", None)], "for of 0 labels"),
        ([{"example_id": "t0", "lable": 1}], "ann.jsonl line 1: field 'label' is missing"),
        ([label("t0", 1, probability=0)], "ann.jsonl line 1: field 'probability' must be above 0 and at most 1"),
        ([{"label": 1}], "ann.jsonl line 1: field 'example_id' is missing"),
        ([label("gone", 1, reason="\ud800")], "ann.jsonl line 1: field 'reason' must be text of whole characters"),
        ([label("t0", {"ann": 1})], "ann.jsonl line 1: field 'label' must be one number or class"),
        (
            [label("t0", 4), label("t1", 44, scale=[1, 5])],
            "ann.jsonl line 2: the label 44 of 't1' lies outside the scale, 1",
        ),
        ([label("t0", 1, scale=[5])], "line 1: field 'scale' must be the worst and the best label"),
    ],
)
def test_mistakes_are_named(joined, rows, sentence):
    with pytest.raises(UserError) as caught:
        joined(ann=rows)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("given", [5, "", [""], [None], {"a": 1}])
def test_labels_must_name_files(given):
    with pytest.raises(UserError, match="labels must be "):
        JsonLines("texts.jsonl", fields={"source": "s", "output": "o", "human": "h"}, labels=given)


def test_a_digest_is_of_every_text_that_is_shown():
    example = Example("t", "g", "s", "source", "output", {}, context="context", question="question")
    texts = ["source", "context", "question", "output"]
    assert content_digest(example) == hashlib.sha256(json.dumps(texts).encode()).hexdigest()
