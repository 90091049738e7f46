"""The human ceiling by plain loops over scipy, the alternative annotator test by its authors' code, and the records of
judges beside humans."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from judgebench.stats.agreement import alternative_record, closer, clustered_p
from judgebench.stats.clusters import Clusters
from judgebench.stats.folds import cross_fitted
from judgebench.studies.humans import (
    CALIBRATED,
    POINTS_FIGURES,
    RAW,
    beside_humans_records,
    human_records,
    points_record,
    rounded,
)
from judgebench.studies.panel import FEWEST_TEXTS, Panel, means_of_others
from judgebench.studies.scores import JudgeScores, ScoreSeries
from tests.stats.panels import FIVE, built, panel, ragged

NAN = np.nan
NAMES = ("ann", "bob", "cid", "dan")


# --- one rater and the others -----------------------------------------------------------------------------------------


def ceiling_by_loops(ratings: np.ndarray, sides: np.ndarray) -> float:
    """The weighted mean over raters, text by text and rater by rater."""
    rhos, texts = [], []
    for rater in range(ratings.shape[1]):
        ours, theirs = [], []
        for text, row in enumerate(ratings):
            others = [value for column, value in enumerate(row) if column != rater and not np.isnan(value)]
            if others and not np.isnan(row[rater]):
                ours.append(sides[text, rater])
                theirs.append(sum(others) / len(others))
        if len(ours) >= FEWEST_TEXTS:
            constant = len(set(ours)) == 1 or len(set(theirs)) == 1
            rhos.append(0.0 if constant else stats.spearmanr(ours, theirs).statistic)
            texts.append(len(ours))
    return float(np.average(rhos, weights=texts))


def one_panel(ratings, groups, resamples=0, seed=0):
    return Panel(ratings, Clusters.of(groups, resamples, seed))


def test_raters_weigh_by_their_texts_and_constant_ones_count_0_and_means_equal_in_truth_tie():
    equal = np.array([[0.0, 0.1, 0.2, 0.3], [0.0, 0.3, 0.1, 0.2], [9.0, 0.2, 0.2, 0.2]])
    assert len(np.unique(means_of_others(equal)[:, 0])) == 1
    base = np.arange(30.0)
    constant = np.where(base < 10, 2.0, NAN)
    ceiling = one_panel(np.stack([base, base, constant], axis=1), np.arange(30)).ceiling[0]
    # among the first ten texts the constant rater only shifts and halves the means, yet not among all 30
    rho = stats.spearmanr(base, np.where(base < 10, (base + 2) / 2, base)).statistic
    assert ceiling == pytest.approx((30 * rho + 30 * rho + 10 * 0) / 70)


@pytest.mark.parametrize("seed", range(2))
def test_ceiling_and_judge_are_those_of_plain_loops_in_each_resample(seed):
    ratings, groups = ragged(seed, texts=80)
    judge = np.random.default_rng(seed + 50).normal(size=len(ratings))
    sides, raters = np.broadcast_to(judge[:, None], ratings.shape), one_panel(ratings, groups, 4, seed)
    agreement = raters.agreement(judge)
    for k, rows in enumerate(built(groups, row) for row in raters.clusters.weights):
        assert raters.ceiling[k] == pytest.approx(ceiling_by_loops(ratings[rows], ratings[rows]), abs=1e-12)
        assert agreement[k] == pytest.approx(ceiling_by_loops(ratings[rows], sides[rows]), abs=1e-12)


@given(st.integers(0, 10_000))
def test_order_names_and_scale_do_not_matter(seed):
    ratings, groups = ragged(seed, texts=40, raters=5, share=0.5)
    plain = one_panel(ratings, groups)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(ratings)), rng.permutation(ratings.shape[1])
    moved = one_panel((7 + 3 * ratings)[rows][:, columns], groups[rows])
    np.testing.assert_allclose(moved.ceiling[0], plain.ceiling[0], atol=1e-12)
    assert plain.missing or (-1 <= plain.ceiling[0] <= 1 and plain.agreement(np.zeros(40))[0] == 0.0)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        (np.full((20, 3), NAN), "No human ceiling: no text has the ratings of two people."),
        (np.where(np.eye(20, 3), 1.0, NAN), "No human ceiling: no text has the ratings of two people."),
        (np.arange(18.0).reshape(9, 2), "No human ceiling: no person rated 10 texts that others rated, too."),
    ],
)
def test_without_a_ceiling_there_is_a_reason(ratings, reason):
    (record,) = human_records({("quality", "test"): one_panel(ratings, np.arange(len(ratings)), 4)}, "mine")
    assert record["reason"] == reason
    assert record["ceiling"] is record["ceiling_low"] is record["ceiling_high"] is None


# --- the alternative annotator test -----------------------------------------------------------------------------------

# Winning rate and advantage of the authors' alt_test (github.com/nitaytech/AltTest) with neg_rmse.
AUTHORS = {
    ("coherence", "gpt-4o"): (1.0, 0.7416666666666667),
    ("coherence", "mistral-v03"): (1 / 3, 0.5850694444444444),
    ("consistency", "mistral-v03"): (1.0, 0.8875000000000001),
}


@pytest.mark.parametrize(("dimension", "judge"), AUTHORS)
def test_independent_texts_give_the_authors_numbers(dimension, judge):
    ratings, _, judges = panel(dimension)
    record = alternative_record(judges[judge], ratings, Clusters.of(np.arange(960), 0))
    assert record["winning_rate"] == record["paper_winning_rate"]
    assert (record["winning_rate"], record["advantage"]) == pytest.approx(AUTHORS[dimension, judge], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_wins_are_those_of_plain_loops(seed):
    """Text by text, as the paper defines them."""
    ratings, _ = ragged(seed)
    scores = np.random.default_rng(seed).integers(1, 6, 60).astype(float)
    scores[::7] = NAN
    judge, rater = np.full((2, *ratings.shape), NAN)
    for text, row in enumerate(ratings):
        for column, value in enumerate(row):
            others = [rating for place, rating in enumerate(row) if place != column and not np.isnan(rating)]
            if np.isnan(value) or not others or np.isnan(scores[text]):
                continue
            ours, theirs = (-(np.mean([(side - x) ** 2 for x in others]) ** 0.5) for side in (scores[text], value))
            judge[text, column], rater[text, column] = ours >= theirs, theirs >= ours
    np.testing.assert_array_equal(closer(scores, ratings), (judge, rater))
    sides = closer(np.array([0.5, 0.5]), np.array([[0.1, 0.3, 0.3], [0.3, 0.1, 0.3]]))
    assert sides[0][0, 0] == sides[1][0, 0] == 1.0  # 0.2 below and 0.2 above, to the last bit


def test_clustered_p_is_that_of_statsmodels_and_of_the_t_test():
    api = pytest.importorskip("statsmodels.api", reason="the library statsmodels is not installed")
    rng = np.random.default_rng(2)
    group = rng.integers(0, 15, 90)
    differences = rng.normal(0.1, 1, 15)[group] + rng.normal(size=90)
    fitted = api.OLS(differences - 0.2, np.ones(90)).fit(
        cov_type="cluster", cov_kwds={"groups": group, "use_correction": False}, use_t=True
    )
    error = fitted.bse[0] * (15 / 14) ** 0.5
    assert clustered_p(differences, group, 0.2) == pytest.approx(stats.t.cdf(fitted.params[0] / error, 14), abs=1e-10)
    # groups of one text
    alone = stats.ttest_1samp(differences, 0.2, alternative="less").pvalue
    assert clustered_p(differences, np.arange(90), 0.2) == pytest.approx(alone, abs=1e-12)
    # what does not vary, and one group
    of_few = ((np.zeros(30), np.arange(30)), (np.ones(30), np.arange(30)), (np.zeros(30), np.zeros(30, dtype=int)))
    assert [clustered_p(apart, by, 0.2) for apart, by in of_few] == [0.0, 1.0, 1.0]
    # eight copies of each text say no more than one
    copies = clustered_p(np.repeat(differences, 8), np.repeat(np.arange(90), 8), 0.2)
    assert copies == pytest.approx(alone, abs=1e-12)


def test_a_favorite_number_passes_and_is_named():
    """Mistral's Spearman on consistency is .1, and it passes: it nearly always says 5, as the experts do."""
    ratings, groups, judges = panel("consistency")
    record = alternative_record(judges["mistral-v03"], ratings, Clusters.of(groups))
    assert (record["passes"], record["by_favorite"]) == (True, True)
    assert (record["favorite"], record["favorite_winning_rate"]) == (5.0, 1.0)
    assert record["favorite_difference"] == pytest.approx(record["advantage"] - record["favorite_advantage"])
    blind = [np.nanmean(closer(np.full(960, rating), ratings)[0]) for rating in FIVE]
    assert record["favorite_advantage"] == pytest.approx(max(blind), abs=1e-12)
    shares = np.bincount(judges["mistral-v03"].astype(int), minlength=6)[1:] / 960
    assert record["shuffled_advantage"] == pytest.approx(shares @ blind, abs=1e-12)
    ratings, groups, judges = panel("coherence")
    judging = alternative_record(judges["gpt-4o"], ratings, Clusters.of(groups))
    assert (judging["passes"], judging["by_favorite"]) == (True, False)
    assert min(judging["favorite_difference_low"], judging["shuffled_difference_low"]) > 0


