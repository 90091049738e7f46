"""Batches of prompts that are read together, their cost, the process that reads each, and what a
pass over them is.

A batch is whole groups of one condition, as many as the token budget takes; under all attacks
together, which share the tokens before the judged text. The plan depends on the experiment alone,
not on the store, so a resumed run reads the same batches and gives the same numbers to the last
bit.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.log import StepLogger
from judgebench.types import Array, Condition, Prompt

log = StepLogger(__name__)

Groups = Sequence[Sequence[np.ndarray]]
"""Token ids of each prompt, the prompts of a group together."""

_WORTH_SHARING = 16
"""Tokens that a root must have; below that it only costs calls."""

_SPLIT_ABOVE = 8
"""A single group may exceed the budget this many times before it is split: its prefix is shared as
long as it is whole. Only memory asks for the split."""

Tokens = dict[Condition, tuple[int, int]]
"""Condition -> tokens of its prompts together, and those of them that must be computed."""


@dataclass(frozen=True)
class Batch:
    """Prompts that are read in one forward pass: groups of one condition, but for the attack."""

    groups: tuple[tuple[Prompt, ...], ...]

    def to(self, device: object, non_blocking: bool = False) -> Batch:
        """Itself: its tokens go to a device when they are packed."""
        return self

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for group in self.groups for prompt in group]

    @cached_property
    def token_ids(self) -> list[list[Array]]:
        """Of its prompts, group by group, as engines take them."""
        return [[prompt.token_ids for prompt in group] for group in self.groups]

    def tokens(self, root: int = 0) -> int:
        """Tokens of its prompts that must be computed where `root` tokens are known."""
        return unique_tokens(self.token_ids, root)

    def only(self, wanted: Callable[[Prompt], bool]) -> Batch | None:
        """The batch with the wanted prompts, each asked for once, in order; None if there are
        none."""
        groups = (tuple(prompt for prompt in group if wanted(prompt)) for group in self.groups)
        left = tuple(group for group in groups if group)
        return Batch(left) if left else None

    def halves(self) -> list[Batch]:
        """The batch in two: its groups, or the prompts of its only group."""
        if len(self.groups) > 1:
            middle = len(self.groups) // 2
            return [Batch(self.groups[:middle]), Batch(self.groups[middle:])]
        middle = len(self.groups[0]) // 2
        return [Batch((self.groups[0][:middle],)), Batch((self.groups[0][middle:],))]


def roots(prompts: Sequence[Prompt]) -> dict[tuple[Condition, str], Array]:
    """Condition and fold -> the tokens that all of their prompts begin with, read once for them
    all; attacked or not, the same."""
    shared = {
        alike: root_of([[prompt.token_ids for prompt in group] for group in groups.values()])
        for alike, groups in _by_condition(prompts).items()
    }
    every = dict.fromkeys(prompt.alike for prompt in prompts)
    return {
        (condition, fold): shared[replace(condition, attack=""), fold] for condition, fold in every
    }


def batch_costs(prompts: Sequence[Prompt], batches: Sequence[Batch]) -> list[int]:
    """Tokens to compute of each batch, where the roots of all `prompts` are known."""
    known = roots(prompts)
    return [batch.tokens(len(known[batch.prompts[0].alike])) for batch in batches]


def plan(prompts: Sequence[Prompt], max_batch_tokens: int) -> list[Batch]:
    """Batches of whole groups with at most `max_batch_tokens` tokens to compute, where a single group
    has no more, in the order in which conditions and groups appear."""
    batches: list[Batch] = []
    known = roots(prompts)

    def split(group: Batch, root: int) -> list[Batch]:
        if len(group.prompts) == 1 or group.tokens(root) <= max_batch_tokens * _SPLIT_ABOVE:
            return [group]
        return [part for half in group.halves() for part in split(half, root)]

    for groups in _by_condition(prompts).values():
        batch: list[tuple[Prompt, ...]] = []
        size = 0
        root = len(known[next(iter(groups.values()))[0].alike])
        for part in (
            part for members in groups.values() for part in split(Batch((tuple(members),)), root)
        ):
            cost = part.tokens(root)
            if batch and size + cost > max_batch_tokens:
                batches.append(Batch(tuple(batch)))
                batch = []
                size = 0
            batch += part.groups
            size += cost
        batches.append(Batch(tuple(batch)))
    return batches


def _by_condition(
    prompts: Sequence[Prompt],
) -> dict[tuple[Condition, str], dict[str, list[Prompt]]]:
    """Condition, but for the attack, and fold -> group_id -> prompts."""
    together: dict[tuple[Condition, str], dict[str, list[Prompt]]] = {}
    for prompt in prompts:
        groups = together.setdefault((replace(prompt.condition, attack=""), prompt.fold), {})
        groups.setdefault(prompt.example.group_id, []).append(prompt)
    return together


def unique_batches(batches: Sequence[Batch], identity: Callable[[Prompt], Hashable]) -> list[Batch]:
    """The batches without prompts of the same `identity` as an earlier one, as where two texts are
    compared and each is the other's rival."""
    seen: set[Hashable] = set()

    def first(prompt: Prompt) -> bool:
        name = identity(prompt)
        before = len(seen)
        seen.add(name)
        return len(seen) > before

    return [left for batch in batches if (left := batch.only(first)) is not None]


