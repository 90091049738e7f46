"""Packs the prompts of a batch into one row without repeating what they share and without padding.

Prompts of one condition share the rubric, those of one article also the article. The rubric (the
*root*) is read once for all batches of a condition; a batch is then laid out as

    [article 1][article 2] ... [tail 1.1][tail 1.2] ... [tail 2.1] ... [branches 1.1][branches 1.2]
    ...

so that attention is a few calls over neighboring stretches, however many groups there are
(`AttentionCall`). Where the candidate trie's inner branches are one chain, they lie at the end of
each tail: causal attention is all that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from judgebench.judges.engine.candidates import Branch
from judgebench.judges.engine.kernels import Segments, to_device
from judgebench.judges.local.batches import Groups, common_prefix
from judgebench.types import Array, Record


# A row and no padded batch: what prompts share is computed once, and no token is padding.
class Stretch(NamedTuple):
    """The place of one group in the row: the tokens that its prompts share, those of their tails,
    and the prompts' numbers."""

    shared: slice
    tails: slice
    prompts: slice


class AttentionCall(NamedTuple):
    """One call of attention: queries (`rows`) and the keys that they see, in pieces of the row, one
    behind the other; None is the root."""

    rows: slice
    keys: tuple[slice | None, ...]
    segments: Segments


