"""Packs the prompts of a batch into one row without repeating what they share and without padding.

Prompts of one condition share the rubric, those of one article also the article. The rubric (the
*root*) is read once for all batches of a condition; a batch is then laid out as

    [article 1][article 2] ... [tail 1.1][tail 1.2] ... [tail 2.1] ... [branches 1.1][branches 1.2]
    ...

so that attention is a few calls over neighboring stretches, however many groups there are
(`AttentionCall`). Where the candidate trie's inner branches are one chain, they lie at the end of
each tail: causal attention is all that they need.

That is a tree of two levels. Where the conditions of a text share it too, a batch is a tree of any
depth (`pack_tree`): article, text, question, branches of candidates, each level behind the one
above it. A level attends to itself and to every level above it, a call each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from judgebench.judges.batches import Groups, common_prefix, tree_of
from judgebench.judges.engine.candidates import Branch, CandidateTrie
from judgebench.judges.engine.kernels import Segments, to_device


class Stretch(NamedTuple):
    """The place of one group in the row: the tokens that its prompts share, those of their tails,
    and the prompts' numbers."""

    shared: slice
    tails: slice
    prompts: slice


class RowNode(NamedTuple):
    """The place of a node in the row, the number of the node `above` it in its level, -1 at the
    root, the numbers of the tokens that are read at its end, and the branches that fork behind
    it."""

    rows: slice
    above: int
    reads: slice
    forks: slice = slice(0, 0)

    @property
    def size(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def asked(self) -> int:
        return int(self.reads.stop - self.reads.start)


Level = Sequence[RowNode]


class AttentionCall(NamedTuple):
    """One call of attention: queries (`rows`) and part of the keys in the row that they see; None
    is the root."""

    rows: slice
    keys: slice | None
    segments: Segments


@dataclass(frozen=True)
class Packed:
    """A batch of prompts as one row, less their root.

    Attributes:
        token_ids, positions: [tokens] int64; positions count along each prompt, the root included.
        root: tokens of the root.
        levels: the nodes of its tree, level by level, those below one node together, in the order
            of the row.
        groups, spans, leaves: of a tree of two levels; else none.
        spans: for each prompt (start, end) of its tail, a chain of branches included.
        leaves: [prompts, width] int64 indices of each prompt's tail, padded on the right by
            repeating its first.
        reads: [prompts, branches] indices of the tokens whose next-token distribution is wanted; of
            a deeper tree [reads], in the order of the row, and `answers` has for each prompt
            [branches] which of them are its own.
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
    levels: tuple[Level, ...]
    answers: tuple[Tensor, ...] = ()
    host: Packed | None = None

    def to(self, device: torch.device) -> Packed:
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            k: to_device(v, device) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        for name in ("parts", "read_parts"):
            calls = getattr(self, name)
            moved[name] = tuple(call._replace(segments=call.segments.to(device)) for call in calls)
        return replace(self, **moved, host=self)


def pack_prompts(groups: Groups, branches: Sequence[Branch] = (), root: int = 0) -> Packed:
    """Packs prompts, numbered in order; those of one group share its article. `branches` are inner
    nodes of the candidate trie, root first, whose tokens are laid after every prompt; `root` the
    number of tokens that all prompts begin with and that are read apart."""
    # branch 0 is the root: inner[i] is branch i + 1
    inner = [branch for branch in branches if branch.depth > 0]
    in_line = all(branch.parent == i for i, branch in enumerate(inner))
    branch_tokens, depths = (
        np.array([getattr(b, name) for b in inner], np.int64) for name in ("token", "depth")
    )
    arrays = [[np.asarray(ids, np.int64) for ids in group] for group in groups]
    ends = [max(root, common_prefix(group)) for group in arrays]
    row: list[tuple[np.ndarray, np.ndarray]] = []  # tokens and their positions
    length = 0

    def extend(ids: np.ndarray, at: int | np.ndarray) -> tuple[int, int]:
        nonlocal length
        row.append((ids, at + np.arange(len(ids)) if isinstance(at, int) else at))
        length += len(ids)
        return length - len(ids), length

    # 1. what the prompts of each group share
    shared = [extend(group[0][root:end], root) for group, end in zip(arrays, ends, strict=True)]
    # 2. their tails, with the branches behind each where they are a chain
    spans = []
    reads = []
    tails = []
    for group, end in zip(arrays, ends, strict=True):
        first = length
        for ids in group:
            start, last = extend(ids[end:], end)
            stop = extend(branch_tokens, len(ids))[1] if in_line else last
            spans.append((start, stop))
            reads.append([last - 1, *range(last, stop)])
        tails.append((first, length))
    # 3. branches that fork, behind all tails
    for reading, ids in zip(reads, (ids for group in arrays for ids in group), strict=True):
        if not in_line:
            reading.extend(range(*extend(branch_tokens, len(ids) + depths - 1)))
    # 4. indices of all that is read or continued
    places = zip(shared, tails, pairwise(accumulate(map(len, arrays), initial=0)), strict=True)
    stretches = tuple(
        Stretch(slice(*above), slice(*below), slice(*numbers)) for above, below, numbers in places
    )
    starts, stops = torch.tensor(spans).T
    offsets = torch.arange(int((stops - starts).max()))
    read_from = torch.tensor(reads)
    forks = read_from[:, read_from.shape[1] if in_line else 1 :]
    # 5. the two levels
    width = read_from.shape[1]
    behind = forks.shape[1]
    end = tails[-1][1]
    articles = [RowNode(slice(*rows), -1, slice(0, 0)) for rows in shared]
    above = [number for number, group in enumerate(arrays) for _ in group]
    slices = (
        [slice(at + i * n, at + (i + 1) * n) for i in range(len(spans))]
        for at, n in ((0, width), (end, behind))
    )
    own = [RowNode(slice(*rows), *rest) for rows, *rest in zip(spans, above, *slices, strict=True)]
    tokens, positions = (
        torch.from_numpy(np.concatenate(parts)) for parts in zip(*row, strict=True)
    )
    parts, read_parts = _calls((articles, own), root)
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
        levels=(articles, own),
    )


def pack_tree(groups: Groups, tries: Sequence[CandidateTrie], root: int = 0) -> Packed:
    """Packs prompts as one tree (`tree_of`), each with the inner branches of its own trie, of
    `tries` in the order of the prompts: they go on behind its leaf, and are nodes of their own
    where they fork."""
    following = {trie: _following(trie) for trie in tries}
    # tokens, position, above, what is read
    levels: list[list[tuple[np.ndarray, int, int, list[tuple[int, int]]]]] = []
    first = 0

    def lay(depth: int, above: int, at: int, ids: np.ndarray, read: list[tuple[int, int]]) -> int:
        if depth == len(levels):
            levels.append([])
        levels[depth].append((ids, at, above, read))
        return len(levels[depth]) - 1

    def branch(
        depth: int, above: int, at: int, ids: Sequence[int], prompt: int, number: int
    ) -> None:
        """Lays tokens that end on a branch, with those behind it, one after the other until they
        fork."""
        trie = tries[prompt]
        ids = list(ids)
        read = [(prompt, number)]
        while len(following[trie][number]) == 1:
            number = following[trie][number][0]
            ids.append(trie.branches[number].token)
            read.append((prompt, number))
        place = lay(depth, above, at, np.array(ids, np.int64), read)
        for child in following[trie][number]:
            branch(depth + 1, place, at + len(ids), [trie.branches[child].token], prompt, child)

    # 1. the nodes of all groups, level by level: what lies below one node lies together
    for group in groups:
        where: list[tuple[int, int]] = []  # depth of each node and its place there
        for node in tree_of(group, root):
            depth, above = (
                (0, -1) if node.parent < 0 else (where[node.parent][0] + 1, where[node.parent][1])
            )
            ids = group[node.prompt][node.start : node.end]
            if node.leaf:
                branch(depth, above, node.start, ids.tolist(), first + node.prompt, 0)
            where.append(
                (
                    depth,
                    -1
                    if node.leaf
                    else lay(depth, above, node.start, np.asarray(ids, np.int64), []),
                )
            )
        first += len(group)
    # 2. their places in the row, and what is read there
    places: list[list[RowNode]] = []
    reads: list[int] = []
    answers = [torch.zeros(len(trie.branches), dtype=torch.int64) for trie in tries]
    length = 0
    for level in levels:
        places.append([])
        for ids, _, above, read in level:
            length += len(ids)
            places[-1].append(
                RowNode(
                    slice(length - len(ids), length),
                    above,
                    slice(len(reads), len(reads) + len(read)),
                )
            )
            for i, (prompt, number) in enumerate(read):
                answers[prompt][number] = len(reads)
                reads.append(length - len(read) + i)
    every = [node for level in levels for node in level]
    positions = torch.from_numpy(
        np.concatenate([at + np.arange(len(ids)) for ids, at, *_ in every])
    )
    parts, read_parts = _calls(places, root)
    nothing = torch.zeros(0, 0, dtype=torch.int64)
    return Packed(
        token_ids=torch.from_numpy(np.concatenate([ids for ids, *_ in every])),
        positions=positions,
        root=root,
        groups=(),
        spans=(),
        leaves=nothing,
        reads=torch.tensor(reads),
        forks=nothing,
        ancestry=nothing.bool(),
        parts=parts,
        read_parts=read_parts,
        reach=int(positions.max()) + 1,
        levels=tuple(places),
        answers=tuple(answers),
    )


def _following(trie: CandidateTrie) -> list[list[int]]:
    """For each branch of a trie the branches that continue it."""
    following: list[list[int]] = [[] for _ in trie.branches]
    for number, branch in enumerate(trie.branches):
        if branch.parent >= 0:
            following[branch.parent].append(number)
    return following


def _ancestry(inner: Sequence[Branch]) -> Tensor:
    seen = torch.eye(len(inner), dtype=torch.bool)
    for i, branch in enumerate(inner):
        if branch.parent > 0:  # branch 0 is the root: inner[i] is branch i + 1
            seen[i] |= seen[branch.parent - 1]
    return seen


def _calls(
    levels: Sequence[Level], root: int
) -> tuple[tuple[AttentionCall, ...], tuple[AttentionCall, ...]]:
    """The calls of attention over a row: every node sees itself, the root and all nodes above it,
    which forked branches do too, but for each other; and the calls of the tokens that are read, in
    their order."""
    forks = [
        RowNode(node.forks, i, slice(0, 0))
        for i, node in enumerate(levels[-1])
        if node.forks != slice(0, 0)
    ]
    every = [*levels, forks] if any(fork.size for fork in forks) else list(levels)
    rows = [slice(level[0].rows.start, level[-1].rows.stop) for level in every]
    sizes = [[node.size for node in level] for level in every]
    counts = [[node.asked for node in level] for level in levels]

    def above(up: int, down: int, counts: Sequence[int]) -> list[int]:
        """Sums of what the nodes of a level count, for each node of a level further up."""
        for level in range(down, up, -1):
            sums = [0] * len(every[level - 1])
            for node, count in zip(every[level], counts, strict=True):
                sums[node.above] += count
            counts = sums
        return list(counts)

    def pairs(down: int, at: slice, counts: Sequence[int]) -> list[AttentionCall]:
        """The calls by which a level sees what is above it."""
        return [
            AttentionCall(at, rows[up], Segments.of(above(up, down, counts), sizes[up]))
            for up in range(down)
            if at != slice(at.start, at.start) and any(sizes[up])
        ]

    # 1. the whole row
    whole = slice(0, rows[len(levels) - 1].stop)
    each = list(chain.from_iterable(sizes[: len(levels)]))
    calls = [AttentionCall(whole, whole, Segments.of(each, each, causal=True))]
    if root:
        calls.append(
            AttentionCall(slice(0, rows[-1].stop), None, Segments.of([rows[-1].stop], [root]))
        )
    for down in range(1, len(every)):
        calls += pairs(down, rows[down], sizes[down])
    # 2. what is read of it: its last tokens of each node
    first = next(number for number, level in enumerate(counts) if any(level))
    queries, keys = (
        list(chain.from_iterable(part[first : len(levels)])) for part in (counts, sizes)
    )
    read = slice(0, sum(queries))
    causal = len(every) == len(levels) and max(queries) > 1
    seen = slice(rows[first].start, whole.stop)
    read_calls = [AttentionCall(read, seen, Segments.of(queries, keys, causal=causal))]
    if root:
        read_calls.append(AttentionCall(read, None, Segments.of([read.stop], [root])))
    start = 0
    for down, level in enumerate(counts):
        at = slice(start, start + sum(level))
        read_calls += pairs(down, at, level)
        start = at.stop
    return tuple(calls), tuple(read_calls)


def following_tokens(packed: Packed) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Pairs of neighboring tokens in a row without a root: [pairs] indices of the first token of
    each; [pairs] tokens that follow; and for each prompt [tokens - 1] the pairs of its tokens after
    the first."""
    tokens = (packed.host or packed).token_ids
    reads: list[Tensor] = []
    following: list[Tensor] = []
    prompts: list[Tensor] = []
    count = 0
    for group in packed.groups:
        shared = torch.arange(group.shared.start, group.shared.stop)
        # the pairs within what the group shares, then those of each prompt's tail, from the last
        # token shared on
        tails = [
            torch.cat([shared[-1:], torch.arange(*span)]) for span in packed.spans[group.prompts]
        ]
        pairs = []
        for row in (shared, *tails):
            reads.append(row[:-1])
            following.append(tokens[row[1:]])
            pairs.append(torch.arange(count, count + len(reads[-1])))
            count += len(reads[-1])
        prompts += [torch.cat([pairs[0], tail]) for tail in pairs[1:]]
    return torch.cat(reads), torch.cat(following), prompts
