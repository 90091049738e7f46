"""The code of docs/python.md runs as printed, and `judgebench.run` is the command line inside Python."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from nbclient import NotebookClient

import judgebench
from judgebench.__main__ import main as command_line
from judgebench.command.calibrate import main as calibrate
from judgebench.config.keys import FOLDER
from tests.conftest import rated_texts, run_in, write_rows
from tests.served import answer

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
NOTEBOOK = PAGE.with_name("first_hour.ipynb")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
REPLAY = ["judge=replay", "judge.path=answers.jsonl", "data=jsonl", "data.path=mine.jsonl", "data.dev_share=0"]
QUICK = ["logger=none", "report=false", "metrics.resamples=20"]


@pytest.fixture
def rated(tmp_path, monkeypatch) -> list[dict]:
    """Rated texts in mine.jsonl and a judge's answers about them in answers.jsonl, in a folder that is the current."""
    monkeypatch.chdir(tmp_path)
    rows = rated_texts()
    write_rows("mine.jsonl", rows)
    write_rows("answers.jsonl", [{"example_id": row["example_id"], "text": f"{row['judged']}"} for row in rows])
    return rows


def test_the_page_runs_as_printed(rated, tiny_pair, capsys):
    """In one namespace from top to bottom, as a notebook's cells."""
    settings = ["data=jsonl", "data.path=mine.jsonl", "data.scale=[1,5]", "ranges=[[1,5]]", "decoding=[expectation]"]
    models = ["judge=local", f"judge.path={tiny_pair[0]}", "force=true"]
    run_in(Path(), calibrate, *settings, *models, *QUICK, "run_dir=calibrated")
    Path("judge_card.yaml").write_text(Path("calibrated/judge_card.yaml").read_text())
    capsys.readouterr()
    cells: dict = {}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), cells)
    printed = capsys.readouterr().out.splitlines()
    assert cells["results"].environment["device"] == "none: recorded readings"
    assert set(cells["both"]["range_min"]) == {0, 1, 2, 3}
    assert Path("comparison.html").stat().st_size > 10_000
    assert [line.split(". ")[0] for line in printed[-3:-1]] == ["It rained", "The sun shone"]
    assert printed[-1].startswith("decoding contrastive: needs an assistant")


def test_the_notebook_runs_and_is_light(tmp_path):
    """As a newcomer runs it: in a kernel of its own, without a model. It is kept without what it shows."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(notebook.cells) < 27
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert not re.search(r"[\"'=(]/\w", "".join(cell.source for cell in code)), "an absolute path"
    NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in code for output in cell.outputs]
    assert any("image/png" in output.get("data", ()) for output in shown)
    said = "".join(output.get("text", "") for output in shown)
    (within,) = re.findall(r"(\d+)% of 72 texts lie within their interval", said)
    assert int(within) >= 85  # of 90 promised, on twelve intents
    assert "mistake" not in said


def test_importing_the_package_imports_nothing_slow():
    slow = "{'torch', 'pandas', 'numpy', 'hydra', 'lightning'} & set(sys.modules)"
    code = f"import sys, judgebench; assert not {slow}, {slow}; judgebench.run; assert not {slow}"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(dir(judgebench)) >= {"Results", "UserError", "run"}
    with pytest.raises(AttributeError, match="has no attribute 'walk'"):
        judgebench.walk  # noqa: B018


def test_a_run_from_python_is_a_run_of_the_command_line(rated):
    results = judgebench.run([*REPLAY, *QUICK, "run_dir=python"])
    run_in(Path(), command_line, *REPLAY, *QUICK, "run_dir=typed")
    typed = judgebench.Results.load("typed")
    assert list(typed) == list(results) == list(judgebench.Results.load("python"))
    for name in results:
        assert results.frame(name).astype(str).equals(typed.frame(name).astype(str)), name
    assert {**typed.config, "run_dir": "python"} == results.config


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["+exp=dmo"], "there is no exp 'dmo'; did you mean demo"),
        (["judge.pth=x"], "there is no key 'pth' in judge; did you mean judge.path"),
        (["decoding.lambda=1,2"], "To sweep over it, add --multirun"),
        (["+exp=cap_demo", "+sweeps=cap_alpha"], "this is a sweep of tutor.alpha_high, tutor.alpha_low"),
        (["judge=local"], "judge.path is not given, and judge=local needs it"),
        (["-m", "+exp=demo"], "flags belong to the command line"),
        ("+exp=demo", r"give \['\+exp=demo'\]"),
    ],
)
def test_a_mistake_raises_the_sentence_of_the_command_line(overrides, sentence):
    before = HydraConfig.initialized()  # by another test of this process
    with pytest.raises(judgebench.UserError, match=sentence):
        judgebench.run(overrides)
    assert HydraConfig.initialized() == before


def test_an_application_that_uses_hydra_keeps_its_own(rated):
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        HydraConfig.instance().set_config(compose("config", ["+exp=demo_live"], return_hydra_config=True))
        try:
            results = judgebench.run([*REPLAY, *QUICK, "run_dir=run"])
            assert HydraConfig.get().runtime.choices["judge"] == "smollm2"
            assert compose("config").name == "run"
        finally:
            HydraConfig.instance().cfg = None
    assert results.path == Path("run")
    assert len(results.frame("scores")) == 20


def test_after_a_dry_run_there_is_nothing(rated, capsys):
    results = judgebench.run([*REPLAY, *QUICK, "dry_run=true"])
    assert (results.path, list(results)) == (None, [])
    assert "Scored: 20 of the 20 rows of answers.jsonl." in " ".join(capsys.readouterr().out.split())


def test_a_served_judge_answers_inside_a_notebooks_event_loop(rated, small_server):
    small_server.otherwise = answer(likely={"3": 0.75, "4": 0.25})

    async def cell() -> judgebench.Results:
        served = ["judge=api", f"judge.url={small_server.url}", "judge.model=small"]
        return judgebench.run([*served, *REPLAY[2:], *QUICK, "run_dir=run"])

    scores = asyncio.run(cell()).frame("scores").groupby("decoding")["score"].unique().explode().to_dict()
    assert scores == pytest.approx({"greedy": 3.0, "expectation": 3.25}, abs=1e-6)
