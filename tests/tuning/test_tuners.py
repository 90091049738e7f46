"""The paper's own settings."""

import csv
from pathlib import Path

import pytest

from judgebench.runtime.errors import UserError
from judgebench.tuning.cells import Grid, Setting, same
from judgebench.tuning.tuners import Published, published_settings
from judgebench.types import ScoreRange

QWEN = ("Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-3B-Instruct")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "published" / "cd_hyperparameters.csv"
CELLS = [(d, ScoreRange(k, k + 4)) for d in ("coherence", "relevance", "consistency") for k in range(4)]


def test_each_of_the_four_pairs_has_twelve_cells_all_on_the_papers_grid():
    assert len(published_settings()) == 4
    kappas = {same(setting) for setting in Grid().settings}
    for held in published_settings().values():
        assert set(held) == set(CELLS)
        assert all(same(setting) in kappas for setting in held.values())


def test_table_3_by_hand():
    assert [published_settings()[QWEN][cell] for cell in CELLS[:4]] == [
        Setting(0.1, 2.0),
        Setting(0.01, 4.0),
        Setting(0.1, 1.0),
        Setting(0.1, 2.0),
    ]


def test_it_is_what_the_shared_file_says():
    if not SHARED.is_file():
        pytest.skip("../shared/published is not there")
    with SHARED.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cell = (row["dimension"], ScoreRange(float(row["range_min"]), float(row["range_max"])))
            found = published_settings()[row["main"], row["assistant"]][cell]
            assert found == Setting(float(row["lambda"]), float(row["temperature"]))


def test_what_the_paper_does_not_have_is_named():
    asked = [*CELLS, ("coherence", ScoreRange(1, 10)), ("fluency", ScoreRange(1, 5))]
    with pytest.raises(UserError, match=r"coherence 1-10, fluency 1-5; .*tune=dev"):
        Published().check(asked, QWEN)
    with pytest.raises(UserError, match=r"no settings for /models/qwen with no second model.*tune\.main="):
        Published().check(CELLS, ("/models/qwen", None))
