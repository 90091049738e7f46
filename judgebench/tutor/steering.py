"""Steering: while a text is written, its hidden state is moved towards a standard (CAP, equations 4
and 5).

The current position of a text is the last that was read: the prompt's last token while the prompt
is read, then each token of the text. A layer yields [batch, tokens, hidden], or a tuple that begins
with it. In a packed row (the prefix engine's) the current positions stand where the engine says; in
any other batch they are the last ones, so prompts must be padded on the left, if at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from judgebench.judges.engine.attention import current_rows
from judgebench.judges.engine.plain import layers_of
from judgebench.words.errors import UserError


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The layers of a model, in order."""
    layers = layers_of(model.get_decoder())
    if layers is None:
        raise UserError(
            f"tutor: the layers of {type(model).__name__} are not where transformers has them, so "
            "it cannot be steered; choose another tutor."
        )
    return layers


def states_of(output: Any) -> torch.Tensor:
    """[batch, tokens, hidden] what a layer yields."""
    states: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return states


def current(states: torch.Tensor) -> tuple[Any, Any]:
    """The index of the current positions among states [batch, tokens, hidden], text by text; of no
    text where none is under way."""
    rows = current_rows()
    return (slice(None), -1) if rows is None else (0, rows.to(states.device))


HIGH = "high"
LOW = "low"


def edit(
    states: torch.Tensor, standard: torch.Tensor, direction: torch.Tensor, strength: torch.Tensor
) -> torch.Tensor:
    """Equations 4 and 5, N(s + a (1 - cos(s, v)) d), where N gives back the length of s; computed
    in float32.

    Args:
        states: [rows, hidden] s, of any floating type.
        standard: [rows or 1, hidden] float32 v: the high standard vector hv, or the low one lv.
        direction: [hidden] float32 d = (hv - lv) / |hv - lv|, from low to high.
        strength: [rows or 1] float32 a: alpha_h towards the high standard, -alpha_l towards the low
            one; 0 changes nothing.
    """
    s = states.float()
    cosine = F.cosine_similarity(s, standard, dim=-1)
    moved = s + (strength * (1 - cosine))[:, None] * direction
    length = moved.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    return (moved * (s.norm(dim=-1, keepdim=True) / length)).to(states.dtype)


@dataclass(frozen=True, eq=False)
class Standard:
    """The standard vectors of one layer, to which texts are steered.

    Args:
        layer: whose output is edited, counted from 1.
        high, low: [hidden] float32 hv and lv.

    Raises:
        UserError: hv and lv are the same, or not finite.
    """

    layer: int
    high: torch.Tensor
    low: torch.Tensor

    def __post_init__(self) -> None:
        apart = float((self.high - self.low).norm())
        if not 0 < apart < float("inf"):
            raise UserError(
                f"tutor: the high and the low standard vector of layer {self.layer} are {apart:g} "
                "apart, so there is no direction to steer in; find vectors from more candidates, "
                "or choose another tutor.layer."
            )

    @property
    def direction(self) -> torch.Tensor:
        """[hidden] float32 of length 1, from low to high."""
        return F.normalize(self.high - self.low, dim=0)

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits; equal only where a steered text would be."""
        digest = hashlib.sha256(f"{self.layer} ".encode())
        for vector in (self.high, self.low):
            digest.update(np.ascontiguousarray(vector.numpy(), dtype=np.float32).tobytes())
        return digest.hexdigest()


class Steer:
    """Steers each text of a batch; one of the `others` of `generate`.

    Args:
        alphas: [texts] alpha_h towards the high standard where positive, alpha_l towards the low
            one where negative; 0 leaves a text alone. One text's may serve a whole batch.
        device: of the model.
    """

    def __init__(
        self, standard: Standard, alphas: torch.Tensor, device: torch.device | str = "cpu"
    ):
        self.layer = standard.layer
        self._strength = alphas.float().to(device)
        towards_high = (alphas > 0).to(device)[:, None]
        self._standard = torch.where(
            towards_high, standard.high.to(device), standard.low.to(device)
        )
        self._direction = standard.direction.to(device)

    def edited(self, states: torch.Tensor) -> torch.Tensor:
        """[texts, hidden] -> the same, steered."""
        return edit(states, self._standard, self._direction, self._strength)

    def keep(self, which: torch.Tensor) -> None:
        which = which.to(self._strength.device)
        self._strength = self._strength[which]
        self._standard = self._standard[which]


@contextmanager
def steering(model: PreTrainedModel, steer: Steer | None) -> Iterator[None]:
    """Within it the model writes steered texts; afterwards, however it ends, the model is as it
    was. None steers nothing.

    The output of `steer.layer` is edited at the current position of each text and nowhere else: at
    the prompt's last token while it is read, then at each new token. It works under the engines of
    judgebench, and under transformers' own `generate` with prompts padded on the left and a cache.
    """
    if steer is None:
        yield
        return

    def hook(module: torch.nn.Module, inputs: object, output: Any) -> Any:
        states = states_of(output)
        at = current(states)
        if not len(states[at]):
            return None
        # a copy with the edited states: what the layer yielded may be used elsewhere
        edited = states.clone()
        edited[at] = steer.edited(states[at])
        return (edited, *output[1:]) if isinstance(output, tuple) else edited

    handle = decoder_layers(model)[steer.layer - 1].register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