@pytest.mark.parametrize("scores", [np.tile([2.0, 3.0, 4.0], 200), np.random.default_rng(6).uniform(2, 4, 600)])
def test_scores_without_judgment_cannot_be_told_from_themselves_shuffled(scores):
    rng = np.random.default_rng(5)
    ratings = rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], (600, 3))
    record = alternative_record(rng.permutation(scores), ratings, Clusters.of(np.arange(600)))
    p = np.array([rater["p"] for rater in record["raters"]])
    corrected = multipletests(p, method="fdr_by")[1]
    assert [rater["p_by"] for rater in record["raters"]] == pytest.approx(corrected, abs=1e-12)
    few = alternative_record(scores[:20], ratings[:20], Clusters.of(np.arange(20)))
    assert (few["tested"], few["winning_rate"], few["passes"], few["advantage"]) == (0, None, None, None)
    assert record["by_favorite"] == record["passes"]
    assert record["shuffled_difference_low"] < 0 < record["shuffled_difference_high"]


# --- judges beside humans ---------------------------------------------------------------------------------------------


def both(scores, ratings, groups, ends=(1.0, 5.0), scale=(1.0, 5.0), raters=NAMES, judge="main"):
    """The records of raw and of calibrated scores."""
    cell = ScoreSeries("test", "coherence", *ends, 1.0, "none", "none", judge, "greedy", None, None)
    names, raters = np.array([f"e{text}" for text in range(len(scores))]), raters[: ratings.shape[1]]
    sample = JudgeScores("mine", cell, names, groups, names, scores, ratings, raters, scale, resamples=100)
    records = beside_humans_records([sample])
    json.dumps(records, allow_nan=False)
    assert [record["scores"] for record in records] == [RAW, CALIBRATED][: len(records)]
    return records


