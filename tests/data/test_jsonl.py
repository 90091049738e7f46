"""Your own rated texts: names of fields, raters, scales, and every mistake with its place."""

from dataclasses import replace

import numpy as np
import pytest

from judgebench.data.dataset import group_hash
from judgebench.data.jsonl import JsonLines
from judgebench.types import Classes
from judgebench.words.errors import UserError

FIELDS = {"source": "article", "output": "summary", "human": "scores"}
NAN = np.nan


def my_rows():
    return [
        {"article": f"Article {a}.", "summary": f"Sum {a} {s}.", "scores": {"clarity": 1 + s, "tone": 2.5},
         "clar": 1 + s, "no": 2 * a + s, "art": f"a{a}", "bot": f"bot{s}", "fact": f"Fact {a}."}
        for a in range(3) for s in range(2)
    ]  # fmt: skip


def ready(path, fields=None, **arguments):
    data = JsonLines(path, FIELDS if fields is None else fields, **arguments)
    data.setup()
    return data


def human(data, dimension):
    return [None if np.isnan(example.human[dimension]) else example.human[dimension] for example in data.examples]


def test_the_defaults_name_what_the_rows_do_not(write_jsonl):
    data = ready(write_jsonl(my_rows()))
    assert data.name == "mine"
    assert [e.example_id for e in data.examples] == [f"line-{i}" for i in range(1, 7)]
    assert [e.group_id for e in data.examples] == [group_hash(f"Article {i // 2}.", "") for i in range(6)]
    assert {(e.system_id, e.context) for e in data.examples} == {("system", "")}
    assert data.examples[1].human == {"clarity": 2.0, "tone": 2.5}
    assert data.scale == {"clarity": (1.0, 2.0)}  # of tone all scores are one
    assert (
        data.note
        == "The humans' scale is taken from their scores: 1 to 2 (clarity); data.scale=[WORST,BEST] gives another, "
        "as [6,1] where 1 is the best."
    )


def test_columns_of_the_examples_own_names_are_taken_by_themselves_and_every_field_can_be_named(write_jsonl):
    rows = [row | {"group_id": f"g{i // 2}", "system_id": f"s{i % 2}"} for i, row in enumerate(my_rows())]
    names = [(e.group_id, e.system_id) for e in ready(write_jsonl(rows)).examples]
    assert names == [(f"g{i // 2}", f"s{i % 2}") for i in range(6)]
    unnamed = ready(write_jsonl([rows[0] | {"group_id": None, "system_id": None}, *rows[2:]])).examples
    assert (unnamed[0].group_id, unnamed[0].system_id) == (group_hash("Article 0.", ""), "system")
    fields = {**FIELDS, "human": {"clearness": "clar"}, "example_id": "no", "group_id": "art", "system_id": "bot"}
    data = ready(write_jsonl(rows), fields | {"context": "fact"}, scale={"clearness": [1, 5]}, name="ours")
    example = data.examples[3]
    assert (example.example_id, example.group_id, example.system_id, example.context) == ("3", "a1", "bot1", "Fact 1.")
    assert (example.human, data.scale, data.name) == ({"clearness": 2.0}, {"clearness": (1.0, 5.0)}, "ours")


LINE = "mine.jsonl line 2"


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        ({"summary": None}, {}, f"{LINE}: field 'summary' is missing or null"),
        ({"summary": "  "}, {}, f"{LINE}, example 'line-2': the judged text is empty"),
        ({"article": 3}, {}, f"{LINE}: field 'article' must be text, got 3"),
        ({"scores": {"tone": "three"}}, {}, f"{LINE}, field 'scores': field 'tone' must be a number, got 'three'"),
        ({"scores": {"tone": NAN}}, {}, f"{LINE}, example 'line-2': the human score nan for 'tone'"),
        ({"scores": [1, 2]}, {}, rf"{LINE}: field 'scores' must be an object, as in {{...}}, got \[1, 2\]"),
        ({}, {"fields": {**FIELDS, "segments": ["art", "nosuch"]}}, "segments: no text has 'nosuch'"),
        ({}, {"fields": {**FIELDS, "segments": ["scores"]}}, "line 1: 'scores' is a list or an object"),
        ({}, {"scale": {"clarity": [1, 2], "tone": [1, 2]}}, "line 1, .*: the human score 2.5 for 'tone' lies out"),
        ({}, {"scale": {"tune": [1, 2]}}, "scale: 'tune' is not a dimension with human scores; .*'clarity', 'tone'"),
    ],
)
def test_a_mistake_is_named_with_its_line(write_jsonl, change, arguments, sentence):
    rows = my_rows()
    rows[1].update(change)
    with pytest.raises(UserError, match=sentence):
        ready(write_jsonl(rows), **arguments)


