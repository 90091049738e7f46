"""Packs the prompts of a batch into one row without repeating what they share and without padding.

Prompts of one condition share the rubric, those of one article also the article. The rubric (the *root*) is read once
for all batches of a condition; a batch is then laid out as

    [article 1][article 2] ... [tail 1.1][tail 1.2] ... [tail 2.1] ... [branches 1.1][branches 1.2] ...

so that attention is a few calls over neighboring stretches, however many groups there are
(`AttentionCall`). Where the candidate trie's inner branches are one chain, they lie at the end of each tail: causal
attention is all that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from judgebench.judges.engine.candidates import Branch
from judgebench.judges.engine.kernels import Segments, to_device

Groups = Sequence[Sequence[np.ndarray]]
"""Token ids of each prompt, the prompts of a group together."""

_WORTH_SHARING = 16
"""Tokens that a root must have; below that it only costs calls."""


@dataclass(frozen=True)
class Stretch:
    """The place of one group in the row: the tokens that its prompts share, those of their tails (`own`), and the
    prompts' numbers."""

    shared: slice
    own: slice
    prompts: slice


@dataclass(frozen=True)
class AttentionCall:
    """One call of attention: queries (`rows`) and part of the keys in the row that they see; None is the root."""

    rows: slice
    keys: slice | None
    segments: Segments


@dataclass(frozen=True)
class Packed:
    """A batch of prompts as one row, less their root.

    Attributes:
        token_ids, positions: [tokens] int64; positions count along each prompt, the root included.
        root: tokens of the root.
        groups: where each group lies.
        spans: for each prompt (start, end) of its tail, a chain of branches included.
        leaves: [prompts, width] int64 indices of each prompt's tail, padded on the right by repeating its first.
        reads: [prompts, branches] indices of the tokens whose next-token distribution is wanted.
        forks: where the inner branches fork, [prompts, inner branches] indices of their tokens; else none of them.
        ancestry: [inner branches, inner branches] bool, True where a branch sees another: itself and its ancestors.
        parts: the calls of attention over the row; each query's parts are merged.
        read_parts: the same where only `reads` are queries; rows count along `reads`, flattened.
        reach: one more than the largest position.
        host: the same on the host, where it was sent to a device.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    root: int
    groups: tuple[Stretch, ...]
    spans: tuple[tuple[int, int], ...]
    leaves: torch.Tensor
    reads: torch.Tensor
    forks: torch.Tensor
    ancestry: torch.Tensor
    parts: tuple[AttentionCall, ...]
    read_parts: tuple[AttentionCall, ...]
    reach: int
    host: Packed | None = None

    def to(self, device: torch.device) -> Packed:
        """The same with its tensors on `device`, sent without waiting for them."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: to_device(value, device) for name, value in vars(self).items() if isinstance(value, torch.Tensor)
        }

        def on_device(parts: tuple[AttentionCall, ...]) -> tuple[AttentionCall, ...]:
            return tuple(replace(part, segments=part.segments.to(device)) for part in parts)

        return replace(self, **moved, parts=on_device(self.parts), read_parts=on_device(self.read_parts), host=self)


def pack_prompts(groups: Groups, branches: Sequence[Branch] = (), root: int = 0) -> Packed:
    """Packs prompts, numbered in the order given.

    Args:
        groups: prompts of one group share its article.
        branches: inner nodes of the candidate trie, root first; their tokens are laid after every prompt.
        root: tokens that all prompts begin with and that are read apart.
    """
    inner = [branch for branch in branches if branch.depth > 0]
    chain = all(branch.parent == i for i, branch in enumerate(inner))  # branch 0 is the root, inner[i] is branch i + 1
    arrays = [[np.asarray(ids, np.int64) for ids in group] for group in groups]
    ends = [max(root, common_prefix(group)) for group in arrays]
    row, branch_tokens = _Row(), np.array([branch.token for branch in inner], np.int64)
    depths = np.array([branch.depth for branch in inner], np.int64)
    shared = [row.extend(group[0][root:end], root) for group, end in zip(arrays, ends, strict=True)]
    spans, reads, own = [], [], []
    for group, end in zip(arrays, ends, strict=True):
        begin = row.length
        for ids in group:
            span = row.extend(ids[end:], end)
            last = span[1]
            if chain:
                span = (span[0], row.extend(branch_tokens, len(ids))[1])
            spans.append(span)
            reads.append([last - 1, *range(last, span[1])])
        own.append((begin, row.length))
    tails = row.length
    if not chain:
        prompts = [ids for group in arrays for ids in group]
        for reading, ids in zip(reads, prompts, strict=True):
            first, last = row.extend(branch_tokens, len(ids) + depths - 1)
            reading.extend(range(first, last))
    starts = torch.tensor([start for start, _ in spans])
    sizes = torch.tensor([end - start for start, end in spans])
    offsets = torch.arange(int(sizes.max()))
    counts = list(accumulate((len(group) for group in arrays), initial=0))
    stretches = tuple(
        Stretch(slice(*above), slice(*below), slice(first, last))
        for above, below, first, last in zip(shared, own, counts, counts[1:], strict=False)
    )
    read_from = torch.tensor(reads)
    forks = read_from[:, read_from.shape[1] if chain else 1 :]
    positions = torch.from_numpy(np.concatenate(row.positions))
    return Packed(
        token_ids=torch.from_numpy(np.concatenate(row.tokens)),
        positions=positions,
        root=root,
        groups=stretches,
        spans=tuple(spans),
        leaves=starts[:, None] + torch.where(offsets < sizes[:, None], offsets, 0),
        reads=read_from,
        forks=forks,
        ancestry=_ancestry(inner),
        parts=_parts(stretches, spans, root, row.length, forks.shape[1]),
        read_parts=_read_parts(stretches, spans, root, tails, read_from.shape[1], chain),
        reach=int(positions.max()) + 1,
    )


