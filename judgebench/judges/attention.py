"""Attention over a packed row: every token attends to the shared stretches above it and to its own prompt's tokens.

Registered with transformers as an attention implementation, so that any model written against its attention interface
runs on packed rows unchanged. The parts of a token's context are attended to separately and merged exactly by their
log-sum-exp: softmax over a union is the mean of the softmaxes over its parts, weighted by the parts' normalisers.

Shapes: query [1, heads, tokens, dim], key and value [1, kv heads, tokens, dim], as transformers hands them over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as F
from transformers import AttentionInterface

from judgebench.judges.packing import Packed

NAME = "judgebench_packed"

_GROWTH = 64
"""Tokens by which the room for generated keys grows."""


@dataclass
class LayerCache:
    """Keys and values of one layer, kept for generation.

    Attributes:
        shared_keys, shared_values: per shared stretch [1, kv heads, length, dim].
        keys, values: [prompts, kv heads, room, dim] each prompt's own.
    """

    shared_keys: list[torch.Tensor]
    shared_values: list[torch.Tensor]
    keys: torch.Tensor
    values: torch.Tensor


@dataclass
class Cache:
    """All layers' keys and values of a packed batch, and how far each prompt has come.

    Attributes:
        spans: for each shared stretch the prompts (first, last exclusive) below it.
        shared_sizes: [stretches] tokens of each stretch.
        sizes: [prompts] own tokens so far, those of the step under way included.
        offsets: [prompts] position of each prompt's first own token.
    """

    spans: list[tuple[int, int]]
    shared_sizes: list[int]
    sizes: torch.Tensor
    offsets: torch.Tensor
    layers: dict[int, LayerCache] = field(default_factory=dict)


@dataclass(frozen=True)
class Prefill:
    """A packed row is being read; keys and values go to `cache` where one is given."""

    packed: Packed
    cache: Cache | None = None


@dataclass(frozen=True)
class Step:
    """One more token of each prompt is being read, against `cache`."""

    cache: Cache


_ACTIVE: ContextVar[Prefill | Step | None] = ContextVar("judgebench_attention", default=None)


@contextmanager
def attending(pass_: Prefill | Step) -> Iterator[None]:
    """Within it, models whose attention implementation is `NAME` read the row that `pass_` describes."""
    token = _ACTIVE.set(pass_)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function; transformers calls it once a layer.

    Returns:
        [1, tokens, heads, dim] and no weights.
    """
    active = _ACTIVE.get()
    if active is None:
        raise RuntimeError(f"attention implementation {NAME!r} was called outside of a packed pass")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    how = _How(scale, sliding_window, softcap, s_aux)
    layer: int = module.layer_idx  # type: ignore[assignment]
    if isinstance(active, Step):
        out = _step(active.cache, layer, query, key, value, how)
    else:
        if active.cache is not None:
            active.cache.layers[layer] = _kept(active.packed, key, value)
        out = _prefill(active.packed, query, key, value, how)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, packed_attention)


@dataclass(frozen=True)
class _How:
    """What a layer wants of its attention; `sinks` [heads] are logits that only take part in the softmax."""

    scale: float
    window: int | None
    softcap: float | None
    sinks: torch.Tensor | None


def _prefill(packed: Packed, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: _How) -> torch.Tensor:
    longest = int(packed.positions.max()) + 1 if how.window is not None else 0
    if how.softcap is not None or (how.window is not None and longest > how.window):
        return _prefill_masked(packed, query, key, value, how)
    merged = _Merged(query)
    for shared in packed.shared:
        own = slice(shared.start, shared.end)
        keys, values = key[:, :, own], value[:, :, own]
        merged.add(own, *attend(query[:, :, own], keys, values, how.scale, causal=True))
        below = slice(shared.end, shared.below)
        merged.add(below, *attend(query[:, :, below], keys, values, how.scale))
    rows = packed.leaves
    mask = packed.branch_mask
    bias = None if mask is None else _bias(mask[:, None], query.dtype)
    q, k, v = (_gather(x, rows) for x in (query, key, value))
    out, lse = attend(q, k, v, how.scale, causal=mask is None, bias=bias)
    real = torch.arange(rows.shape[1], device=rows.device) < packed.leaf_sizes[:, None]
    merged.scatter(rows[real], out.transpose(1, 2)[real].transpose(0, 1), lse.transpose(1, 2)[real].transpose(0, 1))
    return merged.out(how.sinks)