def test_records_hold_what_the_pure_functions_say_of_real_rows():
    ratings, groups, judges = panel("consistency")
    scores, human, clusters = judges["gpt-4o"], ratings.mean(axis=1), Clusters.of(groups, 100)
    raw, calibrated = both(scores, ratings, groups)
    assert list(raw) == list(calibrated)
    for record, side in ((raw, scores), (calibrated, cross_fitted(scores, human, groups))):
        assert record.items() >= points_record(side, ratings, clusters, FIVE).items()
        test = alternative_record(rounded(side, FIVE), ratings, clusters)
        for name in ("winning_rate", "advantage", "advantage_low", "favorite", "by_favorite", "shuffled_advantage"):
            assert record[name] == test[name]
        assert [rater["rater"] for rater in record["raters"]] == ["ann", "bob", "cid"]
        assert [rater["p_by"] for rater in record["raters"]] == [rater["p_by"] for rater in test["raters"]]
        others = one_panel(ratings, groups).agreement(rounded(side, FIVE))[0]
        assert record["tested_spearman_others"] == pytest.approx(others)
    # its favorite passes as well as it does, once calibrated
    assert (raw["passes"], calibrated["passes"], calibrated["by_favorite"], calibrated["favorite"]) == (0, 1, True, 5)
    # a mean never ties with whole ratings: unrounded, a calibrated judge loses where all people say 5
    unrounded = alternative_record(cross_fitted(scores, human, groups), ratings, Clusters.of(groups, 0))
    assert unrounded["advantage"] < 0.1 < 0.8 < calibrated["advantage"]


