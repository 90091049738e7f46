"""Layers of transformers' models made faster: linear ones on the CPU, elementwise work on a GPU.

On the CPU weights are laid out once as oneDNN's matrix products want them (`lay_out`); else each
product rearranges them, which takes a tenth of the time of a long row and most of the time of a
step of generation. An activation or a factor is applied to each result while it is still in
registers. Numbers differ from the plain layer's in the last bits.

On a GPU norms, feed-forward blocks and rotary embeddings are compiled (`fuse`): `torch.compile`
makes one kernel of a norm's six and a rotary embedding's twelve, which in half precision take a
fifth of a pass. The code compiled is the model's own, so nothing here knows a formula. Results
differ from uncompiled ones in the last bits of half precision, so the readings' keys tell them
apart (`hardware.Hardware.kernels`).
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

_ROWS = 1024
"""The row length that the layout is chosen for; others are as fast from about 4 tokens on."""

_CLOSE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""Largest difference of a fused block's result, as a share of its largest value, by dtype."""

_ACTIVATIONS = {
    "SiLU": ("swish", ""),
    "SiLUActivation": ("swish", ""),
    "GELUActivation": ("gelu", "none"),
    "GELUTanh": ("gelu", "tanh"),
}
"""Class of an activation -> oneDNN's name of it and of its variant."""


# oneDNN's matrix products want the weight in blocks, as the processor's registers take it.
# PyTorch's own layer converts it in each call; here that is done once, and the plain weight goes.
class LaidOutLinear(nn.Module):
    """A linear layer for inference, float32 or bfloat16 on the CPU, whose weight is in oneDNN's
    layout alone."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.bias = linear.bias
        self.laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(
            linear.weight.detach(), _ROWS
        )
        self.transposed: Tensor | None = None

    @property
    def weight(self) -> Tensor:  # [out, in] a copy of the plain weight, for code that looks at it
        return self.laid_out.to_dense()

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] -> [..., out]; only the states have a gradient."""
        return (
            _Linear.apply(states, self)
            if _wants_gradient(states)
            else self.activated(states, "none", "")
        )

    def activated(self, states: Tensor, activation: str, variant: str) -> Tensor:
        """The activation of what `forward` gives; has no gradient."""
        return torch.ops.mkldnn._linear_pointwise(
            # one pass: the activation is applied to numbers that are still in registers
            states,
            self.laid_out,
            self.bias,
            activation,
            [],
            variant,
        )

    def times(self, states: Tensor, factor: Tensor) -> Tensor:
        """The product of what `forward` gives and `factor` [..., out]; has no gradient."""
        return torch.ops.mkldnn._linear_pointwise.binary(
            states, factor, self.laid_out, self.bias, "mul"
        )

    def back(self, outer: Tensor) -> Tensor:
        """The states' gradient [..., in] from the result's. The first call lays the weight out a
        second time; `forget_gradients` gives that memory back."""
        # The result is states W^T, so the states' gradient is outer W: a linear layer whose weight
        # is W^T. Only the search for phrases takes gradients, so most runs never need this second
        # layout.
        if self.transposed is None:
            self.transposed = torch.ops.mkldnn._reorder_linear_weight(
                self.weight.t().contiguous(), _ROWS
            )
        return torch.ops.mkldnn._linear_pointwise(
            outer.contiguous(), self.transposed, None, "none", [], ""
        )


def forget_gradients(model: nn.Module) -> None:
    """Gives back what `LaidOutLinear.back` has taken."""
    for module in model.modules():
        if isinstance(module, LaidOutLinear):
            module.transposed = None


