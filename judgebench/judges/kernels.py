"""Attention with its log-sum-exp, and the exact merge of its parts.

Shapes throughout: query [batch, heads, queries, dim], key and value [batch, kv heads, keys, dim]; heads is a multiple
of kv heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from judgebench.judges.fused import compiled

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""[1 or prompts, kv heads, tokens, dim] each."""

CHUNK_BYTES = 256 * 2**20
"""Most memory for the float32 products of attention that is written out."""


@dataclass(frozen=True)
class How:
    """What a layer wants of its attention.

    Attributes:
        scale: factor on the products.
        window: a token sees only so many positions, its own included; None is all.
        softcap: of Gemma 2: cap * tanh(score / cap).
        sinks: [heads] logits that only take part in the softmax (gpt-oss).
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    causal: bool = False,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and the logarithm of its normalizer.

    Args:
        causal: the queries are the last of the keys, and each sees up to itself.
        bias: added to the scaled products, broadcastable to [batch, heads, queries, keys].

    Returns:
        [batch, heads, queries, dim] in the query's dtype and [batch, heads, queries] float32.
    """
    # the kernel gives no gradient of the log-sum-exp
    if query.device.type == "cpu" and not (torch.is_grad_enabled() and query.requires_grad):
        if causal and query.shape[2] != key.shape[2]:
            causal, bias = False, additive(_lower_right(query, key), query.dtype)
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=bias, scale=scale
        )
    return attend_plain(query, key, value, scale, causal, bias)


def attend_plain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    causal: bool = False,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend` written out, some queries at a time: the products are never rounded to half precision, which has no room
    for those of some models (Qwen2's first layers reach 140,000)."""
    allowed = _lower_right(query, key) if causal else None
    outs, normalizers = [], []
    for rows in _slices(query, key):
        scores = _products(query[:, :, rows], key) * scale
        if allowed is not None:
            scores = scores.masked_fill(~allowed[rows], float("-inf"))
        if bias is not None:
            scores = scores + (bias if bias.shape[-2] == 1 else bias[..., rows, :])
        normalizers.append(torch.logsumexp(scores, dim=-1))
        outs.append(_weighted(torch.exp(scores - normalizers[-1][..., None]), value))
    if len(outs) == 1:
        return outs[0], normalizers[0]
    return torch.cat(outs, dim=2), torch.cat(normalizers, dim=2)


def attend_masked(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How, allowed: torch.Tensor
) -> torch.Tensor:
    """Attention under an explicit mask with everything that `how` knows but the window, which the mask must hold.

    Args:
        allowed: bool, broadcastable to [batch, heads, queries, keys].

    Returns:
        [batch, heads, queries, dim].
    """
    scores = _products(query, key) * how.scale
    if how.softcap is not None:
        scores = how.softcap * torch.tanh(scores / how.softcap)
    scores = scores.masked_fill(~allowed, float("-inf"))
    if how.sinks is not None:
        scores = torch.cat([scores, how.sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)], dim=-1)
    return _weighted(torch.softmax(scores, dim=-1)[..., : key.shape[2]], value)


def merge_into(
    out: torch.Tensor, parts: Sequence[tuple[torch.Tensor, torch.Tensor]], sinks: torch.Tensor | None = None
) -> None:
    """Attention to the union of several sets of keys, from attention to each.

    Softmax over a union is the mean of the softmaxes over its parts, weighted by their normalizers.

    Args:
        out: [batch, heads, queries, dim] takes the result.
        parts: of each set what `attend` gives; sets may be empty (0 and -inf), but not all.
        sinks: [heads] logits that take their share of the softmax and give nothing.
    """
    compiled(_merge_into)(out, [each for each, _ in parts], [lse for _, lse in parts], sinks)


def _merge_into(
    out: torch.Tensor, parts: list[torch.Tensor], normalizers: list[torch.Tensor], sinks: torch.Tensor | None
) -> None:
    merged, lse = parts[0], normalizers[0]
    for more, more_lse in zip(parts[1:], normalizers[1:], strict=True):
        weight = torch.sigmoid(more_lse - lse)[..., None]
        if more is parts[-1] and sinks is None and out.dtype == torch.float32 and not torch.is_grad_enabled():
            torch.lerp(merged, more, weight, out=out)  # a pass over memory less
            return
        merged, lse = torch.lerp(merged.float(), more.float(), weight), torch.logaddexp(lse, more_lse)
    if sinks is not None:
        merged = merged * torch.sigmoid(lse - sinks.float()[None, :, None])[..., None]
    out.copy_(merged)


def additive(allowed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A bool mask as a bias: 0 where allowed, -inf elsewhere."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, float("-inf"))


def separable(how: How, reach: int) -> bool:
    """Whether parts may be attended to separately: no window cuts them, no soft cap bends them."""
    return how.softcap is None and (how.window is None or reach <= how.window)


def joined(parts: list[KeysValues]) -> KeysValues:
    """The parts one behind the other, [batch, kv heads, their tokens together, dim]."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([k for k, _ in parts], dim=2), torch.cat([v for _, v in parts], dim=2)


def _products(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """[batch, heads, queries, keys] float32: products of half precision are exact there, and keys are not repeated."""
    heads, kept = query.shape[1], key.shape[1]
    rows = query.unflatten(1, (kept, heads // kept)).flatten(2, 3)
    if query.dtype not in (torch.float16, torch.bfloat16):
        scores = rows @ key.transpose(-1, -2)
    elif query.device.type == "cuda" and not (torch.is_grad_enabled() and query.requires_grad):
        columns = key.flatten(0, 1).transpose(-1, -2)
        scores = torch.bmm(rows.flatten(0, 1), columns, out_dtype=torch.float32).unflatten(0, key.shape[:2])
    else:
        scores = rows.float() @ key.float().transpose(-1, -2)
    return scores.unflatten(2, (heads // kept, query.shape[2])).flatten(1, 2)


def _weighted(weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """[batch, heads, queries, keys], [batch, kv heads, keys, dim] -> [batch, heads, queries, dim]."""
    (heads, queries), kept = weights.shape[1:3], value.shape[1]
    rows = weights.to(value.dtype).unflatten(1, (kept, heads // kept)).flatten(2, 3)
    return (rows @ value).unflatten(2, (heads // kept, queries)).flatten(1, 2)


def _slices(query: torch.Tensor, key: torch.Tensor) -> list[slice]:
    """The queries in stretches whose products take about `CHUNK_BYTES`."""
    batch, heads, queries, _ = query.shape
    rows = max(1, CHUNK_BYTES // (4 * batch * heads * max(1, key.shape[2])))
    return [slice(start, min(start + rows, queries)) for start in range(0, max(1, queries), rows)]


def _lower_right(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """[queries, keys] bool: the queries are the last of the keys, and each sees up to itself."""
    queries, keys = query.shape[2], key.shape[2]
    return torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)
