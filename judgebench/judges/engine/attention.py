"""judgebench's attention, registered with transformers as an implementation of its own.

Any model written against transformers' attention interface then runs on packed rows unchanged: whatever is being read
(`attending`), each layer's queries, keys and values go to that pass's `attend`. Its parts (the root, the group's
article, the prompt's own tokens, branches) are attended to separately and merged exactly (`kernels.merge_into`).

Of the last layer, keys and values are wanted of every token, but queries, and all that follows from them, only of the
tokens whose next-token distribution is read. The layer's own code runs twice: over the whole row until its keys and
values are there (`KeysOnly`), then over the tokens that are read (`ReadsOnly`). One layer in thirty less for SmolLM2,
at no difference.

Shapes: query [1, heads, tokens, dim], key and value [1, kv heads, tokens, dim], as transformers hands them over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from transformers import AttentionInterface, PreTrainedModel

from judgebench.judges.engine.cache import (
    GROWTH,
    Cache,
    Context,
    PaddedBlock,
    Root,
    Step,
    attend_blocks,
    blocks_of,
    places,
)
from judgebench.judges.engine.kernels import (
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
)
from judgebench.judges.engine.packing import Packed

NAME = "judgebench_packed"
EXACT = "judgebench_exact"
"""Attention of plain rows, written out in float32: what rounding in half precision is measured against."""


@dataclass(frozen=True)
class ReadRoot:
    """A row that is a root is being read, into `root`; `segments` are the row as one stretch."""

    root: Root
    segments: Segments

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: AttentionOptions
    ) -> torch.Tensor:
        """Attention of one layer over the row; [1, heads, tokens, dim] as the query."""
        self.root.layers[layer] = (key, value)
        tokens = query.shape[2]
        if separable(how, tokens):
            out = torch.empty_like(query)
            merge_into(out, [attend_ragged(query, key, value, self.segments, how.scale)], how.sinks)
            return out
        every = places(np.arange(tokens), np.arange(tokens))
        blocks = blocks_of([Context(every, every)], query, key, how.window)
        return attend_blocks(query, (key, value), blocks, None, how)


@dataclass(frozen=True)
class Prefill:
    """A packed row is being read, below `root` where it has one; keys and values go to `cache` where one is given.

    Attributes:
        blocks: window and kind of queries -> blocks of a layer whose parts cannot be merged, once a layer wants them.
    """

    packed: Packed
    root: Root | None
    cache: Cache | None = None
    blocks: dict[tuple[int | None, bool], list[PaddedBlock]] = field(default_factory=dict)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: AttentionOptions
    ) -> torch.Tensor:
        """Attention of one layer over the row; [1, heads, tokens, dim] as the query."""
        self.store_keys(layer, key, value)
        return self.attend_row(layer, query, (key, value), how, only_reads=False)

    def attend_row(
        self, layer: int, query: torch.Tensor, own: KeysValues, how: AttentionOptions, only_reads: bool
    ) -> torch.Tensor:
        """Attention of one layer to the row and its root; queries are all tokens of the row, or `packed.reads`."""
        packed, root = self.packed, None if self.root is None else self.root.layers[layer]
        if separable(how, packed.reach):
            return _merged(packed, query, own, root, how, only_reads)
        kind = (how.window, only_reads)
        if kind not in self.blocks:
            self.blocks[kind] = blocks_of(_contexts(packed, only_reads), query, own[0], how.window)
        seen = own if root is None else joined([root, own])
        return attend_blocks(query, seen, self.blocks[kind], packed.ancestry if packed.forks.numel() else None, how)

    def store_keys(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Takes what generation needs of a layer's keys and values to the cache."""
        if self.cache is None:
            return
        above = self.packed.groups[-1].shared.stop
        self.cache.root = self.root
        self.cache.articles[layer] = (key[:, :, :above].clone(), value[:, :, :above].clone())
        self.cache.own[layer] = tuple(  # type: ignore[assignment]
            F.pad(x[0][:, self.packed.leaves].permute(1, 2, 0, 3), (0, 0, 0, 0, 0, GROWTH)) for x in (key, value)
        )


class KeysTaken(Exception):
    """A layer's keys and values are there; what else it would compute is not wanted."""


