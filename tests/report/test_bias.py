"""Bias and stability of judges, the experts' scores on a judge's range, and how alike main and assistant are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from judgebench.report.views.bias import (
    MAPPING_NOTE,
    human_scores,
    mapping_note,
    most_frequent,
    shares,
    to_range,
)
from judgebench.types import ScoreRange


@pytest.mark.parametrize(
    ("human", "scale", "score_range", "expected"),
    [
        (1, (1, 5), ScoreRange(0, 4), 0),
        (5, (1, 5), ScoreRange(3, 7), 7),
        (3.5, (1, 5), ScoreRange(1, 5), 4),  # half up
        (2.5, (1, 5), ScoreRange(2, 6), 4),  # 3.5, half up
        (10 / 3, (1, 5), ScoreRange(1, 5), 3),
        (11 / 3, (1, 5), ScoreRange(1, 5), 4),
        (3, (1, 5), ScoreRange(1, 10), 6),  # 1 + 2/4 * 9 = 5.5, half up
        (1.5, (1, 5), ScoreRange(0, 10), 1),  # 1.25
        (2, (1, 3), ScoreRange(1, 5), 3),  # another scale
        (1, (0, 1), ScoreRange(1, 5), 5),
        (3.25, (1, 5), ScoreRange(1, 5, 0.1), 3.3),  # half up, though 3.25 / 0.1 is not exact
        (10 / 3, (1, 5), ScoreRange(1, 5, 0.5), 3.5),
        (0.5, (1, 5), ScoreRange(1, 5), 1),  # below its own scale: never outside the range
        (9, (1, 5), ScoreRange(1, 5), 5),
    ],
)
def test_by_hand(human, scale, score_range, expected):
    assert to_range([human], scale, score_range).tolist() == [expected]


def test_same_scale_and_whole_scores_are_the_identity():
    assert to_range([1, 2, 3, 4, 5], (1, 5), ScoreRange(1, 5)).tolist() == [1, 2, 3, 4, 5]


def test_every_candidate_maps_to_itself():
    score_range = ScoreRange(1, 5, 0.1)
    mapped = to_range(score_range.values, (1, 5), score_range)
    assert mapped.tolist() == list(score_range.values)


def test_scores_map_to_the_nearest_one_half_up():
    assert to_range([0, 0.49, 0.5, 4], (0, 4), ScoreRange(3, 7)).tolist() == [3, 3, 4, 7]


def test_shares_sum_to_one_and_count_what_they_should():
    found = shares([1, 1, 4, 5], ScoreRange(1, 5))
    assert found.tolist() == [0.5, 0, 0, 0.25, 0.25]
    assert shares(np.array([]), ScoreRange(1, 5)).tolist() == [0] * 5


def test_most_frequent_names_ties_and_nobody():
    assert most_frequent([0.1, 0.45, 0.45]) == [1, 2]
    assert most_frequent([0, 0]) == []


def test_each_example_counts_once_however_many_judges_scored_it():
    scores = pd.DataFrame({"example_id": ["a", "a", "b", "c"], "human": [1.0, 1.0, 4.0, np.nan]})
    assert human_scores(scores).tolist() == [1.0, 4.0]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_scale_without_length_maps_nothing():
    assert to_range([3, 3, 3], (3, 3), ScoreRange(1, 5)).tolist() == []
    assert shares(to_range([3], (3, 3), ScoreRange(1, 5)), ScoreRange(1, 5)).tolist() == [0] * 5
    assert mapping_note((1, 5)) == MAPPING_NOTE
    assert "left out" in mapping_note((3, 3))
