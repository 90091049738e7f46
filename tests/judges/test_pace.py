"""Measuring reads whole batches of the plan, counts what is left, and changes nothing of what a run reads."""

import re
from pathlib import Path

import numpy as np
import pytest

from judgebench.judges.loop import Pace
from judgebench.report.dry_run import duration, pace_lines
from judgebench.results.folder import RunFolder

QUICK = ("logger=none", "metrics.resamples=0", "data.limit_groups=6", "report=false", "judge.token_budget=400")


def asked(pair):
    return ("judge=local", f"judge.path={pair[0]}", "assistant=model", f"assistant.path={pair[1]}", *QUICK)


def test_a_measured_run_reads_what_an_unmeasured_one_does(judgebench, tiny_pair):
    code, out, _ = judgebench(*asked(tiny_pair), "dry_run=measure", "run_dir=never")
    assert code == 0
    assert not Path("never").exists()
    told = re.findall(r"^(tiny-\w+): ([\d,]+) tokens are left, at [\d,]+ tokens a second", out, re.MULTILINE)
    assert [name for name, _ in told] == ["tiny-main", "tiny-assistant"]
    assert "Together: " in out
    judgebench(*asked(tiny_pair), "run_dir=measured")
    judgebench(*asked(tiny_pair), "run_dir=plain", "store=other.sqlite")
    runs = [RunFolder.open(name) for name in ("measured", "plain")]
    rows = [
        np.array([*run.read("readings")["main_logprobs"], *run.read("readings")["assistant_logprobs"]]) for run in runs
    ]
    assert (rows[0] == rows[1]).all()
    _, out, _ = judgebench(*asked(tiny_pair), "dry_run=measure", "run_dir=never")
    assert out.count("every reading is in the store") == 2


def test_what_is_left_and_what_was_read_are_the_tokens_of_the_dry_run(judgebench, tiny_pair):
    _, out, _ = judgebench(*asked(tiny_pair), "assistant=none", "dry_run=true")
    unique = int(re.findall(r"^ +all .* ([\d,]+) *$", out, re.MULTILINE)[0].replace(",", ""))
    _, out, _ = judgebench(*asked(tiny_pair), "assistant=none", "dry_run=measure")
    left = int(re.findall(r"([\d,]+) tokens are left", out)[0].replace(",", ""))
    assert 0 < left < unique


def test_seconds_are_those_of_the_trial_times_what_is_left():
    assert Pace("a", left=300, read=100, took=2.0).seconds == 6
    assert Pace("a", left=0, read=0, took=0.0).seconds == 0
    assert Pace("a", left=5, read=0, took=0.0).seconds is None
    lines = pace_lines([Pace("a", 300, 100, 2.0), Pace("b", 0, 0, 0.0)])
    assert lines[0] == "a: 300 tokens are left, at 50 tokens a second 6 s."
    assert lines[1] == "b: every reading is in the store."
    assert lines[2].startswith("Together: 6 s")


@pytest.mark.parametrize(("seconds", "told"), [(0, "under a second"), (86400, "1 d 0 h"), (61.7, "1 min 2 s")])
def test_durations_have_two_units(seconds, told):
    assert duration(seconds) == told
