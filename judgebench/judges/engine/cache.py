"""Keys and values that outlive a pass, of a root or of a batch in generation; and attention where its parts cannot be
merged: under windows that cut a prompt, and soft caps that bend its products.

There every query sees its whole context under an explicit mask. Stretches of queries and their contexts are gathered
from the row into padded blocks of bounded memory, as many stretches together as fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional as F

from judgebench.judges.engine import kernels
from judgebench.judges.engine.kernels import (
    CHUNK_BYTES,
    AttentionOptions,
    KeysValues,
    Segments,
    additive,
    attend,
    attend_masked,
    attend_ragged,
    joined,
    merge_into,
    separable,
    to_device,
)

GROWTH = 64
"""Tokens by which the room for generated keys grows."""
_NOWHERE = 2**40
"""Position of padding among keys, which no query sees."""


@dataclass
class Root:
    """The keys and values of tokens that many rows begin with, by layer."""

    layers: dict[int, KeysValues] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return next(iter(self.layers.values()))[0].shape[2]

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for pair in self.layers.values() for x in pair)


class Roots:
    """The roots that were used last, in `room` bytes together; the one in use is always kept."""

    def __init__(self, room: int = 0):
        self.room = room
        self._roots: OrderedDict[bytes, Root] = OrderedDict()

    def get(self, root: np.ndarray, read: Callable[[], Root]) -> Root:
        """The keys and values of `root` [tokens], from `read` where they are not in memory."""
        name = root.tobytes()
        if name in self._roots:
            self._roots.move_to_end(name)
            return self._roots[name]
        self._roots[name] = read()
        while len(self._roots) > 1 and sum(each.bytes for each in self._roots.values()) > self.room:
            self._roots.popitem(last=False)
        return self._roots[name]

    def clear(self) -> None:
        self._roots.clear()


@dataclass
class Cache:
    """Keys and values of a packed batch, kept for generation.

    Attributes:
        spans: for each group the prompts (first, last exclusive) below it.
        article_ends: for each group and one more, where what its prompts share begins among `articles`.
        offsets: [prompts] position of each prompt's first own token, on the host.
        lengths: [prompts] own tokens so far, on the host.
        root: what all prompts begin with, where it was read apart.
        articles: layer -> [1, kv heads, tokens, dim] what the prompts of each group share, group by group.
        own: layer -> [prompts, room, kv heads, dim] each prompt's own.
    """

    spans: list[tuple[int, int]]
    article_ends: list[int]
    offsets: list[int]
    lengths: list[int]
    root: Root | None = None
    articles: dict[int, KeysValues] = field(default_factory=dict)
    own: dict[int, KeysValues] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A few more tokens of each prompt are being read, against `cache`.

    Attributes:
        at: [prompts, tokens] where among each prompt's own tokens they stand.
        live: [prompts, 1, tokens, keys] bool: which of its own keys each of them may see.
        articles: the new tokens against what their groups share.
        root: the new tokens against the root.
        used: [prompts] int32: own keys so far, the new ones included.
        blocks: window -> blocks of a layer whose parts cannot be merged, once a layer wants them.
    """

    cache: Cache
    at: torch.Tensor
    live: torch.Tensor
    articles: Segments
    root: Segments
    used: torch.Tensor
    blocks: dict[int | None, list[PaddedBlock]] = field(default_factory=dict)

    @classmethod
    def of(cls, cache: Cache, count: int, device: torch.device) -> Step:
        """The next `count` tokens of each prompt; the cache's lengths are what they were before."""
        lengths = torch.tensor(cache.lengths)
        at = lengths[:, None] + torch.arange(count)
        live = torch.arange(int(at.max()) + 1) <= at[:, None, :, None]
        sizes = [last - first for first, last in pairwise(cache.article_ends)]
        articles = Segments.of([(last - first) * count for first, last in cache.spans], sizes)
        above = 0 if cache.root is None else cache.root.length
        root = Segments.of([len(lengths) * count], [above])
        used = to_device((lengths + count).int(), device)
        return cls(cache, to_device(at, device), to_device(live, device), articles.to(device), root.to(device), used)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: AttentionOptions
    ) -> torch.Tensor:
        """Attention of one layer; query and result are [1, heads, prompts * tokens, dim], prompt by prompt."""
        cache, (prompts, count) = self.cache, self.at.shape
        longest = self.live.shape[-1]
        if longest > cache.own[layer][0].shape[1]:
            room = (0, 0, 0, 0, 0, longest - cache.own[layer][0].shape[1] + GROWTH)
            cache.own[layer] = tuple(F.pad(x, room) for x in cache.own[layer])  # type: ignore[assignment]
        rows = torch.arange(prompts, device=query.device)[:, None]
        for stored, new in zip(cache.own[layer], (key, value), strict=True):
            stored[rows, self.at] = new[0].transpose(0, 1).unflatten(0, (prompts, count))
        root = None if cache.root is None else cache.root.layers[layer]
        reach = max(map(sum, zip(cache.offsets, cache.lengths, strict=True)))
        if not separable(how, reach):
            return _masked(self, query, cache.own[layer], cache.articles[layer], root, how)
        parts = [_own(self, query, cache.own[layer], how)]
        if cache.article_ends[-1]:
            parts.append(attend_ragged(query, *cache.articles[layer], self.articles, how.scale))
        if root is not None:
            parts.append(attend_ragged(query, *root, self.root, how.scale))
        out = torch.empty_like(query)
        merge_into(out, parts, how.sinks)
        return out


