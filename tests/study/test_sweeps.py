"""The studies of sweeps/ end to end, with tiny real models."""

import json
from pathlib import Path

import pytest
import yaml

from judgebench.results.folder import RunFolder
from tests.conftest import pair
from tests.tracking.wandb_file import read_finished, the_file

QUICK = ("data.limit_groups=6", "data.dev_share=0.5", "decoding=[greedy,contrastive]", "run_dir=run")
QUICK += ("metrics.resamples=20", "human_agreement=false")
RANGES = "ranges=[[1,5],[0,4]]"


def test_the_papers_grid_is_one_command(judgebench, tiny_pair):
    command = ("-m", *pair(tiny_pair), *QUICK, RANGES, "+sweeps=cd_lambda_t", "logger=none")
    code, out, err = judgebench(*command)
    assert code == 0, err
    lines = [line for line in out.splitlines() if line.startswith("trial ")]
    assert len(lines) == 24
    assert "decoding.lambda=0.01 decoding.temperature=0.5" in lines[0]
    assert out.splitlines()[-1] == "run"
    study = json.loads(Path("run/study.json").read_text())
    assert [trial["state"] for trial in study["trials"]] == ["complete"] * 24
    # every number is what the trial's own folder says
    for trial in study["trials"][::5]:
        records = RunFolder.open(f"run/{trial['number']}").read("metrics")
        dev = [r["spearman"] for r in records if r["split"] == "dev" and r["judge"] == "pair"]
        assert len(dev) == 2
        assert trial["values"] == [pytest.approx(sum(dev) / 2)]
        assert records[-1]["lambda"] == trial["params"]["decoding.lambda"]
        assert not Path(f"run/{trial['number']}/report.html").exists()
        assert [cell["dev"] for cell in trial["attributes"]["cells"]] == dev
    # only lambda / t matters: of the 24 decodings, 18 are distinct
    by_kappa: dict[float, set[float]] = {}
    for trial in study["trials"]:
        kappa = round(trial["params"]["decoding.lambda"] / trial["params"]["decoding.temperature"], 9)
        by_kappa.setdefault(kappa, set()).add(trial["values"][0])
    assert len(by_kappa) == 18
    assert all(len(values) == 1 for values in by_kappa.values())
    summary = json.loads(Path("run/sweep.json").read_text())
    assert [(cell["range_min"], cell["range_max"]) for cell in summary["cells"]] == [(1.0, 5.0), (0.0, 4.0)]
    assert {path.name for path in Path("run/figures").iterdir()} == {
        f"dev_spearman_coherence_{ends}.{kind}" for ends in ("1-5", "0-4") for kind in ("png", "svg")
    }


def test_trials_are_one_group_on_wandb_with_a_summary(judgebench, tiny_pair):
    swept = ("decoding.lambda=0.1,1", "decoding.temperature=1,2", "hydra.sweeper.n_trials=2")
    swept = (*swept, "hydra.sweeper.study_name=ours")
    code, _, err = judgebench("-m", *pair(tiny_pair), *QUICK, "+sweeps=cd_lambda_t", *swept)
    assert code == 0, err
    for number in range(2):
        config = yaml.safe_load(Path(f"run/{number}/config.yaml").read_text())
        assert config["logger"]["group"] == "ours"
        assert len(list(Path(f"run/{number}/wandb").glob("offline-run-*"))) == 1
    logged = read_finished(the_file(Path("run/wandb")))
    assert logged.exit_code == 0
    assert "figures/dev_spearman_coherence_1-5" in {**logged.summary, **logged.history}
    assert "best/dev/coherence/1-5/spearman" in logged.summary
    assert logged.config["logger"]["group"] == "ours"


def test_a_plain_multirun_is_summarized_alike(judgebench, tiny_pair):
    swept = ("decoding.lambda=0.1,1", "report=false", "metrics.resamples=0", "logger=none")
    code, out, err = judgebench("-m", *pair(tiny_pair), *QUICK, *swept)
    assert code == 0, err
    assert "best Spearman on dev of 2 trials" in out
    assert out.splitlines()[-1] == "run"
    assert len(json.loads(Path("run/sweep.json").read_text())["all"]) == 2


def test_a_search_is_kept_and_gone_on_with(judgebench, tiny_pair):
    given = ("+sweeps=cd_lambda_t_tpe", "logger=none", "hydra.sweeper.storage=sqlite:///studies.db")
    command = ("-m", *pair(tiny_pair), *QUICK, *given)
    judgebench(*command, "hydra.sweeper.n_trials=1")
    code, out, err = judgebench(*command, "hydra.sweeper.n_trials=2")
    assert code == 0, err
    assert "2 trials, 1 of them there already" in out
    trials = json.loads(Path("run/study.json").read_text())["trials"]
    assert len({trial["params"]["decoding.lambda"] for trial in trials}) == 2
    assert all(Path(trial["attributes"]["run_dir"], "metrics.json").is_file() for trial in trials)


