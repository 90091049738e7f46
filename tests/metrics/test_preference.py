"""Preferences pair by pair: by hand, against independent libraries, by brute force, and resamples one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from judgebench.metrics.preference import AGREEMENT_MEASURES, Preferences, best_threshold
from judgebench.metrics.resampling import weights_of

ALONE = np.ones((1, 1))


def told(judge, human, share=None, group=None, tie=0.0):
    judge, human = np.array(judge, dtype=float), np.array(human, dtype=float)
    share = np.ones(len(judge)) if share is None else np.array(share, dtype=float)
    group = np.zeros(len(judge), dtype=int) if group is None else np.array(group)
    return Preferences(judge, human, share, group, tie)


def drawn(rng, n=60, groups=6):
    human = np.round(rng.normal(size=n)) / 2
    judge = np.clip(np.round(human / 5 + rng.normal(scale=0.2, size=n), 1), -0.5, 0.5)
    return judge, human, rng.choice([0.5, 1.0], n), rng.integers(0, groups, n)


def test_numbers_by_hand():
    #            alike | alike | apart | judge ties | humans tie | both tie
    found = told([0.4, -0.2, 0.1, 0.0, 0.3, 0.0], [2, -1, -1, 1, 0, 0]).agreement(ALONE, 0.1)
    assert found["tau"] == pytest.approx((2 - 1) / np.sqrt((3 + 1) * (3 + 1)))
    assert found["accuracy"] == pytest.approx(3 / 6)
    # 0.1 for the wrong text becomes a tie, which is wrong too
    assert found["accuracy_calibrated"] == pytest.approx(3 / 6)
    assert (found["rated"], found["human_tie_share"], found["judge_tie_share"]) == pytest.approx((6, 2 / 6, 2 / 6))
    # 0.4, 0.2, -0.1 and 0.0 towards the humans' text: which sums of two are above 0?
    assert found["auc"] == pytest.approx((4 + 4 + 2 + 2 + 0.5) / 16)
    assert found["auc_low"] is None


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=25))
def test_tau_is_kendalls_over_pairs_seen_from_both_texts(rows):
    judge, human = (np.array(side) / 6 for side in zip(*rows, strict=True))
    found = told(judge, human).agreement(ALONE, None)["tau"]
    sides = [np.sign(np.concatenate([side, -side])) for side in (judge, human)]
    agree, decided = (sides[0] * sides[1]).sum(), [np.abs(side).sum() for side in sides]
    assert found == pytest.approx(agree / np.sqrt(decided[0] * decided[1]) if all(decided) else 0.0)
    # a pair of texts is a pair of Kendall's where its two are all that there is
    for one, other in zip(judge, human, strict=True):
        if one and other:
            alone = told([one], [other]).agreement(ALONE, None)["tau"]
            assert alone == pytest.approx(kendalltau([one, 0], [other, 0]).statistic)


@given(st.integers(0, 1000))
def test_auc_is_the_librarys_for_pairs_seen_from_both_texts(seed):
    judge, human, share, group = drawn(np.random.default_rng(seed))
    kept = human != 0
    seen = np.concatenate([judge[kept], -judge[kept]])
    other = roc_auc_score(np.concatenate([human[kept], -human[kept]]) > 0, seen, sample_weight=np.tile(share[kept], 2))
    assert told(judge, human, share, group).agreement(np.ones((1, 6)), None)["auc"] == pytest.approx(other)


@given(st.integers(0, 1000))
def test_seen_from_the_other_text_nothing_changes(seed):
    judge, human, share, group = drawn(np.random.default_rng(seed))
    ours, theirs = (told(s * judge, s * human, share, group).agreement(np.ones((1, 6)), 0.1) for s in (1, -1))
    assert ours == pytest.approx(theirs)


@given(st.integers(0, 1000))
def test_the_best_threshold_is_the_best_of_all(seed):
    judge, human, share, group = drawn(np.random.default_rng(seed), n=15)
    pairs = told(judge, human, share, group)
    found = best_threshold(pairs)

    def accuracy(threshold):
        return pairs.agreement(np.ones((1, 6)), threshold)["accuracy_calibrated"]

    tried = {threshold: accuracy(threshold) for threshold in (0.0, *np.abs(judge), *np.linspace(0, 0.6, 25))}
    assert accuracy(found) == pytest.approx(max(tried.values()))
    assert all(accuracy(found) > value + 1e-9 for threshold, value in tried.items() if threshold < found - 1e-9)


def test_intervals_are_those_of_explicitly_resampled_groups():
    judge, human, share, group = drawn(np.random.default_rng(2))
    weights = weights_of(6, 30, seed=1)
    found = told(judge, human, share, group).agreement(weights, 0.1)
    resampled = {name: [] for name in AGREEMENT_MEASURES}
    for counts in weights[1:]:
        rows = np.concatenate([np.flatnonzero(group == g) for g, k in enumerate(counts) for _ in range(int(k))])
        again = told(judge[rows], human[rows], share[rows]).agreement(ALONE, 0.1)
        for name in AGREEMENT_MEASURES:
            resampled[name].append(again[name])
    for name in AGREEMENT_MEASURES:
        low, high = np.quantile(resampled[name], (0.025, 0.975))
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx((low, high), abs=1e-10)


def test_margins_share_the_pairs_evenly_and_hold_each_once():
    human = np.arange(-10, 11)
    judge = np.where(np.abs(human) > 5, np.sign(human), -np.sign(human)) / 2
    found = told(judge, human).margins(4, ALONE)
    assert [one["pairs"] for one in found] == [6, 4, 6, 4]
    assert [(one["above"], one["up_to"]) for one in found] == [(0, 3), (3, 5), (5, 8), (8, 10)]
    assert [one["agreement"] for one in found] == [0, 0, 1, 1]
    # preferences of one size are one bin, ties of the humans are none
    assert [one["pairs"] for one in told([0.1] * 3, [1, -1, 0]).margins(4, ALONE)] == [2]
    assert told([0.1], [0]).margins(4, ALONE) == []
    assert [one["pairs"] for one in told([0.1] * 3, [1, -1, 3], tie=1).margins(4, ALONE)] == [1]


def test_what_humans_call_a_tie_is_theirs_to_say():
    found = told([0.0, 0.0, 0.2], [0.5, 1.0, 2.0], tie=0.5).agreement(ALONE, None)
    assert found["human_tie_share"] == pytest.approx(1 / 3)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["accuracy_calibrated"] is None


def test_without_pairs_nothing_is_known():
    found = told([], []).agreement(ALONE, 0.0)
    assert {found[name] for name in (*AGREEMENT_MEASURES, "human_tie_share")} == {None}
    assert best_threshold(told([], [])) is None
    assert told([0.1], [0]).agreement(ALONE, 0.0)["auc"] is None
