"""Systems compared: accuracies over pairs of systems, errors and ceilings, by Google's mt-metrics-eval, scipy and plain
loops."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.clusters import Clusters, expanded, group_weights
from judgebench.stats.folds import cross_fitted
from judgebench.stats.permutation import flips
from judgebench.studies.system_pairs import (
    MOST_SYSTEMS,
    SAMPLED,
    PairedSystems,
    mean_table,
    ordered_alike,
    soft_pairwise_accuracy,
    system_record,
)
from judgebench.studies.systems import ERRORS, ORDER, system_records
from tests.stats.recorded import needs_recorded, recorded
from tests.stats.sides import sample_of
from tests.test_scripts import script

simulate = script("simulate")

# --- pairs of systems -------------------------------------------------------------------------------------------------


def columns(seed=0, systems=5, articles=12):
    rng = np.random.default_rng(seed)
    system, group = np.tile(np.arange(systems), articles), np.repeat(np.arange(articles), systems)
    human = np.clip(np.round(3 + 0.4 * system - 0.8 + rng.normal(size=len(group))), 1, 5)
    judge = np.clip(np.round(human + rng.normal(size=len(group))), 1, 5)
    return judge, human, group, system


# Of Google's `pce.compute_pairwise_p_values` and `compute_one_minus_pce` (mt-metrics-eval at 68a481a), of 15 pairs.
HUMAN_P = [551, 727, 948, 879, 993, 739, 917, 898, 993, 759, 706, 948, 396, 757, 814]
JUDGE_P = [842, 931, 990, 919, 918, 674, 905, 700, 579, 781, 550, 428, 259, 181, 387]
SOFT = 0.7880666666666667


def paired(table):
    return PairedSystems(table, Clusters.of(range(table.shape[1]), 0))


def beside(judge, human, systems, clusters):
    """Of a judge beside humans."""
    system = np.unique(systems, return_inverse=True)[1]
    return system_record(judge, system, PairedSystems(mean_table(human, system, clusters.number), clusters))


def test_mt_metrics_eval_gives_the_same_p_values_and_accuracy_on_the_same_flips():
    rng = np.random.default_rng(1)
    human = rng.normal(size=(6, 50)) + 0.1 * np.arange(6)[:, None]
    judge = human + rng.normal(size=human.shape)
    kept = np.rint(np.random.default_rng(4).random(size=(1000, 50), dtype=np.float32))  # as it draws them
    p_human, p_judge = (paired(side).flip_p_values((1 - kept).astype(int)) for side in (human, judge))
    np.testing.assert_allclose([p_human, p_judge], np.array([HUMAN_P, JUDGE_P]) / 1000)
    assert soft_pairwise_accuracy(p_judge, p_human) == pytest.approx(SOFT)


@given(st.integers(0, 10**6))
def test_the_order_of_systems_does_not_matter(seed):
    table = np.random.default_rng(seed).integers(1, 4, (4, 7)) + 0.0
    flipped = flips(7, 1000)[0]
    forth, back = paired(table).flip_p_values(flipped), paired(table[::-1]).flip_p_values(flipped)
    ordered = dict(zip(combinations(range(4), 2), forth, strict=True))
    for (first, second), p in zip(combinations(range(4), 2), back, strict=True):
        assert ordered[3 - second, 3 - first] == pytest.approx(1 - p)


def test_the_normal_law_is_close_to_the_flips():
    rng = np.random.default_rng(3)
    systems = paired(rng.normal(size=(5, 40)) + 0.1 * np.arange(5)[:, None])
    p = scipy.special.ndtr(-systems.z_values(np.ones((1, 40))))[0]
    np.testing.assert_allclose(p, systems.flip_p_values(flips(40, 20000)[0]), atol=0.015)


def test_pairwise_accuracy_by_loops():
    judge, human, group, system = columns()
    record = beside(judge, human, system, Clusters.of(group, 50, 4))
    tables = judge.reshape(12, 5), human.reshape(12, 5)

    def accuracy(articles):
        right = []
        for first, second in combinations(range(5), 2):
            gaps = [articles @ (table[:, first] - table[:, second]) for table in tables]
            ours, theirs = (np.sign(round(float(gap), 9)) for gap in gaps)
            if theirs != 0:
                right.append((1 + ours * theirs) / 2)
        return np.mean(right)

    assert record["pairwise_accuracy"] == pytest.approx(accuracy(np.ones(12)))
    of_articles = [accuracy(each) for each in group_weights(12, 50, 4)]
    low, high = np.quantile(of_articles, expanded(12))
    assert record["pairwise_accuracy_low"] == pytest.approx(min(low, record["pairwise_accuracy"]))
    assert record["pairwise_accuracy_high"] == pytest.approx(max(high, record["pairwise_accuracy"]))


@given(st.integers(0, 10**6))
def test_a_judge_and_its_opposite_share_all_pairs_and_a_constant_has_half(seed):
    rng = np.random.default_rng(seed)
    judge, human = rng.integers(0, 3, (2, 5, 6)).astype(float)
    human[0, 0] += 0.5  # not all means are the same
    clusters = Clusters.of(np.arange(6), 20, seed)
    ours, turned, constant = (PairedSystems(side, clusters) for side in (judge, -judge, 0 * judge))
    shares = [ordered_alike(side, PairedSystems(human, clusters)) for side in (ours, turned, constant)]
    known = ~np.isnan(shares[0])
    np.testing.assert_allclose((shares[0] + shares[1])[known], 1.0)
    np.testing.assert_allclose(shares[2][known], 0.5)


def test_the_interval_of_a_share_of_pairs_holds_it_and_the_truth():
    """The truth is the mean share over many data sets with as many articles."""
    records = []
    for seed in range(60):
        sample = simulate.simulated_judge("as a rater", 12, seed)
        records.append(beside(sample.scores, sample.human, sample.systems, sample.clusters))
    values, lows, highs = (np.array([r[f"pairwise_accuracy{end}"] for r in records]) for end in ("", "_low", "_high"))
    assert ((lows <= values) & (values <= highs)).all()
    truth = values.mean()
    assert ((lows <= truth) & (truth <= highs)).mean() >= 0.88


# --- the study --------------------------------------------------------------------------------------------------------


def of_systems(scores, human, groups, systems, **more):
    """A judge in range 1-5 with means of ratings."""
    parts = (np.asarray(scores, dtype=float) - 1) / 4
    return sample_of(parts, ratings=np.asarray(human, dtype=float)[:, None], groups=groups, systems=systems, **more)


def crossed(seed=0, systems=4, articles=12, noise=1.0, **more):
    rng = np.random.default_rng(seed)
    system, group = np.tile(np.arange(systems), articles), np.repeat(np.arange(articles), systems)
    human = np.clip(np.round(2 + 0.5 * system + np.random.default_rng(99).normal(size=len(group))), 1, 5)
    judge = np.clip(np.round(human + noise * rng.normal(size=len(group))), 1, 5)
    labels = np.array([f"system {s}" for s in range(systems)])[system]
    return of_systems(judge, human, np.array([f"a{g:02d}" for g in group]), labels, **more)


def of_recorded(dimension="coherence", judge="gpt-4o", resamples=60):
    data = recorded(dimension, judge)
    texts = {"groups": data.groups, "systems": data.systems, "resamples": resamples}
    return sample_of((data.judge - 1) / 4, ratings=data.raters, **texts)


def rows_of(sample, keep):
    """The sample's texts to keep."""
    names = ("names", "groups", "systems", "scores", "ratings")
    return replace(sample, **{name: getattr(sample, name)[keep] for name in names})


