"""Plans which prompts are read together.

A batch is whole groups of one condition, as many as the token budget takes; under all attacks together, for what stands
before the judged text is the same whatever an attacker makes of it. The plan depends on the experiment alone,
not on what is already stored, so a resumed run reads the same batches and gives the same numbers to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judgebench.judges.packing import root_of, unique_tokens
from judgebench.types import Condition, Prompt


@dataclass(frozen=True)
class Batch:
    """Prompts that are read in one forward pass: groups of one condition, but for the attack."""

    groups: tuple[tuple[Prompt, ...], ...]

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for group in self.groups for prompt in group]

    def tokens(self, root: int = 0) -> tuple[int, int]:
        """Tokens of its prompts together, and those of them that must be computed where `root` are known."""
        ids = [[prompt.token_ids for prompt in group] for group in self.groups]
        return sum(len(i) for group in ids for i in group), unique_tokens(ids, root=root)


def roots(prompts: Sequence[Prompt]) -> dict[Condition, np.ndarray]:
    """Condition -> the tokens that all of its prompts begin with, read once for them all; attacked or not, the same."""
    found = {
        asked: root_of([[prompt.token_ids for prompt in group] for group in groups.values()])
        for asked, groups in _together(prompts).items()
    }
    return {condition: found[_asked(condition)] for condition in dict.fromkeys(p.condition for p in prompts)}


_SPLIT_ABOVE = 8
"""A single group may exceed the budget this many times before it is split: its prefix is shared as long as it is whole.
Only memory asks for the split."""


def plan(prompts: Sequence[Prompt], token_budget: int) -> list[Batch]:
    """Batches of whole groups with at most `token_budget` tokens to compute, where a single group has no more.

    Args:
        prompts: in any order; batches come in that in which conditions and groups appear.
        token_budget: most tokens to compute at once, above 0.
    """
    batches: list[Batch] = []
    known = roots(prompts)
    for groups in _together(prompts).values():
        held: list[tuple[Prompt, ...]] = []
        size = 0
        root = len(known[next(iter(groups.values()))[0].condition])
        for members in groups.values():
            for part in _split(tuple(members), token_budget * _SPLIT_ABOVE, root):
                cost = unique_tokens([[prompt.token_ids for prompt in part]], root=root)
                if held and size + cost > token_budget:
                    batches.append(Batch(tuple(held)))
                    held, size = [], 0
                held.append(part)
                size += cost
        batches.append(Batch(tuple(held)))
    return batches


def _together(prompts: Sequence[Prompt]) -> dict[Condition, dict[str, list[Prompt]]]:
    """Condition, but for the attack -> group_id -> prompts."""
    found: dict[Condition, dict[str, list[Prompt]]] = {}
    for prompt in prompts:
        found.setdefault(_asked(prompt.condition), {}).setdefault(prompt.example.group_id, []).append(prompt)
    return found


def _asked(condition: Condition) -> Condition:
    return replace(condition, attack="")


def once(batches: Sequence[Batch], identity: Callable[[Prompt], Hashable]) -> list[Batch]:
    """The batches without prompts that an earlier one says already, as where two texts are compared and each is the
    other's rival: what is read of one is read of both.

    Args:
        identity: equal for prompts that are read alike.
    """
    seen: set[Hashable] = set()
    kept = []
    for batch in batches:
        done = set()
        for i, prompt in enumerate(batch.prompts):
            name = identity(prompt)
            if name in seen:
                done.add(i)
            seen.add(name)
        if (left := without(batch, done) if done else batch) is not None:
            kept.append(left)
    return kept


def without(batch: Batch, done: set[int]) -> Batch | None:
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
    prompts = batch.groups[0]
    middle = len(prompts) // 2
    return [Batch((prompts[:middle],)), Batch((prompts[middle:],))]


def _split(group: tuple[Prompt, ...], limit: int, root: int) -> list[tuple[Prompt, ...]]:
    if len(group) == 1 or unique_tokens([[prompt.token_ids for prompt in group]], root=root) <= limit:
        return [group]
    middle = len(group) // 2
    return _split(group[:middle], limit, root) + _split(group[middle:], limit, root)