def test_two_objectives(judgebench, tiny_pair):
    entry = "{{judge: pair, decoding: contrastive, range: {}}}"
    given = (
        f"objective=[{entry.format('[1,5]')},{entry.format('[0,4]')}]",
        "hydra.sweeper.direction=[maximize,maximize]",
    )
    command = ("-m", *pair(tiny_pair), *QUICK, RANGES, "logger=none", "hydra/sweeper=optuna", "decoding.lambda=0,4")
    grid = "hydra.sweeper.sampler._target_=optuna.samplers.GridSampler"
    code, _, err = judgebench(*command, *given, grid, "report=false", "metrics.resamples=0")
    assert code == 0, err
    study = json.loads(Path("run/study.json").read_text())
    assert all(len(trial["values"]) == 2 for trial in study["trials"])
    assert study["front"]


@pytest.mark.parametrize(
    ("mistake", "line", "end"),
    [
        (
            "decoding.temperature=0,-1",
            "failed: decoding.temperature: 0 is not above 0",
            "judgebench: 3 of 8 trials failed",
        ),
        ("objective=[{judge: pair, decoding: nobody}]", "no record matches entry 1", "judgebench: "),
        ("data.dev_share=0", "data.dev_share=0 leaves none; give it a share of the groups", "judgebench: "),
        ("dry_run=true", "or leave out -m and +sweeps=cd_lambda_t to see what", "judgebench: dry_run=true: a dry run"),
    ],
)
def test_a_users_mistake_in_every_trial_is_one_sentence_in_the_end(judgebench, tiny_pair, mistake, line, end):
    command = ("-m", *pair(tiny_pair), *QUICK, "+sweeps=cd_lambda_t", "logger=none", mistake)
    code, out, err = judgebench(*command, mistaken=True)
    assert code == 2
    assert line in out + err
    assert err.startswith(end)
    assert "Traceback" not in out + err


@pytest.mark.parametrize("order", [1, -1])
def test_a_sweep_decides_what_is_tuned_wherever_it_stands(judgebench, order):
    given = ["+exp=cd_qwen", "+sweeps=cd_lambda_t"][::order]
    assert yaml.safe_load(judgebench(*given, "--cfg", "job")[1])["tune"] is None


TWO = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
REFUSED = {
    # words of the command, and its sentence
    "one run of a sweep": (
        ["+sweeps=cd_lambda_t"],
        "this is a sweep of decoding.lambda, decoding.temperature, and one run would try none of it",
    ),
    "of another": (["+sweeps=early_exit_layer"], "this is a sweep of assistant.layer"),
    "without a name": (["hydra/sweeper=optuna"], "add -m"),
    "several processes": (["-m", *TWO, "+sweeps=cd_lambda_t"], "read in one process, and this trainer has 2"),
    "of jobs": (["-m", *TWO, "decoding.lambda=0.1,1"], "read in one process, and this trainer has 2"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_sweep_that_cannot_be_is_refused_before_it_begins(judgebench, tiny_pair, words):
    given, sentence = REFUSED[words]
    code, _, err = judgebench(*given, *pair(tiny_pair), *QUICK, "logger=none", mistaken=True)
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("judgebench: ")]
    assert sentence in line
    assert "-m" in given or len(err.splitlines()) == 1
    assert list(Path().iterdir()) == []


def test_a_tuning_that_the_sweep_would_pass_over_is_refused(judgebench, tiny_pair):
    sweep = ("-m", "+sweeps=cd_lambda_t", "hydra.sweeper.max_failure_rate=0")
    code, _, err = judgebench(*sweep, *pair(tiny_pair), *QUICK, "tune=dev", "logger=none", mistaken=True)
    assert code == 2
    assert "tune=dev: the sweep that is taken too sets tune=none" in err
    assert "Traceback" not in err


def test_a_tuning_that_says_the_same_is_no_mistake(judgebench, tiny_pair):
    few = ("decoding.lambda=0.1", "decoding.temperature=1,2", "hydra.sweeper.n_trials=1")
    judgebench("-m", *pair(tiny_pair), *QUICK, "tune=none", "+sweeps=cd_lambda_t", *few, "logger=none")


def test_a_job_of_several_processes_is_refused(judgebench, tiny_pair):
    # the trainer itself is swept, so that the multirun cannot know before
    given = ("trainer.accelerator=cpu", "+trainer.strategy=ddp", "trainer.devices=1,2", "report=false", "logger=none")
    code, out, err = judgebench("-m", *pair(tiny_pair), *QUICK, *given, "metrics.resamples=0", mistaken=True)
    assert code == 2
    assert "this trainer has 2" in out + err
    assert Path("run/0/metrics.json").is_file()
    assert not Path("run/1").exists()