def _parts(
    groups: Sequence[Stretch], spans: Sequence[tuple[int, int]], root: int, tokens: int, forks: int
) -> tuple[AttentionCall, ...]:
    """The calls of attention over a row of `tokens`, the last of them `forks` branches of each prompt."""
    tails = groups[-1].own.stop
    above, sizes = groups[-1].shared.stop, [_size(group.shared) for group in groups]
    each = [end - start for start, end in spans]
    near = Segments.of([*sizes, *each], [*sizes, *each], causal=True)
    parts = [AttentionCall(slice(0, tails), slice(0, tails), near)]
    if root:
        parts.append(AttentionCall(slice(0, tokens), None, Segments.of([tokens], [root])))
    if above:
        below = Segments.of([_size(group.own) for group in groups], sizes)
        parts.append(AttentionCall(slice(above, tails), slice(0, above), below))
    if forks and above:
        read = Segments.of([forks * _size(group.prompts) for group in groups], sizes)
        parts.append(AttentionCall(slice(tails, tokens), slice(0, above), read))
    if forks:
        parts.append(AttentionCall(slice(tails, tokens), slice(above, tails), Segments.of([forks] * len(spans), each)))
    return tuple(parts)


def _read_parts(
    groups: Sequence[Stretch], spans: Sequence[tuple[int, int]], root: int, tails: int, branches: int, chain: bool
) -> tuple[AttentionCall, ...]:
    """The calls of attention of the tokens that are read, prompt by prompt, `branches` of each."""
    above, every = groups[-1].shared.stop, slice(0, branches * len(spans))
    each = [end - start for start, end in spans]
    near = Segments.of([branches] * len(spans), each, causal=chain and branches > 1)
    parts = [AttentionCall(every, slice(above, tails), near)]
    if root:
        parts.append(AttentionCall(every, None, Segments.of([every.stop], [root])))
    if above:
        read = Segments.of(
            [branches * _size(group.prompts) for group in groups], [_size(group.shared) for group in groups]
        )
        parts.append(AttentionCall(every, slice(0, above), read))
    return tuple(parts)


def _size(stretch: slice) -> int:
    return int(stretch.stop - stretch.start)


def common_prefix(prompts: Sequence[np.ndarray]) -> int:
    """Tokens that all prompts begin with, at most one less than the shortest: each keeps a token of its own to be
    read at."""
    shortest = min(len(ids) for ids in prompts) - 1
    first = prompts[0][:shortest]
    same = np.ones(shortest, dtype=bool)
    for ids in prompts[1:]:
        same &= ids[:shortest] == first
    return shortest if same.all() else int(np.argmin(same))


def root_of(groups: Groups) -> np.ndarray:
    """The tokens that all prompts begin with, if they are of several groups and worth reading apart; else none."""
    if len(groups) < 2:
        return np.zeros(0, np.int32)
    prompts = [ids for group in groups for ids in group]
    length = common_prefix(prompts)
    return np.asarray(prompts[0][: length if length >= _WORTH_SHARING else 0])


def unique_tokens(groups: Groups, branches: int = 0, root: int = 0) -> int:
    """Tokens of the row that `pack_prompts` would lay out, without laying it out."""
    total = 0
    for group in groups:
        end = max(root, common_prefix(group))
        total += end - root + sum(len(ids) - end + branches for ids in group)
    return total


def following_tokens(packed: Packed) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """Pairs of neighboring tokens in a row without a root.

    Returns:
        [pairs] indices of the first token of each; [pairs] the token that follows; and for each prompt [tokens - 1]
        the pairs of its tokens after the first.
    """
    tokens = (packed.host or packed).token_ids
    reads: list[torch.Tensor] = []
    following: list[torch.Tensor] = []
    prompts: list[torch.Tensor] = []
    count = 0

    def pairs(row: torch.Tensor) -> torch.Tensor:
        """The indices of a stretch's pairs among all."""
        nonlocal count
        reads.append(row[:-1])
        following.append(tokens[row[1:]])
        count += max(0, len(row) - 1)
        return torch.arange(count - max(0, len(row) - 1), count)

    for group in packed.groups:
        shared = torch.arange(group.shared.start, group.shared.stop)
        above = pairs(shared)
        for start, end in packed.spans[group.prompts]:
            prompts.append(torch.cat([above, pairs(torch.cat([shared[-1:], torch.arange(start, end)]))]))
    return torch.cat(reads), torch.cat(following), prompts


class _Row:
    """The row while it is being laid out."""

    def __init__(self) -> None:
        self.tokens: list[np.ndarray] = []
        self.positions: list[np.ndarray] = []
        self.length = 0

    def extend(self, ids: np.ndarray, positions: int | np.ndarray) -> tuple[int, int]:
        """Lays out tokens at `positions`, or from one on, and returns where they lie."""
        start = self.length
        self.tokens.append(ids)
        self.positions.append(positions + np.arange(len(ids)) if isinstance(positions, int) else positions)
        self.length += len(ids)
        return start, self.length


def _ancestry(inner: Sequence[Branch]) -> torch.Tensor:
    seen = torch.eye(len(inner), dtype=torch.bool)
    for i, branch in enumerate(inner):
        if branch.parent > 0:  # branch 0 is the root, inner[i] is branch i + 1
            seen[i] |= seen[branch.parent - 1]
    return seen
