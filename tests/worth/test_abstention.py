"""Conformal intervals hold what they promise, and equal crepes; the risk-coverage curve equals plain loops."""

import numpy as np
import pytest

from judgebench.metrics.resampling import group_weights
from judgebench.worth.abstention import (
    SHARES,
    conformal_quantile,
    coverage_record,
    kept_risks,
    risk_record,
    text_intervals,
)
from tests.worth.panels import built, panel
from tests.worth.recorded import DIMENSIONS

NAN = np.nan


@pytest.mark.parametrize("n", [9, 10, 19, 50])
def test_single_texts_give_the_usual_quantile(n):
    scores = np.random.default_rng(n).random(n)
    expected = np.sort(scores)[int(np.ceil((n + 1) * 0.9 - 1e-9)) - 1]
    assert conformal_quantile(scores, np.arange(n), 0.9) == expected
    assert conformal_quantile(scores, np.arange(n), 0.99) == float("inf")


def test_quantile_of_groups_by_hand():
    # weights 1/2 1/2 | 1; (2 + 1) * 0.5 = 1.5 is reached by 1/2 + 1
    assert conformal_quantile(np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1]), 0.5) == 2.0
    assert conformal_quantile(np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1]), 0.6) == 3.0


def test_intervals_are_those_of_crepes():
    crepes = pytest.importorskip("crepes", reason="the library crepes is not installed")
    rng = np.random.default_rng(0)
    scores, human, spread = rng.uniform(1, 5, 80), rng.uniform(1, 5, 80), rng.uniform(0.5, 2, 80)
    for sigmas in (None, spread):
        found = text_intervals(scores, human, np.arange(80), (-99, 99), sigmas)
        for half in (0, 1):
            taught, here = found.split != half, found.split == half
            library = crepes.ConformalRegressor()
            own = {} if sigmas is None else {"sigmas": sigmas[taught]}
            library.fit(residuals=(human - scores)[taught], **own)
            own = {} if sigmas is None else {"sigmas": sigmas[here]}
            theirs = library.predict_int(y_hat=scores[here], confidence=0.9, **own)
            assert np.stack([found.low[here], found.high[here]], axis=1) == pytest.approx(theirs, abs=1e-10)


def test_articles_stay_together_and_halves_are_even():
    groups = np.repeat(np.arange(11), 3)
    found = text_intervals(np.zeros(33), np.zeros(33), groups, (0, 1))
    assert all(len(set(found.split[groups == one])) == 1 for one in range(11))
    assert sorted(np.bincount(found.split[::3])) == [5, 6]


def test_coverage_is_what_was_promised_for_texts_of_new_articles():
    """Articles share a large error. Theory: at least 80 %, at most 1 / (articles + 1) more; a quantile that counts
    texts as independent falls short."""
    inside = np.zeros(2)
    group = np.repeat(np.arange(9), 20)
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        errors = np.abs(rng.normal(size=9)[group] + rng.normal(0, 0.2, 180))
        new = np.abs(rng.normal() + rng.normal(0, 0.2, 20))
        inside += [np.mean(new <= conformal_quantile(errors, by, 0.8)) for by in (group, np.arange(180))]
    grouped, independent = inside / 1500
    assert 0.8 < grouped < 0.9
    assert independent < 0.8


def test_too_few_articles_give_the_whole_scale():
    found = text_intervals(np.full(8, 3.0), np.full(8, 3.0), np.arange(8), (1, 5))
    assert found.low.tolist() == [1.0] * 8
    assert found.width.tolist() == [4.0] * 8


def test_unrated_texts_get_intervals_and_texts_without_a_score_none():
    scores, human = np.full(60, 3.0), np.full(60, 4.0)
    scores[0], human[1] = NAN, NAN
    found = text_intervals(scores, human, np.arange(60), (1, 5))
    assert np.isnan(found.low[0])
    assert (found.low[1], found.high[1]) == (2.0, 4.0)
    record = coverage_record(found, human, np.arange(60))
    assert (record["texts"], record["coverage"], record["width"]) == (58, 1.0, 2.0)
    assert "No coverage" in coverage_record(found, np.full(60, NAN), np.arange(60))["reason"]


