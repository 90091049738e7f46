"""From a judge's scores to the humans' scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.cards.calibration import fit
from judgebench.cards.card import Estimate
from judgebench.runtime.errors import UserError
from judgebench.types import ScoreRange

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