@needs_recorded
@pytest.mark.parametrize(("dimension", "inside"), [("coherence", 5), ("relevance", 0)])
def test_means_of_gpt_4o_hold_few_of_the_experts_by_scipys_bootstrap(dimension, inside):
    data, sample = recorded(dimension, "gpt-4o"), of_recorded(dimension, resamples=1000)
    (record,) = system_records([sample])
    assert (record["systems_held"], record["means_held"], record["systems"]) == (inside, inside / 16, 16)
    found = beside(data.judge, data.human, data.systems, sample.clusters)
    # those of `SAMPLED` are by single raters
    assert {name: record[name] for name in found if name not in SAMPLED} == {
        name: value for name, value in found.items() if name not in SAMPLED
    }
    best = record["ranking"][0]
    rows = np.flatnonzero(data.systems == best["system"])
    by_article = data.judge[rows][np.argsort(data.groups[rows])]
    drawn = stats.bootstrap(
        (np.arange(60),),
        lambda index, axis: by_article[index].mean(axis=axis),
        n_resamples=1000,
        rng=0,
        vectorized=True,
    ).bootstrap_distribution
    assert (best["mean"], best["human_mean"]) == pytest.approx((by_article.mean(), data.human[rows].mean()))
    assert (best["mean_low"], best["mean_high"]) == pytest.approx(tuple(np.quantile(drawn, expanded(60))))
    assert best["texts"] == 60


