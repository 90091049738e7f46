"""Dialogues in cells: which reply is judged, and what came before it."""

import json

import pytest

from judgebench.data.dialogues import PARTS, part_of, turns_of
from judgebench.data.rows import FileRow

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Which bolt?"}, {"type": "image_url", "image_url": {}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look_up", "arguments": '{"id": 7}'}}]},
    {"role": "tool", "content": "M8"},
    {"role": "assistant", "content": "The M8 one."},
    {"role": "user", "content": "Thanks!"},
]
SHAREGPT = [{"from": "human", "value": "Which bolt?"}, {"from": "gpt", "value": "The M8 one."}]


def test_the_last_reply_is_judged_and_what_came_before_is_its_source():
    assert part_of(OPENAI, "reply") == "The M8 one."
    assert part_of(OPENAI, "before") == (
        'System: Be brief.\n\nUser: Which bolt?\n[image_url]\n\nAssistant: [calls look_up({"id": 7})]\n\nTool: M8'
    )
    assert part_of(OPENAI, "whole").endswith("Assistant: The M8 one.\n\nUser: Thanks!")
    assert [part_of(SHAREGPT, part) for part in ("reply", "before")] == ["The M8 one.", "Which bolt?"]


@pytest.mark.parametrize("written", [SHAREGPT, json.dumps(SHAREGPT)])
def test_a_part_is_a_path_into_a_row_and_of_json_text_too(written):
    row = FileRow({"messages": written}, "x.csv line 2", 2)
    assert row.text("messages.reply") == "The M8 one."
    assert row.text("messages.before") == "Which bolt?"
    assert row.text("messages.0.value") == "Which bolt?"
    assert not row.has("messages.5.value")


@pytest.mark.parametrize("value", [[], [1], ["a"], [{"role": "user"}], [{"content": "A."}], "[not JSON", "Hello", None])
def test_other_values_are_no_dialogues(value):
    assert turns_of(value) is None
    assert [part_of(value, part) for part in PARTS] == [None] * 3


def test_a_dialogue_without_a_reply_has_none():
    asked = SHAREGPT[:1]
    assert (part_of(asked, "reply"), part_of(asked, "before")) == (None, None)
    assert part_of(SHAREGPT[1:], "before") is None
