"""Runs of several processes, on one machine and on two: what they write is what one process writes, row for row."""

import json
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hydra import compose, initialize_config_dir

from judgebench.config.keys import FOLDER
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from tests.conftest import QUICK, told, write_rows
from tests.faults.conftest import rows
from tests.hosts import two_hosts
from tests.processes import REPOSITORY
from tests.served import by_torchrun, free_port

LEAN = (*QUICK, "metrics.levels=[dataset]", "judge.max_batch_tokens=500")
DDP = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.num_nodes=2")


def judge(pair):
    return ("judge=local", f"judge.path={pair[0]}", "judge.dtype=float32")


@pytest.fixture
def two_nodes(started):
    """Starts the two processes of a run as those of two machines with one process each, as a cluster does."""

    def start(*arguments):
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return [started(*arguments, *DDP, **where, NODE_RANK=str(node)) for node in (0, 1)]

    return start


def count(store):
    return len(rows(store))


def check_equal(one, other, atol=0.0):
    """Two run folders hold the same, but for the time that it took."""
    ours, theirs = RunFolder.open(one), RunFolder.open(other)
    for name in ("readings", "scores"):
        left, right = (folder.read(name).drop(columns="seconds", errors="ignore") for folder in (ours, theirs))
        for column in {"main_logprobs", "assistant_logprobs"} & set(left) if atol else ():
            pairs = [frame.pop(column).dropna() for frame in (left, right)]
            assert pairs[0].index.equals(pairs[1].index)
            for values in zip(*pairs, strict=True):
                np.testing.assert_allclose(values[1], values[0], atol=atol)
        pd.testing.assert_frame_equal(left, right, atol=atol, rtol=0, check_exact=not atol)
    assert atol or ours.read("metrics") == theirs.read("metrics")


def test_two_processes_write_what_one_writes(judgebench, two_nodes, tiny_pair):
    everything = (
        *(*judge(tiny_pair), *LEAN, "prompt=cap", "dimensions=[joint]", "data.dev_share=0.5", "decoding=[expectation]"),
        *("attacks=[none,dsi]", "defenses=[none,{name: cot, answer_tokens: 4},perplexity,cap]"),
        *("tutor=judge", "tutor.max_new_tokens=4", "tutor.candidates=12", "tutor.alpha_unit=norm"),
        "tutor.strengths=[0.1,0.3]",
    )
    runs = two_nodes(*everything, "store=two.sqlite", "run_dir=two")
    judgebench(*everything, "store=one.sqlite", "run_dir=one")
    for run in runs:
        assert run.ends() == 0, run.said
    check_equal("one", "two")
    one, both = (Results.load(name) for name in ("one", "two"))
    pd.testing.assert_frame_equal(one.references.drop(columns="seconds"), both.references.drop(columns="seconds"))
    assert one.detectors == both.detectors
    assert count("one.sqlite") == count("two.sqlite")