def _prefill_masked(
    packed: Packed, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: _How
) -> torch.Tensor:
    """Windows and soft caps: the whole context under one explicit mask, stretch by stretch and prompt by prompt."""
    out = torch.empty_like(query)
    positions = packed.positions
    for i, shared in enumerate(packed.shared):
        above = [s for s in packed.shared[:i] if s.end <= shared.start < s.below]
        own = torch.arange(shared.start, shared.end, device=positions.device)
        seen = torch.cat([*(torch.arange(s.start, s.end, device=positions.device) for s in above), own])
        allowed = positions[seen] <= positions[own][:, None]
        out[:, :, own] = _masked(
            query[:, :, own], key[:, :, seen], value[:, :, seen], allowed, positions, own, seen, how
        )
    for leaf in range(len(packed.leaves)):
        size = int(packed.leaf_sizes[leaf])
        own = packed.leaves[leaf, :size]
        above = [s for s in packed.shared if s.first_leaf <= leaf < s.last_leaf]
        seen = torch.cat([*(torch.arange(s.start, s.end, device=positions.device) for s in above), own])
        among = (
            torch.ones(size, size, dtype=torch.bool, device=positions.device).tril()
            if packed.branch_mask is None
            else packed.branch_mask[leaf, :size, :size]
        )
        before = torch.ones(size, len(seen) - size, dtype=torch.bool, device=positions.device)
        allowed = torch.cat([before, among], dim=1)
        out[:, :, own] = _masked(
            query[:, :, own], key[:, :, seen], value[:, :, seen], allowed, positions, own, seen, how
        )
    return out


def _masked(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    allowed: torch.Tensor,
    positions: torch.Tensor,
    own: torch.Tensor,
    seen: torch.Tensor,
    how: _How,
) -> torch.Tensor:
    if how.window is not None:
        allowed = allowed & (positions[own][:, None] - positions[seen] < how.window)
    return _softmax_attend(query, key, value, how, allowed[None, None])


def _step(
    cache: Cache, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: _How
) -> torch.Tensor:
    """query [1, heads, prompts, dim]: one token of each prompt."""
    kept = cache.layers[layer]
    count = query.shape[2]
    at = cache.sizes - 1
    room = kept.keys.shape[2]
    if int(at.max()) >= room:
        kept.keys, kept.values = (F.pad(x, (0, 0, 0, _GROWTH)) for x in (kept.keys, kept.values))
    prompts = torch.arange(count, device=query.device)
    kept.keys[prompts, :, at] = key[0].transpose(0, 1)
    kept.values[prompts, :, at] = value[0].transpose(0, 1)
    longest = int(cache.sizes.max())
    keys, values = kept.keys[:, :, :longest], kept.values[:, :, :longest]
    live = (torch.arange(longest, device=query.device) < cache.sizes[:, None])[:, None, None]
    q = query[0].transpose(0, 1)[:, :, None]
    if how.softcap is not None or (how.window is not None and int((cache.offsets + cache.sizes).max()) > how.window):
        return _step_masked(cache, kept, q, keys, values, live, how)
    merged = _Merged(query)
    for (first, last), shared_keys, shared_values in zip(
        cache.spans, kept.shared_keys, kept.shared_values, strict=True
    ):
        if last > first:
            span = slice(first, last)
            merged.add(span, *attend(query[:, :, span], shared_keys, shared_values, how.scale))
    out, lse = attend(q, keys, values, how.scale, bias=_bias(live, query.dtype))
    merged.scatter(prompts, out[:, :, 0].transpose(0, 1), lse[:, :, 0].transpose(0, 1))
    return merged.out(how.sinks)


def _step_masked(
    cache: Cache,
    kept: LayerCache,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    live: torch.Tensor,
    how: _How,
) -> torch.Tensor:
    out = []
    for i in range(len(query)):
        above = [n for n, (first, last) in enumerate(cache.spans) if first <= i < last]
        size = int(cache.sizes[i])
        k = torch.cat([*(kept.shared_keys[n] for n in above), keys[i : i + 1, :, :size]], dim=2)
        v = torch.cat([*(kept.shared_values[n] for n in above), values[i : i + 1, :, :size]], dim=2)
        behind = torch.arange(k.shape[2] - 1, -1, -1, device=k.device)
        allowed = behind < how.window if how.window is not None else torch.ones_like(behind, dtype=torch.bool)
        out.append(_softmax_attend(query[i : i + 1], k, v, how, allowed[None, None, None]))
    return torch.cat(out)[:, :, 0].transpose(0, 1)[None]