@dataclass
class KeysOnly:
    """The last layer runs over a whole row for the sake of its keys and values, which `own` takes."""

    prefill: Prefill
    own: KeysValues | None = None

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: AttentionOptions
    ) -> torch.Tensor:
        """Takes the layer's keys and values, [1, kv heads, tokens, dim], and ends its run.

        Raises:
            KeysTaken: always.
        """
        self.own = (key, value)
        self.prefill.store_keys(layer, key, value)
        raise KeysTaken


@dataclass(frozen=True)
class ReadsOnly:
    """The last layer runs over the tokens that are read, against the keys and values of the whole row."""

    prefill: Prefill
    own: KeysValues

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: AttentionOptions
    ) -> torch.Tensor:
        """Attention of the tokens that are read, [1, heads, prompts * branches, dim], to all that each may see."""
        return self.prefill.attend_row(layer, query, self.own, how, only_reads=True)


AttentionPass = ReadRoot | Prefill | KeysOnly | ReadsOnly | Step

_ACTIVE: ContextVar[AttentionPass | None] = ContextVar("judgebench_attention", default=None)


@contextmanager
def attending(pass_: AttentionPass) -> Iterator[None]:
    """Within it, models whose attention implementation is `NAME` read the row that `pass_` describes."""
    token = _ACTIVE.set(pass_)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def only_read(layer: torch.nn.Module, active: Prefill) -> Iterator[None]:
    """Within it a decoder layer takes the states of a packed row, [1, tokens, hidden], and gives the row with the right
    states at its `reads` and zeros elsewhere."""
    plain = layer.forward
    rows, tokens = active.packed.reads.flatten(), len(active.packed.token_ids)

    def forward(*args: Any, **kwargs: Any) -> Any:
        first = KeysOnly(active)
        try:
            with attending(first):
                plain(*args, **kwargs)
        except KeysTaken:
            assert first.own is not None
        with attending(ReadsOnly(active, first.own)):  # type: ignore[arg-type]
            given = plain(*_at(args, rows, tokens), **_at(kwargs, rows, tokens))
        states = given[0] if isinstance(given, tuple) else given
        row = states.new_zeros(1, tokens, states.shape[-1])
        row[:, rows] = states
        return (row, *given[1:]) if isinstance(given, tuple) else row

    layer.forward = forward
    try:
        yield
    finally:
        del layer.forward


@contextmanager
def own_attention(model: PreTrainedModel, exact: bool = False) -> Iterator[None]:
    """Within it a model reads plain rows with attention of its own, whatever implementation is set; or, without a
    cache, with `EXACT`."""
    packed = model.config._attn_implementation == NAME
    if packed:
        model.set_attn_implementation(EXACT if exact else "sdpa" if model._supports_sdpa else "eager")
    try:
        yield
    finally:
        if packed:
            model.set_attn_implementation(NAME)


def current_rows() -> torch.Tensor | None:
    """[places] int64 indices of the tokens at which the prompts of the packed row under way are being continued, prompt
    by prompt; none of them while a root is read, None without a packed row."""
    active = _ACTIVE.get()
    if isinstance(active, Prefill):
        return active.packed.reads.flatten()
    if isinstance(active, Step):
        return torch.arange(active.at.numel(), device=active.at.device)
    return None if active is None else torch.zeros(0, dtype=torch.int64)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of `NAME`: [1, tokens, heads, dim] and no weights."""
    active = _ACTIVE.get()
    if active is None:
        raise RuntimeError(f"attention implementation {NAME!r} was called outside of a packed pass")
    layer: int = module.layer_idx  # type: ignore[assignment]
    out = active.attend(layer, query, key, value, _how(query, **options))
    return out.transpose(1, 2).contiguous(), None


def exact_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of `EXACT`; see `packed_attention`."""
    how = _how(query, **options)
    at = torch.arange(query.shape[2], device=query.device)
    behind = at[:, None] - at
    allowed = (behind >= 0) & (behind < (how.window or len(at)))
    return attend_masked(query, key, value, how, allowed).transpose(1, 2).contiguous(), None


