"""Memory: how much there is, and that what is freed stays with the process while prompts are read.

By itself glibc hands every large block back to the system when it is freed, and the next layer's results have to be
faulted in again, page by page: a tenth of a float32 pass over a small model. Elsewhere than on Linux with glibc nothing
happens.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

import psutil
import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_MOST = 2**31 - 1
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

_USUAL = 32 * 2**20  # where glibc's own, moving threshold ends on 64-bit systems


def keep_freed() -> None:
    """From now on freed blocks of up to 1 GiB are kept for the next who asks."""
    if (libc := _libc()) is not None:
        libc.mallopt(_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_TRIM_THRESHOLD, _MOST)


def return_freed() -> None:
    """Hands freed memory back to the system, now and from now on."""
    if (libc := _libc()) is not None:
        libc.mallopt(_MMAP_THRESHOLD, _USUAL)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _USUAL)
        libc.malloc_trim(0)


def memory_of(device: torch.device) -> int:
    """Bytes of a device's whole memory."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return 0


def free_memory(device: torch.device) -> int:
    """Bytes of a device's memory that this process can have."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    return int(psutil.virtual_memory().available)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out; PyTorch has an exception of its own for some cases alone."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in str(error) for words in _NO_ROOM)


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
