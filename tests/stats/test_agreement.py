"""Agreement among humans equals krippendorff, irrCAC and pingouin, and in every resample what the built one gives."""

import numpy as np
import pytest

from judgebench.stats import agreement
from judgebench.stats.agreement import FIGURES, agreement_record, agreement_weights, disattenuated_record
from judgebench.stats.clusters import Clusters, jackknife
from judgebench.stats.correlation import krippendorff_alpha, pearson
from tests.stats.panels import FIVE, built, panel, ragged
from tests.stats.recorded import DIMENSIONS

NAN = np.nan


def components(ratings):
    """Of the data alone: text, rater, rest, raters, unshared; single, mean, reliability."""
    parts = agreement.variance_components(ratings, Clusters.of(np.zeros(len(ratings)), 0))
    return [float(part[0]) for part in (*parts, parts.single, parts.mean, parts.reliability)]


def test_resampled_components_are_as_if_built():
    ratings, group = ragged(3)
    clusters = Clusters.of(group, 25, 7)
    parts = agreement.variance_components(ratings, clusters)
    for k, row in enumerate(clusters.weights):
        assert [part[k] for part in parts] == pytest.approx(components(ratings[built(group, row)])[:5], abs=1e-10)


@pytest.mark.parametrize("kind", ["quadratic", "ordinal", "identity"])
@pytest.mark.parametrize("seed", range(3))
def test_ac2_is_that_of_irrcac(kind, seed):
    pytest.importorskip("irrCAC", reason="the library irrCAC is not installed")
    import pandas as pd
    from irrCAC.raw import CAC

    ratings, _ = ragged(seed)
    theirs = CAC(pd.DataFrame(ratings), weights=kind, categories=FIVE.tolist()).gwet()["est"]["coefficient_value"]
    alike = np.eye(5) if kind == "identity" else agreement_weights(FIVE, kind)
    assert agreement.ac2(ratings, FIVE, alike) == pytest.approx(theirs, abs=1e-5)  # they round to five places


def test_weights_by_hand():
    assert agreement_weights(np.arange(3.0), "ordinal").tolist() == pytest.approx(
        np.array([[1, 2 / 3, 0], [2 / 3, 1, 2 / 3], [0, 2 / 3, 1]])
    )
    assert agreement_weights(np.array([0.0, 1.0, 4.0]))[1].tolist() == pytest.approx([15 / 16, 1, 7 / 16])


@pytest.mark.parametrize("seed", range(3))
def test_intraclass_correlations_are_pingouins(seed):
    pytest.importorskip("pingouin", reason="the library pingouin is not installed")
    import pandas as pd
    import pingouin

    ratings, _ = ragged(seed, share=1.1)
    long = pd.DataFrame(ratings).reset_index().melt("index")
    theirs = pingouin.intraclass_corr(long, targets="index", raters="variable", ratings="value")["ICC"].tolist()
    assert components(ratings)[5:] == pytest.approx([theirs[1], theirs[4], theirs[5]], abs=1e-10)  # A,1; A,k; C,k


def test_complete_ratings_have_the_variances_of_shrout_and_fleiss():
    """Their table 2: six targets, four judges; ICC(2,1) = .29 and ICC(2,4) = .62, ICC(3,4) = .91."""
    ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert components(np.array(ratings, dtype=float))[5:] == pytest.approx([0.29, 0.62, 0.91], abs=0.005)


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


def test_ragged_components_find_the_truth():
    rng, parts = np.random.default_rng(0), []
    for _ in range(40):
        ratings = 2 * rng.normal(size=(100, 1)) + rng.normal(size=12) + rng.normal(size=(100, 12))
        ratings[rng.random(ratings.shape) > 0.3] = NAN
        parts.append(components(ratings)[:3])
    assert np.mean(parts, axis=0) == pytest.approx([4.0, 1.0, 1.0], rel=0.15)


