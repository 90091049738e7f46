"""Compiled elementwise work is the model's own code, traced whole and in one kernel a region."""

from functools import partial

import pytest
import torch
from torch._inductor import metrics
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from judgebench.judges import engine as engines
from judgebench.judges import fused, kernels
from judgebench.judges.engine import PrefixEngine
from tests.judges.fake_cuda import restore_rotary
from tests.judges.test_engine import CHAIN, TRIE, model_of, prompts


@pytest.fixture
def compiling(monkeypatch):
    """Compiles on the CPU what a GPU would compile; gives how."""

    def use(**options):
        compile_ = torch.compile
        monkeypatch.setattr(torch, "compile", partial(compile_, fullgraph=True, **options))
        monkeypatch.setattr(fused, "in_half_on_gpu", lambda tensor: True)
        monkeypatch.setattr(fused, "compiles", lambda device: True)
        monkeypatch.setattr(engines, "lay_out", lambda model: None)  # oneDNN's layers are no GPU's
        fused.compiled.cache_clear()

    yield use
    fused.compiled.cache_clear()
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def unchanged():
    """`fuse` changes transformers' modules for good."""
    yield
    restore_rotary()


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "phi", "phi3", "mixtral", "gpt_oss"])
@torch.inference_mode()
def test_every_region_is_traced_whole_and_reads_the_same(name, compiling):
    expected = [PrefixEngine(model_of(name)).read(prompts(), trie)[0] for trie in (TRIE, CHAIN)]
    compiling(backend="aot_eager")
    model = model_of(name)
    engine = PrefixEngine(model)
    changed = {type(module).__name__ for module in model.modules() if "forward" in vars(module)}
    assert any(kind.endswith(("RMSNorm", "LayerNorm")) for kind in changed)
    assert any(kind.endswith("MLP") for kind in changed) == (name not in ("mixtral", "gpt_oss"))
    for trie, before in zip((TRIE, CHAIN), expected, strict=True):
        torch.testing.assert_close(engine.read(prompts(), trie)[0], before, atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_region_is_one_kernel(compiling):
    model = model_of("llama")
    layer = model.model.layers[0]
    states = torch.randn(1, 40, 64)
    query, key = torch.randn(1, 4, 40, 16), torch.randn(1, 2, 40, 16)
    cos, sin = model.model.rotary_emb(states, torch.arange(40)[None])
    parts = [torch.randn(1, 4, 40, 16) for _ in range(3)], [torch.randn(1, 4, 40) for _ in range(3)]
    regions = {
        "norm": (type(layer.input_layernorm).forward, (layer.input_layernorm, states), 1),
        "gated": (lambda gate, up: torch.nn.functional.silu(gate) * up, (states, states + 1), 1),
        "rotary": (apply_rotary_pos_emb, (query, key, cos, sin), 2),
        "merge": (kernels._merge_into, (torch.empty(1, 4, 40, 16), *parts, None), 1),
    }
    compiling()
    for name, (function, given, most) in regions.items():
        metrics.reset()
        fused.compiled(function)(*given)
        assert 1 <= metrics.generated_kernel_count <= most, (name, metrics.generated_kernel_count)


def test_gradients_are_never_compiled(compiling, monkeypatch):
    compiling(backend="aot_eager")
    calls = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: calls.append(function))
    states = torch.randn(3, requires_grad=True)
    assert fused.compiled(torch.exp)(states).requires_grad
    assert not calls


def test_nothing_is_compiled_on_the_cpu_or_in_float32():
    model = model_of("llama")
    PrefixEngine(model)
    assert not any("forward" in vars(module) for module in model.modules())
    assert not fused.compiles(torch.device("cpu"))
