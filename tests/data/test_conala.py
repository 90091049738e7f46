"""The embedded sample of CoNaLa: what its card says, its source, and the readings that come with it."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import judgebench

HERE = Path(judgebench.__file__).parent
FOLDER = HERE / "data" / "conala"
ROWS = [json.loads(line) for line in (FOLDER / "conala.jsonl").read_text("utf-8").splitlines()]
GRADES = [row["ratings"]["quality"] for row in ROWS]
RECORDED = HERE / "readings" / "recorded" / "qwen2.5-coder.parquet"
SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "tasks" / "code_conala.jsonl"
PAIR = os.environ.get("JUDGEBENCH_QWEN_PAIR")


def test_the_card_says_what_is_there():
    card = (FOLDER / "DATA_CARD.md").read_text("utf-8")
    groups, systems = Counter(row["group"] for row in ROWS), Counter(row["system"] for row in ROWS)
    assert (len(ROWS), len(groups), set(groups.values()), len(systems)) == (288, 48, {6}, 6)
    graders = {grader for grades in GRADES for grader in grades}
    counts = Counter(grade for grades in GRADES for grade in grades.values())
    assert (min(map(len, GRADES)), max(map(len, GRADES)), len(graders)) == (3, 8, 16)
    words = ("zeros", "ones", "twos", "threes", "fours")
    listed = ", ".join(f"{counts[grade]} {word}" for grade, word in enumerate(words))
    assert f"| {sum(counts.values()):,}: {listed} |" in card
    for system, number in re.findall(r"^\| `([\w-]+)`(?: \(the reference\))? \| ([\d.]+) \|$", card, re.MULTILINE):
        means = [np.mean(list(row["ratings"]["quality"].values())) for row in ROWS if row["system"] == system]
        assert f"{np.mean(means):.2f}" == number
    assert "Apache" in (FOLDER / "NOTICE").read_text("utf-8")


def test_texts_and_grades_are_those_of_the_source():
    if not SHARED.is_file():
        pytest.skip("../shared/data/tasks/code_conala.jsonl is not here")
    source = {(row["group"], row["system"]): row for row in map(json.loads, SHARED.read_text("utf-8").splitlines())}
    for row in ROWS:
        there = source[row["group"], row["system"]]
        assert {name: there[name] for name in row} == row


def test_the_recorded_readings_cover_every_snippet_in_four_ranges():
    frame = pd.read_parquet(RECORDED)
    assert RECORDED.stat().st_size < 2**21
    assert Counter(frame["range"]) == dict.fromkeys(("0-4", "1-5", "2-6", "3-7"), 288)
    assert set(frame["example_id"]) == {f"{row['group']}/{row['system']}" for row in ROWS}
    for column in ("main_logprobs", "assistant_logprobs"):
        mass = np.exp(np.stack(frame[column])).sum(axis=1)
        assert mass.max() <= 1 + 1e-3
        assert mass.mean() > 0.9, "the models answer with scores"


@pytest.mark.slow
@pytest.mark.skipif(
    not PAIR, reason="JUDGEBENCH_QWEN_PAIR does not name a folder with main/model.gguf and assistant/model.gguf"
)
def test_the_real_models_say_what_was_recorded(tmp_path, monkeypatch):
    """Twelve snippets in one range, by both models: the log-probabilities differ by rounding alone."""
    monkeypatch.chdir(tmp_path)
    models = [f"judge.path={PAIR}/main/model.gguf", "judge.dtype=float32", "assistant.dtype=float32"]
    models += ["judge=local", "assistant=model", f"assistant.path={PAIR}/assistant/model.gguf"]
    few = ["data=conala_sample", "data.limit_groups=2", "ranges=[[2,6]]", "data.dev_share=0"]
    results = judgebench.run([*few, *models, "decoding=[contrastive]", "logger=none", "report=false"])
    read = results.frame("readings").set_index("example_id")
    recorded = pd.read_parquet(RECORDED).query("range == '2-6'").set_index("example_id").loc[read.index]
    assert len(read) == 12
    for column in ("main_logprobs", "assistant_logprobs"):
        assert np.stack(read[column]) == pytest.approx(np.stack(recorded[column]), abs=2e-3)
