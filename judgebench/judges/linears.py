"""Linear layers on the CPU, with weights laid out once as its matrix products want them.

PyTorch hands a linear layer's weight to the matrix product as it is stored, and the product rearranges it on every
call; that costs a tenth of the time of a long row and most of the time of a short one, such as a step of generation.
oneDNN takes weights that were rearranged before, and applies an activation or a factor to each result while it is still
in registers. Numbers differ from the plain layer's in the last bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
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


class LaidOutLinear(nn.Module):
    """A linear layer for inference whose weight is held in oneDNN's layout alone.

    Args:
        linear: the layer that it takes the place of, float32 or bfloat16 on the CPU.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        self.laid_out: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self.transposed: torch.Tensor | None = None

    @property
    def weight(self) -> torch.Tensor:
        """[out, in] a copy of the plain weight, for code that looks at it."""
        return self.laid_out.to_dense()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[..., in] -> [..., out]; its gradient is that of the states alone."""
        return _Linear.apply(states, self) if _wants_gradient(states) else self.activated(states, "none", "")

    def activated(self, states: torch.Tensor, activation: str, variant: str) -> torch.Tensor:
        """The activation of what `forward` gives; has no gradient."""
        return torch.ops.mkldnn._linear_pointwise(states, self.laid_out, self.bias, activation, [], variant)

    def times(self, states: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """What `forward` gives, times `factor` [..., out]; has no gradient."""
        return torch.ops.mkldnn._linear_pointwise.binary(states, factor, self.laid_out, self.bias, "mul")

    def back(self, outer: torch.Tensor) -> torch.Tensor:
        """[..., out] -> [..., in]: the gradient of the states from that of the result. The first call lays the weight
        out a second time; `forget_gradients` gives that memory back."""
        if self.transposed is None:
            self.transposed = torch.ops.mkldnn._reorder_linear_weight(self.weight.t().contiguous(), _ROWS)
        return torch.ops.mkldnn._linear_pointwise(outer.contiguous(), self.transposed, None, "none", [], "")


def forget_gradients(model: nn.Module) -> None:
    """Gives back what `LaidOutLinear.back` has taken."""
    for module in model.modules():
        if isinstance(module, LaidOutLinear):
            module.transposed = None


class _Linear(torch.autograd.Function):
    """`LaidOutLinear.forward` with a gradient: oneDNN's products have none of their own."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, linear: LaidOutLinear) -> torch.Tensor:
        ctx.linear = linear
        return linear.activated(states, "none", "")

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.linear.back(outer[0]), None


def _wants_gradient(states: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and states.requires_grad


class FusedGatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)) without a pass over memory for the activation and one for the product.

    Args:
        mlp: the block that it takes the place of, with `gate_proj`, `up_proj` and `down_proj` laid out.
        activation, variant: oneDNN's names of its activation.
    """

    def __init__(self, mlp: nn.Module, activation: str, variant: str):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = mlp.gate_proj, mlp.up_proj, mlp.down_proj
        self.act_fn = mlp.act_fn
        self._activation = activation, variant

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> [..., hidden]."""
        if _wants_gradient(states):
            return self.down_proj(self.act_fn(self.gate_proj(states)) * self.up_proj(states))  # type: ignore[operator]
        return self.down_proj(self.up_proj.times(states, self.gate_proj.activated(states, *self._activation)))  # type: ignore[operator, union-attr]


@torch.inference_mode()
def lay_out(model: PreTrainedModel) -> None:
    """Changes a model for good: its decoder's linear layers, and the gated blocks made of them, become the above.

    Nothing happens off the CPU, in other dtypes, to models that are split among processes, and where this PyTorch or
    this CPU does not have what it takes. The head is left alone: it is read in float32 (`heads`).
    """
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        return
    if model.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    if model.dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    decoder = model.get_decoder()
    held: dict[int, int] = {}
    for _, parameter in model.named_parameters(remove_duplicate=False):
        held[parameter.data_ptr()] = held.get(parameter.data_ptr(), 0) + 1
    laid_out: dict[nn.Module, LaidOutLinear] = {}
    for parent in list(decoder.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and _plain(child) and held[child.weight.data_ptr()] == 1:
                laid_out[child] = LaidOutLinear(child)
                child.weight = None  # type: ignore[assignment]  # two copies of a model may not fit
            if child in laid_out:
                setattr(parent, name, laid_out[child])
    for parent in list(decoder.modules()):
        for name, child in list(parent.named_children()):
            if (fused := _fused(child)) is not None:
                setattr(parent, name, fused)


def _plain(linear: nn.Linear) -> bool:
    """Whether it is a linear layer and nothing more."""
    return (
        type(linear) is nn.Linear
        and linear.weight is not None
        and linear.weight.dtype in _CLOSE
        and not (linear._forward_hooks or linear._forward_pre_hooks or "forward" in vars(linear))
    )


def _fused(mlp: nn.Module) -> FusedGatedMLP | None:
    """The fused form of a gated block, if it is one: whatever looks like one is tried on a few random states."""
    parts = [getattr(mlp, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    known = _ACTIVATIONS.get(type(getattr(mlp, "act_fn", None)).__name__)
    gate = parts[0]
    if isinstance(mlp, FusedGatedMLP):
        return None
    if known is None or not isinstance(gate, LaidOutLinear) or not all(isinstance(p, LaidOutLinear) for p in parts):
        return None
    fused = FusedGatedMLP(mlp, *known)
    dtype = gate.laid_out.dtype
    states = torch.randn(1, 4, gate.in_features, generator=torch.Generator().manual_seed(0)).to(dtype)
    try:
        theirs = mlp(states)
    except TypeError:  # it wants more than states: no plain block
        return None
    ours = fused(states)
    if not isinstance(theirs, torch.Tensor) or theirs.shape != ours.shape:
        return None
    close = (theirs - ours).abs().amax() <= _CLOSE[dtype] * theirs.abs().amax()
    return fused if close else None
