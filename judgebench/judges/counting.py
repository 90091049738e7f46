"""How many tokens prompts have, and how many of them must be computed."""

from __future__ import annotations

from collections.abc import Sequence

from judgebench.judges.planning import once, plan, roots, without
from judgebench.types import Condition, Prompt, ScoreRange

Tokens = dict[Condition, tuple[int, int]]
"""Condition -> tokens of its prompts together, and those of them that must be computed."""


def whole_tokens(prompts: Sequence[Prompt]) -> Tokens:
    """Where every prompt is computed, or billed, whole."""
    totals = _totals(prompts)
    return {condition: (total, total) for condition, total in totals.items()}


def distinct_tokens(prompts: Sequence[Prompt], token_budget: int) -> Tokens:
    """Where every prompt is computed whole, but those that say the same once."""
    uniques = dict.fromkeys(_totals(prompts), 0)
    for batch in once(plan(prompts, token_budget), _read_alike):
        for prompt in batch.prompts:
            uniques[prompt.condition] += len(prompt.token_ids)
    return {condition: (total, uniques[condition]) for condition, total in _totals(prompts).items()}


def shared_tokens(prompts: Sequence[Prompt], token_budget: int) -> Tokens:
    """Where what prompts of a batch begin with alike is computed once: a condition's root, an article, a judged text.

    What an attack's prompts add to those that are read beside them counts as the attack's.
    """
    known = roots(prompts)
    uniques = dict.fromkeys(known, 0)
    begun: set[int] = set()
    for batch in once(plan(prompts, token_budget), _read_alike):
        first = batch.prompts[0].condition
        root, before = known[first], 0
        if id(root) not in begun:
            begun.add(id(root))
            uniques[first] += len(root)
        shown: list[Condition] = []
        for condition in dict.fromkeys(prompt.condition for prompt in batch.prompts):
            shown.append(condition)
            others = {i for i, prompt in enumerate(batch.prompts) if prompt.condition not in shown}
            part = without(batch, others)
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


def _read_alike(prompt: Prompt) -> tuple[ScoreRange, bytes]:
    return prompt.condition.range, prompt.token_ids.tobytes()
