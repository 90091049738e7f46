"""Artifacts are named by what they hold, so that maker and user of a file name it alike."""

import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from judgebench.tracking.content import artifact_kind, used_files
from judgebench.tracking.loggers import log_run
from judgebench.tracking.wandb import QuietWandbLogger
from tests.tracking.test_wandb_logger import results_of
from tests.tracking.wandb_file import read_finished, records, the_file


def logged(folder: Path, config: dict, files: list[Path]) -> tuple[dict, dict]:
    """What an offline run says in its config, and its artifacts by kind: (name, metadata)."""
    results = results_of(config=config, environment={"model_fingerprints": {"main": "abc"}})
    log_run([partial(QuietWandbLogger, folder)], results, {}, files)
    file = the_file(folder)
    found = read_finished(file)
    made = [one.artifact for one in records(file) if one.WhichOneof("record_type") == "artifact"]
    return found.config, {one.type: (one.name, json.loads(one.metadata)) for one in made if one.type != "run_table"}


@pytest.fixture
def phrase(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("WANDB_MODE", "offline")
    path = tmp_path / "first" / "attack" / "phrase.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"phrase": "great well"}))
    return path


def test_who_uses_a_phrase_names_it_as_who_made_it(phrase, tmp_path):
    scores = tmp_path / "first" / "scores.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(scores)
    config, made = logged(tmp_path / "first", {"attack": None}, [scores, phrase])
    assert "uses" not in config
    assert set(made) == {"results", "phrase"}
    name, about = made["phrase"]
    assert about["models"] == {"main": "abc"}
    assert about["made_from"] == []
    copy = tmp_path / "elsewhere.json"
    shutil.copy(phrase, copy)
    taken = {"attack": None, "attacks": ["none", {"phrase_file": str(copy)}]}
    # it goes by another file name there, and is known by its content all the same
    config, made = logged(tmp_path / "second", taken, [scores])
    assert config["uses"] == [name]
    assert made["results"][1]["made_from"] == config["uses"]
    taken = {"attack": {"phrase_file": str(phrase)}}
    config, _ = logged(tmp_path / "third", taken, [scores])
    assert config["uses"] == [name]


def test_used_files_are_those_that_the_configuration_names(tmp_path):
    (tmp_path / "defense").mkdir()
    for name in ("vectors_summary.safetensors", "detectors.json"):
        (tmp_path / "defense" / name).write_text("x")
    config = {
        "attack": {"phrase_file": str(tmp_path / "missing.json")},
        "defense": {"detectors": str(tmp_path / "defense" / "detectors.json")},
        "tutor": {"vectors": str(tmp_path / "defense")},
        "attacks": ["none"],
    }
    found = used_files(config)
    assert [artifact_kind(path) for path in found] == ["detectors", "vectors"]
    assert used_files({"attack": None, "defense": None, "tutor": None, "attacks": None}) == []