def test_settings_of_intervals():
    with pytest.raises(ValueError, match="above 0"):
        text_intervals(np.ones(4), np.ones(4), np.arange(4), (1, 5), np.zeros(4))
    with pytest.raises(ValueError, match="between 0 and 1"):
        text_intervals(np.ones(4), np.ones(4), np.arange(4), (1, 5), level=1.0)


def test_recorded_judges_are_covered():
    for dimension in DIMENSIONS:
        ratings, groups, judges = panel(dimension)
        human = ratings.mean(axis=1)
        for scores in judges.values():
            record = coverage_record(text_intervals(scores, human, groups, (1, 5)), human, groups, resamples=200)
            assert record["coverage_high"] > 0.9  # 0.9 is promised on average over judges and splits, not for each
            assert record["coverage"] > 0.88


def by_loops(unsure, loss, repeats=4000):
    """The area of the curve, ties in any order."""
    rng = np.random.default_rng(0)
    areas = []
    for _ in range(repeats):
        order = np.lexsort([rng.random(len(loss)), unsure])
        areas.append(np.mean(loss[order].cumsum() / np.arange(1, len(loss) + 1)))
    return np.mean(areas)


def test_area_is_that_of_loops():
    rng = np.random.default_rng(1)
    loss = rng.random(30)
    plain = kept_risks(np.arange(30.0), loss, np.zeros(30, dtype=int), np.ones((1, 1)))[0][0]
    assert plain == pytest.approx(by_loops(np.arange(30.0), loss, 1), abs=1e-12)
    tied = rng.integers(0, 4, 30).astype(float)
    found = kept_risks(tied, loss, np.zeros(30, dtype=int), np.ones((1, 1)))[0][0]
    assert found == pytest.approx(by_loops(tied, loss), abs=0.01)


def test_resamples_are_as_if_built():
    rng = np.random.default_rng(2)
    group = np.concatenate([np.arange(9), rng.integers(0, 9, 41)])
    unsure, loss, weights = rng.integers(0, 8, 50).astype(float), rng.random(50), group_weights(9, 15, 0)
    area, risks = kept_risks(unsure, loss, group, weights.astype(float), (0.3, 1.0))
    for k, rows in enumerate(built(group, row) for row in weights):
        one, at = kept_risks(unsure[rows], loss[rows], np.zeros(len(rows), dtype=int), np.ones((1, 1)), (0.3, 1.0))
        assert at[0, 1] == pytest.approx(risks[k, 1], abs=1e-12)
        assert risks[k, 1] == pytest.approx(loss[rows].mean(), abs=1e-12)
        assert one[0] == pytest.approx(area[k], abs=0.05)  # copies are kept one by one there, at once here


def test_the_gain_of_knowing_ones_errors_is_1_and_of_chance_0():
    loss = np.random.default_rng(3).random(4000)
    groups = np.arange(4000) // 10
    best = risk_record(loss, loss, groups, resamples=0)
    assert best["gain"] == pytest.approx(1.0)
    assert [one["kept"] for one in best["curve"]] == list(SHARES)
    assert best["curve"][-1]["risk"] == pytest.approx(loss.mean())
    assert best["curve"][4]["risk"] == pytest.approx(np.sort(loss)[:2000].mean())
    chance = risk_record(np.random.default_rng(4).random(4000), loss, groups, resamples=100)
    assert chance["gain_low"] - 0.05 < 0 < chance["gain_high"] + 0.05
    assert risk_record(-loss, loss, groups, resamples=0)["gain"] < -0.5


def test_reasons():
    same = risk_record(np.arange(5.0), np.ones(5), np.arange(5))
    assert same["gain"] is None
    assert "cost the same" in same["reason"]
    assert "no text has a loss" in risk_record(np.arange(5.0), np.full(5, NAN), np.arange(5))["reason"]
    with pytest.raises(ValueError, match="one length"):
        risk_record(np.arange(4.0), np.arange(5.0), np.arange(5))
