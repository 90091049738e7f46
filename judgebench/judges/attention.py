"""Attention over packed rows: every token attends to the root, to its group's article and to its own prompt's tokens.

Registered with transformers as an attention implementation, so that any model written against its attention interface
runs on packed rows unchanged. What is attended to lies in up to two parts, which are attended to separately and merged
exactly (`kernels.merge`).

Shapes: query [1, heads, tokens, dim], key and value [1, kv heads, tokens, dim], as transformers hands them over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as F
from transformers import AttentionInterface, PreTrainedModel

from judgebench.judges.kernels import How, additive, attend, attend_masked, merge
from judgebench.judges.packing import Packed

NAME = "judgebench_packed"

_GROWTH = 64
"""Tokens by which the room for generated keys grows."""

CALLS_ARE_CHEAP = {"cpu"}
"""Devices on which many small calls cost less than padding."""

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""[1 or prompts, kv heads, tokens, dim] each."""


@dataclass
class Root:
    """The keys and values of tokens that many rows begin with, by layer."""

    layers: dict[int, KeysValues] = field(default_factory=dict)


@dataclass
class Cache:
    """Keys and values of a packed batch, kept for generation.

    Attributes:
        spans: for each group the prompts (first, last exclusive) below it.
        offset: [prompts] position of each prompt's first own token, on the host.
        lengths: [prompts] own tokens so far, on the host.
        shared: layer -> for each group what its prompts share, the root included.
        own: layer -> [prompts, kv heads, room, dim] each prompt's own.
    """

    spans: list[tuple[int, int]]
    offsets: list[int]
    lengths: list[int]
    shared: dict[int, list[KeysValues]] = field(default_factory=dict)
    own: dict[int, KeysValues] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadRoot:
    """A row that is a root is being read, into `root`."""

    root: Root


@dataclass(frozen=True)
class Prefill:
    """A packed row is being read, below `root` where it has one; keys and values go to `cache` where one is given."""

    packed: Packed
    root: Root | None
    cache: Cache | None = None


@dataclass(frozen=True)
class Step:
    """A few more tokens of each prompt are being read, against `cache`.

    Attributes:
        at: [prompts, tokens] where among each prompt's own tokens they stand.
        live: [prompts, 1, tokens, keys] bool: which of its own keys each of them may see.
        reach: one more than the largest position.
    """

    cache: Cache
    at: torch.Tensor
    live: torch.Tensor
    reach: int


Pass = ReadRoot | Prefill | Step

_ACTIVE: ContextVar[Pass | None] = ContextVar("judgebench_attention", default=None)


@contextmanager
def attending(pass_: Pass) -> Iterator[None]:
    """Within it, models whose attention implementation is `NAME` read the row that `pass_` describes."""
    token = _ACTIVE.set(pass_)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def own_attention(model: PreTrainedModel) -> Iterator[None]:
    """Within it a model reads plain rows with attention of its own, whatever implementation is set."""
    packed = model.config._attn_implementation == NAME
    if packed:
        model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")
    try:
        yield
    finally:
        if packed:
            model.set_attn_implementation(NAME)


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
    how = How(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)
    layer: int = module.layer_idx  # type: ignore[assignment]
    if isinstance(active, Step):
        out = _step(active, layer, query, key, value, how)
    elif isinstance(active, Prefill):
        out = _prefill(active, layer, query, key, value, how)
    elif isinstance(active, ReadRoot):
        active.root.layers[layer] = (key, value)
        out = _causal(query, (key, value), how)
    else:
        raise RuntimeError(f"attention implementation {NAME!r} was called outside of a packed pass")
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, packed_attention)


def _plain(how: How, reach: int) -> bool:
    """Whether parts may be attended to separately: no window cuts them, no soft cap bends them."""
    return how.softcap is None and (how.window is None or reach <= how.window)


def _with_sinks(out: torch.Tensor, lse: torch.Tensor, how: How) -> torch.Tensor:
    if how.sinks is None:
        return out
    return out * torch.sigmoid(lse - how.sinks.float()[None, :, None])[..., None].to(out.dtype)


