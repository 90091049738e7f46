from __future__ import annotations

import pytest

from judgebench.data.benchmarks import TopicalChat
from judgebench.data.dataset import group_hash
from judgebench.runtime.errors import UserError

SCORES = {"understandability": 1.0, "naturalness": 3.0, "coherence": 2.0, "engagingness": 1.0, "groundedness": 0.0,
          "overall": 5.0}  # fmt: skip


def chat_rows():
    return [
        {"source": "hi \n\n", "context": context, "system_id": system, "system_output": "hello . ", "scores": SCORES}
        for context in ("cats purr .\n", "_nofact\n")
        for system in ("Argmax Decoding", "New Human Generated")
    ]


def ready(path, **arguments):
    data = TopicalChat(path, **arguments)
    data.setup()
    return data


def test_a_group_is_a_dialogue_with_its_fact_and_no_fact_is_no_context(write_json):
    data = ready(write_json(chat_rows()), rubrics="dialogue")
    assert list(data.split) == [group_hash("hi \n\n", "cats purr .\n"), group_hash("hi \n\n", "")]
    assert [e.context for e in data.examples] == ["cats purr .\n"] * 2 + [""] * 2
    assert [e.output for e in data.examples] == ["hello . "] * 4
    assert data.examples[0].human == SCORES
    assert data.examples[0].example_id == f"{data.examples[0].group_id}/Argmax Decoding"
    assert data.rubrics == "dialogue"
    assert data.ratings == {}


@pytest.mark.parametrize(
    ("dimension", "value", "scale"),
    [("understandability", 2, "0 to 1"), ("naturalness", 0.5, "1 to 3"), ("overall", 5.5, "1 to 5")],
)
def test_each_dimension_has_its_own_scale(write_json, dimension, value, scale):
    rows = chat_rows()
    rows[2]["scores"] = {**SCORES, dimension: value}
    with pytest.raises(UserError, match=f"entry 3, .*the human score {value} for '{dimension}' lies outside .*{scale}"):
        ready(write_json(rows))


def test_the_real_data_uses_the_whole_of_each_scale(shared_file):
    data = ready(shared_file("topical_chat.json"))
    assert len(data.examples) == 240
    assert sorted(data.split.values()) == ["dev"] * 4 + ["test"] * 36
    assert sum(not example.context for example in data.examples) == 42
    for dimension, scale in data.scale.items():
        scores = [example.human[dimension] for example in data.examples]
        assert (min(scores), max(scores)) == scale
