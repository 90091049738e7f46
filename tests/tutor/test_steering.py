"""Equations 4 and 5 by hand, and steering as a guest in a model: felt where it should be, gone afterwards."""

import copy
import math

import pytest
import torch
import transformers as tf
from hypothesis import given
from hypothesis import strategies as st

from judgebench.decoding.rules import Greedy
from judgebench.judges.engine.generate import generate, stops_of
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.tutor.steering import Standard, Steer, decoder_layers, edit, steering
from judgebench.tutor.texts import final_states
from judgebench.words.errors import UserError
from tests.judges.engine.test_engine import model_of, prompts
from tests.tutor.conftest import asking

LAYERS = [1, 2, 4]


def standard(layer=2, hidden=64, seed=3):
    draw = torch.Generator().manual_seed(seed)
    return Standard(layer, torch.randn(hidden, generator=draw), torch.randn(hidden, generator=draw))


def tuples():
    """GPT-J, whose layers return tuples."""
    torch.manual_seed(0)
    config = tf.GPTJConfig(vocab_size=300, n_embd=64, n_layer=4, n_head=4, rotary_dim=8, bos_token_id=1, eos_token_id=2)
    model = tf.GPTJForCausalLM(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, 0.2)
    return model


MODELS = {"llama": lambda: model_of("llama"), "gptj": tuples}


def test_equations_4_and_5_by_hand():
    # s = (3, 4) has length 5 and cosine 3/5 to hv = (1, 0); sv = hv - lv = (0, 2)
    s, there = torch.tensor([[3.0, 4.0]]), Standard(1, torch.tensor([1.0, 0.0]), torch.tensor([1.0, -2.0]))
    assert there.direction.tolist() == [0, 1]
    # 4 + 5 (1 - 3/5) = 6; (3, 6) brought back to length 5
    high = edit(s, there.high[None], there.direction, torch.tensor([5.0]))
    torch.testing.assert_close(high, torch.tensor([[math.sqrt(5), 2 * math.sqrt(5)]]))
    # cosine to lv: (3 - 8) / (5 sqrt 5) = -1 / sqrt 5
    low = edit(s, there.low[None], there.direction, torch.tensor([-5.0]))
    moved = torch.tensor([[3.0, 4 - 5 * (1 + 1 / math.sqrt(5))]])
    torch.testing.assert_close(low, moved * 5 / moved.norm())
    # what points where the standard does is left where it is
    torch.testing.assert_close(
        edit(torch.tensor([[7.0, 0.0]]), there.high[None], there.direction, torch.tensor([9.0])),
        torch.tensor([[7.0, 0.0]]),
    )


def test_positive_alphas_go_to_the_high_standard_and_negative_ones_to_the_low():
    there, states = standard(), torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    found = Steer(there, torch.tensor([2.0, -3.0, 0.0])).edited(states)
    torch.testing.assert_close(found[:1], edit(states[:1], there.high[None], there.direction, torch.tensor([2.0])))
    torch.testing.assert_close(found[1:2], edit(states[1:2], there.low[None], there.direction, torch.tensor([-3.0])))
    assert torch.equal(found[2], states[2])


@given(st.floats(-50, 50), st.integers(0, 999), st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_lengths_are_kept_and_strength_0_changes_nothing(alpha, seed, dtype):
    draw = torch.Generator().manual_seed(seed)
    states = (torch.randn(3, 16, generator=draw) * 10).to(dtype)
    steer = Steer(standard(hidden=16, seed=seed), torch.tensor([alpha, 0.0, -alpha]))
    found = steer.edited(states)
    assert found.dtype == dtype
    rounding = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(found.float().norm(dim=1), states.float().norm(dim=1), rtol=rounding, atol=0)
    assert torch.equal(found[1], states[1])


def test_standards_that_are_one_give_no_direction():
    with pytest.raises(UserError, match="high and the low standard vector of layer 3 are 0 apart"):
        Standard(3, torch.ones(4), torch.ones(4))


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_only_the_current_position_of_the_layer_is_edited(name):
    model, ids = MODELS[name](), torch.arange(10, 30)[None]
    steer = Steer(standard(layer=2), torch.tensor([4.0]))

    def outputs():
        """[layers][tokens, hidden] what each layer yields."""
        kept = []
        hooks = [
            layer.register_forward_hook(lambda m, i, out: kept.append(out[0] if isinstance(out, tuple) else out))
            for layer in decoder_layers(model)
        ]
        model(input_ids=ids)
        for hook in hooks:
            hook.remove()
        return [states[0].clone() for states in kept]

    plain = outputs()
    with steering(model, steer):
        steered = outputs()
    assert torch.equal(steered[0], plain[0])
    assert torch.equal(steered[1][:-1], plain[1][:-1])
    torch.testing.assert_close(steered[1][-1:], steer.edited(plain[1][-1:]))
    for ours, theirs in zip(steered[2:], plain[2:], strict=True):
        torch.testing.assert_close(ours[:-1], theirs[:-1])
        assert (ours[-1] - theirs[-1]).abs().max() > 0.01


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_the_model_is_left_as_it_was_even_by_an_error(name):
    model, ids = MODELS[name](), torch.arange(10, 30)[None]
    before, hooks = model(input_ids=ids).logits, [len(m._forward_hooks) for m in model.modules()]
    with steering(model, Steer(standard(), torch.tensor([9.0]))):
        assert not torch.equal(model(input_ids=ids).logits, before)
    assert torch.equal(model(input_ids=ids).logits, before)
    with pytest.raises(ZeroDivisionError), steering(model, Steer(standard(), torch.tensor([9.0]))):
        raise ZeroDivisionError
    assert torch.equal(model(input_ids=ids).logits, before)
    assert [len(m._forward_hooks) for m in model.modules()] == hooks


def with_transformers(model, ids, alphas, there, count=12):
    """transformers' own greedy generation of a batch, padded on the left -> tokens of each answer."""
    longest = max(map(len, ids))
    padded = torch.tensor([[0] * (longest - len(row)) + row.tolist() for row in ids])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids])
    with steering(model, Steer(there, torch.tensor(alphas))):
        found = model.generate(
            input_ids=padded,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=count,
            min_new_tokens=count,
            eos_token_id=None,
            pad_token_id=0,
        )
    return found[:, longest:].tolist()


