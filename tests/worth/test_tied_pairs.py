"""Accuracy with ties: plain loops over pairs and thresholds, mt-metrics-eval, and what rounding must not change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgebench.worth.tied_pairs import TiedPairs
from tests.worth.recorded import DIMENSIONS, needs_recorded, recorded


def by_loops(judge, human, group, threshold, weights) -> float:
    found, mass = 0.0, 0.0
    for g, weight in enumerate(weights):
        rows = np.flatnonzero(group == g)
        right = pairs = 0
        for a, i in enumerate(rows):
            for j in rows[a + 1 :]:
                ours = 0 if abs(judge[i] - judge[j]) <= threshold else np.sign(judge[i] - judge[j])
                right += ours == np.sign(human[i] - human[j])
                pairs += 1
        if pairs:
            found += weight * right / pairs
            mass += weight
    return found / mass


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_the_best_threshold_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, 4, 18))
    judge, human = rng.integers(0, 9, 18) / 2, rng.integers(0, 4, 18) + 0.0
    group = np.unique(group, return_inverse=True)[1]
    weights = np.vstack([np.ones(group.max() + 1), rng.integers(0, 3, group.max() + 1) + np.eye(group.max() + 1)[0]])
    paired = np.bincount(group) > 1
    if not (weights[:, paired].sum(axis=1) > 0).all():
        return
    threshold, found = TiedPairs(judge, human, group).best(weights)
    for row, drawn in enumerate(weights):
        every = [by_loops(judge, human, group, each, drawn) for each in np.arange(0, 5, 0.5)]
        assert found[row] == pytest.approx(max(every))
    assert by_loops(judge, human, group, threshold, weights[0]) == pytest.approx(found[0])


@pytest.mark.parametrize("decimals", [0, 6])
def test_mt_metrics_eval_finds_the_same(decimals: int) -> None:
    theirs = pytest.importorskip("mt_metrics_eval.stats", reason="mt-metrics-eval is not installed")
    rng = np.random.default_rng(3)
    human = rng.integers(4, 6, (7, 20)) + 0.0
    judge = np.round(2 * human + rng.normal(size=human.shape), decimals)
    accuracy, threshold, every = theirs.KendallWithTiesOpt(human, judge, num_sys=7, average_by="item", sample_rate=1.0)
    ours, found = TiedPairs(judge.ravel(), human.ravel(), np.tile(np.arange(20), 7)).best(np.ones((1, 20)))
    assert found[0] == pytest.approx(accuracy)
    assert threshold > 0
    same = np.argmin(np.abs(np.array(every.thresholds) - ours))  # several may be the best
    assert every.thresholds[same] == pytest.approx(ours)
    assert every.taus[same] == pytest.approx(accuracy)


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_mt_metrics_eval_finds_the_same_of_recorded_judges(dimension: str) -> None:
    theirs = pytest.importorskip("mt_metrics_eval.stats", reason="mt-metrics-eval is not installed")
    columns = recorded(dimension, "gpt-4o")
    human = columns.raters.sum(axis=1)  # whole numbers: thirds would tie or not by rounding
    packed = [side.reshape(60, 16).T.ravel() for side in (human, columns.judge)]
    accuracy, threshold, _ = theirs.KendallWithTiesOpt(*packed, num_sys=16, average_by="item", sample_rate=1.0)
    group = np.unique(columns.groups, return_inverse=True)[1]
    ours, found = TiedPairs(columns.judge, columns.human, group).best(np.ones((1, 60)))
    assert (ours, found[0]) == pytest.approx((threshold, accuracy))


def test_means_that_are_equal_in_truth_tie() -> None:
    human = np.array([0.1 + 0.2, 0.3, 0.9])
    pairs = TiedPairs(np.array([1.0, 1.0, 2.0]), human, np.zeros(3, dtype=int))
    assert pairs.best(np.ones((1, 1)))[1] == pytest.approx([1.0])


def test_articles_of_one_text_say_nothing() -> None:
    alone = TiedPairs(np.arange(3.0), np.arange(3.0), np.arange(3))
    assert np.isnan(alone.best(np.ones((2, 3)))[1]).all()
    some = TiedPairs(np.arange(4.0), np.arange(4.0), np.array([0, 1, 2, 2]))
    assert some.best(np.ones((1, 3)))[1] == pytest.approx([1.0])
