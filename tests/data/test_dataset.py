"""Checks, joint dimension, limit and split of a data set."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import (
    JOINT,
    Dataset,
    RatingDataset,
    completed,
    group_hash,
    rated,
    split_groups,
    validate,
    with_joint,
)
from judgebench.types import Example
from judgebench.words.errors import UserError

GOOD = [
    Example(f"e{i}", f"g{i // 2}", f"s{i % 2}", f"article {i // 2}", "a summary", {"fluency": 3.0}) for i in range(4)
]
SCALE = {"fluency": (1.0, 5.0)}
UNRATED = [replace(example, human={"fluency": math.nan}) for example in GOOD]


def with_third(**changes):
    return Dataset(
        [*GOOD[:2], replace(GOOD[2], **changes), GOOD[3]], SCALE, places=[f"f line {i}" for i in range(1, 5)]
    )


def of_experts(value):
    ratings = np.full((4, 3), 1.0)
    ratings[2, 1] = value
    return Dataset(GOOD, SCALE, {"fluency": ratings})


def test_good_data_passes():
    validate(Dataset(GOOD, {}, {"fluency": np.full((4, 3), 2.0)}))
    validate(with_third(human={"fluency": 5.0 + 1e-9}))
    validate(with_third(human={"fluency": math.nan}))
    validate(Dataset(UNRATED, SCALE, rated=False))


THIRD = "^f line 3, example 'e2': "


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (with_third(output=" \n\t"), f"{THIRD}the judged text is empty; write it, or remove the example"),
        (with_third(source=" "), f"{THIRD}the source is empty"),
        (with_third(human={"fluency": 5.5}), f"{THIRD}the human score 5.5 for 'fluency' lies outside the .*, 1 to 5"),
        (with_third(human={"fluency": -math.inf}), f"{THIRD}the human score -inf for 'fluency' is not a finite number"),
        (with_third(group_id="g0"), f"{THIRD}group 'g0' has another source or context here"),
        (with_third(example_id="e0"), "^f line 3, .*'e0': this example_id is taken by f line 1, example 'e0'"),
        # which the mean may hide
        (of_experts(9.0), "example 'e2': the score 9 of rater 2 for 'fluency' lies outside"),
        (of_experts(-math.inf), "example 'e2': the score -inf of rater 2 for 'fluency' is not a finite number"),
        (Dataset(UNRATED, SCALE), "^'fluency' is unrated: none of the 4 examples has a human score for it"),
        (Dataset([], SCALE), "the data holds no example"),
        (Dataset([replace(GOOD[0], human={})], {}), "example 'e0': has no human score"),
        (Dataset(GOOD, {"fluencie": (1.0, 5.0)}), "scale: 'fluencie' is not a dimension with human scores.*'fluency'"),
    ],
)
def test_a_fault_is_named_with_its_place(data, sentence):
    with pytest.raises(UserError, match=sentence):
        validate(data)


def test_every_example_gets_all_dimensions():
    assert completed(Dataset(GOOD, SCALE)).examples == GOOD
    some = completed(Dataset([replace(GOOD[0], human={}), replace(GOOD[1], human={"b": 1.0}), GOOD[2]], {})).examples
    assert [list(example.human) for example in some] == [["b", "fluency"]] * 3
    assert [rated(some, name) for name in ("b", "fluency")] == [[some[1]], [some[2]]]


def test_sources_of_a_group_that_differ_at_their_ends_alone_are_one_source():
    sources = ["a\n", " a", "b", "b  b"]
    examples = [replace(example, source=source) for example, source in zip(GOOD, sources, strict=True)]
    assert [example.source for example in completed(Dataset(examples, {})).examples] == ["a\n", "a\n", "b", "b  b"]


def test_group_hashes_are_fixed_for_all_time_and_tell_texts_apart():
    assert group_hash("abc") == "ba7816bf8f01"  # the first 12 digits of FIPS 180's example for SHA-256
    assert group_hash("a", "b") != group_hash("ab", "") != group_hash("", "ab")


def test_joint_is_the_mean_of_the_named_dimensions_for_means_and_for_each_expert():
    both = {"a": (1.0, 5.0), "b": (1.0, 5.0)}
    examples = [Example("x", "x", "s", "source", "text", {"a": 2.0, "b": 5.0, "other": 1.0})]
    ratings = {"a": np.array([[1.0, 3.0]]), "b": np.array([[5.0, 5.0]])}
    joint = with_joint(Dataset(examples, both, ratings), ("a", "b"))
    assert joint.examples[0].human == {"a": 2.0, "b": 5.0, "other": 1.0, "joint": 3.5}
    assert joint.ratings[JOINT].tolist() == [[3.0, 4.0]]
    assert joint.scale[JOINT] == (1.0, 5.0)
    assert JOINT not in with_joint(Dataset(examples, both), ("a", "b")).ratings
    half = with_joint(Dataset(examples, both, {**ratings, "b": np.array([[5.0, math.nan]])}), ("a", "b"))
    np.testing.assert_array_equal(half.ratings[JOINT], [[3.0, math.nan]])


GROUPS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=40)
PER_MILLE = st.integers(0, 999)
SEEDS = st.integers(0, 2**32)


def dev_of(split):
    return {group for group, part in split.items() if part == "dev"}


@given(st.data(), GROUPS, PER_MILLE, PER_MILLE, SEEDS)
def test_the_split_has_the_promised_size_whatever_the_order_and_grows_with_the_share(
    data, groups, per_mille, more, seed
):
    split = split_groups(groups, per_mille / 1000, seed)
    n = len(set(groups))
    assert list(split) == list(dict.fromkeys(groups))
    assert set(split.values()) <= {"dev", "test"}
    half_up = (2 * per_mille * n + 1000) // 2000
    at_least_one = max(half_up, 1) if per_mille > 0 else 0
    assert len(dev_of(split)) == min(at_least_one, n - 1)
    assert split_groups(data.draw(st.permutations(groups)), per_mille / 1000, seed) == split
    small, great = sorted((per_mille / 1000, more / 1000))
    assert dev_of(split_groups(groups, small, seed)) <= dev_of(split_groups(groups, great, seed))


def test_seeds_draw_different_groups_and_each_group_gets_its_turn():
    groups = [str(i) for i in range(20)]
    drawn = [frozenset(dev_of(split_groups(groups, 0.1, seed))) for seed in range(200)]
    assert len(set(drawn)) > 50
    assert set().union(*drawn) == set(groups)


# --- the base of data sets --------------------------------------------------------------------------------------------

ORDER = ["b", "a", "b", "c", "a", "d", "c", "e"]


class Letters(RatingDataset):
    """Groups named by letters, one example for each entry of ORDER, its rank as its rating."""

    name = "letters"
    loads = 0

    def load(self):
        self.loads += 1
        examples = [
            Example(f"e{i}", g, "s", f"article {g}", "text", {"fluency": float(i)}) for i, g in enumerate(ORDER)
        ]
        ratings = np.arange(2 * len(ORDER), dtype=float).reshape(-1, 2)
        return Dataset(examples, {"fluency": (0.0, 99.0)}, {"fluency": ratings})


def ready(**arguments):
    data = Letters(**arguments)
    data.setup()
    return data


@pytest.mark.parametrize(("limit", "kept"), [(None, "bacde"), (1, "b"), (3, "bac"), (99, "bacde")])
def test_the_limit_keeps_whole_groups_and_their_ratings(limit, kept):
    data = ready(limit_groups=limit)
    rows = [i for i, group in enumerate(ORDER) if group in kept]
    assert [example.example_id for example in data.examples] == [f"e{i}" for i in rows]
    assert data.ratings["fluency"].tolist() == [[2.0 * i, 2.0 * i + 1] for i in rows]
    assert list(data.split) == list(kept)
    assert data.dimensions == ("fluency",)


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_a_small_limit_leaves_a_dev_and_a_test_group_but_where_the_share_is_0(limit):
    for seed in range(10):
        assert set(ready(limit_groups=limit, seed=seed).split.values()) == {"dev", "test"}
    assert set(ready(limit_groups=limit, dev_share=0).split.values()) == {"test"}


def test_setup_loads_once():
    data = Letters()
    data.setup()
    data.setup("predict")
    assert data.loads == 1


@pytest.mark.parametrize(
    "arguments",
    [{"path": 5}, {"limit_groups": 0}, {"limit_groups": 1.5}, {"limit_groups": True}, {"dev_share": 1},
     {"dev_share": -0.1}, {"dev_share": math.nan}, {"dev_share": "0.1"}, {"seed": -1}, {"seed": 0.5}],
)  # fmt: skip
def test_arguments_out_of_bounds_are_refused(arguments):
    (key,) = arguments
    with pytest.raises(UserError, match=rf"^data\.{key}: "):
        Letters(**{key: arguments[key]})
