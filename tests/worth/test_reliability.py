"""Agreement among humans equals krippendorff, irrCAC and pingouin, and in every resample what the built one gives."""

import numpy as np
import pytest

from judgebench.metrics.correlation import krippendorff_alpha, pearson
from judgebench.metrics.resampling import group_weights, weights_of
from judgebench.worth.reliability import (
    FIGURES,
    ac2,
    agreement_record,
    agreement_weights,
    alphas,
    categories_of,
    disattenuated,
    disattenuated_record,
    variance_components,
)
from tests.worth.panels import FIVE, built, panel, ragged
from tests.worth.recorded import DIMENSIONS

NAN = np.nan
ONE = np.ones((1, 12))


def of_built(figure, ratings, group, weights):
    """The figure of each resample, built in full and counted once."""
    rows = [built(group, row) for row in weights]
    return [figure(ratings[row], np.zeros(len(row), dtype=int), np.ones((1, 1)))[0] for row in rows]


FIGURES_BY_NAME = {
    "interval": alphas,
    "ordinal": lambda *of: alphas(*of, metric="ordinal"),
    "ac2": lambda *of: ac2(*of, FIVE),
    "ac2 ordinal": lambda *of: ac2(*of, FIVE, "ordinal"),
    "icc single": lambda *of: variance_components(*of).single,
    "icc mean": lambda *of: variance_components(*of).mean,
    "reliability": lambda *of: variance_components(*of).reliability,
}


@pytest.mark.parametrize("name", FIGURES_BY_NAME)
def test_resamples_are_as_if_built(name):
    ratings, group = ragged(3)
    weights = group_weights(12, 25, 7)
    figure = FIGURES_BY_NAME[name]
    assert figure(ratings, group, weights) == pytest.approx(of_built(figure, ratings, group, weights), abs=1e-10)


@pytest.mark.parametrize("metric", ["interval", "ordinal"])
@pytest.mark.parametrize("seed", range(3))
def test_alphas_are_krippendorffs(metric, seed):
    ratings, group = ragged(seed)
    found = alphas(ratings, group, ONE, metric)[0]
    assert found == pytest.approx(krippendorff_alpha(ratings, metric), abs=1e-12)
    library = pytest.importorskip("krippendorff", reason="the library krippendorff is not installed")
    assert found == pytest.approx(library.alpha(ratings.T, level_of_measurement=metric), abs=1e-12)


@pytest.mark.parametrize("kind", ["quadratic", "ordinal", "identity"])
@pytest.mark.parametrize("seed", range(3))
def test_ac2_is_that_of_irrcac(kind, seed):
    pytest.importorskip("irrCAC", reason="the library irrCAC is not installed")
    import pandas as pd
    from irrCAC.raw import CAC

    ratings, group = ragged(seed)
    theirs = CAC(pd.DataFrame(ratings), weights=kind, categories=FIVE.tolist()).gwet()["est"]["coefficient_value"]
    assert ac2(ratings, group, ONE, FIVE, kind)[0] == pytest.approx(theirs, abs=1e-5)  # they round to five places


def test_ac2_by_hand():
    # two texts, categories 1 to 3: (1, 1) and (1, 3). Quadratic: pa = (1 + 0) / 2; shares 3/4, 0, 1/4
    ratings = np.array([[1.0, 1.0], [1.0, 3.0]])
    chance = (3 + 2 * (0.75 + 0 + 0.75)) / (3 * 2) * (0.75 * 0.25 + 0.25 * 0.75)
    found = ac2(ratings, np.array([0, 1]), np.ones((1, 2)), np.arange(1.0, 4.0))[0]
    assert found == pytest.approx((0.5 - chance) / (1 - chance), abs=1e-12)