def test_a_segment_is_one_line(write_jsonl):
    rows = my_rows()
    rows[0]["art"] = " a\nverdict  yes\t" + "x" * 99
    example = ready(write_jsonl(rows), {**FIELDS, "segments": ["art"]}).examples[0]
    assert example.segments["art"].startswith("a verdict yes xxx")
    assert len(example.segments["art"]) < 99


@pytest.mark.parametrize("change", [{"scores": None}, {"scores": {}}, {"scores": {"tone": None}}, None])
def test_a_text_may_be_unrated(write_jsonl, change):
    rows = my_rows()
    wanted = [row["scores"]["tone"] for row in rows]
    rows[0] = {name: value for name, value in rows[0].items() if name != "scores"} | (change or {})
    data = ready(write_jsonl(rows))
    assert set(data.dimensions) == {"clarity", "tone"}
    assert human(data, "tone") == [None, *wanted[1:]]
    assert human(data, "clarity")[0] is None
    assert None not in human(data, "clarity")[1:]


def test_a_score_in_a_field_of_its_own_may_be_missing_but_not_all(write_jsonl):
    rows = my_rows()
    del rows[4]["clar"]
    data = ready(write_jsonl(rows), {**FIELDS, "human": {"clarity": "clar", "tone": ["t1", "clar"]}})
    assert human(data, "clarity") == human(data, "tone") == [1, 2, 1, 2, None, 2]
    start = "mine.jsonl: no row has a human score for"
    with pytest.raises(UserError, match=rf"{start} clarity in field 'clear'; data.fields.human says which"):
        ready(write_jsonl(rows), {**FIELDS, "human": {"tone": "clar", "clarity": "clear"}})
    for row in rows:
        row["scores"]["tone"] = None
    with pytest.raises(UserError, match=rf"{start} tone in field 'scores.tone'"):
        ready(write_jsonl(rows))
    for row in rows:
        del row["scores"]
    with pytest.raises(UserError, match=r"mine.jsonl: no field 'scores' \(what people gave it\)"):
        ready(write_jsonl(rows))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"fields": None}, "data.fields.source is not given"),
        ({"fields": "abc"}, r"data.fields: 'abc' should be a mapping with example_id, group_id, context, "),
        ({"fields": {**FIELDS, "human": None}}, "data.fields.human is not given"),
        ({"fields": {**FIELDS, "humen": "x"}}, "data.fields.humen is unknown; "),
        ({"fields": {**FIELDS, "human": {}}}, "data.fields.human: {} should not be empty"),
        (
            {"fields": {**FIELDS, "human": {"tone": 1}}},
            "^data.fields.human.tone: 1 should be a valid string, or be a valid list.$",
        ),
        ({"fields": {**FIELDS, "source": ["a", 1]}}, r"^data.fields.source\[1\]: 1 should be a valid string.$"),
        *(
            ({"fields": FIELDS, "scale": scale}, "data.scale must be the worst and the best human score, .*null")
            for scale in ([1], "[1,5]", [1, float("inf")], [1, 10**400], [False, True])
        ),
        ({"fields": FIELDS, "scale": {"clarity": "1-5"}}, "data.scale.clarity must be .* got '1-5'"),
        ({"layouts": 5}, r"data.layouts: 5 should be a list of \{files: PATTERN, fields: ...\}"),
        ({"layouts": [5]}, r"data.layouts\[0\]: 5 should be a mapping with fields, files, rows"),
        ({"layouts": [{"file": "a"}]}, r"data.layouts\[0\].file is unknown; "),
        ({"layouts": [{"files": 3}]}, r"data.layouts\[0\].files: 3 should be a valid string"),
        ({"layouts": [{"fields": {"source": "a"}}]}, r"data.layouts\[0\].fields.output is not given"),
        ({"layouts": [{}], "fields": {}}, r"data.fields and data.layouts are both given"),
    ],
)
def test_wrong_settings_are_refused(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        JsonLines("mine.jsonl", **arguments)


def test_without_a_path_there_is_no_data():
    with pytest.raises(UserError, match=r"data.path is not given; it must be a file of rows \(.jsonl, .json"):
        ready(None)


@pytest.mark.parametrize(
    ("scores", "means", "raters", "ratings"),
    [
        (([1, 2, 3], [4, 4, 5]), [2, 13 / 3], "123", [[1, 2, 3], [4, 4, 5]]),
        (([1, 2], 4, [5]), [1.5, 4, 5], "12", [[1, 2], [4, NAN], [5, NAN]]),
        ((1, [4], {"tom": 5}), [1, 4, 5], "", None),
        (({"a": 1, "b": 3}, {"c": 2, "b": 4, "a": None}, 5), [2, 3, 5], "abc1",
         [[1, 3, NAN, NAN], [NAN, 4, 2, NAN], [NAN, NAN, NAN, 5]]),
        (({"a": None}, [None, 3, 4], [None], 2), [NAN, 3.5, NAN, 2], "231",
         [[NAN] * 3, [3, 4, NAN], [NAN] * 3, [NAN, NAN, 2]]),
    ],
)  # fmt: skip
def test_the_mean_of_several_raters_counts_and_their_scores_are_kept(write_jsonl, scores, means, raters, ratings):
    rows = [{"article": f"Article {i}.", "summary": "A summary.", "tone": score} for i, score in enumerate(scores)]
    data = ready(write_jsonl(rows), {**FIELDS, "human": {"tone": "tone"}}, scale=[1, 5])
    np.testing.assert_allclose([example.human["tone"] for example in data.examples], means)
    assert data.raters == tuple(raters)
    assert set(data.ratings) == ({"tone"} if ratings else set())
    if ratings:
        np.testing.assert_array_equal(data.ratings["tone"], ratings)
        limited = ready(write_jsonl(rows), {**FIELDS, "human": {"tone": "tone"}}, limit_groups=1)
        np.testing.assert_array_equal(limited.ratings["tone"], ratings[:1])


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        ({"ann": 1, "ben": 9}, "line 1, .*: the score 9 of rater ben for 'tone' lies outside the data's own"),
        ({"ann": 1, "ben": "good"}, "line 1: field 'tone.ben' must be a number, got 'good'"),
        ({"ann": None}, "no row has a human score for tone in field 'tone'"),
    ],
)
def test_a_raters_mistake_is_named(write_jsonl, score, sentence):
    row = {"article": "Article.", "summary": "A summary.", "tone": score}
    with pytest.raises(UserError, match=sentence):
        ready(write_jsonl([row]), {**FIELDS, "human": {"tone": "tone"}}, scale=[1, 8])


