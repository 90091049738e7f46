"""The alternative annotator test equals its authors' code where texts are independent, and plain loops."""

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.alternative import alternative_record, closer, clustered_p
from judgebench.stats.points import cross_fitted, rounded
from tests.stats.panels import FIVE, panel, ragged

NAN = np.nan

# Winning rate and advantage of the authors' alt_test (github.com/nitaytech/AltTest) with neg_rmse.
AUTHORS = {
    ("coherence", "gemini_flash"): (2 / 3, 0.6368055555555555),
    ("coherence", "gpt-4o"): (1.0, 0.7416666666666667),
    ("coherence", "mistral-v03"): (1 / 3, 0.5850694444444444),
    ("consistency", "gpt-4o"): (0.0, 0.4225694444444444),
    ("consistency", "llama-31"): (0.0, 0.6815972222222223),
    ("consistency", "mistral-v03"): (1.0, 0.8875000000000001),
}


@pytest.mark.parametrize(("dimension", "judge"), AUTHORS)
def test_independent_texts_give_the_authors_numbers(dimension, judge):
    ratings, _, judges = panel(dimension)
    record = alternative_record(judges[judge], ratings, np.arange(960), 0.2, resamples=0)
    assert record["winning_rate"] == record["paper_winning_rate"]
    assert (record["winning_rate"], record["advantage"]) == pytest.approx(AUTHORS[dimension, judge], abs=1e-12)


def by_loops(scores, ratings):
    """Wins of judge and rater, text by text, as the paper defines them."""
    judge, rater = np.full(ratings.shape, NAN), np.full(ratings.shape, NAN)
    for text, row in enumerate(ratings):
        for column, value in enumerate(row):
            others = [one for place, one in enumerate(row) if place != column and not np.isnan(one)]
            if np.isnan(value) or not others or np.isnan(scores[text]):
                continue
            ours, theirs = (-(np.mean([(side - one) ** 2 for one in others]) ** 0.5) for side in (scores[text], value))
            judge[text, column], rater[text, column] = ours >= theirs, theirs >= ours
    return judge, rater


@pytest.mark.parametrize("seed", range(3))
def test_sides_are_those_of_plain_loops(seed):
    ratings, _ = ragged(seed)
    scores = np.random.default_rng(seed).integers(1, 6, 60).astype(float)
    scores[::7] = NAN
    for ours, theirs in zip(closer(scores, ratings), by_loops(scores, ratings), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_equal_distances_tie_to_the_last_bit():
    ratings = np.array([[0.1, 0.3, 0.3], [0.3, 0.1, 0.3]])
    judge, rater = closer(np.array([0.5, 0.5]), ratings)
    assert judge[0, 0] == rater[0, 0] == 1.0  # 0.2 below and 0.2 above


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_one_text_give_the_t_test(seed):
    rng = np.random.default_rng(seed)
    differences = rng.integers(-1, 2, 40).astype(float)
    expected = stats.ttest_1samp(differences, 0.2, alternative="less").pvalue
    assert clustered_p(differences, np.arange(40), 0.2) == pytest.approx(expected, abs=1e-12)


def test_whole_groups_of_equal_texts_count_once():
    """Eight copies of each text say no more than one: p is that of the texts alone."""
    differences = np.random.default_rng(0).integers(-1, 2, 20).astype(float)
    once = clustered_p(differences, np.arange(20), 0.2)
    assert clustered_p(np.repeat(differences, 8), np.repeat(np.arange(20), 8), 0.2) == pytest.approx(once, abs=1e-12)
    assert stats.ttest_1samp(np.repeat(differences, 8), 0.2, alternative="less").pvalue < once


def test_clustered_p_is_that_of_statsmodels():
    api = pytest.importorskip("statsmodels.api", reason="the library statsmodels is not installed")
    rng = np.random.default_rng(2)
    group = rng.integers(0, 15, 90)
    differences = rng.normal(0.1, 1, 15)[group] + rng.normal(size=90)
    fitted = api.OLS(differences - 0.2, np.ones(90)).fit(
        cov_type="cluster", cov_kwds={"groups": group, "use_correction": False}, use_t=True
    )
    error = fitted.bse[0] * (15 / 14) ** 0.5
    assert clustered_p(differences, group, 0.2) == pytest.approx(stats.t.cdf(fitted.params[0] / error, 14), abs=1e-10)


def test_differences_that_do_not_vary():
    assert clustered_p(np.zeros(30), np.arange(30), 0.2) == 0.0
    assert clustered_p(np.ones(30), np.arange(30), 0.2) == 1.0
    assert clustered_p(np.zeros(30), np.zeros(30, dtype=int), 0.2) == 1.0  # one group says nothing


def test_raters_are_corrected_together_by_benjamini_and_yekutieli():
    ratings, groups, judges = panel("relevance")
    record = alternative_record(judges["llama-31"], ratings, groups, 0.1, resamples=0)
    p = np.array([one["p"] for one in record["raters"]])
    order = p.argsort()
    harmonic = 1 + 1 / 2 + 1 / 3
    stepped = p[order] * 3 * harmonic / np.arange(1, 4)
    expected = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1)
    assert np.array([one["p_by"] for one in record["raters"]])[order] == pytest.approx(expected, abs=1e-12)
    assert record["winning_rate"] == np.mean([one["wins"] for one in record["raters"]])