def token_counts(
    prompts: Sequence[Prompt], max_batch_tokens: int = 0, sharing: bool = True
) -> Tokens:
    """Tokens by condition. Equal prompts are computed once; where prompts of a batch are `sharing`
    prefixes, a condition's root, an article, a judged text are too, and an attack's prompts count
    with the tokens that they add to those before them. Without a budget every prompt is computed,
    or billed, whole."""
    totals: Counter[Condition] = Counter()
    for prompt in prompts:
        totals[prompt.condition] += len(prompt.token_ids)
    if not max_batch_tokens:
        return {condition: (total, total) for condition, total in totals.items()}
    computed: Counter[Condition] = Counter()
    batches = unique_batches(
        plan(prompts, max_batch_tokens), lambda p: (p.condition.range, p.token_ids.tobytes())
    )
    if not sharing:
        for prompt in (prompt for batch in batches for prompt in batch.prompts):
            computed[prompt.condition] += len(prompt.token_ids)
        return {condition: (total, computed[condition]) for condition, total in totals.items()}
    known = roots(prompts)
    begun: set[int] = set()
    for batch in batches:
        root = known[batch.prompts[0].alike]
        if id(root) not in begun:
            begun.add(id(root))
            computed[batch.prompts[0].condition] += len(root)
        # each condition with what it adds to those before it
        counted: set[Condition] = set()
        before = 0
        for condition in dict.fromkeys(prompt.condition for prompt in batch.prompts):
            counted.add(condition)
            part = batch.only(lambda prompt: prompt.condition in counted)  # noqa: B023
            assert part is not None
            now = part.tokens(len(root))
            computed[condition] += now - before
            before = now
    return {condition: (total, computed[condition]) for condition, total in totals.items()}


def assign(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Assigns whole batches to processes: the longest first, each to the rank that has least so
    far.

    No rank gets more than 4/3 of what the busiest has in the best assignment (Graham 1969, longest
    processing time). `costs` are [batches] tokens to compute of each; the result has for each rank
    the indices of its batches, ascending.

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


def common_prefix(prompts: Sequence[Array]) -> int:
    """Tokens that all prompts begin with, at most one less than the shortest: each keeps a token of
    its own to be read at."""
    shortest = min(len(ids) for ids in prompts) - 1
    first = prompts[0][:shortest]
    same = np.ones(shortest, dtype=bool)
    for ids in prompts[1:]:
        same &= ids[:shortest] == first
    return shortest if same.all() else int(np.argmin(same))


def root_of(groups: Groups) -> Array:
    """The tokens that all prompts begin with, if they are of several groups and worth reading
    apart; else none."""
    if len(groups) < 2:
        return np.zeros(0, np.int32)
    prompts = [ids for group in groups for ids in group]
    length = common_prefix(prompts)
    return np.asarray(prompts[0][: length if length >= _WORTH_SHARING else 0])


def unique_tokens(groups: Groups, root: int = 0) -> int:
    """Tokens of the row that `pack_prompts` would lay out of prompts alone, without laying it
    out."""
    total = 0
    for group in groups:
        end = max(root, common_prefix(group))
        total += end - root + sum(len(ids) - end for ids in group)
    return total


# --- passes -------------------------------------------------------------------------------------


class Pass:
    """One reading of each prompt, by a model here or elsewhere; a subclass says what is read and
    under which keys the store holds it."""

    prompts: Sequence[Prompt]

    @property
    def title(self) -> str:
        raise NotImplementedError

    def batches(self, max_batch_tokens: int) -> list[Batch]:
        """All of its prompts, whether or not their readings are stored."""
        return plan(self.prompts, max_batch_tokens)

    def keys(self, prompt: Prompt) -> list[str]:
        """The keys under which the store holds what this pass computes for a prompt."""
        raise NotImplementedError

    def release(self) -> None:
        """Lets go of what reading needs: models in memory, connections."""
        raise NotImplementedError

    def read(self, batch: Batch) -> list[ModelReading]:
        """Computes a batch; the readings stand in no particular order."""
        raise NotImplementedError


def pending(pass_: Pass, max_batch_tokens: int, store: ReadingStore) -> list[Batch]:
    """The batches of a pass that are not stored yet, planned over everything, so that a resumed run
    reads the same."""
    keys = {id(prompt): pass_.keys(prompt) for prompt in pass_.prompts}
    batches = unique_batches(
        pass_.batches(max_batch_tokens), lambda prompt: tuple(keys[id(prompt)])
    )
    wanted = {key for of_prompt in keys.values() for key in of_prompt}
    missing = store.missing(wanted)
    log.info("%s: readings: %d; not stored: %d.", pass_.title, len(wanted), len(missing))
    left = (
        batch.only(lambda prompt: not missing.isdisjoint(keys[id(prompt)])) for batch in batches
    )
    return [batch for batch in left if batch is not None]


def unread_batches(passes: Sequence[Any], max_batch_tokens: int, store: ReadingStore) -> list[Any]:
    """The passes of which readings are missing, each with its `pending` batches."""
    listed = [(pass_, pending(pass_, max_batch_tokens, store)) for pass_ in passes]
    return [(pass_, batches) for pass_, batches in listed if batches]
