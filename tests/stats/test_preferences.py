"""Preferences between texts: both orders, agreement with humans."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from judgebench.stats.clusters import Clusters, group_weights, weights_of
from judgebench.stats.preferences import AGREEMENT_MEASURES, MEASURES, Preferences, best_threshold, comparative
from judgebench.stats.robustness import robustness
from judgebench.types import ScoreRange
from tests.stats.test_evaluate import evaluate, table


def told(judge, human, share=None, group=None, tie=0.0, weights=None):
    judge, human = np.array(judge, dtype=float), np.array(human, dtype=float)
    share = np.ones(len(judge)) if share is None else np.array(share, dtype=float)
    group = np.zeros(len(judge), dtype=int) if group is None else np.array(group)
    weights = np.ones((1, group.max(initial=0) + 1)) if weights is None else weights
    return Preferences(judge, human, share, Clusters(group, weights), tie)


def drawn(rng, n=60, groups=6):
    human = np.round(rng.normal(size=n)) / 2
    judge = np.clip(np.round(human / 5 + rng.normal(scale=0.2, size=n), 1), -0.5, 0.5)
    return judge, human, rng.choice([0.5, 1.0], n), rng.integers(0, groups, n)


def test_numbers_by_hand():
    #            alike | alike | apart | judge ties | humans tie | both tie
    found = told([0.4, -0.2, 0.1, 0.0, 0.3, 0.0], [2, -1, -1, 1, 0, 0]).agreement(0.1)
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
    found = told(judge, human).agreement(None)["tau"]
    sides = [np.sign(np.concatenate([side, -side])) for side in (judge, human)]
    agree, decided = (sides[0] * sides[1]).sum(), [np.abs(side).sum() for side in sides]
    assert found == pytest.approx(agree / np.sqrt(decided[0] * decided[1]) if all(decided) else 0.0)
    # a pair of texts is a pair of Kendall's where its two are all that there is
    for one, other in zip(judge, human, strict=True):
        if one and other:
            alone = told([one], [other]).agreement(None)["tau"]
            assert alone == pytest.approx(kendalltau([one, 0], [other, 0]).statistic)


@given(st.integers(0, 1000))
def test_auc_is_the_librarys_for_pairs_seen_from_both_texts(seed):
    judge, human, share, group = drawn(np.random.default_rng(seed))
    kept = human != 0
    seen = np.concatenate([judge[kept], -judge[kept]])
    other = roc_auc_score(np.concatenate([human[kept], -human[kept]]) > 0, seen, sample_weight=np.tile(share[kept], 2))
    assert told(judge, human, share, group).agreement(None)["auc"] == pytest.approx(other)


@given(st.integers(0, 1000))
def test_the_best_threshold_is_the_best_of_all(seed):
    judge, human, share, group = drawn(np.random.default_rng(seed), n=15)
    pairs = told(judge, human, share, group)
    found = best_threshold(pairs)

    def accuracy(threshold):
        return pairs.agreement(threshold)["accuracy_calibrated"]

    tried = {threshold: accuracy(threshold) for threshold in (0.0, *np.abs(judge), *np.linspace(0, 0.6, 25))}
    assert accuracy(found) == pytest.approx(max(tried.values()))
    assert all(accuracy(found) > value + 1e-9 for threshold, value in tried.items() if threshold < found - 1e-9)


def test_intervals_are_those_of_explicitly_resampled_groups():
    judge, human, share, group = drawn(np.random.default_rng(2))
    weights = weights_of(6, 30, seed=1)
    found = told(judge, human, share, group, weights=weights).agreement(0.1)
    resampled = {name: [] for name in AGREEMENT_MEASURES}
    for counts in weights[1:]:
        rows = np.concatenate([np.flatnonzero(group == g) for g, k in enumerate(counts) for _ in range(int(k))])
        again = told(judge[rows], human[rows], share[rows]).agreement(0.1)
        for name in AGREEMENT_MEASURES:
            resampled[name].append(again[name])
    for name in AGREEMENT_MEASURES:
        low, high = np.quantile(resampled[name], (0.025, 0.975))
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx((low, high), abs=1e-10)


def test_what_humans_call_a_tie_is_theirs_to_say():
    found = told([0.0, 0.0, 0.2], [0.5, 1.0, 2.0], tie=0.5).agreement(None)
    assert found["human_tie_share"] == pytest.approx(1 / 3)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["accuracy_calibrated"] is None


def test_without_pairs_nothing_is_known():
    found = told([], []).agreement(0.0)
    assert {found[name] for name in (*AGREEMENT_MEASURES, "human_tie_share")} == {None}
    assert best_threshold(told([], [])) is None
    assert told([0.1], [0]).agreement(0.0)["auc"] is None


WINS = ScoreRange(0, 1, 0.5)


def measured(first, second, human, groups=None, **more):
    first, second, human = (np.array(side, dtype=float) for side in (first, second, human))
    return comparative(first, second, human, Clusters.of(groups or ["a"] * len(first), **more))


def columns_of(score, human, groups, systems, **cell):
    return table(lambda *_: score, lambda *_: human, groups, systems, **cell)


def test_measures_by_hand():
    #                the text wins in both | by its place | loses in both | undecided where it stands second
    found = measured([0.9, 0.9, 0.2, 0.8], [0.7, 0.2, 0.1, 0.5], [1, -2, 0.5, np.nan])
    assert found["position_bias"] == pytest.approx((0.2 + 0.7 + 0.1 + 0.3) / 2 / 4)
    assert found["consistency"] == 0.5
    # with both orders averaged it wins, wins and loses: right, wrong, wrong
    assert found["human_agreement"] == pytest.approx(1 / 3)
    assert (found["pairs"], found["preferred"]) == (4, 3)
    assert {found[f"{name}{end}"] for name in MEASURES for end in ("_low", "_high")} == {None}


def test_ties_are_no_change_of_mind():
    found = measured([0.9, 0.8, 0.5, 0.5, 0.9], [0.6, 0.9, 0.5, 0.7, 0.5], [1, 2, 0, 1, 1])
    assert found["consistency"] == 2 / 5
    assert found["decided_consistency"] == 1.0
    assert found["tied_share"] == pytest.approx(3 / 5)
    tied = measured([0.5, 0.5], [0.5, 0.9], [1, 2])
    assert (tied["decided_consistency"], tied["decided_consistency_low"], tied["tied_share"]) == (None, None, 1.0)


probabilities = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(-4, 4)), min_size=1, max_size=20)


@given(probabilities)
def test_seen_from_the_rivals_nothing_changes(rows):
    first, second, human = map(np.array, zip(*rows, strict=True))
    ours, theirs = measured(first, second, human), measured(1 - second, 1 - first, -human)
    for name in MEASURES:
        assert (ours[name] is None) == (theirs[name] is None)
        assert ours[name] is None or ours[name] == pytest.approx(theirs[name], abs=1e-6)


def test_without_pairs_or_preferences_nothing_is_known():
    assert measured([], [], [])["position_bias"] is None
    found = measured([1, 0], [1, 1], [0, np.nan])
    assert (found["human_agreement"], found["preferred"], found["consistency"]) == (None, 0, 0.5)


def drawn_pairs(rng, groups=7, size=5):
    n = groups * size
    human = np.round(rng.normal(size=n), 1)
    human[rng.random(n) < 0.2] = 0
    return rng.random(n), rng.random(n), human, np.repeat([f"g{g}" for g in range(groups)], size)


def test_intervals_are_those_of_explicitly_resampled_articles():
    first, second, human, groups = drawn_pairs(np.random.default_rng(3))
    found = comparative(first, second, human, Clusters.of(groups, 40, 5))
    labels = np.unique(groups)
    resampled = {name: [] for name in MEASURES}
    for counts in group_weights(len(labels), 40, 5):
        rows = np.concatenate(
            [np.flatnonzero(groups == g) for g, k in zip(labels, counts, strict=True) for _ in range(k)]
        )
        again = comparative(first[rows], second[rows], human[rows], Clusters.of(groups[rows], 0))
        for name in MEASURES:
            resampled[name].append(again[name])
    for name in MEASURES:
        low, high = np.quantile(resampled[name], (0.025, 0.975))
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx((low, high))


def test_records_of_compared_texts_have_the_measures_at_every_level_and_others_have_not():
    first, second, human, _ = drawn_pairs(np.random.default_rng(1), groups=5, size=4)
    columns = columns_of((first + second) / 2, human, 5, 4, range_min=0.0, range_max=1.0, range_step=0.5)
    pairs = columns | {"score_first": first, "score_second": second, "text_id": columns["example_id"]}
    expected = comparative(first, second, human, Clusters.of(columns["group_id"], 20))
    for record in evaluate(pairs, "mini", resamples=20, scale={"coherence": None}):
        assert {name: record[name] for name in expected} == expected
        assert record["bias_kl"] is None
    assert all("position_bias" not in record for record in evaluate(columns, "mini", resamples=0))


def test_a_text_stands_among_the_others_with_its_mean_over_its_rivals():
    # one article, three texts, each against both others; unattacked a beats all, c loses to all
    texts = np.array(["a", "a", "b", "b", "c", "c"])
    clean = np.array([1, 1, 0, 1, 0, 0], dtype=float)
    attacked = np.array([1, 1, 1, 1, 0.5, 0.5])
    clusters = Clusters.of(["g"] * len(texts), 0)
    found = robustness(clean, attacked, WINS, clusters, texts)
    # means: clean 1, 1/2, 0; attacked a 1 (rank 1), b 1 (ties with a: 1.5, half the first place), c 1/2 (2.5)
    assert found["places_gained"] == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert found["win_share"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert found["clean_win_share"] == pytest.approx(1 / 3)
    assert found["change"] == pytest.approx(2 / 6)
    alone = robustness(clean, attacked, WINS, clusters)
    assert alone["clean_win_share"] == pytest.approx(1 / 6)  # six texts, of which three tie for the first place
