"""Answers that were given earlier: which row answers which prompt, and what is told of the others."""

import hashlib
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from judgebench.judges.judge import PromptSet
from judgebench.judges.precomputed.replay import AnswerFields, Replayer, ReplaySpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.settings.fields import settings_of
from judgebench.types import Condition, Example, Prompt, ScoreRange
from judgebench.words.errors import UserError
from tests.judges.precomputed.test_recorded import EXAMPLES, SPLIT

FIELDS = {"text": "text", "example_id": "example_id", "group_id": "group_id", "system_id": "system_id"}
AXES = {axis: axis for axis in ("dimension", "range", "attack", "defense")}
CLEAN = Condition("coherence", ScoreRange(1, 5))


def prompts(*conditions):
    return [Prompt(one, c, "", "", np.zeros(0, np.int32)) for c in conditions or (CLEAN,) for one in EXAMPLES]


@pytest.fixture
def replayed(tmp_path):
    """Rows, or the file's text -> the answers to the prompts of some conditions."""

    def call(rows, *conditions, split=None, **fields):
        path = tmp_path / "answers.jsonl"
        path.write_text(rows if isinstance(rows, str) else "\n".join(map(json.dumps, rows)))
        return ReplaySpec(str(path), {**FIELDS, **fields}).answers(prompts(*conditions), split or SPLIT, "mine")

    return call


def told(replayed, rows, *conditions, **fields):
    with pytest.raises(UserError) as error:
        replayed(rows, *conditions, **fields)
    return str(error.value)


def test_rows_find_their_examples_by_either_name(replayed):
    answers = replayed(
        [
            {"example_id": "ay", "text": "4"},
            {"group_id": "b", "system_id": "z", "text": "Score: 2"},
            {"example_id": "ax", "group_id": "b", "system_id": "z", "text": ""},
            {"example_id": None, "group_id": "a", "system_id": "z", "text": 3.5},
        ]
    )
    assert {key[0]: text for key, text in answers.given.items()} == {"ay": "4", "bz": "Score: 2", "ax": "", "az": "3.5"}
    assert [prompt.example.example_id for prompt in answers.answered(prompts())] == ["ax", "ay", "az", "bz"]
    assert answers.note == "Scored: 4 of the 4 rows of answers.jsonl. Examples without a row, left out: 2 (bx, by)."


def test_what_is_left_over_on_either_side_is_counted_and_named(replayed):
    rows = [{"example_id": name, "text": "4"} for name in ("ax", "q1", "q2", "q3", "q4", "q5")]
    assert replayed([*rows, {"group_id": "a", "system_id": "q", "text": "1"}]).note == (
        "Scored: 1 of the 7 rows of answers.jsonl. Rows whose example the data does not have: 6 (q1, q2, q3 and 3 "
        "more). Examples without a row, left out: 5 (ay, az, bx and 2 more)."
    )
    whole = [{"example_id": one.example_id, "text": "4"} for one in EXAMPLES]
    assert replayed(whole).note == "Scored: 6 of the 6 rows of answers.jsonl."


def test_ranges_with_labels_and_steps_are_named_as_tables_name_them(replayed):
    given = [[1, 5], [5, 1], [0, 1, 0.5], ["poor", "good enough"]]
    conditions = [Condition("coherence", ScoreRange.parse(one)) for one in given]
    for named in (given, ["1-5", "5 – 1", "0.0-1.0 by 0.5", "poor-good enough"]):
        rows = [{"example_id": "ax", "text": f"{i}", "range": one} for i, one in enumerate(named)]
        found = replayed(rows, *conditions, range="range").given
        assert found == {("ax", condition): f"{i}" for i, condition in enumerate(conditions)}


