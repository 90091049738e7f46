"""Agreement of humans, and in points, by krippendorff, pingouin, sklearn and hand; and in every resample that of the
texts that are drawn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

from judgebench.stats import agreement
from judgebench.stats.clusters import Clusters, jackknife
from judgebench.stats.correlation import krippendorff_alpha
from judgebench.studies.agreement import agreement_record
from judgebench.studies.humans import POINTS_FIGURES, pair_figures, points_record, rater_points_record
from tests.stats.panels import FIVE, alone, built, ragged

NAN = np.nan


def components(ratings):
    """Of the data alone: text, rater, rest, raters, unshared, icc_single, icc_mean, reliability."""
    return [float(part[0]) for part in agreement.variance_components(ratings, alone(len(ratings))).values()]


# --- humans among themselves ------------------------------------------------------------------------------------------


def test_resampled_components_are_as_if_built():
    ratings, group = ragged(3)
    clusters = Clusters.of(group, 25, 7)
    parts = agreement.variance_components(ratings, clusters).values()
    for k, row in enumerate(clusters.weights):
        assert [part[k] for part in parts] == pytest.approx(components(ratings[built(group, row)]), abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_intraclass_correlations_are_pingouins(seed):
    pingouin = pytest.importorskip("pingouin", reason="the library pingouin is not installed")
    ratings, groups = ragged(seed, share=1.1)
    long = pd.DataFrame(ratings).reset_index().melt("index")
    theirs = pingouin.intraclass_corr(long, targets="index", raters="variable", ratings="value")["ICC"].tolist()
    assert components(ratings)[5:] == pytest.approx([theirs[1], theirs[4], theirs[5]], abs=1e-10)  # A,1; A,k; C,k
    long = pd.DataFrame(ratings[:, :2]).reset_index().melt("index")
    theirs = pingouin.intraclass_corr(long, targets="index", raters="variable", ratings="value")["ICC"].tolist()
    judge, clusters = ratings[:, 0], Clusters.of(groups, 0)
    assert points_record(judge, ratings[:, 1:2], clusters, FIVE)["icc"] == pytest.approx(theirs[1], abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_ragged_components_solve_their_expectations(seed):
    """E[y'Qy] = tr(Q V) for the four sums of squares, with all matrices written out."""
    ratings, _ = ragged(seed, texts=20)
    rows, columns = np.nonzero(~np.isnan(ratings))
    y, n = ratings[rows, columns], len(rows)
    text, rater = (np.eye(size)[index] for size, index in ((20, rows), (4, columns)))
    of_text, of_rater, of_mean = (z @ np.linalg.pinv(z.T @ z) @ z.T for z in (text, rater, np.ones((n, 1))))
    forms = [of_text - of_mean, of_rater - of_mean, np.eye(n) - of_text - of_rater + of_mean]
    parts = [text @ text.T, rater @ rater.T, np.eye(n)]
    expected = np.linalg.solve([[np.trace(q @ v) for v in parts] for q in forms], [y @ q @ y for q in forms])
    sizes = (~np.isnan(ratings)).sum(axis=1)
    used = sizes > 0
    unshared = np.var((~np.isnan(ratings))[used] / sizes[used, None], axis=0, ddof=1).sum()
    assert components(ratings)[:5] == pytest.approx([*expected, 1 / np.mean(1 / sizes[used]), unshared], abs=1e-10)


def test_figures_of_a_record_leave_out_each_group():
    ratings, groups = ragged(2)
    record = agreement_record(ratings, Clusters.of(groups))
    for metric in ("interval", "ordinal"):
        left_out = jackknife(lambda rows, metric=metric: {"alpha": krippendorff_alpha(ratings[rows], metric)}, groups)
        logs = np.log1p(-left_out["alpha"][1:])
        error = np.sqrt(11 / 12 * ((logs - logs.mean()) ** 2).sum())
        assert record[f"alpha_{metric}"] == left_out["alpha"][0]
        # Student's t of log(1 - alpha), 11 degrees of freedom
        expected = -np.expm1(np.log1p(-left_out["alpha"][0]) + 2.2009851600916 * error)
        assert record[f"alpha_{metric}_low"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        (np.full((9, 2), 4.0), "all ratings are equal"),
        (np.array([[1.0, NAN], [NAN, 2.0]]), "no text has the ratings of two people"),
        (np.array([[3.0, 4.0]]), "there is one group"),
        # each text has two raters of its own
        (np.where(np.tile(np.eye(6), 2) > 0, np.arange(12.0) % 7, NAN), "too few raters share texts"),
    ],
)
def test_what_is_unknown_of_humans_has_a_reason(ratings, reason):
    record = agreement_record(ratings, Clusters.of(np.arange(len(ratings))))
    assert reason in record["agreement_reason"]
    assert record["icc_single"] is None


