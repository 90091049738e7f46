"""The decoder's layers, and the current positions in what they yield.

The current position of a text is the last that was read: the prompt's last token while the prompt is read, then each
token of the text. A layer yields [batch, tokens, hidden], or a tuple that begins with it. In a packed row (the prefix
engine's) the current positions stand where the engine says; in any other batch they are the last ones, so prompts must
be padded on the left, if at all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from judgebench.errors import UserError
from judgebench.judges.engine.attention import current_rows
from judgebench.judges.engine.heads import layers_of


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The layers of a model, in order.

    Raises:
        UserError: they are not found.
    """
    layers = layers_of(model.get_decoder())
    if layers is None:
        raise UserError(
            f"tutor: the layers of {type(model).__name__} were not found, so it cannot be steered; choose "
            "another tutor."
        )
    return layers


def layer_at(model: PreTrainedModel, layer: int) -> nn.Module:
    """The layer of this number, counted from 1.

    Raises:
        UserError: there is none.
    """
    layers = decoder_layers(model)
    if not 1 <= layer <= len(layers):
        raise UserError(
            f"tutor.layer: {layer} is no layer of {type(model).__name__}, which has {len(layers)}; give a whole number "
            f"from 1 to {len(layers)}."
        )
    return layers[layer - 1]


def current(output: Any) -> torch.Tensor:
    """[texts, hidden] what a layer yields at the current positions, text by text; no text where none is under way."""
    states: torch.Tensor = output[0] if isinstance(output, tuple) else output
    rows = current_rows()
    return states[:, -1] if rows is None else states[0, rows.to(states.device)]


def with_current(output: Any, edited: torch.Tensor) -> Any:
    """What a layer yields, with other states [texts, hidden] at the current positions; nothing is changed in place."""
    states: torch.Tensor = output[0] if isinstance(output, tuple) else output
    rows = current_rows()
    states = states.clone()
    if rows is None:
        states[:, -1] = edited
    else:
        states[0, rows.to(states.device)] = edited
    return (states, *output[1:]) if isinstance(output, tuple) else states
