from __future__ import annotations

import json

import numpy as np
import pytest

from judgebench.data.dataset import group_hash
from judgebench.data.jsonl import JsonLines
from judgebench.runtime.errors import UserError

FIELDS = {"source": "article", "output": "summary", "human": "scores"}


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


def test_the_defaults_name_what_the_rows_do_not(write_jsonl):
    data = ready(write_jsonl(my_rows()))
    assert data.name == "mine"
    assert [e.example_id for e in data.examples] == [f"line-{i}" for i in range(1, 7)]
    assert [e.group_id for e in data.examples[:3]] == [group_hash("Article 0.", "")] * 2 + [
        group_hash("Article 1.", "")
    ]
    assert {e.system_id for e in data.examples} == {"system"}
    assert {e.context for e in data.examples} == {""}
    assert data.examples[1].human == {"clarity": 2.0, "tone": 2.5}
    assert data.scale == {}


def test_columns_of_the_examples_own_names_are_taken_by_themselves(write_jsonl):
    rows = [row | {"group_id": f"g{i // 2}", "system_id": f"s{i % 2}"} for i, row in enumerate(my_rows())]
    names = [(e.group_id, e.system_id) for e in ready(write_jsonl(rows)).examples]
    assert names == [(f"g{i // 2}", f"s{i % 2}") for i in range(6)]
    named = ready(write_jsonl(rows), FIELDS | {"group_id": "art", "system_id": "bot"}).examples
    assert [(e.group_id, e.system_id) for e in named] == [(f"a{i // 2}", f"bot{i % 2}") for i in range(6)]
    unnamed = ready(write_jsonl([rows[0] | {"group_id": None, "system_id": None}, *rows[2:]])).examples
    assert (unnamed[0].group_id, unnamed[0].system_id) == (group_hash("Article 0.", ""), "system")


def test_every_field_can_be_named(write_jsonl):
    fields = {
        **FIELDS, "human": {"clearness": "clar"}, "example_id": "no", "group_id": "art", "system_id": "bot",
        "context": "fact",
    }  # fmt: skip
    data = ready(write_jsonl(my_rows()), fields, scale=[1, 5], name="ours")
    example = data.examples[3]
    assert (example.example_id, example.group_id, example.system_id, example.context) == ("3", "a1", "bot1", "Fact 1.")
    assert example.human == {"clearness": 2.0}
    assert data.scale == {"clearness": (1.0, 5.0)}
    assert data.name == "ours"


def test_a_scale_can_differ_by_dimension(write_jsonl):
    path = write_jsonl(my_rows())
    assert ready(path, scale={"clarity": [1, 2]}).scale == {"clarity": (1.0, 2.0)}
    with pytest.raises(
        UserError, match=r"mine.jsonl line 1, example 'line-1': the human score 2.5 for 'tone' lies out"
    ):
        ready(path, scale={"clarity": [1, 2], "tone": [1, 2]})
    with pytest.raises(UserError, match=r"scale: 'tune' is no dimension with human scores; .*'clarity', 'tone'"):
        ready(path, scale={"tune": [1, 2]})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"summary": None}, "mine.jsonl line 2: field 'summary' is missing or null"),
        ({"summary": "  "}, "mine.jsonl line 2, example 'line-2': the judged text is empty"),
        ({"article": 3}, "mine.jsonl line 2: field 'article' must be text, got 3"),
        (
            {"scores": {"clarity": 1, "tone": "three"}},
            "line 2, field 'scores': field 'tone' must be a number, got 'three'",
        ),
        ({"scores": {"clarity": 1, "tone": float("nan")}}, "line 2, example 'line-2': the human score nan for 'tone'"),
        ({"scores": [1, 2]}, r"mine.jsonl line 2: field 'scores' must be an object, as in {...}, got \[1, 2\]"),
    ],
)
def test_a_bad_row_is_told_with_its_line(write_jsonl, change, sentence):
    rows = my_rows()
    rows[1].update(change)
    with pytest.raises(UserError, match=sentence):
        ready(write_jsonl(rows))


