"""Intervals, the paired permutation test and the groups that it takes, by hand, by scipy and by simulation."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.clusters import FEWEST, SIGNIFICANCE
from judgebench.stats.levels import LEVELS
from judgebench.stats.significance import flipped_differences, flips, groups_needed, holm, permutation_p_value
from tests.stats.test_levels import correlate

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "tasks" / "recorded_judges_summeval.json"


def small_data(groups=8, size=3, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.integers(3, 16, groups * size) / 3
    first = np.clip(np.round(human + rng.normal(size=len(human)) / 2), 1, 5)
    second = np.clip(np.round(human + rng.normal(size=len(human)) * 2), 1, 5)
    return first, second, human, np.repeat(np.arange(groups), size), np.tile(np.arange(size), groups)


def apart(level, first, second, human, group, system, resamples=2):
    """Values [3, 1 + B], and with each group left out [3, J], of the difference."""
    sides = [correlate(level, side, human, group, system, resamples, jackknife=True) for side in (first, second)]
    return sides[0].values - sides[1].values, sides[0].jackknife - sides[1].jackknife


def flipped_apart(difference, flipped):
    return flipped_differences(difference[0][:, 0], difference[1], flipped)


@pytest.mark.parametrize("level", LEVELS)
def test_all_flips_give_scipys_exact_p(level):
    first, second, human, group, system = small_data()
    difference = apart(level, first, second, human, group, system)
    every = np.stack([np.delete(np.arange(8), g) for g in range(8)])
    flipped, exact = flips(8, 1000, 0)
    permuted = flipped_apart(difference, flipped)
    for which in range(3):
        left_out = []
        for kept in every:
            rows = np.isin(group, kept)
            part = [column[rows] for column in (human, group, system)]
            one, other = (correlate(level, side[rows], *part, resamples=0).values[:, 0] for side in (first, second))
            left_out.append(one[which] - other[which])
        shares = difference[0][which, 0] + 7 * (np.mean(left_out) - np.array(left_out))
        theirs = stats.permutation_test(
            (shares, -shares),
            lambda x, y, axis: (x - y).mean(axis=axis) / 2,
            permutation_type="samples",
            n_resamples=1000,
        )
        assert exact
        assert permuted[which] == pytest.approx(theirs.null_distribution, abs=1e-9) or sorted(
            permuted[which]
        ) == pytest.approx(sorted(theirs.null_distribution), abs=1e-9)
        assert permutation_p_value(difference[0][which, 0], permuted[which], exact) == pytest.approx(theirs.pvalue)


def test_within_documents_a_flip_is_a_swap_of_the_scores_themselves():
    first, second, human, group, system = small_data()
    swapped = np.array([[0, 1, 0, 0, 1, 1, 0, 1]])
    permuted = flipped_apart(apart("document", first, second, human, group, system), swapped)
    here = swapped[0][group] == 1
    some, rest = np.where(here, second, first), np.where(here, first, second)
    assert permuted[:, 0] == pytest.approx(apart("document", some, rest, human, group, system)[0][:, 0], abs=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_judges_that_differ_in_location_and_spread_alone_are_the_same(level):
    first, _, human, group, system = small_data()
    flipped, exact = flips(8, 1000, 0)
    permuted = flipped_apart(apart(level, first, 0.3 * first + 0.1, human, group, system), flipped)
    assert permuted == pytest.approx(np.zeros((3, 256)), abs=1e-9)
    assert permutation_p_value(0.0, permuted[0], exact) == 1.0


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded judges are not there")
def test_recorded_judges_are_told_apart_as_their_bootstrap_says():
    """Of gpt-4o's and gpt-4o-mini's scores half tie differently: the bootstrap's z is 2.4, where swapping standardized
    scores gave p = .14."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    sides = [recorded["judges"][name] for name in ("gpt-4o", "gpt-4o-mini")]
    raters = list(recorded["experts"].values())
    keys = [key for key in raters[0] if key.endswith("__coherence") and all(key in one for one in (*raters, *sides))]
    human = np.array([np.mean([one[key] for one in raters]) for key in keys])
    group, system = ([key.split("__")[k] for key in keys] for k in (0, 1))
    difference = apart(
        "dataset", *(np.array([float(one[key]) for key in keys]) for one in sides), human, group, system, 1000
    )
    permuted = flipped_apart(difference, flips(60, 1000, 0)[0])
    errors = difference[0][:, 1:].std(axis=1, ddof=1)
    for value, error, null in zip(difference[0][:, 0], errors, permuted, strict=True):
        assert null.std() == pytest.approx(np.hypot(value / 60**0.5, error), rel=0.1)
        assert permutation_p_value(value, null, exact=False) == pytest.approx(
            2 * stats.norm.sf(abs(value) / error), abs=0.02
        )


