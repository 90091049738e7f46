"""Precision, recall and F1 of every cut: hand-computed, and as scikit-learn has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_curve, precision_score, recall_score

from judgebench.defenses.detection import f1_of, metrics_at, threshold_curve

VALUES = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40)


def test_a_curve_worked_by_hand():
    """Clean 1, 2, 4; attacked 3, 5, 5, so that each text weighs a third of its kind."""
    curve = threshold_curve(np.array([1.0, 2, 4, 3, 5, 5]), np.array([False, False, False, True, True, True]))
    np.testing.assert_allclose(curve.thresholds, [1, 1.5, 2.5, 3.5, 4.5], atol=1e-9)
    assert curve.thresholds[0] < 1
    np.testing.assert_allclose(curve.precision, [3 / 6, 3 / 5, 3 / 4, 2 / 3, 1])
    np.testing.assert_allclose(curve.recall, [1, 1, 1, 2 / 3, 2 / 3])
    assert curve.best == 2
    assert curve.f1[2] == pytest.approx(6 / 7)


def test_how_many_attacks_there_are_does_not_move_the_cut():
    clean, attacked = np.array([1.0, 2, 3, 9]), np.array([2.5, 8, 8.5, 10])
    kinds = np.array([False] * 4 + [True] * 4)
    once = threshold_curve(np.concatenate([clean, attacked]), kinds)
    thrice = threshold_curve(np.concatenate([clean, attacked, attacked, attacked]), np.append(kinds, [True] * 8))
    for name in ("thresholds", "precision", "recall"):
        np.testing.assert_allclose(getattr(once, name), getattr(thrice, name))


@given(VALUES)
def test_curves_are_scikit_learns(drawn):
    values = np.array([float(value) for value, _ in drawn])
    attacked = np.array([kind for _, kind in drawn])
    if attacked.all() or not attacked.any():
        return
    weights = np.where(attacked, 1 / attacked.sum(), 1 / (~attacked).sum())
    precision, recall, levels = precision_recall_curve(attacked, values, sample_weight=weights)
    curve = threshold_curve(values, attacked)
    np.testing.assert_allclose(curve.precision, precision[:-1])
    np.testing.assert_allclose(curve.recall, recall[:-1])
    assert ((curve.thresholds < levels) & (np.append(-np.inf, levels[:-1]) <= curve.thresholds)).all()
    best = float(curve.thresholds[curve.best])
    for i, threshold in enumerate(curve.thresholds):
        claimed = values > threshold
        weighed = {"sample_weight": weights, "zero_division": 0.0}
        found = metrics_at(float(threshold), values, attacked)
        assert found.precision == pytest.approx(precision_score(attacked, claimed, **weighed))
        assert found.recall == pytest.approx(recall_score(attacked, claimed, **weighed))
        assert found.f1 == pytest.approx(f1_score(attacked, claimed, **weighed)) == pytest.approx(curve.f1[i])
        assert found.false_positive_rate == pytest.approx(claimed[~attacked].mean())
        assert found.f1 <= curve.f1[curve.best] + 1e-12
        # of equals the one that claims least
        assert threshold <= best or found.f1 < curve.f1[curve.best]


def test_a_text_without_a_value_is_never_claimed_but_counts():
    values, attacked = np.array([1.0, np.nan, 2, np.nan]), np.array([False, False, True, True])
    curve = threshold_curve(values, attacked)
    np.testing.assert_allclose(curve.recall, [0.5, 0.5])
    np.testing.assert_allclose(curve.precision, [0.5, 1])
    found = metrics_at(1.5, values, attacked)
    assert (found.n_clean, found.n_attacked, found.recall, found.false_positive_rate) == (2, 2, 0.5, 0)


def test_neighboring_floats_are_told_apart():
    low = 1.0
    high = float(np.nextafter(low, 2))
    curve = threshold_curve(np.array([low, high]), np.array([False, True]))
    assert metrics_at(float(curve.thresholds[curve.best]), np.array([low, high]), np.array([False, True])).f1 == 1


def test_what_cannot_be_said_is_none():
    clean = metrics_at(1.0, np.array([0.0, 2.0]), np.array([False, False]))
    assert (clean.recall, clean.precision, clean.f1, clean.false_positive_rate) == (None, None, None, 0.5)
    nothing = metrics_at(9.0, np.array([0.0, 2.0]), np.array([False, True]))
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, 0, 0)
    assert f1_of(np.array(0.723), np.array(0.875)) == pytest.approx(0.792, abs=5e-4)  # figure 9 of the paper


def test_a_thinned_curve_keeps_its_ends_and_its_best():
    draw = np.random.default_rng(0)
    attacked = draw.random(3000) < 0.5
    curve = threshold_curve(draw.normal(attacked, 1), attacked)
    thin = curve.thinned(200)
    assert len(thin.thresholds) <= 200
    assert {curve.thresholds[i] for i in (0, -1, curve.best)} <= set(thin.thresholds)
    assert thin.f1[thin.best] == curve.f1[curve.best]
    assert curve.thinned(10_000).thresholds.tolist() == curve.thresholds.tolist()