def human(data, dimension):
    return [None if np.isnan(example.human[dimension]) else example.human[dimension] for example in data.examples]


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
    assert human(data, "clarity") == human(data, "tone")
    assert [place for place, score in enumerate(human(data, "clarity")) if score is None] == [4]
    with pytest.raises(UserError, match=r"mine.jsonl: no row has a human score for clarity in field 'clear'"):
        ready(write_jsonl(rows), {**FIELDS, "human": {"tone": "clar", "clarity": "clear"}})
    for row in rows:
        row["scores"]["tone"] = None
    with pytest.raises(UserError, match=r"mine.jsonl: no row has a human score for tone in field 'scores.tone'"):
        ready(write_jsonl(rows))
    for row in rows:
        del row["scores"]
    with pytest.raises(UserError, match=r"mine.jsonl: no row has a human score for any dimension in field 'scores'"):
        ready(write_jsonl(rows))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"fields": None}, "data.fields.source is not given; name the field of your rows that holds it"),
        ({"fields": "abc"}, r"data.fields must be a mapping, as in {source: article, .*got 'abc'"),
        ({"fields": {**FIELDS, "human": None}}, "data.fields.human is not given"),
        ({"fields": {**FIELDS, "humen": "x"}}, "data.fields.humen is unknown; "),
        ({"fields": {**FIELDS, "human": {}}}, "data.fields.human is empty"),
        ({"fields": {**FIELDS, "human": {"tone": 1}}}, "data.fields.human.tone must be the name of a field, or a list"),
        ({"fields": {**FIELDS, "source": ["a", 1]}}, "data.fields.source must be the name of a field, or a list"),
        *(
            ({"fields": FIELDS, "scale": scale}, "data.scale must be the lowest and the highest human score, .*null")
            for scale in ([1], "[1,5]", [1, float("inf")], [1, 10**400], [False, True])
        ),
        ({"fields": FIELDS, "scale": {"clarity": "1-5"}}, "data.scale.clarity must be .* got '1-5'"),
        ({"layouts": 5}, r"data.layouts must be a list of \{files: PATTERN, fields: ...\}, got 5"),
        ({"layouts": [5]}, r"data.layouts\[0\] must be \{files: PATTERN, fields: ...\}, got 5"),
        ({"layouts": [{"file": "a"}]}, r"data.layouts\[0\].file is unknown; "),
        ({"layouts": [{"files": 3}]}, r"data.layouts\[0\].files must be text, got 3"),
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


def rated_rows(tmp_path, *given):
    rows = [{"article": f"Article {i}.", "summary": "A summary.", "tone": one} for i, one in enumerate(given)]
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"path": str(path), "fields": {"source": "article", "output": "summary", "human": {"tone": "tone"}}}


def test_the_mean_of_several_raters_counts_and_their_scores_are_kept(tmp_path):
    data = JsonLines(**rated_rows(tmp_path, [1, 2, 3], [4, 4, 5]), scale=[1, 5])
    data.setup()
    assert [example.human["tone"] for example in data.examples] == pytest.approx([2, 13 / 3])
    assert data.ratings["tone"].tolist() == [[1, 2, 3], [4, 4, 5]]
    uneven = JsonLines(**rated_rows(tmp_path, [1, 2], 4, [5]))
    uneven.setup()
    assert [example.human["tone"] for example in uneven.examples] == pytest.approx([1.5, 4, 5])
    np.testing.assert_array_equal(uneven.ratings["tone"], [[1, 2], [4, np.nan], [5, np.nan]])
    alone = JsonLines(**rated_rows(tmp_path, 1, [4], {"tom": 5}))
    alone.setup()
    assert alone.ratings == {}, "no text has two raters"
    assert alone.raters == ()


def test_raters_have_names_where_the_file_names_them_and_need_not_rate_everything(tmp_path):
    data = JsonLines(**rated_rows(tmp_path, {"ann": 1, "ben": 3}, {"carl": 2, "ben": 4, "ann": None}, 5), scale=[1, 5])
    data.setup()
    assert [example.human["tone"] for example in data.examples] == [2, 3, 5]
    assert data.raters == ("ann", "ben", "carl", "1")
    nan = np.nan
    np.testing.assert_array_equal(data.ratings["tone"], [[1, 3, nan, nan], [nan, 4, 2, nan], [nan, nan, nan, 5]])
    first = JsonLines(**rated_rows(tmp_path, {"ann": 1, "ben": 3}, [4, 4]), limit_groups=1)
    first.setup()
    np.testing.assert_array_equal(first.ratings["tone"], [[1, 3, nan, nan]])
    with pytest.raises(UserError, match=r"line 2, .*: the score 9 of rater ben for 'tone' lies outside the data's own"):
        JsonLines(**rated_rows(tmp_path, 1, {"ann": 1, "ben": 9}), scale=[1, 10 - 2]).setup()
    with pytest.raises(UserError, match=r"line 1: field 'tone.ben' must be a number, got 'good'"):
        JsonLines(**rated_rows(tmp_path, {"ann": 1, "ben": "good"})).setup()
    with pytest.raises(UserError, match=r"rated.jsonl: no row has a human score for tone in field 'tone'"):
        JsonLines(**rated_rows(tmp_path, {"ann": None})).setup()
    few = JsonLines(**rated_rows(tmp_path, {"ann": None}, [None, 3, 4], [None], 2))
    few.setup()
    assert few.raters == ("2", "3", "1")
    assert human(few, "tone") == [None, 3.5, None, 2]
    np.testing.assert_array_equal(few.ratings["tone"], [[nan] * 3, [3, 4, nan], [nan] * 3, [nan, nan, 2]])
