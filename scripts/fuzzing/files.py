"""Files of data, answers and findings, whole, with odd values, with other bytes, cut off."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from fuzzing.chance import change, damaged
from fuzzing.target import Target, folder_of_cases, told, written
from judgebench.attacks import LearnedPhrase
from judgebench.config.choices import FOLDER
from judgebench.data.dataset import RatingDataset
from judgebench.data.jsonl import JsonLines
from judgebench.data.rows import json_lines
from judgebench.defenses.detection import load_detector, threshold_curve
from judgebench.judges.precomputed.replay import AnswerFields, match
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.results.folder import RunFolder
from judgebench.settings.components import build_component
from judgebench.tutor.spec import Sizes
from judgebench.tutor.vectors import load_vectors
from judgebench.types import Condition, Example, Prompt, ScoreRange

_NUMBERS = {"coherence": 3, "consistency": 4.5, "fluency": 1, "relevance": 5}
_OF_TURNS = dict.fromkeys(
    ("understandability", "naturalness", "coherence", "engagingness", "groundedness", "overall"), 1
)
_WHOLE: dict[str, list[dict[str, Any]]] = {
    "jsonl": [
        {"example_id": f"g/{i}", "group_id": "g", "source": "s", "output": "o", "human": {"coherence": i}}
        for i in (1, 2)
    ],
    "summeval": [
        {"id": "a", "model_id": f"M{i}", "decoded": "d", "text": "t", "expert_annotations": [_NUMBERS, _NUMBERS]}
        for i in (1, 2)
    ],
    "geval": [
        {"doc_id": "a", "system_id": f"M{i}", "source": "s", "system_output": "o", "scores": {**_NUMBERS}}
        for i in (1, 2)
    ],
    "mteb": [{"id": "a", "text": "t", "machine_summaries": ["x", "y"], **{k: [v, v] for k, v in _NUMBERS.items()}}],
    "topicalchat": [
        {"source": "s", "context": "_nofact\n", "system_id": f"M{i}", "system_output": "o", "scores": {**_OF_TURNS}}
        for i in (1, 2)
    ],
    "answers": [
        {"example_id": f"g/{i}", "answer": "Score: 4", "dimension": "coherence", "range": "1-5"} for i in (0, 1)
    ],
}


def _file_case(kinds: list[str]) -> Callable[[random.Random], tuple[str, bytes]]:
    """A whole file of one of the kinds, with values changed, bytes changed, or cut off."""

    def case(chance: random.Random) -> tuple[str, bytes]:
        kind = chance.choice(kinds)
        rows = json.loads(json.dumps(_WHOLE[kind]))
        for _ in range(chance.randrange(3)):
            change(chance, rows)
        listed = kind in ("geval", "topicalchat") and chance.random() < 0.7
        text = json.dumps(rows) if listed else "\n".join(map(json.dumps, rows))
        return kind, damaged(chance, text.encode("utf-8", "surrogatepass"))

    return case


_declared = cache(lambda name: OmegaConf.load(FOLDER / "data" / f"{name}.yaml"))


def _published(name: str, path: Path) -> RatingDataset:
    data: RatingDataset = build_component(OmegaConf.merge(_declared(name), {"path": str(path)}))
    return data


_LOADERS: dict[str, Callable[[Path], RatingDataset]] = {
    "jsonl": lambda path: JsonLines(str(path), {"source": "source", "output": "output", "human": "human"}),
    **dict.fromkeys(("summeval", "geval", "mteb"), lambda path: _published("summeval", path)),
    "topicalchat": lambda path: _published("topicalchat", path),
}


def _check_data(case: tuple[str, bytes]) -> None:
    kind, data = case
    path = written("data.jsonl", data)

    def load() -> None:
        module = _LOADERS[kind](path)
        module.setup()
        for example in module.examples:
            assert not any(math.isinf(value) for value in example.human.values())  # NaN where nobody rated
            example.output.encode()

    told(load)


def _check_answers(case: tuple[str, bytes]) -> None:
    path = written("answers.jsonl", case[1])
    fields = AnswerFields("answer", "example_id", dimension="dimension", range="range")

    def read() -> str:
        rows = json_lines(path, "judge.path")
        return match(path.name, rows, fields, lambda row: row.text("answer"), _prompts(), {"g": "test"}, "mini").note

    told(read)


@cache
def _prompts() -> list[Prompt]:
    condition = Condition("coherence", ScoreRange(1, 5))
    examples = [Example(f"g/{i}", "g", f"s{i}", "s", "o", {"coherence": 3.0}) for i in (0, 1)]
    return [Prompt(one, condition, "p", "t", np.zeros(1, np.int32), 0, 0, {}) for one in examples]


def _json_case(chance: random.Random) -> bytes:
    whole: list[Any] = [
        {"phrase": "a b", "by_length": ["a", "a b"], "contexts": ["g"], "systems": ["s"], "learned": {"judge": "x"}},
        [_DETECTOR, {**_DETECTOR, "defense": "another"}],
    ]
    made = json.loads(json.dumps(whole[chance.randrange(2)]))
    for _ in range(chance.randrange(3)):
        change(chance, made)
    return damaged(chance, json.dumps(made).encode("utf-8", "surrogatepass"))


_DETECTOR: dict[str, Any] = {
    **{"defense": "perplexity", "dataset": "mini", "helper": "m", "helper_sha256": "0", "threshold": 3.5},
    **{"training": {"groups": ["g"]}, "curve": {"thresholds": [1.0], "precision": [0.5], "recall": [1.0]}},
}


def _check_json_files(data: bytes) -> None:
    path = written("content.json", data)
    phrase = told(lambda: LearnedPhrase.read(str(path)))
    if phrase is not None:
        assert all(text.strip() for text in phrase.by_length)
    record = told(lambda: load_detector(str(path)))
    assert record is None or math.isfinite(record["threshold"])


def _vector_case(chance: random.Random) -> bytes:
    header = {
        "__metadata__": {"format": "judgebench standard vectors 1", "layer": "1", "tutor": '"m"', "groups": '["g"]'},
        "high": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "low": {"dtype": "F32", "shape": [2, 4], "data_offsets": [32, 64]},
    }
    change(chance, header)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    length = chance.choice([len(text)] * 6 + [0, 1, len(text) + 1, 2**40, 2**63])
    return damaged(chance, struct.pack("<Q", length) + text + bytes(64))


def _check_vectors(data: bytes) -> None:
    path = written("vectors.safetensors", data)
    assert told(lambda: load_vectors(path, "0" * 64, Sizes(2, 4, 0))) is None, "no whole vectors were given"


def _threshold_case(chance: random.Random) -> tuple[np.ndarray, np.ndarray]:
    count = chance.randint(2, 12)
    values = [chance.choice([0.0, 1.0, chance.random() * 9, 1e300, -1e300, 5e-324, math.nan]) for _ in range(count)]
    return np.array([1.0, 2.0, *values]), np.array([False, True, *(chance.random() < 0.5 for _ in range(count))])


def _check_thresholds(case: tuple[np.ndarray, np.ndarray]) -> None:
    curve = threshold_curve(*case)
    assert (np.diff(curve.thresholds) > 0).all()
    for shares in (curve.precision, curve.recall, curve.f1):
        assert ((shares >= 0) & (shares <= 1 + 1e-12)).all()
    assert (np.diff(curve.recall) <= 1e-12).all()


def _binary_case(chance: random.Random) -> tuple[str, bytes]:
    kind = chance.choice(["store.sqlite", "readings.parquet", "metrics.json", "config.yaml"])
    data = _whole_file(kind)
    if chance.random() < 0.5:
        return kind, data[: chance.randrange(len(data))]
    found = bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        found[chance.randrange(len(found))] = chance.randrange(256)
    return kind, bytes(found)


@cache
def _whole_file(kind: str) -> bytes:
    folder = folder_of_cases() / "whole"
    folder.mkdir(exist_ok=True)
    if kind == "store.sqlite":
        store = ReadingStore(folder / kind)
        store.put([ModelReading(f"{i:064d}", -np.arange(5, dtype=np.float32), None, 0.1) for i in range(60)])
        store.close()
    elif kind == "readings.parquet":
        pd.DataFrame({"example_id": ["a"] * 9, "main_logprobs": [[0.5, 1.0]] * 9}).to_parquet(folder / kind)
    elif kind == "metrics.json":
        (folder / kind).write_text(json.dumps([{"dataset": "mini", "spearman": 0.5, "flags": []}] * 3))
    else:
        (folder / kind).write_text("judge:\n  path: a\nranges: [[1, 5]]\n")
    return (folder / kind).read_bytes()


def _check_binary(case: tuple[str, bytes]) -> None:
    kind, data = case
    place = folder_of_cases() / "run"
    place.mkdir(exist_ok=True)
    for left in place.iterdir():
        left.unlink()
    path = place / kind
    path.write_bytes(data)
    folder = RunFolder(place)
    if kind == "store.sqlite":
        told(lambda: _used(path))
    elif kind == "readings.parquet":
        told(lambda: folder.read("readings"))
    else:
        told(lambda: folder.read("metrics" if kind == "metrics.json" else "config"))


def _used(path: Path) -> None:
    store = ReadingStore(path)
    try:
        store.get([f"{i:064d}" for i in range(60)])
        store.put([ModelReading("0" * 64, np.zeros(5, np.float32), "a", 0.1)])
    finally:
        store.close()


TARGETS = (
    Target("data", 0.06, _file_case(["jsonl", "summeval", "geval", "mteb", "topicalchat"]), _check_data),
    Target("replayed", 0.03, _file_case(["answers"]), _check_answers),
    Target("json", 0.08, _json_case, _check_json_files),
    Target("vectors", 0.05, _vector_case, _check_vectors),
    Target("thresholds", 0.08, _threshold_case, _check_thresholds),
    Target("binary", 0.005, _binary_case, _check_binary),
)
