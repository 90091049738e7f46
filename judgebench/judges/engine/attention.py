"""judgebench's attention, registered with transformers as an implementation of its own.

Any model written against transformers' attention interface then runs on packed rows unchanged: whatever is being read
(`attending`), each layer's queries, keys and values go to that pass's `attend`.

Shapes: query [1, heads, tokens, dim], key and value [1, kv heads, tokens, dim], as transformers hands them over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from judgebench.judges.engine.cache import Step
from judgebench.judges.engine.kernels import AttentionOptions, attend_masked
from judgebench.judges.engine.prefill import KeysOnly, Prefill, ReadRoot, ReadsOnly

NAME = "judgebench_packed"
EXACT = "judgebench_exact"
"""Attention of plain rows, written out in float32: what rounding in half precision is measured against."""

AttentionPass = ReadRoot | Prefill | KeysOnly | ReadsOnly | Step

_ACTIVE: ContextVar[AttentionPass | None] = ContextVar("judgebench_attention", default=None)


@contextmanager
def attending(pass_: AttentionPass) -> Iterator[None]:
    """Within it, models whose attention implementation is `NAME` read the row that `pass_` describes."""
    token = _ACTIVE.set(pass_)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def own_attention(model: PreTrainedModel, exact: bool = False) -> Iterator[None]:
    """Within it a model reads plain rows with attention of its own, whatever implementation is set.

    Args:
        exact: with attention written out in float32 instead; for rows that are read whole, without a cache.
    """
    packed = model.config._attn_implementation == NAME
    if packed:
        model.set_attn_implementation(EXACT if exact else "sdpa" if model._supports_sdpa else "eager")
    try:
        yield
    finally:
        if packed:
            model.set_attn_implementation(NAME)


def current_rows() -> torch.Tensor | None:
    """Places of the packed row under way at which its prompts are being continued, prompt by prompt: read, or written.

    Returns:
        [places] int64 indices into the row's tokens, none of them while a root is read; None where no packed row is
        under way.
    """
    active = _ACTIVE.get()
    if isinstance(active, Prefill):
        return active.packed.reads.flatten()
    if isinstance(active, Step):
        return torch.arange(active.at.numel(), device=active.at.device)
    return None if active is None else torch.zeros(0, dtype=torch.int64)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function; transformers calls it once a layer.

    Returns:
        [1, tokens, heads, dim] and no weights.
    """
    active = _ACTIVE.get()
    if active is None:
        raise RuntimeError(f"attention implementation {NAME!r} was called outside of a packed pass")
    layer: int = module.layer_idx  # type: ignore[assignment]
    out = active.attend(layer, query, key, value, _how(query, **options))
    return out.transpose(1, 2).contiguous(), None


def exact_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of `EXACT`; see `packed_attention`."""
    how = _how(query, **options)
    at = torch.arange(query.shape[2], device=query.device)
    behind = at[:, None] - at
    allowed = (behind >= 0) & (behind < (how.window or len(at)))
    return attend_masked(query, key, value, how, allowed).transpose(1, 2).contiguous(), None


def _how(
    query: torch.Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> AttentionOptions:
    """A layer's options, as transformers hands them over."""
    return AttentionOptions(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)


AttentionInterface.register(NAME, packed_attention)
AttentionInterface.register(EXACT, exact_attention)