def _kept(packed: Packed, key: torch.Tensor, value: torch.Tensor) -> LayerCache:
    rows = packed.leaves
    room = (0, 0, 0, _GROWTH)
    return LayerCache(
        shared_keys=[key[:, :, s.start : s.end].clone() for s in packed.shared],
        shared_values=[value[:, :, s.start : s.end].clone() for s in packed.shared],
        keys=F.pad(_gather(key, rows), room),
        values=F.pad(_gather(value, rows), room),
    )


def _gather(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[1, heads, tokens, dim] -> [prompts, heads, width, dim]."""
    return x[0][:, rows].transpose(0, 1)


def _bias(allowed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, float("-inf"))


class _Merged:
    """Attention outputs of each token, merged part by part through their log-sum-exp, in float32."""

    def __init__(self, query: torch.Tensor):
        self._dtype = query.dtype
        self._out = torch.zeros(query.shape[1:], dtype=torch.float32, device=query.device)
        self._lse = torch.full(query.shape[1:-1], float("-inf"), device=query.device)

    def add(self, span: slice, out: torch.Tensor, lse: torch.Tensor) -> None:
        """One more part for the tokens of `span`: out [1, heads, span, dim], lse [1, heads, span]."""
        self._out[:, span], self._lse[:, span] = _merge(self._out[:, span], self._lse[:, span], out[0], lse[0])

    def scatter(self, tokens: torch.Tensor, out: torch.Tensor, lse: torch.Tensor) -> None:
        """One more part for the listed tokens: out [heads, tokens, dim], lse [heads, tokens]."""
        self._out[:, tokens], self._lse[:, tokens] = _merge(self._out[:, tokens], self._lse[:, tokens], out, lse)

    def out(self, sinks: torch.Tensor | None) -> torch.Tensor:
        """[1, heads, tokens, dim] in the query's dtype."""
        out = self._out
        if sinks is not None:
            out = out * torch.sigmoid(self._lse - sinks.float()[:, None])[..., None]
        return out[None].to(self._dtype)


def _merge(
    out: torch.Tensor, lse: torch.Tensor, more: torch.Tensor, more_lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.logaddexp(lse, more_lse)
    return out * (lse - both).exp()[..., None] + more * (more_lse - both).exp()[..., None], both


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    causal: bool = False,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with its log-sum-exp.

    Args:
        query: [batch, heads, queries, dim].
        key, value: [batch, kv heads, keys, dim]; heads is a multiple of kv heads.
        scale: factor on the products.
        causal: query i sees keys 0..i.
        bias: added to the scaled products, broadcastable to [batch, heads, queries, keys].

    Returns:
        [batch, heads, queries, dim] in the query's dtype and [batch, heads, queries] float32.
    """
    return _KERNELS.get(query.device.type, _attend_plain)(query, key, value, scale, causal, bias)


def _attend_cpu(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=bias, scale=scale
    )


def _attend_cuda(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    repeats = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
    if bias is None and query.dtype in (torch.float16, torch.bfloat16):
        out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)
        return out, lse[..., : query.shape[2]]
    return _attend_plain(query, key, value, scale, causal, bias)


def _attend_plain(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Written out, for devices without a kernel that returns the log-sum-exp."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
    scores = (query @ key.transpose(-1, -2)).float() * scale
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    if bias is not None:
        scores = scores + bias
    lse = torch.logsumexp(scores, dim=-1)
    return torch.exp(scores - lse[..., None]).to(value.dtype) @ value, lse


_Kernel = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, float, bool, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor]
]
_KERNELS: dict[str, _Kernel] = {"cpu": _attend_cpu, "cuda": _attend_cuda}


def _softmax_attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: _How, allowed: torch.Tensor
) -> torch.Tensor:
    """Attention under an explicit mask, with the soft cap of Gemma 2: cap * tanh(score / cap)."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
    scores = (query @ key.transpose(-1, -2)) * how.scale
    if how.softcap is not None:
        scores = how.softcap * torch.tanh(scores / how.softcap)
    scores = scores.float().masked_fill(~allowed, float("-inf"))
    if how.sinks is not None:
        scores = torch.cat([scores, how.sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : key.shape[2]]
    return weights.to(value.dtype) @ value
