"""The best judge on the development split, the map from its scores to the humans' scale, its figures and limits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.cards.calibration import CalibrationSettings, best, candidates, estimate_errors, fit, limits
from judgebench.cards.card import Estimate
from judgebench.runtime.errors import UserError
from judgebench.stats.clusters import group_weights
from judgebench.types import ScoreRange


def record(decoding="greedy", split="dev", spearman=0.1, **changes):
    base = {"range_min": 1.0, "range_max": 5.0, "range_step": 1.0, "defense": "none", "attack": "none"}
    base |= {"judge": "main", "decoding": decoding, "lambda": None, "temperature": None, "level": "dataset"}
    base |= {"dimension": "coherence", "split": split, "spearman": spearman, "constant": False, "n": 9}
    return {**base, **changes}


def chosen(*records):
    return best(candidates(records, "coherence"), "spearman", "coherence")


OTHERS = [{"judge": "assistant"}, {"attack": "dsi"}, {"level": "document"}, {"dimension": "fluency"}]


def test_the_best_on_dev_is_taken_whatever_the_test_split_says():
    records = [record("a", spearman=0.2), record("a", "test", 0.1), record("b", spearman=0.1), record("b", "test", 0.9)]
    taken = chosen(*records)
    assert (taken["decoding"], taken["test"]["spearman"]) == ("a", 0.1)
    # ties go to the first; a constant judge loses to a negative one; nothing else is a candidate
    assert chosen(record("a"), record("b"))["decoding"] == "a"
    assert chosen(record("a", spearman=0.0, constant=True), record("b", spearman=-0.1))["decoding"] == "b"
    assert chosen(record("a"), *(record("b", spearman=0.9, **other) for other in OTHERS))["decoding"] == "a"


def test_where_none_can_be_chosen_it_says_why():
    with pytest.raises(UserError, match="one score"):
        chosen(record("a", spearman=0.0, constant=True))
    with pytest.raises(UserError, match="dev_share"):
        chosen(record(split="test"))
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
    dev = frame([1.0, 3.0], [2.0, 4.0], ["a", "b"])
    test = frame([1.0, 2.0, 3.0], [1.0, 3.0, 4.0], ["c", "d", "e"])
    errors = estimate_errors(Estimate("linear", (1.0, 3.0), (2.0, 4.0)), dev, test, 200, 0)
    assert errors["mean_absolute_error"] == pytest.approx((1 + 0 + 0) / 3)
    assert errors["guess_error"] == pytest.approx((2 + 0 + 1) / 3)
    assert errors["gain"] == pytest.approx(2 / 3)
    assert errors["gain_low"] <= errors["gain"] <= errors["gain_high"]


def test_errors_equal_a_plain_loop_over_the_same_resamples():
    rng = np.random.default_rng(0)
    test = frame(rng.uniform(1, 3, 30), rng.uniform(1, 5, 30), np.repeat([f"g{i}" for i in range(6)], 5))
    estimate = Estimate("linear", (1.0, 3.0), (1.0, 5.0))
    errors = estimate_errors(estimate, test, test, 500, 3)
    error = np.abs(estimate(test["score"].to_numpy()) - test["human"].to_numpy()).reshape(6, 5)
    drawn = [np.repeat(error, weights, axis=0).mean() for weights in group_weights(6, 500, 3)]
    low = stats.norm.cdf(np.sqrt(6 / 5) * stats.t.ppf(0.025, 5))
    assert errors["mean_absolute_error_low"] == pytest.approx(np.quantile(drawn, low), abs=1e-9)
    assert errors["mean_absolute_error_high"] == pytest.approx(np.quantile(drawn, 1 - low), abs=1e-9)


def test_intervals_of_errors_hold_the_truth_with_few_groups_too():
    """Groups of texts whose errors are alike: the mean error is 1 by construction, and 95 % intervals hold it."""
    estimate, inside = Estimate("linear", (0.0, 4.0), (0.0, 4.0)), 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        off = np.abs(1 + 0.3 * rng.normal(size=6)[:, None] + 0.2 * rng.normal(size=(6, 8))).ravel()
        test = frame(np.full(48, 2.0), 2.0 + off, np.repeat([f"g{i}" for i in range(6)], 8))
        errors = estimate_errors(estimate, test, test, 500, 0)
        inside += errors["mean_absolute_error_low"] <= 1 <= errors["mean_absolute_error_high"]
    assert 0.91 <= inside / 300 <= 0.98  # plain percentiles hold it in 83 % of cases


def sentences(test=None, tried=1, estimate=None, wanted="none", attacks=()):
    figures = {"dev": {"spearman": 0.5, "flags": []}, "test": test or {}}
    data = {"name": "mine", "groups_are": "articles"}
    return "\n".join(limits("spearman", tried, figures, estimate, wanted, list(attacks), data))


GOOD = {"spearman": 0.5, "spearman_low": 0.4, "spearman_high": 0.6, "groups": 50, "flags": [], "failed_share": 0.0}
POOR = {**GOOD, "gain_low": -0.1, "mean_absolute_error": 0.9, "guess_error": 0.8}
MAP = Estimate("linear", (1.0,), (1.0,))
DSI = {"attack": "dsi", "change": 1.2, "change_low": 1.1, "change_high": 1.3}
LIMITS = {
    "0.50 [-0.10, 0.60], is not shown to be above 0": {"test": {**GOOD, "spearman_low": -0.1}},
    "Nothing was kept back": {"test": None},
    "best of 12 judges": {"tried": 12},
    "has 8 articles": {"test": {**GOOD, "groups": 8}},
    "On the test split it is flagged unstable: Spearman depends on the": {"test": {**GOOD, "flags": ["unstable"]}},
    "no score to 10 %": {"test": {**GOOD, "failed_share": 0.1}},
    "do not rise": {"wanted": "linear"},
    "always saying the mean (0.80)": {"test": POOR, "wanted": "linear", "estimate": MAP},
    "dsi moves its scores by +1.20 [+1.10, +1.30]": {"attacks": [DSI]},
    "was not tried": {"attacks": []},
}


@pytest.mark.parametrize("sentence", LIMITS)
def test_the_limits_say_what_the_figures_do(sentence):
    fine = {"test": {**POOR, "gain_low": 0.1}, "wanted": "linear", "estimate": MAP}
    fine["attacks"] = [{**DSI, "change_low": -0.1}]
    assert sentence in sentences(**({"test": GOOD} | LIMITS[sentence]))
    assert sentences(**fine) == "All of this holds for texts as those of mine; for others, calibrate again."