def _own(
    active: Step, query: torch.Tensor, own: KeysValues, how: AttentionOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    (prompts, count), longest = active.at.shape, active.live.shape[-1]
    if kernels.varlen_fits(query.device, query.dtype, query.shape[-1]):
        room = own[0].shape[1]
        keys, values = (x.flatten(0, 1).transpose(0, 1)[None] for x in own)
        ends = torch.arange(prompts + 1, dtype=torch.int32, device=query.device)
        stretches = kernels.VarlenStretches(ends * count, ends * room, count, longest, causal=True, used=active.used)
        return kernels.attend_varlen(query, keys, values, stretches, how.scale)
    each = query[0].unflatten(1, (prompts, count)).transpose(0, 1)
    keys, values = (x[:, :longest].transpose(1, 2) for x in own)
    near, lse = attend(each, keys, values, how.scale, bias=additive(active.live, query.dtype))
    return near.transpose(0, 1).flatten(1, 2)[None], lse.transpose(0, 1).flatten(1, 2)[None]


def _masked(
    active: Step,
    query: torch.Tensor,
    own: KeysValues,
    articles: KeysValues,
    root: KeysValues | None,
    how: AttentionOptions,
) -> torch.Tensor:
    """Windows and soft caps: each prompt's whole context under an explicit mask."""
    longest = active.live.shape[-1]
    latest = tuple(x[:, :longest].transpose(1, 2).transpose(0, 1).flatten(1, 2)[None] for x in own)
    if how.window not in active.blocks:
        contexts = _contexts(active)
        active.blocks[how.window] = blocks_of(contexts, query, articles[0], how.window)
    seen = joined([*([] if root is None else [root]), articles, latest])  # type: ignore[list-item]
    return attend_blocks(query, seen, active.blocks[how.window], None, how)


def _contexts(active: Step) -> list[Context]:
    """Contexts of each prompt's new tokens; keys are numbered from the root's on, then articles, then own."""
    cache, count, longest = active.cache, active.at.shape[1], active.live.shape[-1]
    before = np.arange(0 if cache.root is None else cache.root.length)
    ends = cache.article_ends
    contexts = []
    for (first, last), (start, stop) in zip(cache.spans, pairwise(ends), strict=True):
        above = np.concatenate([before, len(before) + np.arange(start, stop)])
        for prompt in range(first, last):
            own = np.arange(cache.lengths[prompt])
            keys = np.concatenate([above, len(before) + ends[-1] + prompt * longest + own])
            at = np.concatenate([np.arange(len(above)), cache.offsets[prompt] + own])
            contexts.append(Context(places(prompt * count + np.arange(count), at[-count:]), places(keys, at)))
    return contexts


@dataclass(frozen=True)
class Context:
    """A stretch of queries and all keys that any of them may see, as `places` gives them."""

    queries: np.ndarray
    keys: np.ndarray


def places(index: np.ndarray, position: np.ndarray, branch: np.ndarray | int = 0) -> np.ndarray:
    """[3, tokens] int64: indices of queries or keys, their positions, and the candidate trie's inner branches that they
    are, from 1; 0 is none."""
    return np.stack(np.broadcast_arrays(index, position, branch))


@dataclass(frozen=True)
class PaddedBlock:
    """Contexts padded to each other.

    Attributes:
        queries, keys: [3, contexts, most of one] see `places`; queries are padded by repeating the first.
        real, row: [queries] int64: which of the flattened block are no padding, and which queries those are.
    """

    queries: torch.Tensor
    keys: torch.Tensor
    real: torch.Tensor
    row: torch.Tensor


def blocks_of(
    contexts: Sequence[Context], query: torch.Tensor, key: torch.Tensor, window: int | None
) -> list[PaddedBlock]:
    """Blocks whose float32 products, and whose keys and values, take about `kernels.CHUNK_BYTES` each.

    Args:
        query, key: of a layer, for their heads, features and device.
    """
    max_products = CHUNK_BYTES // (4 * query.shape[1])
    max_keys = CHUNK_BYTES // (2 * key.shape[1] * key.shape[3] * key.element_size())
    pieces = [piece for context in contexts for piece in _pieces(context, max_products, window)]
    pieces.sort(key=lambda piece: (piece.keys.shape[1], piece.queries.shape[1]))
    blocks: list[PaddedBlock] = []
    together: list[Context] = []
    for piece in pieces:
        width = max(each.queries.shape[1] for each in [*together, piece])
        keys = (len(together) + 1) * piece.keys.shape[1]
        if together and (width * keys > max_products or keys > max_keys):
            blocks.append(_block(together, query.device))
            together = []
        together.append(piece)
    return [*blocks, *([_block(together, query.device)] if together else [])]


def attend_blocks(
    query: torch.Tensor,
    seen: KeysValues,
    blocks: Sequence[PaddedBlock],
    ancestry: torch.Tensor | None,
    how: AttentionOptions,
) -> torch.Tensor:
    """Attention of the blocks' queries; [1, heads, queries, dim] as the query.

    Args:
        seen: [1, kv heads, keys, dim] all keys and values that the blocks number.
        ancestry: [branches, branches] bool, see `Packed`; None where no branch is a query.
    """
    out = torch.empty_like(query)
    for block in blocks:
        (query_index, query_at, query_branch), (key_index, key_at, key_branch) = block.queries, block.keys
        q, k, v = (x[0][:, at].transpose(0, 1) for x, at in ((query, query_index), *((x, key_index) for x in seen)))
        behind = query_at[:, :, None] - key_at[:, None]
        allowed = behind >= 0
        if how.window is not None:
            allowed = allowed & (behind < how.window)
        if ancestry is not None and len(ancestry):
            related = F.pad(ancestry, (1, 0, 1, 0), value=True)
            allowed = allowed & related[query_branch[:, :, None], key_branch[:, None]]
        each = attend_masked(q, k, v, how, allowed[:, None])
        out[:, :, block.row] = each.transpose(1, 2).flatten(0, 1)[block.real].transpose(0, 1)[None]
    return out


def _pieces(context: Context, max_products: int, window: int | None) -> list[Context]:
    """A context in pieces of at most `max_products` products, each with the keys that its queries may see."""
    (_, queries), (_, keys) = context.queries.shape, context.keys.shape
    pieces, size = [], max(1, max_products // max(1, keys))
    for start in range(0, queries, size):
        part = context.queries[:, start : start + size]
        near = context.keys[1] <= part[1].max()
        if window is not None:
            near &= context.keys[1] > part[1].min() - window
        pieces.append(Context(part, context.keys[:, near]))
    return pieces


def _block(contexts: Sequence[Context], device: torch.device) -> PaddedBlock:
    def padded(rows: Sequence[np.ndarray], filling: np.ndarray | None = None) -> np.ndarray:
        table = np.empty((3, len(rows), max(row.shape[1] for row in rows)), np.int64)
        for i, row in enumerate(rows):
            table[:, i, : row.shape[1]] = row
            table[:, i, row.shape[1] :] = row[:, :1] if filling is None else filling
        return table

    queries = padded([each.queries for each in contexts])
    width = queries.shape[2]
    tables = (
        queries,
        padded([each.keys for each in contexts], np.array([[0], [_NOWHERE], [0]])),
        np.concatenate([np.arange(each.queries.shape[1]) + i * width for i, each in enumerate(contexts)]),
        np.concatenate([each.queries[0] for each in contexts]),
    )
    return PaddedBlock(*(to_device(torch.from_numpy(table), device) for table in tables))