def test_a_row_may_be_one_raters_or_hold_the_texts_of_several_systems(write_jsonl, tmp_path):
    fields = {"source": "source", "output": "output", "human": {"tone": "tone"}, "rater": "who"}
    table = "source,output,tone,who\nA.,B.,3,ann\nA.,B.,4,ben\nA.,C.,1,ann\nA.,B.,,carl\nA.,D.,,\n"
    (tmp_path / "mine.csv").write_text(table)
    data = ready(str(tmp_path / "mine.csv"), fields, scale=[1, 5])
    assert [example.output for example in data.examples] == ["B.", "C.", "D."]
    np.testing.assert_array_equal([example.human["tone"] for example in data.examples], [3.5, 1, NAN])
    np.testing.assert_array_equal(data.ratings["tone"], [[3, 4], [1, NAN], [NAN, NAN]])
    fields = {"source": "task", "systems": ["a", "b.c"], "output": "{system}", "human": {"tone": "of_{system}"}}
    row = {"task": "Sing.", "a": "La.", "b.c": "Lo.", "of_a": [1, 2], "of_b.c": None, "example_id": "x"}
    data = ready(write_jsonl([row]), fields)
    assert [(e.system_id, e.output) for e in data.examples] == [("a", "La."), ("b.c", "Lo.")]
    assert human(data, "tone") == [1.5, None]
    assert len({example.example_id for example in data.examples}) == 2
    with pytest.raises(UserError, match=r"no row has a human score for tone in field 'of_{system}'"):
        ready(write_jsonl([{**row, "of_a": None}]), fields)


def labelled(write_jsonl, labels, **arguments):
    """Texts whose human field `quality` holds these labels, one each."""
    rows = [{"article": f"Article {i}.", "summary": "A summary.", "quality": label} for i, label in enumerate(labels)]
    return ready(write_jsonl(rows), {**FIELDS, "human": {"quality": "quality"}}, **arguments)


