"""Outputs that are inputs, or would become some: each command refuses them before it begins, and everything stays."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from judgebench.command.calibrate import main as calibrate
from judgebench.command.gate import main as gate
from judgebench.command.paper import main as tables
from judgebench.command.record import main as record
from judgebench.command.report import main as report
from judgebench.command.score import main as score
from judgebench.runtime.files import Input, check_outputs
from judgebench.words.errors import UserError
from tests.command.test_gate import FAST, place  # noqa: F401 - a fixture

JUDGE = ("judge=replay", "judge.path=judge/answers.jsonl", "assistant=none", "decoding=[greedy]", "ranges=[[1,5]]")
DATA = ("data=jsonl", "data.scale=[1,5]", "dimensions=[coherence]")
RUN = (*JUDGE, *DATA, "logger=none", "report=false", "metrics.resamples=200")
CARD = "card=judge/judge_card.yaml"


@pytest.fixture
def folder(place, tmp_path, monkeypatch):  # noqa: F811
    """A card, labels, answers, a store and a finished run, with links to some of them; the working directory."""
    shutil.copytree(place, tmp_path / "all", symlinks=True)
    monkeypatch.chdir(tmp_path / "all")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    os.symlink("judge/labels.jsonl", "link.jsonl")
    os.link("judge/labels.jsonl", "hard.jsonl")
    os.mkdir("parts")
    os.mkfifo("pipe")
    for name in ("x", "y"):
        shutil.copy("judge/labels.jsonl", f"parts/{name}.jsonl")
    shutil.copytree("run", "texts_in_run")
    shutil.copy("judge/labels.jsonl", "texts_in_run/metrics.json")
    return tmp_path / "all"


def contents() -> dict[str, str]:
    """Path -> digest of everything below the working directory."""
    files = sorted(path for path in Path().rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


OVERWRITE, INSIDE = "it would overwrite ", "it lies in data.path="
REFUSED = [
    # texts
    (
        score,
        [CARD, "data.path=judge/labels.jsonl", "out=judge/labels.jsonl"],
        f"{OVERWRITE}data.path=judge/labels.jsonl",
    ),
    (score, [CARD, "data.path=judge/labels.jsonl", "out=nowhere/../judge/labels.jsonl"], OVERWRITE),
    (score, [CARD, "data.path=link.jsonl", "out=judge/labels.jsonl"], f"{OVERWRITE}data.path=link.jsonl"),
    (score, [CARD, "data.path=judge/labels.jsonl", "out=hard.jsonl"], OVERWRITE),
    (score, [CARD, "data.path=judge/labels.jsonl", "out=link.jsonl"], OVERWRITE),
    # folders and patterns of texts
    (score, [CARD, "data.path=parts", "out=parts/scores.jsonl"], f"{INSIDE}parts"),
    (score, [CARD, "data.path=parts", "out=parts/new"], f"{INSIDE}parts"),
    (score, [CARD, "data.path=parts", "out=parts"], f"{INSIDE}parts"),
    (score, [CARD, "data.path=parts/*.jsonl", "out=parts/scores.jsonl"], f"{INSIDE}parts/*.jsonl"),
    (score, [CARD, "data.path=parts", "run_dir=parts/run"], "out=parts/run/scores.jsonl: "),
    # answers, the card, its answers, the store
    (score, [CARD, "data.path=parts", "+judge.path=worse.jsonl", "out=worse.jsonl"], f"{OVERWRITE}judge.path=worse"),
    (score, [CARD, "data.path=parts", "out=judge/answers.jsonl"], f"{OVERWRITE}judge.path="),
    (score, [CARD, "data.path=parts/x.jsonl", "store=parts/x.jsonl"], f"store=parts/x.jsonl: {OVERWRITE}data.path="),
    (score, [CARD, "data.path=parts/x.jsonl", "out=same.csv", "store=same.csv"], f"{OVERWRITE}store=same.csv"),
    (gate, [CARD, "data.path=judge/labels.jsonl", "junit=judge/labels.jsonl"], f"{OVERWRITE}data.path="),
    (gate, [CARD, "data.path=judge/labels.jsonl", "summary=hard.jsonl"], f"{OVERWRITE}data.path="),
    (gate, [CARD, "data.path=judge/labels.jsonl", "junit=judge/judge_card.yaml"], f"{OVERWRITE}card="),
    (gate, [CARD, "data.path=judge/labels.jsonl", "store=judge/labels.jsonl"], f"{OVERWRITE}data.path="),
    (gate, [CARD, "data.path=judge/labels.jsonl", "store=s.sqlite", "junit=s.sqlite"], f"{OVERWRITE}store="),
    (gate, [CARD, "data.path=judge/labels.jsonl", "junit=a.xml", "summary=a.xml"], f"{OVERWRITE}junit=a.xml"),
    (gate, [CARD, "data.path=judge/labels.jsonl", "junit=gate/metrics.json"], f"{OVERWRITE}metrics.json of the run"),
    (gate, [CARD, "data.path=parts", "summary=parts/summary.md"], f"{INSIDE}parts"),
    # a run's folder
    (calibrate, [*RUN, "data.path=texts_in_run/metrics.json", "run_dir=texts_in_run"], f"{OVERWRITE}data.path="),
    (calibrate, [*RUN, "data.path=parts", "run_dir=parts/run"], f"{INSIDE}parts"),
    (calibrate, [*RUN, "data.path=judge/labels.jsonl", "store=judge/answers.jsonl"], f"{OVERWRITE}judge.path="),
    (record, ["run", "out=run/readings.parquet"], f"{OVERWRITE}readings.parquet of the run run"),
    (record, ["run", "out=run/served.parquet"], f"{OVERWRITE}served.parquet of the run run"),
    (report, ["run", "out=run/metrics.json"], f"{OVERWRITE}metrics.json of the run run"),
    (report, ["run", "texts_in_run", "out=run/config.yaml"], f"{OVERWRITE}config.yaml of the run run"),
    # what is no place for a file
    *(
        (gate, [CARD, "data.path=judge/labels.jsonl", f"{key}=."], f"{key}=.: this is a folder; name a file")
        for key in ("junit", "summary")
    ),
    (report, ["run", "out=pipe"], "out=pipe: this is no regular file; name a file"),
    (report, ["run", "out=."], "out=.: this is a folder; name a file"),
    (
        score,
        [CARD, "data.path=parts", "out=s3://bucket/scores.jsonl"],
        "out=s3://bucket/scores.jsonl: results are written",
    ),
    (score, [CARD, "data.path=parts", "out=gs://bucket/scores"], "results are written to a folder of this machine"),
    (gate, [CARD, "data.path=judge/labels.jsonl", "junit=s3://b/gate.xml"], "results are written to a folder"),
    (calibrate, [*RUN, "data.path=judge/labels.jsonl", "run_dir=s3://b/run"], "results are written to a folder"),
    (calibrate, [*RUN, "data.path=judge/labels.jsonl", "store=s3://b/s.sqlite"], "results are written to a folder"),
    (report, ["run", "out=s3://b/page.html"], "results are written to a folder"),
    (tables, ["run", "out=s3://b/tables"], "results are written to a folder"),
]


@pytest.mark.parametrize(("main", "arguments", "sentence"), REFUSED)
def test_no_command_writes_over_what_it_reads(folder, called, main, arguments, sentence):
    before = contents()
    arguments = [*arguments, *(FAST if main is gate and "run_dir=" not in str(arguments) else ())]
    command = (lambda: sys.exit(main(arguments))) if main in (record, report, tables) else main
    code, _, err = called(command, *arguments, mistaken=True)
    said = " ".join(err.split())
    assert (code, sentence in said, "Traceback" in err) == (2, True, False), err
    assert said.count("judgebench: ") == 1
    assert contents() == before


def test_places_beside_inputs_may_be_written(tmp_path):
    """A folder of which only some files are read, files that fit no pattern, and a run's own folder."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "graded.json").write_text("[]")
    read = [Input("data.path", tmp_path / "texts", ["graded.json"]), Input("data.path", tmp_path, ["texts/*.jsonl"])]
    check_outputs([("out", tmp_path / "texts" / "scores.csv"), ("run_dir", tmp_path / "run" / "graded.jsonl")], read)
    for name in ("graded.json", "new.jsonl", "below/graded.json"):
        with pytest.raises(UserError, match=r"^out: it "):
            check_outputs([("out", tmp_path / "texts" / name)], read)
    with pytest.raises(UserError, match="it would overwrite first"):
        check_outputs([("first", tmp_path / "new" / ".." / "a.xml"), ("second", tmp_path / "a.xml")], [])