def test_figures_of_a_record_leave_out_each_group():
    ratings, groups = ragged(2)
    record = agreement_record(ratings, groups, FIVE)
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
        (np.array([[1.0, 2.5], [3.0, 2.0], [4.0, 4.0]]), "between the categories"),
        (np.array([[3.0, 4.0]]), "there is one group"),
    ],
)
def test_reasons(ratings, reason):
    record = agreement_record(ratings, np.arange(len(ratings)), FIVE)
    assert reason in record["agreement_reason"]
    assert record["alpha_interval"] is None or record["ac2"] is None


def test_what_cannot_be_separated_is_unknown():
    ratings = np.full((6, 12), NAN)  # each text has two raters of its own
    ratings[np.arange(6), np.arange(6)] = 1.0
    ratings[np.arange(6), np.arange(6) + 6] = np.arange(6.0)
    record = agreement_record(ratings, np.arange(6))
    assert record["icc_single"] is None
    assert record["alpha_interval"] is not None
    assert "too few raters share texts" in record["agreement_reason"]
    assert "No AC2: the scale is no list of categories" in record["agreement_reason"]


def test_categories_are_whole_numbers_of_the_scale():
    assert agreement.categories_of(np.array([[1.0, NAN]]), (0, 2)).tolist() == [0, 1, 2]
    for ratings, scale in (([1.5], (0, 2)), ([7.0], (1, 5)), ([1.0], (0, 1000)), ([1.0], (0.5, 4))):
        assert agreement.categories_of(np.array([ratings]), scale) is None


def test_disattenuation_finds_the_correlation_without_errors():
    """Spearman's own formula: what errors of raters hide comes back, in the mean of many data sets."""
    rng, numbers = np.random.default_rng(1), []
    for _ in range(60):
        truth = rng.normal(size=200)
        ratings = truth[:, None] + rng.normal(0, 1.5, (200, 3)) + np.array([-1.0, 0.0, 1.0])
        record = disattenuated_record(truth + rng.normal(0, 0.75, 200), ratings, np.arange(200), resamples=0)
        numbers.append([record["pearson"], record["disattenuated_pearson"], record["reliability"]])
    plain, true, reliability = np.mean(numbers, axis=0)
    assert reliability == pytest.approx(1 / (1 + 1.5**2 / 3), abs=0.03)
    assert true == pytest.approx(0.8, abs=0.02)
    assert plain == pytest.approx(0.8 * reliability**0.5, abs=0.02)


def test_nothing_is_divided_by_no_reliability_and_missing_scores_stay_out():
    opposed = np.stack([np.arange(9.0), 9 - 0.5 * np.arange(9.0)], axis=1)
    record = disattenuated_record(np.arange(9.0), opposed, np.arange(9))
    assert record["disattenuated_pearson"] is None
    assert "not above 0" in record["disattenuated_reason"]
    ratings, groups = ragged(5)
    scores = np.where(np.arange(60) % 5 == 0, NAN, np.nan_to_num(ratings).mean(axis=1))
    used = np.isfinite(scores) & ~np.isnan(ratings).all(axis=1)
    expected = pearson(scores[used], np.nanmean(ratings[used], axis=1))
    assert disattenuated_record(scores, ratings, groups, resamples=0)["pearson"] == pytest.approx(expected)


def test_summevals_experts():
    """alpha by krippendorff, AC2 by irrCAC, ICC(A,1), ICC(A,k) and ICC(C,k) by pingouin, to the digits shown."""
    expected = {
        "coherence": [0.545, 0.538, 0.695, 0.635, 0.559, 0.792, 0.829],
        "consistency": [0.888, 0.778, 0.986, 0.981, 0.889, 0.960, 0.961],
        "fluency": [0.690, 0.566, 0.968, 0.959, 0.691, 0.870, 0.875],
        "relevance": [0.417, 0.361, 0.800, 0.744, 0.435, 0.698, 0.735],
    }
    for dimension in DIMENSIONS:
        ratings, groups, _ = panel(dimension)
        record = agreement_record(ratings, groups, FIVE)
        assert [round(record[name], 3) for name in FIGURES] == expected[dimension]
        assert all(record[f"{name}_low"] < record[name] < record[f"{name}_high"] for name in FIGURES)
