"""Ctrl-C, SIGTERM and kill -9 in the middle of whatever takes long: the same command goes on, and ends where an
undisturbed run does.

What is lost is what was under way, a batch, a word or a trial; what was finished is not done again. Who is interrupted
says so in a sentence, with what is kept and the command that goes on; who is killed says nothing.
"""

import json
import os
import signal
from pathlib import Path

import pandas as pd
import psutil
import pytest

from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from tests.conftest import QUICK, left_of, pair
from tests.faults.conftest import SLOWLY, command_in, rows, trials
from tests.runs.test_adv_suffix import PLAIN, agrees, learning, phrase_of, steps

TUTOR = (
    *("tutor=judge", "tutor.max_new_tokens=6", "tutor.candidates=12", "tutor.alpha_high=1", "tutor.alpha_low=1"),
    *("prompt=cap", "dimensions=[joint]", "defenses=[none,cap]", "decoding=[expectation]", "data.dev_share=0.5"),
)


def interrupted(run, by=signal.SIGINT):
    """What a run says that is ended by a signal: one sentence, and no traceback."""
    os.kill(run.pid, by)
    assert run.ends() == 128 + by, run.said
    assert "Traceback" not in run.said
    assert run.said.count("judgebench: ") == 1
    return run.said


def same_readings(one, other):
    readings = [RunFolder.open(name).read("readings").drop(columns="seconds") for name in (one, other)]
    return readings[0].equals(readings[1])


def test_in_readings(judgebench, started, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "data.limit_groups=6", *SLOWLY)
    given = (*given, "store=a/readings.sqlite")
    before, command = {}, (*given, "+hydra.job.env_set.A_KEY=sk-planted-0123456789")
    for by in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        run = started(*command)
        run.reaches(lambda before=before: len(rows("a/readings.sqlite")) > len(before))
        if by == signal.SIGKILL:
            run.kill()
            assert {path.name for path in Path("run").iterdir()} == {".lock", "run.log"}
        else:
            said = interrupted(run, by)
            assert "What was read and written so far is kept in a/readings.sqlite." in said
            assert left_of("run") == []
            command = command_in(said)
            assert command == [*given, "+hydra.job.env_set.A_KEY=***"]
        kept = rows("a/readings.sqlite")
        assert len(before) < len(kept) < 36, "it must fall into the reading"
        assert before.items() <= kept.items()
        before = kept
    judgebench(*command)
    judgebench(*given, "store=b/readings.sqlite", "run_dir=undisturbed")
    after = rows("a/readings.sqlite")
    assert before.items() <= after.items()
    assert len(after) == 36
    assert same_readings("run", "undisturbed")
    assert RunFolder.open("run").read("scores").equals(RunFolder.open("undisturbed").read("scores"))
    assert not Path("run/.lock").exists()


def test_while_references_are_written(judgebench, started, tiny_pair):
    model = ("judge=local", f"judge.path={tiny_pair[0]}", "judge.dtype=float32")
    command = (*model, *QUICK, *TUTOR, "store=a/readings.sqlite")
    run = started(*command)
    run.reaches(lambda: any(text is not None for _, text, _ in rows("a/readings.sqlite").values()))
    run.kill()
    before = rows("a/readings.sqlite")
    judgebench(*command)
    judgebench(*command, "store=b/readings.sqlite", "run_dir=undisturbed")
    after = rows("a/readings.sqlite")
    assert 0 < len(before) < len(after), "the kill must fall into the writing"
    assert before.items() <= after.items()
    assert len(after) == len(rows("b/readings.sqlite"))
    written, whole = (Results.load(name).references for name in ("run", "undisturbed"))
    pd.testing.assert_frame_equal(written.drop(columns="seconds"), whole.drop(columns="seconds"))
    assert same_readings("run", "undisturbed")