def test_weights_by_hand():
    assert agreement_weights(np.arange(3.0), "ordinal").tolist() == pytest.approx(
        np.array([[1, 2 / 3, 0], [2 / 3, 1, 2 / 3], [0, 2 / 3, 1]])
    )
    assert agreement_weights(np.array([0.0, 1.0, 4.0]))[1].tolist() == pytest.approx([15 / 16, 1, 7 / 16])
    with pytest.raises(ValueError, match="quadratic, ordinal or identity"):
        agreement_weights(FIVE, "linear")
    with pytest.raises(ValueError, match="two categories"):
        agreement_weights(np.array([1.0]))


@pytest.mark.parametrize("seed", range(3))
def test_intraclass_correlations_are_pingouins(seed):
    pytest.importorskip("pingouin", reason="the library pingouin is not installed")
    import pandas as pd
    import pingouin

    ratings, group = ragged(seed, share=1.1)
    long = pd.DataFrame(ratings).reset_index().melt("index")
    theirs = pingouin.intraclass_corr(long, targets="index", raters="variable", ratings="value")["ICC"].tolist()
    ours = variance_components(ratings, group, ONE)
    found = [ours.single[0], ours.mean[0], ours.reliability[0]]
    assert found == pytest.approx([theirs[1], theirs[4], theirs[5]], abs=1e-10)  # ICC(A,1), ICC(A,k), ICC(C,k)


def test_complete_ratings_have_the_variances_of_shrout_and_fleiss():
    """Their table 2: six targets, four judges; ICC(2,1) = .29 and ICC(2,4) = .62, ICC(3,4) = .91."""
    ratings = np.array(
        [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=np.float64
    )
    found = variance_components(ratings, np.arange(6), np.ones((1, 6)))
    assert [round(float(part[0]), 2) for part in (found.single, found.mean, found.reliability)] == [0.29, 0.62, 0.91]


@pytest.mark.parametrize("seed", range(3))
def test_ragged_components_solve_their_expectations(seed):
    """E[y'Qy] = tr(Q V) for the four sums of squares, with all matrices written out."""
    ratings, group = ragged(seed, texts=20)
    rows, columns = np.nonzero(~np.isnan(ratings))
    y, n = ratings[rows, columns], len(rows)
    text, rater = (np.eye(size)[index] for size, index in ((20, rows), (4, columns)))
    projections = [z @ np.linalg.pinv(z.T @ z) @ z.T for z in (text, rater, np.ones((n, 1)))]
    of_text, of_rater, of_mean = projections
    forms = [of_text - of_mean, of_rater - of_mean, np.eye(n) - of_text - of_rater + of_mean]
    parts = [text @ text.T, rater @ rater.T, np.eye(n)]
    expected = np.linalg.solve([[np.trace(q @ v) for v in parts] for q in forms], [y @ q @ y for q in forms])
    found = variance_components(ratings, group, ONE)
    assert [found.text[0], found.rater[0], found.rest[0]] == pytest.approx(expected, abs=1e-10)
    sizes = (~np.isnan(ratings)).sum(axis=1)
    used = sizes > 0
    assert found.raters[0] == pytest.approx(1 / np.mean(1 / sizes[used]))
    means = (~np.isnan(ratings))[used] / sizes[used, None]
    assert found.unshared[0] == pytest.approx(np.var(means, axis=0, ddof=1).sum(), abs=1e-12)


def test_ragged_components_find_the_truth():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(40):
        ratings = 2 * rng.normal(size=(100, 1)) + rng.normal(size=12) + rng.normal(size=(100, 12))
        ratings[rng.random(ratings.shape) > 0.3] = NAN
        found.append([part[0] for part in variance_components(ratings, np.arange(100), np.ones((1, 100)))[:3]])
    assert np.mean(found, axis=0) == pytest.approx([4.0, 1.0, 1.0], rel=0.15)


def test_what_cannot_be_told_apart_is_unknown():
    own = np.full((6, 12), NAN)  # each text has two raters of its own
    own[np.arange(6), np.arange(6)] = 1.0
    own[np.arange(6), np.arange(6) + 6] = np.arange(6.0)
    assert np.isnan(variance_components(own, np.arange(6), np.ones((1, 6))).single[0])
    record = agreement_record(own, np.arange(6))
    assert record["icc_single"] is None
    assert "too few raters share texts" in record["reason"]
    assert record["alpha_interval"] is not None
    assert "No AC2: the scale is no list of categories" in record["reason"]


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        (np.full((9, 2), 4.0), "all ratings are equal"),
        (np.array([[1.0, NAN], [NAN, 2.0]]), "no text has the ratings of two people"),
        (np.array([[1.0, 2.5], [3.0, 2.0], [4.0, 4.0]]), "between the categories"),
    ],
)
def test_reasons(ratings, reason):
    record = agreement_record(ratings, np.arange(len(ratings)), FIVE)
    assert reason in record["reason"]
    assert record["alpha_interval"] is None or record["ac2"] is None


