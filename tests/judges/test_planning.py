from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from judgebench.judges.engine.packing import unique_tokens
from judgebench.judges.planning import plan, remaining, roots, unique_batches
from judgebench.types import Condition, Example, Prompt, ScoreRange

CONDITIONS = [Condition("coherence", ScoreRange(1, 5)), Condition("coherence", ScoreRange(0, 4))]


def prompts_of(sizes):
    """sizes: for each group the tail lengths of its prompts; two conditions of them all."""
    return [
        Prompt(
            Example(f"{g}/{i}", str(g), str(i), "", "", {}),
            condition,
            "",
            "",
            np.array([1] * 20 + [100 + g] * 10 + [200 + i] * tail, np.int32),
        )
        for condition in CONDITIONS
        for g, tails in enumerate(sizes)
        for i, tail in enumerate(tails)
    ]


groups = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=5), min_size=1, max_size=8)


@given(groups, st.integers(5, 300))
def test_every_prompt_is_planned_once_in_order(sizes, budget):
    prompts = prompts_of(sizes)
    batches, known = plan(prompts, budget), roots(prompts)
    assert [id(p) for batch in batches for p in batch.prompts] == [id(p) for p in prompts]
    for batch in batches:
        assert len({p.condition for p in batch.prompts}) == 1
        root = len(known[batch.prompts[0].condition])
        cost = unique_tokens([[p.token_ids for p in group] for group in batch.groups], root=root)
        assert len(batch.groups) == 1 or cost <= budget
        assert all(len(group) == 1 or cost <= 8 * budget for group in batch.groups)


@given(groups, st.integers(5, 300))
def test_attacks_are_read_together(sizes, budget):
    clean = prompts_of(sizes)
    attacked = [
        replace(prompt, condition=replace(prompt.condition, attack="dsi"), token_ids=np.append(prompt.token_ids, 9))
        for prompt in clean
    ]
    batches, known = plan([*clean, *attacked], budget), roots([*clean, *attacked])
    planned = [prompt for batch in batches for prompt in batch.prompts]
    assert {id(prompt) for prompt in planned} == {id(prompt) for prompt in (*clean, *attacked)}
    assert len(planned) == 2 * len(clean)
    for prompt in attacked:
        plain = replace(prompt.condition, attack="none")
        assert known[prompt.condition] is known[plain]
    for batch in plan([*clean, *attacked], 10**6):
        assert len({(p.condition.range, p.condition.dimension) for p in batch.prompts}) == 1
        assert len(batch.groups) == len(sizes)  # a group is whole, with all that attacks make of it
        assert {p.condition.attack for group in batch.groups for p in group} == {"none", "dsi"}


def test_groups_stay_whole_and_fill_the_budget():
    prompts = prompts_of([[5, 5], [5, 5], [5, 5]])
    batches = plan(prompts, 40)
    # below the root of 20 tokens a group is 10 + 2 * 5; the third begins a batch
    assert [[len(group) for group in batch.groups] for batch in batches] == [[2, 2], [2], [2, 2], [2]]
    assert {len(root) for root in roots(prompts).values()} == {20}
    assert batches[0].tokens(20) == (4 * 35, 2 * 10 + 4 * 5)


def test_without_leaves_what_is_not_done():
    batch = plan(prompts_of([[5, 6], [7]]), 1000)[0]
    left = remaining(batch, {0, 2})
    assert left is not None
    assert [p.example.example_id for p in left.prompts] == ["0/1"]
    assert remaining(batch, {0, 1, 2}) is None


def test_what_is_read_alike_is_read_once():
    prompts = prompts_of([[5, 6], [5, 7]])
    batches = plan(prompts, 1000)
    first = unique_batches(batches, lambda prompt: prompt.example.system_id)
    assert [p.example.example_id for batch in first for p in batch.prompts] == ["0/0", "0/1"]
    assert unique_batches(batches, id) == batches
    assert unique_batches([], id) == []
