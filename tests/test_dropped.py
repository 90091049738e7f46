"""Names of earlier versions, each with one sentence that says what to use instead."""

import sys
from pathlib import Path

import pytest

from judgebench.commands import main
from judgebench.runtime.dropped import DROPPED, dropped

ASKED = [
    (["store=parquet:outputs/readings"], "store=parquet:outputs/readings: Parquet stores are dropped; readings are"),
    (["judge=panel", "judge.members=[a]", "judge.combine=rank"], "judge.combine=rank: is dropped; take"),
    (["decoding=[expectation,trimmed]"], "decoding=trimmed: is dropped; take decoding=[expectation]"),
    (["tune=crossfit", "tune.metric=stability"], "tune.metric=stability: is dropped; take tune.metric=spearman"),
    (["+decoding.mine={_target_: judgebench.decoding.Plausible}"], "judgebench.decoding.Plausible: is dropped; take"),
    (["tune=crossfit", "tune.metric=rps"], "tune.metric=rps: is dropped; take tune.metric=error"),
    (["judge=vllm", "judge.explicit=sglang"], "judge.explicit=sglang: is dropped; take judge.explicit=null"),
    (["dry_run=measure"], "dry_run=measure: is dropped; take dry_run=true"),
    (["trainer=tensor_parallel"], "trainer=tensor_parallel: is dropped; take trainer=fsdp"),
    (["tune=exact"], "tune=exact: is dropped; take tune=dev"),
    (["tune=dev", "tune._target_=judgebench.tuning.Exact"], "judgebench.tuning.Exact: is dropped; take tune=dev"),
    (["+sweeps=cd_lambda_t", "hydra.sweeper.heartbeat=1"], "hydra.sweeper.heartbeat: is dropped; after a kill"),
    (["+sweeps=cd_lambda_t", "hydra.sweeper.retry_failed=true"], "hydra.sweeper.retry_failed: is dropped; take"),
    (["+sweeps=cd_kappa_exact"], "sweeps=cd_kappa_exact: is dropped; take tune=dev without a sweep"),
]
"""Overrides of a run, and what their sentence begins with."""


@pytest.mark.parametrize(("overrides", "beginning"), ASKED, ids=lambda given: given[-1][:40])
def test_a_run_that_asks_for_it_is_refused_in_one_sentence(judgebench, overrides, beginning):
    code, _, err = judgebench("data=conala_sample", "logger=none", *overrides, "run_dir=no", mistaken=True)
    assert (code, Path("no").exists()) == (2, False)
    assert err.count("\n") == 1, err
    assert err.startswith(f"judgebench: {beginning}")


def test_a_command_that_is_gone_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["judgebench", "plan", "run", "within=0.2"])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, capsys.readouterr().err) == (2, f"judgebench: {dropped('judgebench plan')}\n")


def test_every_sentence_says_what_to_use():
    for name in DROPPED:
        assert str(dropped(name)).endswith(".")
        assert not DROPPED[name].endswith(".")
    assert dropped("judge.members[12].card") == f"judge.members[12].card: is dropped; {DROPPED['judge.members.card']}."
    assert dropped("judge.members") is None
