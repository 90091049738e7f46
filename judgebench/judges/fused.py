"""Elementwise work in fewer kernels: norms, feed-forward blocks and rotary embeddings of transformers, compiled.

A norm is six kernels of PyTorch's, a rotary embedding twelve, and each reads and writes all of its states; in half
precision on a GPU they take a fifth of a pass. `torch.compile` makes one kernel of each. The code compiled is the
model's own, so nothing here knows a formula. Results differ from uncompiled ones in the last bits of half precision,
where the compiler rounds less often, so the readings' keys tell them apart (`hardware.Hardware.kernels`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

_LOG = logging.getLogger(__name__)
_ACTIVE: ContextVar[bool] = ContextVar("judgebench_compiling", default=False)

_NORMS = ("RMSNorm", "LayerNorm")
_ROTARY = "apply_rotary_pos_emb"
"""Name of the function of every module of transformers that applies rotary embeddings."""


def fuse(model: PreTrainedModel) -> None:
    """Changes a model for good: its norms and feed-forward blocks, and its module's rotary embedding, run compiled.

    Nothing happens to models in float32, off a GPU, or split among processes, and where this machine cannot compile.
    """
    if not in_half_on_gpu(next(model.parameters())) or not compiles(model.device):
        return
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        return
    for module in model.get_decoder().modules():
        if "forward" in vars(module):  # something else has changed it
            continue
        if type(module).__name__.endswith(_NORMS) or _feeds_forward(module):
            module.forward = MethodType(compiled(type(module).forward), module)
        home = sys.modules[type(module).__module__]
        rotary = getattr(home, _ROTARY, None)
        if rotary is not None and not hasattr(rotary, "uncompiled"):
            setattr(home, _ROTARY, compiled(rotary))


@lru_cache(maxsize=64)
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled within `compiling` where it works on half precision on a GPU and no gradient is wanted,
    else as it is."""
    fast: Callable[..., Any] | None = None

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal fast
        if not _ACTIVE.get() or torch.is_grad_enabled():
            return function(*args, **kwargs)
        tensor = next((x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)), None)
        if tensor is None or not in_half_on_gpu(tensor) or not compiles(tensor.device):
            return function(*args, **kwargs)
        if fast is None:
            # models differ in width, and merges in their number of parts: each is compiled once
            torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
            fast = torch.compile(function, dynamic=True)
        try:
            return fast(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            _LOG.warning("%s runs as it is, for it does not compile here: %s", function.__qualname__, error)
            fast = function
            return function(*args, **kwargs)

    run.uncompiled = function  # type: ignore[attr-defined]
    return run


@contextmanager
def compiling(wanted: bool = True) -> Iterator[None]:
    """Within it functions that are `compiled` run so; elsewhere, as in plain passes that packed ones are compared with,
    they run as they are."""
    token = _ACTIVE.set(wanted)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def in_half_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether compiling is worth it for work on this tensor."""
    return tensor.device.type == "cuda" and tensor.dtype in (torch.bfloat16, torch.float16)


@lru_cache(maxsize=8)
def compiles(device: torch.device) -> bool:
    """Whether this machine can compile for a device: it is tried once on a few numbers."""
    if device.type != "cuda":
        return False
    try:
        with torch.inference_mode():
            states = torch.arange(512, device=device, dtype=torch.bfloat16).view(1, 8, 64) / 64
            ours, theirs = torch.zeros(1, 9, 64, device=device), torch.zeros(1, 9, 64, device=device)
            torch.compile(_tried, dynamic=True)(ours[:, 1:], states)
            _tried(theirs[:, 1:], states)
            return bool(torch.allclose(ours, theirs, atol=2e-2, rtol=2e-2))
    except Exception:  # whatever a compiler that is not there, or not for this device, raises
        return False


def _tried(out: torch.Tensor, states: torch.Tensor) -> None:
    """What regions do: a norm, a rotation, and a result written into a part of something."""
    wide = states.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    out.copy_(normed + torch.cat([-normed[..., 32:], normed[..., :32]], dim=-1))


def _feeds_forward(module: nn.Module) -> bool:
    """Whether it is linear layers with an activation between them, and nothing that could choose among experts."""
    children = list(module.children())
    linear = [child for child in children if isinstance(child, nn.Linear)]
    return (
        type(module).__name__.endswith("MLP")
        and len(linear) >= 2
        and not any(list(child.parameters()) for child in children if child not in linear)
    )
