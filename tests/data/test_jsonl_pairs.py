"""Your own pairs: what a row becomes, what stands for a preference, and what is wrong with a file."""

import json

import pytest

from judgebench.data.jsonl_pairs import JsonPairs, Labels, PairFields
from judgebench.data.pairs import systems_of
from judgebench.errors import UserError

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
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
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
    assert systems_of(data.examples) == ["gpt", "llama"]


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


def test_without_names_places_are_systems_and_the_source_makes_the_group(tmp_path):
    fields = {name: FIELDS[name] for name in ("source", "first", "second", "preference")}
    data = loaded(tmp_path, [row(1, "a", "b", "tie"), row(1, "c", "d", "tie"), row(2, "a", "b", "tie")], fields=fields)
    assert systems_of(data.examples) == ["first", "second"]
    groups = [one.group_id for one in data.examples]
    assert groups[0] == groups[1] != groups[2]


MISTAKES = {
    "word": ([row(1, "a", "b", "model_c")], {}, "line 1: field 'winner' must be one of 'model_a', 'model_b', 'tie'"),
    "nothing": ([row(1, "a", "b", None)], {}, "line 1: field 'winner' is missing or null"),
    "not finite": ([row(1, "a", "b", float("nan"))], {}, "the human score nan for 'overall' is not a finite number"),
    "empty text": ([row(1, "a", "b", "tie", ("x", " "))], {}, "field 'answer_b' is an empty text"),
    "one text": ([row(1, "a", "a", "tie", ("x", "x"))], {}, "both texts are the same one of 'a'"),
    "two sources": (
        [row(1, "a", "b", "tie"), row(1, "a", "b", "tie", prompt="Other?")], {}, "group '1' has another source",
    ),
    "no path": ([], {"path": None}, "data.path is not given"),
    "fields": ([], {"fields": {"source": "prompt"}}, "data.fields.first is not given"),
    "unknown field": ([], {"fields": FIELDS | {"human": "x"}}, "data.fields.human is unknown"),
    "one system": ([], {"fields": FIELDS | {"first_system": None}}, "first_system and second_system go together"),
    "labels": ([], {"labels": {"first": "a"}}, "data.labels must say what stands for first, second, tie"),
    "two meanings": ([], {"labels": {"first": "a", "second": ["A"], "tie": "t"}}, "'A' stands for something else"),
    "no word": ([], {"labels": {"first": [1], "second": "b", "tie": "t"}}, "data.labels.first: 1 is not a word"),
    "dimension": ([], {"dimension": ""}, "data.dimension: '' is not a name"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence(tmp_path, mistake):
    rows, more, message = MISTAKES[mistake]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    given = {"path": str(tmp_path / "mine.jsonl"), "fields": FIELDS, "labels": ARENA} | more
    with pytest.raises(UserError) as told:
        JsonPairs(**given).setup()
    assert message in str(told.value)


def test_names_are_told_apart_from_what_they_name():
    with pytest.raises(UserError, match=r"data\.fields must be a mapping"):
        PairFields.parse("x")
    with pytest.raises(UserError, match=r"data\.fields\.preference is empty"):
        PairFields.parse(FIELDS | {"preference": {}})
    with pytest.raises(UserError, match=r"data\.fields\.context must be the name of a field, got 3"):
        PairFields.parse(FIELDS | {"context": 3})
    assert Labels.parse(ARENA).meanings == {"model_a": 1, "model_b": -1, "tie": 0, "tie (bothbad)": 0}
