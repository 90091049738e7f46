"""Intervals against scipy's, by hand, and where there is little to go by."""

import numpy as np
import pytest
from scipy import special, stats

from judgebench.metrics.levels import correlate
from judgebench.metrics.resampling import (
    CONFIDENCE,
    Resampled,
    bca_interval,
    expanded,
    group_weights,
    percentile_interval,
)

CORRELATIONS = (stats.pearsonr, stats.spearmanr, stats.kendalltau)


def data(groups=25, size=4):
    rng = np.random.default_rng(4)
    human = rng.integers(3, 16, groups * size) / 3
    judge = np.clip(np.round(human + rng.normal(size=len(human))), 1, 5)
    return judge, human, np.repeat(np.arange(groups), size), np.tile(np.arange(size), groups)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("size", [1, 4])
def test_both_intervals_are_scipys(which, size):
    judge, human, group, system = data(25, size)
    rows = np.arange(len(judge)).reshape(25, size)

    def statistic(drawn):
        index = rows[drawn].ravel()
        return CORRELATIONS[which](judge[index], human[index]).statistic

    ours = correlate("dataset", judge, human, group, system, resamples=300, seed=7)
    for method, found in (("percentile", ours.intervals()), ("BCa", ours.bca_intervals())):
        theirs = stats.bootstrap(
            (np.arange(25),),
            statistic,
            n_resamples=300,
            vectorized=False,
            method=method,
            rng=np.random.default_rng(7),
        ).confidence_interval
        assert found[which] == pytest.approx((theirs.low, theirs.high), abs=1e-10)


@pytest.mark.parametrize("level", ["dataset", "document", "system"])
def test_the_jackknife_leaves_out_each_group_in_turn(level):
    judge, human, group, system = data(6, 5)
    found = correlate(level, judge, human, group, system, resamples=10)
    for g in range(6):
        kept = group != g
        without = correlate(level, judge[kept], human[kept], group[kept], system[kept], resamples=0)
        assert found.jackknife[:, g] == pytest.approx(without.values, abs=1e-9)


def test_bca_by_hand():
    # Of 1000 resamples 600 lie below: z0 = 0.2533; jackknife distances -2, -1, 3: a = 18 / (6 * 14^1.5) = 0.05727.
    resampled = np.arange(1000.0)
    z0, a = 0.2533471, 18 / (6 * 14**1.5)
    ends = [special.ndtr(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in (-1.9599640, 1.9599640)]
    found = bca_interval(599.5, resampled, np.array([12.0, 11.0, 7.0]))
    assert found == pytest.approx([999 * end for end in ends], abs=1e-3)


def test_where_nothing_varies_the_interval_is_a_point():
    assert bca_interval(0.4, np.full(50, 0.4), np.full(9, 0.4)) == pytest.approx((0.4, 0.4), abs=1e-15)


def test_a_value_beyond_all_resamples_has_an_interval_all_the_same():
    low, high = bca_interval(5.0, np.linspace(0, 1, 100), np.array([1.0, 2.0, 4.0]))
    assert 0 <= low <= high <= 1
    assert bca_interval(0.0, np.empty(0), np.empty(0)) is None


def test_without_bias_and_acceleration_bca_is_the_percentile_interval():
    resampled = np.random.default_rng(0).normal(size=1001)
    middle = float(np.median(resampled))
    assert bca_interval(middle, resampled, np.array([1.0, -1.0])) == pytest.approx(
        percentile_interval(resampled), abs=1e-9
    )


def test_a_paired_difference_goes_resample_by_resample():
    one, other = (Resampled(*(np.random.default_rng(s).normal(size=(3, n)) for n in (1, 5, 4))) for s in (0, 1))
    one, other = (Resampled(r.values[:, 0], r.resampled, r.jackknife) for r in (one, other))
    gap = one.minus(other)
    for name in ("values", "resampled", "jackknife"):
        assert (getattr(gap, name) == getattr(one, name) - getattr(other, name)).all()
    assert gap.standard_errors() == pytest.approx(np.std(one.resampled - other.resampled, axis=1, ddof=1))
    with pytest.raises(ValueError, match="same groups and resamples"):
        one.minus(Resampled(one.values, one.resampled[:, 1:], one.jackknife))


def test_a_bca_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(200):
        judge, human = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 60).T
        alone = np.arange(60)
        low, high = correlate("dataset", judge, human, alone, alone, resamples=300, seed=seed).bca_intervals()[0]
        covered += low <= 0.8 <= high
    assert 0.88 <= covered / 200 <= 0.99
    assert group_weights(60, 300, 0).shape == (300, 60)


@pytest.mark.parametrize("groups", [2, 6, 40])
def test_expanded_ends_make_a_normal_interval_students(groups):
    """Resamples of a mean spread by sqrt((G - 1) / G) of its standard error; at these ends they reach as far as t."""
    low, high = expanded(groups)
    spread = np.sqrt((groups - 1) / groups)
    assert stats.norm.ppf(low) * spread == pytest.approx(stats.t.ppf(0.025, groups - 1))
    assert high == 1 - low
    assert expanded(10**7) == pytest.approx(CONFIDENCE, abs=1e-6)
