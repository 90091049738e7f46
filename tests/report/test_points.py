"""Mean absolute error and quadratic weighted kappa, against their formulas."""

import numpy as np
import pandas as pd
import pytest

from judgebench.report.views.correlations import POINTS, points_frame
from judgebench.results.results import Results

JUDGED = np.array([1, 1, 2, 5, 5, 4], dtype=float)
HUMAN = np.array([0, 25, 25, 100, 75, 75], dtype=float)  # on a scale of 0 to 100: 1, 2, 2, 5, 4, 4 on 1-5


def results_of(judged=JUDGED, human=HUMAN, scale=(0.0, 100.0)):
    row = {"split": "test", "dimension": "quality", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0}
    row |= {"attack": "none", "defense": "none", "judge": "main", "decoding": "greedy", "status": "parsed"}
    row |= {"lambda": np.nan, "temperature": np.nan}
    scores = pd.DataFrame([row | {"score": one, "human": other} for one, other in zip(judged, human, strict=True)])
    metrics = [{"split": "test", "level": "dataset", "attack": "none"}]
    return Results(scores=scores, metrics=metrics, about={"scale": {"quality": scale}})


def test_error_and_kappa_are_those_of_their_formulas():
    (row,) = points_frame(results_of()).to_dict("records")
    target = 1 + 4 * HUMAN / 100
    weights = (np.arange(5)[:, None] - np.arange(5)) ** 2
    observed = np.zeros((5, 5))
    for one, other in zip(JUDGED - 1, target - 1, strict=True):
        observed[int(one), int(other)] += 1
    chance = np.outer(observed.sum(1), observed.sum(0)) / len(JUDGED)
    assert row["mae"] == pytest.approx(np.abs(JUDGED - target).mean())
    assert row["kappa"] == pytest.approx(1 - (weights * observed).sum() / (weights * chance).sum())
    assert row["n"] == 6


def test_kappa_is_null_where_all_give_one_score_and_nothing_is_shown_without_a_scale():
    same = points_frame(results_of(np.full(6, 3.0), np.full(6, 50.0)))
    assert same["kappa"].tolist() == [None]
    assert same["mae"].tolist() == [0.0]
    assert POINTS.tables(results_of(scale=None)) == []
    (table,) = POINTS.tables(results_of())
    assert [str(cell) for cell in table.sections[0].rows[0]] == ["1-5", "main, greedy", "0.33", "0.933", "6"]
