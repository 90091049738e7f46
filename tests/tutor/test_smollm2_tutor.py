"""The embedded model as a tutor: steered texts of real prompts are those of transformers' own generation."""

import copy

import torch

from judgebench.judges.engine.generation import stops_of
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.tutor.candidates import final_states
from judgebench.tutor.steering import Standard
from tests.tutor.conftest import asking
from tests.tutor.test_steering import with_engine, with_transformers


@torch.inference_mode()
def test_real_texts_are_steered_as_transformers_steers_them(smollm2, smollm2_tokenizer, contexts):
    prompts = [prompt.token_ids for prompt in asking(smollm2_tokenizer).prompts(contexts[:2])]
    model = copy.deepcopy(smollm2)
    engine = PrefixEngine(model)
    # the real direction from one article's prompt to another's, at a middle layer
    states = final_states(engine, model, [[ids] for ids in prompts])
    assert states.shape == (2, 30, 576)
    there = Standard(15, states[0, 14], states[1, 14])
    alphas = [0.0, 400.0, -400.0]
    groups = [[ids] * 3 for ids in prompts]
    found = with_engine(engine, groups, alphas * 2, there, count=14)
    expected = with_transformers(smollm2, [ids for group in groups for ids in group], alphas * 2, there, count=14)
    assert found == expected
    assert len({tuple(text) for text in found}) == 6, "a strength that changes nothing tests nothing"
    assert not stops_of(model, smollm2_tokenizer) & {token for text in found for token in text}
    plain = smollm2.generate(input_ids=torch.tensor([prompts[0].tolist()]), do_sample=False, max_new_tokens=14)
    assert plain[0, len(prompts[0]) :].tolist() == found[0]
