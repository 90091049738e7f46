"""How systems are ranked where texts are compared: the settings that `judgebench.metrics.pairwise` goes by."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from judgebench.metrics.comparisons import TIES
from judgebench.runtime.errors import UserError

MEAN, MAJORITY, AGREED = OUTCOMES = ("mean", "majority", "agreed")
"""What the two orders of a pair come to: a comparison each, worth half; the text that their mean prefers wins; a text
wins that both prefer, and all else is a tie."""

_LARGEST_PRIOR = 1000.0
_MOST_BINS = 20


@dataclass(frozen=True)
class Ranking:
    """conf/config.yaml's `pairwise`.

    Attributes:
        outcome: one of `OUTCOMES`.
        ties: one of `comparisons.TIES`.
        position: whether the first place has a parameter, under `outcome` mean.
        prior: comparisons given beforehand, see `bradley_terry.Model`.
        reference: the system whose strength is 0; None puts the mean there.
        human_tie: humans' preferences up to this are ties.
        margins: bins of the humans' preferences.

    Raises:
        UserError: from `parse`, a key that is unknown, missing or holds something else than it should.
    """

    outcome: str = MEAN
    ties: str = "half"
    position: bool = True
    prior: float = 1.0
    reference: str | None = None
    human_tie: float = 0.0
    margins: int = 4

    @classmethod
    def parse(cls, given: Any) -> Ranking:
        """From the config key `pairwise`."""
        known = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping):
            raise UserError(f"pairwise: {given!r} is no group of settings; it has {', '.join(known)}.")
        if unknown := [key for key in given if key not in known]:
            raise UserError(f"pairwise.{unknown[0]} is unknown; there are {', '.join(known)}.")
        if missing := [key for key in known if key not in given]:
            raise UserError(f"pairwise.{missing[0]} is not given; conf/config.yaml shows what it is.")
        for key, choices in (("outcome", OUTCOMES), ("ties", TIES)):
            if given[key] not in choices:
                raise UserError(f"pairwise.{key}: {given[key]!r} is not one of {', '.join(choices)}.")
        if not isinstance(given["position"], bool):
            raise UserError(f"pairwise.position: {given['position']!r} is neither true nor false.")
        prior, tie = (_number(key, given[key]) for key in ("prior", "human_tie"))
        if prior > _LARGEST_PRIOR:
            raise UserError(f"pairwise.prior: {prior:g} comparisons would drown the data; give at most 1000, as 1.")
        bins = given["margins"]
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= _MOST_BINS:
            raise UserError(f"pairwise.margins: {bins!r} is not a whole number from 1 to {_MOST_BINS}.")
        reference = given["reference"]
        if reference is not None and not isinstance(reference, str | int):
            raise UserError(f"pairwise.reference: {reference!r} is not the name of a system; give one, or null.")
        named = None if reference is None else str(reference)
        return cls(given["outcome"], given["ties"], given["position"], prior, named, tie, bins)

    def check(self, systems: Collection[str]) -> None:
        """Whether the reference is one of the systems compared; else `UserError`."""
        if self.reference is not None and self.reference not in systems:
            raise UserError(
                f"pairwise.reference: no text is by {self.reference!r}; the systems are {', '.join(sorted(systems))}."
            )


def _number(key: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given) or given < 0:
        raise UserError(f"pairwise.{key}: {given!r} is not a number of at least 0.")
    return float(given)
