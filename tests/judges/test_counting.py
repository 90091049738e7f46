import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from judgebench.attacks import attacked_text, select_attacks
from judgebench.data.mini import Mini
from judgebench.judges.candidates import CandidateTrie
from judgebench.judges.counting import distinct_tokens, shared_tokens, whole_tokens
from judgebench.judges.engine import PrefixEngine
from judgebench.judges.passes import token_ids
from judgebench.judges.planning import plan, roots
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.types import Condition, ScoreRange
from tests.conftest import tiny_llama
from tests.judges.test_planning import groups, prompts_of


@given(groups, st.integers(5, 300))
@settings(max_examples=50)
def test_nothing_is_lost_and_sharing_saves(sizes, budget):
    prompts = prompts_of(sizes)
    totals = {
        condition: sum(len(prompt.token_ids) for prompt in prompts if prompt.condition == condition)
        for condition in dict.fromkeys(prompt.condition for prompt in prompts)
    }
    whole, distinct, shared = whole_tokens(prompts), distinct_tokens(prompts, budget), shared_tokens(prompts, budget)
    for condition, total in totals.items():
        assert whole[condition] == (total, total)
        assert distinct[condition][0] == shared[condition][0] == total
        assert shared[condition][1] <= distinct[condition][1] <= total


def test_prompts_that_say_the_same_are_computed_once():
    prompts = prompts_of([[3]])
    twice = [prompts[0], prompts[0]]
    n = len(prompts[0].token_ids)
    assert whole_tokens(twice) == {prompts[0].condition: (2 * n, 2 * n)}
    assert distinct_tokens(twice, 1000) == {prompts[0].condition: (2 * n, n)}
    assert shared_tokens(twice, 1000) == {prompts[0].condition: (2 * n, n)}


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
            engine.read(token_ids(batch), trie, known[condition])
            branches += (len(trie.branches) - 1) * len(batch.prompts)  # the first stands where the prompt ends
    counted = shared_tokens(prompts, 1000)
    assert engine.computed == sum(unique for _, unique in counted.values()) + branches
    assert np.all([unique < total for total, unique in counted.values()])
