"""The paired permutation test against scipy's, and Holm's correction by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.metrics import correlate, holm
from judgebench.metrics.permutation import p_value, swapped_differences, swaps

CORRELATIONS = (stats.pearsonr, stats.spearmanr, stats.kendalltau)


def data(groups=8, size=3, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.integers(3, 16, groups * size) / 3
    first = np.clip(np.round(human + rng.normal(size=len(human)) / 2), 1, 5)
    second = np.clip(np.round(human + rng.normal(size=len(human)) * 2), 1, 5)
    return first, second, human, np.repeat(np.arange(groups), size), np.tile(np.arange(size), groups)


def standard(values):
    return (values - values.mean()) / values.std()


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("size", [1, 3])
def test_all_swaps_give_scipys_exact_p(which, size):
    first, second, human, group, system = data(8, size)
    both = np.concatenate([standard(first), standard(second)]).round(9)
    rows = np.arange(len(both)).reshape(-1, size)  # of each judge's groups, one judge's after the other's

    def statistic(one, other):
        r, s = (CORRELATIONS[which](both[rows[drawn].ravel()], human).statistic for drawn in (one, other))
        return r - s

    theirs = stats.permutation_test(
        (np.arange(8), 8 + np.arange(8)), statistic, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    swapped, exact = swaps(8, 1000, 0)
    permuted = swapped_differences("dataset", first, second, human, group, system, swapped)[which]
    assert exact
    assert sorted(permuted) == pytest.approx(sorted(theirs.null_distribution), abs=1e-9)
    assert p_value(theirs.statistic, permuted, exact) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("level", ["dataset", "document", "system"])
def test_no_swap_is_the_difference_itself_and_all_swaps_its_opposite(level):
    first, second, human, group, system = data()
    swapped = np.stack([np.zeros(8, dtype=int), np.ones(8, dtype=int), np.arange(8) % 2])
    permuted = swapped_differences(level, first, second, human, group, system, swapped)
    one, other = (correlate(level, x, human, group, system, resamples=0).values for x in (first, second))
    assert permuted[:, 0] == pytest.approx(one - other, abs=1e-10)
    assert permuted[:, 1] == pytest.approx(other - one, abs=1e-10)
    some = np.where(group % 2 == 1, standard(second), standard(first)).round(12)
    rest = np.where(group % 2 == 1, standard(first), standard(second)).round(12)
    one, other = (correlate(level, x, human, group, system, resamples=0).values for x in (some, rest))
    assert permuted[:, 2] == pytest.approx(one - other, abs=1e-10)


@pytest.mark.parametrize("level", ["dataset", "document", "system"])
def test_judges_that_differ_in_location_and_spread_alone_are_the_same(level):
    first, _, human, group, system = data()
    swapped, exact = swaps(8, 1000, 0)
    permuted = swapped_differences(level, first, 0.3 * first + 0.1, human, group, system, swapped)
    assert permuted == pytest.approx(np.zeros((3, 256)), abs=1e-12)
    assert p_value(0.0, permuted[0], exact) == 1.0


def test_drawn_swaps_are_about_the_exact_ones():
    first, second, human, group, system = data(12, 3, seed=5)
    found = []
    for permutations in (4096, 4095):
        swapped, exact = swaps(12, permutations, 3)
        permuted = swapped_differences("dataset", first, second, human, group, system, swapped)[1]
        one, other = (correlate("dataset", x, human, group, system, resamples=0).values[1] for x in (first, second))
        found.append((p_value(one - other, permuted, exact), exact))
    assert [exact for _, exact in found] == [True, False]
    assert found[0][0] == pytest.approx(found[1][0], abs=0.02)


def test_swaps():
    every, exact = swaps(3, 8, 0)
    assert exact
    assert sorted(map(tuple, every.tolist())) == [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    some, exact = swaps(100, 500, 0)
    assert (some.shape, exact) == ((500, 100), False)
    assert some.mean() == pytest.approx(0.5, abs=0.02)
    assert (some == swaps(100, 500, 0)[0]).all()
    assert (some != swaps(100, 500, 1)[0]).any()


def test_p_by_hand():
    permuted = np.array([0.1, -0.3, 0.3, 0.0, 0.2])
    assert p_value(0.3, permuted, exact=True) == 2 / 5
    assert p_value(-0.3, permuted, exact=False) == 3 / 6
    assert p_value(0.5, permuted, exact=False) == 1 / 6  # never 0


def test_under_the_null_p_is_uniform_enough():
    """Two judges with noise of one law: p is below 0.1 in about a tenth of the data sets."""
    low = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        human = rng.integers(3, 16, 60) / 3
        first, second = (np.clip(np.round(human + rng.normal(size=60)), 1, 5) for _ in range(2))
        group, system = np.repeat(np.arange(20), 3), np.tile(np.arange(3), 20)
        swapped, exact = swaps(20, 99, seed)
        permuted = swapped_differences("dataset", first, second, human, group, system, swapped)[1]
        one, other = (correlate("dataset", x, human, group, system, resamples=0).values[1] for x in (first, second))
        low += p_value(one - other, permuted, exact) <= 0.1
    assert 0.05 <= low / 300 <= 0.15


def test_holm_by_hand():
    # sorted 0.005 0.01 0.03 0.04: 4 * 0.005, 3 * 0.01, 2 * 0.03, and 0.04 is raised to the one before it
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]
    assert holm(np.array([0.02])).tolist() == [0.02]
    assert holm(np.array([])).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_p_and_bonferronis_and_keeps_their_order(values):
    p = np.array(values)
    corrected = holm(p)
    assert (corrected >= p).all()
    assert (corrected <= np.minimum(1, len(p) * p) + 1e-15).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(corrected[order]) >= 0).all()
    # Holm rejects step by step: the k-th smallest as long as all up to it are at most 0.05 / (m - k + 1)
    steps = p[order] <= 0.05 / np.arange(len(p), 0, -1)
    assert (corrected[order] <= 0.05).sum() == pytest.approx(np.minimum.accumulate(steps).sum(), abs=1)
