"""What the jobs of a multirun share: all that is loaded and read, and nothing across runs."""

import pickle

import pytest
from omegaconf import OmegaConf

from judgebench.judges.local.loop import trainer_of
from judgebench.runs.job import key_of
from judgebench.runtime.session import Session
from judgebench.words.errors import UserError


def key(**changes):
    usual = {"data": {"path": "d"}, "judge": {"path": "m"}, "defenses": ["none"], "ranges": [[0, 4]], "tune": None}
    return key_of(OmegaConf.create(usual | changes))


@pytest.mark.parametrize("change", [{"defenses": ["sandwich"]}, {"data": {"path": "other"}}, {"ranges": [[1, 5]]}])
def test_what_is_read_counts(change):
    assert key() == key() != key(**change)


def test_how_scores_are_made_of_readings_does_not_count():
    assert key() == key(tune={"lambdas": [1]}, metrics={"seed": 1})


def test_a_file_of_the_same_name_in_another_folder_counts(monkeypatch, tmp_path):
    before = key()
    monkeypatch.chdir(tmp_path)
    assert key() != before


def test_a_job_that_a_launcher_sends_to_another_process_begins_a_session_of_its_own():
    assert pickle.loads(pickle.dumps(Session(last="a run"))) == Session()


@pytest.mark.parametrize("name", ["tpu", "hpu"])
def test_an_accelerator_whose_library_is_absent_is_a_sentence(name):
    trainer = {"_target_": "lightning.Trainer", "_partial_": True, "accelerator": name, "logger": False}
    with pytest.raises(UserError, match=r"^trainer: Lightning does not take it: "):
        trainer_of(OmegaConf.create({"trainer": trainer}))
