"""The paired permutation test against scipy's and against the bootstrap, and Holm's correction by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.metrics.levels import LEVELS, correlate
from judgebench.metrics.resampling import flipped_differences, flips, holm, permutation_p_value

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "tasks" / "recorded_judges_summeval.json"


def data(groups=8, size=3, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.integers(3, 16, groups * size) / 3
    first = np.clip(np.round(human + rng.normal(size=len(human)) / 2), 1, 5)
    second = np.clip(np.round(human + rng.normal(size=len(human)) * 2), 1, 5)
    return first, second, human, np.repeat(np.arange(groups), size), np.tile(np.arange(size), groups)


def apart(level, first, second, human, group, system, resamples=2):
    one, other = (correlate(level, side, human, group, system, resamples=resamples) for side in (first, second))
    return one.minus(other)


@pytest.mark.parametrize("level", LEVELS)
def test_all_flips_give_scipys_exact_p(level):
    first, second, human, group, system = data()
    difference = apart(level, first, second, human, group, system)
    every = np.stack([np.delete(np.arange(8), g) for g in range(8)])
    flipped, exact = flips(8, 1000, 0)
    permuted = flipped_differences(difference, flipped)
    for which in range(3):
        left_out = []
        for kept in every:
            rows = np.isin(group, kept)
            part = [column[rows] for column in (human, group, system)]
            one, other = (correlate(level, side[rows], *part, resamples=0).values for side in (first, second))
            left_out.append(one[which] - other[which])
        shares = difference.values[which] + 7 * (np.mean(left_out) - np.array(left_out))
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
        assert permutation_p_value(difference.values[which], permuted[which], exact) == pytest.approx(theirs.pvalue)


def test_within_documents_a_flip_is_a_swap_of_the_scores_themselves():
    first, second, human, group, system = data()
    swapped = np.array([[0, 1, 0, 0, 1, 1, 0, 1]])
    permuted = flipped_differences(apart("document", first, second, human, group, system), swapped)
    here = swapped[0][group] == 1
    some, rest = np.where(here, second, first), np.where(here, first, second)
    assert permuted[:, 0] == pytest.approx(apart("document", some, rest, human, group, system).values, abs=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_no_flip_is_the_difference_itself_and_all_flips_its_opposite(level):
    difference = apart(level, *data())
    permuted = flipped_differences(difference, np.stack([np.zeros(8, dtype=int), np.ones(8, dtype=int)]))
    assert permuted[:, 0] == pytest.approx(difference.values, abs=1e-12)
    assert permuted[:, 1] == pytest.approx(-difference.values, abs=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_judges_that_differ_in_location_and_spread_alone_are_the_same(level):
    first, _, human, group, system = data()
    flipped, exact = flips(8, 1000, 0)
    permuted = flipped_differences(apart(level, first, 0.3 * first + 0.1, human, group, system), flipped)
    assert permuted == pytest.approx(np.zeros((3, 256)), abs=1e-9)
    assert permutation_p_value(0.0, permuted[0], exact) == 1.0


def test_drawn_flips_are_about_the_exact_ones():
    difference = apart("dataset", *data(12, 3, seed=5))
    found = []
    for permutations in (4096, 4095):
        flipped, exact = flips(12, permutations, 3)
        found.append(
            (permutation_p_value(difference.values[1], flipped_differences(difference, flipped)[1], exact), exact)
        )
    assert [exact for _, exact in found] == [True, False]
    assert found[0][0] == pytest.approx(found[1][0], abs=0.02)


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
    permuted = flipped_differences(difference, flips(60, 1000, 0)[0])
    for value, error, null in zip(difference.values, difference.standard_errors(), permuted, strict=True):
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


def test_p_is_fine_enough_for_holm_over_a_page_of_comparisons():
    flipped, exact = flips(60)
    permuted = flipped_differences(apart("dataset", *data(60, 3)), flipped)[1]
    found = np.full(500, permutation_p_value(permuted.max() + 1, permuted, exact))
    assert holm(found).max() <= 0.05


def test_p_by_hand():
    permuted = np.array([0.1, -0.3, 0.3, 0.0, 0.2])
    assert permutation_p_value(0.3, permuted, exact=True) == 2 / 5
    assert permutation_p_value(-0.3, permuted, exact=False) == 3 / 6
    assert permutation_p_value(0.5, permuted, exact=False) == 1 / 6  # never 0


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
        low += permutation_p_value(difference.values[1], flipped_differences(difference, flipped)[1], exact) <= 0.1
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
