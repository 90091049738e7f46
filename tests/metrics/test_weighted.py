"""The bootstrap by weights is the bootstrap by building every resample, to rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from judgebench.metrics.correlation import kendall, pearson, spearman
from judgebench.metrics.resampling import group_weights, left_out, percentile_interval
from judgebench.metrics.weighted import ContingencyTables, DistinctPairs, resampled_correlations

BOTH = (ContingencyTables, DistinctPairs)


def built(judge, human, groups, weights):
    """The same by building each resample's vectors, with scipy underneath (see test_correlation)."""
    columns = []
    for row in weights:
        index = [i for g, times in enumerate(row) for _ in range(times) for i in np.flatnonzero(groups == g)]
        columns.append([f(judge[index], human[index]) for f in (pearson, spearman, kendall)])
    return np.array(columns).T


@st.composite
def samples(draw):
    groups = draw(st.integers(2, 8))
    sizes = draw(st.lists(st.integers(1, 5), min_size=groups, max_size=groups))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = sum(sizes)
    kinds = {
        "two": lambda: rng.integers(0, 2, n).astype(float),
        "five": lambda: rng.integers(1, 6, n).astype(float),
        "thirds": lambda: rng.integers(3, 16, n) / 3,
        "real": lambda: rng.normal(3, 1, n),
        "mostly constant": lambda: np.where(rng.random(n) < 0.9, 0.1, 0.7),
        "far apart": lambda: rng.choice([1.0, 1.0 + 1e-6, 5.0], n),
    }
    judge, human = (kinds[draw(st.sampled_from(sorted(kinds)))]() for _ in range(2))
    order = rng.permutation(n)
    return judge, human, np.repeat(np.arange(groups), sizes)[order], group_weights(groups, 20, int(rng.integers(99)))


@settings(max_examples=150, deadline=None)
@given(samples())
def test_weights_are_as_good_as_building_the_resamples(sample):
    judge, human, groups, weights = sample
    expected = pytest.approx(built(judge, human, groups, weights), abs=1e-12)
    assert resampled_correlations(judge, human, groups, weights) == expected
    for way in BOTH:  # whichever of them was just taken
        assert way(judge, human, groups, weights.shape[1]).correlations(weights) == expected


def test_discrete_scores_take_tables_and_others_do_not():
    rng = np.random.default_rng(0)
    five, real = rng.integers(1, 6, 200).astype(float), rng.normal(size=200)
    assert ContingencyTables.fits(five, rng.integers(3, 16, 200) / 3, 20)
    assert not ContingencyTables.fits(real, five, 20)


@pytest.mark.parametrize("correlation", [stats.pearsonr, stats.spearmanr, stats.kendalltau])
def test_resamples_and_their_correlations_are_those_of_scipys_bootstrap(correlation):
    rng = np.random.default_rng(1)
    rows = np.arange(30 * 16).reshape(30, 16)
    human = rng.integers(3, 16, 480) / 3
    judge = np.clip(np.round(human + rng.normal(size=480)), 1, 5)

    def statistic(drawn):
        index = rows[drawn].ravel()
        return correlation(judge[index], human[index]).statistic

    theirs = stats.bootstrap(
        (np.arange(30),), statistic, n_resamples=50, vectorized=False, method="percentile", rng=np.random.default_rng(3)
    )
    ours = resampled_correlations(judge, human, np.repeat(np.arange(30), 16), group_weights(30, 50, 3))
    row = ours[[stats.pearsonr, stats.spearmanr, stats.kendalltau].index(correlation)]
    assert row == pytest.approx(theirs.bootstrap_distribution, abs=1e-10)


@pytest.mark.parametrize("decimals", [0, 8])
def test_a_real_sized_bootstrap_agrees_to_1e_12(decimals):
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 16)
    human = rng.integers(3, 16, 480) / 3
    judge = np.round(human + rng.normal(size=480), decimals)
    weights = group_weights(30, 40, 3)
    assert resampled_correlations(judge, human, groups, weights) == pytest.approx(
        built(judge, human, groups, weights), abs=1e-12
    )


