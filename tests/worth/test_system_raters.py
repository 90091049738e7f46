"""Judges compared with one rater over systems: plain loops on recorded ratings, and what is not there."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from judgebench.stats.clusters import Clusters, expanded
from judgebench.stats.points import cross_fitted
from judgebench.worth.system_raters import ERRORS, ORDER, raters_record, with_distance_interval
from tests.stats.test_variance import side
from tests.worth.recorded import needs_recorded, recorded
from tests.worth.test_systems import crossed


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
    record, _ = raters_record(one)
    for name, values in shares.items():
        assert record[name] == pytest.approx(values[0], abs=1e-12)
        low, high = np.quantile(values[1:], expanded(60))
        assert (record[f"{name}_low"], record[f"{name}_high"]) == pytest.approx((low, high), abs=1e-12)


@needs_recorded
def test_errors_of_means_are_those_of_plain_loops():
    one = of_recorded()
    record, by_system = raters_record(one)
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
    (quiet, _), (loud, _) = raters_record(off), raters_record(noisy)
    assert quiet["error"] == pytest.approx(0.3)
    assert loud["error"] > 0.29
    assert loud["error_high"] > quiet["error_high"]


def test_the_interval_of_a_distance_holds_it_and_is_not_below_zero():
    clusters = Clusters.of(np.arange(30), 200)
    values = np.abs(clusters.mean(np.random.default_rng(1).normal(size=30)))
    record = with_distance_interval("error", values, clusters)
    assert 0 <= record["error_low"] <= record["error"] <= record["error_high"]


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
    record, by_system = raters_record(given)
    assert record["pairwise_reason"] == f"Pairs are not compared with one rater: {order}."
    assert all(record[name] is None for name in ORDER)
    assert record["error_reason"] == (error and f"No errors of systems' means: {error}.")
    if error:
        assert all(record[name] is None for name in ERRORS)
        assert by_system == {}


def test_raters_who_share_few_articles_count_by_their_texts():
    one = crossed(systems=3, articles=20)
    rng = np.random.default_rng(0)
    ratings = np.clip(one.ratings + rng.integers(-1, 2, (60, 4)), 1, 5)
    ratings[rng.random((60, 4)) < 0.5] = np.nan
    record, _ = raters_record(replace(one, ratings=ratings, raters=tuple("abcd")))
    assert 0 <= record["pairwise_ceiling_low"] <= record["pairwise_ceiling"] <= record["pairwise_ceiling_high"] <= 1
