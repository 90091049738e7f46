"""Systems by judge: the means that hold by scipy's bootstrap, tests by their own functions, the ceiling and errors of
plain loops, and what is not there."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from judgebench.stats.clusters import Clusters, expanded
from judgebench.stats.points import cross_fitted
from judgebench.stats.significance import holm
from judgebench.stats.system_pairs import (
    MOST_SYSTEMS,
    PairedSystems,
    boot_both,
    mean_table,
    permuted_both,
    system_clusters,
    system_record,
)
from judgebench.stats.systems import ERRORS, ORDER, distances_record, system_records
from tests.stats.recorded import DIMENSIONS, needs_recorded, recorded
from tests.stats.test_variance import side

ISSUE = dict(zip(DIMENSIONS, (5, 0, 0, 0), strict=True))
"""gpt-4o: systems of 16 whose humans' mean lies in its interval: 31, 0, 0, 0 %."""


def of_systems(scores, human, groups, systems, **more):
    """A judge in range 1-5 with means of ratings."""
    parts = (np.asarray(scores, dtype=float) - 1) / 4
    return side(parts, ratings=np.asarray(human, dtype=float)[:, None], groups=groups, systems=systems, **more)


def crossed(seed=0, systems=4, articles=12, noise=1.0, **more):
    rng = np.random.default_rng(seed)
    system, group = np.tile(np.arange(systems), articles), np.repeat(np.arange(articles), systems)
    human = np.clip(np.round(2 + 0.5 * system + np.random.default_rng(99).normal(size=len(group))), 1, 5)
    judge = np.clip(np.round(human + noise * rng.normal(size=len(group))), 1, 5)
    labels = np.array([f"system {s}" for s in range(systems)])[system]
    return of_systems(judge, human, np.array([f"a{g:02d}" for g in group]), labels, **more)


@needs_recorded
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_means_of_gpt_4o_hold_those_of_the_experts_as_the_issue_says(dimension):
    data = recorded(dimension, "gpt-4o")
    one = side((data.judge - 1) / 4, ratings=data.raters, groups=data.groups, systems=data.systems, resamples=1000)
    (record,) = system_records([one])
    assert (record["systems_held"], record["systems"]) == (ISSUE[dimension], 16)
    assert record["means_held"] == ISSUE[dimension] / 16
    own = system_record(data.judge, data.human, data.groups, data.systems)
    assert {name: record[name] for name in own} == own
    assert record["clusters"] == system_clusters(data.judge, data.groups, data.systems)[-1]["cluster"]
    assert record["human_clusters"] == system_clusters(data.human, data.groups, data.systems)[-1]["cluster"]


@needs_recorded
def test_intervals_of_means_are_those_of_scipys_bootstrap():
    data = recorded("coherence", "gpt-4o")
    one = side((data.judge - 1) / 4, ratings=data.raters, groups=data.groups, systems=data.systems, resamples=1000)
    best = system_records([one])[0]["ranking"][0]
    rows = np.flatnonzero(data.systems == best["system"])
    by_article = data.judge[rows][np.argsort(data.groups[rows])]
    drawn = stats.bootstrap(
        (np.arange(60),),
        lambda index, axis: by_article[index].mean(axis=axis),
        n_resamples=1000,
        rng=0,
        vectorized=True,
    ).bootstrap_distribution
    assert best["mean"] == pytest.approx(by_article.mean())
    assert (best["mean_low"], best["mean_high"]) == pytest.approx(tuple(np.quantile(drawn, expanded(60))))
    assert best["human_mean"] == pytest.approx(data.human[rows].mean())
    assert best["texts"] == 60


def test_a_judge_that_is_the_humans_holds_every_mean_and_one_that_is_too_strict_none():
    one = crossed(noise=0.0)
    (same,) = system_records([one])
    assert same["means_held"] == same["pairwise_accuracy"] == 1.0
    assert [row["cluster"] for row in same["ranking"]] == [row["human_cluster"] for row in same["ranking"]]
    (strict,) = system_records([replace(one, scores=1 + (one.scores - 1) / 4)])
    assert (strict["means_held"], strict["pairwise_accuracy"]) == (0.0, 1.0)
    (moved,) = system_records([side((one.scores - 1) / 4, 0, 100, ratings=one.ratings, groups=one.groups,
                                    systems=one.systems)])  # fmt: skip
    assert moved["means_held"] == 1.0  # on the humans' scale
    assert moved["ranking"] == same["ranking"]