def test_a_judge_that_is_the_humans_holds_every_mean_and_one_that_is_too_strict_none():
    sample = crossed(noise=0.0)
    (same,) = system_records([sample])
    names = ("means_held", "soft_pairwise_accuracy", "pairwise_accuracy", "pairwise_accuracy_low")
    assert [same[name] for name in names] == pytest.approx([1.0] * 4)
    assert same["reason"] is None
    (strict,) = system_records([replace(sample, scores=1 + (sample.scores - 1) / 4)])
    assert (strict["means_held"], strict["pairwise_accuracy"]) == (0.0, 1.0)
    wide = sample.cell._replace(range_min=0.0, range_max=100.0)
    (moved,) = system_records([replace(sample, cell=wide, scores=25 * (sample.scores - 1))])
    assert moved["means_held"] == 1.0  # on the humans' scale
    assert moved["ranking"] == same["ranking"]


def test_systems_are_compared_over_the_articles_that_both_have():
    """Systems 0 and 1 share articles, 2 and 3 others: two pairs, and one of them is turned."""
    system, group = np.array([0, 1, 0, 1, 2, 3, 2, 3]), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    human, judge = np.array([1.0, 2, 2, 3, 1, 5, 2, 4]), np.array([1.0, 2, 2, 3, 5, 1, 4, 2])
    pairs = paired(mean_table(human, system, group)).pairs
    assert [side.tolist() for side in pairs] == [[0, 2], [1, 3]]
    (record,) = system_records([of_systems(judge, human, group, system)])
    assert record["pairwise_accuracy"] == 0.5
    (alone,) = system_records([of_systems(human, human, np.arange(8), system)])
    assert alone["pairwise_accuracy"] is None
    assert "texts of the same group" in alone["reason"]
    assert len(alone["ranking"]) == 4
    (same,) = system_records([of_systems([1, 2, 3, 4], [2, 4, 2, 4], [0, 0, 1, 1], [0, 1, 1, 0])])
    assert "the humans' means of all systems are the same" in same["reason"]
    json.dumps([record, alone], allow_nan=False)


ONE, MEANS = "all texts are of one system", "only means of ratings are known"
MANY = f"there are more than {MOST_SYSTEMS} systems"


@pytest.mark.parametrize(
    ("sample", "reason", "order", "error"),
    [
        (of_systems([1, 2, 3], [1, 2, 3], [0, 0, 1], ["", "", ""]), f"No pairwise accuracy: {ONE}.", ONE, ONE),
        (of_systems(np.ones(300), np.ones(300), np.zeros(300), np.arange(300)), MANY, MANY, MANY),
        (of_systems([1, 2, 3], [1, 3, 2], [0, 0, 0], ["a", "b", "c"]), "No intervals: there is one group", MEANS, None),
        (crossed(resamples=0), "No intervals: there are no resamples.", MEANS, None),
        (crossed(scale=None), "scale is not known", MEANS, "the humans' scale is unknown"),
        (
            replace(crossed(), ratings=np.full((48, 2), np.nan), raters=("a", "b")),
            "No text has a rating.",
            "no rater rated enough texts that others rated, too",
            "no text has a rating",
        ),
    ],
)
def test_what_is_unknown_has_a_reason(sample, reason, order, error):
    (record,) = system_records([sample])
    assert reason in record["reason"]
    assert record["means_held"] is None
    assert all(row["held"] is None for row in record["ranking"])
    assert record["pairwise_reason"] == f"Pairs are not compared with one rater: {order}."
    assert all(record[name] is None for name in ORDER)
    assert record["error_reason"] == (error and f"No errors of systems' means: {error}.")
    if error:
        assert all(record[name] is None for name in ERRORS)
        assert all(row["error"] is None for row in record["ranking"])


def alike(values, others, systems, groups, times):
    """The share of pairs of systems in one order, by their means over articles, each so many `times`; pairs that the
    others tie are left out, and ties of values count half."""
    means = {}
    for name in np.unique(systems):
        rows = np.repeat(np.flatnonzero(systems == name), times[groups[systems == name]])
        means[name] = round(values[rows].mean(), 9), round(others[rows].mean(), 9)
    signs = [np.sign(np.subtract(means[a], means[b])) for a, b in combinations(means, 2)]
    return np.mean([(1 + ours * theirs) / 2 for ours, theirs in signs if theirs != 0])


