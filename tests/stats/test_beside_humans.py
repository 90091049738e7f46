"""Records of judges beside humans: scipy and numpy's numbers, and a reason for what cannot be known."""

import json

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.agreement import disattenuated_record
from judgebench.stats.alternative import alternative_record
from judgebench.stats.humans import CALIBRATED, RAW, beside_humans_records
from judgebench.stats.points import POINTS_FIGURES, cross_fitted, points_record, rounded
from judgebench.stats.scores import Cell, Sample
from tests.stats.panels import FIVE, panel, ragged

NAN = np.nan
NAMES = ("ann", "bob", "cid", "dan")


def judge_scores(scores, ratings, groups, ends=(1.0, 5.0), scale=(1.0, 5.0), raters=NAMES, judge="main", **more):
    cell = Cell("test", "coherence", *ends, 1.0, "none", "none", judge, "greedy", None, None)
    names = np.array([f"e{text}" for text in range(len(scores))])
    raters = raters[: ratings.shape[1]]
    return Sample("mine", cell, names, groups, names, scores, ratings, raters, scale, resamples=100, **more)


def both(*of, **more):
    raw, calibrated = beside_humans_records([judge_scores(*of, **more)])
    json.dumps([raw, calibrated], allow_nan=False)
    assert (raw["scores"], calibrated["scores"]) == (RAW, CALIBRATED)
    assert list(raw) == list(calibrated)
    return raw, calibrated


def test_records_hold_what_the_pure_functions_say_of_real_rows():
    ratings, groups, judges = panel("consistency")
    scores = judges["gpt-4o"]
    raw, calibrated = both(scores, ratings, groups)
    fitted = cross_fitted(scores, ratings.mean(axis=1), groups)
    for record, side in ((raw, scores), (calibrated, fitted)):
        points = points_record(side, ratings, groups, FIVE, resamples=100)
        assert {name: record[name] for name in points}.items() <= points.items()
        test = alternative_record(rounded(side, FIVE), ratings, groups, resamples=100)
        for name in ("winning_rate", "advantage", "advantage_low", "favorite", "by_favorite", "shuffled_advantage"):
            assert record[name] == test[name]
        assert [one["rater"] for one in record["raters"]] == ["ann", "bob", "cid"]
        assert [one["p_by"] for one in record["raters"]] == [one["p_by"] for one in test["raters"]]
    true = disattenuated_record(scores, ratings, groups, resamples=100)
    assert raw["disattenuated_spearman"] == true["disattenuated_spearman"]
    assert calibrated["disattenuated_spearman"] is None
    # its favorite passes as well as it does, once calibrated
    assert (raw["passes"], calibrated["passes"], calibrated["by_favorite"], calibrated["favorite"]) == (0, 1, True, 5)


def test_what_calibration_saves_is_paired_text_by_text():
    ratings, groups, judges = panel("coherence")
    raw, calibrated = both(judges["gpt-4o"], ratings, groups)
    assert raw["mae_saved"] is raw["mae_constant"] is None
    tried = [np.abs(ratings.mean(axis=1) - one).mean() for one in np.arange(1, 5.001, 1 / 6)]
    assert calibrated["mae_constant"] == pytest.approx(min(tried))
    assert calibrated["mae_saved"] == pytest.approx(raw["mae"] - calibrated["mae"], abs=1e-12)
    paired = calibrated["mae_saved_high"] - calibrated["mae_saved_low"]
    apart = (raw["mae_high"] - raw["mae_low"]) + (calibrated["mae_high"] - calibrated["mae_low"])
    assert 0 < paired < 0.8 * apart
    perfect = both(ratings.mean(axis=1), ratings, groups)[1]
    assert perfect["mae_saved_high"] < 0


