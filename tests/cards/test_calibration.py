"""The map from its scores to the humans' scale, its figures and limits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.cards.calibration import CalibrationSettings, estimate_errors, fit, limits
from judgebench.cards.card import Estimate
from judgebench.runtime.errors import UserError
from judgebench.stats.clusters import group_weights
from judgebench.types import ScoreRange


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(UserError, match=r"calibrate\.metric: 'accuracy' should "):
        CalibrationSettings("accuracy")


RANGE = ScoreRange(0, 10)


def rated(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 10, n)
    return scores, np.clip(2 + 0.2 * scores + rng.normal(0, 0.5, n), 1, 5)


@given(st.integers(0, 1000))
def test_the_maps_are_those_of_least_squares_within_the_humans_scale(seed):
    scores, humans = rated(seed)
    slope, intercept = np.polyfit(scores, humans, 1)
    at = np.linspace(0, 10, 101)
    line = fit("linear", scores, humans, RANGE, (1, 5))
    assert np.abs(line(at) - np.clip(intercept + slope * at, 1, 5)).max() < 1e-9
    isotonic = fit("isotonic", scores, humans, RANGE, (1, 5))
    assert (np.diff(isotonic(at)) >= 0).all()
    assert isotonic(scores).mean() == pytest.approx(humans.mean())


def test_it_bends_where_it_would_leave_the_humans_scale():
    line = fit("linear", np.array([0.0, 1, 2, 3]), np.array([0.0, 2, 4, 6]), RANGE, (1, 5))
    assert (line.scores, line.humans) == ((0, 0.5, 2.5, 10), (1, 1, 5, 5))


@pytest.mark.parametrize("kind", ["linear", "isotonic"])
@pytest.mark.parametrize(("scores", "humans"), [([1, 2, 3], [3, 2, 1]), ([1, 2, 3], [2, 2, 2]), ([2, 2], [1, 5])])
def test_humans_that_do_not_rise_with_the_judge_have_no_map(kind, scores, humans):
    assert fit(kind, np.array(scores, float), np.array(humans, float), RANGE, (1, 5)) is None


@pytest.mark.parametrize(("scores", "humans"), [((1, 2), (1,)), ((2, 1), (1, 2)), ((1, 2), (2, 1)), ((), ())])
def test_knots_that_are_no_map_are_refused(scores, humans):
    with pytest.raises(UserError, match="knots"):
        Estimate("linear", scores, humans)


def frame(scores, humans, groups):
    return pd.DataFrame({"score": scores, "human": humans, "group_id": groups})


def test_errors_by_hand():
    """Two articles, one fold each: a line through the other article's two texts, and its mean."""
    rows = frame([1.0, 3.0, 1.0, 2.0], [2.0, 4.0, 1.0, 4.0], ["a", "a", "b", "b"])
    errors = estimate_errors("linear", rows, ScoreRange(1, 5), (1, 5), 200, 0)
    # a by b's line 3 score - 2, within 1 to 5: 1, 5; b by a's line score + 1: 2, 3
    assert errors["mean_absolute_error"] == pytest.approx((1 + 1 + 1 + 1) / 4)
    assert errors["guess_error"] == pytest.approx((0.5 + 1.5 + 2 + 1) / 4)
    assert errors["gain"] == pytest.approx(0.25)


def test_errors_equal_a_plain_loop_over_the_same_resamples():
    rng = np.random.default_rng(0)
    rows = frame(rng.uniform(1, 3, 30), rng.uniform(1, 5, 30), np.repeat([f"g{i}" for i in range(6)], 5))
    errors = estimate_errors("none", rows, ScoreRange(1, 3), (1, 5), 500, 3, folds=6)
    human = rows["human"].to_numpy().reshape(6, 5)
    error = np.abs(np.array([(human.sum() - human[g].sum()) / 25 for g in range(6)])[:, None] - human)
    drawn = [np.repeat(error, weights, axis=0).mean() for weights in group_weights(6, 500, 3)]
    low = stats.norm.cdf(np.sqrt(6 / 5) * stats.t.ppf(0.025, 5))
    assert errors["guess_error_low"] == pytest.approx(np.quantile(drawn, low), abs=1e-9)
    assert errors["guess_error_high"] == pytest.approx(np.quantile(drawn, 1 - low), abs=1e-9)


def sentences(test, tried=(), estimate=None, wanted="none"):
    figures = {"promised": {name: test[name] for name in ("spearman", "spearman_low", "spearman_high")}, "test": test}
    data = {"name": "mine", "groups_are": "articles"}
    return "\n".join(limits(tried, figures, estimate, wanted, data))


def setting(decoding, worth, **changes):
    base = {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "defense": "none", "metric": "spearman"}
    return base | {"decoding": decoding, "worth": worth, "share": 0.8, "taken": False, "best": False} | changes


GOOD = {"spearman": 0.5, "spearman_low": 0.4, "spearman_high": 0.6, "groups": 50, "flags": [], "failed_share": 0.0}
MAP = Estimate("linear", (1.0,), (1.0,))
TRIED = [setting("expectation", 0.69, taken=True), setting("contrastive", 0.716, best=True)]
LIMITS = {
    "has no interval": {"test": {**GOOD, "spearman_low": None}},
    "among 2 settings: the simplest one that none is clearly better than; 80 % of": {"tried": TRIED},
    "contrastive in range 1-5 would have promised spearman 0.716 on these texts, instead of 0.690": {"tried": TRIED},
    "chosen by 8 articles": {"test": {**GOOD, "groups": 8}},
    "It is flagged unstable: Spearman depends on the": {"test": {**GOOD, "flags": ["unstable"]}},
    "no score to 10 %": {"test": {**GOOD, "failed_share": 0.1}},
    "do not rise": {"wanted": "linear"},
}


@pytest.mark.parametrize("sentence", LIMITS)
def test_the_limits_say_what_the_figures_do(sentence):
    fine = {"test": GOOD, "wanted": "linear", "estimate": MAP}
    assert sentence in sentences(**({"test": GOOD} | LIMITS[sentence]))
    assert sentences(**fine) == "All of this holds for texts as those of mine; for others, calibrate again."
