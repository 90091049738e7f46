"""Laid out weights give what plain ones give."""

import copy

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from judgebench.judges.engine.layers import FusedGatedMLP, LaidOutLinear, lay_out
from tests.judges.engine.test_engine import CONFIGS

FAMILIES = {"llama": 4, "qwen2": 4, "gemma2": 4, "phi3": 0}
"""Gated blocks of each; Qwen2 has biases, Gemma 2 GELU, and Phi-3 gate and up in one."""


def made(name: str, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name]), dtype=dtype).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return model


def kinds(model: nn.Module, kind: type) -> int:
    return sum(isinstance(module, kind) for module in model.modules())


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 2e-5), (torch.bfloat16, 0.1)])
@torch.inference_mode()
def test_same_logits_for_rows_of_any_length(name, dtype, most):
    plain = made(name, dtype)
    laid_out = copy.deepcopy(plain)
    lay_out(laid_out)
    if not kinds(laid_out, LaidOutLinear):
        assert dtype == torch.bfloat16  # this processor has no such products
        pytest.skip("no bfloat16 products on this processor")
    for rows in (1, 2, 3, 17, 130):
        ids = torch.randint(0, 60, (2, rows))
        assert (plain(ids).logits - laid_out(ids).logits).abs().max() <= most


def test_every_layer_of_the_decoder_is_laid_out_and_gated_blocks_are_fused():
    for name, blocks in FAMILIES.items():
        model = made(name, torch.float32)
        linears = kinds(model.get_decoder(), nn.Linear)
        lay_out(model)
        assert kinds(model.get_decoder(), LaidOutLinear) == linears, name
        assert kinds(model, FusedGatedMLP) == blocks, name
        assert type(model.get_output_embeddings()) is nn.Linear


def test_what_is_more_than_a_linear_layer_is_left_alone():
    model = made("llama", torch.float32)
    layer = model.get_decoder().layers[0]
    layer.self_attn.q_proj.register_forward_hook(lambda module, given, output: output + 1)
    layer.self_attn.k_proj = type("Adapted", (nn.Linear,), {})(64, 32, bias=False)
    layer.self_attn.v_proj.weight = model.get_decoder().layers[1].self_attn.v_proj.weight
    lay_out(model)
    for name in ("q_proj", "k_proj", "v_proj"):
        assert not isinstance(getattr(layer.self_attn, name), LaidOutLinear)
    assert isinstance(layer.self_attn.o_proj, LaidOutLinear)


def test_a_block_that_only_looks_gated_is_not_fused():
    model = made("llama", torch.float32)
    mlp = model.get_decoder().layers[0].mlp
    plain = type(mlp).forward
    type(mlp).forward, scaled = (lambda self, x: 2 * plain(self, x)), type(mlp).forward
    try:
        lay_out(model)
        assert kinds(model, FusedGatedMLP) == 0
    finally:
        type(mlp).forward = scaled
