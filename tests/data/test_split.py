from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import split_groups

GROUPS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=40)
PER_MILLE = st.integers(0, 999)
SEEDS = st.integers(0, 2**32)


def dev_of(split: dict[str, str]) -> set[str]:
    return {group for group, part in split.items() if part == "dev"}


@given(GROUPS, PER_MILLE, SEEDS)
def test_every_group_is_in_exactly_one_part_and_the_dev_part_has_the_promised_size(
    groups: list[str], per_mille: int, seed: int
) -> None:
    split = split_groups(groups, per_mille / 1000, seed)
    n = len(set(groups))
    assert list(split) == list(dict.fromkeys(groups))
    assert set(split.values()) <= {"dev", "test"}
    half_up = (2 * per_mille * n + 1000) // 2000
    at_least_one = max(half_up, 1) if per_mille > 0 else 0
    assert len(dev_of(split)) == min(at_least_one, n - 1)


@given(st.data(), GROUPS, PER_MILLE, SEEDS)
def test_the_split_does_not_depend_on_the_order_of_the_file(
    data: st.DataObject, groups: list[str], per_mille: int, seed: int
) -> None:
    shuffled = data.draw(st.permutations(groups))
    assert split_groups(shuffled, per_mille / 1000, seed) == split_groups(groups, per_mille / 1000, seed)


@given(GROUPS, PER_MILLE, PER_MILLE, SEEDS)
def test_a_greater_share_only_adds_dev_groups(groups: list[str], one: int, other: int, seed: int) -> None:
    small, great = sorted((one / 1000, other / 1000))
    assert dev_of(split_groups(groups, small, seed)) <= dev_of(split_groups(groups, great, seed))


def test_seeds_draw_different_groups_and_each_group_gets_its_turn() -> None:
    groups = [str(i) for i in range(20)]
    drawn = [frozenset(dev_of(split_groups(groups, 0.1, seed))) for seed in range(200)]
    assert len(set(drawn)) > 50
    assert set().union(*drawn) == set(groups)


@pytest.mark.parametrize(
    ("n", "share", "dev"),
    [(100, 0.1, 10), (100, 0.145, 15), (4, 0.1, 1), (25, 0.1, 3), (24, 0.1, 2), (3, 0.99, 2), (1, 0.5, 0), (5, 0, 0)],
)
def test_sizes_worked_out_by_hand(n: int, share: float, dev: int) -> None:
    assert len(dev_of(split_groups(map(str, range(n)), share, seed=0))) == dev


def test_no_groups_give_an_empty_split() -> None:
    assert split_groups([], 0.5, 0) == {}