def test_what_calibration_saves_and_explains_is_paired_text_by_text():
    ratings, groups, judges = panel("coherence")
    scores, human = judges["gpt-4o"], ratings.mean(axis=1)
    raw, calibrated = both(scores, ratings, groups)
    assert raw["mae_saved"] is raw["mae_constant"] is raw["r2_unseen"] is None
    tried = [np.abs(human - score).mean() for score in np.arange(1, 5.001, 1 / 6)]
    assert calibrated["mae_constant"] == pytest.approx(min(tried))
    assert calibrated["mae_saved"] == pytest.approx(raw["mae"] - calibrated["mae"], abs=1e-12)
    paired = calibrated["mae_saved_high"] - calibrated["mae_saved_low"]
    apart = (raw["mae_high"] - raw["mae_low"]) + (calibrated["mae_high"] - calibrated["mae_low"])
    assert 0 < paired < 0.8 * apart
    assert both(human, ratings, groups)[1]["mae_saved_high"] < 0  # a perfect judge
    # against the one best score for all texts, by single ratings; raw ones where they are nearer
    assert raw["single_mae"] < calibrated["single_mae"]
    assert (raw["better_scores"], calibrated["better_scores"]) == (None, "raw")
    assert both(6 - human, ratings, groups)[1]["better_scores"] == "calibrated"
    constant = min(np.abs(ratings - score).mean() for score in np.arange(1, 6))
    for record in (raw, calibrated):
        assert record["constant_mae"] == pytest.approx(constant)
        assert record["constant_saved"] == pytest.approx(constant - record["single_mae"])
        assert record["constant_saved_low"] < record["constant_saved"] < record["constant_saved_high"]
    # scores and the constant are learned from the same other texts, and compared by squares
    constant = cross_fitted(scores, human, groups, "constant")
    spread = np.mean((constant - human) ** 2)
    for record, side in ((raw, scores), (calibrated, cross_fitted(scores, human, groups))):
        errors = np.mean((side - human) ** 2)
        assert (record["rmse"], record["rmse_constant"]) == pytest.approx((np.sqrt(errors), np.sqrt(spread)))
        assert record["r2"] == pytest.approx(1 - errors / spread)
        assert record["r2_low"] < record["r2"] < record["r2_high"]
    assert 0 < calibrated["r2_unseen"] < 1


def test_a_range_is_mapped_to_the_humans_scale_and_assistants_are_no_judges():
    ratings, groups = ragged(0)
    scores = np.random.default_rng(0).integers(0, 11, 60).astype(float)
    raw, calibrated = both(scores, ratings, groups, ends=(0.0, 10.0))
    again, likewise = both(1 + 0.4 * scores, ratings, groups)
    for name in (*POINTS_FIGURES, "single_mae", "advantage", "tested_spearman_others"):
        assert raw[name] == pytest.approx(again[name], abs=1e-12)
        assert calibrated[name] == pytest.approx(likewise[name], abs=1e-9)
    assert both(scores, ratings, groups, judge="assistant") == []


def test_what_is_unknown_has_a_reason():
    ratings, groups = ragged(0)
    scores = np.random.default_rng(1).integers(1, 6, 60).astype(float)
    # of means alone
    for record in both(scores, ratings[:, :1], groups, raters=()):
        assert record["mae"] is not None
        assert record["single_mae"] is record["winning_rate"] is record["tested_spearman_others"] is None
        assert "take several ratings of a text, and only one, or their mean, is known" in record["points_reason"]
        assert record["alternative_reason"].startswith("The test takes several ratings")
    # without a scale only calibrated scores stand in points
    raw, calibrated = both(scores, ratings, groups, scale=None)
    assert raw["points_reason"].startswith("The humans' scale is unknown")
    assert raw["mae"] is calibrated["exact"] is None
    assert calibrated["mae"] < 2
    # one group has no calibrated scores
    raw, calibrated = both(scores, ratings, np.zeros(60))
    assert raw["mae"] is not None
    assert raw["mae_low"] is calibrated["mae"] is raw["winning_rate"] is None
    assert calibrated["points_reason"].startswith("No calibrated scores")
