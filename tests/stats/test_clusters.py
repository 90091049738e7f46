"""The one engine of resampling: what it computes from weights is what the resampled texts themselves would give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats import clusters
from judgebench.stats.bradley_terry import AGREEMENT_MEASURES, MEASURES, Preferences, comparative
from judgebench.stats.clusters import (
    CONFIDENCE,
    MOST_LEFT_OUT,
    Clusters,
    affordable,
    expanded,
    group_weights,
    jackknife,
    left_out,
    quantiles,
    unknown,
    weights_of,
    with_agreement_interval,
    with_intervals,
)
from judgebench.studies.evaluate import CHANGES, MEANS, robustness
from judgebench.types import ScoreRange


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.floats(-9, 9), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 3),
)
def test_sums_and_means_are_those_of_the_texts_drawn(texts, seed):
    groups, values, where = (np.array(column) for column in zip(*texts, strict=True))
    clusters = Clusters.of(groups, resamples=5, seed=seed)
    sums, means = clusters.sums(values, where), clusters.mean(values, where)
    assert len(clusters.weights) == (6 if clusters.count > 1 else 1)
    for weights, total, mean in zip(clusters.weights.astype(int), sums, means, strict=True):
        drawn = np.repeat(values[where], weights[clusters.number[where]])
        assert total == pytest.approx(drawn.sum(), abs=1e-9)
        assert mean == pytest.approx(drawn.mean() if len(drawn) else np.nan, abs=1e-9, nan_ok=True)
    columns = np.stack([values, 2 * values], axis=1)
    assert clusters.sums(columns, where) == pytest.approx(np.stack([sums, 2 * sums], axis=1), abs=1e-9)
    assert clusters.totals(columns).sum(axis=0) == pytest.approx(columns.sum(axis=0), abs=1e-9)


def attacked(rows, groups):
    rng = np.random.default_rng(1)
    clean = rng.integers(1, 6, 36).astype(float)
    raised = np.minimum(5, clean + rng.integers(-1, 3, 36))
    record = robustness(clean[rows], raised[rows], ScoreRange(1, 5), groups)
    return {name: record[name] for name in (*MEANS, *CHANGES)}, record


def compared(rows, groups):
    rng = np.random.default_rng(3)
    human = np.round(rng.normal(size=36), 1) * (rng.random(36) < 0.8)
    record = comparative(rng.random(36)[rows], rng.random(36)[rows], human[rows], groups)
    return {name: record[name] for name in (*MEASURES, "decided_consistency")}, record


def preferred(rows, groups):
    rng = np.random.default_rng(2)
    human = np.round(rng.normal(size=36)) / 2
    judge = np.clip(np.round(human / 5 + rng.normal(scale=0.2, size=36), 1), -0.5, 0.5)
    record = Preferences(judge[rows], human[rows], rng.choice([0.5, 1.0], 36)[rows], groups).agreement(0.1)
    return {name: record[name] for name in AGREEMENT_MEASURES}, record


@pytest.mark.parametrize("figures", [attacked, compared, preferred])
def test_figures_have_the_intervals_of_texts_resampled_one_by_one(figures):
    group = np.repeat(np.arange(9), 4)
    _, record = figures(np.arange(36), Clusters.of(group, 60, 3))
    drawn = []
    for counts in group_weights(9, 60, 3):
        rows = np.concatenate([np.flatnonzero(group == g) for g in range(9) for _ in range(counts[g])])
        copies = np.repeat(np.arange(9), 4)  # an article that was drawn twice is two
        drawn.append(figures(rows, Clusters.of(copies, 0))[0])
    for name in drawn[0]:
        ends = np.quantile([one[name] for one in drawn], CONFIDENCE)
        assert [record[f"{name}_low"], record[f"{name}_high"]] == pytest.approx(ends, abs=1e-10), name


def test_resamples_are_scipys():
    values = np.random.default_rng(3).normal(size=40)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=200, rng=np.random.default_rng(7), method="percentile")
    ours = Clusters.of(np.arange(40), 200, 7).mean(values)[1:]
    assert ours == pytest.approx(theirs.bootstrap_distribution, abs=1e-12)
    assert Clusters.of(np.arange(40), 200, 7).weights is Clusters.of(np.arange(40), 200, 7).weights, "there is one"


def test_very_many_groups_have_fewer_resamples(monkeypatch):
    assert (affordable(40, 1000), affordable(10**5, 1000), affordable(10**7, 1000), affordable(10**7, 50)) == (
        *(1000, 500, 200),
        50,
    )
    monkeypatch.setattr(clusters, "MOST_WEIGHTS", 300 * 41)
    drawn = Clusters.of(np.arange(41), 1000, 5)
    assert (drawn.resamples, drawn.weights.shape) == (300, (301, 41))
    np.testing.assert_array_equal(drawn.weights[1:], group_weights(41, 1000, 5)[:300])


@pytest.mark.parametrize("groups", [2, 6, 40])
def test_expanded_ends_make_a_normal_interval_students(groups):
    """Resamples of a mean spread by sqrt((G - 1) / G) of its standard error; at these ends they reach as far as t."""
    low, high = expanded(groups)
    assert stats.norm.ppf(low) * np.sqrt((groups - 1) / groups) == pytest.approx(stats.t.ppf(0.025, groups - 1))
    assert high == 1 - low
    assert expanded(10**7) == pytest.approx(CONFIDENCE, abs=1e-6)
    assert expanded(1) == CONFIDENCE


def test_a_record_has_an_interval_or_none():
    clusters = Clusters.of(["a", "b", "c"], resamples=100)
    mean = clusters.mean(np.array([1.0, 2.0, 6.0]))
    some = np.where(np.arange(101) % 2, np.nan, mean)  # undefined in every other resample
    record = clusters.record({"mean": mean, "some": some, "none": np.full(101, np.nan)})
    assert [record["mean"], record["mean_low"], record["mean_high"]] == [3, *np.quantile(mean[1:], expanded(3))]
    assert [record["some_low"], record["some_high"]] == pytest.approx(np.quantile(some[2::2], expanded(3)))
    assert {name: value for name, value in record.items() if "none" in name} == unknown(["none"])
    alone = Clusters.of(["a", "a"])
    assert alone.record({"x": alone.mean(np.array([1.0, 2.0]))}) == {"x": 1.5, "x_low": None, "x_high": None}
    assert weights_of(0).shape == (1, 0)


@pytest.mark.parametrize(("resampled", "ends"), [([2.0, 3.0], [1.0, 2.95]), ([-1.0, 0.0], [-0.95, 1.0]),
                                                  ([0.0, 2.0], [0.1, 1.9])])  # fmt: skip
def test_an_interval_is_extended_to_its_number(resampled, ends):
    record = with_intervals({"x": np.array([1.0, *resampled])}, (0.05, 0.95))
    assert [record[name] for name in ("x", "x_low", "x_high")] == pytest.approx([1.0, *ends])


def test_the_jackknife_leaves_out_each_group_in_turn():
    groups, values = np.array(["b", "a", "b", "c"]), np.array([1.0, 2.0, 3.0, 6.0])
    figures = jackknife(lambda rows: {"sum": values[rows].sum(), "three": 1.0 if len(rows) == 3 else None}, groups)
    assert figures["sum"].tolist() == [12, 10, 8, 6]
    np.testing.assert_array_equal(figures["three"], [np.nan, 1, np.nan, 1])
    assert jackknife(lambda rows: {"n": len(rows)}, groups[:1])["n"].tolist() == [1]
    rows = left_out(2 * MOST_LEFT_OUT + 1)  # many groups are left out a few at a time
    assert len(rows) <= MOST_LEFT_OUT
    assert ((rows == 0).sum(axis=0) == 1).all()


def test_interval_of_agreement_by_hand():
    values = 1 - np.exp(np.array([-1.0, -1.1, -0.9, -1.0, -1.0]))
    record = with_agreement_interval("kappa", values)
    far = stats.t.ppf(0.975, 3) * (3 / 4 * 0.02) ** 0.5
    expected = [1 - np.exp(-1.0), 1 - np.exp(-1.0 + far), 1 - np.exp(-1.0 - far)]
    assert list(record.values()) == pytest.approx(expected, abs=1e-12)
    for without in (values[:2], np.array([0.5, 0.4, np.nan]), np.array([1.0, 1.0, 1.0])):
        assert with_agreement_interval("kappa", without) == {"kappa": without[0], "kappa_low": None, "kappa_high": None}
    assert with_agreement_interval("kappa", np.full(3, np.nan))["kappa"] is None
    far_below = with_agreement_interval("kappa", np.array([0.5, 0.9, -0.9]))
    assert (far_below["kappa_low"], 0.99 < far_below["kappa_high"] < 1) == (-1.0, True)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0, 0.5))
def test_quantiles_are_numpys(numbers, low):
    values = np.array(numbers)
    expected = np.quantile(values, (low, 1 - low))
    np.testing.assert_allclose(quantiles(values, (low, 1 - low)), expected, rtol=1e-12, atol=1e-9)
