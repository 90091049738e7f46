"""Packs the prompts of a batch into one row without repeating what they share and without padding.

Prompts of one condition share the rubric, those of one article also the article. Laid out depth first

    [rubric][article 1][tail 1.1][tail 1.2]...[article 2][tail 2.1]...

every shared stretch is computed once, and whatever hangs below a stretch is contiguous, so attention to it is one
dense product (see `attention.py`). After each tail come the tokens of the candidate trie's inner branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from judgebench.judges.candidates import Branch

_WORTH_SHARING = 16
"""Tokens that groups must have in common before they share a stretch of their own; below that it only costs calls."""


@dataclass(frozen=True)
class Shared:
    """A stretch of tokens read once for everything below it.

    Attributes:
        start, end: its tokens in the packed row.
        below: end of the tokens that continue it; they are `end .. below`.
        first_leaf, last_leaf: the prompts `first_leaf .. last_leaf` (exclusive) continue it.
    """

    start: int
    end: int
    below: int
    first_leaf: int
    last_leaf: int


@dataclass(frozen=True)
class Packed:
    """A batch of prompts as one row.

    Attributes:
        token_ids, positions: [tokens] int64; positions count along each prompt.
        shared: the shared stretches, parents before children.
        leaves: [prompts, width] int64 indices into the row: each prompt's own tokens (tail, then branches), padded on
            the right by repeating its first.
        leaf_sizes: [prompts] own tokens of each prompt.
        tail_sizes: [prompts] own tokens less the branches.
        reads: [prompts, branches] indices into the row of the tokens whose next-token distribution is wanted.
        branch_mask: [prompts, width, width] bool, True where an own token may attend to another; None without
            branches, where plain causality among own tokens says the same.
        total_tokens: what the prompts would cost if each were read by itself.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    shared: tuple[Shared, ...]
    leaves: torch.Tensor
    leaf_sizes: torch.Tensor
    tail_sizes: torch.Tensor
    reads: torch.Tensor
    branch_mask: torch.Tensor | None
    total_tokens: int

    def to(self, device: torch.device) -> Packed:
        """The same with its tensors on `device`."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value.pin_memory().to(device, non_blocking=True) if isinstance(value, torch.Tensor) else value
            for name, value in vars(self).items()
        }
        return Packed(**moved)


def pack(groups: Sequence[Sequence[np.ndarray]], branches: Sequence[Branch] = ()) -> Packed:
    """Packs prompts, given group by group as int arrays of token ids.

    Args:
        groups: the prompts of each group; prompts of one group share its article.
        branches: inner nodes of the candidate trie, root first; their tokens are laid after every prompt.

    Returns:
        The row; prompts are numbered in the order given.
    """
    prompts = [np.asarray(ids) for group in groups for ids in group]
    row = _Row()
    inner = [branch for branch in branches if branch.depth > 0]
    common = common_prefix(prompts)
    root = common if len(groups) > 1 and common >= _WORTH_SHARING else 0
    row.extend(prompts[0][:root], 0)
    shared: list[Shared] = []
    leaf = 0
    for group in groups:
        arrays = [np.asarray(ids) for ids in group]
        end = max(root, common_prefix(arrays))
        start = len(row.tokens)
        row.extend(arrays[0][root:end], root)
        middle = len(row.tokens)
        for ids in arrays:
            row.leaf(ids[end:], end, inner)
        if middle > start:
            shared.append(Shared(start, middle, len(row.tokens), leaf, leaf + len(arrays)))
        leaf += len(arrays)
    if root:
        shared.insert(0, Shared(0, root, len(row.tokens), 0, len(prompts)))
    leaves, sizes = _padded(row.leaves)
    tails = torch.tensor(row.tails)
    firsts = leaves[:, 0]
    reads = [firsts + tails - 1, *(firsts + tails + i for i in range(len(inner)))]
    return Packed(
        token_ids=torch.tensor(row.tokens),
        positions=torch.tensor(row.positions),
        shared=tuple(shared),
        leaves=leaves,
        leaf_sizes=sizes,
        tail_sizes=tails,
        reads=torch.stack(reads, dim=1),
        branch_mask=_branch_mask(row.tails, int(sizes.max()), inner) if inner else None,
        total_tokens=sum(len(ids) + len(inner) for ids in prompts),
    )


def common_prefix(prompts: Sequence[np.ndarray]) -> int:
    """Tokens that all prompts begin with, at most one less than the shortest: each keeps a token of its own to be
    read at."""
    shortest = min(len(ids) for ids in prompts) - 1
    first = prompts[0][:shortest]
    same = np.ones(shortest, dtype=bool)
    for ids in prompts[1:]:
        same &= ids[:shortest] == first
    return shortest if same.all() else int(np.argmin(same))


def unique_tokens(groups: Sequence[Sequence[np.ndarray]], branches: int = 0) -> int:
    """Tokens of the row that `pack` would lay out, without laying it out."""
    prompts = [ids for group in groups for ids in group]
    common = common_prefix(prompts)
    root = common if len(groups) > 1 and common >= _WORTH_SHARING else 0
    total = root
    for group in groups:
        end = max(root, common_prefix(group))
        total += end - root + sum(len(ids) - end + branches for ids in group)
    return total


class _Row:
    """The row while it is being laid out."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.leaves: list[tuple[int, int]] = []
        self.tails: list[int] = []

    def extend(self, ids: np.ndarray, position: int) -> None:
        self.tokens += ids.tolist()
        self.positions += range(position, position + len(ids))

    def leaf(self, tail: np.ndarray, position: int, inner: Sequence[Branch]) -> None:
        start = len(self.tokens)
        self.extend(tail, position)
        after = position + len(tail)
        self.tokens += [branch.token for branch in inner]
        self.positions += [after + branch.depth - 1 for branch in inner]
        self.leaves.append((start, len(self.tokens)))
        self.tails.append(len(tail))


def _padded(spans: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.tensor([start for start, _ in spans])
    sizes = torch.tensor([end - start for start, end in spans])
    offsets = torch.arange(int(sizes.max()))
    offsets = torch.where(offsets < sizes[:, None], offsets, 0)
    return starts[:, None] + offsets, sizes


def _branch_mask(tails: Sequence[int], width: int, inner: Sequence[Branch]) -> torch.Tensor:
    """Causal among the tail's tokens; a branch sees the whole tail, its own ancestors and itself."""
    # branch 0 is the root; inner branch i of the list is branch i + 1
    ancestry = torch.eye(len(inner), dtype=torch.bool)
    for i, branch in enumerate(inner):
        if branch.parent > 0:
            ancestry[i] |= ancestry[branch.parent - 1]
    mask = torch.ones(width, width, dtype=torch.bool).tril().repeat(len(tails), 1, 1)
    for i, tail in enumerate(tails):
        mask[i, tail : tail + len(inner), tail : tail + len(inner)] = ancestry
    return mask