def _causal(query: torch.Tensor, seen: KeysValues, how: How) -> torch.Tensor:
    """The queries are the last of what is seen, each sees up to itself."""
    queries, keys = query.shape[2], seen[0].shape[2]
    if _plain(how, keys) and queries == keys:
        return _with_sinks(*attend(query, *seen, how.scale, causal=True), how)
    ahead = torch.arange(keys, device=query.device) - torch.arange(keys - queries, keys, device=query.device)[:, None]
    allowed = ahead <= 0
    if _plain(how, keys):
        bias = additive(allowed[None, None], query.dtype)
        return _with_sinks(*attend(query, *seen, how.scale, bias=bias), how)
    if how.window is not None:
        allowed &= ahead > -how.window
    return attend_masked(query, *seen, how, allowed[None, None])


def _far(query: torch.Tensor, seen: KeysValues, how: How) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention to what lies above; prompts that share nothing see nothing there, with weight 0."""
    if seen[0].shape[2] == 0:
        return torch.zeros_like(query), torch.full(query.shape[:-1], float("-inf"), device=query.device)
    return attend(query, *seen, how.scale)


def _prefill(
    active: Prefill, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How
) -> torch.Tensor:
    packed = active.packed
    root = [active.root.layers[layer]] if active.root is not None else []
    above = []
    for group in packed.groups:
        shared = slice(group.start, group.middle)
        above.append(_joined([*root, (key[:, :, shared], value[:, :, shared])]))
    if active.cache is not None:
        active.cache.shared[layer] = [(k.clone(), v.clone()) for k, v in above]
        active.cache.own[layer] = tuple(F.pad(_gather(x, packed.leaves), (0, 0, 0, _GROWTH)) for x in (key, value))  # type: ignore[assignment]
    out = torch.empty_like(query)
    for group, seen in zip(packed.groups, above, strict=True):
        if group.middle > group.start:
            shared = slice(group.start, group.middle)
            out[:, :, shared] = _causal(query[:, :, shared], seen, how)
    if not _plain(how, packed.reach):
        _own_masked(packed, above, query, key, value, how, out)
    elif query.device.type in CALLS_ARE_CHEAP:
        _own_one_by_one(packed, above, query, key, value, how, out)
    else:
        _own_padded(packed, above, query, key, value, how, out)
    return out


def _own_one_by_one(
    packed: Packed,
    above: list[KeysValues],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    how: How,
    out: torch.Tensor,
) -> None:
    """Each prompt's own tokens in a call of their own: no copies, no padding, where calls are cheap."""
    for group, seen in zip(packed.groups, above, strict=True):
        below = slice(group.middle, group.end)
        far, far_lse = _far(query[:, :, below], seen, how)
        for prompt in range(group.first, group.last):
            start, end = packed.spans[prompt]
            own, inside = slice(start, end), slice(start - group.middle, end - group.middle)
            bias = None
            if packed.branch_mask is not None:
                bias = additive(packed.branch_mask[prompt, : end - start, : end - start][None, None], query.dtype)
            parts = key[:, :, own], value[:, :, own]
            near, near_lse = attend(query[:, :, own], *parts, how.scale, causal=bias is None, bias=bias)
            both = merge(far[:, :, inside], far_lse[:, :, inside], near, near_lse)
            out[:, :, own] = _with_sinks(*both, how)


def _own_padded(
    packed: Packed,
    above: list[KeysValues],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    how: How,
    out: torch.Tensor,
) -> None:
    """All prompts' own tokens in one padded call, where calls are dear."""
    mask = packed.branch_mask
    bias = None if mask is None else additive(mask[:, None], query.dtype)
    q, k, v = (_gather(x, packed.leaves) for x in (query, key, value))
    near, near_lse = attend(q, k, v, how.scale, causal=mask is None, bias=bias)
    near = near.transpose(1, 2).flatten(0, 1)[packed.real].transpose(0, 1)[None]
    near_lse = near_lse.transpose(1, 2).flatten(0, 1)[packed.real].transpose(0, 1)[None]
    at = 0
    for group, seen in zip(packed.groups, above, strict=True):
        below = slice(group.middle, group.end)
        own = slice(at, at + group.end - group.middle)
        at = own.stop
        far = _far(query[:, :, below], seen, how)
        out[:, :, below] = _with_sinks(*merge(*far, near[:, :, own], near_lse[:, :, own]), how)


