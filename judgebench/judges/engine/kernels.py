"""Attention with its log-sum-exp, the exact merge of its parts, and attention over many stretches in one call.

Shapes throughout: query [batch, heads, queries, dim], key and value [batch, kv heads, keys, dim]; heads is a multiple
of kv heads. Over stretches (`attend_ragged`, `attend_varlen`) batch is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

import torch
from torch.nn import functional as F

from judgebench.judges.engine.layers import compiled

try:
    from torch.nn.attention.varlen import AuxRequest, varlen_attn
except ImportError:  # a PyTorch without it
    varlen_attn = None  # type: ignore[assignment]

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""[1 or prompts, kv heads, tokens, dim] each."""

CHUNK_BYTES = 256 * 2**20
"""Most memory for the float32 products of attention that is written out."""


@dataclass(frozen=True)
class AttentionOptions:
    """Options of a layer's attention.

    Attributes:
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
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: AttentionOptions, allowed: torch.Tensor
) -> torch.Tensor:
    """Attention under an explicit mask, broadcastable to [batch, heads, queries, keys], which must hold any window."""
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


def separable(how: AttentionOptions, reach: int) -> bool:
    """True where parts may be attended to separately: no window cuts them, no soft cap bends them."""
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


_CLOSE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""Largest difference of a kernel's result from attention in float64, on values of standard deviation 1."""


@dataclass(frozen=True)
class Segments:
    """Neighboring stretches of queries and of keys; each stretch of queries sees the stretch of keys of its number.

    Attributes:
        query_ends, key_ends: 0, end of the first, end of the second, ...
        causal: the queries of a stretch are the last of its keys, and each sees up to itself.
        ends: [2, stretches + 1] int32: the same ends where the kernel runs.
    """

    query_ends: tuple[int, ...]
    key_ends: tuple[int, ...]
    causal: bool
    ends: torch.Tensor = field(compare=False, repr=False)

    @classmethod
    def of(cls, queries: Sequence[int], keys: Sequence[int], causal: bool = False) -> Segments:
        ends = tuple(accumulate(queries, initial=0)), tuple(accumulate(keys, initial=0))
        return cls(*ends, causal, torch.tensor(ends, dtype=torch.int32))

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        ends = zip(pairwise(self.query_ends), pairwise(self.key_ends), strict=True)
        return [(q1 - q0, k1 - k0) for (q0, q1), (k0, k1) in ends]

    def to(self, device: torch.device) -> Segments:
        """The same with its ends on `device`, sent without waiting for them."""
        return replace(self, ends=to_device(self.ends, device))


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A host tensor on `device`, sent without waiting for it."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def attend_ragged(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, segments: Segments, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of each stretch and the logarithm of its normalizer, as `attend` gives them; 0 and -inf where a stretch
    has no keys."""
    wants_gradient = torch.is_grad_enabled() and query.requires_grad
    if wants_gradient or not varlen_fits(query.device, query.dtype, query.shape[-1]):
        return _looped(query, key, value, segments, scale)
    ends, sizes = segments.ends, segments.sizes
    max_queries, max_keys = (max(column) for column in zip(*sizes, strict=True))
    # told that stretches have one query each, the kernel takes every stretch to have just one, and some have none
    max_queries = max(2, max_queries)
    stretches = VarlenStretches(ends[0], ends[1], max_queries, max_keys, segments.causal)
    out, lse = attend_varlen(query, key, value, stretches, scale)
    if any(keys == 0 for _, keys in sizes):
        lse = torch.where(lse == float("inf"), float("-inf"), lse)  # what the kernel says where there is no key
    return out, lse


class VarlenStretches(NamedTuple):
    """Stretches of queries and keys, as PyTorch's variable-length attention takes them; of [stretches] int32 keys only
    the first `used` are seen."""

    query_ends: torch.Tensor
    key_ends: torch.Tensor
    max_queries: int
    max_keys: int
    causal: bool
    used: torch.Tensor | None = None


def attend_varlen(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, stretches: VarlenStretches, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch's variable-length attention; see `attend_ragged`."""
    dim = query.shape[-1]
    q, k, v = (_token_major(x) for x in (query, key, value))
    out, lse = varlen_attn(
        *(q, k, v, *stretches[:4]),
        return_aux=AuxRequest(lse=True),
        scale=scale,
        window_size=(-1, 0) if stretches.causal else (-1, -1),
        enable_gqa=True,
        seqused_k=stretches.used,
    )
    return out[..., :dim].transpose(0, 1)[None], lse[None]


