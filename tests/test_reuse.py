"""What a run depends on: files that change, and folders however deep."""

import os

import pytest
from omegaconf import OmegaConf

from judgebench import reuse
from judgebench.reuse import key_of


@pytest.fixture
def folder(tmp_path):
    for name in ("top.parquet", "part/0.parquet", "part/deep/1.parquet"):
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "data"


def config(data, **more):
    return OmegaConf.create(
        {"data": {"path": str(data)}, "judge": {"path": "model"}, "store": "s", "tune": None} | more
    )


@pytest.mark.parametrize("name", ["top.parquet", "part/0.parquet", "part/deep/1.parquet"])
def test_a_file_of_the_data_counts_however_deep_it_lies(folder, name):
    before = key_of(config(folder))
    assert key_of(config(folder)) == before
    os.utime(folder / name, ns=(1, 1))
    assert key_of(config(folder)) != before


def test_a_file_that_comes_or_goes_counts(folder):
    before = key_of(config(folder))
    (folder / "part" / "2.parquet").write_text("more")
    assert key_of(config(folder)) != before
    (folder / "part" / "2.parquet").unlink()
    assert key_of(config(folder)) == before


def test_of_other_folders_only_the_files_themselves_count(folder):
    given = config("none", judge={"path": str(folder)})
    before = key_of(given)
    os.utime(folder / "part" / "0.parquet", ns=(1, 1))
    assert key_of(given) == before
    os.utime(folder / "top.parquet", ns=(1, 1))
    assert key_of(given) != before


def test_what_is_too_much_to_look_through_counts_as_changed(folder, monkeypatch):
    monkeypatch.setattr(reuse, "MOST_FILES", 4)
    assert key_of(config(folder)) != key_of(config(folder))
    monkeypatch.setattr(reuse, "MOST_FILES", 5)  # three files in two folders
    assert key_of(config(folder)) == key_of(config(folder))


@pytest.mark.parametrize("change", [{"defenses": ["sandwich"]}, {"defenses_seed": 1}])
def test_what_is_done_against_attacks_counts(folder, change):
    given = {"defenses": ["none"], "defenses_seed": 0}
    assert key_of(config(folder, **given)) != key_of(config(folder, **given | change))


def test_how_scores_are_made_of_readings_does_not_count(folder):
    assert key_of(config(folder)) == key_of(config(folder, tune={"lambdas": [1]}, metrics={"seed": 1}))
    assert key_of(config(folder)) != key_of(config(folder, ranges=[[1, 5]]))