def test_constant_resamples_are_exactly_zero():
    judge = np.array([0.1, 0.1, 0.1, 0.3, 0.7])
    human = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    groups = np.array([0, 0, 1, 1, 2])
    weights = np.array([[3, 0, 0], [0, 0, 3], [0, 3, 0]])
    for way in BOTH:
        found = way(judge, human, groups, 3).correlations(weights)
        assert (found[:, :2] == 0).all()
        assert found[:, 2] == pytest.approx([1, 1, 1], abs=1e-12)
        assert (way(human, judge, groups, 3).correlations(weights)[:, :2] == 0).all()


def test_the_identity_gives_each_group_its_own():
    rng = np.random.default_rng(0)
    judge, human = rng.integers(1, 6, 60).astype(float), rng.normal(size=60)
    groups = np.arange(60) % 5
    found = resampled_correlations(judge, human, groups, np.eye(5, dtype=int))
    for g in range(5):
        here = groups == g
        assert found[:, g] == pytest.approx([f(judge[here], human[here]) for f in (pearson, spearman, kendall)])


def test_all_weights_one_is_the_data_itself():
    rng = np.random.default_rng(0)
    judge, human, groups = rng.integers(1, 6, 60).astype(float), rng.normal(size=60), np.arange(60) % 7
    found = resampled_correlations(judge, human, groups, np.ones((1, 7), dtype=int))[:, 0]
    assert found == pytest.approx([f(judge, human) for f in (pearson, spearman, kendall)], abs=1e-12)


def test_more_groups_than_distinct_pairs_and_the_other_way_round_are_one():
    """Kendall sums over groups or over distinct pairs, whichever are fewer."""
    rng = np.random.default_rng(2)
    judge, human = rng.integers(1, 3, 40).astype(float), rng.integers(1, 3, 40).astype(float)
    alone = np.arange(40)
    weights = group_weights(40, 30, 0)
    for way in BOTH:
        assert way(judge, human, alone, 40).correlations(weights) == pytest.approx(
            built(judge, human, alone, weights), abs=1e-12
        )


def test_more_resamples_than_one_chunk_are_all_there():
    rng = np.random.default_rng(2)
    judge, human = rng.integers(1, 6, 400).astype(float), rng.integers(3, 16, 400) / 3
    groups, weights = np.arange(400) % 40, group_weights(40, 3000, 0)
    found = [way(judge, human, groups, 40).correlations(weights) for way in BOTH]
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    some = [0, 511, 512, 1700, 2999]
    assert found[0][:, some] == pytest.approx(built(judge, human, groups, weights[some]), abs=1e-12)


def test_group_weights():
    weights = group_weights(9, 500, 4)
    assert weights.shape == (500, 9)
    assert (weights.sum(axis=1) == 9).all()
    assert (weights == group_weights(9, 500, 4)).all()
    assert (weights != group_weights(9, 500, 5)).any()
    assert weights.mean(axis=0) == pytest.approx(np.ones(9), abs=0.2)
    assert weights.var() == pytest.approx(1 - 1 / 9, rel=0.1)  # of a binomial with n = 9, p = 1 / 9


def test_the_jackknife_leaves_out_each_group_or_many_at_a_time():
    assert (left_out(5) == 1 - np.eye(5)).all()
    assert left_out(0).shape == (0, 0)
    many = left_out(2500)
    assert many.shape == (834, 2500)
    assert ((many == 0).sum(axis=0) == 1).all()
    assert set((many == 0).sum(axis=1)) == {3, 1}


def test_interval_by_hand():
    assert percentile_interval(np.arange(1001.0)) == pytest.approx((25.0, 975.0))
    assert percentile_interval(np.empty(0)) is None


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(200):
        judge, human = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 200).T
        low, high = percentile_interval(
            resampled_correlations(judge, human, np.arange(200), group_weights(200, 200, seed))[0]
        )
        covered += low <= 0.5 <= high
    assert 0.88 <= covered / 200 <= 0.99
