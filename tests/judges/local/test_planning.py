"""Dealing: every batch once, about the same to everyone, in as many steps."""

from dataclasses import replace
from itertools import product

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from judgebench.attacks import attacked_text, select_attacks
from judgebench.data.benchmarks import Mini
from judgebench.decoding.rules import Greedy
from judgebench.judges.engine import hardware
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.local.batches import (
    assign,
    plan,
    roots,
    token_counts,
    unique_batches,
    unique_tokens,
)
from judgebench.judges.local.datamodule import AssignedSampler
from judgebench.judges.local.passes import FreeAnswerPass, ModelView, ScorePass
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.types import Condition, Example, Prompt, ScoreRange
from tests.models import SMOLLM2, tiny_llama

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
        root = len(known[batch.prompts[0].alike])
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
        assert known[prompt.alike] is known[plain, ""]
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
    assert batches[0].tokens(20) == 2 * 10 + 4 * 5


def test_a_gpu_reads_more_together_and_most_where_it_answers_in_words(monkeypatch):
    prompts = prompts_of([[5, 5, 5]] * 64)
    view = ModelView(SMOLLM2, "f")
    score = ScorePass([view], prompts, {})
    free = FreeAnswerPass(view, None, None, Greedy(), prompts, None, 16)
    counts = {}
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(hardware, "_here", hardware.Hardware(torch.device(device)))
        counts[device] = [len(pass_.batches(100)) for pass_ in (score, free)]
    assert counts == {"cpu": [2 * 16, 2 * 16], "cuda": [2 * 4, 2 * 1]}


def test_what_is_read_alike_is_read_once():
    prompts = prompts_of([[5, 6], [5, 7]])
    batches = plan(prompts, 1000)
    first = unique_batches(batches, lambda prompt: prompt.example.system_id)
    assert [p.example.example_id for batch in first for p in batch.prompts] == ["0/0", "0/1"]
    assert unique_batches(batches, id) == batches
    assert unique_batches([], id) == []


@given(groups, st.integers(5, 300))
@settings(max_examples=50)
def test_nothing_is_lost_and_sharing_saves(sizes, budget):
    prompts = prompts_of(sizes)
    totals = {
        condition: sum(len(prompt.token_ids) for prompt in prompts if prompt.condition == condition)
        for condition in dict.fromkeys(prompt.condition for prompt in prompts)
    }
    whole, shared = token_counts(prompts), token_counts(prompts, budget)
    distinct = token_counts(prompts, budget, sharing=False)
    for condition, total in totals.items():
        assert whole[condition] == (total, total)
        assert distinct[condition][0] == shared[condition][0] == total
        assert shared[condition][1] <= distinct[condition][1] <= total


def test_what_is_counted_is_what_the_engine_computes(smollm2_tokenizer):
    """Of clean and attacked texts in two ranges; besides, a token that candidates begin with is read once a prompt."""
    data = Mini(limit_groups=3)
    data.setup()
    attacks = select_attacks(["none", "dsi"])
    conditions = [
        Condition("coherence", ScoreRange(*ends), attack.name) for ends in ((1, 5), (0, 4)) for attack in attacks
    ]
    builder = PromptBuilder(smollm2_tokenizer, load_rubrics("summary", ["coherence"]), 8000)
    prompts = builder.build(data.examples, conditions, attacked_text(attacks))
    engine, known, branches = PrefixEngine(tiny_llama(0)), roots(prompts), 0
    with torch.inference_mode():
        for batch in plan(prompts, 1000):
            condition = batch.prompts[0].condition
            trie = CandidateTrie.of(smollm2_tokenizer, condition.range.candidates)
            engine.read(batch.token_ids, trie, known[batch.prompts[0].alike])
            branches += (len(trie.branches) - 1) * len(batch.prompts)  # the first stands where the prompt ends
    counted = token_counts(prompts, 1000)
    assert engine.computed == sum(unique for _, unique in counted.values()) + branches
    assert np.all([unique < total for total, unique in counted.values()])


COSTS = st.lists(st.integers(0, 10_000), max_size=40)


def makespan(costs, shares):
    return max(sum(costs[i] for i in share) for share in shares)


@given(st.lists(st.integers(1, 100), max_size=7), st.integers(1, 3))
def test_no_one_has_more_than_four_thirds_of_what_the_best_dealing_gives_the_busiest(costs, ranks):
    best = min(
        max(sum(cost for cost, to in zip(costs, dealing, strict=True) if to == rank) for rank in range(ranks))
        for dealing in product(range(ranks), repeat=len(costs))
    )
    # Graham's bound, exactly: 4/3 - 1/(3 ranks)
    assert 3 * ranks * makespan(costs, assign(costs, ranks)) <= (4 * ranks - 1) * best


@given(COSTS, st.integers(1, 9))
def test_the_sampler_gives_each_process_its_share_and_all_as_many(costs, ranks):
    assert sorted(i for share in assign(costs, ranks) for i in share) == list(range(len(costs)))
    samplers = [AssignedSampler(costs, rank, ranks) for rank in range(ranks)]
    assert len({len(sampler) for sampler in samplers}) == 1
    assert [[i for i in sampler if i < len(costs)] for sampler in samplers] == assign(costs, ranks)
    assert all(len([*sampler]) == len(sampler) for sampler in samplers)
