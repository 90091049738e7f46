"""Planted keys: no byte of what a run writes or prints shows one, whether it ends well or not."""

import gzip
import json
import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import QUICK, pair
from tests.served import garbage, status
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
def planted(judgebench, monkeypatch):
    """Runs the command line with keys in its environment: arguments -> what it printed."""
    for name, value in {**PLANTED, "WANDB_MODE": "offline", "HYDRA_FULL_ERROR": "1"}.items():
        monkeypatch.setenv(name, value)

    def call(*arguments, code=0):
        found, out, err = judgebench(*arguments, mistaken=True)
        assert found == code, out + err
        assert MARK not in out + err
        return out + err

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


def test_a_run_that_ends_well(planted, tiny_pair):
    asked = (*QUICK, "logger=wandb", "report=true", "+hydra.job.env_set.SERVICE_KEY=" + GIVEN)
    planted("judge=local", f"judge.path={tiny_pair[0]}", *asked, "+logger.notes='by ${oc.env:MY_PASSWORD}'")
    assert clean(".") > 15
    assert list(Path().rglob("*.wandb"))
    assert "notes: by ***" in Path("run/config.yaml").read_text()


def test_a_multirun_and_a_study(planted, tiny_pair):
    asked = (
        *pair(tiny_pair),
        *QUICK,
        "data.limit_groups=2",
        "data.dev_share=0.5",
        "decoding=[contrastive]",
        "+hydra.job.env_set.A_TOKEN=" + GIVEN,
    )
    planted("-m", *asked, "decoding.lambda=0.1,0.5", "run_dir=plain")
    storage = ("hydra.sweeper.storage=journal:a.journal", "decoding.lambda=0.1,0.5", "decoding.temperature=1")
    planted("-m", *asked, "+sweeps=cd_lambda_t", *storage, "run_dir=study")
    assert "A_TOKEN=***" in Path("plain/multirun.yaml").read_text()
    assert clean(".") > 15


def test_a_server_that_says_the_key(planted, small_server):
    """Answers, names and errors may repeat it: no table, store, record or line does."""
    key = PLANTED["OPENAI_API_KEY"]
    choice = {"message": {"content": f"4 {key}"}}
    small_server.otherwise = garbage(json.dumps({"model": key, "system_fingerprint": key, "choices": [choice]}))
    served = ("judge=api", f"judge.url={small_server.url}", "judge.model=m", "judge.key_variable=OPENAI_API_KEY")
    asked = ("judge.scores_from=text", "decoding=[greedy]", "assistant=none", "judge.retries=0", *QUICK)
    planted(*served, *asked, "examples=true")
    assert clean(".") > 5
    assert "4 ***" in {row["text"] for row in pq.read_table("run/readings.parquet").to_pylist()}
    small_server.otherwise = garbage(json.dumps({"choices": {key: key}}))
    planted(*served, *asked, "judge.seed=1", "run_dir=other", code=2)
    small_server.otherwise = status(400, f"the key {key} is fine, the rest is not")
    planted(*served, *asked, "judge.seed=2", "hydra.verbose=true", "run_dir=third", code=2)
    assert small_server.seen[-1]["headers"]["authorization"] == f"Bearer {key}"
    clean(".")


@pytest.mark.parametrize(
    "mistake",
    [
        [f"judge.api_key={GIVEN}"],  # a key that the judge does not have, which the sentence repeats
        [f"+judge.api_key={GIVEN}"],
        [f"nokey={GIVEN}"],
        [f"judge={{api_key: {GIVEN}, path: a}}"],
        [f"+judge.whatever_token='{GIVEN}"],  # cannot be parsed
        ["judge.path=nowhere", "+note='${oc.env:OPENAI_API_KEY}'"],
        ["ranges=${oc.env:OPENAI_API_KEY}"],
        ["data.path=${oc.env:MY_PASSWORD}", "data=jsonl"],
    ],
)
def test_a_run_that_is_refused(planted, mistake):
    assert planted(*mistake, *QUICK, code=2).strip()
    clean(".")
