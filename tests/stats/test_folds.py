"""Folds that keep groups apart, what others teach about each, and maps between scales."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from judgebench.stats.folds import by_other_folds, cross_fitted, deal_folds
from judgebench.stats.maps import isotonic, rescale, rising_slope

NAN = np.nan


@given(st.integers(2, 12), st.integers(2, 5), st.integers(0, 99), st.data())
def test_groups_are_dealt_whole_and_evenly_and_rated_ones_to_every_fold(groups, folds, seed, data):
    group = np.repeat(np.arange(groups), 3)
    rated = np.isin(group, data.draw(st.sets(st.integers(0, groups - 1), min_size=2)))
    for fold, dealt in ((deal_folds(group, folds, seed), group), (deal_folds(group, folds, seed, rated), group[rated])):
        assert len(fold) == len(group)
        assert all(len(set(fold[group == number])) == 1 for number in range(groups))
        there = np.bincount([fold[group == number][0] for number in np.unique(dealt)], minlength=folds)
        assert there.max() - there.min() <= 1


def test_each_fold_is_answered_by_the_others():
    fold, values = np.array([2, 0, 1, 0]), np.array([1.0, 2.0, 4.0, 6.0])
    means = by_other_folds(fold, lambda teaching, asked: values[teaching].mean())
    assert means.tolist() == [4.0, 2.5, 3.0, 2.5]
    both = by_other_folds(fold, lambda teaching, asked: np.stack([values[asked], 0 * values[asked]]))
    assert both.tolist() == [values.tolist(), [0.0] * 4]


scores = st.lists(st.tuples(st.integers(0, 9), st.integers(-20, 20)), min_size=2, max_size=30)


@given(scores)
def test_maps_are_the_libraries(pairs):
    x, y = np.array(pairs, dtype=float).T
    theirs = IsotonicRegression(out_of_bounds="clip").fit(x, y)
    unseen = np.linspace(-1, 10, 40)
    ours = isotonic(x, y)
    assert ours(unseen) == pytest.approx(theirs.predict(unseen), abs=1e-9)
    assert ours.at[[0, -1]].tolist() == [x.min(), x.max()]
    slope = stats.linregress(x, y).slope if np.ptp(x) else 0.0
    assert rising_slope(x, y) == pytest.approx(max(slope, 0.0), abs=1e-9)
    assert rescale(rescale(x, (0, 9), (3, 1)), (3, 1), (0, 9)) == pytest.approx(x)


def test_isotonic_map_is_sklearns_of_other_groups_alone():
    rng = np.random.default_rng(1)
    scores, human = rng.integers(1, 6, 40).astype(float), rng.uniform(1, 5, 40)
    groups = np.where(np.arange(40) < 20, "a", "b")
    fitted = cross_fitted(scores, human, groups, folds=2)
    for name in "ab":
        here = groups == name
        model = IsotonicRegression(out_of_bounds="clip").fit(scores[~here], human[~here])
        assert fitted[here] == pytest.approx(model.predict(scores[here]), abs=1e-10)
        constant = cross_fitted(scores, human, groups, "constant", folds=2)
        assert constant[here] == pytest.approx(human[~here].mean())


def test_calibration_without_enough():
    assert np.isnan(cross_fitted(np.ones(4), np.ones(4), np.zeros(4))).all()
    few = cross_fitted(np.arange(6.0), np.array([1.0, NAN, 2.0, NAN, NAN, NAN]), np.arange(6))
    assert np.isfinite(few).all()  # unrated texts are scored by all that is known
