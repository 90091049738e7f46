"""Means of few ratings: Wilson's interval, Student's t, cluster means by hand, and coverage on recorded ratings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.few_labels import (
    FEWEST_LABELLED,
    FewLabels,
    from_labels,
    means_not_refuted,
)
from tests.stats.recorded import needs_recorded, recorded

NAN = np.nan
SCALE = (1.0, 5.0)


def few(human, judge=None, groups=None, systems=None, scale=SCALE) -> FewLabels:
    human = np.asarray(human, dtype=float)
    count = len(human)
    return FewLabels(
        human,
        np.zeros(count) if judge is None else judge,
        np.arange(count) if groups is None else groups,
        np.zeros(count, dtype=int) if systems is None else systems,
        scale,
    )


@pytest.mark.parametrize(("successes", "count"), [(0, 10), (3, 10), (10, 10), (19, 20)])
def test_with_all_the_variance_there_can_be_it_is_wilsons_interval(successes: int, count: int) -> None:
    z = stats.norm.ppf(0.975)
    low, high = means_not_refuted(np.array([successes / count]), np.array([z * z / count]), np.zeros(1), (0.0, 1.0))
    theirs = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_without_ends_it_is_students_interval_drawn_to_the_other_systems() -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(size=40)
    alone = from_labels(few(human, scale=None))
    theirs = stats.ttest_1samp(human, 0.0).confidence_interval()
    assert (alone.low[0], alone.high[0]) == pytest.approx((theirs.low, theirs.high))
    both = from_labels(few(human, systems=np.tile([0, 1], 20), groups=np.repeat(np.arange(20), 2), scale=None))
    variances = np.array([human[0::2].var(ddof=1), human[1::2].var(ddof=1)])
    drawn = (19 * variances + 4 * variances.mean()) / 23
    half = stats.t.ppf(0.975, 19) * np.sqrt(drawn / 20)
    assert both.high - both.value == pytest.approx(half)


def test_of_these_very_articles_it_is_cochrans_interval() -> None:
    """Student's interval times the root of 1 - n / N; a point where all are labelled."""
    human = np.random.default_rng(0).normal(size=20)
    theirs = stats.ttest_1samp(human, 0.0).confidence_interval()
    these = from_labels(few(np.concatenate([human, np.full(30, NAN)]), scale=None), these=True)
    assert these.high[0] - these.low[0] == pytest.approx((theirs.high - theirs.low) * np.sqrt(1 - 20 / 50))
    whole = from_labels(few(human, scale=None), these=True)
    assert whole.low[0] == whole.value[0] == whole.high[0]


def test_articles_rated_in_part_count_by_their_share_of_texts() -> None:
    human = np.array([3.0, NAN, 4.0, 5.0, NAN, NAN])
    data = few(human, groups=np.array([0, 0, 1, 1, 2, 2]))
    assert data.unlabelled() == pytest.approx([1 - 2 / 3 * 3 / 4])


def test_a_system_rated_best_throughout_is_not_certain() -> None:
    alone = from_labels(few(np.full(10, 5.0)))
    assert (alone.value[0], alone.high[0]) == (5.0, 5.0)
    relative = stats.t.ppf(0.975, 9) ** 2 / 3 / 10  # of evenly spread ratings: nothing else is known
    assert alone.low[0] == pytest.approx((5 + relative) / (1 + relative))
    rest = np.tile([5.0, 4.0, 5.0, 5.0, 3.0], 2)
    beside = from_labels(
        few(np.concatenate([np.full(10, 5.0), rest]), groups=np.tile(np.arange(10), 2), systems=np.repeat([0, 1], 10))
    )
    # By hand: the other's squares are 6.4 and its mean 4.4, of which at most 3.4 * .6 a rating.
    pooled = (6.4 + 4 / 3) / (9 * 3.4 * 0.6 + 4)
    relative = stats.t.ppf(0.975, 9) ** 2 * pooled / 10
    assert beside.low[0] == pytest.approx((5 + relative) / (1 + relative))


def test_means_of_articles_of_many_texts_are_ratio_means_with_the_cluster_variance() -> None:
    groups = np.repeat(np.arange(6), [1, 2, 3, 1, 2, 3])
    human = np.random.default_rng(3).integers(1, 6, 12).astype(float)
    human_table = few(human, groups=groups).ratings
    sums, sizes = np.bincount(groups, human), np.bincount(groups)
    mean = sums.sum() / sizes.sum()
    assert human_table.mean[0] == pytest.approx(mean)
    variance = 6 / 5 * ((sums - mean * sizes) ** 2).sum() / sizes.sum() ** 2
    assert human_table.variance[0] / 6 == pytest.approx(variance)


def test_statsmodels_gives_the_same_clustered_error() -> None:
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    rng = np.random.default_rng(4)
    groups = np.sort(rng.integers(0, 15, 60))
    human = rng.integers(1, 6, 60) + 0.0
    fit = sm.OLS(human, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
    table = few(human, groups=groups).ratings
    count = len(np.unique(groups))
    assert table.squares[0] / count**2 == pytest.approx(float(fit.bse[0] ** 2))


def test_too_few_labels_leave_the_interval_open() -> None:
    found = from_labels(few([3.0] * (FEWEST_LABELLED - 1) + [NAN] * 5))
    assert found.value[0] == 3.0
    assert np.isnan(found.low[0])
    assert np.isnan(from_labels(few([NAN] * 5)).value[0])


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), min_size=5, max_size=30))
def test_the_interval_lies_on_the_scale_and_holds_the_mean(ratings: list[float]) -> None:
    found = from_labels(few(ratings))
    assert 1 <= found.low[0] <= found.value[0] <= found.high[0] <= 5
    assert found.high[0] - found.low[0] > 0


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), min_size=5, max_size=30))
def test_a_reversed_scale_reverses_the_interval(ratings: list[float]) -> None:
    ours, theirs = from_labels(few(ratings)), from_labels(few(6 - np.array(ratings)))
    assert ours.low == pytest.approx(6 - theirs.high)
    assert ours.high == pytest.approx(6 - theirs.low)


@needs_recorded
@pytest.mark.parametrize(("dimension", "plain"), [("consistency", 0.75), ("coherence", 0.98)])
def test_intervals_of_recorded_ratings_hold_where_the_plain_ones_do_not(dimension: str, plain: float) -> None:
    """Fifteen articles drawn from the sixty, and their means over all sixty as the truth."""
    columns = recorded(dimension, "gpt-4o")
    table = columns.human.reshape(60, 16)
    rng = np.random.default_rng(0)
    held, held_plain = [], []
    for _ in range(100):
        drawn = table[rng.integers(0, 60, 15)]
        found = from_labels(few(drawn.ravel(), groups=np.repeat(np.arange(15), 16), systems=np.tile(np.arange(16), 15)))
        held.append((found.low - 1e-9 <= table.mean(axis=0)) & (table.mean(axis=0) <= found.high + 1e-9))
        half = stats.t.ppf(0.975, 14) * drawn.std(axis=0, ddof=1) / 15**0.5
        held_plain.append(np.abs(drawn.mean(axis=0) - table.mean(axis=0)) <= half + 1e-9)
    assert 0.93 <= np.mean(held) <= 0.99
    assert np.mean(held_plain) < plain