@dataclass(frozen=True)
class Packed:
    """A batch of prompts as one row, less their root.

    Attributes:
        token_ids, positions: [tokens] int64; positions count along each prompt, the root included.
        root: tokens of the root.
        spans: for each prompt (start, end) of its tail, a chain of branches included.
        leaves: [prompts, width] int64 indices of each prompt's tail, padded on the right by
            repeating its first.
        reads: [prompts, branches] indices of the tokens whose next-token distribution is wanted.
        forks: where the inner branches fork, [prompts, inner branches] indices of their tokens;
            else none of them.
        ancestry: [inner branches, inner branches] bool, True where a branch sees another: itself
            and its ancestors.
        parts: the calls of attention over the row; each query's parts are merged.
        read_parts: the same where only `reads` are queries; rows count along `reads`, flattened.
        reach: one more than the largest position.
        host: the same on the host, where it was sent to a device.
    """

    token_ids: Tensor
    positions: Tensor
    root: int
    groups: tuple[Stretch, ...]
    spans: tuple[tuple[int, int], ...]
    leaves: Tensor
    reads: Tensor
    forks: Tensor
    ancestry: Tensor
    parts: tuple[AttentionCall, ...]
    read_parts: tuple[AttentionCall, ...]
    reach: int
    host: Packed | None = None

    def to(self, device: torch.device) -> Packed:
        if device.type == "cpu":
            return self
        # the host keeps its own: tables of windows and pairs of tokens are made of it
        moved: Record = {
            k: to_device(v, device) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        for name in ("parts", "read_parts"):
            calls = getattr(self, name)
            moved[name] = tuple(call._replace(segments=call.segments.to(device)) for call in calls)
        return replace(self, **moved, host=self)


@dataclass
class _Row:
    """A row that is being laid out: `parts` are its tokens and their positions so far."""

    parts: list[tuple[Array, Array]]
    length: int = 0

    def extend(self, ids: Array, at: int | Array) -> tuple[int, int]:
        """Lays tokens behind the row, from position `at` on or each at its own; where they begin
        and end in it."""
        self.parts.append((ids, at + np.arange(len(ids)) if isinstance(at, int) else at))
        self.length += len(ids)
        return self.length - len(ids), self.length


def pack_prompts(
    groups: Groups,
    branches: Sequence[Branch] = (),
    root: int = 0,
    join_root: bool = False,
) -> Packed:
    """Packs prompts, numbered in order; those of one group share its article.

    Args:
        branches: inner nodes of the candidate trie, root first, whose tokens are laid after every
            prompt.
        root: number of tokens that all prompts begin with and that are read apart.
        join_root: tails see the root and their article in one call, for which the root's keys are
            copied once a group; only where tails are long enough for that to pay. It makes a
            processor faster by 2 %, and a GPU slower.
    """
    # A chain needs no mask: behind the tail, each branch sees what lies before it, as any text
    # does. Of forks one must not see the other, so they are laid apart.
    # branch 0 is the root: inner[i] is branch i + 1
    inner = [branch for branch in branches if branch.depth > 0]
    chain = all(branch.parent == i for i, branch in enumerate(inner))
    branch_tokens, depths = (
        np.array([getattr(b, name) for b in inner], np.int64) for name in ("token", "depth")
    )
    arrays = [[np.asarray(ids, np.int64) for ids in group] for group in groups]
    # [groups] tokens that the prompts of each share, the root included
    ends = [max(root, common_prefix(group)) for group in arrays]
    row = _Row([])
    # 1. what the prompts of each group share
    shared = [row.extend(group[0][root:end], root) for group, end in zip(arrays, ends, strict=True)]
    # 2. their tails, with the branches behind each where they are a chain
    spans = []
    reads = []
    tails = []
    for group, end in zip(arrays, ends, strict=True):
        first = row.length
        for ids in group:
            start, last = row.extend(ids[end:], end)
            stop = row.extend(branch_tokens, len(ids))[1] if chain else last
            spans.append((start, stop))
            # the last token of the prompt predicts what follows it, each branch what follows that
            reads.append([last - 1, *range(last, stop)])
        tails.append((first, row.length))
    # 3. branches that fork, behind all tails
    for reading, ids in zip(reads, (ids for group in arrays for ids in group), strict=True):
        # wherever it lies, a branch of depth d has the position of the d-th token behind its prompt
        if not chain:
            reading.extend(range(*row.extend(branch_tokens, len(ids) + depths - 1)))
    # 4. indices of all that is read or continued
    places = zip(shared, tails, pairwise(accumulate(map(len, arrays), initial=0)), strict=True)
    stretches = tuple(
        Stretch(slice(*above), slice(*below), slice(*numbers)) for above, below, numbers in places
    )
    starts, stops = torch.tensor(spans).T  # [prompts] each
    offsets = torch.arange(int((stops - starts).max()))  # [width]
    read_from = torch.tensor(reads)  # [prompts, branches]
    forks = read_from[:, read_from.shape[1] if chain else 1 :]
    tokens, positions = (
        torch.from_numpy(np.concatenate(parts)) for parts in zip(*row.parts, strict=True)
    )
    tokens_of_tails = stretches[-1].tails.stop - stretches[-1].shared.stop  # of all prompts
    joined = join_root and 0 < root * len(groups) <= tokens_of_tails
    parts, read_parts = _calls(
        stretches, spans, root, forks.shape[1], read_from.shape[1], chain, joined
    )
    return Packed(
        token_ids=tokens,
        positions=positions,
        root=root,
        groups=stretches,
        spans=tuple(spans),
        leaves=starts[:, None] + torch.where(offsets < (stops - starts)[:, None], offsets, 0),
        reads=read_from,
        forks=forks,
        ancestry=_ancestry(inner),
        parts=parts,
        read_parts=read_parts,
        reach=int(positions.max()) + 1,
    )


def _ancestry(inner: Sequence[Branch]) -> Tensor:
    seen = torch.eye(len(inner), dtype=torch.bool)  # [inner, inner]
    for i, branch in enumerate(inner):
        if branch.parent > 0:  # branch 0 is the root: inner[i] is branch i + 1
            # parents come before children, so the parent's row is whole
            seen[i] |= seen[branch.parent - 1]
    return seen


def _calls(
    groups: Sequence[Stretch],
    spans: Sequence[tuple[int, int]],
    root: int,
    forks: int,
    reads: int,
    chain: bool,
    joined: bool,
) -> tuple[tuple[AttentionCall, ...], tuple[AttentionCall, ...]]:
    """The calls of attention over a row, at whose end lie `forks` branches of each prompt; and
    those of the tokens that are read, prompt by prompt, `reads` of each. `joined`: see
    `pack_prompts`."""
    # the row is [articles][tails][forks]: each boundary is an end of a stretch
    above = groups[-1].shared.stop
    tails = groups[-1].tails.stop
    count = len(spans)
    article = slice(0, above)
    tail = slice(above, tails)
    whole = slice(0, tails)
    row = slice(0, tails + forks * count)
    branches = slice(tails, tails + forks * count)
    read = slice(0, reads * count)
    shared, below, prompts = (
        [group[i].stop - group[i].start for group in groups] for i in range(3)
    )
    each = [end - start for start, end in spans]
    # 1. what the prompts of each group see above their tails in one call: its article and, where the
    # two are joined, the root
    context: list[slice | None] = [article]
    lengths = shared
    below_root = row
    if joined:
        context = [piece for group in groups for piece in (None, group.shared)]
        lengths = [root + length for length in shared]
        below_root = article
    seen = sum(lengths)
    # A call is made where its number is above 0: where it has pairs of queries and keys at all.
    # 2. articles and tails see themselves, all see the root, tails and branches their article,
    # branches their tail
    calls = [
        (1, AttentionCall(whole, (whole,), Segments.of(shared + each, shared + each, causal=True))),
        (
            root * below_root.stop,
            AttentionCall(below_root, (None,), Segments.of([below_root.stop], [root])),
        ),
        (seen, AttentionCall(tail, tuple(context), Segments.of(below, lengths))),
        (
            forks * seen,
            AttentionCall(
                branches, tuple(context), Segments.of([forks * n for n in prompts], lengths)
            ),
        ),
        (forks, AttentionCall(branches, (tail,), Segments.of([forks] * count, each))),
    ]
    # 3. so do the tokens that are read
    read_calls = [
        (
            1,
            AttentionCall(
                read, (tail,), Segments.of([reads] * count, each, causal=chain and reads > 1)
            ),
        ),
        (root * (not joined), AttentionCall(read, (None,), Segments.of([read.stop], [root]))),
        (
            seen,
            AttentionCall(read, tuple(context), Segments.of([reads * n for n in prompts], lengths)),
        ),
    ]
    parts, read_parts = (
        tuple(call for wanted, call in each if wanted) for each in (calls, read_calls)
    )
    return parts, read_parts


def following_tokens(packed: Packed) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Pairs of neighboring tokens in a row without a root: [pairs] indices of the first token of
    each; [pairs] tokens that follow; and for each prompt [tokens - 1] the pairs of its tokens after
    the first."""
    # Perplexity: every token but a prompt's first is predicted by the one before it. What a group
    # shares is predicted once for all its prompts.
    tokens = (packed.host or packed).token_ids
    reads: list[Tensor] = []
    following: list[Tensor] = []
    prompts: list[Tensor] = []
    count = 0
    for group in packed.groups:
        shared = torch.arange(group.shared.start, group.shared.stop)  # [tokens of the article]
        # the pairs within what the group shares, then those of each prompt's tail, from the last
        # token shared on
        tails = [
            torch.cat([shared[-1:], torch.arange(*span)]) for span in packed.spans[group.prompts]
        ]
        pairs = []
        for row in (shared, *tails):
            reads.append(row[:-1])
            following.append(tokens[row[1:]])
            pairs.append(
                torch.arange(
                    count,
                    count + len(reads[-1]),
                )
            )
            count += len(reads[-1])
        # a prompt's pairs are those of what its group shares, then its own
        prompts += [torch.cat([pairs[0], tail]) for tail in pairs[1:]]
    # [pairs], [pairs], and of each prompt [its tokens - 1]
    return torch.cat(reads), torch.cat(following), prompts
