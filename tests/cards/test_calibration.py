"""The best judge on the development split, and the map from its scores to the humans' scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.cards.calibration import CalibrationSettings, best, candidates, fit
from judgebench.cards.card import Estimate
from judgebench.runtime.errors import UserError
from judgebench.types import ScoreRange


def record(decoding="greedy", split="dev", spearman=0.1, **changes):
    given = {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "defense": "none", "attack": "none"}
    given |= {"judge": "main", "decoding": decoding, "lambda": None, "temperature": None, "level": "dataset"}
    given |= {"dimension": "coherence", "split": split, "spearman": spearman, "constant": False, "n": 9}
    return {**given, **changes}


def test_the_best_on_dev_is_taken_whatever_the_test_split_says():
    records = [record("a", spearman=0.2), record("a", "test", 0.1), record("b", spearman=0.1), record("b", "test", 0.9)]
    chosen = best(candidates(records, "coherence"), "spearman", "coherence")
    assert chosen["decoding"] == "a"
    assert chosen["test"]["spearman"] == 0.1


def test_neither_assistants_nor_attacked_texts_nor_means_of_levels_are_candidates():
    records = [
        record("a"),
        record("a", judge="assistant", spearman=0.9),
        record("a", attack="dsi", spearman=0.9),
        record("a", level="document", spearman=0.9),
        record("a", dimension="fluency", spearman=0.9),
        record("a", split="test", spearman=0.3),
    ]
    (only,) = candidates(records, "coherence")
    assert (only["dev"]["spearman"], only["test"]["spearman"]) == (0.1, 0.3)


def test_constant_judges_are_never_chosen():
    records = [record("a", spearman=0.0, constant=True), record("b", spearman=-0.1)]
    assert best(candidates(records, "coherence"), "spearman", "coherence")["decoding"] == "b"
    with pytest.raises(UserError, match="one score"):
        best(candidates(records[:1], "coherence"), "spearman", "coherence")


def test_without_dev_nothing_is_chosen():
    with pytest.raises(UserError, match="dev_share"):
        best(candidates([record(split="test")], "coherence"), "spearman", "coherence")


def test_ties_go_to_the_first():
    records = [record("a"), record("b")]
    assert best(candidates(records, "coherence"), "spearman", "coherence")["decoding"] == "a"


def test_unknown_metrics_are_refused():
    assert CalibrationSettings("kendall").metric == "kendall"
    with pytest.raises(UserError, match=r"calibrate\.metric: 'accuracy' should "):
        CalibrationSettings("accuracy")


RANGE = ScoreRange(0, 10)


def rated(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 10, n)
    return scores, np.clip(2 + 0.2 * scores + rng.normal(0, 0.5, n), 1, 5)


@given(st.integers(0, 1000))
def test_the_line_is_that_of_least_squares_wherever_the_humans_scale_lets_it(seed):
    scores, humans = rated(seed)
    slope, intercept = np.polyfit(scores, humans, 1)
    found = fit("linear", scores, humans, RANGE, (1, 5))
    at = np.linspace(0, 10, 101)
    assert np.abs(found(at) - np.clip(intercept + slope * at, 1, 5)).max() < 1e-9


def test_it_bends_where_it_would_leave_the_humans_scale():
    scores, humans = np.array([0.0, 1, 2, 3]), np.array([0.0, 2, 4, 6])
    found = fit("linear", scores, humans, RANGE, (1, 5))
    assert found.scores == (0, 0.5, 2.5, 10)
    assert found.humans == (1, 1, 5, 5)


@given(st.integers(0, 1000))
def test_the_isotonic_map_never_falls_and_keeps_the_mean(seed):
    scores, humans = rated(seed)
    found = fit("isotonic", scores, humans, RANGE, (1, 5))
    assert (np.diff(found(np.linspace(0, 10, 101))) >= 0).all()
    assert found(scores).mean() == pytest.approx(humans.mean())


@pytest.mark.parametrize("humans", [[3.0, 2, 1], [2.0, 2, 2]])
@pytest.mark.parametrize("kind", ["linear", "isotonic"])
def test_humans_that_do_not_rise_with_the_judge_have_no_map(kind, humans):
    assert fit(kind, np.array([1.0, 2, 3]), np.array(humans), RANGE, (1, 5)) is None


def test_a_judge_of_one_score_has_no_map():
    assert fit("linear", np.array([2.0, 2]), np.array([1.0, 5]), RANGE, None) is None


def test_knots_that_are_no_map_are_refused():
    for scores, humans in [((1.0, 2.0), (1.0,)), ((2.0, 1.0), (1.0, 2.0)), ((1.0, 2.0), (2.0, 1.0)), ((), ())]:
        with pytest.raises(UserError, match="knots"):
            Estimate("linear", scores, humans)
