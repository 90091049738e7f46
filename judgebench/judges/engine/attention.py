"""judgebench's attention, registered with transformers as an implementation of its own.

Any model written against transformers' attention interface then runs on packed rows unchanged:
whatever is being read (`attending`), each layer's queries, keys and values go to that pass's
`attend`. Its parts (the root, the group's article, the prompt's own tokens, branches) are attended
to separately and merged exactly (`kernels.merge_into`).

Of the last layer, keys and values are wanted of every token, but queries, and all that follows from
them, only of the tokens whose next-token distribution is read. The layer's own code runs twice:
over the whole row until its keys and values are there, then over the tokens that are read
(`LastLayer`). One layer in thirty less for SmolLM2, at no difference.

Shapes: query [1, heads, tokens, dim], key and value [1, kv heads, tokens, dim], as transformers
hands them over; each `attend` gives [1, heads, tokens, dim].
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map
from transformers import AttentionInterface, PreTrainedModel

from judgebench.judges.engine import kernels
from judgebench.judges.engine.kernels import (
    AttentionOptions,
    Context,
    KeysValues,
    PaddedBlock,
    Segments,
    to_device,
)
from judgebench.judges.engine.packing import Packed
from judgebench.types import Array, Record

# transformers finds an attention function by its name, in a table that anyone may add to. So the
# code of a model stays as its authors wrote it, and architectures that come later are read, too.
NAME = "judgebench_packed"
EXACT = "judgebench_exact"
"""Attention of plain rows, written out in float32: what rounding in half precision is measured
against."""


GROWTH = 64
"""Tokens by which the room for generated keys grows."""

Blocks = dict[tuple[int | None, int], list[PaddedBlock]]
"""Window and kind of queries -> blocks of layers whose parts cannot be merged."""


@dataclass
class Root:
    """The keys and values of tokens that many rows begin with, by layer."""

    layers: dict[int, KeysValues] = field(default_factory=dict)  # [1, kv heads, tokens, dim] each

    @property
    def length(self) -> int:
        # all layers hold the same tokens
        return next(iter(self.layers.values()))[0].shape[2]

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for pair in self.layers.values() for x in pair)


class Roots:
    """The roots that were used last, in `room` bytes together; the one in use is always kept."""

    def __init__(self, room: int = 0):
        self.room = room
        self._roots: OrderedDict[bytes, Root] = OrderedDict()

    def get(self, root: Array, read: Callable[[], Root]) -> Root:
        """The keys and values of `root` [tokens], from `read` where they are not in memory."""
        # the tokens are the name: a root that differs anywhere is another, for keys depend on all
        # tokens before them
        name = root.tobytes()
        if name in self._roots:
            self._roots.move_to_end(name)
            return self._roots[name]
        self._roots[name] = read()
        # the one just read stays whatever its size, for the pass under way needs it
        while len(self._roots) > 1 and sum(each.bytes for each in self._roots.values()) > self.room:
            self._roots.popitem(last=False)
        return self._roots[name]

    def clear(self) -> None:
        self._roots.clear()


@dataclass
class Cache:
    """Keys and values of a packed batch, kept for generation.

    Attributes:
        counts: prompts of each group that are still answered, on the host.
        shared: tokens that the prompts of each group share below the root, on the host.
        lengths: [prompts] own tokens so far, on the host.
        root: what all prompts begin with, where it was read apart.
        articles: layer -> [1, kv heads, tokens, dim] what the prompts of each group share, group by
            group.
        tails: layer -> [prompts, room, kv heads, dim] each prompt's own.
    """

    counts: list[int]
    shared: list[int]
    lengths: list[int]
    root: Root | None = None
    articles: dict[int, KeysValues] = field(default_factory=dict)
    tails: dict[int, KeysValues] = field(default_factory=dict)

    @property
    def root_length(self) -> int:
        return 0 if self.root is None else self.root.length

    @property
    def offsets(self) -> Array:
        """[prompts] position of each prompt's first own token."""
        return np.repeat(np.add(self.shared, self.root_length), self.counts)

    def keep(self, which: Tensor) -> None:
        """Goes on with the prompts at these ascending indices, on the host."""
        # what groups share stays where it is, also of a group whose prompts have all ended (its
        # count is 0 then): to cut it out would copy all that lies behind it
        live = which.tolist()
        groups = np.repeat(np.arange(len(self.counts)), self.counts)  # [prompts] of which group
        self.counts = np.bincount(groups[live], minlength=len(self.counts)).tolist()
        self.lengths = [self.lengths[i] for i in live]
        for layer, (keys, values) in self.tails.items():
            which = which.to(keys.device)  # once: all layers are on one device
            self.tails[layer] = (keys[which], values[which])

    def reserve(self, longest: int) -> int:
        """The room of each prompt, which is made large enough for so many own tokens."""
        room = 0
        for layer, (keys, values) in self.tails.items():
            room = keys.shape[1]
            if room < longest:
                # pads the second dimension at its end, by more than is missing: each growth copies
                # all keys
                room = longest + GROWTH
                more = (0, 0, 0, 0, 0, room - keys.shape[1])
                self.tails[layer] = (F.pad(keys, more), F.pad(values, more))
        return room