def test_categories_are_whole_numbers_of_the_scale():
    assert agreement.categories_of(np.array([[1.0, NAN]]), (0, 2)).tolist() == [0, 1, 2]
    for ratings, scale in (([1.5], (0, 2)), ([7.0], (1, 5)), ([1.0], (0, 1000)), ([1.0], (0.5, 4))):
        assert agreement.categories_of(np.array([ratings]), scale) is None


# --- in points --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_figures_with_single_raters_are_sklearns(seed):
    ratings, groups = ragged(seed)
    judge = np.random.default_rng(seed).integers(1, 6, 60).astype(float)
    record = points_record(judge, ratings, Clusters.of(groups, 0), FIVE)
    labels = {"weights": "quadratic", "labels": [1, 2, 3, 4, 5]}
    figures = {
        "kappa": lambda said, rated: cohen_kappa_score(said.astype(int), rated.astype(int), **labels),
        "mae": mean_absolute_error,
        "exact": lambda said, rated: np.mean(said == rated),
        "adjacent": lambda said, rated: np.mean(np.abs(said - rated) <= 1),
        "bias": lambda said, rated: np.mean(said - rated),
    }
    rated = [~np.isnan(column) for column in ratings.T]
    for name, figure in figures.items():
        of_raters = [figure(judge[rows], ratings[rows, k]) for k, rows in enumerate(rated)]
        expected = np.average(of_raters, weights=[rows.sum() for rows in rated])
        assert record[f"single_{name}"] == pytest.approx(expected, abs=1e-12)


def test_figures_with_the_mean_by_hand():
    ratings = np.array([[1.0, 2.0], [4.0, NAN], [5.0, 5.0], [NAN, NAN]])
    record = points_record(np.array([2.0, 3.0, 4.4, 1.0]), ratings, alone(4), FIVE)
    assert (record["texts"], record["bias"], record["mae"]) == (3, pytest.approx(-1.1 / 3), pytest.approx(2.1 / 3))
    assert record["exact"] == pytest.approx(1 / 3)  # the mean of 1 and 2 is a 2, half up
    assert record["adjacent"] == 1.0
    x, y = np.array([2.0, 3.0, 4.4]), np.array([1.5, 4.0, 5.0])
    concordance = 2 * np.cov(x, y, ddof=0)[0, 1] / (x.var() + y.var() + (x.mean() - y.mean()) ** 2)
    assert record["kappa"] == pytest.approx(concordance, abs=1e-12)  # Lin's


def test_resamples_are_as_if_built_and_those_of_general_formulas():
    ratings, group = ragged(2, raters=2, share=1.0)
    clusters = Clusters.of(group, 20, 3)
    figures = pair_figures(ratings[:, :1], ratings[:, 1:], clusters, FIVE)
    rows_of = [built(group, row) for row in clusters.weights]
    for name in POINTS_FIGURES:
        drawn = [pair_figures(ratings[r, :1], ratings[r, 1:], alone(len(r)), FIVE)[name].item() for r in rows_of]
        assert figures[name][:, 0] == pytest.approx(drawn, abs=1e-10)
    icc = agreement.variance_components(ratings, clusters)["icc_single"]
    assert figures["icc"][:, 0] == pytest.approx(icc, abs=1e-12)


def test_raters_meet_each_other_and_never_themselves():
    ratings, groups = ragged(0)
    record = rater_points_record(ratings, Clusters.of(groups, 100), FIVE)
    distances = [np.abs(ratings[:, a] - ratings[:, b]) for a in range(4) for b in range(4) if a != b]
    assert record["single_mae"] == pytest.approx(np.nansum(distances) / np.isfinite(distances).sum(), abs=1e-12)
    assert record["single_bias"] == pytest.approx(0.0, abs=1e-12)
    assert record["single_kappa_low"] < record["single_kappa"] < record["single_kappa_high"]


@pytest.mark.parametrize(
    ("scores", "ratings", "categories", "reason"),
    [
        ([3.0, 3.0, 3.0], [[3.0], [3.0], [3.0]], FIVE, "No kappa"),
        ([1.0, 2.0, 3.0], [[3.3], [2.0], [1.0]], None, "no list of categories"),
        ([NAN, NAN, NAN], [[3.0], [2.0], [1.0]], FIVE, "no text has a score and a rating"),
        ([3.0], [[3.0, 4.0]], FIVE, "there is one text"),
    ],
)
def test_what_is_unknown_in_points_has_a_reason(scores, ratings, categories, reason):
    record = points_record(np.array(scores), np.array(ratings), Clusters.of(np.arange(len(scores))), categories)
    assert reason in record["points_reason"]
    assert any(record[name] is None for name in POINTS_FIGURES)
