"""Bias and stability of judges, the experts' scores on a judge's range, and how alike main and assistant are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from judgebench.report.views.bias import (
    DIAGNOSTICS,
    MAPPING_NOTE,
    SIMILARITY,
    human_scores,
    mapping_note,
    most_frequent,
    shares,
    to_range,
)
from judgebench.types import ScoreRange
from tests.report.conftest import in_terminal, on_page, results_of, texts_of, words_of


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


KNOWN = {"bias_wasserstein": 0.12, "bias_kl": 0.34, "modal_score": 3.0, "modal_share": 0.625, "stability": 0.0789}
KNOWN |= {"self_agreement": 0.654, "bias_shift": -0.1}


@pytest.fixture(scope="module")
def known(run):
    return results_of(
        run,
        metrics=[
            record | {name: value + 0.01 * record["range_min"] for name, value in KNOWN.items()}
            for record in run.records
        ],
    )


def test_diagnostics_are_those_of_the_records(known):
    (table,) = DIAGNOSTICS.tables(known)
    first, *others = ([[cell.text for cell in row] for row in section.rows] for section in table.sections)
    assert first == [
        ["main, greedy", "0-4", "0.120", "-0.10", "0.34", "3 (62 %)", "0.079", "0.654"],
        ["", "1-5", "0.130", "-0.09", "0.35", "3.01 (64 %)", "0.089", "0.664"],
        ["", "2-6", "0.140", "-0.08", "0.36", "3.02 (64 %)", "0.099", "0.674"],
        ["", "3-7", "0.150", "-0.07", "0.37", "3.03 (66 %)", "0.109", "0.684"],
    ]
    assert len(others) == 4


def test_similarity_is_that_of_the_readings(known):
    (table,) = SIMILARITY.tables(known)
    expected = [one for one in known.similarity if one["split"] == "test"]
    rows = texts_of(table)
    assert [row[0] for row in rows] == ["0-4", "1-5", "2-6", "3-7"]
    assert [row[1] for row in rows] == [f"{one['logprob_correlation']:.2f}" for one in expected]
    assert [row[2] for row in rows] == [f"{100 * one['mode_agreement']:.0f} %" for one in expected]


def test_of_several_defenses_the_first_is_diagnosed_and_the_others_are_named(known):
    words = [record | {"defense": "cot", "bias_wasserstein": 0.9} for record in known.metrics]
    both = replace(known, metrics=[*words, *known.metrics])
    (table,) = DIAGNOSTICS.tables(both)
    assert table.title == "coherence"
    assert texts_of(table)[0][2] == "0.120"
    assert table.note.endswith("All without defense; metrics.json has the same of cot.")
    assert words_of(in_terminal(both)).count("bias and stability") == 1
    (alone,) = DIAGNOSTICS.tables(replace(known, metrics=words))
    assert alone.title == "coherence, defense cot"
    assert "metrics.json" not in alone.note


def test_records_that_know_nothing_of_bias_have_no_diagnostics(run):
    assert DIAGNOSTICS.tables(results_of(run)) == SIMILARITY.tables(results_of(run)) == []
    assert "Bias and stability" not in on_page(results_of(run))


def test_without_ranges_to_compare_there_is_no_stability(known):
    alone = [record | {"stability": None, "self_agreement": None} for record in known.metrics]
    (table,) = DIAGNOSTICS.tables(replace(known, metrics=alone))
    assert not {"SD", "self"} & set(table.heads)