def test_two_judges_are_tested_as_by_their_own_functions_and_corrected_together():
    main = crossed(1, noise=2.0, rule="argmax")
    expected = replace(main, cell=main.cell._replace(decoding="expectation"), rule="expectation")
    pair = crossed(2, noise=0.5, judge="pair", decoding="contrastive", rule="argmax")
    low = [replace(one, cell=one.cell._replace(range_min=0.0, range_max=4.0)) for one in (main, pair)]
    low[1] = replace(low[1], scores=crossed(3, noise=1.5).scores)
    records = system_records([expected, main, pair, *low])
    assert [len(one["against"]) for one in records] == [0, 0, 3, 0, 3]
    names, system = np.unique(main.systems, return_inverse=True)
    group = np.unique(main.groups, return_inverse=True)[1]
    tables = [mean_table(values, system, group) for values in (pair.scores, main.scores, main.human)]
    tests = permuted_both(*tables, permutations=100)
    gaps = boot_both(*tables, resamples=100)
    for found, test, gap in zip(records[2]["against"], tests, gaps, strict=True):
        assert (found["judge"], found["decoding"], found["systems"], found["articles"]) == ("main", "greedy", 4, 12)
        assert {name: found[name] for name in gap} == gap
        assert found["p"] == test["p"]
    for k in range(3):
        family = [records[2]["against"][k], records[4]["against"][k]]
        expected_p = holm(np.array([one["p"] for one in family]))
        assert [one["p_holm"] for one in family] == pytest.approx(expected_p.tolist())
    assert len(names) == 4


def test_judges_are_tested_over_articles_with_a_text_of_every_system():
    main, pair = crossed(1), crossed(2, judge="pair", decoding="contrastive")
    rated = main.ratings.copy()
    rated[main.groups == "a00"] = np.nan
    rated[(main.groups == "a01") & (main.systems == "system 0")] = np.nan
    sides = [replace(one, ratings=rated) for one in (main, pair)]
    (first, second) = system_records(sides)
    assert first["texts"] == 43
    assert {one["articles"] for one in second["against"]} == {10}
    few = (main.systems == "system 0") | (main.systems == "system 1")
    two = [
        replace(one, **{name: getattr(one, name)[few] for name in ("names", "groups", "systems", "scores", "ratings")})
        for one in (main, pair)
    ]
    (test,) = system_records(two)[1]["against"]
    assert "take 3" in test["reason"]
    assert test["p"] is test["p_holm"] is None


def test_systems_are_compared_over_the_articles_that_both_have():
    """Systems 0 and 1 share articles, 2 and 3 others: two pairs, and one of them is turned."""
    system, group = np.array([0, 1, 0, 1, 2, 3, 2, 3]), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    human = np.array([1.0, 2, 2, 3, 1, 5, 2, 4])
    judge = np.array([1.0, 2, 2, 3, 5, 1, 4, 2])
    paired = PairedSystems(mean_table(human, system, group))
    assert [one.tolist() for one in paired.pairs] == [[0, 2], [1, 3]]
    (record,) = system_records([of_systems(judge, human, group, system)])
    assert record["pairwise_accuracy"] == 0.5
    (alone,) = system_records([of_systems(human, human, np.arange(8), system)])
    assert alone["pairwise_accuracy"] is None
    assert "texts of the same group" in alone["reason"]
    assert len(alone["ranking"]) == 4
    json.dumps([record, alone], allow_nan=False)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (of_systems([1, 2, 3], [1, 2, 3], [0, 0, 1], ["", "", ""]), "one system"),
        (of_systems([1.0], [2.0], [0], ["s"]), "one system"),
        (of_systems([1, 2], [np.nan] * 2, [0, 0], ["s", "t"]), "No text has a rating."),
        (of_systems(np.ones(300), np.ones(300), np.zeros(300), np.arange(300)), f"more than {MOST_SYSTEMS}"),
    ],
)
def test_what_there_is_not_is_null_with_a_reason(one, reason):
    (record,) = system_records([one])
    assert reason in record["reason"]
    assert record["pairwise_accuracy"] is record["means_held"] is record["clusters"] is None
    assert record["ranking"] == record["against"] == []
    json.dumps(record, allow_nan=False)