@pytest.mark.exhaustive
def test_two_hosts_write_what_one_process_writes(judgebench, command, tiny_pair):
    asked = (*judge(tiny_pair), *LEAN, "assistant=early_exit", "assistant.layer=2", "decoding=[greedy,contrastive]")
    judgebench(*asked, "store=one.sqlite", "run_dir=one")
    with two_hosts() as hosts:
        processes = []
        for node, (host, address, link) in enumerate(hosts):
            launcher = (
                *("ip", "netns", "exec", host, sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes=2", "--nproc-per-node=1", "--rdzv-id=1", "--rdzv-backend=c10d"),
                *(f"--rdzv-endpoint={hosts[0][1]}:29400", f"--local-addr={address}"),
                f"--rdzv-conf=is_host={node == 0}",  # both have the name of this machine, by which torchrun would tell
            )
            Path(host).mkdir()
            # no file is shared: each host has a folder of its own for store and run
            places = (f"store={host}/store.sqlite", f"run_dir={host}/run")
            processes.append(command(*asked, *DDP, *places, launcher=launcher, GLOO_SOCKET_IFNAME=link))
        for process in processes:
            assert process.ends() == 0, process.said
    first, second = (host for host, _, _ in hosts)
    check_equal("one", f"{first}/run")
    assert count("one.sqlite") == count(f"{first}/store.sqlite")
    assert not list(Path(second).iterdir())


def test_a_process_that_is_killed_ends_the_run_and_the_same_command_goes_on(judgebench, two_nodes, tiny_pair):
    # seconds of reading: prompts one by one
    asked = (*judge(tiny_pair), *LEAN, "data.limit_groups=5", "judge.engine=plain", "ranges=[[1,5],[0,4]]")
    runs = two_nodes(*asked, "store=two.sqlite", "run_dir=two")
    runs[0].reaches(lambda: count("two.sqlite") >= 9)
    runs[1].kill()
    assert runs[0].ends() == 2, runs[0].said
    assert "another process of this run has ended" in runs[0].said
    assert "Traceback" not in runs[0].said
    assert runs[1].code == -signal.SIGKILL
    kept = count("two.sqlite")
    assert {path.name for path in Path("two").iterdir()} <= {".lock", "run.log"}
    judgebench(*asked, "store=one.sqlite", "run_dir=one")
    assert 9 <= kept < count("one.sqlite")
    judgebench(*asked, "store=two.sqlite", "run_dir=two")
    check_equal("one", "two")


SPLIT = """
import json, os, sys
from hydra.core.global_hydra import GlobalHydra
from torch.distributed.tensor import DTensor
from judgebench.__main__ import main
from judgebench.judges.local import sharding

load, held = sharding.load_split, {}

def part(value):
    return value.to_local() if isinstance(value, DTensor) else value

def load_split(source, strategy, mesh):
    model = load(source, strategy, mesh)
    held[source.title] = sum(part(value).nbytes for value in model.parameters())
    return model

sharding.load_split = load_split
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    GlobalHydra.instance().clear()
    main()
print(json.dumps(held), file=open(f"own_{os.environ['RANK']}.json", "w"))
"""


def whole_bytes(model):
    """Of all parameters, and of those of the layers."""
    layers = sum(one.nbytes for one in model.model.layers.parameters())
    return sum(one.nbytes for one in model.parameters()), layers


def test_two_processes_hold_a_model_together(judgebench, started, tiny_pair):
    asked = (*LEAN, "decoding=[greedy,contrastive]", "defenses=[none,{name: cot, answer_tokens: 5}]")
    # batches of one model, then of the other, an odd number; then answers in words, of both together
    two = (*judge(tiny_pair), "assistant=model", f"assistant.path={tiny_pair[1]}", "assistant.dtype=float32")
    sharded = (*asked, *two, "data.limit_groups=3", "run_dir=whole")
    exits = (*asked, *judge(tiny_pair), "assistant=early_exit", "assistant.layer=2", "data.limit_groups=1")
    exits = (*exits, "run_dir=exit-whole")
    more = ("trainer=fsdp", "trainer.accelerator=cpu", "trainer.devices=2", "store=split.sqlite")
    split = [[*(word.replace("whole", "split") for word in command), *more] for command in (sharded, exits)]
    ranks = [started(json.dumps(split), program=SPLIT, **where) for where in by_torchrun()]
    for command in (sharded, exits):
        judgebench(*command, "store=whole.sqlite")
    for rank in ranks:
        assert rank.ends() == 0, rank.said
    check_equal("whole", "split", atol=1e-4)
    check_equal("exit-whole", "exit-split", atol=1e-4)
    held = [json.loads(Path(f"own_{rank}.json").read_text()) for rank in (0, 1)]
    for path in tiny_pair:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        whole, layers = whole_bytes(model)
        embeddings = model.get_input_embeddings().weight.nbytes
        assert [each[path.name] for each in held] == [whole - (layers + embeddings) // 2] * 2


def test_an_encoder_decoder_judge_is_not_split(judgebench, tiny_t5_pair):
    given = (*judge(tiny_t5_pair), "trainer=fsdp", "trainer.accelerator=cpu", "trainer.devices=2")
    told(judgebench(*given, mistaken=True), "is an encoder-decoder model, and only decoder-only ones are split")


@pytest.mark.parametrize("strategy", ["ddp_spawn", pytest.param("ddp_fork", marks=pytest.mark.exhaustive)])
def test_processes_that_are_forked_from_this_one_are_refused(judgebench, tiny_pair, strategy):
    given = (*judge(tiny_pair), "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
    told(judgebench(*given, f"trainer.strategy={strategy}", mistaken=True), "that are forked from this one cannot read")


def test_slurm_jobs_have_as_many_processes_as_it_was_asked_for(judgebench, monkeypatch):
    monkeypatch.setenv("SLURM_NNODES", "3")
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "4")
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("config", ["trainer=slurm", "hydra/launcher=submitit_slurm"], return_hydra_config=True)
    assert (config.trainer.num_nodes, config.trainer.devices) == (3, 4)
    assert config.hydra.launcher._target_.endswith("SlurmLauncher")


def test_jobs_that_run_in_processes_of_their_own_are_summed_up(judgebench, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    texts = [{"source": "Rain.", "output": f"Rain {n}.", "human": {"coherence": 1 + n}} for n in range(5)]
    write_rows("mine.jsonl", texts)
    write_rows("answers.jsonl", [{"text": str(1 + n)} for n in range(5)])
    given = ("judge=replay", "judge.path=answers.jsonl", "data=jsonl", "data.path=mine.jsonl", "data.scale=[1,5]")
    given = (*given, *LEAN[:3], "run_dir='sweeps/${now:%H-%M-%S-%f}'", "hydra/launcher=submitit_local")
    given = (*given, "+hydra.job.env_set.A_TOKEN=a-planted-secret-of-some-length")
    code, out, err = judgebench("-m", *given, "ranges=[[1,5]],[[0,4]]")
    assert code == 0, err
    (folder,) = Path("sweeps").iterdir()
    assert out.splitlines()[-1] == str(folder)
    summary = json.loads((folder / "sweep.json").read_text())
    assert [job["state"] for job in summary["all"]] == ["complete"] * 2
    assert [RunFolder.open(folder / str(n)).read("scores")["range_min"].unique().tolist() for n in (0, 1)] == [[1], [0]]
    assert not (folder / ".jobs").exists()
    assert "A_TOKEN=***" in (folder / "multirun.yaml").read_text()
    assert "a-planted-secret-of-some-length" not in (folder / "multirun.yaml").read_text()
