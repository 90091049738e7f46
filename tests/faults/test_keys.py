"""Planted keys: no byte of what a run writes or prints shows one, whether it ends well or not."""

import gzip
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.conftest import QUICK
from tests.test_cli import pair
from tests.tracking.wandb_file import records

PLANTED = {
    **{
        "WANDB_API_KEY": "planted1" * 5,
        "OPENAI_API_KEY": "sk-planted2-0123456789",
        "HF_TOKEN": "hf_planted3abcdefghij",
    },
    "MY_PASSWORD": "planted4-correct-horse",
}
GIVEN = "sk-planted5-0123456789"
MARK = "planted"


@pytest.fixture
def command(tiny_pair, tmp_path):
    """Runs the command line as a process of its own, with keys in its environment: arguments -> what it printed."""

    def call(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "judgebench", *arguments],
            cwd=tmp_path,
            env={**os.environ, **PLANTED, "OMP_NUM_THREADS": "1", "HYDRA_FULL_ERROR": "1", "WANDB_MODE": "offline"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert MARK not in done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


def contents(folder):
    """(path, bytes) of every file, and of whatever its format compresses."""
    for path in (path for path in Path(folder).rglob("*") if path.is_file()):
        data = path.read_bytes()
        yield path, data
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            yield path, repr(table.to_pylist()).encode() + repr(table.schema.metadata).encode()
        if path.suffix == ".sqlite":
            with sqlite3.connect(path) as db:
                yield path, "\n".join(db.iterdump()).encode()
        if path.suffix == ".wandb":
            yield path, b"".join(record.SerializeToString() for record in records(path))
        if path.suffix == ".gz":
            yield path, gzip.decompress(data)


def clean(folder):
    """How many files were searched, none of which holds a key."""
    found = list(contents(folder))
    assert not [str(path) for path, data in found if MARK.encode() in data]
    return len(found)


def test_a_run_that_ends_well(command, tiny_pair, tmp_path):
    asked = (*QUICK, "logger=wandb", "report=true", "+hydra.job.env_set.SERVICE_KEY=" + GIVEN)
    asked = (*asked, "+logger.notes='by ${oc.env:MY_PASSWORD}'", "+logger.settings.api_key=" + GIVEN)
    command("judge=local", f"judge.path={tiny_pair[0]}", *asked)
    assert clean(tmp_path) > 15
    assert list(tmp_path.rglob("*.wandb"))
    assert "***" in (tmp_path / "run/config.yaml").read_text()


def test_a_multirun_and_a_study(command, tiny_pair, tmp_path):
    asked = (
        *pair(tiny_pair),
        *QUICK,
        "data.dev_share=0.5",
        "decoding=[contrastive]",
        "+hydra.job.env_set.A_TOKEN=" + GIVEN,
    )
    command("-m", *asked, "decoding.lambda=0.1,0.5", "run_dir=plain", "+logger.api_key=" + GIVEN, "logger=wandb")
    storage = ("hydra.sweeper.storage=journal:a.journal", "decoding.lambda=0.1,0.5", "decoding.temperature=1")
    command("-m", *asked, "+sweeps=cd_lambda_t", *storage, "run_dir=study")
    assert (tmp_path / "plain/multirun.yaml").is_file()
    assert (tmp_path / "study/study.json").is_file()
    assert clean(tmp_path) > 20


@pytest.mark.parametrize(
    "mistake",
    [
        ("judge.api_key=" + GIVEN,),  # a key that the judge does not have, which Hydra repeats
        ("+judge.api_key=" + GIVEN,),
        ("judge={api_key: " + GIVEN + ", path: a}",),
        ("+judge.whatever_token='" + GIVEN,),  # cannot be parsed
        ("judge.path=nowhere", "+note='${oc.env:OPENAI_API_KEY}'"),
        ("ranges=${oc.env:OPENAI_API_KEY}",),
        ("data.path=${oc.env:MY_PASSWORD}", "data=jsonl"),
    ],
    ids=lambda mistake: mistake[0].partition("=")[0],
)
def test_a_run_that_is_refused(command, tmp_path, mistake):
    code = 2 if mistake[0].startswith(("judge.path", "ranges", "data", "+judge.api_key")) else 1
    said = command(*mistake, *QUICK, code=code)
    assert said.strip()
    clean(tmp_path)