def test_figures_are_scipys_and_numpys():
    rng = np.random.default_rng(0)
    ratings = np.clip(np.round(3 + rng.normal(size=(80, 1)) + rng.normal(0, 0.7, (80, 3))), 1, 5)
    scores = np.clip(np.round(ratings.mean(axis=1) + rng.normal(0, 0.7, 80)), 1, 5)
    raw, _ = both(scores, ratings, np.arange(80))
    assert raw["bias"] == pytest.approx((scores - ratings.mean(axis=1)).mean(), abs=1e-12)
    assert raw["single_mae"] == pytest.approx(np.abs(scores[:, None] - ratings).mean(), abs=1e-12)
    others = (ratings.sum(axis=1, keepdims=True) - ratings) / 2
    rho = np.mean([stats.spearmanr(scores, column).statistic for column in others.T])
    assert raw["tested_spearman_others"] == pytest.approx(rho, abs=1e-12)
    for column, one in enumerate(raw["raters"]):
        apart = [np.sqrt(((side[:, None] - np.delete(ratings, column, 1)) ** 2).mean(axis=1)) for side in
                 (scores, ratings[:, column])]  # fmt: skip
        wins = 1.0 * (apart[1] <= apart[0]) - (apart[0] <= apart[1])
        assert one["p"] == pytest.approx(stats.ttest_1samp(wins, 0.2, alternative="less").pvalue, abs=1e-12)


def test_a_range_is_mapped_to_the_humans_scale():
    ratings, groups = ragged(0)
    scores = np.random.default_rng(0).integers(0, 11, 60).astype(float)
    raw, calibrated = both(scores, ratings, groups, ends=(0.0, 10.0))
    again, likewise = both(1 + 0.4 * scores, ratings, groups)
    for name in (*POINTS_FIGURES, "single_mae", "advantage", "tested_spearman_others"):
        assert raw[name] == pytest.approx(again[name], abs=1e-12)
        assert calibrated[name] == pytest.approx(likewise[name], abs=1e-9)


def test_assistants_are_no_judges():
    ratings, groups = ragged(0)
    assert beside_humans_records([judge_scores(np.ones(60), ratings, groups, judge="assistant")]) == []


def test_of_means_alone_single_figures_have_a_reason():
    ratings, groups = ragged(0, raters=1, share=1.0)
    raw, calibrated = both(np.full(60, 3.0), ratings, groups, raters=())
    for record in (raw, calibrated):
        assert record["mae"] is not None
        assert record["single_mae"] is record["winning_rate"] is record["tested_spearman_others"] is None
        assert "take several ratings of a text, and only one, or their mean, is known" in record["points_reason"]
        assert record["alternative_reason"].startswith("The test takes several ratings")
    assert "only one, or their mean" in raw["disattenuated_reason"]


def test_without_a_scale_only_calibrated_scores_stand_in_points():
    ratings, groups = ragged(0)
    raw, calibrated = both(np.random.default_rng(1).integers(1, 8, 60).astype(float), ratings, groups, scale=None)
    assert raw["mae"] is None
    assert raw["points_reason"].startswith("The humans' scale is unknown")
    assert raw["disattenuated_spearman"] is not None
    assert calibrated["mae"] < 2
    assert calibrated["exact"] is None


def test_one_group_has_no_calibrated_scores():
    ratings, _ = ragged(0)
    raw, calibrated = both(np.random.default_rng(1).integers(1, 6, 60).astype(float), ratings, np.zeros(60))
    assert raw["mae"] is not None
    assert raw["mae_low"] is calibrated["mae"] is raw["winning_rate"] is None
    assert calibrated["points_reason"].startswith("No calibrated scores")


def test_explained_variance_compares_like_with_like():
    """Isotonic scores and the constant are both learned from the same other texts, and compared by squares."""
    ratings, groups, judges = panel("coherence")
    raw, calibrated = both(judges["gpt-4o"], ratings, groups)
    human = ratings.mean(axis=1)
    fitted = cross_fitted(judges["gpt-4o"], human, groups)
    constant = cross_fitted(judges["gpt-4o"], human, groups, "constant")
    assert len(np.unique(constant)) == 5  # folds
    spread = np.mean((constant - human) ** 2)
    for record, scores in ((raw, judges["gpt-4o"]), (calibrated, fitted)):
        errors = np.mean((scores - human) ** 2)
        assert record["rmse"] == pytest.approx(np.sqrt(errors))
        assert record["rmse_constant"] == pytest.approx(np.sqrt(spread))
        assert record["r2"] == pytest.approx(1 - errors / spread)
        assert record["r2_low"] < record["r2"] < record["r2_high"]
    assert 0 < calibrated["r2_unseen"] < 1
    assert raw["r2_unseen"] is None
