"""Agreement in points equals sklearn, pingouin, irrCAC and hand computation."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

from judgebench.stats.agreement import ac2, agreement_record, agreement_weights, variance_components
from judgebench.stats.clusters import Clusters
from judgebench.stats.points import (
    POINTS_FIGURES,
    cross_fitted,
    nearest_category,
    pair_figures,
    points_record,
    rater_points_record,
    rounded,
)
from tests.stats.panels import FIVE, built, panel, ragged

NAN = np.nan


def weighted_mean(ratings, figure):
    """The mean over raters of a figure on their texts, by their texts."""
    columns = [~np.isnan(column) for column in ratings.T]
    return np.average(
        [figure(ratings[of, k], of) for k, of in enumerate(columns)], weights=[of.sum() for of in columns]
    )


@pytest.mark.parametrize("seed", range(3))
def test_figures_with_single_raters_are_sklearns(seed):
    ratings, groups = ragged(seed)
    judge = np.random.default_rng(seed).integers(1, 6, 60).astype(float)
    record = points_record(judge, ratings, groups, FIVE, resamples=0)

    def kappa(said, of):
        return cohen_kappa_score(judge[of].astype(int), said.astype(int), weights="quadratic", labels=[1, 2, 3, 4, 5])

    assert record["single_kappa"] == pytest.approx(weighted_mean(ratings, kappa), abs=1e-12)
    assert record["single_mae"] == pytest.approx(
        weighted_mean(ratings, lambda said, of: mean_absolute_error(judge[of], said)), abs=1e-12
    )
    for name, far in (("exact", 0), ("adjacent", 1)):
        expected = weighted_mean(ratings, lambda said, of, far=far: np.mean(np.abs(judge[of] - said) <= far))
        assert record[f"single_{name}"] == pytest.approx(expected, abs=1e-12)
    assert record["single_bias"] == pytest.approx(np.nanmean(judge[:, None] - ratings), abs=1e-12)


def test_figures_with_the_mean_by_hand():
    ratings = np.array([[1.0, 2.0], [4.0, NAN], [5.0, 5.0], [NAN, NAN]])
    record = points_record(np.array([2.0, 3.0, 4.4, 1.0]), ratings, np.arange(4), FIVE, resamples=0)
    assert record["texts"] == 3
    assert record["bias"] == pytest.approx((0.5 - 1 - 0.6) / 3)
    assert record["mae"] == pytest.approx((0.5 + 1 + 0.6) / 3)
    assert record["exact"] == pytest.approx(1 / 3)  # the mean of 1 and 2 is a 2, half up
    assert record["adjacent"] == 1.0
    x, y = np.array([2.0, 3.0, 4.4]), np.array([1.5, 4.0, 5.0])
    concordance = 2 * np.cov(x, y, ddof=0)[0, 1] / (x.var() + y.var() + (x.mean() - y.mean()) ** 2)
    assert record["kappa"] == pytest.approx(concordance, abs=1e-12)  # Lin's


def test_icc_and_ac2_of_a_judge_are_those_of_the_libraries():
    pytest.importorskip("pingouin", reason="the library pingouin is not installed")
    pytest.importorskip("irrCAC", reason="the library irrCAC is not installed")
    import pandas as pd
    import pingouin
    from irrCAC.raw import CAC

    ratings, groups, judges = panel("relevance")
    scores, human = judges["gpt-4o"], ratings.mean(axis=1)
    record = points_record(scores, ratings, groups, FIVE, resamples=0)
    both = pd.DataFrame({"judge": scores, "human": human})
    long = both.reset_index().melt("index")
    icc = pingouin.intraclass_corr(long, targets="index", raters="variable", ratings="value")["ICC"].tolist()[1]
    assert record["icc"] == pytest.approx(icc, abs=1e-10)
    whole = pd.DataFrame({"judge": scores, "human": rounded(human, FIVE)})
    ac2 = CAC(whole, weights="quadratic", categories=FIVE.tolist()).gwet()["est"]["coefficient_value"]
    assert record["ac2"] == pytest.approx(ac2, abs=1e-5)


@pytest.mark.parametrize("name", POINTS_FIGURES)
def test_resamples_are_as_if_built(name):
    ratings, group = ragged(1)
    judge, human = (
        np.random.default_rng(1).uniform(1, 5, (60, 1)),
        np.nan_to_num(ratings, nan=3.0).mean(axis=1)[:, None],
    )
    clusters = Clusters.of(group, 20, 3)
    expected = [
        pair_figures(judge[rows], human[rows], Clusters.of(np.zeros(len(rows)), 0), FIVE)[name].item()
        for rows in (built(group, row) for row in clusters.weights)
    ]
    assert pair_figures(judge, human, clusters, FIVE)[name][:, 0] == pytest.approx(expected, abs=1e-10)


def test_pairs_are_those_of_general_formulas():
    ratings, group = ragged(2, raters=2, share=1.0)
    clusters = Clusters.of(group, 20, 3)
    figures = pair_figures(ratings[:, :1], ratings[:, 1:], clusters, FIVE)
    drawn = [ac2(ratings[built(group, row)], FIVE, agreement_weights(FIVE)) for row in clusters.weights]
    assert figures["ac2"][:, 0] == pytest.approx(drawn, abs=1e-12)
    assert figures["icc"][:, 0] == pytest.approx(variance_components(ratings, clusters).single, abs=1e-12)


def test_raters_meet_each_other_and_never_themselves():
    ratings, groups = ragged(0)
    record = rater_points_record(ratings, groups, FIVE, resamples=100)
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    distances = [np.abs(ratings[:, a] - ratings[:, b]) for a, b in pairs]
    expected = np.nansum(distances) / np.isfinite(distances).sum()
    assert record["single_mae"] == pytest.approx(expected, abs=1e-12)
    assert record["single_bias"] == pytest.approx(0.0, abs=1e-12)
    assert record["single_exact"] < 1
    assert record["single_kappa_low"] < record["single_kappa"] < record["single_kappa_high"]


def test_halves_go_up_whatever_the_rounding():
    assert nearest_category(np.array([1.5, 2.4999999999999996, 2.49, NAN, 99.0]), FIVE).tolist() == [1, 2, 1, -1, 4]


@pytest.mark.parametrize("kind", ["isotonic", "linear"])
def test_calibration_learns_from_other_groups_alone(kind):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 6)
    scores = rng.integers(1, 6, 120).astype(float)
    human = 0.5 * scores + 2 + rng.normal(0, 0.1, 120)
    found = cross_fitted(scores, human, groups, kind)
    assert np.abs(found - human).mean() < 0.15
    moved = np.where(groups == 3, 9.0, human)  # what is said of a group changes nothing in its own texts
    assert cross_fitted(scores, moved, groups, kind)[groups == 3].tolist() == found[groups == 3].tolist()


def test_isotonic_map_is_sklearns():
    rng = np.random.default_rng(1)
    scores, human = rng.integers(1, 6, 40).astype(float), rng.uniform(1, 5, 40)
    groups = np.where(np.arange(40) < 20, "a", "b")
    found = cross_fitted(scores, human, groups, folds=2)
    for one in "ab":
        fitted = IsotonicRegression(out_of_bounds="clip").fit(scores[groups != one], human[groups != one])
        assert found[groups == one] == pytest.approx(fitted.predict(scores[groups == one]), abs=1e-10)


def test_calibration_without_enough():
    assert np.isnan(cross_fitted(np.ones(4), np.ones(4), np.zeros(4))).all()
    few = cross_fitted(np.arange(6.0), np.array([1.0, NAN, 2.0, NAN, NAN, NAN]), np.arange(6))
    assert np.isfinite(few).all()  # unrated texts are scored by all that is known


@pytest.mark.parametrize(
    ("scores", "ratings", "categories", "reason"),
    [
        ([3.0, 3.0, 3.0], [[3.0], [3.0], [3.0]], FIVE, "No kappa"),
        ([1.0, 2.0, 3.0], [[3.3], [2.0], [1.0]], None, "no list of categories"),
        ([NAN, NAN, NAN], [[3.0], [2.0], [1.0]], FIVE, "no text has a score and a rating"),
    ],
)
def test_reasons(scores, ratings, categories, reason):
    record = points_record(np.array(scores), np.array(ratings), np.arange(3), categories)
    assert reason in record["points_reason"]
    assert any(record[name] is None for name in POINTS_FIGURES)


def test_one_text_has_no_kappa_and_no_alpha():
    record = points_record(np.array([3.0]), np.array([[3.0, 4.0]]), np.zeros(1), FIVE)
    assert (record["kappa"], record["single_kappa"], record["mae"]) == (None, None, 0.5)
    assert "there is one text" in record["points_reason"]
    assert agreement_record(np.array([[3.0, 4.0]]), np.zeros(1), FIVE)["alpha_interval"] is None
