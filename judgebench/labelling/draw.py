"""Texts that are drawn to be labelled, and how much their labels will say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from judgebench.types import Example, by_key

REPEATED = 0.1
"""Share of the texts that a rater sees twice."""

_FEWEST = 10  # articles with fewer than which a run gives no verdict


@dataclass(frozen=True)
class Drawn:
    """Texts in the order in which they are labelled.

    Attributes:
        probability: example_id -> the probability with which it was drawn.
        groups: number of groups that the texts are of; known: of all groups.
    """

    examples: Sequence[Example]
    probability: Mapping[str, float]
    groups: int
    known: int


def draw_texts(examples: Sequence[Example], n: int, seed: int) -> Drawn:
    """Groups, drawn at random until the next one would make more than `n` texts, and their texts in
    random order.

    Groups are whole where `n` texts are of enough groups for a verdict then; else so many texts of
    each are drawn that they are. Every group has the same probability, the share of the groups that
    are drawn. The draw depends on the seed and on the names of groups and texts, not on their
    order.
    """
    # 1. the groups, in random order
    ordered = sorted(examples, key=attrgetter("example_id"))
    groups = by_key(ordered, lambda example: example.group_id)
    names = sorted(groups)
    generator = np.random.default_rng(seed)
    order = [names[place] for place in generator.permutation(len(names))]
    # 2. texts of one group at most
    most = n
    enough = min(_FEWEST, len(names))
    if sum(len(groups[name]) for name in order[:enough]) > n:
        most = max(1, n // enough)
    # 3. their texts, those of a group together, so that its article is read once
    drawn: list[Example] = []
    count = 0
    for name in order:
        group = groups[name]
        if drawn and len(drawn) + min(len(group), most) > n:
            break
        places = generator.permutation(len(group))[:most]
        drawn += [group[place] for place in places]
        count += 1
    # 4. probabilities
    probability = {}
    for example in drawn:
        of_group = min(1.0, most / len(groups[example.group_id]))
        probability[example.example_id] = count / len(names) * of_group
    return Drawn(drawn, probability, count, len(names))


def shown_order(texts: int, seed: int) -> list[tuple[int, int]]:
    """Positions of the texts in the order in which a page shows them, each with 1 where it is shown
    again: a tenth of the texts, half of all texts after the first time.

    Example:
        >>> shown_order(4, seed=0)
        [(0, 0), (1, 0), (2, 0), (3, 0)]
        >>> [position for position, again in shown_order(20, seed=0) if again]
        [4, 6]
    """
    half = texts // 2
    count = round(REPEATED * texts)
    again = set(np.random.default_rng(seed).permutation(half)[:count].tolist())
    order = []
    for position in range(texts):
        order.append((position, 0))
        if position - half in again:
            order.append((position - half, 1))
    return order


def expected_widths(groups: int, classes: bool, groups_are: str = "groups") -> str:
    """A sentence on how wide intervals will be with some groups, and with 2 and 4 times as many.

    Each group counts as one text, which is careful. Spearman: 1.96 (1 - r²) sqrt((1 + r²/2) / m) at
    r = .5 (after Bonett and Wright 2000); rates: 1.96 sqrt(p (1 - p) / (m/2)) at p = .8, where half
    of the texts pass.
    """
    figure = "a Spearman of 0.5"
    width = 1.96 * (1 - 0.5**2) * math.sqrt((1 + 0.5**2 / 2) / groups)
    if classes:
        figure = "a TPR or TNR of 0.8"
        width = 1.96 * math.sqrt(0.8 * 0.2 / (groups / 2))
    steps = [f"±{min(width / times**0.5, 1):.2f} with {times * groups}" for times in (1, 2, 4)]
    return (
        f"The interval of {figure} will be about {', '.join(steps)} {groups_are}, each counted as "
        f"one text; it shrinks by the square root of their number. A verdict takes {_FEWEST}."
    )