def test_one_article_and_unknown_scales_have_no_means_to_hold():
    (one,) = system_records([of_systems([1, 2, 3], [1, 3, 2], [0, 0, 0], ["a", "b", "c"])])
    assert one["pairwise_accuracy"] == pytest.approx(2 / 3)
    assert one["means_held"] is None
    assert "one group" in one["reason"]
    (unknown,) = system_records([crossed(scale=None)])
    assert unknown["means_held"] is None
    assert "scale is not known" in unknown["reason"]
    assert unknown["ranking"][0]["held"] is None


def test_a_constant_judge_tells_no_system_apart():
    one = crossed()
    (record,) = system_records([replace(one, scores=np.full(len(one.scores), 3.0))])
    assert record["clusters"] == 1
    assert record["pairwise_accuracy"] == 0.0
    assert record["reason"] is None


def test_several_texts_of_a_system_in_an_article_count_by_their_mean():
    system, group = np.array([0, 0, 1, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1])
    judge, human = np.array([1.0, 3, 4, 2, 5, 1]), np.array([2.0, 2, 3, 1, 4, 4])
    (record,) = system_records([of_systems(judge, human, group, system)])
    assert record["pairwise_accuracy"] == 1.0
    assert [(row["system"], row["texts"], row["mean"]) for row in record["ranking"]] == [
        ("1", 3, pytest.approx(10 / 3)),
        ("0", 3, 2.0),
    ]


def of_recorded(dimension="coherence", judge="gpt-4o", resamples=60):
    data = recorded(dimension, judge)
    given = {"groups": data.groups, "systems": data.systems, "resamples": resamples, "raters": ("a", "b", "c")}
    return side((data.judge - 1) / 4, ratings=data.raters, **given)


def alike(values, others, systems, groups, times):
    """The share of pairs of systems in one order, by their means over articles, each so many `times`."""
    means = {}
    for name in np.unique(systems):
        rows = np.repeat(np.flatnonzero(systems == name), times[groups[systems == name]])
        means[name] = round(values[rows].mean(), 9), round(others[rows].mean(), 9)
    hits = [np.sign(means[a][0] - means[b][0]) == np.sign(means[a][1] - means[b][1]) for a, b in combinations(means, 2)]
    return np.mean(hits)


@needs_recorded
@pytest.mark.parametrize(("dimension", "judge"), [("coherence", "gpt-4o"), ("relevance", "mistral-v03")])
def test_the_ceiling_over_systems_is_that_of_plain_loops(dimension, judge):
    one = of_recorded(dimension, judge)
    number = np.unique(one.groups, return_inverse=True)[1]
    shares = {name: [] for name in ORDER}
    for times in Clusters.of(one.groups, 60).weights.astype(int):
        judges, raters = [], []
        for column in range(3):
            others = np.delete(one.ratings, column, axis=1).mean(axis=1)
            judges.append(alike(one.scores, others, one.systems, number, times))
            raters.append(alike(one.ratings[:, column], others, one.systems, number, times))
        for name, value in zip(
            ORDER, (np.mean(judges), np.mean(raters), np.mean(judges) - np.mean(raters)), strict=True
        ):
            shares[name].append(value)
    (record,) = system_records([one])
    for name, values in shares.items():
        assert record[name] == pytest.approx(values[0], abs=1e-12)
        low, high = np.quantile(values[1:], expanded(60))
        assert (record[f"{name}_low"], record[f"{name}_high"]) == pytest.approx((low, high), abs=1e-12)


@needs_recorded
def test_errors_of_means_are_those_of_plain_loops():
    one = of_recorded()
    (record,) = system_records([one])
    by_system = {row["system"]: row for row in record["ranking"]}
    kinds = {"": one.on_scale} | {
        name: cross_fitted(one.scores, one.human, left_out)
        for name, left_out in (("calibrated_", one.groups), ("unseen_", one.systems))
    }
    names = np.unique(one.systems).tolist()
    for kind, scores in kinds.items():
        errors = [np.mean((scores - one.human)[one.systems == name]) for name in names]
        assert record[f"{kind}error"] == pytest.approx(np.mean(np.abs(errors)))
        assert record[f"{kind}error_largest"] == pytest.approx(np.max(np.abs(errors)))
        if not kind:
            assert [by_system[name]["error"] for name in names] == pytest.approx(errors)
            assert record["error_system"] == names[int(np.argmax(np.abs(errors)))]
    raters = []
    for column in range(3):
        apart = one.ratings[:, column] - np.delete(one.ratings, column, axis=1).mean(axis=1)
        raters.append(np.abs([apart[one.systems == name].mean() for name in names]))
    assert record["rater_error"] == pytest.approx(np.mean(raters))
    assert record["rater_error_largest"] == pytest.approx(np.mean(np.max(raters, axis=1)))


