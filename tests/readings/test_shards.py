"""Readings in a folder of Parquet files; what they share with a SQLite file is tested in test_store.py."""

import hashlib
import os
import random
import shutil
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from judgebench.readings import shards
from judgebench.readings.reading import ModelReading
from judgebench.readings.shards import ParquetStore, add_shard, open_store
from judgebench.readings.store import ReadingStore, SharedStore
from judgebench.runtime.distributed import Processes
from judgebench.runtime.errors import UserError
from judgebench.store import main
from tests.hostile.flips import flip


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Few readings become a shard, and few shards another."""
    for name, least in {"_FLUSH": 8, "_DEAL": 6000, "_FEW": 2, "_MOST": 3, "_GROUP": 4, "_MOST_KEYS": 40}.items():
        monkeypatch.setattr(shards, name, least)
    # what a killed process leaves does not depend on it, only what a power cut leaves
    monkeypatch.setattr("judgebench.runtime.files._sync", lambda path: None)


def reading(number):
    """One of each kind: scores, nothing, an answer, written tokens."""
    key, kind = hashlib.sha256(str(number).encode()).hexdigest(), number % 4
    scores = np.array([[-0.5, -np.inf, -1e-30], [], [0], [0]][kind], np.float32)
    tokens = np.arange(number % 5, dtype=np.int32) if kind == 3 else None
    text = "a\0 é"[: number % 5] if kind > 1 else None
    return ModelReading(key, scores if kind < 2 else None, text, number / 7, tokens)


def content(readings):
    arrays = ("logprobs", "tokens")
    return {
        one.key: (one.text, one.seconds, *(None if (a := getattr(one, n)) is None else a.tobytes() for n in arrays))
        for one in readings
    }


NUMBERS = st.lists(st.integers(0, 60), max_size=25)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "add", "settle", "reopen", "copy"]), NUMBERS), max_size=12)


@settings(max_examples=12, deadline=None)
@given(STEPS)
def test_it_is_a_dict_whatever_is_done(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("store") / "s"
    store, there = ParquetStore(folder), set()
    for step, numbers in steps:
        if step in ("put", "add"):
            # two processes that add the same keys may leave both, until they are merged
            new = numbers if step == "put" else sorted({*numbers} - there)
            (store.put if step == "put" else store.add_shard)([reading(number) for number in new])
            there |= set(numbers)
        elif step == "settle":
            store.settle()
        else:
            store.close()
            if step == "copy":
                assert main(["copy", str(folder), str(folder.parent / "copy.sqlite")]) == 0
                shutil.rmtree(folder / "prefix=new", ignore_errors=True)
                for place in folder.glob("prefix=*"):
                    shutil.rmtree(place)
                assert main(["copy", str(folder.parent / "copy.sqlite"), f"parquet:{folder}"]) == 0
                (folder.parent / "copy.sqlite").unlink()
            store = ParquetStore(folder)
        every = [reading(number) for number in range(61)]
        assert store.missing(one.key for one in every) == {reading(n).key for n in set(range(61)) - there}
        assert content(store.get(one.key for one in every).values()) == content(reading(n) for n in there)
    store.close()
    assert content(store_rows(folder)) == content(reading(number) for number in there)


def store_rows(folder):
    """The readings as pandas reads them, each key once."""
    table = pd.read_parquet(folder) if list(folder.glob("prefix=*/*")) else pd.DataFrame({"key": []})
    assert table["key"].is_unique
    for row in table.to_dict("records"):
        logprobs, tokens = (None if row[n] is None else np.array(row[n]) for n in ("logprobs", "tokens"))
        yield ModelReading(row["key"], logprobs, None if pd.isna(row["text"]) else row["text"], row["seconds"], tokens)


def test_killed_before_any_change_of_a_file_it_loses_and_doubles_nothing(tmp_path):
    def work(folder):
        """Puts all but those at the end of a batch that was not committed; gives how many were."""
        store = ParquetStore(folder)
        for first in range(0, 24, 6):
            store.put([reading(number) for number in range(first, first + 6)])
            (folder / "done").write_text(str(first + 6))
        add_shard(folder, [reading(number) for number in range(24, 30)])
        (folder / "done").write_text("30")
        store.close()

    replace = os.replace
    for moment in range(1000):
        folder = tmp_path / str(moment)
        folder.mkdir()
        if not (child := os.fork()):  # a process that is ended in the midst runs no `finally`
            left = moment

            def counted(change):
                def changed(*given, **named):
                    nonlocal left
                    if left == 0:
                        os._exit(9)
                    left -= not str(given[0]).endswith(".tmp") or change is replace
                    return change(*given, **named)

                return changed

            os.replace, os.unlink = counted(os.replace), counted(os.unlink)
            ParquetStore._remove = counted(ParquetStore._remove)
            try:
                work(folder)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        done = int((folder / "done").read_text()) if (folder / "done").exists() else 0
        (folder / "done").unlink(missing_ok=True)
        there = content(reading(number) for number in range(done))
        store = ParquetStore(folder)
        found = store.get(reading(number).key for number in range(30))
        assert there.items() <= content(found.values()).items()
        store.close()
        assert content(store_rows(folder)) == content(found.values())
        if code == 0:
            break
        assert code == 9
    assert moment > 20


def test_a_changed_bit_anywhere_is_told_and_costs_no_more_than_its_rows(tmp_path, capsys):
    whole, readings = tmp_path / "whole", [reading(number) for number in range(40)]
    store = ParquetStore(whole)
    store.put(readings)
    store.close()
    chance, outcomes = random.Random(0), set()
    expected = content(readings)
    for at in range(40):
        folder = tmp_path / str(at)
        shutil.copytree(whole, folder)
        flip(chance.choice(sorted(folder.glob("prefix=*/*"))), chance)
        store = ParquetStore(folder)
        missing = store.missing(expected)
        found = content(store.get(expected).values())
        assert found.items() <= expected.items()
        assert missing == expected.keys() - found.keys()
        said = capsys.readouterr().err
        assert said or not missing
        outcomes.add(bool(missing))
        store.put([one for one in readings if one.key in missing])
        assert not store.missing(expected)
        store.close()
        if missing:
            assert main(["verify", str(folder)]) == 1
            assert main(["prune", str(folder), "damaged=true", "dry_run=false"]) == 0
        assert main(["verify", str(folder)]) == 0
        assert content(store_rows(folder)) == expected
        capsys.readouterr()
        shutil.rmtree(folder)
    assert outcomes == {True, False}


def test_a_file_that_cannot_be_read_is_told_once_and_loses_only_itself(tmp_path, capsys):
    for first in (0, 20):
        add_shard(tmp_path, [reading(number) for number in range(first, first + 20)])
    file = next(file for file in (tmp_path / "prefix=new").iterdir())
    file.write_bytes(file.read_bytes()[:100])
    store = ParquetStore(tmp_path)
    keys = [reading(number).key for number in range(40)]
    assert len(store.missing(keys)) == 20
    assert len(store.get(keys)) == 20
    assert capsys.readouterr().err == (
        f"judgebench: store=parquet:{tmp_path}: prefix=new/{file.name} is damaged, as after a fault of the disk; up to "
        "20 of its 20 readings are read again.\n"
    )


def test_a_row_with_another_checksum_is_missing_until_it_is_put_again(tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("judgebench.readings.store.checksum", lambda *columns: 7)
        add_shard(tmp_path, [reading(0), reading(1)])
    add_shard(tmp_path, [reading(1)])
    store = ParquetStore(tmp_path)
    for _ in range(2):
        assert store.missing([reading(n).key for n in (0, 1)]) == {reading(0).key}
    assert capsys.readouterr().err.count("1 of its readings do not match their checksums") == 1
    store.put([reading(0)])
    assert not store.missing([reading(0).key])
    store.close()
    assert main(["prune", str(tmp_path), "damaged=true", "dry_run=false"]) == 0
    assert content(store_rows(tmp_path)) == content([reading(0), reading(1)])


def test_shards_of_others_are_seen_at_once_and_the_same_ones_are_one_file(tmp_path):
    store = open_store(Path(f"parquet:{tmp_path / 's'}"))
    keys = [reading(number).key for number in range(9)]
    assert len(store.missing(keys)) == 9
    for _ in range(2):
        add_shard(tmp_path / "s", [reading(number) for number in range(9)])
        assert not store.missing(keys)
    assert len(list((tmp_path / "s" / "prefix=new").iterdir())) == 1
    add_shard(tmp_path / "s", [])
    with pytest.raises(UserError, match=r"a reading holds the log-probability 0\.5"):
        add_shard(tmp_path / "s", [ModelReading("a", np.array([0.5]), None, 0.0)])
    assert open_store(Path(f"parquet:{tmp_path / 's'}")) is store
    store.close()


def test_several_processes_of_one_run_share_it(tmp_path):
    store = SharedStore(tmp_path / "s", Processes(), ParquetStore)
    store.put([reading(1)])
    store.settle()
    assert store.missing([reading(1).key, reading(2).key]) == {reading(2).key}
    assert content(store.get([reading(1).key]).values()) == content([reading(1)])
    store.close()


def test_beside_a_large_sqlite_file_new_readings_go_to_shards_and_what_is_there_stays(tmp_path, capsys, monkeypatch):
    path = tmp_path / "r.sqlite"
    old = ReadingStore(path)
    old.put([reading(number) for number in range(2000)])
    old.close()
    assert type(open_store(path)) is ReadingStore
    monkeypatch.setattr(shards, "MANY", 1000)
    store = open_store(path)
    (said,) = capsys.readouterr().err.splitlines()
    assert "so from now on new ones go to Parquet files" in said
    store.put([reading(number) for number in range(1990, 2020)])
    keys = [reading(number).key for number in range(2025)]
    for _ in range(2):
        assert store.missing(keys) == set(keys[2020:])
        assert content(store.get(keys).values()) == content(reading(number) for number in range(2020))
        store.close()
        store = open_store(path)
    assert not capsys.readouterr().err
    assert ReadingStore(path).counts()[0] == 2000
    assert main(["list", str(path)]) == 0
    assert "2,000 readings" in capsys.readouterr().out
    store.close()


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("parquet:s3://bucket/readings", "a folder of this machine"),
        ("parquet:", "a folder of this machine"),
        ("parquet:notes.txt", "this is a file; name a folder"),
    ],
)
def test_what_is_no_folder_is_refused(tmp_path, monkeypatch, store, message):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("a")
    with pytest.raises(UserError, match=message):
        open_store(Path(store))


def test_duckdb_reads_it_without_judgebench(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is no dependency; pip install duckdb")
    add_shard(tmp_path, [reading(number) for number in range(30)])
    query = f"SELECT count(*), sum(len(logprobs)), max(seconds) FROM read_parquet('{tmp_path}/*/*.parquet')"
    assert duckdb.sql(query).fetchall() == [(30, 24, 29 / 7)]
