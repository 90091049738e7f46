"""States at the final position are those that transformers itself shows, in every layer and in any batch."""

import numpy as np
import pytest
import torch

from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.tutor.candidates import candidate_states, final_states, write_candidates
from tests.judges.test_engine import model_of, prompts


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
        expected = by_transformers(model, np.concatenate([each.prompt.token_ids, each.tokens]))
        torch.testing.assert_close(states[:-1], expected[:-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model.model.norm(states[-1]), expected[-1], atol=1e-4, rtol=1e-4)
