"""Attention with its log-sum-exp, by the best kernel of each device, and the exact merge of its parts.

Shapes throughout: query [batch, heads, queries, dim], key and value [batch, kv heads, keys, dim]; heads is a multiple
of kv heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""[1 or prompts, kv heads, tokens, dim] each."""


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
        causal: query i sees keys 0..i.
        bias: added to the scaled products, broadcastable to [batch, heads, queries, keys].

    Returns:
        [batch, heads, queries, dim] in the query's dtype and [batch, heads, queries] float32.
    """
    # the kernels give no gradient of the log-sum-exp
    kernel = attend_plain if torch.is_grad_enabled() and query.requires_grad else _KERNELS.get(query.device.type)
    return (kernel or attend_plain)(query, key, value, scale, causal, bias)


def merge(
    out: torch.Tensor, lse: torch.Tensor, more: torch.Tensor, more_lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention to the union of two sets of keys from attention to each.

    Softmax over a union is the mean of the softmaxes over its parts, weighted by their normalizers.

    Returns:
        As `attend`, of the same shapes as the arguments.
    """
    weight = torch.sigmoid(more_lse - lse)[..., None]
    if out.dtype == torch.float32:
        return torch.lerp(out, more, weight), torch.logaddexp(lse, more_lse)
    return torch.lerp(out.float(), more.float(), weight).to(out.dtype), torch.logaddexp(lse, more_lse)


def attend_masked(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: How, allowed: torch.Tensor
) -> torch.Tensor:
    """Attention under an explicit mask with everything that `how` knows but the window, which the mask must hold.

    Args:
        allowed: bool, broadcastable to [batch, heads, queries, keys].

    Returns:
        [batch, heads, queries, dim].
    """
    key, value = _repeated(query, key, value)
    scores = (query @ key.transpose(-1, -2)) * how.scale
    if how.softcap is not None:
        scores = how.softcap * torch.tanh(scores / how.softcap)
    scores = scores.float().masked_fill(~allowed, float("-inf"))
    if how.sinks is not None:
        scores = torch.cat([scores, how.sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : key.shape[2]]
    return weights.to(value.dtype) @ value


def attend_plain(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend` written out, for devices without a kernel that returns the log-sum-exp."""
    key, value = _repeated(query, key, value)
    scores = (query @ key.transpose(-1, -2)).float() * scale
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    if bias is not None:
        scores = scores + bias
    lse = torch.logsumexp(scores, dim=-1)
    return torch.exp(scores - lse[..., None]).to(value.dtype) @ value, lse


def additive(allowed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A bool mask as a bias: 0 where allowed, -inf elsewhere."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, float("-inf"))


def separable(how: How, reach: int) -> bool:
    """Whether parts may be attended to separately: no window cuts them, no soft cap bends them."""
    return how.softcap is None and (how.window is None or reach <= how.window)


def with_sinks(out: torch.Tensor, lse: torch.Tensor, how: How) -> torch.Tensor:
    """What `attend` gave, [batch, heads, queries, dim], less the share of the softmax that the sinks take."""
    if how.sinks is None:
        return out
    return out * torch.sigmoid(lse - how.sinks.float()[None, :, None])[..., None].to(out.dtype)


def attend_above(query: torch.Tensor, seen: KeysValues, how: How) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention to what lies above; prompts that share nothing see nothing there, with weight 0."""
    if seen[0].shape[2] == 0:
        return torch.zeros_like(query), torch.full(query.shape[:-1], float("-inf"), device=query.device)
    return attend(query, *seen, how.scale)


def joined(parts: list[KeysValues]) -> KeysValues:
    """The parts one behind the other, [batch, kv heads, their tokens together, dim]."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([k for k, _ in parts], dim=2), torch.cat([v for _, v in parts], dim=2)


def _attend_cpu(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=bias, scale=scale
    )


def _attend_cuda(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if bias is not None or query.dtype not in (torch.float16, torch.bfloat16):
        return attend_plain(query, key, value, scale, causal, bias)
    key, value = _repeated(query, key, value)
    out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)
    return out, lse[..., : query.shape[2]]


def _repeated(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    repeats = query.shape[1] // key.shape[1]
    return key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)


_Kernel = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, float, bool, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor]
]
_KERNELS: dict[str, _Kernel] = {"cpu": _attend_cpu, "cuda": _attend_cuda}