class _Linear(torch.autograd.Function):
    """`LaidOutLinear.forward` with a gradient: oneDNN's products have none of their own."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, linear: LaidOutLinear) -> Tensor:
        # the weight has no gradient: judges are read, never trained
        ctx.linear = linear
        return linear.activated(states, "none", "")

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None]:
        return ctx.linear.back(outer[0]), None


def _wants_gradient(states: Tensor) -> bool:
    return torch.is_grad_enabled() and states.requires_grad


class FusedGatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)) of a block `mlp`, whose linear layers are laid out, without
    a pass over memory for the activation (by oneDNN's names of it) and one for the product."""

    def __init__(self, mlp: Any, activation: str, variant: str):
        super().__init__()
        self.gate_proj = mlp.gate_proj
        self.up_proj = mlp.up_proj
        self.down_proj = mlp.down_proj
        self.act_fn = mlp.act_fn
        self._activation = activation, variant

    def forward(self, states: Tensor) -> Tensor:
        if _wants_gradient(states):
            return self.down_proj(self.act_fn(self.gate_proj(states)) * self.up_proj(states))
        gate = self.gate_proj.activated(states, *self._activation)  # [..., inner]
        return self.down_proj(self.up_proj.times(states, gate))  # [..., hidden]


@torch.inference_mode()
def lay_out(model: PreTrainedModel) -> None:
    """Changes a model for good: its decoder's linear layers, and the gated blocks made of them,
    become the above.

    Nothing happens off the CPU, in other dtypes, to models that are split among processes, and
    where this PyTorch or this CPU does not have what it takes. The head is left alone: it is read
    in float32 (`Head`).
    """
    here = model.device.type == "cpu" and torch.backends.mkldnn.is_available()
    if not here or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight") or _is_split(model):
        return
    if model.dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    decoder = model.get_decoder()
    # how many parameters a weight is: one that is tied to another layer must stay as it is
    uses = Counter(
        parameter.data_ptr() for _, parameter in model.named_parameters(remove_duplicate=False)
    )
    laid_out: dict[nn.Module, nn.Module] = {}
    # the innermost first: a gated block is one whose linear layers are laid out already
    for parent in reversed(list(decoder.modules())):
        for name, child in list(parent.named_children()):
            if _is_linear(child) and uses[child.weight.data_ptr()] == 1:
                laid_out[child] = LaidOutLinear(child)
                child.weight = None  # two copies of a model may not fit
            replacement = laid_out.get(child) or _fused(child)
            if replacement is not None:
                setattr(parent, name, replacement)


def _is_linear(module: nn.Module) -> bool:
    """True for a linear layer that is nothing more, and has not been laid out."""
    if type(module) is not nn.Linear or module.weight is None:
        return False
    # what hooks would see is no longer computed step by step
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return module.weight.dtype in _CLOSE and not hooked


