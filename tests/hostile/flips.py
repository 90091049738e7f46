"""Flipped bits: what a store and a run folder give after one bit of one file has changed.

A flip ends in one of three ways: what is read is as it was; readings count as missing, and are put again; or a
`UserError` says what is wrong. Anything else is a silent fault. As a program, a whole
campaign of so many flips each:

    python -m tests.hostile.flips 2000
"""

import io
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd

from judgebench.readings.reading import FOLDER, ModelReading, Recording
from judgebench.readings.store import ReadingStore
from judgebench.results.folder import RunFolder, describe_environment
from judgebench.results.results import Results
from judgebench.results.schema import READINGS_SCHEMA, SCORES_SCHEMA
from judgebench.words.errors import UserError

RECORDED = next(FOLDER.glob("*.parquet"))
SAME, ANEW, REFUSED, SILENT = "the same", "read anew", "refused", "silent"


def made_store(path: Path, count: int = 120, seed: int = 0) -> list[ModelReading]:
    """A store with scores, answers and written texts, once as a finished and once as a killed run leaves it, and its
    readings."""
    draw = np.random.default_rng(seed)
    readings = []
    for i in range(count):
        key, seconds = draw.bytes(32).hex(), float(draw.random())
        tokens = draw.integers(0, 50_000, 20, dtype=np.int32) if i % 3 == 2 else None
        scores = np.log(draw.dirichlet(np.ones(5))).astype(np.float32) if i % 3 == 0 else None
        readings.append(ModelReading(key, scores, None if i % 3 == 0 else f"Ünïcode, score: {i % 5}", seconds, tokens))
    store = ReadingStore(path)
    store.put(readings[: count // 2])
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.put(readings[count // 2 :])  # stays in the write-ahead log
    store.file_digest(Path(__file__))
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", path.with_name(f"killed-{path.name}{ending}"))
    store.close()
    path.rename(path.with_name(f"finished-{path.name}"))
    return readings


def flip_store(path: Path, readings: list[ModelReading], chance: random.Random) -> str:
    """What one flipped bit of the store, or of its write-ahead log, ends in."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    left = chance.choice(["killed", "finished", "finished", "finished"])
    for part in path.parent.glob(f"{left}-*"):
        shutil.copy(part, path.with_name(part.name.removeprefix(f"{left}-")))
    flip(chance.choice(sorted(path.parent.glob(f"{path.name}*"))), chance)
    keys = [reading.key for reading in readings]
    store = None
    try:
        with redirect_stderr(io.StringIO()) as printed:
            store = ReadingStore(path)
            missing = store.missing(keys)
            before = store.get(keys)
            if set(before) != set(keys) - missing:
                return SILENT
            store.put([reading for reading in readings if reading.key in missing])
            after = store.get(keys)
            digest = store.file_digest(Path(__file__)) == ReadingStore(Path(":memory:")).file_digest(Path(__file__))
            same = all(_equal(after[reading.key], reading) for reading in readings)
            same &= all(_equal(before[reading.key], reading) for reading in readings if reading.key in before)
    except UserError:
        return REFUSED
    finally:
        if store is not None and hasattr(store, "_db"):
            store.close()
    said = re.search(r"([\d,]+) of its readings do not match", printed.getvalue())
    if not (same and digest) or len(missing) < int(said[1] if said else 0):
        return SILENT
    return ANEW if missing else SAME


def made_run(path: Path) -> RunFolder:
    """A run folder with every file that a report reads."""
    folder, draw = RunFolder(path), np.random.default_rng(0)
    folder.write("config", {"seed": 1, "judge": {"path": "model"}})
    keys = {"example_id": [f"e{i}" for i in range(40)], "group_id": "g", "system_id": "s", "split": "test"}
    keys |= {"dimension": "coherence", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0}
    keys |= {"attack": "none", "defense": "none"}
    names = [name for name in READINGS_SCHEMA.names if name not in keys]
    logprobs = [np.log(one).tolist() for one in draw.dirichlet(np.ones(5), 40)]
    readings = pd.DataFrame({**keys, **dict.fromkeys(names)}).assign(prompt="Rate the text.", prompt_tokens=4)
    folder.write("readings", readings.assign(candidates=[list("12345")] * 40, main_logprobs=logprobs))
    names = [name for name in SCORES_SCHEMA.names if name not in keys]
    scores = pd.DataFrame({**keys, **dict.fromkeys(names)}).assign(judge="main", decoding="greedy", status="parsed")
    folder.write("scores", scores.assign(score=draw.integers(1, 6, 40), human=draw.normal(size=40)))
    folder.write("metrics", [{"spearman": value, "n": 40} for value in draw.random(20)])
    folder.write("comparisons", [{"difference": value} for value in draw.random(5)])
    folder.write("tuning", {"cells": draw.random(5)})
    folder.write("about", {"titles": {"main": "a"}, "scale": {"coherence": (1.0, 5.0)}, "agreement": {}})
    folder.write("suffix", [{"length": 1, "change": 0.25}])
    folder.write(
        "environment",
        describe_environment(device="cpu", model_fingerprints={}, seconds={"read": 1.5}, tokens={"total": 3}),
    )
    folder.write("costs", [{"seconds": value} for value in draw.random(5)])
    folder.write_digests()
    return folder


def flip_run(whole: Path, path: Path, chance: random.Random) -> str:
    """What one flipped bit of a run folder's file ends in."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(whole, path)
    flip(chance.choice(sorted(file for file in path.rglob("*") if file.is_file())), chance)
    try:
        return SAME if read_run(path) == read_run(whole) else SILENT
    except UserError:
        return REFUSED


def read_run(path: Path) -> list[str]:
    """All that a report reads of a run, as text."""
    results = Results.load(path)
    values = [getattr(results, one.name) for one in fields(results) if one.name != "path"]
    return [value.to_json() if isinstance(value, pd.DataFrame) else repr(value) for value in values]


def flip(file: Path, chance: random.Random) -> None:
    """Changes one bit of a file."""
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data) * 8)
    data[at // 8] ^= 1 << at % 8
    file.write_bytes(data)


def made_recording(path: Path) -> Recording:
    """Recorded readings, a copy of those that come with judgebench."""
    shutil.copy(RECORDED, path)
    return Recording.open(str(path))


def flip_recording(path: Path, whole: Recording, chance: random.Random) -> str:
    """What one flipped bit of recorded readings ends in."""
    shutil.copy(RECORDED, path)
    flip(path, chance)
    try:
        read = Recording.open(str(path))
        return SAME if (read.about, read.rows) == (whole.about, whole.rows) else SILENT
    except UserError:
        return REFUSED


def campaign(folder: Path, stores: int, runs: int, recordings: int, seed: int = 0) -> dict[str, Counter[str]]:
    """How often flips ended in what, in stores, run folders and recorded readings."""
    chance = random.Random(seed)
    readings = made_store(folder / "readings.sqlite")
    made_run(folder / "whole")
    whole = made_recording(folder / "readings.parquet")
    return {
        "store": Counter(flip_store(folder / "readings.sqlite", readings, chance) for _ in range(stores)),
        "run folder": Counter(flip_run(folder / "whole", folder / "run", chance) for _ in range(runs)),
        "recorded readings": Counter(
            flip_recording(folder / "readings.parquet", whole, chance) for _ in range(recordings)
        ),
    }


def _equal(one: ModelReading, other: ModelReading) -> bool:
    def content(reading: ModelReading) -> tuple[object, ...]:
        arrays = (None if array is None else array.tobytes() for array in (reading.logprobs, reading.tokens))
        return (reading.key, reading.text, reading.seconds, *arrays)

    return content(one) == content(other)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for name, outcomes in campaign(Path(place), *([int(sys.argv[1])] * 3)).items():
            print(f"{name}: {dict(outcomes)}, silent {outcomes[SILENT]}")
