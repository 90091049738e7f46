"""What a GPU computes in fewer passes is what the models' own code computes: on the processor, by Triton's interpreter.

The interpreter cuts bfloat16 off where a GPU rounds it, so numbers are compared in float32 and float16.
"""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers.models.cohere import modeling_cohere
from transformers.models.llama import modeling_llama

from judgebench.judges.engine import fused, hardware, kernels
from judgebench.judges.engine import prefix as engines
from judgebench.judges.engine.fused import fuse, fusing
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.words.errors import UserError
from tests.judges.engine.fake_cuda import restore_rotary
from tests.judges.engine.test_engine import CHAIN, TRIE, model_of, prompts

triton_kernels = pytest.importorskip("judgebench.judges.engine.triton_kernels")
DRAW = torch.Generator().manual_seed(0)
EXACT = {torch.float32: 1e-6, torch.float16: 1e-3}


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=DRAW).to(dtype)


def by_token(heads, tokens, dim, dtype):
    """As a projection gives them: the heads of a token are neighbors."""
    return drawn(1, tokens, heads, dim, dtype=dtype).transpose(1, 2)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=EXACT[ours.dtype], rtol=EXACT[ours.dtype])


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("width", [96, 37, 2048])
def test_a_gated_activation(dtype, width):
    gate, up = (drawn(3, 5, width, dtype=dtype) for _ in range(2))
    close(triton_kernels.gated(gate, up, "swish"), F.silu(gate) * up)
    close(triton_kernels.gated(gate, up, "gelu"), F.gelu(gate, approximate="tanh") * up)
    both = torch.cat([gate, up], dim=-1)  # as a layer for both gives them
    close(triton_kernels.gated(*both.chunk(2, dim=-1), "swish"), F.silu(gate) * up)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize(("heads", "tokens", "dim"), [(5, 7, 32), (28, 1, 24), (1, 70, 128)])
def test_a_rotary_embedding_to_the_bit(dtype, heads, tokens, dim):
    query, key = by_token(heads, tokens, dim, dtype), drawn(1, 2, tokens, dim, dtype=dtype)
    tables = [drawn(1, tokens, dim, dtype=dtype) for _ in range(2)]
    expected = modeling_llama.apply_rotary_pos_emb(query, key, *tables)
    for states, rotated in zip((query, key), expected, strict=True):
        assert torch.equal(triton_kernels.rotated(states, *tables), rotated)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("sinks", [None, drawn(5)])
def test_a_merge(dtype, count, sinks):
    """Of a part that is empty for a token, and of normalizers that lie in memory in either way."""
    parts = [by_token(5, 37, 24, dtype) for _ in range(count)]
    normalizers = [100 * drawn(1, 5, 37), drawn(1, 37, 5).transpose(1, 2), *(drawn(1, 5, 37) for _ in range(2))]
    normalizers[1][:, :, 2] = float("-inf")
    parts[1 % count][:, :, 2] = 0.0
    if count == 1:
        normalizers = normalizers[3:]
    ours, theirs = (by_token(5, 37, 24, dtype) for _ in range(2))
    with torch.inference_mode():
        kernels.merge_into(theirs, list(zip(parts, normalizers, strict=False)), sinks)
    rows = [part.transpose(1, 2).flatten(0, 2) for part in (ours, *parts)]
    triton_kernels.merge(rows[0], rows[1:], normalizers[:count], sinks)
    close(ours, theirs)


@pytest.fixture
def here(monkeypatch):
    """The processor as a GPU that fuses; gives the kernels that have run."""
    ran, launch = [], triton_kernels.launch

    def watched(kernel, *args, **constants):
        ran.append(kernel.__name__)
        launch(kernel, *args, **constants)

    monkeypatch.setattr(triton_kernels, "launch", watched)
    monkeypatch.setattr(fused, "in_half_on_gpu", lambda tensor: True)
    monkeypatch.setattr(fused, "fuses", lambda device, dtype: True)
    monkeypatch.setattr(hardware, "_here", hardware.Hardware(torch.device("cpu")))
    monkeypatch.setattr(engines, "lay_out", lambda model: None)  # oneDNN's layers are no GPU's
    yield ran
    restore_rotary()


def changed(model):
    return {type(module).__name__ for module in model.modules() if "forward" in vars(module)}


@pytest.mark.parametrize(
    ("name", "norm", "block", "runs"),
    [
        ("llama", "LlamaRMSNorm", "LlamaMLP", {"_gated", "_rotated", "_merge"}),
        ("gemma2", "Gemma2RMSNorm", "Gemma2MLP", {"_gated", "_rotated"}),  # under masks nothing is merged
        ("phi3", "Phi3RMSNorm", "Phi3MLP", {"_gated", "_rotated", "_merge"}),
        ("qwen3", "Qwen3RMSNorm", "Qwen3MLP", {"_gated", "_rotated", "_merge"}),
        ("phi", None, None, {"_rotated"}),  # norms take means away, and no block is gated
        ("mixtral", "MixtralRMSNorm", None, {"_rotated", "_merge"}),
        ("gpt_oss", "GptOssRMSNorm", None, set()),  # whose windows are masks
    ],
)
@torch.inference_mode()
def test_every_family_reads_the_same(name, norm, block, runs, here):
    expected = [PrefixEngine(model_of(name)).read(prompts(), trie)[0] for trie in (TRIE, CHAIN)]
    model = model_of(name)
    engine = PrefixEngine(model)
    assert changed(model) == {norm, block} - {None}
    here.clear()
    for trie, plain in zip((TRIE, CHAIN), expected, strict=True):
        torch.testing.assert_close(engine.read(prompts(), trie)[0], plain, atol=1e-4, rtol=0)
    assert set(here) == runs


