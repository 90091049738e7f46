"""Dealing: every batch once, about the same to everyone, in the places where Lightning's sampler finds them."""

from itertools import product

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from lightning.pytorch.overrides.distributed import UnrepeatedDistributedSampler

from judgebench.judges.planning import Batch, assign, assigned, plan
from judgebench.types import Condition, Example, Prompt, ScoreRange

COSTS = st.lists(st.integers(0, 10_000), max_size=40)


def makespan(costs, shares):
    return max(sum(costs[i] for i in share) for share in shares)


@given(COSTS, st.integers(1, 9))
def test_every_batch_is_dealt_once_in_the_order_of_the_plan(costs, hands):
    shares = assign(costs, hands)
    assert len(shares) == hands
    assert sorted(i for share in shares for i in share) == list(range(len(costs)))
    assert all(share == sorted(share) for share in shares)


@given(st.lists(st.integers(1, 100), max_size=7), st.integers(1, 3))
def test_no_one_has_more_than_four_thirds_of_what_the_best_dealing_gives_the_busiest(costs, hands):
    best = min(
        max(sum(cost for cost, to in zip(costs, dealing, strict=True) if to == hand) for hand in range(hands))
        for dealing in product(range(hands), repeat=len(costs))
    )
    # Graham's bound, exactly: 4/3 - 1/(3 hands)
    assert 3 * hands * makespan(costs, assign(costs, hands)) <= (4 * hands - 1) * best


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60), st.integers(1, 9))
def test_no_one_has_a_batch_more_than_whoever_has_least(costs, hands):
    shares = assign(costs, hands)
    least = min(sum(costs[i] for i in share) for share in shares)
    for share in shares:
        assert not share or sum(costs[i] for i in share) - min(costs[i] for i in share) <= least


@given(COSTS, st.integers(1, 9))
def test_the_sampler_gives_each_process_its_share_and_all_as_many(costs, hands):
    batches = [Batch(((f"prompt {i}",),)) for i in range(len(costs))]
    places = assigned(batches, costs, hands)
    found = [
        [places[at] for at in UnrepeatedDistributedSampler(places, num_replicas=hands, rank=rank, shuffle=False)]
        for rank in range(hands if places else 0)
    ]
    assert len({len(share) for share in found}) <= 1
    given = [[batch for batch in share if batch.groups] for share in found]
    assert given == [[batches[i] for i in share] for share in assign(costs, hands)][: len(given)]


def test_groups_stay_whole():
    condition, draw = Condition("coherence", ScoreRange(1, 5)), np.random.default_rng(0)
    prompts = [
        Prompt(
            Example(f"{group}/{i}", f"group {group}", "a", "", "", {}),
            condition,
            "",
            "",
            np.concatenate([np.full(100 + 17 * group, group), draw.integers(0, 99, 9)]).astype(np.int32),
        )
        for group in range(11)
        for i in range(3)
    ]
    batches = plan(prompts, 300)
    assert len(batches) > 3
    places = assigned(batches, [batch.tokens()[1] for batch in batches], 2)
    seen = [{p.example.group_id for batch in places[rank::2] for p in batch.prompts} for rank in (0, 1)]
    assert not seen[0] & seen[1]
    assert len(seen[0] | seen[1]) == 11
