"""Recorded readings as a judge: which row answers which prompt, what is refused, and files that nobody should trust."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from judgebench.judges.assistants import Assistant, recorded_assistant
from judgebench.judges.precomputed.recorded import PlainJudge, RecordedSpec, answer_row
from judgebench.readings.reading import (
    AXES,
    SCHEMA,
    Recording,
    prompt_digest,
    write_recording,
)
from judgebench.types import Condition, Example, Generation, Prompt, ScoreRange
from judgebench.words.errors import UserError

NARROW, WIDE = Condition("coherence", ScoreRange(1, 3)), Condition("coherence", ScoreRange(0, 1, 0.5))
ATTACKED = replace(NARROW, attack="dsi")
EXAMPLES = [Example(f"{g}{s}", g, s, f"Article {g}.", f"Text {g}{s}.", {"coherence": 1.0}) for g in "ab" for s in "xyz"]
SPLIT = {"a": "test", "b": "test"}
KEY = b"judgebench"


def prompts(*conditions: Condition, asked: str = "Rate") -> list[Prompt]:
    nothing = np.zeros(0, np.int32)
    return [Prompt(one, c, f"{asked} {c}: ", one.output, nothing) for c in conditions for one in EXAMPLES]


def row(prompt: Prompt, **more) -> dict:
    chances = np.log(np.arange(1, 4, dtype=np.float32) / 8).tolist()
    held = dict.fromkeys(SCHEMA.names) | {axis: str(getattr(prompt.condition, axis)) for axis in AXES}
    held |= {
        "example_id": prompt.example.example_id,
        "candidates": list(prompt.condition.range.candidates),
        "seconds": 0.5,
        "main_logprobs": chances,
    }
    return held | {"assistant_logprobs": chances[::-1], "prompt_sha256": prompt_digest(prompt)} | more


def about(rows: list[dict], **more) -> dict:
    models = {"main": {"title": "large", "sha256": "ab" * 32}, "assistant": {"title": "small", "sha256": "cd" * 32}}
    made = {"judgebench": "0.1.0", "git_commit": "0123456789abcdef", "git_changed": False, "device": "cpu"}
    known = {"mode": "score_tokens", "compares": False, "models": models, "left_out": [], "made_with": made}
    known |= {"assistant": {"kind": "model", "title": "small"}, "date": "2026-01-31", "command": "python -m judgebench"}
    known |= {"data": {"name": "mine", "examples": 6}, "config": {"judge": {"path": "owner/large"}}}
    return known | {"conditions": [{axis: row[axis] for axis in AXES[:4]} for row in rows[:1]]} | more


@pytest.fixture
def written(tmp_path):
    """Rows and metadata -> the path of a file with them."""

    def call(rows: list[dict], **more) -> str:
        path = tmp_path / "held.parquet"
        write_recording(path, rows, about(rows, **more))
        return str(path)

    return call


def answers(path: str, *conditions: Condition, **more):
    return RecordedSpec(path).answers(prompts(*conditions, **more), SPLIT, "mine")


def told(path: str, *conditions: Condition, **more) -> str:
    with pytest.raises(UserError) as error:
        answers(path, *conditions, **more)
    return str(error.value)


def test_every_prompt_finds_its_own_row(written):
    rows = [row(prompt, seconds=float(i)) for i, prompt in enumerate(prompts(NARROW, WIDE, ATTACKED))]
    path = written(rows[::-1])
    found = answers(path, WIDE, ATTACKED)
    order = {(held["example_id"], held["range"], held["attack"]): held["seconds"] for held in rows}
    for prompt in prompts(WIDE, ATTACKED):
        (held,) = found.to(prompt)
        condition = prompt.condition
        assert held["seconds"] == order[prompt.example.example_id, str(condition.range), condition.attack]
    assert found.note.startswith(
        "Scored: 12 of the 18 rows of held.parquet. Rows under conditions that are not judged: 6"
    )
    spec = RecordedSpec(path)
    assert (spec.source.title, spec.name) == ("large", "owner/large")
    assert spec.note == (
        "The readings are recorded: large (SHA-256 abababababab...) with small (SHA-256 cdcdcdcdcdcd...) read mine on "
        "2026-01-31 with judgebench 0.1.0 (commit 0123456789ab)."
    )


def test_what_is_missing_or_foreign_is_told(written):
    rows = [row(prompt) for prompt in prompts(NARROW)]
    stranger = row(prompts(NARROW)[0], example_id="stranger")
    found = answers(written([*rows[1:], stranger]), NARROW)
    assert "Rows whose example the data does not have: 1 (stranger)." in found.note
    assert "Examples without a row, left out: 1 (ax)." in found.note
    assert len(found.answered(prompts(NARROW))) == 5
    assert "no row of held.parquet answers under coherence, 1-3, attack dsi" in told(written(rows), NARROW, ATTACKED)
    assert told(written([stranger]), NARROW).endswith(
        "calls its example 'stranger', and the first example of the data is 'ax'; the fields that hold these names "
        "(judge.fields, data.fields) must fit each other."
    )


def test_a_rubric_text_or_scale_that_was_not_read_is_refused(written):
    rows = [row(prompt) for prompt in prompts(NARROW)]
    path = written(rows)
    sentence = told(path, NARROW, asked="Grade")
    assert "6 of 6 prompts are not what was read, the first of them about example ax (coherence, 1-3)" in sentence
    assert "rubric or data have changed since held.parquet was recorded (data mine" in sentence
    assert "1 of 6 prompts" in told(written([*rows[:5], rows[5] | {"prompt_sha256": b"x" * 32}]), NARROW)
    assert "6 of 6" in told(written([one | {"candidates": ["1", "2", "4"]} for one in rows]), NARROW)


def test_texts_that_were_compared_are_no_texts_judged_alone(written):
    ordered = [replace(NARROW, order=order) for order in ("first", "second")]
    rows = [row(prompt) for prompt in prompts(*ordered)]
    path = written(rows, compares=True)
    assert len(answers(path, *ordered).given) == 12
    assert "has readings of texts that were compared, and this run asks for texts that were judged" in told(
        path, NARROW
    )
    alone = written([row(prompt) for prompt in prompts(NARROW)])
    assert "has readings of texts that were judged alone" in told(alone, *ordered)
    assert "no pair of texts has an answer in both orders" in told(written(rows[:6], compares=True), *ordered)


def test_answers_are_told_apart_by_who_gave_them_how():
    plain = {"main_logprobs": None, "text": "3", "judge": "main", "lambda": None, "temperature": None}
    pair = plain | {"text": "4", "judge": "pair", "lambda": 0.5, "temperature": 1.0}
    scored = plain | {"text": None, "judge": None, "main_logprobs": [0.0]}
    rows = [pair, plain, scored]
    assert answer_row(rows, None) is scored
    assert answer_row(rows, Generation("main", "greedy")) is plain
    assert answer_row(rows, Generation("pair", "mine", 0.5, 1.0)) is pair
    assert answer_row(rows, Generation("pair", "mine", 0.4, 1.0)) is None
    assert answer_row([plain], None) is None


def test_the_assistant_is_the_one_of_the_file(written):
    rows = [row(prompt) for prompt in prompts(NARROW)]
    held = recorded_assistant(written(rows))
    assert (held.kind, held.title, held.answers) == ("recorded", "small", True)
    silent = recorded_assistant(written(rows, assistant={"kind": "null_context", "title": "null context"}))
    assert (silent.title, silent.answers) == ("null context", False)
    assert recorded_assistant(written(rows, assistant={"kind": "none", "title": None})) == Assistant()
    assert {PlainJudge().source.title, PlainJudge().note} == {"plain text", None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"main_logprobs": [-1.0, -2.0]}, "row 1: main_logprobs has 2 numbers for 3 candidates"),
        ({"main_logprobs": [-0.1, -0.1, -0.1]}, "row 1: main_logprobs are no log-probabilities"),
        ({"assistant_logprobs": [float("nan")] * 3}, "row 1: assistant_logprobs are no log-probabilities"),
        ({"main_logprobs": None}, "row 1: it holds neither log-probabilities nor an answer"),
        ({"example_id": None}, "row 1: example_id is missing"),
        ({"seconds": float("inf")}, "row 1: seconds is not a number"),
        ({"example_id": "ay"}, "example 'ay' (coherence, 1-3) is there twice"),
    ],
)
def test_a_row_that_no_model_gives_is_named(written, change, message):
    rows = [row(prompt) for prompt in prompts(NARROW)]
    sentence = told(written([rows[0] | change, *rows[1:]]), NARROW)
    assert message in sentence
    assert "the file is damaged, so get it again" in sentence


def changed(path: str, metadata: object = None, drop: str | None = None) -> str:
    """The file with other metadata, or without a column."""
    table = pq.read_table(path)
    table = table if drop is None else table.drop_columns(drop)
    text = metadata if isinstance(metadata, bytes | None) else json.dumps(metadata).encode()
    pq.write_table(table if metadata is None else table.replace_schema_metadata({KEY: text}), path)
    return path


def refused(path: str) -> str:
    with pytest.raises(UserError) as error:
        Recording.open(path)
    assert len(str(error.value).splitlines()) == 1
    assert "\x1b" not in str(error.value)
    return str(error.value)


def test_a_file_that_is_no_recording_is_one_sentence(written, tmp_path):
    rows = [row(prompt) for prompt in prompts(NARROW)]
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"example_id": ["ax"]}), foreign)
    assert "these are no recorded readings; give a file that `python -m judgebench record" in refused(str(foreign))
    whole = Path(path := written(rows)).read_bytes()
    assert "these are no recorded readings" in refused(changed(path, drop="seconds"))
    Path(path).write_bytes(whole[:4] + bytes(596) + whole[600:])
    assert "get it again" in told(path, NARROW), "a damaged column"
    for name, content in (("cut", whole[:-40]), ("empty", b""), ("text", b"PAR1 and so on"), ("torn", whole[:200])):
        (tmp_path / f"{name}.parquet").write_bytes(content)
        assert "cannot be read as recorded readings" in refused(str(tmp_path / f"{name}.parquet"))
    assert "this is a folder" in refused(str(tmp_path))
    assert "there is no such file" in refused("nothing")


def test_metadata_of_anybodys_is_data(written):
    rows = [row(prompt) for prompt in prompts(NARROW)]
    good = about(rows)
    format_ = json.loads(pq.read_schema(written(rows)).metadata[KEY])["format"]
    cases = [
        (b"not json", "not valid JSON"),
        ([1], "[1] should be a valid mapping"),
        ({**good, "format": "judgebench recorded readings 9"}, "its format is 'judgebench recorded readings 9'"),
        ({**good, "format": format_, "models": {}}, "models.main is not given"),
        ({**good, "format": format_, "conditions": "all"}, "conditions: 'all' should be a valid list"),
        ({**good, "format": format_, "mode": "other"}, "its metadata cannot be a recording's; do not use this file"),
        ({**good, "format": format_, "command": "\x1b[2J"}, "its metadata cannot be a recording's"),
        ({**good, "format": format_, "config": {"a": "x" * 5000}}, "its metadata cannot be a recording's"),
    ]
    for metadata, message in cases:
        assert message in refused(changed(written(rows), metadata)), message
    page = changed(written(rows), {**good, "format": format_, "models": {"main": {"title": "<script>"}}})
    assert Recording.open(page).title == "<script>", "what is shown is escaped where it is shown"


def test_settings_that_cannot_be_are_told(written):
    with pytest.raises(UserError) as error:
        RecordedSpec(written([row(prompt) for prompt in prompts(NARROW)]), mode="talk")
    assert "judge.mode: 'talk' should be 'score_tokens' or 'generate'." in error.value.sentences
    with pytest.raises(UserError, match="name the file of recorded readings"):
        RecordedSpec(" ")
