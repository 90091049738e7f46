"""Forecasts and intervals of single texts, by scoringrules, torchmetrics, crepes and loops; and the
record of each distribution, by the law that decodes, with reasons for what is unknown."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from judgebench.decoding.rules import Contrastive, Expectation, Greedy, candidate_distribution
from judgebench.stats.clusters import Clusters
from judgebench.stats.conformal import conformal_quantile, text_intervals
from judgebench.stats.folds import cross_fitted
from judgebench.stats.scoring_rules import calibration_error, ranked_scores, rater_shares
from judgebench.studies import probability_scores as stats
from judgebench.studies.probability_scores import forecast_record
from tests.stats.panels import FIVE, alone, ragged
from tests.stats.sides import cell, side

NAN = np.nan
RNG = np.random.default_rng(3)
MAIN, ASSISTANT = (np.log(RNG.dirichlet(np.ones(5), 60)) - 0.2 for _ in range(2))


def forecasts(seed, texts=60):
    return np.random.default_rng(seed).dirichlet(np.full(5, 0.6), texts)


# --- proper scores and calibration ------------------------------------------------------------------------------------


@pytest.mark.parametrize("categories", [FIVE, np.array([0.0, 1.0, 5.0, 7.0, 8.0])])
def test_ranked_score_is_the_crps_over_the_scale(categories):
    """E|X - y| - E|X - X'| / 2, for each rater alone."""
    ratings = categories[np.random.default_rng(1).integers(0, 5, (60, 3))]
    judge = forecasts(1)
    spread = (judge[:, :, None] * judge[:, None, :] * np.abs(categories[:, None] - categories)).sum(axis=(1, 2)) / 2
    crps = [(judge * np.abs(categories - rating[:, None])).sum(axis=1) - spread for rating in ratings.T]
    scores = ranked_scores(judge, rater_shares(ratings, categories), categories)
    assert scores == pytest.approx(np.mean(crps, axis=0) / (categories[-1] - categories[0]), abs=1e-12)


def test_ranked_score_is_that_of_scoringrules():
    library = pytest.importorskip("scoringrules", reason="the library scoringrules is not installed")
    ratings = np.random.default_rng(2).integers(0, 5, 60)
    scores = ranked_scores(forecasts(2), rater_shares(ratings[:, None] + 1.0, FIVE), FIVE)
    assert scores == pytest.approx(np.asarray(library.rps_score(ratings + 1, forecasts(2))) / 4, abs=1e-12)


def test_calibration_error_is_that_of_torchmetrics():
    ratings = np.random.default_rng(4).integers(0, 5, 60)
    judge, shares = forecasts(4), np.eye(5)[ratings]
    rows = np.arange(60)[:, None], judge.argmax(axis=1)[:, None]
    theirs = multiclass_calibration_error(torch.tensor(judge), torch.tensor(ratings), num_classes=5, n_bins=10)
    assert calibration_error(judge[rows], shares[rows], alone(60))[0] == pytest.approx(float(theirs), abs=1e-6)


