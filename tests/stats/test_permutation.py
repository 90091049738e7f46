"""Permutation tests of differences against scipy's, by hand, and corrected for several."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.clusters import FEWEST
from judgebench.stats.correlation import LEVELS
from judgebench.stats.permutation import (
    flipped_differences,
    flips,
    groups_needed,
    holm,
    paired_p_values,
    permutation_p_value,
)
from tests.studies.test_levels import correlate


def small_data(groups=8, size=3, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.integers(3, 16, groups * size) / 3
    first, second = (np.clip(np.round(human + rng.normal(size=len(human)) * s), 1, 5) for s in (0.5, 2))
    return first, second, human, np.repeat(np.arange(groups), size), np.tile(np.arange(size), groups)


def apart(level, first, second, human, group, system):
    """Values [3], and with each group left out [3, J], of the difference."""
    sides = [correlate(level, side, human, group, system, 2) for side in (first, second)]
    return sides[0].values[:, 0] - sides[1].values[:, 0], sides[0].jackknife - sides[1].jackknife


@pytest.mark.parametrize("level", LEVELS)
def test_all_flips_give_scipys_exact_p(level):
    values, left = apart(level, *small_data())
    flipped, exact = flips(8, 1000, 0)
    for value, without, permuted in zip(values, left, flipped_differences(values, left, flipped), strict=True):
        shares = value + 7 * (without.mean() - without)
        theirs = stats.permutation_test(
            (shares, -shares),
            lambda x, y, axis: (x - y).mean(axis=axis) / 2,
            permutation_type="samples",
            n_resamples=1000,
        )
        assert exact
        assert sorted(permuted) == pytest.approx(sorted(theirs.null_distribution), abs=1e-9)
        assert permutation_p_value(value, permuted, exact) == pytest.approx(theirs.pvalue)
    pairs = zip(values, flipped_differences(values, left, flipped), strict=True)
    assert paired_p_values(values, left) == [permutation_p_value(*pair, exact) for pair in pairs]


def test_within_documents_a_flip_is_a_swap_of_the_scores_themselves():
    first, second, *rest = small_data()
    swapped = np.array([[0, 1, 0, 0, 1, 1, 0, 1]])
    permuted = flipped_differences(*apart("document", first, second, *rest), swapped)
    here = swapped[0][rest[1]] == 1
    sides = np.where(here, second, first), np.where(here, first, second)
    assert permuted[:, 0] == pytest.approx(apart("document", *sides, *rest)[0], abs=1e-12)


def test_flips_and_p_by_hand():
    every, exact = flips(3, 8, 0)
    assert exact
    assert sorted(map(tuple, every.tolist())) == [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    some, exact = flips(100, 500, 0)
    assert (some.shape, exact) == ((500, 100), False)
    assert some.mean() == pytest.approx(0.5, abs=0.02)
    assert (some != flips(100, 500, 1)[0]).any()
    permuted = np.array([0.1, -0.3, 0.3, 0.0, 0.2])
    assert permutation_p_value(0.3, permuted, exact=True) == 2 / 5
    assert permutation_p_value(-0.3, permuted, exact=False) == 3 / 6
    assert permutation_p_value(0.5, permuted, exact=False) == 1 / 6  # never 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_p_and_bonferronis_and_keeps_their_order(values):
    p = np.array(values)
    corrected, order = holm(p), np.argsort(values, kind="stable")
    assert (corrected >= p).all()
    assert (corrected <= np.minimum(1, len(p) * p) + 1e-15).all()
    assert (np.diff(corrected[order]) >= 0).all()
    # Holm rejects step by step: the k-th smallest as long as all up to it are at most 0.05 / (m - k + 1)
    steps = p[order] <= 0.05 / np.arange(len(p), 0, -1)
    assert (corrected[order] <= 0.05).sum() == pytest.approx(np.minimum.accumulate(steps).sum(), abs=1)


def test_groups_needed_by_hand():
    # one group's spread: 0.1 * 10 / 3; 1.960 + 0.842 = 2.8016 of them over the root of the groups must be 0.1
    assert groups_needed(0.1, 0.1, 10) == np.ceil((2.8015852 * (1 / 3) / 0.1) ** 2) == groups_needed(-0.1, 0.1, 10)
    assert groups_needed(0.0, 0.1, 10) is None
    assert groups_needed(0.5, 0.0, 10) == FEWEST == 6