def test_false_wins_are_rare_with_clusters_and_common_without():
    """A judge exactly epsilon worse than either rater, all texts of an article alike: at most one in twenty passes."""
    passed = np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(20), 8)
        differences = rng.choice([-1.0, 0.0, 1.0], 20, p=[0.2, 0.4, 0.4])[group]  # mean 0.2 = epsilon
        passed += [clustered_p(differences, group, 0.2) <= 0.05, clustered_p(differences, np.arange(160), 0.2) <= 0.05]
    clustered, independent = passed / 200
    assert clustered < 0.1
    assert independent > 0.2


def test_a_favorite_number_passes_and_is_told():
    """Mistral's Spearman on consistency is .1, and it passes: it nearly always says 5, as the experts do."""
    ratings, groups, judges = panel("consistency")
    record = alternative_record(judges["mistral-v03"], ratings, groups)
    assert record["passes"]
    assert (record["favorite"], record["favorite_winning_rate"]) == (5.0, 1.0)
    assert record["by_favorite"]
    assert record["favorite_difference"] == pytest.approx(record["advantage"] - record["favorite_advantage"])
    blind = [closer(np.full(960, float(one)), ratings)[0] for one in range(1, 6)]
    assert record["favorite_advantage"] == pytest.approx(max(np.nanmean(one) for one in blind), abs=1e-12)
    shares = np.bincount(judges["mistral-v03"].astype(int), minlength=6)[1:] / 960
    assert record["shuffled_advantage"] == pytest.approx(shares @ [np.nanmean(one) for one in blind], abs=1e-12)
    coherent, groups, judges = panel("coherence")
    told = alternative_record(judges["gpt-4o"], coherent, groups)
    assert told["passes"]
    assert not told["by_favorite"]
    assert told["favorite_difference_low"] > 0
    assert told["shuffled_difference_low"] > 0


def test_scores_without_judgment_pass_and_are_told():
    """What a judge says is dealt out at random: it beats the best single number here, and not itself shuffled."""
    rng = np.random.default_rng(5)
    ratings = rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], (600, 3))
    record = alternative_record(rng.permutation(np.tile([2.0, 3.0, 4.0], 200)), ratings, np.arange(600))
    assert record["passes"]
    assert record["by_favorite"]
    assert record["shuffled_difference_low"] < 0 < record["shuffled_difference_high"]
    many = alternative_record(rng.uniform(2, 4, 600), ratings, np.arange(600))
    assert many["shuffled_difference_low"] < 0 < many["shuffled_difference_high"]


def test_calibrated_scores_are_rounded_to_be_comparable():
    """A mean never ties with whole ratings: unrounded, a calibrated judge loses where all people say 5."""
    ratings, groups, judges = panel("consistency")
    calibrated = cross_fitted(judges["gpt-4o"], ratings.mean(axis=1), groups)
    plain, whole = (
        alternative_record(scores, ratings, groups, resamples=0) for scores in (calibrated, rounded(calibrated, FIVE))
    )
    assert plain["advantage"] < 0.1
    assert whole["advantage"] > 0.8


def test_few_texts_test_nobody():
    record = alternative_record(np.ones(20), np.ones((20, 2)), np.arange(20))
    assert record["winning_rate"] is record["passes"] is record["advantage"] is None
    assert "30 texts" in record["alternative_reason"]
    assert not record["by_favorite"]
    one = alternative_record(np.ones(60), np.ones((60, 2)), np.zeros(60))
    assert one["tested"] == 0
