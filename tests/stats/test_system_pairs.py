"""Accuracies over pairs of systems and of texts with ties, clusters, and tests of two judges: the WMT's own code, plain
loops, and what must be."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.clusters import Clusters, group_weights
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.levels import correlate
from judgebench.stats.significance import flips, holm
from judgebench.stats.system_pairs import (
    PairedSystems,
    TiedPairs,
    boot_both,
    mean_table,
    permuted_both,
    soft_pairwise_accuracy,
    system_clusters,
    system_record,
)
from tests.stats.recorded import DIMENSIONS, judges, needs_recorded, recorded


def columns(seed=0, systems=5, articles=12, noise=1.0):
    rng = np.random.default_rng(seed)
    system, group = np.tile(np.arange(systems), articles), np.repeat(np.arange(articles), systems)
    human = np.clip(np.round(3 + 0.4 * system - 0.8 + rng.normal(size=len(group))), 1, 5)
    judge = np.clip(np.round(human + noise * rng.normal(size=len(group))), 1, 5)
    return judge, human, group, system


def test_mt_metrics_eval_gives_the_same_p_values_and_accuracy_on_the_same_flips() -> None:
    theirs = pytest.importorskip("mt_metrics_eval.pce", reason="mt-metrics-eval is not installed")
    rng = np.random.default_rng(1)
    human = rng.normal(size=(6, 50)) + 0.1 * np.arange(6)[:, None]
    judge = human + rng.normal(size=human.shape)
    kept = np.rint(np.random.default_rng(4).random(size=(1000, 50), dtype=np.float32))  # as it draws them
    flipped = (1 - kept).astype(int)
    expected = [theirs.compute_pairwise_p_values(side) for side in (human, judge)]
    found = [PairedSystems(side).better(flipped) for side in (human, judge)]
    for ours, one in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, one[np.triu_indices(6, 1)])
    assert soft_pairwise_accuracy(found[1], found[0]) == pytest.approx(theirs.compute_one_minus_pce(*expected))


def test_scipy_gives_the_same_p_value() -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(2, 9)) + np.array([[0.4], [0.0]])
    scipys = stats.permutation_test(
        tuple(table), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", alternative="greater"
    )
    flipped, exact = flips(9, 1000)
    above, same = PairedSystems(table).tails(flipped)
    assert exact
    assert above[0] + same[0] == pytest.approx(scipys.pvalue)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_order_of_systems_does_not_matter(seed: int) -> None:
    table = np.random.default_rng(seed).integers(1, 4, (4, 7)) + 0.0
    flipped = flips(7, 1000)[0]
    forth, back = PairedSystems(table).better(flipped), PairedSystems(table[::-1]).better(flipped)
    ordered = dict(zip(combinations(range(4), 2), forth, strict=True))
    for (one, other), p in zip(combinations(range(4), 2), back, strict=True):
        assert ordered[3 - other, 3 - one] == pytest.approx(1 - p)


def test_the_normal_law_is_close_to_the_flips() -> None:
    rng = np.random.default_rng(3)
    systems = PairedSystems(rng.normal(size=(5, 40)) + 0.1 * np.arange(5)[:, None])
    p = systems.resampled(np.ones((1, 40)))[1][0]
    np.testing.assert_allclose(p, systems.better(flips(40, 20000)[0]), atol=0.015)


def test_a_judge_that_is_the_humans_is_right() -> None:
    _, human, group, system = columns()
    record = system_record(3 * human - 1, human, group, system)
    for name in ("soft_pairwise_accuracy", "pairwise_accuracy", "ties_accuracy"):
        assert record[name] == pytest.approx(1.0)
        assert record[f"{name}_low"] == pytest.approx(1.0)
    assert record["tie_threshold"] == 0.0
    assert record["reason"] is None


def test_pairwise_accuracy_by_loops_with_both_resampled() -> None:
    judge, human, group, system = columns()
    record = system_record(judge, human, group, system, resamples=50, seed=4)

    def accuracy(articles: np.ndarray, of_systems: np.ndarray) -> float:
        right = total = 0.0
        for one, other in combinations(range(5), 2):
            signs = []
            for side in (judge, human):
                table = side.reshape(12, 5)
                signs.append(np.sign(round(float(articles @ (table[:, one] - table[:, other])), 9)))
            times = of_systems[one] * of_systems[other]
            right, total = right + times * (signs[0] == signs[1]), total + times
        return right / total

    drawn = np.random.default_rng([4, 2]).multinomial(5, np.full(5, 1 / 5), 50)
    weights = group_weights(12, 50, 4)
    assert record["pairwise_accuracy"] == pytest.approx(accuracy(np.ones(12), np.ones(5)))
    both = [accuracy(*each) for each in zip(weights, drawn, strict=True) if (each[1] > 0).sum() > 1]
    assert min(both) <= record["pairwise_accuracy_systems_low"] <= record["pairwise_accuracy"]
    assert record["pairwise_accuracy"] <= record["pairwise_accuracy_systems_high"] <= max(both)
    one = [accuracy(each, np.ones(5)) for each in weights]
    assert min(one) <= record["pairwise_accuracy_low"] <= np.quantile(one, 0.025)


def test_what_cannot_be_told_is_null_with_a_reason() -> None:
    alone = system_record(np.arange(6.0), np.arange(6.0), np.repeat([0, 1, 2], 2), np.zeros(6))
    assert alone["soft_pairwise_accuracy"] is None
    assert alone["ties_accuracy"] == 1.0
    assert "one system" in alone["reason"]
    one_article = system_record(np.arange(4.0), np.arange(4.0), np.zeros(4), np.arange(4))
    assert one_article["pairwise_accuracy"] == 1.0
    assert one_article["pairwise_accuracy_low"] is None
    assert "one group" in one_article["reason"]
    assert "no resamples" in system_record(np.arange(4.0), np.arange(4.0), [0, 0, 1, 1], [0, 1, 0, 1], 0)["reason"]
    alike = system_record(np.arange(8.0), np.tile([2.0, 4.0], 4), np.repeat(range(4), 2), [0, 1, 1, 0] * 2)
    assert alike["pairwise_accuracy"] is alike["soft_pairwise_accuracy"] is alike["pairwise_accuracy_low"] is None
    assert alike["reason"] == "No pairwise accuracy: the humans' means of all systems are the same."


def test_clusters_by_hand() -> None:
    """Two systems alike, and a third far below both: two clusters."""
    swing = np.tile([1.0, -1.0], 15)
    truth = np.stack([4.0 + swing, 3.9 - swing, np.full(30, 1.0)])
    records = system_clusters(truth.ravel(), np.tile(np.arange(30), 3), np.repeat(["a", "b", "c"], 30))
    assert [(one["system"], one["cluster"], one["beaten_by"]) for one in records] == [
        ("a", 1, 0),
        ("b", 1, 0),
        ("c", 2, 2),
    ]
    assert [one["mean"] for one in records] == pytest.approx(truth.mean(axis=1))


def test_systems_alike_are_one_cluster() -> None:
    together = 0
    for seed in range(40):
        values = np.random.default_rng(seed).normal(size=(5, 15))
        records = system_clusters(values.ravel(), np.tile(np.arange(15), 5), np.repeat(np.arange(5), 15))
        together += records[-1]["cluster"] == 1
    assert together >= 36  # 5 % of families of ten pairs


def test_systems_that_share_no_article_are_not_told_apart() -> None:
    records = system_clusters(np.array([1.0, 1.1, 5.0, 5.1]), np.arange(4), np.array(["a", "a", "b", "b"]))
    assert [one["cluster"] for one in records] == [1, 1]


@needs_recorded
def test_recorded_systems_are_ranked_by_the_wmts_rule() -> None:
    """Down the list: a system is of the next rank as soon as one of the present rank is told from it."""
    data = recorded("coherence", "gpt-4o")
    group, system = (np.unique(side, return_inverse=True)[1] for side in (data.groups, data.systems))
    records = system_clusters(data.human, data.groups, data.systems)
    names = [str(name) for name in np.unique(data.systems)]
    flipped = flips(60)[0]
    above, same = PairedSystems(mean_table(data.human, system, group)).tails(flipped)
    two_sided = np.minimum(2 * (np.minimum(above + same, 1 - above) * len(flipped) + 1) / (len(flipped) + 1), 1)
    p = dict(zip(combinations(range(16), 2), holm(two_sided), strict=True))
    order = [names.index(one["system"]) for one in records]
    ranks, start, rank = [], 0, 1
    for place, name in enumerate(order):
        if any(p[tuple(sorted((name, other)))] <= 0.05 for other in order[start:place]):
            rank, start = rank + 1, place
        ranks.append(rank)
    assert ranks == [one["cluster"] for one in records]
    assert ranks[-1] > 1


@needs_recorded
def test_recorded_judges_in_numbers() -> None:
    found = {}
    for name in judges():
        data = recorded("relevance", name)
        found[name] = system_record(data.judge, data.human, data.groups, data.systems)
    best = max(found, key=lambda name: found[name]["soft_pairwise_accuracy"])
    assert best == "gpt-4o"
    assert found[best]["soft_pairwise_accuracy"] == pytest.approx(0.857, abs=0.01)
    assert found[best]["pairwise_accuracy"] == pytest.approx(0.842, abs=0.001)  # 101 of 120 pairs
    for record in found.values():
        assert record["soft_pairwise_accuracy_systems_low"] < record["soft_pairwise_accuracy_low"]


def test_all_swaps_give_the_exact_p_of_loops() -> None:
    rng = np.random.default_rng(5)
    first, second, human = rng.normal(size=(3, 3, 3))
    swapped = np.array(list(product((0, 1), repeat=9)))
    ours, theirs = (stats.zscore(side, axis=None) for side in (first, second))
    truth = human.mean(axis=1)
    by_name = {
        "pearson": lambda x: stats.pearsonr(x, truth).statistic,
        "spearman": lambda x: stats.spearmanr(x, truth).statistic,
        "kendall": lambda x: stats.kendalltau(x, truth).statistic,
    }
    for record in permuted_both(first, second, human, swapped=swapped):
        of = by_name[record["statistic"]]
        observed = of(ours.mean(axis=1)) - of(theirs.mean(axis=1))
        assert record["difference"] == pytest.approx(observed)
        null = []
        for mask in swapped.reshape(-1, 3, 3).astype(bool):
            null.append(of(np.where(mask, theirs, ours).mean(axis=1)) - of(np.where(mask, ours, theirs).mean(axis=1)))
        assert record["p"] == pytest.approx(np.mean(np.abs(null) >= abs(observed) - 1e-9))


def test_mt_metrics_eval_gives_about_the_same_perm_both_p() -> None:
    theirs = pytest.importorskip("mt_metrics_eval.stats", reason="mt-metrics-eval is not installed")
    rng = np.random.default_rng(6)
    human = rng.normal(size=(8, 15)) + 0.5 * np.arange(8)[:, None]
    first, second = human + 2 * rng.normal(size=human.shape), human + 4 * rng.normal(size=human.shape)

    def of_means(gold, scores):
        return stats.pearsonr(np.reshape(gold, (8, 15)).mean(axis=1), np.reshape(scores, (8, 15)).mean(axis=1))

    sides = [theirs.Correlation(8, list(human.ravel()), list(side.ravel())) for side in (second, first)]
    np.random.seed(0)  # it draws from here
    params = theirs.PermutationSigDiffParams(block_size=4000)
    one_sided, delta, *_ = theirs.PermutationSigDiff(*sides, of_means, k=4000, params=params)
    record = permuted_both(first, second, human, permutations=4000)[0]
    assert record["difference"] == pytest.approx(delta)
    assert record["p"] == pytest.approx(2 * min(one_sided, 1 - one_sided), abs=0.04)


def test_boot_both_is_the_difference_of_the_levels_own() -> None:
    judge, human, group, system = columns(7)
    other = columns(8)[0]
    tables = [mean_table(side, system, group) for side in (judge, other, human)]
    one, two = (
        correlate("system", side, human, Clusters.of(group, 300, 3), system).over_systems for side in (judge, other)
    )
    for k, record in enumerate(boot_both(*tables, resamples=300, seed=3)):
        gap = (one[k] - two[k])[~np.isnan(one[k])]
        assert record["statistic"] == CORRELATIONS[k]
        low, high = np.quantile(gap, [0.025, 0.975])
        assert (record["difference_low"], record["difference_high"]) == pytest.approx((low, high), abs=1e-9)


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