def _is_split(model: nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def _fused(mlp: nn.Module) -> FusedGatedMLP | None:
    """The fused form of a gated block, if it is one: all that looks like one is tried on a few
    random states."""
    known = _ACTIVATIONS.get(type(getattr(mlp, "act_fn", None)).__name__)
    gate, *others = [getattr(mlp, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    if isinstance(mlp, FusedGatedMLP) or known is None or not isinstance(gate, LaidOutLinear):
        return None
    if not all(isinstance(part, LaidOutLinear) for part in others):
        return None
    # A name says little: a block may scale, clip or drop between its products. So the fused block
    # has to give what the model's own gives.
    fused = FusedGatedMLP(mlp, *known)
    dtype = gate.laid_out.dtype
    states = torch.randn(1, 4, gate.in_features, generator=torch.Generator().manual_seed(0)).to(
        dtype
    )
    try:
        theirs = mlp(states)
    except TypeError:  # it wants more than states: no plain block
        return None
    ours = fused(states)
    if not isinstance(theirs, Tensor) or theirs.shape != ours.shape:
        return None
    close = (theirs - ours).abs().amax() <= _CLOSE[dtype] * theirs.abs().amax()
    return fused if close else None


_LOG = logging.getLogger(__name__)
_ACTIVE: ContextVar[bool] = ContextVar("judgebench_compiling", default=False)

_NORMS = ("RMSNorm", "LayerNorm")
_ROTARY = "apply_rotary_pos_emb"
"""Name of the function of every module of transformers that applies rotary embeddings."""


def fuse(model: PreTrainedModel) -> None:
    """Changes a model for good: its norms and feed-forward blocks, and its module's rotary
    embedding, run compiled.

    Nothing happens to models in float32, off a GPU, or split among processes, and where this
    machine cannot compile.
    """
    if (
        not in_half_on_gpu(next(model.parameters()))
        or not compiles(model.device)
        or _is_split(model)
    ):
        return
    for module in model.get_decoder().modules():
        if "forward" in vars(module):  # something else has changed it
            continue
        # a feed-forward block is linear layers with an activation between them, and nothing that
        # chooses among experts
        children = list(module.children())
        linear = [child for child in children if isinstance(child, nn.Linear)]
        others = [child for child in children if child not in linear and list(child.parameters())]
        feeds_forward = type(module).__name__.endswith("MLP") and len(linear) >= 2 and not others
        # by the ends of names, as transformers writes them for most architectures
        if type(module).__name__.endswith(_NORMS) or feeds_forward:
            module.forward = MethodType(compiled(type(module).forward), module)
        # a function of the module that defines the layer, found there by name at each call
        home = sys.modules[type(module).__module__]
        rotary = getattr(home, _ROTARY, None)
        if rotary is not None and not hasattr(rotary, "uncompiled"):
            setattr(home, _ROTARY, compiled(rotary))


@lru_cache(maxsize=64)
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled within `compiling` where it works on half precision on a GPU and
    without a gradient."""
    fast: Callable[..., Any] | None = None

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal fast
        # plain passes, against which packed ones are proven, run the code as it is; and so do
        # gradients
        if not _ACTIVE.get() or torch.is_grad_enabled():
            return function(*args, **kwargs)
        tensor = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
        if tensor is None or not in_half_on_gpu(tensor) or not compiles(tensor.device):
            return function(*args, **kwargs)
        if fast is None:
            # models differ in width, and merges in their number of parts: each is compiled once
            torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
            # dynamic: a kernel for any number of tokens, which differs from batch to batch
            fast = torch.compile(function, dynamic=True)
        try:
            return fast(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            # the reading goes on; the same results but for rounding, and slower
            _LOG.warning(
                "%s runs as it is, for it does not compile here: %s", function.__qualname__, error
            )
            fast = function
            return function(*args, **kwargs)

    run.uncompiled = function  # type: ignore[attr-defined]
    return run


@contextmanager
def compiling(wanted: bool = True) -> Iterator[None]:
    """Within it functions that are `compiled` run so; elsewhere, as in plain passes, they run as
    they are."""
    # a context variable, as for attention: other threads read as they were
    token = _ACTIVE.set(wanted)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def in_half_on_gpu(tensor: Tensor) -> bool:
    """True where compiling is worth it for work on this tensor."""
    return tensor.device.type == "cuda" and tensor.dtype in (torch.bfloat16, torch.float16)


@lru_cache(maxsize=8)
def compiles(device: torch.device) -> bool:
    """True where this machine can compile for a device: it is tried once on a few numbers, with all
    that regions do: a norm, a rotation, and a result written into a part of something."""
    if device.type != "cuda":
        return False

    def trial(out: Tensor, states: Tensor) -> None:
        wide = states.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        out.copy_(normed + torch.cat([-normed[..., 32:], normed[..., :32]], dim=-1))

    try:
        with torch.inference_mode():
            # fixed numbers: the trial draws nothing from the random generators of a run
            states = torch.arange(512, device=device, dtype=torch.bfloat16).view(1, 8, 64) / 64
            ours = torch.zeros(1, 9, 64, device=device)
            theirs = torch.zeros(1, 9, 64, device=device)
            torch.compile(trial, dynamic=True)(ours[:, 1:], states)
            trial(theirs[:, 1:], states)
            return bool(torch.allclose(ours, theirs, atol=2e-2, rtol=2e-2))
    except Exception:  # of any kind: a compiler may not be there, or not for this device
        return False