def with_engine(engine, groups, alphas, there, count=12, stops=()):
    steer = Steer(there, torch.tensor(alphas))
    with steering(engine.model, steer):
        answers = engine.start(groups)
        return generate(answers, Greedy(), set(stops), count, others=[steer])


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_a_batch_padded_on_the_left_is_steered_as_its_texts_alone_are(name):
    model, there = MODELS[name](), standard(layer=2)
    ids, alphas = [row for group in prompts() for row in group], [3.0, -3.0, 8.0, -8.0, 0.0, 5.0]
    together = with_transformers(model, ids, alphas, there)
    alone = [with_transformers(model, [row], [alpha], there)[0] for row, alpha in zip(ids, alphas, strict=True)]
    assert together == alone
    assert together != with_transformers(model, ids, [0.0] * 6, there)


@pytest.mark.parametrize("layer", LAYERS)
@torch.inference_mode()
def test_the_prefix_engine_steers_as_transformers_does(layer):
    there, alphas = standard(layer), [3.0, -3.0, 8.0, -8.0, 0.0, 5.0]
    ids = [row for group in prompts() for row in group]
    expected = with_transformers(model_of("llama"), ids, alphas, there)
    assert with_engine(PrefixEngine(model_of("llama")), prompts(), alphas, there) == expected
    plain = PlainEngine(model_of("llama"))
    assert [with_engine(plain, [[row]], [alpha], there)[0] for row, alpha in zip(ids, alphas, strict=True)] == expected


@torch.inference_mode()
def test_alpha_0_is_the_plain_model():
    engine = PrefixEngine(model_of("llama"))
    answers = engine.start(prompts())
    plain = generate(answers, Greedy(), {7, 11}, 12)
    assert with_engine(engine, prompts(), [0.0] * 6, standard(layer=3), stops={7, 11}) == plain


@torch.inference_mode()
def test_texts_that_end_leave_the_others_steered():
    engine, there, alphas = PrefixEngine(model_of("llama")), standard(layer=2), [3.0, -3.0, 8.0, -8.0, 0.0, 5.0]
    free = with_engine(engine, prompts(), alphas, there)
    stop = free[1][2]
    found = with_engine(engine, prompts(), alphas, there, stops=[stop])
    assert found == [text[: text.index(stop)] if stop in text else text for text in free]
    assert min(map(len, found)) <= 2
    assert max(map(len, found)) == 12


@torch.inference_mode()
def test_what_is_shared_above_stays_unsteered():
    """The engine keeps the root's keys for later batches; a steered one must not leave its mark on them."""
    engine = PrefixEngine(model_of("llama"))
    with_engine(engine, prompts(), [50.0] * 6, standard(layer=1))
    later = engine.start(prompts()).logits[0]
    fresh = PrefixEngine(model_of("llama")).start(prompts()).logits[0]
    assert torch.equal(later, fresh)


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
    groups = [[prompts[0]] * 2, [prompts[1]]]
    found = with_engine(engine, groups, alphas, there, count=8)
    expected = with_transformers(smollm2, [ids for group in groups for ids in group], alphas, there, count=8)
    assert found == expected
    assert len({tuple(text) for text in found}) == 3, "a strength that changes nothing tests nothing"
    assert not stops_of(model, smollm2_tokenizer) & {token for text in found for token in text}
    plain = smollm2.generate(input_ids=torch.tensor([prompts[0].tolist()]), do_sample=False, max_new_tokens=8)
    assert plain[0, len(prompts[0]) :].tolist() == found[0]