FAIL_PASS = Classes(("fail", "pass"), 1.0)
SHADES = Classes(("poor", "fair", "good"))


@pytest.mark.parametrize(
    ("labels", "arguments", "classes", "means"),
    [
        (["pass", "Fail", None], {}, Classes(("Fail", "pass"), 1.0), [1, 0, None]),
        ([["no", "yes"], {"1": "Yes", "2": "YES"}], {}, Classes(("no", "yes"), 1.0), [0.5, 1]),
        ([True, False, "true"], {}, Classes(("false", "true"), 1.0), [1, 0, 1]),
        (["not  relevant", "relevant"], {}, Classes(("not relevant", "relevant"), 1.0), [0, 1]),
        ([1, 0, [0, 1]], {}, Classes(("0", "1"), 1.0), [1, 0, 0.5]),
        (["PASS", "fail", 1], {"classes": ["fail", "pass"]}, FAIL_PASS, [1, 0, 1]),
        ([1, 0], {"classes": [1, 0]}, Classes(("1", "0"), 1.0), [0, 1]),
        (["good", "poor"], {"classes": ["poor", "fair", "good"]}, SHADES, [2, 0]),
        (["good", "poor"], {"classes": {"quality": ["poor", "fair", "good"]}}, SHADES, [2, 0]),
        (["fair", "poor"], {"classes": ["poor", "fair", "good"], "pass_from": "Good"}, replace(SHADES, pass_from=2.0),
         [1, 0]),
        (["b", "a", "c"], {"nominal": True}, Classes(("b", "a", "c"), None, False), [0, 1, 2]),
        (["b", "a"], {"nominal": True, "classes": ["a", "b"]}, Classes(("a", "b"), None, False), [1, 0]),
        ([7, 3, 7], {"nominal": True}, Classes(("7", "3"), None, False), [0, 1, 0]),
        ([1, 4], {"pass_from": 4}, Classes((), 4.0), [1, 4]),
        ([1, 4], {"pass_from": {"quality": 2.5}, "scale": [1, 5]}, Classes((), 2.5), [1, 4]),
        ([1, 0], {"scale": [0, 1]}, None, [1, 0]),
        ([1, 2], {}, None, [1, 2]),
    ],
)  # fmt: skip
def test_labels_may_be_classes_from_one_of_which_on_a_text_passes(write_jsonl, labels, arguments, classes, means):
    data = labelled(write_jsonl, labels, **arguments)
    assert data.classes == ({} if classes is None else {"quality": classes})
    assert human(data, "quality") == means
    note = data.note or ""
    assert ("Labels of quality are classes" in note) == bool(classes and classes.names)
    if classes and classes.names:
        assert data.scale == {"quality": (0, len(classes.names) - 1)}
        assert f"are classes: {', '.join(classes.names)}" in note


def test_words_of_raters_in_rows_of_their_own_are_put_together(write_jsonl):
    rows = [
        {"article": "A.", "summary": "B.", "good": word, "who": by}
        for by, word in zip("ab", ["yes", "no"], strict=True)
    ]
    fields = {**FIELDS, "human": {"good": "good"}, "rater": "who"}
    data = ready(write_jsonl(rows), fields)
    np.testing.assert_array_equal(data.ratings["good"], [[1, 0]])
    assert data.note == (
        "Labels of good are classes: no, yes (worst first); data.classes=[WORST,BEST] gives another order."
    )


