"""Diagnostics against scipy, by hand, and at their edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from judgebench.stats.maps import nearest_place
from judgebench.studies.evaluate import (
    SMOOTHING,
    bias,
    favorite,
    histogram,
    stability,
)
from judgebench.types import ScoreRange

FIVE = ScoreRange(1, 5)
samples = st.integers(1, 30).flatmap(lambda n: st.tuples(*[st.lists(st.floats(1, 5), min_size=n, max_size=n)] * 2))


@given(samples)
def test_distances_are_scipys(pair):
    first, second = map(np.array, pair)
    record = bias(first, second, FIVE, (1, 5))
    theirs = stats.wasserstein_distance((first - 1) / 4, (second - 1) / 4)
    assert record["bias_wasserstein"] == pytest.approx(theirs, abs=1e-12)
    q, p = (np.bincount(np.floor(v + 0.5 + 1e-9).astype(int) - 1, minlength=5) + SMOOTHING for v in (first, second))
    assert record["bias_kl"] == pytest.approx(special.rel_entr(p / p.sum(), q / q.sum()).sum())
    assert record["bias_kl"] >= 0


def test_the_range_does_not_matter_where_only_it_was_moved():
    rng = np.random.default_rng(0)
    human, judge = rng.uniform(1, 5, 50), rng.integers(1, 6, 50).astype(float)
    found = bias(judge, human, FIVE, (1, 5))
    assert bias(judge + 2, human, ScoreRange(3, 7), (1, 5)) == pytest.approx(found)
    assert bias(2 * judge - 1, human, ScoreRange(1, 9, 2), (1, 5)) == pytest.approx(found)
    assert bias(human, human, FIVE, (1, 5)) == {"bias_wasserstein": 0.0, "bias_kl": 0.0, "bias_shift": 0.0}


def test_bins_are_the_nearest_candidates_half_up():
    halves, values = np.array([1.0, 1.5, 2.0]), np.array([1, 1.24, 1.25, 1.75, 2, 7, -3, np.nan])
    assert nearest_place(values, halves).tolist() == [0, 0, 1, 2, 2, 2, 0, -1]
    assert nearest_place(np.array([2 + 1 / 3 + 1 / 6]), np.array(FIVE.values)).tolist() == [2]  # 2.5, rounded
    assert histogram(np.array([1.2, 1.4, 4.6]), FIVE).tolist() == [2, 0, 0, 0, 1]
    assert set(bias(np.ones(1), np.array([3.0]), FIVE, (3, 3)).values()) == {None}


def test_the_mode_is_the_lowest_of_equals():
    assert favorite(np.array([5.0, 2.0, 2.2, 5.0]), FIVE) == {"modal_score": 2.0, "modal_share": 0.5}
    assert favorite(np.array([3.4, 3.3, 1.0]), FIVE) == {"modal_score": 3.0, "modal_share": pytest.approx(2 / 3)}


def ranges(values, noise, resamples=500):
    """Spearman in several ranges, with resamples that scatter by `noise` around it."""
    rng = np.random.default_rng(0)
    return [np.hstack([np.full((3, 1), value), value + noise * rng.normal(size=(3, resamples))]) for value in values]


def test_unstable_is_what_varies_much_and_more_than_by_chance():
    assert stability(ranges([0.1, 0.3], 0)) == (pytest.approx(0.02**0.5), True)
    assert stability(ranges([0.1], 0.02)) == (None, False)
    assert stability(ranges([0.4, 0.2, 0.3, 0.4], 0.02))[1]
    assert not stability(ranges([0.4, 0.2, 0.3, 0.4], 0.2))[1]  # as much as chance
    assert not stability(ranges([0.40, 0.41, 0.42, 0.43], 0.001))[1]  # little, though more than chance
    assert not stability(ranges([0.4, 0.2], 0.02, resamples=0))[1]
