"""Power: by hand, and by asking how often a difference that is there is found."""

import numpy as np
import pytest

from judgebench.metrics.levels import correlate
from judgebench.metrics.resampling import (
    FEWEST,
    SIGNIFICANCE,
    flipped_differences,
    flips,
    groups_needed,
    permutation_p_value,
)


def test_by_hand():
    # one group's spread: 0.1 * 10 / 3; 1.960 + 0.842 = 2.8016 of them over the root of the groups must be 0.1
    assert groups_needed(0.1, 0.1, 10) == np.ceil((2.8015852 * (1 / 3) / 0.1) ** 2) == 88
    assert groups_needed(-0.1, 0.1, 10) == 88
    assert groups_needed(0.2, 0.1, 10) == 22
    assert groups_needed(0.0, 0.1, 10) is None
    assert groups_needed(0.5, 0.0, 10) == FEWEST == 6


def test_fewer_groups_than_the_fewest_never_tell_a_difference():
    human = np.tile(np.arange(12.0), FEWEST)
    group = np.repeat(np.arange(FEWEST), 12)
    for groups, told in ((FEWEST - 1, False), (FEWEST, True)):
        held = group < groups
        # the clearest difference there is: one judge is always right, the other always wrong
        flipped, exact = flips(groups, 1000, 0)
        right, system = human[held], np.tile(np.arange(12), groups)
        one, other = (correlate("dataset", side, right, group[held], system, 2) for side in (right, -right))
        found = flipped_differences(one.minus(other), flipped)
        assert exact
        assert (permutation_p_value(2.0, found[1], exact) <= SIGNIFICANCE) == told


def judged(groups, rng):
    """Humans, and two judges of whom the first has less noise, part of it the article's own."""
    human = rng.integers(3, 16, groups * 8) / 3
    article = np.repeat(rng.normal(size=groups), 8)
    scores = [np.clip(np.round(human + 0.6 * article + s * rng.normal(size=len(human))), 1, 5) for s in (1.0, 1.35)]
    return (*scores, human, np.repeat(np.arange(groups), 8), np.tile(np.arange(8), groups))


def test_with_so_many_groups_a_difference_is_found_in_four_of_five_data_sets():
    rng = np.random.default_rng(0)

    def gap(groups, resamples):
        first, second, *rest = judged(groups, rng)
        one, other = (correlate("dataset", x, *rest, resamples=resamples) for x in (first, second))
        return one.minus(other)

    truth = gap(20_000, 0).values[1]
    needed = [groups_needed(truth, gap(60, 300).standard_errors()[1], 60) for _ in range(50)]
    groups = int(np.median(needed))
    found = 0
    for _ in range(400):
        low, high = gap(groups, 300).intervals()[1]
        found += not low <= 0 <= high
    assert found / 400 == pytest.approx(0.8, abs=0.09)