def test_a_forecast_from_the_truth_is_calibrated_and_has_skill():
    rng = np.random.default_rng(6)
    judge = rng.dirichlet(np.ones(5), 4000)
    ratings = 1 + (judge.cumsum(axis=1)[:, None, :] < rng.random((4000, 3, 1))).sum(axis=2).astype(float)
    record = forecast_record(judge, ratings, Clusters.of(np.arange(4000) // 20, 0), FIVE, FIVE)
    assert record["ece"] < 0.02
    assert record["rps_skill"] > 0.15
    assert record["rps"] < record["rps_others"]


def test_baseline_and_other_raters_by_loops():
    ratings, groups = ragged(7)
    record = forecast_record(forecasts(7), ratings, Clusters.of(groups, 0), FIVE, FIVE)
    shares, rated = rater_shares(ratings, FIVE), ~np.isnan(ratings).all(axis=1)
    base, others = [], []
    for text in np.flatnonzero(rated):
        rest = shares[rated & (groups != groups[text])].mean(axis=0)
        base.append(ranked_scores(rest[None], shares[text][None], FIVE)[0])
        row = ratings[text][~np.isnan(ratings[text])]
        sides = [(np.delete(row, k)[None], row[k : k + 1, None]) for k in range(len(row))]
        each = [ranked_scores(rater_shares(rest, FIVE), rater_shares(rater, FIVE), FIVE) for rest, rater in sides]
        others += [np.mean(each)] if len(row) > 1 else []
    assert record["rps_skill"] == pytest.approx(1 - record["rps"] / np.mean(base), abs=1e-12)
    assert record["rps_others"] == pytest.approx(np.mean(others), abs=1e-12)


def test_a_record_has_intervals_and_bins_of_the_texts_that_are_known():
    ratings, groups = ragged(9)
    judge, clusters = 3 * forecasts(9), Clusters.of(groups)  # sums of 3 are brought to 1
    record = forecast_record(judge, ratings, clusters, FIVE, FIVE)
    assert all(record[f"{name}_low"] <= record[f"{name}_high"] for name in stats.FIGURES)
    judge[:5] = NAN
    known = (~np.isnan(ratings[5:]).all(axis=1)).sum()
    assert forecast_record(judge, ratings, clusters, FIVE, FIVE)["texts"] == known
    single = forecast_record(judge, ratings, Clusters.of(np.zeros(60)), FIVE, FIVE)
    assert single["rps_skill"] is single["rps_low"] is None
    assert "one group" in single["reason"]


def test_mass_by_hand():
    logprobs = np.log(np.array([[0.2, 0.1], [0.6, 0.3], [0.02, 0.01]]))
    record = stats.mass_record(logprobs, Clusters.of(np.arange(3)))
    assert (record["mass"], record["answers"]) == (pytest.approx(0.41), False)
    assert stats.mass_record(logprobs[1:2], alone(1))["answers"]
    assert stats.mass_record(np.full((1, 3), -np.inf), alone(1))["mass"] == 0.0


# --- intervals of single texts ----------------------------------------------------------------------------------------


def test_intervals_are_those_of_crepes():
    crepes = pytest.importorskip("crepes", reason="the library crepes is not installed")
    rng = np.random.default_rng(0)
    scores, human = rng.uniform(1, 5, 80), rng.uniform(1, 5, 80)
    low, high, split = text_intervals(scores, human, Clusters.of(np.arange(80)), (-99, 99))
    for half in (0, 1):
        taught, here = split != half, split == half
        library = crepes.ConformalRegressor()
        library.fit(residuals=(human - scores)[taught])
        theirs = library.predict_int(y_hat=scores[here], confidence=0.9)
        assert np.stack([low[here], high[here]], axis=1) == pytest.approx(theirs, abs=1e-10)


def test_articles_stay_together_and_halves_are_even():
    groups = np.repeat(np.arange(11), 3)
    split = text_intervals(np.zeros(33), np.zeros(33), Clusters.of(groups), (0, 1))[2]
    assert all(len(set(split[groups == group])) == 1 for group in range(11))
    assert sorted(np.bincount(split[::3])) == [5, 6]


def test_coverage_is_what_was_promised_for_texts_of_new_articles():
    """Articles share a large error. Theory: at least 80 %, at most 1 / (articles + 1) more; a quantile that counts
    texts as independent falls short."""
    inside, group = np.zeros(2), np.repeat(np.arange(9), 20)
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        errors = np.abs(rng.normal(size=9)[group] + rng.normal(0, 0.2, 180))
        new = np.abs(rng.normal() + rng.normal(0, 0.2, 20))
        inside += [np.mean(new <= conformal_quantile(errors, by, 0.8)) for by in (group, np.arange(180))]
    grouped, independent = inside / 1500
    assert independent < 0.8 < grouped < 0.9


def test_too_few_articles_give_the_whole_scale_and_unrated_texts_an_interval():
    low, high, _ = text_intervals(np.full(8, 3.0), np.full(8, 3.0), Clusters.of(np.arange(8)), (1, 5))
    assert (low.tolist(), high.tolist()) == ([1.0] * 8, [5.0] * 8)
    scores, human, clusters = np.full(60, 3.0), np.full(60, 4.0), Clusters.of(np.arange(60))
    scores[0], human[1] = NAN, NAN
    low, high, _ = text_intervals(scores, human, clusters, (1, 5))
    assert np.isnan(low[0])
    assert (low[1], high[1]) == (2.0, 4.0)
    record = stats.coverage_record(scores, human, clusters, (1, 5))
    assert (record["coverage"], record["width"]) == (1.0, 2.0)


# --- the study --------------------------------------------------------------------------------------------------------


def decoded(rule, decoding="mine", **more):
    """A sample whose scores are what the rule makes of MAIN and ASSISTANT."""
    judge = "pair" if rule.needs_assistant else "main"
    scores = rule.scores(MAIN, ASSISTANT, FIVE)
    logprobs = {"main": MAIN, "assistant": ASSISTANT}
    return side(logprobs, scores, cell=cell(judge, decoding, rule.lambda_, rule.temperature), **more)


def test_greedy_and_expectation_share_a_record_and_each_contrast_has_one():
    samples = [decoded(Greedy(), "greedy"), decoded(Expectation(), "expectation")]
    samples += [decoded(Contrastive(0.5, 1.0), "a"), decoded(Contrastive(1.0, 2.0, rule="expectation"), "b")]
    samples += [decoded(Contrastive(0.5, 0.5), "c")]
    decodings = [record["decodings"] for record in stats.probability_score_records(samples)]
    assert decodings == [["greedy", "expectation"], ["a", "b"], ["c"]]


@pytest.mark.parametrize(("rule", "alpha"), [("argmax", 0.0), ("expectation", 0.0), ("argmax", 0.4)])
def test_a_contrast_forecasts_by_the_law_by_which_it_scores(rule, alpha):
    judge = decoded(Contrastive(0.7, 1.3, alpha=alpha, rule=rule), alpha=alpha)
    (record,) = stats.probability_score_records([judge])
    weights = np.exp(MAIN - 0.7 / 1.3 * ASSISTANT)
    if alpha:
        weights *= MAIN.max(axis=1, keepdims=True) + np.log(alpha) <= MAIN
        # with another alpha than it was decoded with, its probabilities are not made up
        logprobs, reason = stats.distribution_of(replace(judge, alpha=0.0))
        assert logprobs is None
        assert reason == "No probabilities: the decoding's scores are not those of contrastive decoding."
    by_hand = forecast_record(weights, judge.ratings, judge.clusters, FIVE, FIVE)
    assert (record["rps"], record["ece_low"]) == pytest.approx((by_hand["rps"], by_hand["ece_low"]))
    assert record["mass"] is None
    assert record["mass_reason"].startswith("No mass: a contrast has none")


def test_everything_is_what_the_pure_functions_return():
    judge = side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60))
    (record,) = stats.probability_score_records([judge])
    probabilities = candidate_distribution(judge.logprobs["main"])
    expected = probabilities @ FIVE  # 0-4 is 1-5 on the humans' scale
    fitted = cross_fitted(expected, judge.human, judge.groups)
    assert record.items() >= stats.coverage_record(fitted, judge.human, judge.clusters, (1, 5)).items()
    assert record["mass"] == pytest.approx(np.exp(-0.1))
    assert record["confidence"] == pytest.approx(probabilities.max(axis=1).mean())
    assert record["confirmed"] == pytest.approx((judge.ratings == FIVE[probabilities.argmax(axis=1)][:, None]).mean())
    assert record["coverage_reason"] == (
        "The intervals are the whole scale: shorter ones take 18 groups, and there are 12."
    )


def test_a_judge_that_says_other_things_is_flagged_where_it_does():
    records = stats.probability_score_records([side({"main": np.log(np.full((60, 5), 0.01))})])
    assert (records[0]["answers"], records[0]["mass"]) == (False, pytest.approx(0.05))
    place = {name: records[0].get(name) for name in ("split", "dimension", "range_min", "range_max", "range_step")}
    place |= {"attack": "none", "defense": "none", "judge": "main", "flags": ["constant"]}
    metrics = [place, place | {"range_max": 9.0}, place | {"attack": "dsi"}]
    flagged = stats.with_silent(metrics, records + stats.probability_score_records([decoded(Greedy())]))
    assert [record["flags"] for record in flagged] == [["constant", stats.NOT_ANSWERING], ["constant"], ["constant"]]
    assert place["flags"] == ["constant"]


def test_lists_that_a_server_cut_have_no_mass():
    (record,) = stats.probability_score_records([side(over_vocabulary=())])
    assert (record["mass"], record["answers"]) == (None, None)
    assert record["mass_reason"] == "No mass: the judge's probabilities are not known over all tokens."
    assert record["rps"] is not None
