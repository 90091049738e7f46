"""The device that computes: its number formats, the kernels behind half precision, and its memory.

By itself glibc hands every large block back to the system when it is freed, and the next layer's
results have to be faulted in again, page by page: a tenth of a float32 pass over a small model. So
what is freed stays with the process while prompts are read (`keep_freed`). Elsewhere than on Linux
with glibc nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import psutil
import torch

from judgebench.judges.engine import fused, kernels

HALF = ("bfloat16", "float16")
_UNITS = {"bfloat16": ("avx512_bf16", "amx_bf16", "bf16"), "float16": ("avx512_fp16", "amx_fp16")}
"""Half precision -> the flags of processors that have units for it; others convert every number and
are slower."""

# of malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_USUAL = 32 * 2**20  # where glibc's own, moving threshold ends on 64-bit systems
_NO_ROOM = (
    "can't allocate memory",  # PyTorch on the CPU
    "could not create a primitive",  # oneDNN, twice
    "could not create a memory object",
    "CUDA error: out of memory",  # the CUDA runtime, outside of PyTorch's allocator
    "CUBLAS_STATUS_ALLOC_FAILED",  # cuBLAS has no room for its workspace
    "CUBLAS_STATUS_NOT_INITIALIZED",  # or for itself
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""How libraries say that memory ran out."""


@dataclass(frozen=True)
class Hardware:
    """The device of this process's models; elementwise work in half precision on a GPU is
    fused where possible, if `compiled`.

    Attributes:
        elsewhere: name and arguments of a method -> what it gives on the device that reads in place
            of this one.
        steps: how many steps of free answers ran on a GPU since this device was chosen, by the way
            they ran, with the reason where they could not be graphs.
    """

    device: torch.device
    compiled: bool = True
    elsewhere: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    steps: Counter[str] = field(default_factory=Counter, compare=False, repr=False)

    def fast_dtype(self, saved: str) -> str:
        """The checkpoint's dtype, or float32 where this device has no units for it."""
        if saved not in HALF:
            return saved
        if self.elsewhere is not None:
            return str(self.elsewhere("fast_dtype", saved))
        has_units = True
        if self.device.type == "cpu":
            # without units every product converts both numbers: five times slower than float32
            flags = torch.cpu.get_capabilities()
            has_units = any(flags.get(name) for name in _UNITS[saved])
        elif saved == "bfloat16" and self.device.type == "cuda":
            has_units = torch.cuda.get_device_capability(self.device) >= (8, 0)
        return saved if has_units else "float32"

    def arithmetic(self) -> str:
        """The arithmetic that all processes of a run must share: fast dtypes, and kernels of half
        precision."""
        pairs = [(self.fast_dtype(dtype), self.kernels(dtype, 128)) for dtype in HALF]
        return str(pairs)

    def kernels(self, dtype: str, dim: int | None) -> str | None:
        """Name of the kernels that results in half precision on a GPU depend on; `dim`: features of
        an attention head, None where the model's own attention is used."""
        kind = self.device.type
        if dtype not in HALF:
            return None
        if self.elsewhere is not None:
            return self.elsewhere("kernels", dtype, dim)
        if kind == "cpu":
            return None
        if dim is None:
            return kind
        name = "plain"
        if kernels.varlen_fits(self.device, getattr(torch, dtype), dim):
            name = "varlen"
        if self.compiled and fused.fuses(self.device, getattr(torch, dtype)):
            name += " fused"
        return f"{kind} {name}"


_here: Hardware | None = None


def compute_on(
    device: torch.device, compiled: bool | None = None, elsewhere: Any = None
) -> Hardware:
    """Models run on this device from now on, see `Hardware`; `compiled`: None leaves it as it is.
    Products in float32 are computed in float32: some installations have TF32, with three digits,
    forced on."""
    global _here
    # a setting of the process, as its device is
    torch.set_float32_matmul_precision("highest")
    compiled = hardware().compiled if compiled is None else compiled
    _here = Hardware(device, compiled, elsewhere)
    return _here


def hardware() -> Hardware:
    """The device of this process's models; before any run has begun, a GPU if there is one."""
    if _here is not None:
        return _here
    return Hardware(torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu"))


def head_size(config: Any) -> int:
    """Features of an attention head of a decoder-only model, from its configuration."""
    text = config.get_text_config(decoder=True)
    return int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)


def keep_freed() -> None:
    """From now on freed blocks of up to 1 GiB are kept for the next allocation."""
    if (libc := _libc()) is not None:
        libc.mallopt(_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def return_freed() -> None:
    """Hands freed memory back to the system, now and from now on."""
    if (libc := _libc()) is not None:
        libc.mallopt(_MMAP_THRESHOLD, _USUAL)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _USUAL)
        libc.malloc_trim(0)


@cache
def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
        libc.malloc_trim.argtypes = [ctypes.c_size_t]
    except (OSError, AttributeError):  # another C library
        return None
    return libc


def memory_of(device: torch.device) -> int:
    """Bytes of a device's whole memory."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)


def free_memory(device: torch.device) -> int:
    """Bytes of a device's memory that this process can have."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return int(psutil.virtual_memory().available)


def out_of_memory(error: Exception) -> bool:
    """True of an error that says that memory ran out; PyTorch has an exception of its own for some
    cases alone."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        words in str(error) for words in _NO_ROOM
    )
