"""Levels of comparison, their resamples built one by one, and paired differences."""

import numpy as np
import pytest

from judgebench.stats import correlation
from judgebench.stats.clusters import Clusters, group_weights
from judgebench.stats.correlation import kendall, pearson, spearman
from judgebench.studies.evaluate import _sentence

ALL = (pearson, spearman, kendall)


def correlate(level, judge, human, group, system, resamples=1000, seed=0, **more):
    return correlation.correlate(level, judge, human, Clusters.of(group, resamples, seed), system, **more)


def data(seed=0, groups=12, systems=5, whole=True):
    rng = np.random.default_rng(seed)
    group = np.repeat([f"article {g}" for g in range(groups)], systems)
    system = np.tile([f"system {s}" for s in range(systems)], groups)
    human = rng.integers(3, 16, len(group)) / 3
    judge = np.clip(np.round(human + rng.normal(size=len(group))), 1, 5)
    keep = np.ones(len(group), dtype=bool) if whole else rng.random(len(group)) < 0.5
    return judge[keep], human[keep], group[keep], system[keep]


def drawn(columns, row):
    """The texts of a resample; an article that was drawn twice is two."""
    group = columns[2]
    parts = [
        np.flatnonzero(group == name) for name, times in zip(np.unique(group), row, strict=True) for _ in range(times)
    ]
    judge, human, _, system = (column[np.concatenate(parts)] for column in columns)
    return judge, human, np.repeat(np.arange(len(parts)), [len(part) for part in parts]), system


def by_system(judge, human, group, system):
    names = np.unique(system)
    x, y = (np.array([v[system == s].mean() for s in names]).round(12) for v in (judge, human))
    return [f(x, y) for f in ALL]


def by_document(judge, human, group, system):
    return np.mean([[f(judge[group == g], human[group == g]) for f in ALL] for g in np.unique(group)], axis=0)


def by_pair(judge, human, group, system):
    return [f(judge, human) for f in ALL]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("level", "directly"), [("dataset", by_pair), ("document", by_document), ("system", by_system)]
)
def test_each_level_is_what_it_says_and_so_are_its_resamples(level, directly, whole):
    columns = data(whole=whole)
    found = correlate(level, *columns, resamples=30, seed=5)
    assert found.values[:, 0] == pytest.approx(directly(*columns), abs=1e-12)
    for b, row in enumerate(group_weights(found.groups, 30, 5)):
        assert found.values[:, 1 + b] == pytest.approx(directly(*drawn(columns, row)), abs=1e-9)


def test_equal_system_means_tie_whatever_the_order_of_their_sum():
    judge = np.array([0.1, 0.2, 0.3, 0.3, 0.2, 0.1])
    system = np.array(["a"] * 3 + ["b"] * 3)
    found = correlate("system", judge, np.arange(6.0), np.array([*"xyzxyz"]), system, resamples=50)
    assert found.constant
    assert (found.values[:, 0] == 0).all()


def test_over_systems_each_resample_draws_systems_too():
    columns = data(groups=8, systems=4, whole=False)
    found, names = correlate("system", *columns, resamples=40, seed=5), np.unique(columns[3])
    draws = np.random.default_rng([5, 2]).integers(0, len(names), (40, len(names)))
    for b, (row, systems) in enumerate(zip(group_weights(found.groups, 40, 5), names[draws], strict=True)):
        judge, human, _, system = drawn(columns, row)
        there = [name for name in systems if name in system]
        x, y = (np.array([v[system == name].mean().round(12) for name in there]) for v in (judge, human))
        expected = [f(x, y) for f in ALL] if len(set(there)) > 1 else [np.nan] * 3
        assert found.over_systems[:, b] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_articles_whose_humans_agree_on_one_score_are_counted_and_left_out_beside():
    judge = np.array([1, 2, 3, 3, 3, 3, 1, 2, 3.0])
    human = np.array([1, 2, 3, 1, 2, 3, 5, 5, 5.0])
    group = np.repeat(["a", "b", "c"], 3)
    found = correlate("document", judge, human, group, group, resamples=10)
    assert (found.constant_groups, found.human_constant_groups) == (2, 1)
    assert found.varied == pytest.approx([1 / 2] * 3)
    perfect = correlate("document", human, human, group, group, resamples=0)
    assert perfect.values[:, 0] == pytest.approx([2 / 3] * 3)
    assert perfect.varied == pytest.approx([1.0] * 3)
    silent = correlate("document", judge, np.full(9, 2.0), group, group, resamples=0)
    assert (silent.varied, silent.human_constant_groups, silent.missing) == (None, 3, None)


@pytest.mark.parametrize(
    ("level", "rows", "reason"),
    [
        ("system", slice(None), "of one system"),
        ("document", slice(None, None, 3), "no group has two texts"),
        ("dataset", slice(1), "there is one text"),
        ("dataset", slice(0), "nobody rated"),
    ],
)
def test_what_cannot_be_computed_has_a_reason_and_no_interval(level, rows, reason):
    judge, human, group, _ = (column[rows] for column in data(systems=3))
    found = correlate(level, judge, human, group, np.full(len(judge), "one"), resamples=20)
    assert reason in _sentence(found)
    assert found.values.shape == (3, 1)
    assert not found.constant
    judge, human, group, _ = data()
    system, alone = np.arange(len(judge)), np.full(len(judge), "one")
    found = correlate(level, judge, human, alone, system, resamples=20)
    assert found.known
    assert "there is one group" in _sentence(found)
    same = correlate(level, np.full(len(judge), 0.1), human, group, system, resamples=20)
    assert same.constant
    assert (same.values == 0).all()


@pytest.mark.parametrize("level", ["dataset", "document", "system"])
def test_the_jackknife_leaves_out_each_group_in_turn(level):
    judge, human, group, system = data()
    found = correlate(level, judge, human, group, system, resamples=10)
    for g, name in enumerate(np.unique(group)):
        rest = (column[group != name] for column in (judge, human, group, system))
        assert found.jackknife[:, g] == pytest.approx(correlate(level, *rest, resamples=0).values[:, 0], abs=1e-9)