def test_in_the_search_for_a_phrase(judgebench, started, tiny_pair, tmp_path):
    words = ("attacks.0.vocabulary=tokenizer", "+attacks.0.words=60", "attacks.0.length=3", "search=exhaustive")
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path), *words)
    command = (*command, "judge.max_batch_tokens=300")  # a pass for a few words, so that a signal meets a search
    run = started(*command, "store=disturbed/readings.sqlite")
    run.reaches(lambda: "word_1" in steps("disturbed"))
    command_again = command_in(interrupted(run))
    assert "word_2" not in steps("disturbed"), "it must fall into the search"
    run = started(*command_again)
    run.reaches(lambda: "word_2" in steps("disturbed"))
    run.kill()
    done = steps("disturbed")
    assert "word_3" not in done, "the kill must fall into the search"
    judgebench(*command_again)
    judgebench(*command, "store=undisturbed/readings.sqlite", "run_dir=undisturbed")
    whole, resumed = phrase_of("undisturbed"), phrase_of("run")
    assert resumed["learned"]["steps_resumed"] == len(done)
    assert resumed["by_length"] == whole["by_length"]
    assert resumed["learned"]["scores"] == pytest.approx(whole["learned"]["scores"], abs=1e-5)
    agrees("run", resumed)


def test_in_a_sweep_it_ends_the_sweep(judgebench, started, tiny_pair):
    swept = ("+sweeps=cd_lambda_t", "decoding.lambda=0.1,1", "decoding.temperature=1,2")
    command = ("-m", *pair(tiny_pair), *QUICK, *SLOWLY, "data.dev_share=0.5", "decoding=[greedy,contrastive]", *swept)
    run = started(*command, "hydra.sweeper.storage=journal:a.journal")
    run.reaches(lambda: rows("outputs/readings.sqlite"))  # in the first trial, where Lightning is at work
    said = interrupted(run)
    assert "kept in outputs/readings.sqlite, and the sweep's trials in journal:a.journal." in said
    assert not list(Path("run").glob("*/metrics.json"))
    before = rows("outputs/readings.sqlite")
    run = started(*command_in(said))
    run.reaches(lambda: Path("run/1/metrics.json").is_file())
    run.kill()
    stored = rows("outputs/readings.sqlite")
    assert before.items() <= stored.items()
    kept = {path.parent.name: path.read_bytes() for path in Path("run").glob("*/metrics.json")}
    assert not Path("run/study.json").exists(), "the kill must fall into the sweep"
    judgebench(*command_in(said), "hydra.sweeper.retry=true")
    judgebench(*command, "hydra.sweeper.storage=journal:b.journal", "run_dir=undisturbed")
    complete = [one for one in trials("run") if one["state"] == "complete"]
    unfinished = [one for one in trials("run") if one["state"] != "complete"]
    assert [one["ended"] for one in unfinished] in (["lost"], ["lost"] * 2)
    # nothing is read again, and finished trials keep their folders
    assert rows("outputs/readings.sqlite") == stored
    for number in kept.keys() - {str(one["number"]) for one in unfinished}:
        assert Path("run", number, "metrics.json").read_bytes() == kept[number]
    found = {json.dumps(one["params"], sort_keys=True): one["values"] for one in complete}
    assert len(found) == len(complete) == 4
    assert found == {json.dumps(one["params"], sort_keys=True): one["values"] for one in trials("undisturbed")}


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
        assert run.interrupt() == 130, run.said
    else:
        interrupted(run, signal.SIGTERM if "SIGTERM" in whom else signal.SIGINT)
    assert not psutil.wait_procs(ranks, timeout=30)[1]
    assert left_of("run") == []


SENT = """
import os, sys, time
import judgebench.command.{module} as module

def work(*arguments):
    os.kill(os.getpid(), {signal})
    time.sleep(60)

sys.exit(module._WORDS(work)(sys.argv[1:]))
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
def test_in_a_command_without_hydra(started, module, arguments, by):
    run = started(*arguments, program=SENT.format(module=module, signal=int(by)))
    assert run.ends() == 128 + by, run.said
    command = f"python -m judgebench {module} {' '.join(arguments)}"
    sentence = f"Nothing that was finished is lost. Go on with the same command: {command}"
    assert run.said.lstrip() == f"judgebench: interrupted. {sentence}\n"
