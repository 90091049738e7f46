"""Batches of prompts that are read together, their cost, and the process that reads each.

A batch is whole groups of one condition, as many as the token budget takes; under all attacks together, which share
the tokens before the judged text. The plan depends on the experiment alone, not on the store, so a resumed run reads
the same batches and gives the same numbers to the last bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from judgebench.judges.engine.packing import root_of, unique_tokens
from judgebench.types import Condition, Prompt, ScoreRange


@dataclass(frozen=True)
class Batch:
    """Prompts that are read in one forward pass: groups of one condition, but for the attack."""

    groups: tuple[tuple[Prompt, ...], ...]

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for group in self.groups for prompt in group]

    def tokens(self, root: int = 0) -> tuple[int, int]:
        """Tokens of its prompts together, and those of them that must be computed where `root` tokens are known."""
        ids = [[prompt.token_ids for prompt in group] for group in self.groups]
        return sum(len(i) for group in ids for i in group), unique_tokens(ids, root=root)


def roots(prompts: Sequence[Prompt]) -> dict[Condition, np.ndarray]:
    """Condition -> the tokens that all of its prompts begin with, read once for them all; attacked or not, the same."""
    shared = {
        condition: root_of([[prompt.token_ids for prompt in group] for group in groups.values()])
        for condition, groups in _by_condition(prompts).items()
    }
    return {condition: shared[_unattacked(condition)] for condition in dict.fromkeys(p.condition for p in prompts)}


def batch_costs(prompts: Sequence[Prompt], batches: Sequence[Batch]) -> list[int]:
    """Tokens to compute of each batch, where the roots of all `prompts` are known."""
    known = roots(prompts)
    return [batch.tokens(len(known[batch.prompts[0].condition]))[1] for batch in batches]


_SPLIT_ABOVE = 8
"""A single group may exceed the budget this many times before it is split: its prefix is shared as long as it is whole.
Only memory asks for the split."""


def plan(prompts: Sequence[Prompt], token_budget: int) -> list[Batch]:
    """Batches of whole groups with at most `token_budget` tokens to compute, where a single group has no more, in the
    order in which conditions and groups appear."""
    batches: list[Batch] = []
    known = roots(prompts)
    for groups in _by_condition(prompts).values():
        batch: list[tuple[Prompt, ...]] = []
        size = 0
        root = len(known[next(iter(groups.values()))[0].condition])
        for members in groups.values():
            for part in _split(tuple(members), token_budget * _SPLIT_ABOVE, root):
                cost = unique_tokens([[prompt.token_ids for prompt in part]], root=root)
                if batch and size + cost > token_budget:
                    batches.append(Batch(tuple(batch)))
                    batch, size = [], 0
                batch.append(part)
                size += cost
        batches.append(Batch(tuple(batch)))
    return batches


def _by_condition(prompts: Sequence[Prompt]) -> dict[Condition, dict[str, list[Prompt]]]:
    """Condition, but for the attack -> group_id -> prompts."""
    together: dict[Condition, dict[str, list[Prompt]]] = {}
    for prompt in prompts:
        together.setdefault(_unattacked(prompt.condition), {}).setdefault(prompt.example.group_id, []).append(prompt)
    return together


def _unattacked(condition: Condition) -> Condition:
    return replace(condition, attack="")


def unique_batches(batches: Sequence[Batch], identity: Callable[[Prompt], Hashable]) -> list[Batch]:
    """The batches without prompts of the same `identity` as an earlier one, as where two texts are compared and each is
    the other's rival."""
    seen: set[Hashable] = set()
    kept = []
    for batch in batches:
        done = set()
        for i, prompt in enumerate(batch.prompts):
            name = identity(prompt)
            if name in seen:
                done.add(i)
            seen.add(name)
        if (left := remaining(batch, done) if done else batch) is not None:
            kept.append(left)
    return kept


def remaining(batch: Batch, done: set[int]) -> Batch | None:
    """The batch less the prompts at these places of `batch.prompts`; None if nothing is left."""
    groups, at = [], 0
    for group in batch.groups:
        kept = tuple(prompt for i, prompt in enumerate(group, at) if i not in done)
        at += len(group)
        if kept:
            groups.append(kept)
    return Batch(tuple(groups)) if groups else None


