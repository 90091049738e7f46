"""Keys and values that outlive a pass: of a root, for the rows below it; of a batch, for generation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional as F

from judgebench.judges.engine import kernels
from judgebench.judges.engine.blocks import Context, PaddedBlock, attend_blocks, blocks_of
from judgebench.judges.engine.kernels import (
    AttentionOptions,
    KeysValues,
    Segments,
    additive,
    attend,
    attend_ragged,
    joined,
    merge_into,
    separable,
    to_device,
)

GROWTH = 64
"""Tokens by which the room for generated keys grows."""


@dataclass
class Root:
    """The keys and values of tokens that many rows begin with, by layer."""

    layers: dict[int, KeysValues] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Its tokens."""
        return next(iter(self.layers.values()))[0].shape[2]

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(x.nbytes for pair in self.layers.values() for x in pair)


class Roots:
    """The roots that were used last; the one in use is always kept.

    Args:
        room: bytes that they may take together.
    """

    def __init__(self, room: int = 0):
        self.room = room
        self._held: OrderedDict[bytes, Root] = OrderedDict()

    def get(self, root: np.ndarray, read: Callable[[], Root]) -> Root:
        """The keys and values of `root` [tokens], from `read` where they are not held."""
        name = root.tobytes()
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        self._held[name] = read()
        while len(self._held) > 1 and sum(held.bytes for held in self._held.values()) > self.room:
            self._held.popitem(last=False)
        return self._held[name]

    def clear(self) -> None:
        """Lets go of all."""
        self._held.clear()


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
    """Attention of the new tokens to their prompts' own, and its log-sum-exp."""
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
    """All that each prompt's new tokens may see; keys are numbered from the root's on, then articles, then own."""
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
            contexts.append(Context(prompt * count + np.arange(count), at[-count:], keys, at))
    return contexts
