"""Actors of Ray read what one process reads, to the last bit, also where one is killed."""

import pickle
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pyarrow as pa
import pytest
import torch
from lightning import Trainer

from judgebench.__main__ import main
from judgebench.cards import JudgeCard
from judgebench.command.score import main as score_main
from judgebench.data.benchmarks import Mini
from judgebench.decoding.rules import Contrastive, Greedy
from judgebench.judges import PassRunner
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.local import ray_runner
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.passes import FreeAnswerPass, LikelihoodPass, ModelView, ScorePass
from judgebench.judges.local.ray_runner import Actor, BatchReading, RayRunner, RayTrainer
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.prompts.tokens import text_prompts
from judgebench.readings.store import ReadingStore
from judgebench.tutor.steering import Standard
from judgebench.tutor.writing import Sampling, Text, WritePass
from judgebench.types import Condition, ScoreRange
from judgebench.words.errors import UserError
from tests.cards.test_scoring import local, parts, score  # noqa: F401 - a fixture

ray = pytest.importorskip("ray", reason="judgebench[ray] is not installed")
CONDITION = Condition("coherence", ScoreRange(1, 5))


@pytest.fixture(autouse=True)
def alone():
    yield
    ray.shutdown()
    compute_on(torch.device("cpu"))


def driver():
    options = {"accelerator": "cpu", "logger": False, "enable_model_summary": False, "enable_checkpointing": False}
    return Trainer(enable_progress_bar=False, **options)


def passes_of(tiny_pair, store, tokenizer):
    """One of each kind, over the embedded texts."""
    main, other = (ModelView(source, source.fingerprint(store.file_digest)) for source in map(source_of, tiny_pair))
    data = Mini()
    data.setup()
    builder = PromptBuilder(tokenizer, load_rubrics("summary", ["coherence"]), 4000)
    prompts, null = builder.build(data.examples[:24], [CONDITION]), {CONDITION: builder.null(CONDITION)}
    tries = {CONDITION.range: CandidateTrie.of(tokenizer, CONDITION.range.candidates)}
    early = ModelView(main.source, main.fingerprint, exit=2)
    draw = torch.Generator().manual_seed(0)
    texts = [Text(prompt, index, alpha) for prompt in prompts[:4] for index, alpha in ((0, 0.0), (1, 0.5))]
    return [
        ScorePass([main, early], prompts, tries),
        ScorePass([other], prompts, tries),
        FreeAnswerPass(main, other, None, Contrastive(lambda_=0.5, temperature=1.0), prompts[:8], tokenizer, 4),
        FreeAnswerPass(main, main, null, Greedy(), prompts[:8], tokenizer, 4, thoughts=True),
        LikelihoodPass(main, text_prompts(tokenizer, data.examples[:8], 4000, "")),
        WritePass(main, tokenizer, texts, 4, Sampling(0), Standard(2, *torch.randn(2, 32, generator=draw))),
    ]


def source_of(folder):
    return ModelSource(str(folder), dtype="float32")


def held(store, passes):
    keys = [key for pass_ in passes for prompt in pass_.prompts for key in pass_.keys(prompt)]
    arrays = [(reading.logprobs, reading.tokens, reading.text) for reading in map(store.get(keys).__getitem__, keys)]
    return [[part if part is None or isinstance(part, str) else part.tobytes() for part in each] for each in arrays]


class Deadly(ReadingStore):
    """Kills an actor when the first readings come."""

    killed = None

    def put(self, readings):
        super().put(readings)
        for process in psutil.Process().children(recursive=True) if self.killed is None else ():
            with suppress(psutil.Error):  # others end at any moment
                if "MapBatches(Actor" in " ".join(process.cmdline()):
                    self.killed = process
                    process.kill()
                    break