def halves(batch: Batch) -> list[Batch]:
    """The batch in two: its groups, or the prompts of its only group."""
    if len(batch.groups) > 1:
        middle = len(batch.groups) // 2
        return [Batch(batch.groups[:middle]), Batch(batch.groups[middle:])]
    (prompts,) = batch.groups
    middle = len(prompts) // 2
    return [Batch((prompts[:middle],)), Batch((prompts[middle:],))]


def _split(group: tuple[Prompt, ...], limit: int, root: int) -> list[tuple[Prompt, ...]]:
    if len(group) == 1 or unique_tokens([[prompt.token_ids for prompt in group]], root=root) <= limit:
        return [group]
    middle = len(group) // 2
    return _split(group[:middle], limit, root) + _split(group[middle:], limit, root)


Tokens = dict[Condition, tuple[int, int]]
"""Condition -> tokens of its prompts together, and those of them that must be computed."""


def whole_tokens(prompts: Sequence[Prompt]) -> Tokens:
    """Counts where every prompt is computed, or billed, whole."""
    totals = _totals(prompts)
    return {condition: (total, total) for condition, total in totals.items()}


def distinct_tokens(prompts: Sequence[Prompt], token_budget: int) -> Tokens:
    """Counts where every prompt is computed whole, but equal prompts once."""
    uniques = dict.fromkeys(_totals(prompts), 0)
    for batch in unique_batches(plan(prompts, token_budget), _identity):
        for prompt in batch.prompts:
            uniques[prompt.condition] += len(prompt.token_ids)
    return {condition: (total, uniques[condition]) for condition, total in _totals(prompts).items()}


def shared_tokens(prompts: Sequence[Prompt], token_budget: int) -> Tokens:
    """Counts where a prefix that prompts of a batch share is computed once: a condition's root, an article, a judged
    text. An attack's prompts count with the tokens that they add to those beside them."""
    known = roots(prompts)
    uniques = dict.fromkeys(known, 0)
    begun: set[int] = set()
    for batch in unique_batches(plan(prompts, token_budget), _identity):
        first = batch.prompts[0].condition
        root, before = known[first], 0
        if id(root) not in begun:
            begun.add(id(root))
            uniques[first] += len(root)
        shown: list[Condition] = []
        for condition in dict.fromkeys(prompt.condition for prompt in batch.prompts):
            shown.append(condition)
            others = {i for i, prompt in enumerate(batch.prompts) if prompt.condition not in shown}
            part = remaining(batch, others)
            assert part is not None
            now = part.tokens(len(root))[1]
            uniques[condition] += now - before
            before = now
    return {condition: (total, uniques[condition]) for condition, total in _totals(prompts).items()}


def _totals(prompts: Sequence[Prompt]) -> dict[Condition, int]:
    totals = dict.fromkeys((prompt.condition for prompt in prompts), 0)
    for prompt in prompts:
        totals[prompt.condition] += len(prompt.token_ids)
    return totals


def _identity(prompt: Prompt) -> tuple[ScoreRange, bytes]:
    return prompt.condition.range, prompt.token_ids.tobytes()


def assign(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Assigns whole batches to processes: the longest first, each to the rank that has least so far.

    No rank gets more than 4/3 of what the busiest has in the best assignment (Graham 1969, longest processing time).

    Args:
        costs: [batches] tokens to compute of each.

    Returns:
        For each rank the indices of its batches, ascending.

    Example:
        >>> assign([5, 1, 4, 4], 2)
        [[0, 1], [2, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    lightest = [(0, rank) for rank in range(ranks)]
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        total, rank = heapq.heappop(lightest)
        shares[rank].append(i)
        heapq.heappush(lightest, (total + costs[i], rank))
    return [sorted(share) for share in shares]


def assigned(batches: Sequence[Batch], costs: Sequence[int], ranks: int) -> list[Batch]:
    """The batches in the order in which Lightning's sampler, which gives rank r of R the places r, r + R, ..., hands
    them out as `assign` says. Where a rank has fewer than others, empty batches stand in."""
    rounds = zip_longest(*assign(costs, ranks))
    return [Batch(()) if i is None else batches[i] for turn in rounds for i in turn]
