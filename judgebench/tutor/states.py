"""Hidden states of texts at their final position, in every layer, in one pass over many texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from judgebench.judges.engine.hardware import out_of_memory
from judgebench.judges.engine.packing import Groups
from judgebench.judges.engine.plain import Engine
from judgebench.judges.passes import batch_tokens, engine_for
from judgebench.judges.planning import Batch, halves, plan
from judgebench.tutor.candidates import Candidate
from judgebench.tutor.layers import current, decoder_layers
from judgebench.tutor.tutor import Tutor


def candidate_states(tutor: Tutor, candidates: Sequence[Candidate]) -> np.ndarray:
    """What the tutor held in mind at the last token of each text that it wrote.

    Args:
        candidates: each at least one token long.

    Returns:
        [candidates, layers, hidden] float32: the output of every layer; the last layer's before the final norm.

    Raises:
        UserError: the model's layers are not found; a text does not fit into memory.
    """
    prompts = [
        replace(each.prompt, token_ids=np.concatenate([each.prompt.token_ids, each.tokens]).astype(np.int32))
        for each in candidates
    ]
    place = {id(prompt): i for i, prompt in enumerate(prompts)}
    order = {prompt.example.group_id: i for i, prompt in reversed(list(enumerate(prompts)))}
    prompts.sort(key=lambda prompt: order[prompt.example.group_id])
    tutor.models.make_room({tutor.spec.source})
    with torch.inference_mode():
        model: Any = tutor.models.get(tutor.spec.source).to(tutor.device)  # type: ignore[arg-type]
        engine = engine_for(model, [tutor.voice])
        found: list[np.ndarray] = [np.zeros(0)] * len(prompts)
        for batch in plan(prompts, tutor.spec.token_budget):
            for prompt, states in zip(batch.prompts, _of_batch(engine, model, batch), strict=True):
                found[place[id(prompt)]] = states
    return np.stack(found)


def final_states(engine: Engine, model: PreTrainedModel, groups: Groups) -> torch.Tensor:
    """The output of every layer at the last token of each text.

    Args:
        engine: reads `model`.
        groups: [tokens] token ids of each text, those that begin alike together.

    Returns:
        [texts, layers, hidden] float32 on the CPU.
    """
    # the plain engine reads texts one by one, so each pass over the layers is one text's
    parts = []
    with _capturing(model) as kept:
        engine.start(groups)
        layers = len(decoder_layers(model))
        for start in range(0, len(kept), layers):
            parts.append(torch.stack(kept[start : start + layers], dim=1))
    return torch.cat(parts)


def _of_batch(engine: Engine, model: PreTrainedModel, batch: Batch) -> list[np.ndarray]:
    try:
        return list(final_states(engine, model, batch_tokens(batch)).numpy())
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not out_of_memory(error) or len(batch.prompts) == 1:
            raise
    # outside of the handler, which would keep the failed pass's tensors alive
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [states for half in halves(batch) for states in _of_batch(engine, model, half)]


@contextmanager
def _capturing(model: PreTrainedModel) -> Iterator[list[torch.Tensor]]:
    """Within it, the current positions' states [texts, hidden] of every layer that runs are put on a list."""
    kept: list[torch.Tensor] = []

    def hook(module: torch.nn.Module, given: object, output: Any) -> None:
        states = current(output)
        if len(states):
            kept.append(states.float().cpu())

    handles = []
    try:
        for layer in decoder_layers(model):
            handles.append(layer.register_forward_hook(hook))
        yield kept
    finally:
        for handle in handles:
            handle.remove()
