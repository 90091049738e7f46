"""The script of docs/lightning.md reads what a run reads, alone, by two processes and resumed; and the one trainer of a
run takes the callbacks, the profiler and the bars of its configuration."""

import re
import sqlite3
import sys
import textwrap
from pathlib import Path

import lightning as L
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

import judgebench as package
from judgebench.data.benchmarks import Mini
from judgebench.decoding import Expectation
from judgebench.judges.engine.hardware import compute_on, hardware
from judgebench.judges.local.loop import trainer_of
from judgebench.judges.local.models import Models
from judgebench.judges.spec import JudgeSpec
from judgebench.results.folder import RunFolder
from tests.conftest import QUICK
from tests.served import by_torchrun

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "lightning.md").read_text("utf-8")
SMALL = ("dimensions=[coherence]", "data.limit_groups=3", "ranges=[[1,5],[0,4]]", "judge.max_batch_tokens=500")
DDP = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
SAID = "+callbacks.said._target_=said.Said"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of the page, in the folder that is the current."""
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))  # as `python -m` has it
    monkeypatch.delitem(sys.modules, "said", raising=False)  # another test's
    for name, text in re.findall(r"`([\w/]+\.\w+)`:\n\n((?:(?: {4}.*)?\n)+)", PAGE):
        Path(name).write_text(textwrap.dedent(text).strip() + "\n")


@pytest.fixture(autouse=True)
def on_this_device():
    yield
    compute_on(torch.device("cpu"))


def model(pair):
    return ("judge=local", f"judge.path={pair[0]}", "judge.dtype=float32")


def stored(path):
    with sqlite3.connect(path) as store:
        return store.execute("SELECT key, logprobs, text FROM readings ORDER BY key").fetchall()


def said(out):
    """(process, prompts) of each batch that the callback of the page told."""
    return [(int(rank), int(count)) for rank, count in re.findall(r"process (\d) read (\d+) prompts", out)]


def table(out):
    return out[out.index("dimension") :]


def test_the_script_reads_what_a_run_reads_alone_by_two_processes_and_resumed(
    judgebench, started, files, tiny_pair, capfd, monkeypatch
):
    given = (*model(tiny_pair), *SMALL)
    judgebench(*QUICK, *given, "trainer=cpu", "store=run.sqlite", "run_dir=run")
    scores = RunFolder.open("run").read("scores")
    expected = stored("run.sqlite")
    assert len(expected) == 36

    # 1. alone, whatever has computed in this process before
    compute_on(torch.device("cuda", 0))
    script = {}
    exec(compile(Path("judge.py").read_text(), "judge.py", "exec"), script)
    GlobalHydra.instance().clear()
    script["main"]([*given, "trainer=cpu", SAID])
    assert hardware().device.type == "cpu"
    alone = capfd.readouterr().out
    assert sum(count for _, count in said(alone)) == 36
    assert {rank for rank, _ in said(alone)} == {0}
    assert stored("readings.sqlite") == expected
    means = scores.groupby(["dimension", "range_max", "decoding"])["score"].mean()
    assert table(alone).strip() == str(means).strip()

    # 2. resumed: nothing is read
    GlobalHydra.instance().clear()
    script["main"]([*given, "trainer=cpu", SAID])
    resumed = capfd.readouterr().out
    assert said(resumed) == []
    assert table(resumed) == table(alone)

    # 3. by two processes
    Path("both").mkdir()
    monkeypatch.chdir("both")
    program = f"import sys\nsys.path.insert(0, '..')\n{Path('../judge.py').read_text()}"
    ranks = [started(*given, *DDP, SAID, program=program, **where) for where in by_torchrun()]
    for rank in ranks:
        assert rank.ends() == 0, rank.said
    both = "\n".join(rank.said for rank in ranks[::-1])
    shares = [sum(count for of, count in said(both) if of == rank) for rank in (0, 1)]
    assert sum(shares) == 36
    assert all(shares)
    assert stored("readings.sqlite") == expected
    assert table(both) == table(alone)


def test_callbacks_of_a_run_are_called_in_every_pass_and_what_its_trainer_is_given_is_seen(
    judgebench, files, tiny_pair, caplog
):
    second = ("assistant=model", f"assistant.path={tiny_pair[1]}", "assistant.dtype=float32")
    given = (*QUICK, *model(tiny_pair), *SMALL, "trainer=cpu", "store=none")
    _, out, err = judgebench(
        *(*given, *second, "callbacks=speed", SAID, "+callbacks.said.words=heard"),
        *(
            "+trainer.callbacks=[{_target_: said.Said}]",
            "+trainer.profiler=simple",
            "+trainer.enable_progress_bar=false",
        ),
    )
    assert sum(count for _, count in said(out)) == 72
    assert out.count(" heard ") == len(said(out))
    assert "PREDICT Profiler Report" in out + err + caplog.text, "by logging, wherever its handlers write"
    assert re.search(r"Process 0 read 72 prompts in [\d.]+ s: [\d,]+ tokens a second\.", err)
    assert judgebench(*given, "data.limit_groups=1", "callbacks=rich_progress_bar", "run_dir=rich")[0] == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["+trainer.limit_predict_batches=1"], "trainer.limit_predict_batches: a run needs all of its readings"),
        (["+trainer.fast_dev_run=true"], "judge fewer texts with data.limit_groups=2"),
        (["+callbacks.x._target_=nowhere.Said"], "callbacks: 'nowhere.Said' gives nothing (Error loading"),
        (["+trainer.callbacks=[{_target_: collections.OrderedDict}]"], "gives no callback of lightning.pytorch"),
        (["+trainer.callbacks=said"], "callbacks: 'said' gives no callback"),
        (["callbacks=rich_progress_bar", "+trainer.enable_progress_bar=false"], "trainer: Lightning does not take it"),
    ],
)
def test_what_a_trainer_cannot_be_given_is_told(settings, sentence):
    with initialize_config_dir(package.CONF, version_base="1.3"):
        config = compose("config", settings)
    with pytest.raises(package.UserError, match=re.escape(sentence)):
        trainer_of(config)


def trainer(**settings):
    return L.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_model_summary=False, **settings
    )


def prompts(pair, store="readings.sqlite", **settings):
    """Twelve prompts of a tiny judge."""
    prompt = {"rubrics": "summary", "variants": None, "max_tokens": None, "truncate": "error", "template_options": None}
    judge = package.ReadingJudge.of(
        JudgeSpec(str(pair[0]), dtype="float32", max_batch_tokens=1, **settings),
        {"expectation": Expectation(), "lambda": 0.5},
        prompt,
        ["coherence"],
        store,
    )
    condition = package.Condition("coherence", package.ScoreRange(1, 5))
    return package.PromptDataModule(Mini(limit_groups=2), judge, [condition])


def test_readings_that_were_left_out_are_told(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = prompts(tiny_pair)
    with pytest.raises(package.UserError, match=r"a reading is not there.*\(trainer\.limit_predict_batches"):
        asked.readings()
    trainer(limit_predict_batches=1).predict(package.JudgeModule(), datamodule=asked)
    with pytest.raises(package.UserError, match="a reading is not there"):
        asked.readings()
    # the same module goes on, and gives what is left of this process as Lightning does
    found = trainer(callbacks=[package.ReadingWriter()]).predict(package.JudgeModule(), datamodule=asked)
    assert 0 < sum(len(readings) for readings in found) < len(asked.readings()) == 12


def test_a_module_without_prompts_of_models_here_is_told(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(package.UserError, match=r"a JudgeModule reads the prompts of a PromptDataModule; write"):
        trainer().predict(package.JudgeModule(), dataloaders=[[1]])


def test_each_judge_reads_on_the_device_of_its_trainer(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = prompts(tiny_pair, "none")
    asked.data.setup()
    questions = asked.judge.questions(asked.data.examples, asked.conditions, asked.data.split)
    compute_on(torch.device("cuda", 0))  # another judge's
    readings = asked.judge.read(questions, asked.data.split, trainer(), Models())
    assert readings.device == "cpu"
    assert hardware().device.type == "cpu"
    assert len(readings.readings) == 12
