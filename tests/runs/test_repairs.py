"""Which repair helps, and which setting to take: `+exp=repairs` on the recorded judge, alone and over tasks."""

import json
from pathlib import Path

import pytest

from tests.report.conftest import words_of

QUICK = ("metrics.resamples=60", "metrics.levels=[dataset]", "tune.repeats=1", "run_dir=run")


def test_tasks_end_in_one_league(judgebench):
    given = (
        "assistant=recorded",
        "print=all",
        "decoding=[expectation,greedy]",
        "report=false",
        "human_agreement=false",
    )
    code, out, err = judgebench("+exp=[tasks,repairs]", *given, *QUICK)
    assert code == 0, err
    assert "task Spearman conala_sample 0.69 [0.60, 0.77]" in words_of(out)  # without a verdict
    assert "conala_sample, quality: take main, expectation in range 3-7" in words_of(out)
    assert "Which repair helps?" in Path("run/tasks.html").read_text("utf-8")
    silent = judgebench("+exp=[tasks,repairs]", *given, *QUICK, "print=none")[1]
    assert silent.partition("Task 1 of 1: conala_sample")[2].split() == ["run/0", "run/tasks.html", "run"]
    (choice,) = (json.loads(path.read_text()) for path in Path("run").rglob("choice.json"))
    assert {record["readings"] for record in choice} == {1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["baseline=median", "decoding=[expectation]"], "baseline: 'median' is no decoding here that scores"),
        (["baseline=contrastive"], "there are expectation, greedy, median"),
        (["baseline=range_mean"], "baseline: 'range_mean'"),
        (["baseline=3"], "baseline: 3 should be"),
        (["judge=replay", "judge.path=x.jsonl", "decoding=[greedy]"], "there are greedy; take baseline=greedy."),
        (["decoding=[ridge_ranges]"], "decoding: there is no decoding 'ridge_ranges'; "),
        (["decoding=[{_target_: mine.X}]"], "decoding takes names of its choices; a class of your own stands next"),
    ],
)
def test_a_plain_decoding_that_is_none_is_refused(judgebench, given, said):
    code, _, err = judgebench("+exp=repairs", *given, *QUICK, mistaken=True)
    assert code == 2
    assert said in " ".join(err.split())
    assert not Path("run").exists()
