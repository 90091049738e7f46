"""A full disk and a disk that nobody may write to: one sentence, no half file, and what was stored is still there."""

import gc
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from judgebench.results.folder import RunFolder
from tests.conftest import QUICK, pair, told
from tests.faults.conftest import SLOWLY, disk, rows
from tests.runs.test_adv_suffix import PLAIN, learning


@pytest.fixture
def judgebench(judgebench):
    """The command line; after it nothing is open, as where its process has ended."""

    def call(*arguments, **options):
        done = judgebench(*arguments, **options)
        gc.collect()
        return done

    return call


def filled(place, left):
    """Fills a disk but for so many bytes."""
    (place / "full").unlink(missing_ok=True)
    free = shutil.disk_usage(place).free
    (place / "full").write_bytes(bytes(max(0, free - left)))


def whole(folder):
    """Whether every file of a folder can be read to its end, and none is a half-written one."""
    for path in (path for path in Path(folder).rglob("*") if path.is_file()):
        assert not path.name.endswith((".tmp", ".part")), path
        if path.suffix == ".parquet":
            pq.read_table(path)
        if path.suffix == ".json":
            json.loads(path.read_text())
    return True


def test_a_store_that_is_full_keeps_what_it_has(judgebench, tiny_pair):
    command = (
        "judge=local",
        f"judge.path={tiny_pair[0]}",
        *QUICK,
        *SLOWLY,
        "store=small/r.sqlite",
        "data.limit_groups=12",
    )
    with disk(Path("small"), "2m") as options:
        judgebench(*command, "data.limit_groups=1", "run_dir=first")
        before = rows("small/r.sqlite")
        assert len(before) == 6
        filled(Path("small"), 0)
        told(judgebench(*command, mistaken=True), "store=small/r.sqlite", "disk is full")
        filled(Path("small"), 65536)
        told(
            judgebench(*command, mistaken=True), "store=small/r.sqlite: cannot be written", "run the same command again"
        )
        kept = rows("small/r.sqlite")
        assert before.items() < kept.items(), "it must fill up while it reads"
        assert len(kept) < 72
        options("size=64m")
        judgebench(*command)
        assert kept.items() < rows("small/r.sqlite").items()
        assert len(rows("small/r.sqlite")) == 72


def test_a_run_folder_that_is_full_holds_no_half_file(judgebench, tiny_pair):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "report=true", "run_dir=small/run")
    with disk(Path("small"), "4m") as options:
        for left in (0, 8192, 40960):
            filled(Path("small"), left)
            told(judgebench(*command, mistaken=True), "run_dir: small/run", "No space left on device")
            assert whole("small")
        stored = rows("outputs/readings.sqlite")
        options("size=64m")
        judgebench(*command)
        assert rows("outputs/readings.sqlite") == stored
        assert Path("small/run/report.html").is_file()


@pytest.mark.parametrize("left", [4096, pytest.param(60_000, marks=pytest.mark.exhaustive)])
def test_full_for_wandb_alone(judgebench, tiny_pair, left):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK)
    judgebench(*command)
    taken = sum(4096 * -(-path.stat().st_size // 4096) for path in Path("run").rglob("*") if path.is_file())
    with disk(Path("small"), "4m"):
        filled(Path("small"), taken + 4096 * 3 + left)  # room for the folder, the lock and a file under way
        refused = judgebench(*command, "logger=wandb", "run_dir=small/run", mistaken=True)
        told(refused, "logger: W&B's files in ", "small/run cannot be written", "logger=none", clean=False)
        assert whole("small")
        # what the run itself has found is there
        assert len(RunFolder.open("small/run").read("readings")) == 24
        assert RunFolder.open("small/run").read("metrics")


def test_a_search_whose_journal_is_full(judgebench, tiny_pair, tmp_path):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *PLAIN, *learning(tmp_path), "store=small/r.sqlite")
    with disk(Path("small"), "2m"):
        Path("small/attacks").mkdir()
        filled(Path("small"), 4096)
        told(judgebench(*command, mistaken=True), "store", "small")
        assert whole("small/attacks")


def test_a_studys_journal_that_is_full(judgebench, tiny_pair):
    swept = ("decoding.lambda=0.1,1", "decoding.temperature=1,2", "hydra.sweeper.storage=journal:small/a.journal")
    command = ("-m", *pair(tiny_pair), *QUICK, "data.dev_share=0.5", "decoding=[greedy,contrastive]")
    with disk(Path("small"), "1m"):
        filled(Path("small"), 4096)
        refused = judgebench(*command, "+sweeps=cd_lambda_t", *swept, mistaken=True)
        told(refused, "hydra.sweeper.storage", "small/a.journal", clean=False)


def test_nobody_may_write(judgebench, started, tiny_pair):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK)
    with disk(Path("shut"), "4m") as options:
        # in a process of its own, which leaves no file open
        run = started(*command, "run_dir=shut/run", "store=shut/r.sqlite")
        assert run.ends() == 0, run.said
        kept = {path: path.read_bytes() for path in Path("shut").rglob("*") if path.is_file()}
        assert len(kept) > 4
        options("ro")
        for given in ("run_dir=shut/run", "run_dir=shut/new/run"):
            sentence = told(judgebench(*command, given, mistaken=True), given.replace("=", ": "), "another folder")
            assert "Read-only file system" in sentence
        told(judgebench(*command, "store=shut/new.sqlite", mistaken=True), "store=shut/new.sqlite", "can be written")
        told(judgebench(*command, "store=shut/r.sqlite", mistaken=True), "store=shut/r.sqlite", "can be written")
        assert kept == {path: path.read_bytes() for path in Path("shut").rglob("*") if path.is_file()}