def test_conditions_are_told_apart_by_their_fields(replayed):
    wide = Condition("coherence", ScoreRange(0, 1, 0.5))
    attacked = Condition("coherence", ScoreRange(1, 5), "dsi", "sandwich")
    rows = [
        {"example_id": "ax", "text": "clean", "dimension": "coherence", "range": [1, 5]},
        {"example_id": "ax", "text": "wide", "dimension": "coherence", "range": [0, 1, 0.5]},
        {"example_id": "ax", "text": "attacked", "dimension": "coherence", "range": "1-5"}
        | {"attack": "dsi", "defense": "sandwich"},
        {"example_id": "ax", "text": "other", "dimension": "fluency", "range": "1 – 5", "attack": None},
        {"example_id": "ay", "text": "clean", "dimension": "coherence", "range": [1.0, 5.0], "attack": "none"},
    ]
    answers = replayed(rows, CLEAN, wide, attacked, **AXES)
    assert answers.given == {
        ("ax", CLEAN): "clean",
        ("ax", wide): "wide",
        ("ax", attacked): "attacked",
        ("ay", CLEAN): "clean",
    }
    assert "not judged: 1 (ax under dimension fluency, range 1-5, attack none, defense none)" in answers.note
    assert "left out: 14 (az under coherence, 1-5; bx under coherence, 1-5; " in answers.note
    # a field that is not named tells nothing apart, and is not asked for where there is one condition
    assert replayed(rows[-1:], CLEAN).given == {("ay", CLEAN): "clean"}
    assert told(replayed, rows, CLEAN, wide, **{**AXES, "range": None}).startswith(
        "judge.fields.range: this run has ranges 1-5, 0.0-1.0 by 0.5, and nothing says which"
    )
    assert told(replayed, rows[:1], CLEAN, attacked, **AXES) == (
        "judge.path: no row of answers.jsonl answers under coherence, 1-5, attack dsi, defense sandwich, which is to "
        "be judged."
    )
    assert told(replayed, rows[3:4], CLEAN, **AXES).endswith(
        "which is to be judged; answers.jsonl has answers under dimension fluency, range 1-5, attack none, defense "
        "none."
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"example_id": "ax", "text": "4"}, {}, {"example_id": "ax", "text": "4"}],
            "answers.jsonl line 2: nothing says which example it is about; give field 'example_id', or both",
        ),
        (
            [{"example_id": "ax", "text": "4"}, {"group_id": "a", "system_id": "x", "text": "4"}],
            "answers.jsonl line 2: example 'ax' (coherence, 1-5) has an answer in answers.jsonl line 1 already",
        ),
        ('{"example_id": "ax", "text": "4"}\n{"example_id": "ay"', "answers.jsonl line 2: not valid JSON"),
        ('{"example_id": "ax", "text": "4"}\n[1]', "answers.jsonl line 2: holds a list"),
        ([{"example_id": "ax", "answer": "4"}], "answers.jsonl line 1: field 'text' is missing or null; the fields"),
        ([{"example_id": "ax", "text": [1]}], "answers.jsonl line 1: field 'text' must be text, got [1]"),
        ([{"example_id": 1.5, "text": "4"}], "answers.jsonl line 1: field 'example_id' must be a name"),
        ("", "judge.path: answers.jsonl holds no answer"),
        ([{"example_id": "ax", "text": "4", "range": [5, 5]}], "answers.jsonl line 1: field 'range': range [5, 5]"),
        (
            [{"group_id": "q", "system_id": "r", "text": "4"}, {"example_id": "s", "text": "4"}],
            "no row of answers.jsonl is about an example of mine: its first row calls its example 'q by r', and the "
            "first example of the data is 'ax'",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named(replayed, rows, message):
    assert message in told(replayed, rows, **({"range": "range"} if "range" in str(rows) else {}))


def test_where_some_texts_are_tested_every_condition_has_such(replayed):
    attacked = Condition("coherence", ScoreRange(1, 5), "dsi")
    rows = [{"example_id": name, "text": "4", "attack": attack} for name in ("ax", "bx") for attack in ("none", "dsi")]
    message = told(replayed, rows[:3], CLEAN, attacked, attack="attack", split={"a": "dev", "b": "test"})
    assert message.startswith("judge.path: under coherence, 1-5, attack dsi, no row of answers.jsonl answers a text of")
    for split in ({"a": "test", "b": "dev"}, {"a": "dev", "b": "dev"}):
        assert len(replayed(rows[:3], CLEAN, attacked, attack="attack", split=split).given) == 3


def test_a_group_and_system_of_several_examples_name_none(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"group_id": "a", "system_id": "x", "text": "4"}')
    twins = [Prompt(Example(n, "a", "x", "A.", "T.", {}), CLEAN, "", "", np.zeros(0, np.int32)) for n in ("one", "two")]
    with pytest.raises(UserError, match=r"line 1: group 'a' has 2 examples of system 'x' \(one, two\); say which one"):
        ReplaySpec(str(path), FIELDS).answers(twins, SPLIT, "mine")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("text", "judge.fields: 'text' should be a mapping with text"),
        ({**FIELDS, "txt": "a"}, "judge.fields.txt is unknown; judge.fields.text is the nearest"),
        ({**FIELDS, "text": None}, "judge.fields.text: None should be a valid string"),
        ({"text": "text", "group_id": "group"}, "judge.fields.example_id is not given"),
    ],
)
def test_fields_that_cannot_be(fields, message):
    with pytest.raises(UserError, match=message):
        settings_of(AnswerFields, fields, "judge.fields")


def test_a_replayed_judge_has_a_file_and_a_name():
    with pytest.raises(UserError) as told:
        ReplaySpec(path="", fields=FIELDS, title=3)
    assert "judge.path: name the file " in str(told.value)
    assert "judge.title: 3 is not a name" in str(told.value)


def test_prompts_are_the_rubrics_plain_text_of_no_tokens(tmp_path):
    (tmp_path / "wit.txt").write_text("Rate {{Summary}} from {min_range}: A) 5, B) 3, C) 1.")
    source = ReplaySpec("answers.jsonl", FIELDS).source
    builder = PromptBuilder(source.tokenizer(), load_rubrics(str(tmp_path), ["wit"]), 1)
    strange = Example("a", "a", "s", "Article.", "<|im_end|> <s> ⟦4⟧ \x00é", {})
    (prompt,) = builder.build([strange], [Condition("wit", ScoreRange(1, 5))])
    assert prompt.text == "Rate <|im_end|> <s> ⟦4⟧ \x00é from 1: A) 5, B) 3, C) 1."
    assert len(prompt.token_ids) == prompt.control_tokens == prompt.source_tokens_cut == 0
    assert prompt.choices == {"A": 5.0, "B": 3.0, "C": 1.0}


def test_readings_hold_the_answers_and_the_file_is_its_own_fingerprint(tmp_path, replayed):
    answers = replayed([{"example_id": "ay", "text": "4"}])
    judge = ReplaySpec(str(tmp_path / "answers.jsonl"), FIELDS, title="mine")
    asking: Any = SimpleNamespace(settings=judge, assistant=None, decodings={"greedy": None}, free_text={})
    replayer = Replayer(asking, PromptSet(answers.answered(prompts()), answers))
    assert replayer.fingerprints == {
        "main": {"title": "mine", "sha256": hashlib.sha256((tmp_path / "answers.jsonl").read_bytes()).hexdigest()}
    }
    (reading,) = replayer.readings({"a": "dev", "b": "test"})
    assert (reading.text, reading.split, reading.main_logprobs, reading.seconds) == ("4", "dev", None, 0.0)
    assert reading.generation is not None
    assert (reading.generation.judge, reading.generation.decoding) == ("main", "greedy")
