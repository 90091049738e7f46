"""Gradients through the prefix engine are those of the model's own code."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf

from judgebench.judges.engine.attention import Root, Roots
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.layers import LaidOutLinear, forget_gradients
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from tests.judges.engine.test_engine import CONFIGS

TRIE = CandidateTrie(("1", "2", "10"), [[(11,)], [(12,), (7, 12)], [(11, 13)]])
VALUES = torch.tensor([1.0, 2.0, 10.0], dtype=torch.float64)


def model_of(name, seed=0):
    torch.manual_seed(seed)
    config = copy.deepcopy(CONFIGS[name])  # an engine writes its attention into its model's
    return tf.AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)


def expected(exits):
    return (torch.softmax(exits[0], dim=1) @ VALUES).sum()


def plainly(name, prompt, places):
    """Autograd through the model's own code over every pass that the candidates take."""
    model = model_of(name)
    plain = PlainEngine(model)
    embedded = []

    def watch(module, given, output):
        embedded.append(output.detach().requires_grad_(True))
        return embedded[-1]

    hook = model.get_input_embeddings().register_forward_hook(watch)
    found = torch.autograd.grad(expected(plain.read([[prompt]], TRIE)), embedded)
    hook.remove()
    return sum(part[0, places] for part in found).float()


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen2_window", "gemma2", "gpt_oss", "phi"])
def test_gradient_is_that_of_the_model_s_own_code(name):
    prompt = np.random.default_rng(0).integers(20, 300, 40).astype(np.int32)
    places = slice(30, 32)
    engine = PrefixEngine(model_of(name))
    with torch.no_grad():
        found = engine.gradient([prompt], TRIE, places, expected, prompt[:28])
    wanted = plainly(name, prompt, places)
    assert found.shape == (1, *wanted.shape)
    assert torch.allclose(found[0], wanted, atol=1e-6)
    assert wanted.abs().max() > 1e-3


def test_gradients_of_several_prompts_are_those_of_each_alone():
    draw = np.random.default_rng(1)
    head, tail = draw.integers(20, 300, 20), draw.integers(20, 300, 5)
    prompts = [np.concatenate([head, [50, word, 60 + word], tail]).astype(np.int32) for word in (70, 80, 90)]
    engine = PrefixEngine(model_of("llama"))
    with torch.no_grad():
        together = engine.gradient(prompts, TRIE, slice(21, 23), expected, head.astype(np.int32))
        alone = [engine.gradient([p], TRIE, slice(21, 23), expected, head.astype(np.int32)) for p in prompts]
    assert torch.allclose(together, torch.cat(alone), atol=1e-6)
    assert (together[0] - together[1]).abs().max() > 1e-4


def test_a_laid_out_layer_has_the_plain_layer_s_gradient_and_gives_its_memory_back():
    torch.manual_seed(0)
    plain = torch.nn.Linear(24, 40).requires_grad_(False)
    laid_out = LaidOutLinear(plain)
    states = torch.randn(3, 5, 24, requires_grad=True)
    outer = torch.randn(3, 5, 40)
    (ours,) = torch.autograd.grad((laid_out(states) * outer).sum(), states)
    (theirs,) = torch.autograd.grad((plain(states) * outer).sum(), states)
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert laid_out.transposed is not None
    forget_gradients(laid_out)
    assert laid_out.transposed is None


def test_roots_are_read_once_while_there_is_room():
    read = []

    def reader(name, tokens):
        def made():
            read.append(name)
            keys = torch.zeros(1, 1, tokens, 4)
            return Root({0: (keys, keys)})

        return made

    one, two = np.array([1, 2]), np.array([3])
    roomy, narrow = Roots(room=1000), Roots(room=40)
    for roots in (roomy, narrow):
        for name, ids in (("one", one), ("two", two), ("one", one)):
            held = roots.get(ids, reader(name, len(ids)))
            assert held.layers[0][0].shape[2] == len(ids)
    assert read == ["one", "two", "one", "two", "one"]
    assert Root({0: (torch.zeros(1, 1, 2, 4),) * 2}).bytes == 64
