"""Attention while answers go on: a few new tokens of each prompt against what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from judgebench.judges.caches import GROWTH, Cache
from judgebench.judges.kernels import (
    How,
    additive,
    attend,
    attend_above,
    attend_masked,
    joined,
    merge,
    separable,
    with_sinks,
)


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


def step(
    active: Step, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How
) -> torch.Tensor:
    """Attention of one layer; query and result are [1, heads, prompts * tokens, dim], prompt by prompt."""
    cache, (prompts, count) = active.cache, active.at.shape
    longest = active.live.shape[-1]
    if longest > cache.own[layer][0].shape[2]:
        room = (0, 0, 0, longest - cache.own[layer][0].shape[2] + GROWTH)
        cache.own[layer] = tuple(F.pad(x, room) for x in cache.own[layer])  # type: ignore[assignment]
    rows = torch.arange(prompts, device=query.device)[:, None]
    for held, new in zip(cache.own[layer], (key, value), strict=True):
        held[rows, :, active.at] = new[0].transpose(0, 1).unflatten(0, (prompts, count))
    keys, values = (x[:, :, :longest] for x in cache.own[layer])
    q = query[0].unflatten(1, (prompts, count)).transpose(0, 1)
    if not separable(how, active.reach):
        near = _step_masked(active, layer, q, keys, values, how)
        return near.transpose(0, 1).flatten(1, 2)[None]
    near, near_lse = attend(q, keys, values, how.scale, bias=additive(active.live, query.dtype))
    near, near_lse = near.transpose(0, 1).flatten(1, 2)[None], near_lse.transpose(0, 1).flatten(1, 2)[None]
    out = torch.empty_like(query)
    for (first, last), seen in zip(cache.spans, cache.shared[layer], strict=True):
        if last > first:
            span = slice(first * count, last * count)
            far = attend_above(query[:, :, span], seen, how)
            out[:, :, span] = with_sinks(*merge(*far, near[:, :, span], near_lse[:, :, span]), how)
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
            k, v = joined([seen, (keys[i : i + 1], values[i : i + 1])])
            positions = torch.cat([before, cache.offsets[i] + own])
            live = active.live[i, 0]
            allowed = torch.cat([live.new_ones(len(live), len(before)), live], dim=1)
            if how.window is not None:
                allowed = allowed & (cache.offsets[i] + active.at[i][:, None] - positions < how.window)
            out[i] = attend_masked(query[i : i + 1], k, v, how, allowed[None, None])[0]
    return out
