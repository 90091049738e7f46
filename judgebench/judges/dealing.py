"""Deals batches to processes: whole batches, so whole groups; each once; to all about the same number of tokens."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

from judgebench.judges.planning import Batch

T = TypeVar("T")


def deal(costs: Sequence[int], hands: int) -> list[list[int]]:
    """Which batches each process reads: the longest first, each to whom has least so far.

    The most that one gets is at most 4/3 of what the best dealing would give it (Graham 1969, longest processing time).

    Args:
        costs: [batches] of each, 0 or above: tokens to compute.
        hands: processes, above 0.

    Returns:
        For each process the indices of its batches, ascending: in the order of the plan, in which batches that begin
        alike stand together.

    Example:
        >>> deal([5, 1, 4, 4], 2)
        [[0, 1], [2, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(hands)]
    lightest = [(0, hand) for hand in range(hands)]
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        total, hand = heapq.heappop(lightest)
        shares[hand].append(i)
        heapq.heappush(lightest, (total + costs[i], hand))
    return [sorted(share) for share in shares]


def dealt(batches: Sequence[Batch], costs: Sequence[int], hands: int) -> list[Batch]:
    """The batches in the order in which Lightning's sampler, which gives process r of R the places r, r + R, ..., deals
    them as `deal` does. Where a process has fewer than others, empty batches stand in."""
    rounds = zip_longest(*deal(costs, hands))
    return [Batch(()) if i is None else batches[i] for turn in rounds for i in turn]