def test_all_passes_give_the_same_bits_though_an_actor_is_killed(tiny_pair, smollm2_tokenizer, tmp_path, capfd):
    here, there = ReadingStore(tmp_path / "here.sqlite"), Deadly(tmp_path / "there.sqlite")
    passes = passes_of(tiny_pair, here, smollm2_tokenizer)
    PassRunner(store=here, trainer=driver()).run(passes, 2000)
    runner = PassRunner(store=there, trainer=RayTrainer(RayRunner(actors=2), driver()))
    ran = runner.run(passes_of(tiny_pair, there, smollm2_tokenizer), 2000)
    assert held(there, passes) == held(here, passes)
    assert there.killed is not None
    assert not there.killed.is_running() or there.killed.status() == psutil.STATUS_ZOMBIE
    assert ran.device == "cpu (actors of Ray)"
    assert not runner.models._loaded  # the driver loads none
    assert runner.run(passes, 2000) is None  # nothing is missing
    with pytest.raises(UserError, match="1000 actors of 1 cores and 0 GPUs are more than this machine has"):
        RayTrainer(RayRunner(actors=1000, num_gpus=0), driver()).compute(
            runner, [(passes[1], passes[1].batches(2000))], ""
        )
    ray.shutdown()
    assert not [p for p in psutil.Process().children(recursive=True) if "ray" in p.name()]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("differs", "fault"),
    [
        ({"torch": "1.0"}, "differs in torch (it has 2."),
        ({"arithmetic": "tf32"}, "differs in arithmetic (it has dtypes"),
    ],
)
def test_an_actor_that_would_read_something_else_says_so(tiny_pair, smollm2_tokenizer, tmp_path, differs, fault):
    pass_ = passes_of(tiny_pair, ReadingStore(tmp_path / "readings.sqlite"), smollm2_tokenizer)[1]
    planned = {**ray_runner._versions(), "arithmetic": ray_runner._arithmetic(pass_), **differs}
    reading = BatchReading([(pass_.elsewhere(), planned.pop("arithmetic"))])
    actor = Actor(reading, planned, ("cpu", True), ("", "."))
    row = {"task": pickle.dumps((0, None, []))}
    (done,) = actor(pa.Table.from_pylist([row])).to_pylist()
    (mistake,), readings = pickle.loads(done["result"])
    assert readings is None
    assert fault in mistake


DEADLY = """
import os, signal, time
from pathlib import Path
from judgebench.cards import scoring
from judgebench.command.score import main

class Deadly(scoring.Scoring):
    def __call__(self, task):
        time.sleep(0.2)
        if task == 17 and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(task)

scoring.Scoring = Deadly
main()
"""
"""A scoring that takes its time, and whose actor is killed, once, in the 18th shard."""


@pytest.mark.usefixtures("score")
def test_shards_by_actors_are_those_of_one_process_though_actor_and_driver_are_killed(called, tiny_pair):
    made = {**vars(JudgeCard.read("card.yaml")), "parts": {**parts(), **local(tiny_pair[0])}}
    JudgeCard(**made).write(Path("local.yaml"))
    given = ["card=local.yaml", "data.path=texts.jsonl", "shard=2", "check_models=false", "+judge.dtype=float32"]
    given.append("store=none")  # one process must not answer for the actors
    assert called(score_main, *given, "out=one")[0] == 0
    by_actors = [*given, "out=many", "runner=ray", "runner.actors=2", "runner.num_cpus=.5"]
    # 1. the driver is killed when there are shards, and its command given again
    command = [sys.executable, "-c", DEADLY, *by_actors]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(Path("many").glob("part-*")) and driver.poll() is None:
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    kept = {part.name: part.stat().st_mtime_ns for part in Path("many").glob("part-*")}
    assert kept
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    # 2. nothing is lost, read again or different
    assert again.returncode == 0, again.stderr
    assert Path("died").exists()
    assert kept.items() <= {part.name: part.stat().st_mtime_ns for part in Path("many").glob("part-*")}.items()
    pd.testing.assert_frame_equal(pd.read_parquet("many"), pd.read_parquet("one"), check_exact=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["runner.actors=[3,2]"], "runner.actors: [3, 2] is neither a number nor the least and the most"),
        (["runner.num_cpus=0"], "runner.num_cpus: 0 should be greater than 0"),
        (["runner.address=ray://head:10001"], "runner.address: behind ray:// every row would pass through a proxy"),
        (["runner.address=127.0.0.1:1"], "runner.address: no Ray is reached at 127.0.0.1:1 ([Errno 111] Connection"),
        (["trainer=ddp"], "trainer.devices: under runner=ray each actor reads with a copy of the models"),
        (["callbacks=speed"], "trainer.callbacks: under runner=ray each actor reads with a copy of the models"),
        (["judge=recorded", "judge.path=qwen2.5-coder", "data=conala_sample"], "so no actor would read anything"),
        (["attacks=[adv_suffix]"], "attacks: adv_suffix is learned in this process, not by actors"),
    ],
)
def test_what_actors_cannot_do_is_said(called, tiny_pair, tmp_path, changes, sentence):
    given = ["judge=local", f"judge.path={tiny_pair[0]}", "data.limit_groups=2", "logger=none"]
    given = given if "judge=recorded" not in changes else ["logger=none"]
    code, _, error = called(main, *given, "runner=ray", f"run_dir={tmp_path}/run", *changes, mistaken=True)
    assert code == 2
    assert sentence in error
