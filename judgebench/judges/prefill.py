"""Attention while a packed row is read: to the root, to the group's article and to the prompt's own tokens.

What is attended to lies in up to two parts, which are attended to separately and merged exactly (`kernels.merge`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from judgebench.judges.caches import GROWTH, Cache, Root
from judgebench.judges.kernels import (
    How,
    KeysValues,
    additive,
    attend,
    attend_above,
    attend_masked,
    joined,
    merge,
    separable,
    with_sinks,
)
from judgebench.judges.packing import Packed, Stretch

CALLS_ARE_CHEAP = {"cpu"}
"""Devices on which many small calls cost less than padding."""


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


def prefill(
    active: Prefill, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How
) -> torch.Tensor:
    """Attention of one layer over a packed row; [1, heads, tokens, dim] as the query."""
    packed, above = active.packed, keep(active, layer, key, value)
    out = torch.empty_like(query)
    for group, seen in zip(packed.groups, above, strict=True):
        if group.middle > group.start:
            shared = slice(group.start, group.middle)
            out[:, :, shared] = causal(query[:, :, shared], seen, how)
    if not separable(how, packed.reach):
        _own_masked(packed, above, query, key, value, how, out)
    elif query.device.type in CALLS_ARE_CHEAP:
        _own_one_by_one(packed, above, query, key, value, how, out)
    else:
        _own_padded(packed, above, query, key, value, how, out)
    return out


def keep(active: Prefill, layer: int, key: torch.Tensor, value: torch.Tensor) -> list[KeysValues]:
    """For each group the keys and values that its prompts share, the root included; the cache takes what it needs."""
    packed = active.packed
    root = [active.root.layers[layer]] if active.root is not None else []
    above = []
    for group in packed.groups:
        shared = slice(group.start, group.middle)
        above.append(joined([*root, (key[:, :, shared], value[:, :, shared])]))
    if active.cache is not None:
        active.cache.shared[layer] = [(k.clone(), v.clone()) for k, v in above]
        active.cache.own[layer] = tuple(F.pad(_gather(x, packed.leaves), (0, 0, 0, GROWTH)) for x in (key, value))  # type: ignore[assignment]
    return above


def _own_one_by_one(
    packed: Packed,
    above: list[KeysValues],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    how: How,
    out: torch.Tensor,
) -> None:
    """The own tokens of each group, or of each prompt, in a call of their own: no padding, where calls are cheap."""
    for group, seen in zip(packed.groups, above, strict=True):
        below = slice(group.middle, group.end)
        near, near_lse = _own_of_group(packed, group, query, key, value, how)
        far = attend_above(query[:, :, below], seen, how)
        out[:, :, below] = with_sinks(*merge(*far, near, near_lse), how)


def _own_of_group(
    packed: Packed, group: Stretch, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention among the own tokens of each prompt of a group, [1, heads, own tokens, dim], and its log-sum-exp."""
    below, mask = slice(group.middle, group.end), packed.branch_mask
    spans = packed.spans[group.first : group.last]
    sizes = {end - start for start, end in spans}
    if len(sizes) == 1 and len(spans) > 1:  # as phrases in one gap: a batch without padding
        size = sizes.pop()
        q, k, v = (x[0, :, below].unflatten(1, (len(spans), size)).transpose(0, 1) for x in (query, key, value))
        bias = None if mask is None else additive(mask[group.first, :size, :size][None, None], query.dtype)
        near, near_lse = attend(q, k, v, how.scale, causal=bias is None, bias=bias)
        return near.transpose(0, 1).flatten(1, 2)[None], near_lse.transpose(0, 1).flatten(1, 2)[None]
    near, near_lse = torch.empty_like(query[:, :, below]), query.new_empty(query[:, :, below].shape[:-1]).float()
    for prompt, (start, end) in enumerate(spans, group.first):
        own, inside = slice(start, end), slice(start - group.middle, end - group.middle)
        bias = None
        if mask is not None:
            bias = additive(mask[prompt, : end - start, : end - start][None, None], query.dtype)
        near[:, :, inside], near_lse[:, :, inside] = attend(
            query[:, :, own], key[:, :, own], value[:, :, own], how.scale, causal=bias is None, bias=bias
        )
    return near, near_lse


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
        far = attend_above(query[:, :, below], seen, how)
        out[:, :, below] = with_sinks(*merge(*far, near[:, :, own], near_lse[:, :, own]), how)


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
            keys, values = joined([seen, (key[:, :, own], value[:, :, own])])
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


def causal(query: torch.Tensor, seen: KeysValues, how: How) -> torch.Tensor:
    """The queries are the last of what is seen, each sees up to itself."""
    queries, keys = query.shape[2], seen[0].shape[2]
    if separable(how, keys) and queries == keys:
        return with_sinks(*attend(query, *seen, how.scale, causal=True), how)
    ahead = torch.arange(keys, device=query.device) - torch.arange(keys - queries, keys, device=query.device)[:, None]
    allowed = ahead <= 0
    if separable(how, keys):
        bias = additive(allowed[None, None], query.dtype)
        return with_sinks(*attend(query, *seen, how.scale, bias=bias), how)
    if how.window is not None:
        allowed &= ahead > -how.window
    return attend_masked(query, *seen, how, allowed[None, None])


def _gather(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[1, heads, tokens, dim] -> [prompts, heads, width, dim]."""
    return x[0][:, rows].transpose(0, 1)
