"""Audits end to end: probes as conditions of the run, recorded answers, compared texts, users' mistakes."""

import json
from pathlib import Path

import pandas as pd

from judgebench.results.results import Results
from tests.conftest import QUICK, told
from tests.report.conftest import words_of

PROBED = ("audit=[all,mine.txt]", "ranges=[[1,5],[C,B,A]]", "decoding=[expectation]", "data.limit_groups=7")


def effects(folder="run"):
    return json.loads(Path(folder, "worth", "audit.json").read_text())


def test_probes_are_asked_alone_and_no_other_figure_is_about_them(judgebench, tiny_pair):
    Path("mine.txt").write_text("{text} Thank you.")
    judge = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "report=true")
    code, _, err = judgebench("+exp=audit", "data=mini", "dimensions=[coherence]", *judge, *PROBED)
    assert code == 0, err
    results = Results.load("run")
    # 1. one thing changes: probes are asked in the first range, with nothing beside them
    probes = results.probes
    names = set(probes["attack"]) | set(probes["defense"])
    assert {"none", "probe mine", "probe typos", "probe example_high"} < names
    assert ((probes["attack"] == "none") | (probes["defense"] == "none")).all()
    assert set(probes["range_max"]) == {5.0}
    for frame in (results.scores, results.readings, results.texts, pd.DataFrame(results.metrics)):
        assert set(frame["attack"]) <= {"none"}
        assert set(frame["defense"]) <= {"none"}
    # 2. the effect is the mean difference of the same texts
    first = [row for row in effects() if row["range_max"] == 5 and row["judge"] == "main"]
    by_factor = {row["factor"]: row for row in first}
    pair = [
        frame.set_index("example_id")["score"] for frame in (probes[probes["attack"] == "probe mine"], results.scores)
    ]
    clean = results.scores[results.scores["range_max"] == 5].set_index("example_id")["score"]
    difference = (pair[0] - clean).dropna().mean() / 4 * by_factor["mine"]["width"]
    assert abs(by_factor["mine"]["effect"] - difference) < 1e-9
    assert by_factor["names of scores"]["level"] == "C-A, not 1-5"
    assert by_factor["plain words"]["reason"] == "no text has Markdown"
    assert by_factor["wrong reference"]["reason"] == "the rubric shows no reference, or the data has none"
    assert "steady" in {row["use"] for row in results.verdict}
    page = Path("run/report.html").read_text("utf-8")
    assert "What else moves it?" in page


def test_what_probes_have_cost_is_shown_without_a_study_of_agreement(judgebench, tiny_pair):
    judge = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "decoding=[expectation]", "data.limit_groups=7")
    code, _, err = judgebench(*judge, "audit=[typos]", "human_agreement=false", "ranges=[[1,5]]")
    assert code == 0, err
    assert [row["texts"] for row in effects() if row["factor"] == "typos" and row["judge"] == "main"] != [None]


def test_recorded_answers_are_audited_by_what_varies(judgebench):
    code, out, err = judgebench("+exp=audit", "metrics.resamples=60", "run_dir=run", "report=false")
    assert code == 0, err
    assert "moved by" in out
    assert "steady no" in words_of(out)
    rows = [row for row in effects() if row["range_max"] == 4 and row["judge"] == "main"]
    by_factor = {row["factor"]: row for row in rows}
    assert by_factor["typos"]["reason"].startswith("the judge's answers are recorded")
    assert by_factor["length"]["groups"] == 48
    assert not Path("run/worth/probes.parquet").exists()


def test_the_order_of_a_pair_is_an_effect(judgebench, tiny_pair):
    judge = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "decoding=[expectation]", "data.limit_groups=10")
    code, _, err = judgebench(*judge, "prompt=comparative", "audit=[whitespace]", "ranges=[[1,2]]")
    assert code == 0, err
    rows = {row["factor"]: row for row in effects() if row["judge"] == "main"}
    scores = Results.load("run").scores
    scores = scores[scores["split"] == "test"]
    difference = (scores["score_first"] - scores["score_second"]).mean()
    assert abs(rows["order of a pair"]["effect"] - difference) < 1e-9
    assert rows["whitespace"]["width"] == 1


def test_mistakes_are_told(judgebench):
    told(judgebench("audit=typos", mistaken=True), "audit: 'typos' is no list")
    Path("mine.txt").write_text("{text}!")
    told(judgebench("attacks=[{name: probe mine, template: mine.txt}]", mistaken=True), "begins with 'probe '")
    told(judgebench("audit=[nothing]", mistaken=True), "there is no probe 'nothing'")
    told(judgebench("audit=[all]", "defenses=[sandwich]", mistaken=True), "probes are asked without a defense")