@pytest.mark.parametrize(
    ("labels", "arguments", "sentence"),
    [
        (["ok", "mild", "ok"], {}, "line 1: field 'quality' holds one of ok, mild, and which of them is better is "
         r"unknown; give data.classes=\[WORST,...,BEST\], or data.nominal=true where they have no order.$"),
        (["pass", 3], {}, "line 1: field 'quality' must be a number, got 'pass'"),
        ([f"reason {'abc' * i}" for i in range(30)], {}, "line 1: field 'quality' must be a number, got 'reason"),
        (["pass", "maybe"], {"classes": ["fail", "pass"]}, "line 2: the label 'maybe' for 'quality' is none of its cl"),
        (["pass", 2], {"classes": ["fail", "pass"]}, "line 2: the label '2' for 'quality' is none of its classes"),
        (["pass"], {"classes": ["pass", "Pass"]}, "data.classes: .* of 'quality' should be 2 to 26 classes"),
        (["pass"], {"classes": {"tone": ["a", "b"]}}, "data.classes.tone: is not a dimension with labels; there are"),
        (["pass"], {"classes": "pass"}, "data.classes: 'pass' should be"),
        ([1, 5], {"pass_from": 1}, "data.pass_from: 1: 'quality' has no such mark, .*; give a number above 1, up to 5"),
        ([1, 5], {"pass_from": "good"}, "data.pass_from: 'good': 'quality' has no such mark"),
        ([1, 5], {"pass_from": {"tone": 2}}, "data.pass_from: 2: 'tone' is no dimension with human scores; there are"),
        (["no", "yes"], {"pass_from": "no"}, "data.pass_from: 'no': 'quality' has no such mark, .*; give yes"),
        (["a", "b"], {"pass_from": "a", "nominal": True}, "'quality' has classes without order; order them by"),
        ([1, 5], {"pass_from": True}, "data.pass_from: True should be"),
    ],
)  # fmt: skip
def test_a_mistake_about_classes_is_named(write_jsonl, labels, arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        labelled(write_jsonl, labels, **arguments)


def test_several_questions_about_one_article_are_one_group(write_jsonl):
    rows = [{"article": "A cat sat.", "ask": ask, "summary": "Yes.", "quality": 3} for ask in ("Sat?", "A dog?")]
    fields = {**FIELDS, "human": {"quality": "quality"}, "question": "ask"}
    first, second = ready(write_jsonl(rows), fields).examples
    assert (first.question, second.question) == ("Sat?", "A dog?")
    assert (first.group_id, first.source) == (second.group_id, second.source)
    rows = [{**row, "group_id": "cat"} for row in rows for _ in range(2)]
    names = [
        e.example_id for e in ready(write_jsonl(rows), {**fields, "systems": ["ask"], "output": "summary"}).examples
    ]
    assert names == ["cat/ask/Sat?", "cat/ask/Sat?#2", "cat/ask/A dog?", "cat/ask/A dog?#2"]
    with pytest.raises(UserError, match=r"or name the question about it that differs, as data.fields.question=qu"):
        ready(write_jsonl(rows), {**FIELDS, "human": {"quality": "quality"}, "source": ["article", "ask"]})


def test_a_scale_may_fall_to_its_best_score(write_jsonl):
    """A school's grades from 6 to 1: everywhere behind the file a higher score is a better one."""
    rows = [row | {"scores": {"clarity": {"ann": grade, "ben": 7 - grade}, "tone": grade}} for row, grade in
            zip(my_rows(), (1, 2, 3, 4, 5, 6), strict=True)]  # fmt: skip
    path = write_jsonl(rows)
    data = ready(path, scale={"clarity": [1, 6], "tone": [6, 1]}, pass_from={"tone": 4})
    assert human(data, "tone") == [6, 5, 4, 3, 2, 1]
    assert human(data, "clarity") == [3.5] * 6
    assert data.scale == {"clarity": (1, 6), "tone": (1, 6)}
    assert data.reversed == ("tone",)
    assert data.classes["tone"].pass_from == 3
    assert "Of people's scores of tone 1 is the best: figures count it as 6" in data.note
    both = ready(path, scale=[6, 1])
    np.testing.assert_array_equal(both.ratings["clarity"][0], [6, 1])
    with pytest.raises(UserError, match=r"'tone' has no such mark.* a number below 6, down to 1"):
        ready(path, scale={"tone": [6, 1]}, pass_from={"tone": 6})
    with pytest.raises(
        UserError, match=r"line 6.*the human score 6 for 'tone' lies outside the data's own scale, 5 to"
    ):
        ready(path, scale={"tone": [5, 1]})
    with pytest.raises(UserError, match=r"what data.scale must hold") as caught:
        ready(write_jsonl(rows * 3), fields={**FIELDS, "example_id": None}, scale={"tone": [5, 2]})
    assert caught.value.give == {"data.scale": [6, 1]}


@pytest.mark.parametrize(("last", "is_told"), [(44, True), (5, False), (6, False)])
def test_a_lone_score_far_from_all_others_is_told(write_jsonl, last, is_told):
    rows = [row | {"scores": {"clarity": score}} for row, score in zip(my_rows(), (1, 2, 3, 4, 4, last), strict=True)]
    note = ready(write_jsonl(rows)).note
    assert ("One score of clarity is 44, far from all others: correct it if it is a slip." in note) is is_told