def _own_masked(
    packed: Packed,
    above: list[KeysValues],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    how: How,
    out: torch.Tensor,
) -> None:
    """Windows and soft caps: each prompt's whole context under one explicit mask."""
    for group, seen in zip(packed.groups, above, strict=True):
        before = seen[0].shape[2]
        for prompt in range(group.first, group.last):
            start, end = packed.spans[prompt]
            own, size = slice(start, end), end - start
            keys, values = _joined([seen, (key[:, :, own], value[:, :, own])])
            among = (
                torch.ones(size, size, dtype=torch.bool, device=query.device).tril()
                if packed.branch_mask is None
                else packed.branch_mask[prompt, :size, :size]
            )
            allowed = torch.cat([among.new_ones(size, before), among], dim=1)
            if how.window is not None:
                at = packed.positions[own]
                positions = torch.cat([torch.arange(before, device=query.device), at])
                allowed = allowed & (at[:, None] - positions < how.window)
            out[:, :, own] = attend_masked(query[:, :, own], keys, values, how, allowed[None, None])


def _step(
    active: Step, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How
) -> torch.Tensor:
    """query [1, heads, prompts * tokens, dim], prompt by prompt."""
    cache, (prompts, count) = active.cache, active.at.shape
    longest = active.live.shape[-1]
    if longest > cache.own[layer][0].shape[2]:
        room = (0, 0, 0, longest - cache.own[layer][0].shape[2] + _GROWTH)
        cache.own[layer] = tuple(F.pad(x, room) for x in cache.own[layer])  # type: ignore[assignment]
    rows = torch.arange(prompts, device=query.device)[:, None]
    for held, new in zip(cache.own[layer], (key, value), strict=True):
        held[rows, :, active.at] = new[0].transpose(0, 1).unflatten(0, (prompts, count))
    keys, values = (x[:, :, :longest] for x in cache.own[layer])
    q = query[0].unflatten(1, (prompts, count)).transpose(0, 1)
    if not _plain(how, active.reach):
        near = _step_masked(active, layer, q, keys, values, how)
        return near.transpose(0, 1).flatten(1, 2)[None]
    near, near_lse = attend(q, keys, values, how.scale, bias=additive(active.live, query.dtype))
    near, near_lse = near.transpose(0, 1).flatten(1, 2)[None], near_lse.transpose(0, 1).flatten(1, 2)[None]
    out = torch.empty_like(query)
    for (first, last), seen in zip(cache.spans, cache.shared[layer], strict=True):
        if last > first:
            span = slice(first * count, last * count)
            far = _far(query[:, :, span], seen, how)
            out[:, :, span] = _with_sinks(*merge(*far, near[:, :, span], near_lse[:, :, span]), how)
    return out


def _step_masked(
    active: Step, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, how: How
) -> torch.Tensor:
    out = torch.empty_like(query)
    cache = active.cache
    own = torch.arange(keys.shape[2], device=keys.device)
    for (first, last), seen in zip(cache.spans, cache.shared[layer], strict=True):
        before = torch.arange(seen[0].shape[2], device=keys.device)
        for i in range(first, last):
            k, v = _joined([seen, (keys[i : i + 1], values[i : i + 1])])
            positions = torch.cat([before, cache.offsets[i] + own])
            live = active.live[i, 0]
            allowed = torch.cat([live.new_ones(len(live), len(before)), live], dim=1)
            if how.window is not None:
                allowed = allowed & (cache.offsets[i] + active.at[i][:, None] - positions < how.window)
            out[i] = attend_masked(query[i : i + 1], k, v, how, allowed[None, None])[0]
    return out


def _joined(parts: list[KeysValues]) -> KeysValues:
    if len(parts) == 1:
        return parts[0]
    return torch.cat([k for k, _ in parts], dim=2), torch.cat([v for _, v in parts], dim=2)


def _gather(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[1, heads, tokens, dim] -> [prompts, heads, width, dim]."""
    return x[0][:, rows].transpose(0, 1)
