"""The embedded data sets: `mini` is what its script builds, `conala_sample` what its card says, with its readings."""

import doctest
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import judgebench
from judgebench.data.benchmarks import Mini

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "judgebench" / "data"
SCRIPT = ROOT / "scripts" / "build_mini.py"
RECORDED = ROOT / "judgebench" / "readings" / "recorded" / "qwen2.5-coder.parquet"
PAIR = os.environ.get("JUDGEBENCH_QWEN_PAIR")


def _load_script():
    spec = importlib.util.spec_from_file_location("build_mini_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rows_of(name):
    return [json.loads(line) for line in (DATA / name / f"{name}.jsonl").read_text("utf-8").splitlines()]


build_mini = _load_script()
ARTICLES = build_mini.load_articles()
CONALA = rows_of("conala")
GRADES = [row["ratings"]["quality"] for row in CONALA]


def test_mini_passes_every_check_and_splits():
    data = Mini(limit_groups=2, dev_share=0.5, seed=3)
    data.setup()
    assert data.name == "mini"
    assert data.scale == dict.fromkeys(("coherence", "consistency", "fluency", "relevance", "joint"), (1.0, 5.0))
    assert sorted(data.split.values()) == ["dev", "test"]


def test_mini_is_a_fresh_build_whatever_the_process(tmp_path, capsys):
    """A fresh interpreter with another hash seed and no third-party packages builds the same bytes."""
    out = tmp_path / "mini.jsonl"
    command = [sys.executable, "-I", "-S", str(SCRIPT), "--out", str(out)]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    assert out.read_bytes() == (DATA / "mini" / "mini.jsonl").read_bytes()
    assert build_mini.main(["--check", "--out", str(out)]) == 0
    out.write_bytes(out.read_bytes().replace(b"Tallowford", b"Tallowfort", 1))
    assert build_mini.main(["--check", "--out", str(out)]) == 1
    assert "is not what" in capsys.readouterr().err
    assert doctest.testmod(build_mini).failed == 0


def test_each_construction_hurts_what_it_should_and_the_card_says_so():
    rows = rows_of("mini")
    assert len({row["output"] for row in rows}) == len(rows) == 72
    human = {(row["group_id"], row["system_id"]): row["human"] for row in rows}
    worst = {"shuffled": "coherence", "swapped": "consistency", "garbled": "fluency", "lead": "relevance"}
    for article in ARTICLES:
        assert set(human[article.id, "faithful"].values()) == {5.0}
        for system, dimension in worst.items():
            assert human[article.id, system][dimension] <= 3.0
    card = (DATA / "mini" / "DATA_CARD.md").read_text("utf-8")
    assert build_mini.score_table(ARTICLES) in card
    assert "**No human rated these texts.**" in card


def test_the_card_of_conala_says_what_is_there():
    card = (DATA / "conala" / "DATA_CARD.md").read_text("utf-8")
    groups, systems = Counter(row["group"] for row in CONALA), Counter(row["system"] for row in CONALA)
    assert (len(CONALA), len(groups), set(groups.values()), len(systems)) == (288, 48, {6}, 6)
    counts = Counter(grade for grades in GRADES for grade in grades.values())
    assert (min(map(len, GRADES)), max(map(len, GRADES)), len(set().union(*GRADES))) == (3, 8, 16)
    words = ("zeros", "ones", "twos", "threes", "fours")
    listed = ", ".join(f"{counts[grade]} {word}" for grade, word in enumerate(words))
    assert f"| {sum(counts.values()):,}: {listed} |" in card
    for system, number in re.findall(r"^\| `([\w-]+)`(?: \(the reference\))? \| ([\d.]+) \|$", card, re.MULTILINE):
        means = [np.mean(list(row["ratings"]["quality"].values())) for row in CONALA if row["system"] == system]
        assert f"{np.mean(means):.2f}" == number
    assert "Apache" in (DATA / "conala" / "NOTICE").read_text("utf-8")


def test_texts_and_grades_of_conala_are_those_of_the_source(shared_file):
    lines = Path(shared_file("tasks/code_conala.jsonl")).read_text("utf-8").splitlines()
    source = {(row["group"], row["system"]): row for row in map(json.loads, lines)}
    for row in CONALA:
        there = source[row["group"], row["system"]]
        assert {name: there[name] for name in row} == row


def test_the_recorded_readings_cover_every_snippet_in_four_ranges():
    frame = pd.read_parquet(RECORDED)
    assert RECORDED.stat().st_size < 2**21
    assert Counter(frame["range"]) == dict.fromkeys(("0-4", "1-5", "2-6", "3-7"), 288)
    assert set(frame["example_id"]) == {f"{row['group']}/{row['system']}" for row in CONALA}
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
