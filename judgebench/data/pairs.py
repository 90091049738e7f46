"""Pairs of texts: each judged text against others that answer to the same source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from judgebench.runtime.errors import UserError
from judgebench.types import Example

ALL = "all"


@dataclass(frozen=True)
class Rivals:
    """How many other texts of its group each text is compared with, and by which draw.

    Attributes:
        count: None takes all. A group with fewer others has each text meet all of them.
        seed: of the draw.

    Raises:
        UserError: from `parse`, anything else than a count of at least 1 or `all`, and a seed of at least 0.
    """

    count: int | None = 3
    seed: int = 0

    @classmethod
    def parse(cls, rivals: Any, seed: Any) -> Rivals:
        """From the config keys `prompt.rivals` and `prompt.rivals_seed`."""
        if rivals != ALL and (not _is_whole(rivals) or rivals < 1):
            raise UserError(f"prompt.rivals: {rivals!r} is neither a whole number of at least 1 nor all.")
        if not _is_whole(seed) or seed < 0:
            raise UserError(f"prompt.rivals_seed: {seed!r} is not a whole number of at least 0.")
        return cls(None if rivals == ALL else rivals, seed)

    def of(self, group_size: int) -> int:
        """How many rivals a text of such a group has."""
        others = group_size - 1
        return others if self.count is None else min(self.count, others)


def pairs(examples: Iterable[Example], rivals: Rivals) -> list[Example]:
    """One example a pair: a text with its rival, its human scores less the rival's.

    The texts of a group are laid on a circle in a drawn order, and each meets the next ones on it: every text is rival
    as often as it is judged. Two texts meet once where the group has more than twice as many texts as a text has
    rivals. What is drawn for a group depends on the seed and on the names of its own texts alone. A text without others
    in its group is compared with nothing and left out.

    Args:
        examples: judged alone so far; those of a group need not stand together.
        rivals: how many, and by which draw.

    Returns:
        The pairs, a text's together, texts in the order given.

    Raises:
        UserError: no group has two texts, or two pairs would have one name.
    """
    listed = list(examples)
    groups: dict[str, list[Example]] = {}
    for example in listed:
        groups.setdefault(example.group_id, []).append(example)
    against = {text.example_id: met for group in groups.values() for text, met in _circle(group, rivals)}
    found = [_pair(text, rival) for text in listed for rival in against[text.example_id]]
    if not found:
        raise UserError(
            "prompt.rivals: every text of this data is alone in its group, so there is nothing to compare it with; "
            "give data with several texts a group_id, or judge them alone with prompt=paper."
        )
    names: set[str] = set()
    for pair in found:
        if pair.example_id in names:
            raise UserError(
                f"prompt.rivals: two pairs of texts would be called {pair.example_id!r}; give examples names without ~."
            )
        names.add(pair.example_id)
    return found


def systems_of(pairs_of: Iterable[Example]) -> list[str]:
    """What wrote the texts of pairs, in order of appearance."""
    return list(dict.fromkeys(name for one in pairs_of for name in (one.system_id, one.rival_system_id)))


def _circle(group: Sequence[Example], rivals: Rivals) -> list[tuple[Example, list[Example]]]:
    """Each text with those that it meets."""
    ordered = sorted(group, key=lambda example: example.example_id)
    names = "\0".join(example.example_id for example in ordered)
    digest = hashlib.sha256(f"{group[0].group_id}\0{names}".encode()).digest()
    order = np.random.default_rng([rivals.seed, int.from_bytes(digest[:8], "big")]).permutation(len(ordered))
    circle = [ordered[i] for i in order]
    steps = range(1, rivals.of(len(circle)) + 1)
    return [(text, [circle[(i + step) % len(circle)] for step in steps]) for i, text in enumerate(circle)]


def _pair(text: Example, rival: Example) -> Example:
    return replace(
        text,
        example_id=f"{text.example_id}~{rival.example_id}",
        human={dimension: score - rival.human[dimension] for dimension, score in text.human.items()},
        rival_id=rival.example_id,
        rival=rival.output,
        rival_system_id=rival.system_id,
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
