"""What the jobs of a multirun share: all that is loaded and read, and nothing across runs."""

from __future__ import annotations

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from judgebench.judges.local.loop import trainer_of
from judgebench.runs.job import key_of
from judgebench.words.errors import UserError


@pytest.fixture
def multirun(monkeypatch):
    """Hydra in a job of a multirun."""
    known = OmegaConf.create({"mode": RunMode.MULTIRUN, "sweep": {"dir": "sweep"}})
    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    monkeypatch.setattr(HydraConfig, "get", lambda: known)
    return known


def key(**changes):
    usual = {"data": {"path": "d"}, "judge": {"path": "m"}, "defenses": ["none"], "ranges": [[0, 4]], "tune": None}
    return key_of(OmegaConf.create(usual | changes))


@pytest.mark.parametrize("change", [{"defenses": ["sandwich"]}, {"data": {"path": "other"}}, {"ranges": [[1, 5]]}])
def test_what_is_read_counts(multirun, change):
    assert key() == key() != key(**change)


def test_how_scores_are_made_of_readings_does_not_count(multirun):
    assert key() == key(tune={"lambdas": [1]}, metrics={"seed": 1})


def test_a_run_by_itself_and_another_multirun_share_nothing(multirun):
    before = key()
    multirun.sweep.dir = "other"
    assert key() != before
    multirun.mode = RunMode.RUN
    assert key() == ""


@pytest.mark.parametrize("name", ["tpu", "hpu"])
def test_an_accelerator_whose_library_is_absent_is_a_sentence(name):
    trainer = {"_target_": "lightning.Trainer", "_partial_": True, "accelerator": name, "logger": False}
    with pytest.raises(UserError, match=r"^trainer: Lightning does not take it: "):
        trainer_of(OmegaConf.create({"trainer": trainer}))
