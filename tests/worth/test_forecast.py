"""Forecasts equal scoringrules, sklearn, torchmetrics and hand computation."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from torchmetrics.functional.classification import multiclass_calibration_error

from judgebench.metrics.resampling import group_weights
from judgebench.worth.forecast import (
    FORECAST_FIGURES,
    candidate_mass,
    categories_diagram,
    favorites_diagram,
    forecast_record,
    log_scores,
    mass_record,
    onto_categories,
    ranked_scores,
    rater_shares,
)
from tests.worth.panels import FIVE, built, ragged

NAN = np.nan


def forecasts(seed: int, n: int = 60) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(5, 0.6), n)


def test_candidates_between_categories_are_shared_and_means_stay():
    values = np.array([0.0, 1.0, 2.3, 5.0])
    given = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    found = onto_categories(given, values, FIVE)
    assert found.sum(axis=1) == pytest.approx(np.ones(20))
    assert found @ FIVE == pytest.approx(given @ np.clip(values, 1, 5), abs=1e-12)
    same = np.random.default_rng(0).dirichlet(np.ones(5), 9)
    assert onto_categories(same, FIVE, FIVE) == pytest.approx(same, abs=1e-15)


@pytest.mark.parametrize("categories", [FIVE, np.array([0.0, 1.0, 5.0, 7.0, 8.0])])
def test_ranked_score_is_the_crps_over_the_scale(categories):
    """E|X - y| - E|X - X'| / 2, for each rater alone."""
    ratings = categories[np.random.default_rng(1).integers(0, 5, (60, 3))]
    given = forecasts(1)
    spread = (given[:, :, None] * given[:, None, :] * np.abs(categories[:, None] - categories)).sum(axis=(1, 2)) / 2
    crps = [(given * np.abs(categories - said[:, None])).sum(axis=1) - spread for said in ratings.T]
    found = ranked_scores(given, rater_shares(ratings, categories), categories)
    assert found == pytest.approx(np.mean(crps, axis=0) / (categories[-1] - categories[0]), abs=1e-12)


def test_ranked_score_is_that_of_scoringrules():
    library = pytest.importorskip("scoringrules", reason="the library scoringrules is not installed")
    said = np.random.default_rng(2).integers(0, 5, 60)
    theirs = library.rps_score(said + 1, forecasts(2))
    found = ranked_scores(forecasts(2), rater_shares(said[:, None] + 1.0, FIVE), FIVE)
    assert found == pytest.approx(np.asarray(theirs) / 4, abs=1e-12)


def test_ends_of_the_ranked_score():
    certain = np.eye(5)
    assert ranked_scores(certain[[0, 0]], certain[[0, 4]], FIVE).tolist() == [0.0, 1.0]


def test_log_score_is_sklearns():
    said = np.random.default_rng(3).integers(0, 5, 60)
    found = log_scores(np.maximum(forecasts(3), 1e-5), rater_shares(said[:, None] + 1.0, FIVE)).mean()
    clipped = np.maximum(forecasts(3), 1e-5)
    expected = log_loss(said, clipped / clipped.sum(axis=1, keepdims=True), labels=range(5))
    assert found == pytest.approx(expected - np.log(clipped.sum(axis=1)).mean(), abs=1e-12)
    assert log_scores(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))[0] == pytest.approx(-np.log(1e-6) / 2)


def test_calibration_error_is_that_of_torchmetrics():
    said = np.random.default_rng(4).integers(0, 5, 60)
    found = favorites_diagram(forecasts(4), np.eye(5)[said], np.zeros(60, dtype=int), np.ones((1, 1))).error[0]
    theirs = multiclass_calibration_error(torch.tensor(forecasts(4)), torch.tensor(said), num_classes=5, n_bins=10)
    assert found == pytest.approx(float(theirs), abs=1e-6)


def test_calibration_of_all_categories_by_loops():
    ratings, _ = ragged(5, share=1.1)
    given, shares = forecasts(5), rater_shares(ratings, FIVE)
    found = categories_diagram(given, shares, np.zeros(60, dtype=int), np.ones((1, 1))).error[0]
    total = 0.0
    for low in np.arange(10) / 10:
        inside = (given > low) & (given <= low + 0.1 + 1e-12) if low else given <= 0.1
        total += abs(given[inside].sum() - shares[inside].sum()) if inside.any() else 0.0
    assert found == pytest.approx(total / given.size, abs=1e-12)