def test_flips():
    every, exact = flips(3, 8, 0)
    assert exact
    assert sorted(map(tuple, every.tolist())) == [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    some, exact = flips(100, 500, 0)
    assert (some.shape, exact) == ((500, 100), False)
    assert some.mean() == pytest.approx(0.5, abs=0.02)
    assert (some == flips(100, 500, 0)[0]).all()
    assert (some != flips(100, 500, 1)[0]).any()


def test_p_by_hand():
    permuted = np.array([0.1, -0.3, 0.3, 0.0, 0.2])
    assert permutation_p_value(0.3, permuted, exact=True) == 2 / 5
    assert permutation_p_value(-0.3, permuted, exact=False) == 3 / 6
    assert permutation_p_value(0.5, permuted, exact=False) == 1 / 6  # never 0


@pytest.mark.exhaustive
def test_under_the_null_p_is_uniform_enough():
    """Two judges with noise of one law: p is below 0.1 in about a tenth of the data sets."""
    low = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        human = rng.integers(3, 16, 60) / 3
        first, second = (np.clip(np.round(human + rng.normal(size=60)), 1, 5) for _ in range(2))
        group, system = np.repeat(np.arange(20), 3), np.tile(np.arange(3), 20)
        difference = apart("dataset", first, second, human, group, system)
        flipped, exact = flips(20, 99, seed)
        low += permutation_p_value(difference[0][1, 0], flipped_apart(difference, flipped)[1], exact) <= 0.1
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


def test_groups_needed_by_hand():
    # one group's spread: 0.1 * 10 / 3; 1.960 + 0.842 = 2.8016 of them over the root of the groups must be 0.1
    assert groups_needed(0.1, 0.1, 10) == np.ceil((2.8015852 * (1 / 3) / 0.1) ** 2) == 88
    assert groups_needed(-0.1, 0.1, 10) == 88
    assert groups_needed(0.2, 0.1, 10) == 22
    assert groups_needed(0.0, 0.1, 10) is None
    assert groups_needed(0.5, 0.0, 10) == FEWEST == 6


def test_fewer_groups_than_the_fewest_never_tell_a_difference():
    human = np.tile(np.arange(12.0), FEWEST)
    group = np.repeat(np.arange(FEWEST), 12)
    for groups, told in ((FEWEST - 1, False), (FEWEST, True)):
        held = group < groups
        # the clearest difference there is: one judge is always right, the other always wrong
        flipped, exact = flips(groups, 1000, 0)
        right, system = human[held], np.tile(np.arange(12), groups)
        found = flipped_apart(apart("dataset", right, -right, right, group[held], system), flipped)
        assert exact
        assert (permutation_p_value(2.0, found[1], exact) <= SIGNIFICANCE) == told


def judged(groups, rng):
    """Humans, and two judges of whom the first has less noise, part of it the article's own."""
    human = rng.integers(3, 16, groups * 8) / 3
    article = np.repeat(rng.normal(size=groups), 8)
    scores = [np.clip(np.round(human + 0.6 * article + s * rng.normal(size=len(human))), 1, 5) for s in (1.0, 1.35)]
    return (*scores, human, np.repeat(np.arange(groups), 8), np.tile(np.arange(8), groups))


@pytest.mark.exhaustive
def test_with_so_many_groups_a_difference_is_found_in_four_of_five_data_sets():
    rng = np.random.default_rng(0)

    def gap(groups, resamples):
        first, second, *rest = judged(groups, rng)
        one, other = (correlate("dataset", x, *rest, resamples=resamples).values[1] for x in (first, second))
        return one - other

    truth = gap(20_000, 0)[0]
    needed = [groups_needed(truth, gap(60, 300)[1:].std(ddof=1), 60) for _ in range(50)]
    groups = int(np.median(needed))
    found = 0
    for _ in range(400):
        low, high = np.quantile(gap(groups, 300)[1:], (0.025, 0.975))
        found += not low <= 0 <= high
    assert found / 400 == pytest.approx(0.8, abs=0.09)
