"""Attention with its log-sum-exp, the exact merge of its parts, and attention over many stretches
in one call.

Shapes throughout: query [batch, heads, queries, dim], key and value [batch, kv heads, keys, dim];
heads is a multiple of kv heads. Over stretches (`attend_ragged`, `attend_varlen`) batch is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from judgebench.judges.engine.fused import is_fused, triton_kernels
from judgebench.types import Array

try:
    from torch.nn.attention.varlen import AuxRequest, varlen_attn
except ImportError:  # a PyTorch without it
    varlen_attn = None  # type: ignore[assignment]

KeysValues = tuple[Tensor, Tensor]
"""[1 or prompts, kv heads, tokens, dim] each."""

CHUNK_BYTES = 256 * 2**20
"""Most memory for the float32 products of attention that is written out."""

_NOWHERE = 2**40
"""Position of padding among keys, which no query sees."""

_CLOSE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""Largest difference of a kernel's result from attention in float64, on values of standard
deviation 1."""


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
    sinks: Tensor | None = None

    def separable(self, reach: int) -> bool:
        """True where parts may be attended to separately: no window cuts `reach` tokens, no soft
        cap bends products."""
        return self.softcap is None and (self.window is None or reach <= self.window)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention, [batch, heads, queries, dim] in the query's dtype, and the logarithm of its
    normalizer, [batch, heads, queries] float32. `causal`: the queries are the last of the keys, and
    each sees up to itself; `bias` is added to the scaled products, broadcastable to [batch, heads,
    queries, keys]."""
    # a kernel by its inner name: the public function does not give the log-sum-exp, by which parts
    # are merged
    # PyTorch's kernel gives no gradient of the log-sum-exp
    if query.device.type != "cpu" or _wants_gradient(query):
        return attend_plain(query, key, value, scale, causal, bias)
    if causal and query.shape[2] != key.shape[2]:
        # the kernel lines masks up at the first key; here the last query is the last of the keys
        causal = False
        bias = additive(_lower_right(query, key), query.dtype)
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=bias, scale=scale
    )


def attend_plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`attend` written out, some queries at a time: the products are never rounded to half
    precision, which has no room for those of some models (Qwen2's first layers reach 140,000)."""
    batch, heads, queries, _ = query.shape
    keys = max(1, key.shape[2])
    allowed = _lower_right(query, key) if causal else None  # [queries, keys]
    # the products of one query take 4 bytes times batch, heads and keys
    together = max(1, CHUNK_BYTES // (4 * batch * heads * keys))
    outs = []
    normalizers = []
    for start in range(0, max(1, queries), together):
        rows = slice(start, min(start + together, queries))
        # 1. scores [batch, heads, rows, keys]
        scores = _products(query[:, :, rows], key) * scale
        if allowed is not None:
            scores = scores.masked_fill(~allowed[rows], float("-inf"))
        if bias is not None:
            scores = scores + bias.expand(-1, -1, queries, -1)[:, :, rows]
        # 2. their softmax
        lse = torch.logsumexp(scores, dim=-1)  # [batch, heads, rows]
        # by the log-sum-exp that is there: softmax would reduce the scores once more
        weights = torch.exp(scores - lse[..., None])
        normalizers.append(lse)
        outs.append(_weighted(weights, value))  # [batch, heads, rows, dim]
    if len(outs) == 1:
        return outs[0], normalizers[0]
    return torch.cat(outs, dim=2), torch.cat(normalizers, dim=2)


def attend_masked(
    query: Tensor, key: Tensor, value: Tensor, how: AttentionOptions, allowed: Tensor
) -> Tensor:
    """Attention under an explicit mask, broadcastable to [batch, heads, queries, keys], which must
    hold any window."""
    scores = _products(query, key) * how.scale  # [batch, heads, queries, keys]
    if how.softcap is not None:
        scores = how.softcap * torch.tanh(scores / how.softcap)
    scores = scores.masked_fill(~allowed, float("-inf"))
    if how.sinks is not None:
        # a sink is one more key, whose value is nothing: its column takes a share and is cut off
        # again
        sinks = how.sinks.float()[None, :, None, None]
        sinks = sinks.expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], dim=-1)  # [batch, heads, queries, keys + 1]
    weights = torch.softmax(scores, dim=-1)
    return _weighted(weights[..., : key.shape[2]], value)


