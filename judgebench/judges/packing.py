"""Packs the prompts of a batch into one row without repeating what they share and without padding.

Prompts of one condition share the rubric, those of one article also the article. The rubric (the *root*) is read once
for all batches of a condition; a batch is then laid out as

    [article 1][tail 1.1][tail 1.2]...[article 2][tail 2.1]...

so that whatever hangs below an article is contiguous and attention to it is one dense product (see `prefill.py`).
After each tail come the tokens of the candidate trie's inner branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from judgebench.judges.candidates import Branch

Groups = Sequence[Sequence[np.ndarray]]
"""Token ids of each prompt, the prompts of a group together."""

_WORTH_SHARING = 16
"""Tokens that a root must have; below that it only costs calls."""


@dataclass(frozen=True)
class Stretch:
    """Tokens of one group.

    Attributes:
        start, middle, end: `start .. middle` are shared by the group's prompts, `middle .. end` are the prompts' own.
        first, last: the prompts `first .. last` (exclusive) are the group's.
    """

    start: int
    middle: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class Packed:
    """A batch of prompts as one row, less their root.

    Attributes:
        token_ids, positions: [tokens] int64; positions count along each prompt, the root included.
        root: tokens of the root.
        groups: where each group lies.
        spans: for each prompt (start, end) of its own tokens: tail, then branches.
        leaves: [prompts, width] int64 indices of each prompt's own tokens, padded on the right by repeating its first.
        real: [own tokens] int64 indices into the flattened `leaves` of what is no padding, in the row's order.
        reads: [prompts, branches] indices of the tokens whose next-token distribution is wanted.
        branch_mask: [prompts, width, width] bool, True where an own token may attend to another; None without
            branches, where plain causality among own tokens says the same.
        reach: one more than the largest position.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    root: int
    groups: tuple[Stretch, ...]
    spans: tuple[tuple[int, int], ...]
    leaves: torch.Tensor
    real: torch.Tensor
    reads: torch.Tensor
    branch_mask: torch.Tensor | None
    reach: int

    def to(self, device: torch.device) -> Packed:
        """The same with its tensors on `device`, sent without waiting for them."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value.pin_memory().to(device, non_blocking=True) if isinstance(value, torch.Tensor) else value
            for name, value in vars(self).items()
        }
        return Packed(**moved)


def pack(groups: Groups, branches: Sequence[Branch] = (), root: int = 0) -> Packed:
    """Packs prompts.

    Args:
        groups: prompts of one group share its article.
        branches: inner nodes of the candidate trie, root first; their tokens are laid after every prompt.
        root: tokens that all prompts begin with and that are read apart.

    Returns:
        The row; prompts are numbered in the order given.
    """
    inner = [branch for branch in branches if branch.depth > 0]
    row = _Row()
    stretches, ends = [], []
    for group in groups:
        arrays = [np.asarray(ids) for ids in group]
        end = max(root, common_prefix(arrays))
        start, first = len(row.tokens), len(row.spans)
        row.extend(arrays[0][root:end], root)
        middle = len(row.tokens)
        for ids in arrays:
            ends.append(row.leaf(ids[end:], end, inner))
        stretches.append(Stretch(start, middle, len(row.tokens), first, len(row.spans)))
    starts = torch.tensor([start for start, _ in row.spans])
    sizes = torch.tensor([end - start for start, end in row.spans])
    offsets = torch.arange(int(sizes.max()))
    real = offsets < sizes[:, None]
    tails = torch.tensor(ends)
    return Packed(
        token_ids=torch.tensor(row.tokens),
        positions=torch.tensor(row.positions),
        root=root,
        groups=tuple(stretches),
        spans=tuple(row.spans),
        leaves=starts[:, None] + torch.where(real, offsets, 0),
        real=real.flatten().nonzero()[:, 0],
        reads=torch.stack([tails - 1, *(tails + i for i in range(len(inner)))], dim=1),
        branch_mask=_branch_mask((tails - starts).tolist(), len(offsets), inner) if inner else None,
        reach=max(row.positions) + 1,
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


def root_of(groups: Groups) -> np.ndarray:
    """What all prompts begin with, if they are of several groups and it is worth reading apart; else nothing."""
    if len(groups) < 2:
        return np.zeros(0, np.int32)
    prompts = [ids for group in groups for ids in group]
    length = common_prefix(prompts)
    return np.asarray(prompts[0][: length if length >= _WORTH_SHARING else 0])


def unique_tokens(groups: Groups, branches: int = 0, root: int = 0) -> int:
    """Tokens of the row that `pack` would lay out, without laying it out."""
    total = 0
    for group in groups:
        end = max(root, common_prefix(group))
        total += end - root + sum(len(ids) - end + branches for ids in group)
    return total


def following_tokens(packed: Packed) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """What comes after what in a row without a root: the last token that prompts share has another successor in each.

    Returns:
        [pairs] indices of tokens that something follows; [pairs] what follows, a token; and for each prompt
        [tokens - 1] which pairs its tokens after the first are.
    """
    tokens = packed.token_ids.cpu()
    reads: list[torch.Tensor] = []
    following: list[torch.Tensor] = []
    prompts: list[torch.Tensor] = []
    count = 0

    def pairs(row: torch.Tensor) -> torch.Tensor:
        """The places of a stretch's pairs among all."""
        nonlocal count
        reads.append(row[:-1])
        following.append(tokens[row[1:]])
        count += max(0, len(row) - 1)
        return torch.arange(count - max(0, len(row) - 1), count)

    for group in packed.groups:
        shared = torch.arange(group.start, group.middle)
        above = pairs(shared)
        for start, end in packed.spans[group.first : group.last]:
            prompts.append(torch.cat([above, pairs(torch.cat([shared[-1:], torch.arange(start, end)]))]))
    return torch.cat(reads), torch.cat(following), prompts


class _Row:
    """The row while it is being laid out."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def extend(self, ids: np.ndarray, position: int) -> None:
        self.tokens += ids.tolist()
        self.positions += range(position, position + len(ids))

    def leaf(self, tail: np.ndarray, position: int, inner: Sequence[Branch]) -> int:
        """Lays out a prompt's own tokens and returns where its tail ends."""
        start = len(self.tokens)
        self.extend(tail, position)
        end, after = len(self.tokens), position + len(tail)
        self.tokens += [branch.token for branch in inner]
        self.positions += [after + branch.depth - 1 for branch in inner]
        self.spans.append((start, len(self.tokens)))
        return end


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
