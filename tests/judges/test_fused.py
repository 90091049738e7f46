"""Compiled elementwise work is the model's own code, traced whole."""

from functools import partial

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from judgebench.judges import engine as engines
from judgebench.judges import fused, hardware, kernels
from judgebench.judges.engine import PrefixEngine, check
from judgebench.runtime.errors import UserError
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
        monkeypatch.setattr(hardware, "_here", hardware.Hardware(torch.device("cpu")))
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
def test_the_compiler_s_own_code_gives_the_same(compiling):
    model = model_of("llama", torch.bfloat16)
    layer = model.model.layers[0]
    states = torch.randn(1, 40, 64).bfloat16()
    query, key = torch.randn(1, 4, 40, 16).bfloat16(), torch.randn(1, 2, 40, 16).bfloat16()
    cos, sin = model.model.rotary_emb(states, torch.arange(40)[None])
    parts = [torch.randn(1, 4, 40, 16).bfloat16() for _ in range(3)], [torch.randn(1, 4, 40) for _ in range(3)]
    compiling()

    def merged(*given):
        out = torch.empty(1, 4, 40, 16, dtype=torch.bfloat16)
        fused.compiled(kernels._merge_into)(out, *given)
        return out

    for function, given in (
        (fused.compiled(type(layer.input_layernorm).forward), (layer.input_layernorm, states)),
        (fused.compiled(type(layer.mlp).forward), (layer.mlp, states)),
        (fused.compiled(apply_rotary_pos_emb), (query, key, cos, sin)),
        (merged, (*parts, None)),
    ):
        with fused.compiling():
            fast = function(*given)
        plain = function(*given)  # as in a plain pass, which packed ones are compared with
        torch.testing.assert_close(fast, plain, atol=2e-2, rtol=2e-2)


def test_gradients_are_never_compiled(compiling, monkeypatch):
    compiling(backend="aot_eager")
    calls = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: calls.append(function))
    states = torch.randn(3, requires_grad=True)
    with fused.compiling():
        assert fused.compiled(torch.exp)(states).requires_grad
        assert not calls
        with torch.no_grad(), pytest.raises(TypeError):  # the stand-in gives nothing to call
            fused.compiled(torch.exp)(states)
    assert calls


@torch.inference_mode()
def test_the_check_sees_a_wrong_compiler(compiling, monkeypatch):
    """What packed reading is compared with is not compiled."""
    compiling()
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda *given: _doubled(function(*given)))
    with pytest.raises(UserError, match=r"judge\.engine=plain"):
        check(PrefixEngine(model_of("llama")))


def _doubled(result):
    return result * 2 if isinstance(result, torch.Tensor) else result


def test_nothing_is_compiled_on_the_cpu_or_in_float32():
    model = model_of("llama")
    PrefixEngine(model)
    assert not any("forward" in vars(module) for module in model.modules())
    assert not fused.compiles(torch.device("cpu"))