@dataclass(frozen=True)
class ReadRoot:
    """A row that is a root is being read, into `root`; `segments` are the row as one stretch;
    `blocks`: see `_under_masks`."""

    root: Root
    segments: Segments
    blocks: Blocks = field(default_factory=dict)

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: AttentionOptions
    ) -> Tensor:
        self.root.layers[layer] = (key, value)  # [1, kv heads, tokens, dim] each
        tokens = np.arange(query.shape[2])  # [tokens]
        # the kernel for stretches knows neither windows nor soft caps
        if not how.separable(len(tokens)):
            row = kernels.places(tokens, tokens)
            return _under_masks(
                self.blocks, 0, lambda: [Context(row, row)], query, [(key, value)], how
            )
        # a single part: merging adds the sinks, where the model has them
        part = kernels.attend_ragged(query, key, value, self.segments, how.scale)
        out = kernels.empty_by_token(query)
        kernels.merge_into(out, [part], how.sinks)
        return out


@dataclass(frozen=True)
class Prefill:
    """A packed row is being read, below `root` where it has one; keys and values go to `cache`
    where one is given; `blocks`: see `_under_masks`."""

    packed: Packed
    root: Root | None
    cache: Cache | None = None
    blocks: Blocks = field(default_factory=dict)

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: AttentionOptions
    ) -> Tensor:
        self.store_keys(layer, key, value)
        return self.attend_row(layer, query, (key, value), how, only_reads=False)

    def attend_row(
        self, layer: int, query: Tensor, row: KeysValues, how: AttentionOptions, only_reads: bool
    ) -> Tensor:
        """Attention of one layer to the row and its root; queries are all tokens of the row, or
        `packed.reads`."""
        # keys of the root come first: masks number keys from there on
        packed = self.packed
        seen = [row] if self.root is None else [self.root.layers[layer], row]
        if how.separable(packed.reach):
            return _merged(packed, query, seen, how, only_reads)
        # branches in a chain see what lies before them, which positions say alone; forks need a
        # table
        ancestry = packed.ancestry if packed.forks.numel() else None
        return _under_masks(
            self.blocks,
            only_reads,
            lambda: _contexts(packed, only_reads),
            query,
            seen,
            how,
            ancestry,
        )

    def store_keys(self, layer: int, key: Tensor, value: Tensor) -> None:
        if self.cache is None:
            return
        # copies, for a view would keep the whole row alive, and each prompt's own tokens twice
        above = self.packed.groups[-1].shared.stop
        self.cache.root = self.root
        self.cache.articles[layer] = (key[:, :, :above].clone(), value[:, :, :above].clone())
        self.cache.tails[layer] = (self._tails(key), self._tails(value))

    def _tails(self, row: Tensor) -> Tensor:
        """Each prompt's own keys or values, [prompts, room, kv heads, dim]."""
        # [kv heads, prompts, width, dim] -> [prompts, width, kv heads, dim]: tokens before heads,
        # as variable-length attention takes them, so that a step of generation copies no keys
        tails = row[0][:, self.packed.leaves].permute(1, 2, 0, 3)
        return F.pad(tails, (0, 0, 0, 0, 0, GROWTH))


class NotStatic(Exception):
    """A step needs something that differs from step to step; says what."""


# An exception is the one way out of a layer's forward whose code is not ours. It is raised in the
# attention function, which every layer calls once its keys and values are there.
class KeysTaken(Exception):
    """A layer's keys and values are there; what else it would compute is not wanted."""


