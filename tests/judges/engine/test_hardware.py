"""What computes decides the dtype that `auto` stands for, and the keys of what was read in half precision."""

import json
import resource
import subprocess
import sys

import pytest
import torch
import transformers as tf

from judgebench.judges.engine import fused, hardware, kernels
from judgebench.judges.engine.hardware import Hardware, compute_on
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.passes import ModelView

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def here(monkeypatch):
    """Sets what computes, and what its kernels are."""

    def use(device, flags=(), capability=(9, 0), varlen=True, compiled=True):
        monkeypatch.setattr(hardware, "_here", Hardware(device, compiled))
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(flags, True))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: capability)
        monkeypatch.setattr(kernels, "varlen_fits", lambda *_: varlen)
        monkeypatch.setattr(fused, "fuses", lambda *_: True)

    return use


@pytest.fixture
def saved_in(tiny_pair, tmp_path):
    """The configuration of a tiny checkpoint that was saved in a dtype."""

    def save(dtype):
        config = tf.AutoConfig.from_pretrained(tiny_pair[0])
        config.dtype = getattr(torch, dtype)
        config.save_pretrained(tmp_path / dtype)
        return ModelSource(str(tmp_path / dtype))

    return save


@pytest.mark.parametrize(
    ("device", "flags", "capability", "saved", "read"),
    [
        (CPU, (), None, "bfloat16", "float32"),
        (CPU, ("avx512_bf16",), None, "bfloat16", "bfloat16"),
        (CPU, ("amx_bf16",), None, "bfloat16", "bfloat16"),
        (CPU, ("avx512_bf16", "amx_bf16"), None, "float16", "float32"),
        (CPU, (), None, "float32", "float32"),
        (GPU, (), (8, 0), "bfloat16", "bfloat16"),
        (GPU, (), (7, 5), "bfloat16", "float32"),  # float16 would lose range
        (GPU, (), (7, 5), "float16", "float16"),
    ],
)
def test_auto_is_what_this_machine_computes_fast(here, saved_in, device, flags, capability, saved, read):
    source = saved_in(saved)
    here(device, flags, capability)
    assert source.effective_dtype() == read
    assert (source.dtype_note is None) == (saved == read)
    if saved != read:
        assert f"saved in {saved}" in source.dtype_note
        assert f"judge.dtype={saved}" in source.dtype_note
    chosen = ModelSource(source.path, dtype=saved)
    assert chosen.effective_dtype() == saved
    assert chosen.dtype_note is None


@pytest.mark.parametrize("engine", ["prefix", "plain"])
def test_half_precision_has_keys_of_its_kernels_and_the_cpu_keeps_its_own(here, saved_in, engine):
    """A store written before there were kernels in keys holds what the CPU has read."""
    half, full = saved_in("bfloat16"), saved_in("float32")
    old = {"model": "f", "dtype": "bfloat16", "engine": engine, "exit": None}

    def identity(source):
        return ModelView(ModelSource(source.path, dtype=source.saved_dtype), "f", engine).identity()

    here(CPU)
    assert identity(half) == old
    assert identity(full) == old | {"dtype": "float32"}
    here(GPU)
    fast = identity(half)
    assert identity(full) == old | {"dtype": "float32"}, "float32 may share"
    assert fast == old | {"kernels": "cuda varlen fused" if engine == "prefix" else "cuda"}
    here(GPU, varlen=False, compiled=False)
    assert json.dumps(identity(half)) != json.dumps(fast) or engine == "plain"


def test_float32_is_float32_where_tf32_is_forced(monkeypatch):
    monkeypatch.setattr(hardware, "_here", None)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")  # as some containers have it
        compute_on(CPU)
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_kernel_that_is_wrong_is_not_used(monkeypatch):
    """Each kernel is tried before it is trusted."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: (9, 0))
    for agrees, fits in ((lambda *_: True, True), (lambda *_: False, False), (_raises, False)):
        kernels.varlen_fits.cache_clear()
        monkeypatch.setattr(kernels, "_agrees", agrees)
        assert kernels.varlen_fits(GPU, torch.bfloat16, 128) is fits
        assert not kernels.varlen_fits(GPU, torch.bfloat16, 512)
        assert not kernels.varlen_fits(GPU, torch.float32, 128)
        assert not kernels.varlen_fits(CPU, torch.bfloat16, 128)
    kernels.varlen_fits.cache_clear()


def _raises(*_):
    raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")


@pytest.mark.parametrize("dim", [64, 100])
def test_the_trial_of_a_kernel_knows_right_from_wrong(monkeypatch, dim):
    from tests.judges.engine.test_engine import varlen

    monkeypatch.setattr(kernels, "varlen_attn", varlen)
    assert kernels._agrees(CPU, torch.bfloat16, dim)

    def upper_left(*given, window_size, **options):  # aligns causal attention at the other end
        return varlen(*given, window_size=(-1, -1), **options)

    monkeypatch.setattr(kernels, "varlen_attn", upper_left)
    assert not kernels._agrees(CPU, torch.bfloat16, dim)


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")


COUNT = """
import ctypes, resource
from judgebench.judges.engine.hardware import keep_freed, return_freed

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        block = ctypes.c_void_p(libc.malloc(48 * 2**20))
        ctypes.memset(block, 1, 48 * 2**20)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed()
faults()
kept, held = faults(), resident()
return_freed()
print(kept, faults(), held, resident())
"""


def test_kept_memory_is_used_again_and_returned_memory_is_gone():
    """Blocks of plain malloc, in a process of its own.

    torch asks for aligned blocks, which older glibc puts only into a hole larger than that: whether one is
    used again depends on what happens to lie beside it.
    """
    counted = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    kept, returned, held, left = map(int, counted.stdout.split())
    assert kept < 5 * 48 * 2**20 / resource.getpagesize() / 20
    assert returned > 10 * (kept + 1)
    assert left < held - 40 * 2**20
