"""Ctrl-C in the middle of whatever takes long: a sentence says what is kept, and names the command that goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from judgebench.results.folder import RunFolder
from tests.command.test_cli import pair
from tests.conftest import left_of
from tests.faults.conftest import QUICK, SLOWLY, command_in, rows, trials
from tests.runs.test_adv_suffix import PLAIN, learning, phrase_of, steps


def interrupted(run):
    """Ends a run by Ctrl-C; what it says, which is one sentence and no traceback."""
    assert run.interrupt() == 130, run.said
    assert "Traceback" not in run.said
    assert run.said.count("judgebench: ") == 1
    return run.said


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_in_readings(judgebench, started, tiny_pair, by):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SLOWLY)
    run = started(*command, "+hydra.job.env_set.A_KEY=sk-planted-0123456789")
    run.reaches(lambda: rows("outputs/readings.sqlite"))
    os.kill(run.pid, by)
    assert run.ends() == 128 + by, run.said
    assert "Traceback" not in run.said
    assert run.said.count("judgebench: ") == 1
    assert "What was read and written so far is kept in outputs/readings.sqlite." in run.said
    assert left_of("run") == []
    before = rows("outputs/readings.sqlite")
    assert 0 < len(before) < 24, "it must fall into the reading"
    assert command_in(run.said) == [*command, "+hydra.job.env_set.A_KEY=***"]
    judgebench(*command_in(run.said))
    assert before.items() <= rows("outputs/readings.sqlite").items()
    assert len(RunFolder.open("run").read("readings")) == 24


def test_in_a_sweep_it_ends_the_sweep(judgebench, started, tiny_pair):
    swept = ("decoding.lambda=0.1,0.5,1", "decoding.temperature=1", "hydra.sweeper.storage=journal:a.journal")
    command = ("-m", *pair(tiny_pair), *QUICK, *SLOWLY, "data.dev_share=0.5", "decoding=[greedy,contrastive]")
    command = (*command, "+sweeps=cd_lambda_t", *swept)
    run = started(*command)
    run.reaches(lambda: rows("outputs/readings.sqlite"))  # in the first trial, where Lightning is at work
    said = interrupted(run)
    assert "kept in outputs/readings.sqlite, and the sweep's trials in journal:a.journal." in said
    assert not list(Path("run").glob("*/metrics.json"))
    before = rows("outputs/readings.sqlite")
    judgebench(*command_in(said))
    assert before.items() <= rows("outputs/readings.sqlite").items()
    assert [one["ended"] for one in trials("run") if one["state"] != "complete"] == ["lost"]
    assert sum(one["state"] == "complete" for one in trials("run")) == 3


def test_in_the_search_for_a_phrase(judgebench, started, tiny_pair, tmp_path):
    words = ("attacks.0.vocabulary=tokenizer", "+attacks.0.words=120", "attacks.0.length=3", "search=exhaustive")
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path), *words)
    command = (*command, "judge.max_batch_tokens=300")
    run = started(*command)
    run.reaches(lambda: "word_1" in steps("outputs"))
    said = interrupted(run)
    done = steps("outputs")
    assert "word_3" not in done, "it must fall into the search"
    judgebench(*command_in(said))
    assert phrase_of("run")["learned"]["steps_resumed"] == len(done)


@pytest.mark.parametrize(
    "whom",
    [
        pytest.param("all", marks=pytest.mark.exhaustive),
        pytest.param("the first", marks=pytest.mark.exhaustive),
        "the first, by SIGTERM",
    ],
)
def test_two_processes_both_end(command, tiny_pair, whom):
    two = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
    run = command("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SLOWLY, *two)
    run.reaches(lambda: rows("outputs/readings.sqlite"))
    ranks = psutil.Process(run.pid).children(recursive=True)
    assert ranks
    if whom == "all":  # as a terminal does
        interrupted(run)
    else:
        by, code = (signal.SIGTERM, 143) if "SIGTERM" in whom else (signal.SIGINT, 130)
        os.kill(run.pid, by)
        assert run.ends() == code, run.said
    assert not psutil.wait_procs(ranks, timeout=30)[1]
    assert left_of("run") == []


SENT = """
import os, sys, time
import judgebench.command.{module} as module

def work(*arguments):
    os.kill(os.getpid(), {signal})
    time.sleep(60)

module._work = work
sys.exit(module.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("module", "arguments", "by"),
    [
        ("store", ["verify", "readings.sqlite"], signal.SIGINT),
        ("store", ["verify", "readings.sqlite"], signal.SIGTERM),
        ("record", ["run", "out=readings.parquet"], signal.SIGINT),
        ("report", ["run"], signal.SIGINT),
        ("paper", ["run"], signal.SIGINT),
    ],
)
def test_in_a_command_without_hydra(tmp_path, module, arguments, by):
    program = SENT.format(module=module, signal=int(by))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run aside
    )
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (128 + by, "", False), done.stderr
    command = f"python -m judgebench {module} {' '.join(arguments)}"
    assert done.stderr.endswith(
        f"judgebench: interrupted. Nothing that was finished is lost. Go on with the same command: {command}\n"
    )
