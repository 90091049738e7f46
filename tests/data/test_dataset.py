"""Checks, joint dimension and split of a data set."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import JOINT, Dataset, completed, group_hash, rated, split_groups, validate, with_joint
from judgebench.runtime.errors import UserError
from judgebench.types import Example

GOOD = [
    Example(f"e{i}", f"g{i // 2}", f"s{i % 2}", f"article {i // 2}", "a summary", {"fluency": 3.0}) for i in range(4)
]
SCALE = {"fluency": (1.0, 5.0)}


def with_third(**changes):
    return Dataset(
        [*GOOD[:2], replace(GOOD[2], **changes), GOOD[3]], SCALE, places=[f"f line {i}" for i in range(1, 5)]
    )


def test_good_data_passes():
    validate(Dataset(GOOD, SCALE))
    validate(Dataset(GOOD, {}, {"fluency": np.full((4, 3), 2.0)}))
    validate(with_third(human={"fluency": 5.0 + 1e-9}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"output": ""}, "the judged text is empty; write it, or remove the example"),
        ({"output": " \n\t"}, "the judged text is empty"),
        ({"source": " "}, "the source is empty"),
        ({"human": {"fluency": 5.5}}, "the human score 5.5 for 'fluency' lies outside the data's own scale, 1 to 5"),
        ({"human": {"fluency": 0.0}}, "the human score 0 for 'fluency' lies outside"),
        ({"human": {"fluency": -math.inf}}, "the human score -inf for 'fluency' is not a finite number"),
    ],
)
def test_a_bad_example_is_named_with_its_place(changes, sentence):
    with pytest.raises(UserError, match=f"^f line 3, example 'e2': {sentence}"):
        validate(with_third(**changes))


def test_a_text_need_not_be_rated_but_each_dimension_on_some():
    validate(with_third(human={"fluency": math.nan}))
    unrated = [replace(one, human={"fluency": math.nan}) for one in GOOD]
    with pytest.raises(UserError, match=r"^nobody rated 'fluency': none of the 4 examples has a human score for it"):
        validate(Dataset(unrated, SCALE))
    validate(Dataset(unrated, SCALE, rated=False))


def test_every_example_gets_all_dimensions():
    assert completed(Dataset(GOOD, SCALE)).examples == GOOD
    some = completed(Dataset([replace(GOOD[0], human={}), replace(GOOD[1], human={"b": 1.0}), GOOD[2]], {})).examples
    assert [list(one.human) for one in some] == [["b", "fluency"]] * 3
    assert [rated(some, name) for name in ("b", "fluency")] == [[some[1]], [some[2]]]


def test_an_example_id_used_twice_is_told_with_both_places():
    with pytest.raises(UserError, match=r"^f line 3, example 'e0': this example_id is taken by f line 1, example 'e0'"):
        validate(with_third(example_id="e0"))


def test_a_group_is_one_article():
    with pytest.raises(UserError, match=r"f line 3, example 'e2': group 'g0' has another source or context here"):
        validate(with_third(group_id="g0"))


def test_no_example_and_no_dimension_are_told():
    with pytest.raises(UserError, match=r"the data holds no example"):
        validate(Dataset([], SCALE))
    with pytest.raises(UserError, match=r"example 'e0': has no human score"):
        validate(Dataset([replace(GOOD[0], human={})], {}))


def test_a_scale_for_no_dimension_is_told():
    with pytest.raises(UserError, match=r"scale: 'fluencie' is no dimension with human scores.*'fluency'"):
        validate(Dataset(GOOD, {"fluencie": (1.0, 5.0)}))


@pytest.mark.parametrize(("value", "problem"), [(9.0, "lies outside"), (-math.inf, "is not a finite number")])
def test_a_single_experts_bad_score_is_told_though_the_mean_may_hide_it(value, problem):
    ratings = np.full((4, 3), 1.0)
    ratings[2, 1] = value
    with pytest.raises(UserError, match=f"example 'e2': the score {value:g} of rater 2 for 'fluency' {problem}"):
        validate(Dataset(GOOD, SCALE, {"fluency": ratings}))


def test_group_hashes_are_fixed_for_all_time_and_tell_texts_apart():
    assert group_hash("abc") == "ba7816bf8f01"  # the first 12 digits of FIPS 180's example for SHA-256
    assert group_hash("a", "b") != group_hash("ab", "") != group_hash("", "ab")


BOTH = {"a": (1.0, 5.0), "b": (1.0, 5.0)}


def test_joint_is_the_mean_of_the_named_dimensions_for_means_and_for_each_expert():
    examples = [Example("x", "x", "s", "source", "text", {"a": 2.0, "b": 5.0, "other": 1.0})]
    ratings = {"a": np.array([[1.0, 3.0]]), "b": np.array([[5.0, 5.0]])}
    found = with_joint(Dataset(examples, BOTH, ratings), ("a", "b"))
    assert found.examples[0].human == {"a": 2.0, "b": 5.0, "other": 1.0, "joint": 3.5}
    assert found.ratings[JOINT].tolist() == [[3.0, 4.0]]
    assert found.scale[JOINT] == (1.0, 5.0)
    assert JOINT not in with_joint(Dataset(examples, BOTH), ("a", "b")).ratings
    half = with_joint(Dataset(examples, BOTH, {**ratings, "b": np.array([[5.0, math.nan]])}), ("a", "b"))
    np.testing.assert_array_equal(half.ratings[JOINT], [[3.0, math.nan]])


GROUPS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=40)
PER_MILLE = st.integers(0, 999)
SEEDS = st.integers(0, 2**32)


def dev_of(split):
    return {group for group, part in split.items() if part == "dev"}


@given(GROUPS, PER_MILLE, SEEDS)
def test_every_group_is_in_exactly_one_part_and_the_dev_part_has_the_promised_size(groups, per_mille, seed):
    split = split_groups(groups, per_mille / 1000, seed)
    n = len(set(groups))
    assert list(split) == list(dict.fromkeys(groups))
    assert set(split.values()) <= {"dev", "test"}
    half_up = (2 * per_mille * n + 1000) // 2000
    at_least_one = max(half_up, 1) if per_mille > 0 else 0
    assert len(dev_of(split)) == min(at_least_one, n - 1)


@given(st.data(), GROUPS, PER_MILLE, SEEDS)
def test_the_split_does_not_depend_on_the_order_of_the_file(data, groups, per_mille, seed):
    shuffled = data.draw(st.permutations(groups))
    assert split_groups(shuffled, per_mille / 1000, seed) == split_groups(groups, per_mille / 1000, seed)


@given(GROUPS, PER_MILLE, PER_MILLE, SEEDS)
def test_a_greater_share_only_adds_dev_groups(groups, one, other, seed):
    small, great = sorted((one / 1000, other / 1000))
    assert dev_of(split_groups(groups, small, seed)) <= dev_of(split_groups(groups, great, seed))


def test_seeds_draw_different_groups_and_each_group_gets_its_turn():
    groups = [str(i) for i in range(20)]
    drawn = [frozenset(dev_of(split_groups(groups, 0.1, seed))) for seed in range(200)]
    assert len(set(drawn)) > 50
    assert set().union(*drawn) == set(groups)