def _how(
    query: torch.Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> AttentionOptions:
    return AttentionOptions(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)


def _at(given: Any, rows: torch.Tensor, tokens: int) -> Any:
    """A layer's input at `rows` of the row's tokens: whatever runs over them, [1, tokens, ...] or [tokens]."""
    if isinstance(given, torch.Tensor):
        if given.ndim >= 2 and given.shape[:2] == (1, tokens):
            return given[:, rows]
        return given[rows] if given.shape == (tokens,) else given
    if isinstance(given, tuple | list):
        return type(given)(_at(item, rows, tokens) for item in given)
    return {name: _at(item, rows, tokens) for name, item in given.items()} if isinstance(given, dict) else given


def _merged(
    packed: Packed,
    query: torch.Tensor,
    own: KeysValues,
    root: KeysValues | None,
    how: AttentionOptions,
    only_reads: bool,
) -> torch.Tensor:
    """Attention part by part, merged where several parts are seen."""
    parts = []
    for part in packed.read_parts if only_reads else packed.parts:
        keys = root if part.keys is None else tuple(x[:, :, part.keys] for x in own)
        assert keys is not None
        parts.append((part.rows, *attend_ragged(query[:, :, part.rows], keys[0], keys[1], part.segments, how.scale)))
    if packed.forks.numel():
        parts.append(_among_branches(packed, query, own, how, only_reads))
    out = torch.empty_like(query)
    for start, stop in pairwise(sorted({at for rows, _, _ in parts for at in (rows.start, rows.stop)})):
        seen = [
            (each[:, :, start - rows.start : stop - rows.start], lse[:, :, start - rows.start : stop - rows.start])
            for rows, each, lse in parts
            if rows.start <= start and stop <= rows.stop
        ]
        merge_into(out[:, :, start:stop], seen, how.sinks)
    return out


def _among_branches(
    packed: Packed, query: torch.Tensor, own: KeysValues, how: AttentionOptions, only_reads: bool
) -> tuple[slice, torch.Tensor, torch.Tensor]:
    """Which queries are branches that fork, and their attention to each other."""
    prompts, inner = packed.forks.shape
    rows = slice(0 if only_reads else query.shape[2] - prompts * inner, query.shape[2])
    q = query[0, :, rows].unflatten(1, (prompts, -1)).transpose(0, 1)[:, :, -inner:]  # what is read first is no branch
    k, v = (x[0, :, -prompts * inner :].unflatten(1, (prompts, inner)).transpose(0, 1) for x in own)
    out, lse = attend(q, k, v, how.scale, bias=additive(packed.ancestry[None, None], query.dtype))
    if only_reads:
        out, lse = F.pad(out, (0, 0, 1, 0)), F.pad(lse, (1, 0), value=float("-inf"))
    return rows, out.transpose(0, 1).flatten(1, 2)[None], lse.transpose(0, 1).flatten(1, 2)[None]


def _contexts(packed: Packed, only_reads: bool) -> list[Context]:
    """Contexts of the row's tokens, or of `packed.reads`; keys are numbered from the root's on."""
    host = packed.host or packed
    at, reads, forks = (x.numpy() for x in (host.positions, host.reads, host.forks))
    inner, width = np.arange(1, forks.shape[1] + 1), reads.shape[1]
    read_branches = np.concatenate([np.zeros(width - len(inner), np.int64), inner])

    def keys(tokens: np.ndarray, branch: np.ndarray | int = 0) -> np.ndarray:
        return places(packed.root + tokens, at[tokens], branch)

    contexts = []
    for group in packed.groups:
        shared = np.arange(group.shared.start, group.shared.stop)
        above = np.concatenate([places(np.arange(packed.root), np.arange(packed.root)), keys(shared)], axis=1)
        if len(shared) and not only_reads:
            contexts.append(Context(places(shared, at[shared]), above))
        for prompt in range(group.prompts.start, group.prompts.stop):
            tail, branches = np.arange(*packed.spans[prompt]), forks[prompt]
            before = np.concatenate([above, keys(tail)], axis=1)
            every = np.concatenate([before, keys(branches, inner)], axis=1)
            if only_reads:
                queries = places(prompt * width + np.arange(width), at[reads[prompt]], read_branches)
                contexts.append(Context(queries, every))
                continue
            contexts.append(Context(places(tail, at[tail]), before))
            if len(branches):
                contexts.append(Context(places(branches, at[branches], inner), every))
    return contexts


AttentionInterface.register(NAME, packed_attention)
AttentionInterface.register(EXACT, exact_attention)