@dataclass
class LastLayer:
    """The last layer runs over a whole row for the sake of its keys and values, which `row` takes;
    then it is ended, and runs again over the tokens that are read, against those keys and
    values."""

    prefill: Prefill
    row: KeysValues | None = None

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: AttentionOptions
    ) -> Tensor:
        # second run: queries are the tokens that are read, keys those of the first run
        if self.row is not None:
            return self.prefill.attend_row(layer, query, self.row, how, only_reads=True)
        self.row = (key, value)
        self.prefill.store_keys(layer, key, value)
        raise KeysTaken


@dataclass(frozen=True)
class Step:
    """One more token of each prompt is being read, against `cache`.

    Attributes:
        prompts: [prompts] 0, 1, 2, ...
        at: [prompts] where among each prompt's own tokens it stands.
        offsets: [prompts] position of each prompt's first own token.
        live: [prompts, 1, 1, longest] bool: which of its own keys it may see.
        articles: the new tokens against what their groups share.
        root: the new tokens against the root.
        ends: [2, prompts + 1] int32 where queries and room of each prompt end, see `Segments`.
        used: [prompts] int32: own keys so far, the new one included.
        longest, reach: most own tokens of a prompt, and most tokens that one sees, or a bound of
            them.
        stays: the shapes are those of all steps to come, and nothing may depend on a number of the
            host that differs among them; `NotStatic` where something does.
        blocks: see `_under_masks`.
    """

    cache: Cache
    prompts: Tensor
    at: Tensor
    offsets: Tensor
    live: Tensor
    articles: Segments
    root: Segments
    ends: Tensor
    used: Tensor
    longest: int
    reach: int
    stays: bool = False
    blocks: Blocks = field(default_factory=dict)

    @classmethod
    def of(cls, cache: Cache, device: torch.device, steps: int = 0) -> Step:
        """The next step; or, in shapes that stay, the first of so many `steps`."""
        at = torch.tensor(cache.lengths)  # [prompts]
        offsets = torch.from_numpy(cache.offsets)  # [prompts]
        # a bound takes the place of the longest prompt: it is longer than any will be
        longest = int(at.max()) + max(1, steps)
        room = cache.reserve(longest)
        each = torch.arange(len(at) + 1, dtype=torch.int32, device=device)  # a query each
        live = torch.arange(longest) <= at[:, None, None, None]  # [prompts, 1, 1, longest]
        return cls(
            cache,
            prompts=torch.arange(len(at), device=device),
            at=to_device(at, device),
            offsets=to_device(offsets, device),
            live=to_device(live, device),
            # a group's new tokens are neighbors, and see what the group shares as one stretch
            articles=Segments.of(cache.counts, cache.shared).to(device),
            root=Segments.of([len(at)], [cache.root_length]).to(device),
            ends=torch.stack([each, each * room]),
            used=to_device((at + 1).int(), device),
            longest=longest,
            reach=int((at + offsets).max()) + max(1, steps),
            stays=steps > 0,
        )

    def move(self) -> None:
        """Goes on to the next place, in place: where a step is a graph, that is part of it."""
        self.at.add_(1)
        self.used.add_(1)
        places = torch.arange(self.longest, device=self.at.device)  # [longest]
        torch.le(places, self.at[:, None, None, None], out=self.live)

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: AttentionOptions
    ) -> Tensor:
        cache = self.cache
        # 1. the new keys and values, [prompts, kv heads, dim] each, in their places
        tails = cache.tails[layer]
        for kept, new in zip(tails, (key, value), strict=True):
            kept[self.prompts, self.at] = new[0].transpose(0, 1)
        articles = cache.articles[layer]
        roots = [] if cache.root is None else [cache.root.layers[layer]]
        # 2. windows and soft caps: each prompt's whole context under an explicit mask
        if not how.separable(self.reach):
            if self.stays:
                raise NotStatic("masks of windows and soft caps are made on the host")
            seen = [*roots, articles, self._as_row(tails)]
            return _under_masks(self.blocks, 0, self._contexts, query, seen, how)
        # 3. else part by part: each prompt's own keys, the article's, the root's
        parts = [self._attend_tails(query, tails, how.scale)]
        # prompts without anything in common have no article to see
        if sum(cache.shared):
            parts.append(kernels.attend_ragged(query, *articles, self.articles, how.scale))
        parts += [kernels.attend_ragged(query, *root, self.root, how.scale) for root in roots]
        out = kernels.empty_by_token(query)
        kernels.merge_into(out, parts, how.sinks)
        return out

    def _as_row(self, tails: KeysValues) -> KeysValues:
        """The prompts' own keys and values one behind the other, as many of each as the longest
        has: [1, kv heads, prompts * longest, dim]."""
        # a prompt with fewer tokens has empty places at its end, which no context names
        keys, values = (x[:, : self.longest].permute(2, 0, 1, 3).flatten(1, 2)[None] for x in tails)
        return keys, values

    def _attend_tails(
        self, query: Tensor, tails: KeysValues, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Attention to each prompt's own keys and the logarithm of its normalizer, as
        `kernels.attend` gives them."""
        # 1. variable-length attention, over the whole room of each prompt
        if kernels.varlen_fits(query.device, query.dtype, query.shape[-1]):
            # a stretch a prompt, as long as its room; `used` says how much of it holds keys
            # [prompts, room, kv heads, dim] -> [1, kv heads, prompts * room, dim]
            keys, values = (x.flatten(0, 1).transpose(0, 1)[None] for x in tails)
            return kernels.attend_varlen(
                query,
                keys,
                values,
                self.ends,
                (1, self.longest),
                True,
                scale,
                self.used,
            )
        # 2. prompts as a batch, [prompts, heads, 1, dim]
        # [prompts, room, kv heads, dim] -> [prompts, kv heads, keys, dim]
        keys, values = (x[:, : self.longest].transpose(1, 2) for x in tails)
        bias = kernels.additive(self.live, query.dtype)  # [prompts, 1, 1, keys]
        tokens = kernels.as_batch(query[0], len(self.at))  # [prompts, heads, 1, dim]
        near, lse = kernels.attend(tokens, keys, values, scale, bias=bias)
        # [1, heads, prompts, dim] and [1, heads, prompts]
        return kernels.as_row(near)[None], kernels.as_row(lse)[None]

    def _contexts(self) -> list[Context]:
        """Contexts of each prompt's new token; keys are numbered from the root's on, then articles,
        then tails."""
        cache = self.cache
        root = cache.root_length
        ends = list(accumulate(cache.shared, initial=root))
        groups = np.repeat(np.arange(len(cache.counts)), cache.counts)  # [prompts] of which group
        contexts = []
        for prompt, group in enumerate(groups.tolist()):
            article = np.arange(ends[group], ends[group + 1])
            tail = ends[-1] + prompt * self.longest + np.arange(cache.lengths[prompt] + 1)
            # positions count along the prompt, wherever its keys lie
            seen = np.concatenate([np.arange(root), article, tail])
            keys = kernels.places(seen, np.arange(len(seen)))
            query = kernels.places(np.array([prompt]), keys[1, -1:])
            contexts.append(Context(query, keys))
        return contexts


AttentionPass = ReadRoot | Prefill | LastLayer | Step

# The pass travels beside the model's code, which hands on only what it knows. A context variable,
# for threads that read at the same time have passes of their own.
_ACTIVE: ContextVar[AttentionPass | None] = ContextVar("judgebench_attention", default=None)


@contextmanager
def attending(pass_: AttentionPass) -> Iterator[None]:
    """Within it, models whose attention implementation is `NAME` read the row that `pass_`
    describes."""
    token = _ACTIVE.set(pass_)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def only_read(layer: torch.nn.Module, active: Prefill) -> Iterator[None]:
    """Within it a decoder layer takes the states of a packed row, [1, tokens, hidden], and gives
    the row with the right states at its `reads` and zeros elsewhere."""
    # the method of the class; the one below hides it until it is deleted
    plain = layer.forward
    rows = active.packed.reads.flatten()  # [prompts * branches]
    tokens = len(active.packed.token_ids)

    def at_rows(states: Any) -> Any:
        """A part of a layer's input at `rows`, where it runs over the row's tokens: [1, tokens, ...]
        or [tokens]."""
        # by shape and not by name: architectures call the arguments of a layer differently
        if not isinstance(states, Tensor):
            return states
        if states.shape[:2] == (1, tokens):
            return states[:, rows]
        return states[rows] if states.shape == (tokens,) else states

    def forward(*args: Any, **kwargs: Any) -> Any:
        with attending(LastLayer(active)):
            # first run: ends when the keys are there
            with suppress(KeysTaken):
                plain(*args, **kwargs)
            # second run: the same arguments, of the tokens that are read alone
            args, kwargs = tree_map(at_rows, (args, kwargs))
            output = plain(*args, **kwargs)
        states, *others = output if isinstance(output, tuple) else (output,)
        # a whole row again, as whoever called the layer expects; nobody looks at the zeros, for
        # what follows the last layer takes each token by itself
        row = states.new_zeros(1, tokens, states.shape[-1])
        row[:, rows] = states  # [1, tokens, hidden]
        return (row, *others) if isinstance(output, tuple) else row

    layer.forward = forward
    try:
        yield
    finally:
        del layer.forward


@contextmanager
def own_attention(model: PreTrainedModel, exact: bool = False) -> Iterator[None]:
    """Within it a model reads plain rows with attention of its own, whatever implementation is set;
    or, without a cache, with `EXACT`."""
    packed = model.config._attn_implementation == NAME
    if packed:
        # the implementation is a setting of the whole model, and is set back below
        own = "sdpa" if model._supports_sdpa else "eager"
        model.set_attn_implementation(EXACT if exact else own)
    try:
        yield
    finally:
        if packed:
            model.set_attn_implementation(NAME)


def current_rows() -> Tensor | None:
    """[places] int64 indices of the tokens at which the prompts of the packed row under way are
    being continued, prompt by prompt; none of them while a root is read, None without a packed
    row."""
    active = _ACTIVE.get()
    if isinstance(active, Prefill):
        return active.packed.reads.flatten()
    if isinstance(active, Step):
        return torch.arange(active.at.numel(), device=active.at.device)
    return None if active is None else torch.zeros(0, dtype=torch.int64)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The attention function of `NAME`: [1, tokens, heads, dim] and no weights."""
    active = _ACTIVE.get()
    if active is None:
        raise RuntimeError(f"attention implementation {NAME!r} was called outside of a packed pass")
    layer: int = module.layer_idx  # type: ignore[assignment]
    out = active.attend(layer, query, key, value, _how(query, options))
    return out.transpose(1, 2).contiguous(), None


def exact_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The attention function of `EXACT`; see `packed_attention`."""
    how = _how(query, options)
    at = torch.arange(query.shape[2], device=query.device)  # [tokens]
    behind = at[:, None] - at  # [tokens, tokens]
    # a window counts the token itself: of width 1 it sees nothing else
    allowed = (behind >= 0) & (behind < (how.window or len(at)))
    out = kernels.attend_masked(query, key, value, how, allowed)
    return out.transpose(1, 2).contiguous(), None


def _how(query: Tensor, options: Record) -> AttentionOptions:
    # names as transformers hands them over; `s_aux` are the sinks
    scale = options.get("scaling")
    return AttentionOptions(
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        window=options.get("sliding_window"),
        softcap=options.get("softcap"),
        sinks=options.get("s_aux"),
    )


_Part = tuple[slice, Tensor, Tensor]
"""Rows of queries, their attention to a part of the keys, and the logarithm of its normalizer."""


def _under_masks(
    blocks: Blocks,
    queries: int,
    contexts: Callable[[], list[Context]],
    query: Tensor,
    seen: list[KeysValues],
    how: AttentionOptions,
    ancestry: Tensor | None = None,
) -> Tensor:
    """Attention of a layer whose parts cannot be merged: every query sees its whole context, among
    the keys and values of all parts that are `seen`. `blocks` holds what earlier layers have made
    of the contexts, by window and by the kind of `queries`."""
    # Why not in parts: the kernels know no soft cap, which bends each product before the softmax,
    # and a window may end within any part. So masks are written out.
    keys_values = kernels.concatenated(seen)
    # layers of one kind share their blocks: only the first of them looks for the contexts
    kind = (how.window, queries)
    if kind not in blocks:
        blocks[kind] = kernels.blocks_of(contexts(), query, keys_values[0], how.window)
    return kernels.attend_blocks(query, keys_values, blocks[kind], ancestry, how)


def _merged(
    packed: Packed, query: Tensor, seen: list[KeysValues], how: AttentionOptions, only_reads: bool
) -> Tensor:
    """Attention part by part, merged where several parts are seen: the root, if there is one, and
    the row."""
    # 1. each part of the keys, by the rows of queries that see it
    root, row = seen[0], seen[-1]
    parts: list[_Part] = []
    for rows, keys, segments in packed.read_parts if only_reads else packed.parts:
        pieces = [
            root if piece is None else (row[0][:, :, piece], row[1][:, :, piece]) for piece in keys
        ]
        key, value = kernels.concatenated(pieces)  # [1, kv heads, their tokens, dim]
        near, lse = kernels.attend_ragged(
            query[:, :, rows],
            key,
            value,
            segments,
            how.scale,
        )
        parts.append((rows, near, lse))
    # 2. branches that fork, among each other
    if packed.forks.numel():
        parts.append(_forks(packed, query, row, how.scale, only_reads))
    # 3. merged, stretch by stretch of queries that see the same parts
    out = kernels.empty_by_token(query)
    # An article's tokens see the root and themselves, a tail's the article too, a branch's its tail
    # and its ancestors: between two bounds all queries have the same parts.
    bounds = {at for rows, _, _ in parts for at in (rows.start, rows.stop)}
    for start, stop in pairwise(sorted(bounds)):
        seen = []
        for rows, near, lse in parts:
            if rows.start <= start and stop <= rows.stop:
                stretch = slice(start - rows.start, stop - rows.start)
                seen.append((near[:, :, stretch], lse[:, :, stretch]))
        kernels.merge_into(out[:, :, start:stop], seen, how.sinks)
    return out


def _forks(packed: Packed, query: Tensor, row: KeysValues, scale: float, only_reads: bool) -> _Part:
    """Attention of branches that fork to each other, at the end of the row or, with what is read
    first of each prompt, in `packed.reads`."""
    prompts, inner = packed.forks.shape  # [prompts, inner]
    count = prompts * inner
    queries = query.shape[2]
    start = 0 if only_reads else queries - count
    rows = slice(start, queries)
    # as a batch: the branches of a prompt see each other, and no other prompt's
    # [prompts, heads, branches, dim]; what is read first of a prompt is no branch
    q = kernels.as_batch(query[0, :, rows], prompts)[:, :, -inner:]
    k, v = (kernels.as_batch(x[0, :, -count:], prompts) for x in row)
    ancestry = packed.ancestry[None, None]  # [1, 1, inner, inner]
    bias = kernels.additive(ancestry, query.dtype)
    near, lse = kernels.attend(q, k, v, scale, bias=bias)
    if only_reads:
        # the prompt's last token sees no branch: an empty part, of weight 0 in the merge
        near = F.pad(near, (0, 0, 1, 0))
        lse = F.pad(lse, (1, 0), value=float("-inf"))
    # [1, heads, rows, dim] and [1, heads, rows]
    return rows, kernels.as_row(near)[None], kernels.as_row(lse)[None]


def _contexts(packed: Packed, only_reads: bool) -> list[Context]:
    """Contexts of the row's tokens, or of `packed.reads`; keys are numbered from the root's on."""
    # tables are made on the host: to read them from a GPU would be to wait for it
    host = packed.host or packed
    reads, forks = host.reads.numpy(), packed.root + host.forks.numpy()
    # 1. index, position and branch of every token; branches count from 1
    root = np.arange(packed.root)  # [root]
    at = np.concatenate([root, host.positions.numpy()])  # [root + tokens]
    branch = np.zeros_like(at)
    branch[forks] = 1 + np.arange(forks.shape[1])
    table = kernels.places(np.arange(len(at)), at, branch)  # [3, root + tokens]
    contexts = []

    def add(tokens: Array, keys: Array, rows: Array | None = None) -> None:
        # queries are numbered along the row, or along `reads`; keys from the root's first on
        rows = tokens - packed.root if rows is None else rows
        if len(tokens):
            contexts.append(Context(np.stack([rows, *table[1:, tokens]]), table[:, keys]))

    for group in packed.groups:
        # 2. what the prompts of a group share
        shared = packed.root + np.arange(group.shared.start, group.shared.stop)
        above = np.concatenate([root, shared])
        if not only_reads:
            add(shared, above)
        for prompt in range(group.prompts.start, group.prompts.stop):
            # 3. a prompt's own tokens, and the branches behind them
            tail = packed.root + np.arange(*packed.spans[prompt])
            before = np.concatenate([above, tail])
            every = np.concatenate([before, forks[prompt]])
            if only_reads:
                read = reads[prompt]
                add(packed.root + read, every, prompt * len(read) + np.arange(len(read)))
            else:
                add(tail, before)
                add(forks[prompt], every)
    return contexts


AttentionInterface.register(NAME, packed_attention)
AttentionInterface.register(EXACT, exact_attention)