@lru_cache(maxsize=64)
def varlen_fits(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """True where PyTorch has variable-length attention for this device, and it is right on a few random stretches. It
    wants half precision, compute capability 8.0 and at most 256 features a head."""
    if device.type != "cuda" or varlen_attn is None or dtype not in _CLOSE or dim > 256:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        return _agrees(device, dtype, dim)
    except torch.OutOfMemoryError:  # which says nothing of the kernel
        raise
    except (RuntimeError, TypeError, ValueError, NotImplementedError):  # of kernels that are not there, or not so
        return False


@torch.inference_mode()
def _agrees(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """Compares the kernel with attention written out: stretches without keys or queries, of one query, half used."""
    cases = (
        (Segments.of([3, 130, 1, 7], [9, 200, 0, 7]), None),
        (Segments.of([3, 130, 1, 7], [9, 200, 0, 7], causal=True), None),
        (Segments.of([1, 0, 1], [5, 60, 90]), None),
        (Segments.of([1, 1, 1], [64, 64, 64], causal=True), [3, 64, 17]),
        (Segments.of([4, 4], [64, 64], causal=True), [9, 50]),
    )
    return all(_agrees_on(segments, used, device, dtype, dim) for segments, used in cases)


def _agrees_on(segments: Segments, used: list[int] | None, device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, segments.query_ends[-1], dim, generator=draw).to(dtype)
    key, value = (torch.randn(1, 2, segments.key_ends[-1], dim, generator=draw).to(dtype) for _ in range(2))
    max_queries, max_keys = (max(column) for column in zip(*segments.sizes, strict=True))
    q, k, v, ends = (x.to(device) for x in (query, key, value, segments.ends))
    seen_keys = None if used is None else torch.tensor(used, dtype=torch.int32, device=device)
    stretches = VarlenStretches(ends[0], ends[1], max(2, max_queries), max_keys, segments.causal, seen_keys)
    ours = attend_varlen(q, k, v, stretches, dim**-0.5)
    if used is not None:  # the same with what is not used left out
        kept = torch.cat([torch.arange(start, start + n) for start, n in zip(segments.key_ends, used, strict=False)])
        key, value = key[:, :, kept], value[:, :, kept]
        segments = Segments.of([n for n, _ in segments.sizes], used, segments.causal)
    theirs = _looped(query.double(), key.double(), value.double(), segments, dim**-0.5)
    seen = theirs[1].isfinite()
    for near, true in ((ours[0], theirs[0]), (ours[1][..., None], theirs[1][..., None])):
        if near.shape != true.shape:
            return False
        gap = (near.cpu().double() - true).abs().amax(-1)[seen]
        if not bool((gap <= _CLOSE[dtype]).all()):
            return False
    return True


def _token_major(x: torch.Tensor) -> torch.Tensor:
    """[1, heads, tokens, dim] -> [tokens, heads, dim], with features up to the next multiple of 8."""
    row = x[0].transpose(0, 1)
    return F.pad(row, (0, -x.shape[-1] % 8)) if x.shape[-1] % 8 else row


def _looped(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, segments: Segments, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend_ragged` by a call for each run of stretches of one size."""
    runs = [(size, len(list(run))) for size, run in groupby(segments.sizes)]
    if len(runs) == 1 and runs[0][1] == 1 and runs[0][0][1]:
        return attend(query, key, value, scale, segments.causal)
    out, lse = torch.empty_like(query), query.new_empty(query.shape[:-1], dtype=torch.float32)
    q0 = k0 = 0
    for (queries, keys), count in runs:
        q1, k1 = q0 + queries * count, k0 + keys * count
        if keys == 0:
            out[:, :, q0:q1], lse[:, :, q0:q1] = 0.0, float("-inf")
        elif queries:
            q = query[0, :, q0:q1].unflatten(1, (count, queries)).transpose(0, 1)
            k, v = (x[0, :, k0:k1].unflatten(1, (count, keys)).transpose(0, 1) for x in (key, value))
            part, part_lse = attend(q, k, v, scale, segments.causal)
            out[:, :, q0:q1] = part.transpose(0, 1).flatten(1, 2)
            lse[:, :, q0:q1] = part_lse.transpose(0, 1).flatten(1, 2)
        q0, k0 = q1, k1
    return out, lse
