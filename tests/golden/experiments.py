"""The frozen experiments: what is run, and the answers that they need. All readings come from the store beside this."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import math
import os
import random
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
STORE = HERE / "store_acb74e1.sqlite.gz"
"""Readings that the code at commit acb74e1 wrote, in its format 1; every later version reads none of them anew."""

VECTORS = HERE / "vectors_joint.safetensors"
"""Standard vectors that the same code found. Finding them takes the tutor's hidden states, which are not stored, and
texts steered by them are stored under their last bits."""

PORT = 18734
"""Of the server that gave the served judge's answers; nobody listens there any more."""

_COMMON = ("logger=none", "store=store.sqlite", "metrics.resamples=200")
_PHRASE = ("attack=phrase", "attack.phrase_file=phrase.json")
_SERVED = (
    *("name=served", "judge=api", f"judge.url=http://127.0.0.1:{PORT}/v1", "judge.model=small"),
    *("judge.price={input: 1.0, output: 2.0}", "assistant=api", "assistant.model=smaller", "data.limit_groups=7"),
    *("data.dev_share=0.3", "decoding=[greedy,expectation,contrastive,contrastive_expectation]", "tune=exact"),
    *("metrics.levels=[dataset]", "attacks=[none,dsi]", *_PHRASE),
)
_REPLAY = (
    *("name=replay", "judge=replay", "judge.path=answers.jsonl", "data.limit_groups=8", "data.dev_share=0"),
    *("dimensions=[coherence,fluency]", "ranges=[[1,5],[0,4]]", "attacks=[none,dsi]"),
    *(f"judge.fields.{axis}={axis}" for axis in ("dimension", "range", "attack")),
)
EXPERIMENTS = {
    "mini": (
        *("+exp=mini", "data.limit_groups=10", "data.dev_share=0.4", "tune=shared", "tables=[cd]"),
        "metrics.levels=[dataset,document,system]",
    ),
    "cap_demo": (
        *("+exp=cap_demo", "data.limit_groups=4", "tutor.candidates=4", "tutor.max_new_tokens=12"),
        *("tutor.high_percentile=55", "tutor.low_percentile=45", "defense.cot_tokens=32", "tables=[cap]"),
        "tutor.vectors=vectors_joint.safetensors",
    ),
    "pairwise": (
        *("+exp=pairwise", "data.limit_groups=5", "data.dev_share=0.2", "prompt.rivals=1", "attacks=[none,dsi]"),
        *_PHRASE,
    ),
    "replay": _REPLAY,
    "served": _SERVED,
}
"""Name -> overrides; each is run as `python -m judgebench OVERRIDES` in an empty folder, its run folder is `run`."""

_SYSTEMS = ("faithful", "shuffled", "swapped", "off_topic", "garbled", "lead")


def draw(*what: object) -> random.Random:
    """A generator of random numbers that depends on `what` alone."""
    return random.Random(hashlib.sha256(repr(what).encode()).digest())


def served_likely(model: str, prompt: str) -> dict[str, float]:
    """Next tokens of the served judge and their probabilities, for one prompt; not every score is listed."""
    chance = draw(model, prompt)
    middle = chance.uniform(1, 5) + ("Score: 5" in prompt) + (model == "small")
    weights = {str(score): math.exp(-((score - middle) ** 2)) for score in range(1, 6)} | {"The": 0.3}
    listed = sorted(weights.items(), key=lambda pair: -pair[1])[: chance.choice((3, 4, 6))]
    return {token: weight / sum(weights.values()) for token, weight in listed}


def answers() -> list[dict[str, object]]:
    """Earlier answers of a judge about the embedded summaries: most name a score, some none; a few are missing."""
    rows = []
    for example in (f"mini-{group:02}-{system}" for group in range(1, 9) for system in _SYSTEMS):
        for dimension in ("coherence", "fluency"):
            for low, high in ((1, 5), (0, 4)):
                for attack in ("none", "dsi"):
                    chance = draw(example, dimension, low, attack)
                    score = chance.randint(low, high) if attack == "none" else chance.randint(low + 2, high)
                    forms = (f"{score}", f"Rating: {score}", f"**{score}**", f"{score} out of {high}", "I cannot say.")
                    row = {"example_id": example, "dimension": dimension, "range": [low, high], "attack": attack}
                    if chance.random() > 0.02:
                        rows.append({**row, "text": chance.choice(forms)})
    return rows


def write_inputs(folder: Path) -> None:
    """Writes the files that the overrides name: the store, vectors, a learned phrase, and earlier answers."""
    if STORE.is_file():
        (folder / "store.sqlite").write_bytes(gzip.decompress(STORE.read_bytes()))
    (folder / VECTORS.name).write_bytes(VECTORS.read_bytes())
    (folder / "phrase.json").write_text('{"phrase": "truly excellent"}\n', "utf-8")
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers())) + "\n", "utf-8")


def stored_keys(folder: Path) -> set[str]:
    """Keys of the readings in the folder's store; none where there is no store."""
    if not (folder / "store.sqlite").is_file():
        return set()
    with contextlib.closing(sqlite3.connect(folder / "store.sqlite")) as database:
        return {key for (key,) in database.execute("SELECT key FROM readings")}


def run(name: str, folder: Path, *more: str) -> str:
    """Runs an experiment in `folder`, without drawing its figures, and returns what it prints.

    Raises:
        RuntimeError: it fails.
    """
    from hydra.core.global_hydra import GlobalHydra

    from judgebench.__main__ import main

    GlobalHydra.instance().clear()
    arguments = ["judgebench", *_COMMON, *EXPERIMENTS[name], "run_dir=run", *more]
    printed, told, code = io.StringIO(), io.StringIO(), 0
    with (
        _inside(folder),
        mock.patch.object(sys, "argv", arguments),
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        mock.patch.object(Figure, "savefig", _blank),
        mock.patch("time.perf_counter", return_value=0.0),  # what this run takes is 0 s; what reading took is stored
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(told),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    if code:
        raise RuntimeError(f"{' '.join(arguments)}\n{printed.getvalue()}{told.getvalue()}")
    return printed.getvalue()


def _blank(figure: Figure, to: io.BytesIO, **how: object) -> None:
    """An empty image in place of a drawing, which takes seconds and is looked at by eye."""
    to.write(b'<svg xmlns="http://www.w3.org/2000/svg"/>' if how.get("format") == "svg" else b"")


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
