"""Candidates: scores as the judge gives any text, and states at the last token as transformers shows them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from judgebench.judges import PassRunner
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.tutor.texts import JudgeScorer, candidate_states, final_states, write_candidates
from judgebench.types import Condition, ScoreRange
from tests.judges.test_engine import model_of, prompts
from tests.tutor.conftest import refuse, trainer


def by_transformers(model, ids):
    """[layers, hidden] at the last token; transformers norms what it shows of the last layer."""
    with torch.inference_mode():
        shown = model(input_ids=torch.tensor([ids.tolist()]), output_hidden_states=True).hidden_states
    return torch.stack([states[0, -1] for states in shown[1:]])


@pytest.mark.parametrize("kind", [PrefixEngine, PlainEngine])
@pytest.mark.parametrize("name", ["llama", "mistral_window"])
@torch.inference_mode()
def test_states_are_those_of_transformers(kind, name):
    model, plain = model_of(name), model_of(name)
    found = final_states(kind(model), model, prompts())
    found[:, -1] = plain.model.norm(found[:, -1])
    expected = torch.stack([by_transformers(plain, ids) for group in prompts() for ids in group])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("budget", [1, 10_000])
def test_states_of_candidates_are_at_the_last_token_that_was_written(make_tutor, contexts, budget):
    tutor = make_tutor(token_budget=budget)
    candidates = write_candidates(tutor, contexts)
    shuffled = [candidates[i] for i in np.random.default_rng(0).permutation(len(candidates))]
    found = candidate_states(tutor, shuffled)
    model = tutor.spec.source.model()
    for each, states in zip(shuffled, torch.from_numpy(found), strict=True):
        expected = by_transformers(model, np.concatenate([each.asked.prompt.token_ids, each.tokens]))
        torch.testing.assert_close(states[:-1], expected[:-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model.model.norm(states[-1]), expected[-1], atol=1e-4, rtol=1e-4)


CONDITION = Condition("joint", ScoreRange(1, 5))


def examples_of(candidates):
    return [candidate.example for candidate in candidates]


@pytest.fixture
def scorer(tiny_pair, mini, make_tutor):
    def make(trainer=trainer, **settings):
        judge = JudgeSpec(str(tiny_pair[0]), dtype="float32", **settings)
        builder = PromptBuilder(judge.source.tokenizer(), load_rubrics("cap_summary", ["joint"]), 3000)
        runner = PassRunner(store=make_tutor().runner.store, trainer=trainer)
        return JudgeScorer(judge, builder, CONDITION, runner)

    return make


def test_scores_are_expected_ones_by_a_plain_pass(scorer, make_tutor, contexts):
    candidates = write_candidates(make_tutor(), contexts)[::-1]
    found = scorer()(examples_of(candidates))
    judge = scorer().judge.source
    trie = CandidateTrie.of(judge.tokenizer(), CONDITION.range.candidates)
    prompts = scorer().builder.build(examples_of(candidates), [CONDITION])
    with torch.inference_mode():
        logprobs = PlainEngine(judge.model()).read([[prompt.token_ids] for prompt in prompts], trie)[0]
    probabilities = logprobs.double().softmax(dim=1).numpy()
    assert all(each.text in prompt.text for each, prompt in zip(candidates, prompts, strict=True))
    np.testing.assert_allclose(found, probabilities @ np.arange(1, 6), atol=1e-4)
    np.testing.assert_array_equal(scorer(trainer=refuse)(examples_of(candidates[::-1])), found[::-1])


def test_an_answer_without_a_number_is_no_score(scorer, make_tutor, contexts):
    """A random model writes no scores; the lowest one, which stands in elsewhere, would make low standards of them."""
    candidates = write_candidates(make_tutor(), contexts)
    found = scorer(mode="generate", max_new_tokens=2)(examples_of(candidates))
    assert np.isnan(found).all()


def test_a_judge_that_tutors_is_held_once(scorer, make_tutor, contexts):
    tutor, judge = make_tutor(), scorer()
    judge.runner = tutor.runner
    candidates = write_candidates(tutor, contexts)
    model = tutor.runner.models.get(tutor.spec.source)
    judge(examples_of(candidates))
    assert judge.runner.models.get(judge.judge.source) is model