def test_one_group_has_figures_and_no_intervals():
    ratings, _ = ragged(1)
    record = agreement_record(ratings, np.zeros(60), FIVE)
    assert record["ac2"] is not None
    assert record["ac2_low"] is None
    assert "one group" in record["reason"]


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="do not fit"):
        agreement_record(np.ones((3, 2)), np.arange(2))
    with pytest.raises(ValueError, match="between the categories"):
        ac2(np.array([[1.5, 2.0]]), np.array([0]), np.ones((1, 1)), FIVE)


def test_categories_are_whole_numbers_of_the_scale():
    assert categories_of(np.array([[1.0, NAN]]), (0, 2)).tolist() == [0, 1, 2]
    assert categories_of(np.array([[1.5]]), (0, 2)) is None
    assert categories_of(np.array([[7.0]]), (1, 5)) is None
    assert categories_of(np.array([[1.0]]), (0, 1000)) is None
    assert categories_of(np.array([[1.0]]), (0.5, 4)) is None


def test_disattenuation_finds_the_correlation_without_errors():
    """Spearman's own formula: what errors of raters hide comes back, in the mean of many data sets."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(60):
        truth = rng.normal(size=200)
        ratings = truth[:, None] + rng.normal(0, 1.5, (200, 3)) + np.array([-1.0, 0.0, 1.0])
        record = disattenuated_record(truth + rng.normal(0, 0.75, 200), ratings, np.arange(200), resamples=0)
        found.append([record["pearson"], record["disattenuated_pearson"], record["reliability"]])
    plain, disattenuated_, reliability = np.mean(found, axis=0)
    assert reliability == pytest.approx(1 / (1 + 1.5**2 / 3), abs=0.03)
    assert disattenuated_ == pytest.approx(0.8, abs=0.02)
    assert plain == pytest.approx(0.8 * reliability**0.5, abs=0.02)


def test_nothing_is_divided_by_no_reliability():
    assert np.isnan(disattenuated(np.array([0.5, 0.5]), np.array([0.0, -0.2]))).all()
    assert disattenuated(np.array([0.6]), np.array([0.25])).tolist() == pytest.approx([1.2])  # may exceed 1
    opposed = np.stack([np.arange(9.0), 9 - 0.5 * np.arange(9.0)], axis=1)
    record = disattenuated_record(np.arange(9.0), opposed, np.arange(9))
    assert record["disattenuated_pearson"] is None
    assert "not above 0" in record["reason"]


def test_scores_that_are_missing_stay_out():
    ratings, groups = ragged(5)
    scores = np.where(np.arange(60) % 5 == 0, NAN, np.nan_to_num(ratings).mean(axis=1))
    record = disattenuated_record(scores, ratings, groups, resamples=0)
    used = np.isfinite(scores) & ~np.isnan(ratings).all(axis=1)
    assert record["texts"] == used.sum()
    assert record["pearson"] == pytest.approx(pearson(scores[used], np.nanmean(ratings[used], axis=1)))


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


def test_the_first_row_is_the_data():
    ratings, group = ragged(2)
    assert alphas(ratings, group, weights_of(12, 5, 0))[0] == alphas(ratings, group, ONE)[0]