def test_a_forecast_from_the_truth_is_calibrated_and_has_skill():
    rng = np.random.default_rng(6)
    given = rng.dirichlet(np.ones(5), 4000)
    said = 1 + (given.cumsum(axis=1)[:, None, :] < rng.random((4000, 3, 1))).sum(axis=2).astype(float)
    record = forecast_record(given, FIVE, said, np.arange(4000) // 20, FIVE, resamples=0)
    assert record["ece"] < 0.02
    assert record["rps_skill"] > 0.15
    assert record["rps"] < record["rps_base"] < record["rps_others"]
    assert record["log_score"] < record["log_base"]


def test_baseline_and_other_raters_by_loops():
    ratings, groups = ragged(7)
    record = forecast_record(forecasts(7), FIVE, ratings, groups, FIVE, resamples=0)
    shares = rater_shares(ratings, FIVE)
    rated = ~np.isnan(ratings).all(axis=1)
    base, others = [], []
    for text in np.flatnonzero(rated):
        rest = shares[rated & (groups != groups[text])].mean(axis=0)
        base.append(ranked_scores(rest[None], shares[text][None], FIVE)[0])
        said = ratings[text][~np.isnan(ratings[text])]
        if len(said) > 1:
            each = []
            for k, one in enumerate(said):
                own, left = rater_shares(np.array([[one]]), FIVE), rater_shares(np.delete(said, k)[None], FIVE)
                each.append(ranked_scores(left, own, FIVE)[0])
            others.append(np.mean(each))
    assert record["rps_base"] == pytest.approx(np.mean(base), abs=1e-12)
    assert record["rps_others"] == pytest.approx(np.mean(others), abs=1e-12)
    assert record["rps_skill"] == pytest.approx(1 - record["rps"] / record["rps_base"])


def test_resampled_diagrams_are_as_if_built():
    ratings, group = ragged(8, share=1.1)
    given, shares, weights = forecasts(8), rater_shares(ratings, FIVE), group_weights(12, 20, 1)
    for make in (favorites_diagram, categories_diagram):
        expected = [
            make(given[rows], shares[rows], np.zeros(len(rows), dtype=int), np.ones((1, 1))).error[0]
            for rows in (built(group, row) for row in weights)
        ]
        assert make(given, shares, group, weights).error == pytest.approx(expected, abs=1e-12)


def test_record_has_intervals_and_bins():
    ratings, groups = ragged(9)
    record = forecast_record(3 * forecasts(9), FIVE, ratings, groups, FIVE)  # sums of 3 are brought to 1
    assert all(record[f"{name}_low"] <= record[f"{name}_high"] for name in FORECAST_FIGURES)
    assert sum(one["share"] for one in record["diagram"]) == pytest.approx(1)
    assert all(one["bin_low"] <= one["forecast"] <= one["bin_high"] + 1e-9 for one in record["diagram"])
    assert record["reason"] is None


def test_unknown_texts_stay_out_and_reasons_are_told():
    ratings, groups = ragged(10)
    given = forecasts(10)
    given[:5] = NAN
    record = forecast_record(given, FIVE, ratings, groups, FIVE, resamples=0)
    assert record["texts"] == (~np.isnan(ratings[5:]).all(axis=1)).sum()
    nothing = forecast_record(given[:5], FIVE, ratings[:5], groups[:5], FIVE)
    assert nothing["rps"] is None
    assert "No forecast" in nothing["reason"]
    one = forecast_record(given[5:], FIVE, ratings[5:], np.zeros(55), FIVE)
    assert one["rps_base"] is one["rps_skill"] is one["rps_low"] is None
    assert "one group" in one["reason"]


@pytest.mark.parametrize("given", [np.full((60, 5), -0.2), np.ones((60, 4)), np.ones((59, 5))])
def test_probabilities_must_fit(given):
    ratings, groups = ragged(0)
    with pytest.raises(ValueError, match="probabilities"):
        forecast_record(given, FIVE, ratings, groups, FIVE)


def test_mass_by_hand():
    logprobs = np.log(np.array([[0.2, 0.1], [0.6, 0.3], [0.02, 0.01]]))
    assert candidate_mass(logprobs) == pytest.approx([0.3, 0.9, 0.03])
    record = mass_record(logprobs, np.arange(3))
    assert record["mass"] == pytest.approx(0.41)
    assert (record["answers"], record["below"]) == (False, pytest.approx(2 / 3))
    assert mass_record(logprobs[1:2], np.arange(1))["answers"]
    assert candidate_mass(np.full((1, 3), -np.inf)).tolist() == [0.0]
    with pytest.raises(ValueError, match="logprobs"):
        mass_record(np.full((1, 2), NAN), np.arange(1))
    assert mass_record(np.empty((0, 2)), np.arange(0))["answers"] is None
