"""Preferences between texts: both orders, agreement with humans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from judgebench.stats.bradley_terry import AGREEMENT_MEASURES, MEASURES, Preferences, best_threshold, comparative
from judgebench.stats.clusters import Clusters


def preferences(judge, human, share=None):
    judge, human = np.array(judge, dtype=float), np.array(human, dtype=float)
    share = np.ones(len(judge)) if share is None else share
    return Preferences(judge, human, share, Clusters.of(np.zeros(len(judge))))


def drawn(rng, n=60):
    human = np.round(rng.normal(size=n)) / 2
    judge = np.clip(np.round(human / 5 + rng.normal(scale=0.2, size=n), 1), -0.5, 0.5)
    return judge, human, rng.choice([0.5, 1.0], n)


def test_agreement_by_hand():
    #                  alike | alike | apart | judge ties | humans tie | both tie
    found = preferences([0.4, -0.2, 0.1, 0.0, 0.3, 0.0], [2, -1, -1, 1, 0, 0]).agreement(0.1)
    assert found["tau"] == pytest.approx((2 - 1) / np.sqrt((3 + 1) * (3 + 1)))
    # 0.1 for the wrong text becomes a tie, which is wrong too
    assert found["accuracy"] == found["accuracy_calibrated"] == pytest.approx(3 / 6)
    assert (found["rated"], found["human_tie_share"], found["judge_tie_share"]) == pytest.approx((6, 2 / 6, 2 / 6))
    # 0.4, 0.2, -0.1 and 0.0 towards the humans' text: which sums of two are above 0?
    assert found["auc"] == pytest.approx((4 + 4 + 2 + 2 + 0.5) / 16)
    assert preferences([0.2], [1.0]).agreement(None)["accuracy_calibrated"] is None


@given(st.integers(0, 1000))
def test_auc_is_the_librarys_for_pairs_seen_from_both_texts(seed):
    judge, human, share = drawn(np.random.default_rng(seed))
    kept = human != 0
    seen = np.concatenate([judge[kept], -judge[kept]])
    other = roc_auc_score(np.concatenate([human[kept], -human[kept]]) > 0, seen, sample_weight=np.tile(share[kept], 2))
    assert preferences(judge, human, share).agreement(None)["auc"] == pytest.approx(other)


@given(st.integers(0, 1000))
def test_the_best_threshold_is_the_best_of_all(seed):
    pairs = preferences(*drawn(np.random.default_rng(seed), n=15))
    found = best_threshold(pairs)

    def accuracy(threshold):
        return pairs.agreement(threshold)["accuracy_calibrated"]

    tried = {threshold: accuracy(threshold) for threshold in (0.0, *np.abs(pairs.judge), *np.linspace(0, 0.6, 25))}
    assert accuracy(found) == pytest.approx(max(tried.values()))
    assert all(accuracy(found) > value + 1e-9 for threshold, value in tried.items() if threshold < found - 1e-9)


def measured(first, second, human):
    return comparative(
        *(np.array(side, dtype=float) for side in (first, second, human)), Clusters.of(["a"] * len(first))
    )


def test_without_pairs_nothing_is_known():
    nothing = preferences([], []).agreement(0.0)
    assert {nothing[name] for name in (*AGREEMENT_MEASURES, "human_tie_share")} == {None}
    assert best_threshold(preferences([], [])) is None
    assert preferences([0.1], [0]).agreement(0.0)["auc"] is None
    assert measured([], [], [])["position_bias"] is None
    found = measured([1, 0], [1, 1], [0, np.nan])
    assert (found["human_agreement"], found["preferred"], found["consistency"]) == (None, 0, 0.5)


def test_measures_of_both_orders_by_hand():
    #                the text wins in both | by its place | loses in both | undecided where it stands second
    found = measured([0.9, 0.9, 0.2, 0.8], [0.7, 0.2, 0.1, 0.5], [1, -2, 0.5, np.nan])
    assert found["position_bias"] == pytest.approx((0.2 + 0.7 + 0.1 + 0.3) / 2 / 4)
    # with both orders averaged it wins, wins and loses: right, wrong, wrong
    assert (found["consistency"], found["human_agreement"]) == (0.5, pytest.approx(1 / 3))
    assert (found["pairs"], found["preferred"]) == (4, 3)
    # ties are no change of mind
    found = measured([0.9, 0.8, 0.5, 0.5, 0.9], [0.6, 0.9, 0.5, 0.7, 0.5], [1, 2, 0, 1, 1])
    assert (found["consistency"], found["decided_consistency"], found["tied_share"]) == (2 / 5, 1.0, pytest.approx(0.6))
    tied = measured([0.5, 0.5], [0.5, 0.9], [1, 2])
    assert (tied["decided_consistency"], tied["decided_consistency_low"], tied["tied_share"]) == (None, None, 1.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(-4, 4)), min_size=1, max_size=20))
def test_seen_from_the_rivals_nothing_changes(rows):
    first, second, human = map(np.array, zip(*rows, strict=True))
    ours, theirs = measured(first, second, human), measured(1 - second, 1 - first, -human)
    for name in MEASURES:
        assert (ours[name] is None) == (theirs[name] is None)
        assert ours[name] is None or ours[name] == pytest.approx(theirs[name], abs=1e-6)