@torch.inference_mode()
def test_rotary_embeddings_of_another_kind_than_the_one_tried_run_as_they_are(here):
    """Of a part of each head, by tables for each text or in float32, along another axis."""
    model = model_of("llama")
    fuse(model)
    query, key = (drawn(2, heads, 3, 64, dtype=torch.float16) for heads in (4, 2))
    here.clear()
    with fusing():
        for tables in (drawn(2, 2, 3, 64, dtype=torch.float16), drawn(2, 1, 3, 64), drawn(2, 1, 3, 1)):
            expected = modeling_llama.apply_rotary_pos_emb.plain(query, key, *tables)
            for ours, theirs in zip(modeling_llama.apply_rotary_pos_emb(query, key, *tables), expected, strict=True):
                assert torch.equal(ours, theirs)
    assert not here


@torch.inference_mode()
def test_what_computes_otherwise_stays_as_it_is(here, monkeypatch):
    """Names and shapes are the same."""
    plain, norm = modeling_llama.LlamaMLP.forward, modeling_llama.LlamaRMSNorm.forward
    monkeypatch.setattr(modeling_llama.LlamaMLP, "forward", lambda self, states: 1.1 * plain(self, states))
    monkeypatch.setattr(
        modeling_llama.LlamaRMSNorm, "forward", lambda self, states: norm(self, states - states.mean(-1, keepdim=True))
    )
    rotate = modeling_cohere.apply_rotary_pos_emb  # neighbors into each other, not halves
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", rotate)
    model = model_of("llama")
    fuse(model)
    assert changed(model) == set()
    assert modeling_llama.apply_rotary_pos_emb is rotate


def test_gradients_and_plain_passes_are_never_fused(here):
    model = model_of("llama")
    fuse(model)
    here.clear()
    states = drawn(1, 3, 64).requires_grad_()
    mlp = model.get_decoder().layers[0].mlp
    with fusing():
        assert mlp(states).requires_grad
    with torch.no_grad():
        mlp(states)
        assert not here
        with fusing():
            mlp(states)
    assert here == ["_gated"]


@torch.inference_mode()
def test_the_check_of_packing_sees_a_wrong_kernel(here, monkeypatch):
    """What packed reading is compared with is not fused."""
    engine, gated = PrefixEngine(model_of("llama")), triton_kernels.gated
    monkeypatch.setattr(triton_kernels, "gated", lambda *given: 2 * gated(*given))
    with pytest.raises(UserError, match=r"judge\.engine=plain"):
        check_packing(engine)


def test_kernels_are_tried_before_a_model_has_them(here, monkeypatch):
    like = torch.zeros(1, dtype=torch.float16)
    assert fused.merges(like)
    merge = triton_kernels.merge
    monkeypatch.setattr(triton_kernels, "merge", lambda out, *parts: [merge(out, *parts), out.mul_(2)])
    assert not fused.merges(like)
    monkeypatch.setitem(sys.modules, "judgebench.judges.engine.triton_kernels", None)  # no Triton here
    assert not fused.merges(like)


def test_nothing_is_fused_on_the_processor_or_in_float32():
    model = model_of("llama")
    PrefixEngine(model)
    assert changed(model) == set()
    assert not fused.fuses(torch.device("cpu"), torch.float16)
    assert isinstance(model.get_decoder().layers[0].mlp, nn.Module)


COMPILED = """
from functools import partial
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from judgebench.judges.engine import triton_kernels as kernels

class Card:
    get_current_device = lambda self: 0
    get_current_stream = lambda self, device: 0
    get_current_target = lambda self: GPUTarget("cuda", {capability}, 32)

driver.set_active(Card())
JITFunction.__getitem__ = lambda self, grid: partial(self.run, grid=grid, warmup=True)
for tokens in (1, 3, 16, 37):
    states = torch.zeros(1, tokens, 28, 128, dtype=torch.bfloat16)
    kernels.gated(states, states, "swish")
    kernels.rotated(states.transpose(1, 2), *torch.zeros(2, 1, tokens, 128, dtype=torch.bfloat16))
    rows = states.flatten(0, 2)
    all_lse = torch.zeros(1, 28, tokens + 1)
    kernels.merge(rows, [rows, rows, rows], [all_lse[..., :-1], all_lse[..., 1:], all_lse[..., 1:]], None)
for kernel in (kernels._gated, kernels._rotated, kernels._merge):
    made, = kernel.device_caches[0][0].values()
    print(kernel.__name__, made.metadata.shared, ".v4." in made.asm["ptx"], len(made.asm["cubin"]) > 1000)
"""


@pytest.mark.parametrize("capability", [80, 90])
def test_triton_compiles_each_kernel_once_for_any_number_of_tokens(capability, tmp_path):
    """A card is not needed to compile for it: each kernel is one program, without shared memory, that loads 16 bytes
    at once."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILED.replace("{capability}", str(capability))],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} 0 True True" for name in ("_gated", "_rotated", "_merge")]
