"""Pairs of texts, drawn or your own."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import Rivals, pairs
from judgebench.data.pairs import JsonPairs
from judgebench.settings.fields import settings_of
from judgebench.types import Example
from judgebench.words.errors import UserError
from tests.conftest import write_rows


def group(name, size):
    return [
        Example(f"{name}/{i}", name, f"s{i}", f"Article {name}.", f"Summary {i}.", {"fluency": float(i)}, "A fact.")
        for i in range(size)
    ]


@given(st.integers(1, 9), st.one_of(st.none(), st.integers(1, 12)), st.integers(0, 5))
def test_each_text_is_rival_as_often_as_it_is_judged_and_never_its_own(size, count, seed):
    texts = [*group("a", size), *group("b", 4)]
    found = pairs(texts, Rivals(count, seed))
    judged, rival = Counter(pair.text_id for pair in found), Counter(pair.rival_id for pair in found)
    assert judged == rival
    for text in texts:
        others = (size if text.group_id == "a" else 4) - 1
        assert judged[text.example_id] == (others if count is None else min(count, others))
    assert all(pair.text_id != pair.rival_id and pair.rival_id.startswith(pair.group_id) for pair in found)
    assert len({pair.example_id for pair in found}) == len(found)
    if count is not None and 2 * count < size:  # no two texts meet twice where rivals are few
        met = [frozenset((pair.text_id, pair.rival_id)) for pair in found if pair.group_id == "a"]
        assert len(set(met)) == len(met)


def test_a_pair_is_the_text_with_its_rival_and_the_difference_of_the_humans():
    texts = group("a", 2)
    one, other = pairs(texts, Rivals(1))
    assert (one.example_id, one.text_id, one.rival_id) == ("a/0~a/1", "a/0", "a/1")
    assert (one.output, one.rival, one.source, one.context) == ("Summary 0.", "Summary 1.", "Article a.", "A fact.")
    assert (one.system_id, one.group_id) == ("s0", "a")
    assert one.human == {"fluency": -1.0}
    assert other.human == {"fluency": 1.0}
    assert texts[0].text_id == "a/0"


def test_what_is_drawn_for_a_group_is_its_own_affair():
    few, many = pairs(group("a", 6), Rivals(2)), pairs([*group("b", 3), *group("a", 6)[::-1]], Rivals(2))
    drawn = [{(p.text_id, p.rival_id) for p in found if p.group_id == "a"} for found in (few, many)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != {(p.text_id, p.rival_id) for p in pairs(group("a", 6), Rivals(2, rivals_seed=1))}


def test_a_text_that_is_alone_is_left_out_and_names_must_tell_pairs_apart():
    assert {p.group_id for p in pairs([*group("alone", 1), *group("a", 2)], Rivals())} == {"a"}
    with pytest.raises(UserError, match=r"prompt\.rivals: every text of this data is alone"):
        pairs(group("alone", 1), Rivals())
    texts = [Example(name, "a", name, "Article.", "Text.", {}) for name in ("x", "y~z", "x~y", "z")]
    with pytest.raises(UserError, match="two pairs of texts would be called 'x~y~z'"):
        pairs(texts, Rivals("all"))


def test_rivals_are_counted_or_all():
    assert settings_of(Rivals, {"rivals": "all", "rivals_seed": 2}, "prompt") == Rivals("all", 2)
    for rivals in (0, 1.5, "most", None, True):
        with pytest.raises(UserError, match=r"prompt\.rivals: .* should be"):
            settings_of(Rivals, {"rivals": rivals}, "prompt")
    for seed in (-1, None, "a", False):
        with pytest.raises(UserError, match=r"prompt\.rivals_seed: .* should be"):
            settings_of(Rivals, {"rivals": 3, "rivals_seed": seed}, "prompt")


FIELDS = {
    "source": "prompt", "first": "answer_a", "second": "answer_b", "preference": "winner", "first_system": "model_a",
    "second_system": "model_b", "group_id": "question_id",
}  # fmt: skip
ARENA = {"first": "model_a", "second": "model_b", "tie": ["tie", "tie (bothbad)"]}


def row(question, one, other, winner, texts=None, **more):
    first, second = texts or (f"{one} says.", f"{other} says.")
    return {
        "prompt": f"Question {question}?", "question_id": question, "model_a": one, "model_b": other,
        "answer_a": first, "answer_b": second, "winner": winner,
    } | more  # fmt: skip


def loaded(tmp_path, rows, **more):
    write_rows((tmp_path / "mine.jsonl"), rows)
    given = {"fields": FIELDS, "labels": ARENA, "dev_share": 0} | more
    data = JsonPairs(str(tmp_path / "mine.jsonl"), **given)
    data.setup()
    return data


def test_a_row_is_a_pair_with_both_its_systems(tmp_path):
    data = loaded(tmp_path, [row(7, "gpt", "llama", "model_b"), row(8, "llama", "gpt", "tie (bothbad)", id="x")])
    one, other = data.examples
    assert (one.example_id, one.text_id, one.rival_id, one.group_id) == ("line-1", "7/gpt", "7/llama", "7")
    assert (one.system_id, one.rival_system_id) == ("gpt", "llama")
    assert (one.source, one.output, one.rival) == ("Question 7?", "gpt says.", "llama says.")
    assert (one.human, other.human) == ({"overall": -1.0}, {"overall": 0.0})
    assert (data.name, data.paired, data.dimensions) == ("mine", True, ("overall",))


def test_several_people_compare_the_same_two_texts(tmp_path):
    rows = [row(7, "gpt", "llama", "model_a"), row(7, "llama", "gpt", "model_b"), row(7, "gpt", "llama", "tie")]
    data = loaded(tmp_path, [*rows, row(7, "gpt", "llama", "tie", ("Another.", "llama says."))])
    met = [{one.text_id, one.rival_id} for one in data.examples]
    assert met == [{"7/gpt", "7/llama"}] * 3 + [{"7/gpt#2", "7/llama"}]
    assert len({one.example_id for one in data.examples}) == 4


def test_preferences_may_be_numbers_words_or_of_several_dimensions(tmp_path):
    rows = [row(1, "a", "b", 2.5, clear=-1), row(2, "a", "b", " Model_A ", clear="tie")]
    data = loaded(tmp_path, rows, fields=FIELDS | {"preference": {"overall": "winner", "clarity": "clear"}})
    assert [one.human for one in data.examples] == [{"overall": 2.5, "clarity": -1}, {"overall": 1, "clarity": 0}]
    plain = loaded(tmp_path, [row(1, "a", "b", "FIRST")], labels=None, dimension="joint")
    assert plain.examples[0].human == {"joint": 1.0}


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((1, 2, 0), (1, 2, 0)),
        ((1, 2.0, 0), ("1", "2", "0")),
        (("1", " 2", "0.0"), (1, 2, 0)),
        ((True, False, "neither"), (True, False, "neither")),
        ((True, False), ("True", "FALSE", None)),
        ((3, -1, "Both"), ([3, 4], [-1, "-2"], ["tie", "both"])),
    ],
)
def test_a_label_explains_the_value_of_any_scalar_kind(tmp_path, values, labels):
    rows = [row(i, "a", "b", value) for i, value in enumerate(values)]
    data = loaded(tmp_path, rows, labels=dict(zip(("first", "second", "tie"), labels, strict=True)))
    assert [pair.human["overall"] for pair in data.examples] == [1.0, -1.0, 0.0][: len(rows)]


@pytest.mark.parametrize("numbers", [(1, 1), (-1, 1, 0), (1, 2, 3), (0.5, 1, 2)])
def test_numbers_that_are_no_codes_count_by_their_sign(tmp_path, numbers):
    data = loaded(tmp_path, [row(i, "a", "b", number) for i, number in enumerate(numbers)])
    assert [pair.human["overall"] for pair in data.examples] == list(numbers)


def test_pairs_need_not_all_have_a_preference(tmp_path):
    given = [row(i, "a", "b", winner) for i, winner in enumerate(("model_a", "model_b", "tie", None))]
    given.append({name: value for name, value in given[0].items() if name != "winner"} | {"question_id": 9})
    preferences = [pair.human["overall"] for pair in loaded(tmp_path, given).examples]
    np.testing.assert_array_equal(preferences, [1, -1, 0, np.nan, np.nan])


def test_without_names_places_are_systems_and_the_source_makes_the_group(tmp_path):
    fields = {name: FIELDS[name] for name in ("source", "first", "second", "preference")}
    data = loaded(tmp_path, [row(1, "a", "b", "tie"), row(1, "c", "d", "tie"), row(2, "a", "b", "tie")], fields=fields)
    assert {(one.system_id, one.rival_system_id) for one in data.examples} == {("first", "second")}
    groups = [one.group_id for one in data.examples]
    assert groups[0] == groups[1] != groups[2]


A_PAIR = row(1, "a", "b", "tie")


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([row(1, "a", "b", "model_c")], {}, "line 1: field 'winner' must be one of 'model_a', 'model_b', 'tie'"),
        ([row(1, "a", "b", None)], {}, "mine.jsonl: no row has a human score for overall in field 'winner'"),
        ([row(1, "a", "b", "tie", ("x", " "))], {}, "field 'answer_b' is an empty text"),
        ([row(1, "a", "a", "tie", ("x", "x"))], {}, "both texts are the same one of 'a'"),
        ([A_PAIR, A_PAIR | {"prompt": "Other?"}], {}, "group '1' has another source"),
        ([], {"fields": FIELDS | {"first_system": None}}, "first_system and second_system go together"),
        ([], {"labels": {"first": "a"}}, "data.labels.second is not given"),
        ([], {"labels": {"first": "a", "second": ["A"], "tie": "t"}}, "'A' stands for something else"),
        ([], {"labels": {"first": 1, "second": "1.0", "tie": 0}}, "data.labels.second: '1.0' stands for something"),
        (
            [],
            {"labels": {"first": [None], "second": "b", "tie": "t"}},
            "data.labels.first[0]: None should be a valid string, or ",
        ),
        (
            [row(1, "a", "b", 1), row(2, "a", "b", 3)],
            {"labels": {"first": "1", "second": 2, "tie": 0}},
            "line 2: field 'winner' must be one of '1', '2', '0' (data.labels), got 3.",
        ),
        (
            [row(1, "a", "b", 1), row(2, "a", "b", 2)],
            {},
            "mine.jsonl: the numbers of field 'winner' are 1, 2, none of them below 0",
        ),
        ([], {"dimension": ""}, "data.dimension: '' is not a name"),
    ],
)
def test_a_mistake_gets_one_sentence(tmp_path, rows, more, message):
    with pytest.raises(UserError) as error:
        loaded(tmp_path, rows, **more)
    assert message in str(error.value)
