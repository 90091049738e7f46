"""kill -9 in the middle of whatever takes long: the same command goes on, and ends where an undisturbed run does.

What is lost is what was under way, a batch, a word or a trial; what was finished is not done again.
"""

import json
from pathlib import Path

import pandas as pd
import pytest

from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from tests.command.test_cli import pair
from tests.faults.conftest import QUICK, SLOWLY, rows, trials
from tests.runs.test_adv_suffix import PLAIN, agrees, learning, phrase_of, steps

TUTOR = (
    *("tutor=judge", "tutor.max_new_tokens=6", "tutor.candidates=12", "tutor.alpha_high=1", "tutor.alpha_low=1"),
    *("prompt=cap", "dimensions=[joint]", "defenses=[none,cap]", "decoding=[expectation]", "data.dev_share=0.5"),
)


def readings(folder):
    return RunFolder.open(folder).read("readings").drop(columns="seconds")


def test_in_readings(judgebench, command, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SLOWLY, "store=a/readings.sqlite")
    run = command(*given)
    run.reaches(lambda: rows("a/readings.sqlite"))
    run.kill()
    before = rows("a/readings.sqlite")
    assert 0 < len(before) < 24, "the kill must fall into the reading"
    assert not [path for path in Path("run").iterdir() if path.name not in (".lock", "run.log")]
    judgebench(*given)
    judgebench(*given, "store=b/readings.sqlite", "run_dir=undisturbed")
    after = rows("a/readings.sqlite")
    assert len(after) == 24
    assert before.items() <= after.items()
    assert readings("run").equals(readings("undisturbed"))
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
    assert readings("run").equals(readings("undisturbed"))


def test_in_the_search_for_a_phrase(judgebench, started, tiny_pair, tmp_path):
    words = ("attacks.0.vocabulary=tokenizer", "+attacks.0.words=120", "attacks.0.length=3", "search=exhaustive")
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path), *words)
    command = (*command, "judge.max_batch_tokens=300")  # a pass for a few words, so that the kill meets a search
    run = started(*command, "store=disturbed/readings.sqlite")
    run.reaches(lambda: "word_1" in steps("disturbed"))
    run.kill()
    done = steps("disturbed")
    assert "word_3" not in done, "the kill must fall into the search"
    judgebench(*command, "store=disturbed/readings.sqlite")
    judgebench(*command, "store=undisturbed/readings.sqlite", "run_dir=undisturbed")
    whole, resumed = phrase_of("undisturbed"), phrase_of("run")
    assert resumed["learned"]["steps_resumed"] == len(done)
    assert resumed["by_length"] == whole["by_length"]
    assert resumed["learned"]["scores"] == pytest.approx(whole["learned"]["scores"], abs=1e-5)
    agrees("run", resumed)


def test_in_a_sweep(judgebench, started, tiny_pair):
    swept = ("decoding.lambda=0.01,0.1,0.5,1", "decoding.temperature=1,2")
    command = ("-m", *pair(tiny_pair), *QUICK, "data.dev_share=0.5", "decoding=[greedy,contrastive]")
    command = (*command, "+sweeps=cd_lambda_t", *swept)
    run = started(*command, "hydra.sweeper.storage=journal:a.journal")
    run.reaches(lambda: Path("run/2/metrics.json").is_file())
    run.kill()
    stored = rows("outputs/readings.sqlite")
    kept = {path.parent.name: path.read_bytes() for path in Path("run").glob("*/metrics.json")}
    assert not Path("run/study.json").exists(), "the kill must fall into the sweep"
    judgebench(*command, "hydra.sweeper.storage=journal:a.journal", "hydra.sweeper.retry=true")
    judgebench(*command, "hydra.sweeper.storage=journal:b.journal", "run_dir=undisturbed")
    complete = [one for one in trials("run") if one["state"] == "complete"]
    assert [one["ended"] for one in trials("run") if one["state"] != "complete"] in ([], ["lost"])
    # nothing is read again, and finished trials keep their folders
    assert rows("outputs/readings.sqlite") == stored
    unfinished = {str(one["number"]) for one in trials("run") if one["state"] != "complete"}
    for number, content in kept.items():
        if number not in unfinished:
            assert Path("run", number, "metrics.json").read_bytes() == content
    found = {json.dumps(one["params"], sort_keys=True): one["values"] for one in complete}
    assert len(found) == len(complete) == 8
    assert found == {json.dumps(one["params"], sort_keys=True): one["values"] for one in trials("undisturbed")}
