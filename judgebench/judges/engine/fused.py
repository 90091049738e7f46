"""Elementwise work of a model in half precision on a GPU, in fewer passes over memory.

As transformers writes them, a norm takes six kernels, a rotary embedding twelve and a gated block
two; in half precision that is a fifth of a pass. Here PyTorch's own norm and the kernels of
`triton_kernels` do each at once. A name says little of what a layer computes, so each is tried
first: a layer whose numbers they do not give stays as it is (`fuse`).

Results differ from plain ones in the last bits of half precision, so the readings' keys tell them
apart (`hardware.Hardware.kernels`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from importlib import import_module
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from judgebench.judges.engine.layers import ACTIVATIONS, agree, in_shards

Work = Callable[..., Any]

_ACTIVE: ContextVar[bool] = ContextVar("judgebench_fusing", default=False)

_ROTARY = "apply_rotary_pos_emb"
"""Name of the function of every module of transformers that applies rotary embeddings."""


@contextmanager
def fusing(wanted: bool = True) -> Iterator[None]:
    """Within it fused layers run so; elsewhere, as in plain passes, they run as they are."""
    # a context variable, as for attention: other threads read as they were
    token = _ACTIVE.set(wanted)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@torch.inference_mode()
def fuse(model: PreTrainedModel) -> None:
    """Changes a model for good: its norms, gated blocks and its module's rotary embedding run fused
    within `fusing`, where that gives what they give.

    Nothing happens to models in float32, off a GPU, or split among processes, and where this
    machine has no Triton.
    """
    like = next(model.parameters())
    if not in_half_on_gpu(like) or not fuses(like.device, like.dtype) or in_shards(model):
        return
    query = _states(like, 1, 4, 3, 64)
    key = _states(like, 1, 2, 3, 64)
    table = _states(like, 1, 3, 64)
    for module in model.get_decoder().modules():
        if "forward" not in vars(module):  # nothing else has changed it
            for width, fast in _forms(module):
                _replace(module, "forward", fast, _states(like, 1, 4, width))
        # a function of the module that defines the layer, looked up there by name at each call
        home = sys.modules[type(module).__module__]
        if hasattr(home, _ROTARY):
            plain = getattr(home, _ROTARY)
            fast = partial(_rotated, plain)
            _replace(home, _ROTARY, fast, query, key, table, table.flip(-1))


def _forms(module: Any) -> Iterator[tuple[int, Work]]:
    """Width of a layer's states, and a function that may do its work in fewer passes, for each that
    there is."""
    # 1. a norm
    weight = getattr(module, "weight", None)
    eps = getattr(module, "eps", None)
    eps = getattr(module, "variance_epsilon", eps)
    if eps is not None and weight is not None:
        width = len(weight)
        yield width, partial(_normed, weight=weight, eps=eps)
        # Gemma's, rounded once
        shifted = 1 + weight.float()
        yield width, partial(_normed_wide, weight=shifted, eps=eps)
    # 2. a gated block
    active = getattr(module, "act_fn", None)
    active = getattr(module, "activation_fn", active)
    name = type(active).__name__
    activation, variant = ACTIVATIONS.get(name, ("", "none"))
    gate = getattr(module, "gate_proj", None)
    gate = getattr(module, "gate_up_proj", gate)
    if isinstance(gate, nn.Linear) and variant != "none":
        width = gate.in_features
        yield width, partial(_gated, module, activation=activation)


def _replace(owner: Any, name: str, fast: Work, *states: Tensor) -> None:
    """Has a function of `owner` run as `fast` where `is_fused`, if it gives the same for these
    states."""
    plain = getattr(owner, name)
    if hasattr(plain, "plain") or not agree(plain, fast, *states):
        return

    def run(states: Tensor, *args: Any, **kwargs: Any) -> Any:
        return (fast if is_fused(states) else plain)(states, *args, **kwargs)

    run.plain = plain  # type: ignore[attr-defined]
    setattr(owner, name, run)


def _states(like: Tensor, *shape: int) -> Tensor:
    """Random states to try a layer with, of the dtype and device of `like`."""
    # of a generator of its own: a trial draws nothing from those of a run
    draw = torch.Generator().manual_seed(sum(shape))
    # a mean of 1: norms that take it away differ from those that do not
    return (1 + torch.randn(*shape, generator=draw)).to(like.device, like.dtype)


def _normed(states: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(states, weight.shape, weight, eps)


def _normed_wide(states: Tensor, weight: Tensor, eps: float) -> Tensor:
    return _normed(states.float(), weight, eps).to(states.dtype)


def _gated(block: Any, states: Tensor, activation: str) -> Tensor:
    if hasattr(block, "gate_up_proj"):
        gate, up = block.gate_up_proj(states).chunk(2, dim=-1)
    else:
        gate, up = block.gate_proj(states), block.up_proj(states)
    return block.down_proj(triton_kernels().gated(gate, up, activation))


def _rotated(plain: Work, query: Tensor, key: Tensor, *tables: Tensor, **options: Any) -> Any:
    # some rotate a part of each head alone, or have tables for each text, or in float32
    usual = all(
        table.shape == (1, *query.shape[2:]) and table.dtype == query.dtype for table in tables
    )
    if options or not usual:
        return plain(query, key, *tables, **options)
    rotated = triton_kernels().rotated
    return rotated(query, *tables), rotated(key, *tables)


def triton_kernels() -> Any:
    """The module of that name, which is there where Triton is."""
    return import_module("judgebench.judges.engine.triton_kernels")


def is_fused(states: Tensor) -> bool:
    """True where work on these states is to be fused."""
    # plain passes, against which packed ones are proven, run the code as it is; and so do gradients
    wanted = _ACTIVE.get() and not torch.is_grad_enabled() and in_half_on_gpu(states)
    return wanted and fuses(states.device, states.dtype)


def in_half_on_gpu(tensor: Tensor) -> bool:
    """True where fusing is worth it for work on this tensor."""
    return tensor.device.type == "cuda" and tensor.dtype in (torch.bfloat16, torch.float16)


@lru_cache(maxsize=8)
@torch.inference_mode()
def fuses(device: torch.device, dtype: torch.dtype) -> bool:
    """True where Triton makes kernels for a device: one is tried on a few numbers."""
    return device.type == "cuda" and merges(torch.zeros(1, device=device, dtype=dtype))


def merges(like: Tensor) -> bool:
    """True where the kernel that merges parts does so, on the device and in the dtype of `like`."""

    def halved(part: Tensor) -> Tensor:
        out = torch.empty_like(part)
        # of 3 shares of a part and 1 share of its opposite the half is left
        normalizers = [torch.full((1, 2, 4), lse, device=like.device) for lse in (log(3), 0.0)]
        triton_kernels().merge(out, [part, -part], normalizers, None)
        return out

    return agree(lambda part: part / 2, halved, _states(like, 8, 64))
