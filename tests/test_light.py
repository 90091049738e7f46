"""A user's mistake is named before what takes seconds is imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "lightning", "transformers", "matplotlib", "sklearn", "wandb", "optuna")
"""Modules that a mistaken command may not import."""

SLOW = ("pandas",)
"""Modules that take long to import, which only mistakes in data may cost."""

PROGRAM = """
import atexit, runpy, sys
atexit.register(lambda: print("imported", *sorted({name.partition(".")[0] for name in sys.modules})))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

OWN = ("judgebench", "data=jsonl", "data.scale=[1,5]", "dimensions=[quality]")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("judgebench", "--help"), ""),
        (("judgebench", "judge=locl"), "there is no judge 'locl'"),
        (("judgebench", "metrics.resamples=-1", "pairwise.prior=-1"), "metrics.resamples: -1"),
        ((*OWN, "data.path=none.jsonl"), "there is no such file"),
        ((*OWN, "data.path=lacks.jsonl"), "lacks.jsonl line 1: field 'output' is missing"),
        (("judgebench", "defenses=[nothing]", "pairwise.ties=x", "prompt.rubrics=nowhere"), "defenses: there is no"),
        (("judgebench", "+exp=demo", "ranges=[[7,9]]"), "answers under quality, 7-9"),
        (("judgebench.calibrate",), "usage"),
        (("judgebench.score", "card=card.yaml", "data.path=lacks.jsonl"), "dimension is not given"),
        (("judgebench.gate", "card=nowhere.yaml", "data.path=mine.jsonl"), "there is no such file"),
        (("judgebench.record", "nowhere", "out=readings.parquet"), "nowhere"),
        (("judgebench.plan", "nowhere", "within=0.2"), "nowhere"),
    ],
)
def test_a_mistake_is_named_before_heavy_modules_are_imported(command, message, tmp_path):
    (tmp_path / "lacks.jsonl").write_text(json.dumps({"source": "An article.", "quality": 1}) + "\n")
    (tmp_path / "card.yaml").write_text("format: judgebench judge card 1\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == (0 if command[-1] == "--help" else 2), done.stderr
    assert message in done.stderr
    imported = done.stdout.splitlines()[-1].split(" ")
    assert imported[0] == "imported"
    light = not any(word.startswith(("data", "+exp", "card", "nowhere")) for word in command)
    assert not {*HEAVY, *(SLOW if light else ())} & set(imported)