@needs_recorded
@pytest.mark.parametrize(("dimension", "judge"), [("coherence", "gpt-4o"), ("relevance", "mistral-v03")])
def test_the_ceiling_over_systems_is_that_of_plain_loops(dimension, judge):
    sample = of_recorded(dimension, judge)
    number, shares = np.unique(sample.groups, return_inverse=True)[1], []
    for times in sample.clusters.weights.astype(int):
        sides = []
        for column in range(3):
            others = np.delete(sample.ratings, column, axis=1).mean(axis=1)
            both = (sample.scores, sample.ratings[:, column])
            sides.append([alike(values, others, sample.systems, number, times) for values in both])
        of_judge, of_rater = np.mean(sides, axis=0)
        shares.append((of_judge, of_rater, of_judge - of_rater))
    (record,) = system_records([sample])
    for name, values in zip(ORDER, np.array(shares).T, strict=True):
        resampled = values[1:]
        if name == "pairwise_difference":
            resampled = resampled - resampled.mean() + values[0]
        low, high = np.quantile(resampled, expanded(60))
        low, high = min(low, values[0]), max(high, values[0])
        figures = [record[f"{name}{end}"] for end in ("", "_low", "_high")]
        assert figures == pytest.approx([values[0], low, high], abs=1e-12)


@needs_recorded
def test_errors_of_means_are_those_of_plain_loops():
    sample = of_recorded()
    (record,) = system_records([sample])
    by_system, names = {row["system"]: row for row in record["ranking"]}, np.unique(sample.systems).tolist()
    kinds = {"calibrated_": (sample.groups, "isotonic"), "unseen_": (sample.systems, "isotonic")}
    fitted = {kind: cross_fitted(sample.scores, sample.human, *how) for kind, how in kinds.items()}
    constant = cross_fitted(sample.scores, sample.human, sample.systems, "constant")
    for kind, scores in ({"": sample.on_scale} | fitted | {"constant_": constant}).items():
        errors = [np.mean((scores - sample.human)[sample.systems == name]) for name in names]
        assert record[f"{kind}error"] == pytest.approx(np.mean(np.abs(errors)))
        assert record[f"{kind}error_largest"] == pytest.approx(np.max(np.abs(errors)))
        if not kind:
            assert [by_system[name]["error"] for name in names] == pytest.approx(errors)
            assert record["error_system"] == names[int(np.argmax(np.abs(errors)))]
    for kind in ("", "unseen_"):
        saved = record["constant_error_largest"] - record[f"{kind}error_largest"]
        assert record[f"{kind}error_largest_saved"] == pytest.approx(saved)
    assert record["better_scores"] == "calibrated"
    raters = []
    for column in range(3):
        apart = sample.ratings[:, column] - np.delete(sample.ratings, column, axis=1).mean(axis=1)
        raters.append(np.abs([apart[sample.systems == name].mean() for name in names]))
    assert record["rater_error"] == pytest.approx(np.mean(raters))
    assert record["rater_error_largest"] == pytest.approx(np.mean(np.max(raters, axis=1)))


def test_systems_that_are_right_but_for_noise_have_a_low_end_of_zero():
    """Of judges without any error, 12 of 12 systems, the low end is 0 in 95 % of data sets or more."""
    human, lows = crossed(noise=0.0, systems=12, articles=25), []
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(size=len(human.scores))
        (record,) = system_records([replace(human, scores=human.scores + 0.1 * noise)])
        lows.append((record["error_low"], record["error_largest_low"]))
    assert (np.array(lows) == 0).mean(axis=0).min() >= 0.9


def test_a_system_of_one_article_has_an_error_without_an_interval():
    whole = crossed(systems=3, articles=8)
    (record,) = system_records([rows_of(whole, (whole.systems != "system 0") | (whole.groups == "a00"))])
    rows = {row["system"]: row for row in record["ranking"]}
    assert rows["system 0"]["error"] is not None
    assert rows["system 0"]["error_low"] is rows["system 0"]["error_high"] is None
    assert rows["system 1"]["error_low"] is not None
    assert record["error_largest"] is not None
    assert record["error_largest_low"] is None
    assert record["error_largest_saved"] is not None
    assert record["error_largest_saved_low"] is None