def merge_into(
    out: Tensor, parts: Sequence[tuple[Tensor, Tensor]], sinks: Tensor | None = None
) -> None:
    """Attention to the union of several sets of keys, from attention to each: softmax over a union
    is the mean of the softmaxes over its parts, weighted by their normalizers.

    Args:
        out: [batch, heads, queries, dim] takes the result.
        parts: of each set what `attend` gives; sets may be empty (0 and -inf), but not all.
        sinks: [heads] logits that take their share of the softmax and give nothing.
    """
    outs = [part for part, _ in parts]
    normalizers = [lse for _, lse in parts]
    if len(parts) == 1 and sinks is None:
        out.copy_(outs[0])
        return
    if is_fused(out):
        rows = [_by_token(part) for part in (out, *outs)]
        if all(part is not None for part in rows):
            triton_kernels().merge(rows[0], rows[1:], normalizers, sinks)
            return
    _merge_into(out, outs, normalizers, sinks)


def empty_by_token(like: Tensor) -> Tensor:
    """Room for results [1, heads, queries, dim], in which the heads of a query are neighbors: as the
    next layer takes them."""
    apart = like.transpose(1, 2)
    return torch.empty_like(apart, memory_format=torch.contiguous_format).transpose(1, 2)


def _by_token(part: Tensor) -> Tensor | None:
    """[1, heads, queries, dim] as [queries * heads, dim], the same numbers in the same place, where
    the heads of a query are neighbors there; None elsewhere."""
    apart = part.transpose(1, 2)
    return apart.flatten(0, 2) if len(part) == 1 and apart.is_contiguous() else None


def _merge_into(
    out: Tensor, parts: list[Tensor], normalizers: list[Tensor], sinks: Tensor | None
) -> None:
    merged = parts[0]  # [batch, heads, queries, dim]
    lse = normalizers[0]  # [batch, heads, queries]
    for more, more_lse in zip(parts[1:], normalizers[1:], strict=True):
        # exp(b) / (exp(a) + exp(b)) = sigmoid(b - a) for normalizers exp(a), exp(b): no exponential
        # of a large number. An empty part has b = -inf, and so no weight.
        weight = torch.sigmoid(more_lse - lse)[..., None]
        if (
            more is parts[-1]
            and sinks is None
            and out.dtype == torch.float32
            and not torch.is_grad_enabled()
        ):
            torch.lerp(merged, more, weight, out=out)  # a pass over memory less
            return
        # in float32 until all is merged: half precision is rounded once, by the copy at the end
        merged = torch.lerp(merged.float(), more.float(), weight)
        lse = torch.logaddexp(lse, more_lse)
    if sinks is not None:
        # merged with a part whose value is 0
        merged = merged * torch.sigmoid(lse - sinks.float()[None, :, None])[..., None]
    out.copy_(merged)


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """A bool mask as a bias: 0 where allowed, -inf elsewhere."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(
        ~allowed, float("-inf")
    )


def concatenated(parts: list[KeysValues]) -> KeysValues:
    """The parts one behind the other, [batch, kv heads, their tokens together, dim]."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([k for k, _ in parts], dim=2), torch.cat([v for _, v in parts], dim=2)


