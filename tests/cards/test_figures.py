"""A card's figures by hand, and its limits against them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from judgebench.cards.calibration import estimate_errors, limits
from judgebench.cards.card import Estimate

DATA = {"name": "mine", "groups_are": "articles"}


def frame(scores, humans, groups):
    return pd.DataFrame({"score": scores, "human": humans, "group_id": groups})


def test_errors_by_hand():
    dev = frame([1.0, 3.0], [2.0, 4.0], ["a", "b"])
    test = frame([1.0, 2.0, 3.0], [1.0, 3.0, 4.0], ["c", "d", "e"])
    found = estimate_errors(Estimate("linear", (1.0, 3.0), (2.0, 4.0)), dev, test, 200, 0)
    assert found["mean_absolute_error"] == pytest.approx((1 + 0 + 0) / 3)
    assert found["guess_error"] == pytest.approx((2 + 0 + 1) / 3)
    assert found["gain"] == pytest.approx(2 / 3)
    assert found["gain_low"] <= found["gain"] <= found["gain_high"]


def test_errors_equal_a_plain_loop_over_the_same_resamples():
    rng = np.random.default_rng(0)
    test = frame(rng.uniform(1, 3, 30), rng.uniform(1, 5, 30), np.repeat([f"g{i}" for i in range(6)], 5))
    estimate = Estimate("linear", (1.0, 3.0), (1.0, 5.0))
    found = estimate_errors(estimate, test, test, 500, 3)
    from judgebench.stats.clusters import group_weights

    own = np.abs(estimate(test["score"].to_numpy()) - test["human"].to_numpy()).reshape(6, 5)
    drawn = [np.repeat(own, weights, axis=0).mean() for weights in group_weights(6, 500, 3)]
    low = stats.norm.cdf(np.sqrt(6 / 5) * stats.t.ppf(0.025, 5))
    assert found["mean_absolute_error_low"] == pytest.approx(np.quantile(drawn, low), abs=1e-9)
    assert found["mean_absolute_error_high"] == pytest.approx(np.quantile(drawn, 1 - low), abs=1e-9)


def test_intervals_of_errors_hold_the_truth_with_few_groups_too():
    """Groups of texts whose errors are alike: the mean error is 1 by construction, and 95 % intervals hold it."""
    estimate = Estimate("linear", (0.0, 4.0), (0.0, 4.0))
    inside = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        off = np.abs(1 + 0.3 * rng.normal(size=6)[:, None] + 0.2 * rng.normal(size=(6, 8))).ravel()
        test = frame(np.full(48, 2.0), 2.0 + off, np.repeat([f"g{i}" for i in range(6)], 8))
        found = estimate_errors(estimate, test, test, 500, 0)
        inside += found["mean_absolute_error_low"] <= 1 <= found["mean_absolute_error_high"]
    assert 0.91 <= inside / 300 <= 0.98  # plain percentiles hold it in 83 % of cases


def told(test=None, tried=1, estimate=None, wanted="none", attacks=()):
    figures = {"dev": {"spearman": 0.5, "flags": []}, "test": test or {}}
    return "\n".join(limits("spearman", tried, figures, estimate, wanted, list(attacks), DATA))


def test_the_limits_say_what_the_figures_do():
    good = {"spearman": 0.5, "spearman_low": 0.4, "spearman_high": 0.6, "groups": 50, "flags": [], "failed_share": 0.0}
    assert "is not shown to be above 0" not in told(good)
    assert "0.50 [-0.10, 0.60], is not shown to be above 0" in told({**good, "spearman_low": -0.1})
    assert "Nothing was kept back" in told()
    assert "best of 12 judges" in told(good, tried=12)
    assert "has 8 articles" in told({**good, "groups": 8})
    assert "On the test split it is flagged unstable: Spearman depends on the score range" in told(
        {**good, "flags": ["unstable"]}
    )
    assert "no score to 10 %" in told({**good, "failed_share": 0.1})
    assert "do not rise" in told(good, wanted="linear")
    poor = {**good, "gain_low": -0.1, "mean_absolute_error": 0.9, "guess_error": 0.8}
    estimate = Estimate("linear", (1.0,), (1.0,))
    assert "always saying the mean (0.80)" in told(poor, wanted="linear", estimate=estimate)
    assert "always saying" not in told({**poor, "gain_low": 0.1}, wanted="linear", estimate=estimate)
    attack = {"attack": "dsi", "change": 1.2, "change_low": 1.1, "change_high": 1.3}
    assert "dsi moves its scores by +1.20 [+1.10, +1.30]" in told(good, attacks=[attack])
    assert "was not tried" in told(good)
    held = told(good, attacks=[{**attack, "change_low": -0.1}])
    assert "was not tried" not in held
    assert "fooled" not in held
