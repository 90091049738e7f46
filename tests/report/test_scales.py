"""The same texts on two scales: numbers by hand, and what is left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from judgebench.report.views.scales import SCALES, scales_frame, twins
from judgebench.results.results import Results

HUMAN = {"fluency": [1.0, 2.0, 4.0, 5.0], "fluency_100": [10.0, 30.0, 20.0, 100.0]}
JUDGED = {("fluency", 1, 5): [1.0, 1.0, 5.0, 5.0], ("fluency_100", 0, 100): [20.0, 50.0, 50.0, 50.0]}
JUDGED |= {("fluency", 0, 100): [0.0] * 4, ("fluency_100", 1, 5): [3.0] * 4}
STEPS = {5: 1.0, 100: 10.0}


def results(judged=None, ratings=None, scale=((1.0, 5.0), (0.0, 100.0)), judge="main"):
    rows = [
        {
            **{"example_id": f"e{i}", "group_id": f"g{i // 2}", "system_id": "s", "split": "test"},
            **{"dimension": dimension, "range_min": low, "range_max": high, "range_step": STEPS[high]},
            **{"attack": "none", "defense": "none", "judge": judge, "decoding": "greedy", "lambda": np.nan},
            **{"temperature": np.nan, "score": score, "status": "parsed", "human": HUMAN[dimension][i]},
        }
        for (dimension, low, high), scores in (judged or JUDGED).items()
        for i, score in enumerate(scores)
    ]
    known = {} if ratings is None else {"ratings": ratings}
    metrics = [{"split": "test", "level": "dataset", "attack": "none", "dataset": "d"}]
    about = {"scale": dict(zip(("fluency", "fluency_100"), scale, strict=True))}
    return Results(scores=pd.DataFrame(rows), metrics=metrics, about=about, **known)


def test_humans_and_judge_stand_below_each_other_with_numbers_by_hand():
    humans, judge = scales_frame(results()).to_dict("records")
    assert (humans["dimension"], humans["short"], humans["long"], humans["who"]) == (
        "fluency",
        "1-5",
        "0-100",
        "humans",
    )
    assert humans["same"] == pytest.approx(stats.spearmanr(*HUMAN.values()).statistic)
    # mapped: 0, .25, .75, 1 and .1, .2, .3, 1
    assert humans["apart"] == pytest.approx((0.1 + 0.05 + 0.45 + 0) / 4)
    assert judge["who"] == "main, greedy"
    assert judge["same"] == pytest.approx(stats.spearmanr([1, 1, 5, 5], [20, 50, 50, 50]).statistic)
    assert (judge["favorite_short"], judge["favorite_long"]) == ("1 (50 %)", "50 (75 %)")
    # mapped: 0, 0, 1, 1 and .2, .5, .5, .5
    assert judge["apart"] == pytest.approx((0.2 + 0.5 + 0.5 + 0.5) / 4)
    assert judge["same_low"] <= judge["same"] <= judge["same_high"]


def test_favorites_of_humans_are_single_ratings_where_these_are_known():
    columns = {"group_id": "g", "system_id": "s", "split": "test", "rater": "r"}
    given = {"fluency": [3.0, 3.0, 5.0], "fluency_100": [87.0, 100.0, 100.0]}
    rows = [
        columns | {"dimension": name, "example_id": "e0", "score": one} for name, many in given.items() for one in many
    ]
    humans, _ = scales_frame(results(ratings=pd.DataFrame(rows))).to_dict("records")
    assert (humans["favorite_short"], humans["favorite_long"]) == ("3 (67 %)", "100 (67 %)")
    assert humans["apart"] == pytest.approx((0.37 + 0.5 + 0.0) / 3)  # .5, .5, 1 and .87, 1, 1


def test_a_judge_is_asked_in_the_humans_range_or_in_one_as_long():
    shifted = results(scale=((-2.0, 2.0), (0.0, 100.0)))
    assert scales_frame(shifted)["who"].tolist() == ["humans", "main, greedy"]
    other = results(scale=((0.0, 10.0), (0.0, 100.0)))
    assert scales_frame(other)["who"].tolist() == ["humans"]
    assert scales_frame(results(judge="assistant"))["who"].tolist() == ["humans"]


def test_data_without_twins_has_no_table():
    assert twins(["fluency", "fluency_10"]) == []
    alone = {cell: scores for cell, scores in JUDGED.items() if cell[0] == "fluency"}
    assert SCALES(results(alone)) == []
    assert SCALES(results(scale=(None, (0.0, 100.0)))) == []
    assert SCALES(Results()) == []
