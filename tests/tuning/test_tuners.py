"""Grids and tuners: the 24 points of the paper are 18 decodings; its own settings."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from judgebench.runtime.errors import UserError
from judgebench.tuning.tuners import Grid, Published, Setting, best_point, published_settings, same
from judgebench.types import ScoreRange


def test_the_papers_24_points_are_18_kappas():
    grid = Grid()
    assert len(grid.settings) == 24
    assert len({same(setting) for setting in grid.settings}) == 18
    assert grid.settings[:2] == [Setting(0.01, 0.5), Setting(0.01, 1.0)]


def test_the_smallest_and_the_largest_kappa_are_edges():
    grid = Grid([0.1, 1], [1, 2])
    assert [grid.at_edge(setting) for setting in grid.settings] == [False, True, True, False]
    assert grid.at_edge(Setting(5.0, 1.0))
    assert not grid.at_edge(Setting(0.3, 1.0))
    assert Grid([1], [1]).at_edge(Setting(1.0, 1.0))


def test_of_equal_values_the_smallest_kappa_wins_then_the_first():
    grid = Grid([0.5, 1], [1, 2])  # kappas 0.5, 0.25, 1, 0.5
    vary = [0, 0, 0, 0]
    assert best_point(grid, [0.3, 0.3, 0.3, 0.3], vary) == 1
    assert best_point(grid, [0.3, 0.2, 0.3, 0.3], vary) == 0
    assert best_point(grid, [0.3, 0.2, 0.3 + 1e-15, 0.1], vary) == 0  # equal but for rounding
    assert best_point(grid, [-0.3, -0.2, -0.1, -0.1 - 1e-9], vary) == 2


def test_what_is_constant_in_fewer_ranges_wins_whatever_its_value():
    grid = Grid([0.5, 1], [1, 2])
    assert best_point(grid, [0.0, -0.2, -0.3, 0.0], [1, 0, 0, 1]) == 1
    assert best_point(grid, [0.0, 0.1, 0.0, 0.0], [2, 2, 1, 1]) == 3
    assert best_point(grid, [0.0, 0.0, 0.0, 0.0], [1, 1, 1, 1]) == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"lambdas": []}, r"tune\.lambdas: \[\] should "),
        ({"lambdas": "0.1"}, r"tune\.lambdas: '0\.1' should "),
        ({"lambdas": [-1]}, r"tune\.lambdas\[0\]: -1 should "),
        ({"lambdas": [math.nan]}, r"tune\.lambdas\[0\]: nan should"),
        ({"lambdas": [True]}, r"tune\.lambdas\[0\]: True should"),
        ({"temperatures": [0]}, r"tune\.temperatures\[0\]: 0 should "),
        ({"temperatures": ["hot"]}, r"tune\.temperatures\[0\]: 'hot' should"),
        ({"temperatures": None}, r"tune\.temperatures: None should "),
    ],
)
def test_nonsense_is_refused(given, sentence):
    with pytest.raises(UserError, match=sentence):
        Grid(**given)


QWEN = ("Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-3B-Instruct")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "published" / "cd_hyperparameters.csv"
CELLS = [(d, ScoreRange(k, k + 4)) for d in ("coherence", "relevance", "consistency") for k in range(4)]


def test_each_of_the_four_pairs_has_twelve_cells_all_on_the_papers_grid():
    assert len(published_settings()) == 4
    kappas = {same(setting) for setting in Grid().settings}
    for held in published_settings().values():
        assert set(held) == set(CELLS)
        assert all(same(setting) in kappas for setting in held.values())


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