def _products(query: Tensor, key: Tensor) -> Tensor:
    """[batch, heads, queries, keys] float32: products of half precision are exact there, and keys
    are not repeated."""
    rows = _by_key_head(query, key)  # [batch, kv heads, heads a kv head * queries, dim]
    if query.dtype not in (torch.float16, torch.bfloat16):
        scores = rows @ key.transpose(-1, -2)
    elif query.device.type == "cuda" and not _wants_gradient(query):
        columns = key.flatten(0, 1).transpose(-1, -2)  # [batch * kv heads, dim, keys]
        flat = torch.bmm(rows.flatten(0, 1), columns, out_dtype=torch.float32)
        scores = flat.unflatten(0, key.shape[:2])
    else:
        # a product that takes half precision and gives float32 is there on a GPU alone, and has no
        # gradient
        scores = rows.float() @ key.float().transpose(-1, -2)
    return _by_head(scores, query)


def _by_key_head(rows: Tensor, key: Tensor) -> Tensor:
    """[batch, heads, queries, any] -> [batch, kv heads, heads a kv head * queries, any]."""
    # grouped-query attention: heads that share keys are rows of one product, and keys are not
    # repeated
    return rows.unflatten(1, (key.shape[1], -1)).flatten(2, 3)


def _by_head(rows: Tensor, query: Tensor) -> Tensor:
    """Rows of `_by_key_head`, apart again as in `query`."""
    heads, queries = query.shape[1:3]
    return rows.unflatten(2, (heads // rows.shape[1], queries)).flatten(1, 2)


def _weighted(weights: Tensor, value: Tensor) -> Tensor:
    """The sums [batch, heads, queries, dim] of values by weights [batch, heads, queries, keys]."""
    sums = _by_key_head(weights.to(value.dtype), value) @ value
    return _by_head(sums, weights)


def _wants_gradient(query: Tensor) -> bool:
    return torch.is_grad_enabled() and query.requires_grad


def _lower_right(query: Tensor, key: Tensor) -> Tensor:
    """[queries, keys] bool: the queries are the last of the keys, and each sees up to itself."""
    queries = query.shape[2]
    keys = key.shape[2]
    return torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)


@dataclass(frozen=True)
class Segments:
    """Neighboring stretches of queries and of keys; each stretch of queries sees the stretch of
    keys of its number.

    `query_ends` and `key_ends` are 0, end of the first, end of the second, ..., and `ends`, [2,
    stretches + 1] int32, are the same where the kernel runs. `causal`: as for `attend`, in each
    stretch.
    """

    query_ends: tuple[int, ...]
    key_ends: tuple[int, ...]
    causal: bool
    ends: Tensor = field(compare=False, repr=False)

    @classmethod
    def of(cls, queries: Sequence[int], keys: Sequence[int], causal: bool = False) -> Segments:
        query_ends = tuple(accumulate(queries, initial=0))
        key_ends = tuple(accumulate(keys, initial=0))
        # as tuples for the host's loops, and as a tensor for the kernel, which takes int32
        ends = torch.tensor([query_ends, key_ends], dtype=torch.int32)
        return cls(query_ends, key_ends, causal, ends)

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        ends = zip(pairwise(self.query_ends), pairwise(self.key_ends), strict=True)
        return [(q1 - q0, k1 - k0) for (q0, q1), (k0, k1) in ends]

    @cached_property
    def longest(self) -> tuple[int, int]:
        """Most queries and most keys of a stretch, as `attend_varlen` takes them."""
        queries, keys = zip(*self.sizes, strict=True)
        # where stretches have one query each at most, the kernel takes every one to have just one,
        # and some have none
        return max(2, *queries), max(keys)

    def to(self, device: torch.device) -> Segments:
        return replace(self, ends=to_device(self.ends, device))


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A host tensor on `device`, sent without waiting for it."""
    # only from pinned memory does a copy run beside the host
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def attend_ragged(
    query: Tensor, key: Tensor, value: Tensor, segments: Segments, scale: float
) -> tuple[Tensor, Tensor]:
    """Attention of each stretch and the logarithm of its normalizer, as `attend` gives them; 0 and
    -inf where a stretch has no keys."""
    fits = varlen_fits(query.device, query.dtype, query.shape[-1])
    if _wants_gradient(query) or not fits:
        return _looped(query, key, value, segments, scale)
    out, lse = attend_varlen(
        query,
        key,
        value,
        segments.ends,
        segments.longest,
        segments.causal,
        scale,
    )
    if any(keys == 0 for _, keys in segments.sizes):
        # what the kernel says where there is no key
        lse = torch.where(lse == float("inf"), float("-inf"), lse)
    return out, lse


def attend_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    longest: tuple[int, int],
    causal: bool,
    scale: float,
    used: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """PyTorch's variable-length attention, which wants features in multiples of 8; see
    `attend_ragged`.

    Args:
        ends, longest: see `Segments`.
        used: [stretches] int32: of each stretch's keys only so many are seen.
    """
    # stretches lie behind one another along the tokens, so there is no batch and no padding
    dim = query.shape[-1]
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [tokens, heads, dim]
    if dim % 8:
        # zeros add nothing to a product, and columns of zeros are cut off the result
        q, k, v = (F.pad(x, (0, -dim % 8)) for x in (q, k, v))
    out, lse = varlen_attn(
        q,
        k,
        v,
        ends[0],
        ends[1],
        longest[0],
        longest[1],
        return_aux=AuxRequest(lse=True),
        scale=scale,
        # to the left without end; to the right not at all, or without end
        window_size=(-1, 0) if causal else (-1, -1),
        enable_gqa=True,
        seqused_k=used,
    )
    return out[..., :dim].transpose(0, 1)[None], lse[None]  # [1, heads, queries, dim]


@lru_cache(maxsize=64)
def varlen_fits(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """True where PyTorch has variable-length attention for this device, and it is right on a few
    random stretches. It wants half precision, compute capability 8.0 and at most 256 features a
    head."""
    if device.type != "cuda" or varlen_attn is None or dtype not in _CLOSE or dim > 256:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        # a kernel is trusted after a trial and not by a version's number: a wrong one would give
        # wrong scores without an error
        return _agrees(device, dtype, dim)
    except torch.OutOfMemoryError:  # which says nothing of the kernel
        raise
    # of kernels that are not there, or not so
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False


@torch.inference_mode()
def _agrees(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """Compares the kernel with attention in float64: stretches without keys or queries, of one
    query, half used."""
    cases: tuple[tuple[list[int], list[int], bool, list[int] | None], ...] = (
        ([3, 130, 1, 7], [9, 200, 0, 7], False, None),
        ([3, 130, 1, 7], [9, 200, 0, 7], True, None),
        ([1, 0, 1], [5, 60, 90], False, None),
        ([1, 1, 1], [64, 64, 64], True, [3, 64, 17]),
        ([4, 4], [64, 64], True, [9, 50]),
    )
    # queries of each stretch, its keys, causal or not, and how many of the keys are used
    for queries, keys, causal, used in cases:
        draw = torch.Generator().manual_seed(0)
        segments = Segments.of(queries, keys, causal)
        # [1, 4, queries, dim], and twice [1, 2, keys, dim]
        sizes = ((4, queries), (2, keys), (2, keys))
        query, key, value = (
            torch.randn(1, heads, sum(tokens), dim, generator=draw).to(dtype)
            for heads, tokens in sizes
        )
        # 1. by the kernel, on the device
        out, lse = attend_varlen(
            query.to(device),
            key.to(device),
            value.to(device),
            segments.ends.to(device),
            segments.longest,
            causal,
            dim**-0.5,
            None if used is None else torch.tensor(used, dtype=torch.int32, device=device),
        )
        # 2. written out, stretch by stretch, where queries see keys
        firsts = zip(segments.query_ends, segments.key_ends, strict=True)
        for count, (q, k), seen in zip(queries, firsts, used or keys, strict=False):
            if not count or not seen:
                continue
            rows = slice(q, q + count)
            own = slice(k, k + seen)
            true, true_lse = attend_plain(
                query[:, :, rows].double(),
                key[:, :, own].double(),
                value[:, :, own].double(),
                dim**-0.5,
                causal,
            )
            gap = (out[:, :, rows].cpu().double() - true).abs().max()
            lse_gap = (lse[:, :, rows].cpu().double() - true_lse).abs().max()
            # "not <=" and not ">": NaN is a difference, too
            if not max(gap, lse_gap) <= _CLOSE[dtype]:
                return False
    return True


def _looped(
    query: Tensor, key: Tensor, value: Tensor, segments: Segments, scale: float
) -> tuple[Tensor, Tensor]:
    """`attend_ragged` by a call for each run of stretches of one size."""
    # one stretch is a plain batch of one
    if len(segments.sizes) == 1 and key.shape[2]:
        return attend(query, key, value, scale, segments.causal)
    out = torch.empty_like(query)
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32)
    q0 = k0 = 0
    # Neighbors of one size are a batch, so equal stretches cost one call: all branches of a batch,
    # and all new tokens of a step where groups are equally large.
    for (queries, keys), run in groupby(segments.sizes):
        count = len(list(run))
        q1 = q0 + queries * count
        k1 = k0 + keys * count
        if keys == 0:
            out[:, :, q0:q1] = 0.0
            lse[:, :, q0:q1] = float("-inf")
        elif queries:
            q = as_batch(query[0, :, q0:q1], count)  # [count, heads, queries of one, dim]
            k = as_batch(key[0, :, k0:k1], count)  # [count, kv heads, keys of one, dim]
            v = as_batch(value[0, :, k0:k1], count)
            # [count, heads, queries of one, dim] and [count, heads, queries of one]
            part, part_lse = attend(q, k, v, scale, segments.causal)
            out[:, :, q0:q1] = as_row(part)
            lse[:, :, q0:q1] = as_row(part_lse)
        q0 = q1
        k0 = k1
    return out, lse


def as_batch(row: Tensor, count: int) -> Tensor:
    """[heads, tokens, dim] -> [count, heads, tokens of one, dim]: stretches of one size."""
    return row.unflatten(1, (count, -1)).transpose(0, 1)


def as_row(batch: Tensor) -> Tensor:
    """[count, heads, tokens of one, ...] -> [heads, tokens, ...]."""
    return batch.transpose(0, 1).flatten(1, 2)


class Context(NamedTuple):
    """A stretch of queries and all keys that any of them may see, as `places` gives them."""

    queries: Array
    keys: Array


def places(index: Array, position: Array, branch: Array | int = 0) -> Array:
    """[3, tokens] int64: indices of queries or keys, their positions, and the candidate trie's
    inner branches that they are, from 1; 0 is none."""
    return np.stack(np.broadcast_arrays(index, position, branch))


class PaddedBlock(NamedTuple):
    """Contexts padded to each other by repeating the last: `queries` and `keys` [3, contexts, most
    of one] (see `places`); [queries] int64 the places of the flattened block that are `real`, and
    which queries those are (`row`)."""

    queries: Tensor
    keys: Tensor
    real: Tensor
    row: Tensor


def blocks_of(
    contexts: Sequence[Context], query: Tensor, key: Tensor, window: int | None
) -> list[PaddedBlock]:
    """Blocks for attention whose parts cannot be merged: under windows that cut a prompt, and soft
    caps that bend its products. Float32 products of a block, and its keys and values, take about
    `CHUNK_BYTES` each. `query` and `key` are a layer's, for their heads, features and device."""
    # room for [queries, keys] float32 a head, and for keys and values in their own dtype
    max_products = CHUNK_BYTES // (4 * query.shape[1])
    max_keys = CHUNK_BYTES // (2 * key.shape[1] * key.shape[3] * key.element_size())
    # 1. contexts in pieces of at most so many products, each with the keys that its queries may see
    pieces: list[Context] = []
    for queries, keys in contexts:
        size = max(1, max_products // max(1, keys.shape[1]))
        for start in range(0, queries.shape[1], size):
            part = queries[:, start : start + size]
            # keys behind the last query, or out of the first one's window, are seen by none of the
            # piece
            near = keys[1] <= part[1].max()
            if window is not None:
                near &= keys[1] > part[1].min() - window
            pieces.append(Context(part, keys[:, near]))
    # by length, so that there is little to pad
    pieces.sort(key=lambda piece: (piece.keys.shape[1], piece.queries.shape[1]))
    # 2. as many pieces of like length together as fit
    together: list[list[Context]] = []
    width = 0
    for piece in pieces:
        count = len(together[-1]) + 1 if together else 1
        wider = max(width, piece.queries.shape[1])
        keys_at_once = count * piece.keys.shape[1]
        if not together or wider * keys_at_once > max_products or keys_at_once > max_keys:
            together.append([])
            wider = piece.queries.shape[1]
        together[-1].append(piece)
        width = wider
    # 3. padded; no query sees the padding among keys
    blocks = []
    for block in together:
        queries, no_query = _padded([piece.queries for piece in block])
        keys, no_key = _padded([piece.keys for piece in block])
        keys[1][no_key] = _NOWHERE  # behind every query: masked as the future is
        # which places of the flattened block are real, and which query of the layer each of them is
        tables = (queries, keys, np.flatnonzero(~no_query), queries[0][~no_query])
        tensors = [to_device(torch.from_numpy(table), query.device) for table in tables]
        blocks.append(PaddedBlock(*tensors))
    return blocks


def _padded(rows: Sequence[Array]) -> tuple[Array, Array]:
    """[3, rows, longest] from [3, length] each, by repeating the last column; [rows, longest] bool
    where."""
    lengths = np.array([row.shape[1] for row in rows])
    place = np.arange(lengths.max())  # [longest]
    repeated = np.minimum(place, lengths[:, None] - 1)  # [rows, longest]
    table = np.stack([row[:, at] for row, at in zip(rows, repeated, strict=True)], axis=1)
    return table, place >= lengths[:, None]


def attend_blocks(
    query: Tensor,
    seen: KeysValues,
    blocks: Sequence[PaddedBlock],
    ancestry: Tensor | None,
    how: AttentionOptions,
) -> Tensor:
    """Attention of the blocks' queries, [1, heads, queries, dim] as the query; every one sees its
    whole context under an explicit mask. `seen` are all keys and values that the blocks number;
    `ancestry` [branches, branches] bool, see `Packed`, or None where no branch is a query."""
    out = torch.empty_like(query)  # [1, heads, queries, dim]
    keys, values = seen
    for block in blocks:
        query_index, query_at, query_branch = block.queries  # [contexts, queries] each
        key_index, key_at, key_branch = block.keys  # [contexts, keys] each
        # 1. [contexts, heads, most of one, dim]
        q = query[0][:, query_index].transpose(0, 1)
        k = keys[0][:, key_index].transpose(0, 1)
        v = values[0][:, key_index].transpose(0, 1)
        # 2. [contexts, queries, keys] whether a query sees a key
        behind = query_at[:, :, None] - key_at[:, None]
        allowed = behind >= 0
        if how.window is not None:
            allowed &= behind < how.window
        if ancestry is not None and len(ancestry):
            # number 0 is no branch: such tokens are seen, or not, by their positions alone
            related = F.pad(ancestry, (1, 0, 1, 0), value=True)
            allowed &= related[query_branch[:, :, None], key_branch[:, None]]
        # 3. the results of the queries that are no padding
        # [contexts, heads, most of one, dim] -> [heads, contexts * most of one, dim]
        results = attend_masked(q, k, v, how, allowed[:, None])
        out[0, :, block.row] = as_row(results)[:, block.real]
    return out
