"""Runs of several processes, on one machine and on two: what they write is what one process writes, row for row."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from lightning.fabric.plugins.environments.lightning import find_free_network_port

from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from tests.command.test_cli import QUICK, told
from tests.hosts import two_hosts

REPOSITORY = Path(__file__).resolve().parents[2]
LEAN = (*QUICK, "metrics.levels=[dataset]", "judge.max_batch_tokens=500")
DDP = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
HERE = {"PYTHONPATH": str(REPOSITORY)}


def judge(pair):
    return ("judge=local", f"judge.path={pair[0]}", "judge.dtype=float32")


def started(*arguments, launcher=(), **environment):
    return subprocess.Popen(
        [*launcher, *([] if launcher else [sys.executable]), "-m", "judgebench", *arguments],
        env={**os.environ, **HERE, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process, within=400):
    try:
        out, err = process.communicate(timeout=within)
    finally:
        process.kill()
    return process.returncode, out, err


def torchrun(*options):
    return [sys.executable, "-m", "torch.distributed.run", *options]


def check_equal(one, other, atol=0.0):
    """Two run folders hold the same, but for the time that it took."""
    ours, theirs = RunFolder.open(one), RunFolder.open(other)
    for left, right in ((ours.read("readings"), theirs.read("readings")), (ours.read("scores"), theirs.read("scores"))):
        left, right = (frame.drop(columns="seconds", errors="ignore") for frame in (left, right))
        if atol:
            for name in ("main_logprobs", "assistant_logprobs"):
                if name in left:
                    columns = [frame.pop(name).dropna() for frame in (left, right)]
                    assert columns[0].index.equals(columns[1].index)
                    if len(columns[0]):
                        values = [np.stack(column.to_numpy()) for column in columns]
                        np.testing.assert_allclose(values[1], values[0], atol=atol)
            pd.testing.assert_frame_equal(left, right, atol=atol, rtol=0)
        else:
            pd.testing.assert_frame_equal(left, right, check_exact=True)
    if not atol:
        assert ours.read("metrics") == theirs.read("metrics")


def stored(path):
    with sqlite3.connect(path) as store:
        return store.execute("SELECT count(*) FROM readings").fetchone()[0]


def test_two_processes_write_what_one_writes(judgebench, tiny_pair):
    everything = (
        *(*judge(tiny_pair), *LEAN, "prompt=cap", "dimensions=[joint]", "data.dev_share=0.5", "decoding=[expectation]"),
        *("attacks=[none,dsi]", "defenses=[none,{name: cot, answer_tokens: 8},perplexity,cap]"),
        *("tutor=judge", "tutor.max_new_tokens=6", "tutor.candidates=12", "tutor.alpha_unit=norm"),
        "tutor.strengths=[0.1,0.3]",
    )
    judgebench(*everything, "store=one.sqlite", "run_dir=one")
    code, _, err = finished(started(*everything, *DDP, "store=two.sqlite", "run_dir=two"))
    assert code == 0, err
    check_equal("one", "two")
    one, both = (Results.load(name) for name in ("one", "two"))
    pd.testing.assert_frame_equal(one.references.drop(columns="seconds"), both.references.drop(columns="seconds"))
    assert one.detectors == both.detectors
    assert stored("one.sqlite") == stored("two.sqlite")


@pytest.mark.exhaustive
def test_two_hosts_write_what_one_process_writes(judgebench, tiny_pair):
    asked = (*judge(tiny_pair), *LEAN, "assistant=early_exit", "assistant.layer=2", "decoding=[greedy,contrastive]")
    judgebench(*asked, "store=one.sqlite", "run_dir=one")
    with two_hosts() as hosts:
        processes = []
        for node, (host, address, link) in enumerate(hosts):
            launcher = [
                *("ip", "netns", "exec", host),
                *torchrun("--nnodes=2", "--nproc-per-node=1", "--rdzv-id=1", "--rdzv-backend=c10d"),
                *(f"--rdzv-endpoint={hosts[0][1]}:29400", f"--local-addr={address}"),
                f"--rdzv-conf=is_host={node == 0}",  # both have the name of this machine, by which torchrun would tell
            ]
            Path(host).mkdir()
            # no file is shared: each host has a folder of its own for store and run
            places = (f"store={host}/store.sqlite", f"run_dir={host}/run")
            ddp = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.num_nodes=2")
            processes.append(started(*asked, *ddp, *places, launcher=launcher, GLOO_SOCKET_IFNAME=link))
        ends = [finished(process) for process in processes]
    assert [code for code, _, _ in ends] == [0, 0], ends
    first, second = (host for host, _, _ in hosts)
    check_equal("one", f"{first}/run")
    assert stored("one.sqlite") == stored(f"{first}/store.sqlite")
    assert not list(Path(second).iterdir())


@pytest.mark.exhaustive
def test_a_process_that_is_killed_ends_the_run_and_the_same_command_goes_on(judgebench, tiny_pair):
    # seconds of reading: prompts one by one
    asked = (*judge(tiny_pair), *LEAN, "data.limit_groups=5", "judge.engine=plain", "ranges=[[1,5],[0,4]]")
    ddp = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.num_nodes=2", "store=two.sqlite")
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_network_port())}
    runs = [started(*asked, *ddp, "run_dir=two", **where, NODE_RANK=str(node)) for node in (0, 1)]
    until = time.monotonic() + 300
    while not Path("two.sqlite").is_file() or stored("two.sqlite") < 9:
        assert time.monotonic() < until
        assert [run.poll() for run in runs] == [None, None]
        time.sleep(0.1)
    runs[1].kill()
    code, _, err = finished(runs[0])
    assert code == 2
    assert "another process of this run has ended" in err
    assert "Traceback" not in err
    assert finished(runs[1])[0] == -signal.SIGKILL
    kept = stored("two.sqlite")
    assert not Path("two").exists()
    judgebench(*asked, "store=one.sqlite", "run_dir=one")
    assert 9 <= kept < stored("one.sqlite")
    judgebench(*asked, "store=two.sqlite", "run_dir=two")
    check_equal("one", "two")


def split(tmp_path, *commands):
    """Runs of two processes that hold their models together; what each holds, in bytes, by model."""
    launcher = torchrun("--standalone", "--nproc-per-node=2", str(REPOSITORY / "tests/judges/local/split_worker.py"))
    more = ("trainer.accelerator=cpu", "trainer.devices=2", "--")
    process = subprocess.Popen(
        [*launcher, str(tmp_path), *(word for command in commands for word in (*command, *more))],
        env={**os.environ, **HERE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    code, out, err = finished(process)
    assert code == 0, out + err
    return [json.loads((tmp_path / f"own_{rank}.json").read_text()) for rank in (0, 1)]


def whole_bytes(model):
    """Of all parameters, and of those of the layers."""
    layers = sum(one.nbytes for one in model.model.layers.parameters())
    return sum(one.nbytes for one in model.parameters()), layers


def test_two_processes_hold_a_model_together(judgebench, tiny_pair, smollm2_tokenizer, tmp_path):
    asked = (*LEAN, "decoding=[greedy,contrastive]", "defenses=[none,{name: cot, answer_tokens: 5}]")
    # batches of one model, then of the other, an odd number; then answers in words, of both together
    two = (*judge(tiny_pair), "assistant=model", f"assistant.path={tiny_pair[1]}", "assistant.dtype=float32")
    sharded = (*asked, *two, "data.limit_groups=3")
    exits = (*asked, *judge(tiny_pair), "assistant=early_exit", "assistant.layer=2", "data.limit_groups=1")
    judgebench(*sharded, "store=one.sqlite", "run_dir=one")
    judgebench(*exits, "store=one.sqlite", "run_dir=exit-one")
    held = split(
        tmp_path,
        (*sharded, "trainer=fsdp", "store=two.sqlite", "run_dir=two"),
        (*exits, "trainer=fsdp", "store=two.sqlite", "run_dir=exit-two"),
    )
    check_equal("one", "two", atol=1e-4)
    check_equal("exit-one", "exit-two", atol=1e-4)
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
    from hydra import compose, initialize_config_dir

    from judgebench.config.keys import FOLDER

    monkeypatch.setenv("SLURM_NNODES", "3")
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "4")
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("config", ["trainer=slurm", "hydra/launcher=submitit_slurm"], return_hydra_config=True)
    assert (config.trainer.num_nodes, config.trainer.devices) == (3, 4)
    assert config.hydra.launcher._target_.endswith("SlurmLauncher")


def test_jobs_that_run_in_processes_of_their_own_are_summed_up(judgebench, tiny_pair, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    given = (*judge(tiny_pair), *LEAN, "run_dir='sweeps/${now:%H-%M-%S-%f}'", "hydra/launcher=submitit_local")
    given = (*given, "+hydra.job.env_set.A_TOKEN=a-planted-secret-of-some-length")
    code, out, err = judgebench("-m", *given, "ranges=[[1,5]],[[0,4]]", "data.limit_groups=2")
    assert code == 0, err
    (folder,) = Path("sweeps").iterdir()
    assert out.splitlines()[-1] == str(folder)
    summary = json.loads((folder / "sweep.json").read_text())
    assert [job["state"] for job in summary["all"]] == ["complete"] * 2
    assert [RunFolder.open(folder / str(n)).read("scores")["range_min"].unique().tolist() for n in (0, 1)] == [[1], [0]]
    assert not (folder / ".jobs").exists()
    assert "A_TOKEN=***" in (folder / "multirun.yaml").read_text()
    assert "a-planted-secret-of-some-length" not in (folder / "multirun.yaml").read_text()