def test_a_noisier_judge_has_no_smaller_errors():
    """Its own means hold more of the humans', for their intervals are wider; its paired errors do not shrink."""
    human = crossed(noise=0.0, systems=6, articles=40)
    off = replace(human, scores=human.scores + 0.3)
    rng = np.random.default_rng(0)
    noisy = replace(off, scores=off.scores + 2 * rng.normal(size=len(off.scores)))
    quiet, loud = system_records([off, noisy])
    assert quiet["error"] == pytest.approx(0.3)
    assert loud["error"] > 0.29
    assert loud["error_high"] > quiet["error_high"]


def test_the_interval_of_a_distance_holds_it_and_is_not_below_zero():
    clusters = Clusters.of(np.arange(30), 200)
    errors = clusters.mean(1 + np.random.default_rng(1).normal(size=30))
    values, noise = np.abs(errors), np.abs(errors - errors[0])
    record = distances_record("error", np.stack([values, 2 * values]), np.stack([noise, 2 * noise]), clusters)
    assert 0 < record["error_low"] <= record["error"] <= record["error_high"]
    assert record["error_largest"] == 2 * record["error"]


def test_systems_that_are_right_but_for_noise_have_a_low_end_of_zero():
    """Of judges without any error, 12 of 12 systems, the low end is 0 in 95 % of data sets or more."""
    human = crossed(noise=0.0, systems=12, articles=25)
    lows = []
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(size=len(human.scores))
        (record,) = system_records([replace(human, scores=human.scores + 0.1 * noise)])
        lows.append((record["error_low"], record["error_largest_low"]))
    assert (np.array(lows) == 0).mean(axis=0).min() >= 0.9


def test_a_system_of_one_article_has_an_error_without_an_interval():
    given = crossed(systems=3, articles=8)
    keep = (given.systems != "system 0") | (given.groups == "a00")
    few = replace(given, **{
        name: getattr(given, name)[keep] for name in ("names", "scores", "groups", "systems", "ratings")
    })  # fmt: skip
    (record,) = system_records([few])
    rows = {row["system"]: row for row in record["ranking"]}
    assert rows["system 0"]["error"] is not None
    assert rows["system 0"]["error_low"] is rows["system 0"]["error_high"] is None
    assert rows["system 1"]["error_low"] is not None
    assert record["error_largest"] is not None
    assert record["error_largest_low"] is None


@pytest.mark.parametrize(
    ("given", "order", "error"),
    [
        (crossed(), "only means of ratings are known", None),
        (crossed(scale=None), "only means of ratings are known", "the humans' scale is unknown"),
        (crossed(systems=1), "all texts are of one system", "all texts are of one system"),
        (
            replace(crossed(), ratings=np.full((48, 2), np.nan), raters=("a", "b")),
            "no rater rated enough texts that others rated, too",
            "no text has a rating",
        ),
    ],
)
def test_what_is_not_there_is_null_with_a_reason(given, order, error):
    (record,) = system_records([given])
    assert record["pairwise_reason"] == f"Pairs are not compared with one rater: {order}."
    assert all(record[name] is None for name in ORDER)
    assert record["error_reason"] == (error and f"No errors of systems' means: {error}.")
    if error:
        assert all(record[name] is None for name in ERRORS)
        assert all(row["error"] is None for row in record["ranking"])


def test_raters_who_share_few_articles_count_by_their_texts():
    one = crossed(systems=3, articles=20)
    rng = np.random.default_rng(0)
    ratings = np.clip(one.ratings + rng.integers(-1, 2, (60, 4)), 1, 5)
    ratings[rng.random((60, 4)) < 0.5] = np.nan
    (record,) = system_records([replace(one, ratings=ratings, raters=tuple("abcd"))])
    assert 0 <= record["pairwise_ceiling_low"] <= record["pairwise_ceiling"] <= record["pairwise_ceiling_high"] <= 1
