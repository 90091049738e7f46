"""Linear layers of transformers' models made faster on the CPU.

Weights are laid out once as oneDNN's matrix products want them (`lay_out`); else each product
rearranges them, which takes a tenth of the time of a long row and most of the time of a step of
generation. An activation or a factor is applied to each result while it is still in registers.
Numbers differ from the plain layer's in the last bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedModel

_ROWS = 1024
"""The row length that the layout is chosen for; others are as fast from about 4 tokens on."""

_LAID_OUT = (torch.float32, torch.bfloat16)

_CLOSE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 4e-3}
"""Largest `difference` of layers that `agree`, by dtype."""

ACTIVATIONS = {
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
    if not here or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight") or in_shards(model):
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
    return module.weight.dtype in _LAID_OUT and not hooked


def in_shards(model: nn.Module) -> bool:
    """True of a model that is split among processes."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def _fused(mlp: nn.Module) -> FusedGatedMLP | None:
    """The fused form of a gated block, if it is one: all that looks like one is tried on a few
    random states."""
    known = ACTIVATIONS.get(type(getattr(mlp, "act_fn", None)).__name__)
    names = ("gate_proj", "up_proj", "down_proj")
    parts: list[Any] = [getattr(mlp, name, None) for name in names]
    if isinstance(mlp, FusedGatedMLP) or known is None:
        return None
    if not all(isinstance(part, LaidOutLinear) for part in parts):
        return None
    # A name says little: a block may scale, clip or drop between its products. So the fused block
    # has to give what the model's own gives.
    fused = FusedGatedMLP(mlp, *known)
    gate = parts[0]
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(1, 4, gate.in_features, generator=draw).to(gate.laid_out.dtype)
    return fused if agree(mlp, fused, states) else None


def agree(plain: Callable[..., Any], fast: Callable[..., Any], *states: Tensor) -> bool:
    """True where two functions give the same for these states, but for rounding."""
    try:
        theirs = tree_leaves(plain(*states))
        ours = tree_leaves(fast(*states))
        gaps = [difference(a, b) for a, b in zip(theirs, ours, strict=True)]
    # of any kind: a function that takes other arguments, a kernel that is not for this device
    except Exception:
        return False
    # NaN is a difference, too
    return all(gap <= _CLOSE[states[0].dtype] for gap in gaps)


def difference(theirs: Tensor, ours: Tensor) -> float:
    """Largest difference of two results as a share of the largest value of `theirs`; infinite where
    their shapes or dtypes differ."""
    if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        return float("inf")
    return float((theirs - ours).abs().amax() / theirs.abs().amax())
