"""Pairs of texts that judge and humans compared: how each ended, as comparisons of systems and as preferences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judgebench.metrics.cells import COMPARED
from judgebench.metrics.comparisons import Comparisons
from judgebench.metrics.preference import Preferences
from judgebench.metrics.ranking import AGREED, MEAN, Ranking
from judgebench.types import FIRST, ORDERS, SECOND

NEEDED = (*COMPARED, "human")
"""Columns of scores that a ranking rests on, besides those of the cell, system_id and group_id."""

_EQUAL = 1e-9


@dataclass(frozen=True)
class TextPairs:
    """The pairs of texts of one cell of a table of scores.

    Attributes:
        one, other: [n] what wrote the judged text, and its rival.
        first, second, tie_first, tie_second: see `win_probabilities`.
        human: [n] by how much the humans prefer the judged text; NaN where they did not say.
        share: [n] how much of a distinct pair each row is.
        groups: the distinct groups; group: [n] which of them.
    """

    one: np.ndarray
    other: np.ndarray
    first: np.ndarray
    second: np.ndarray
    tie_first: np.ndarray
    tie_second: np.ndarray
    human: np.ndarray
    share: np.ndarray
    groups: list[Any]
    group: np.ndarray
    systems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, columns: Mapping[str, np.ndarray], rows: np.ndarray) -> TextPairs:
        part = {name: columns[name][rows] for name in (*NEEDED, "system_id", "group_id")}
        texts = [part[name].astype(str) for name in ("text_id", "rival_id")]
        groups, group = np.unique(part["group_id"].astype(str), return_inverse=True)
        names_of, text = np.unique(np.concatenate(texts), return_inverse=True)
        ends = text.reshape(2, -1)
        met = ends.min(axis=0) * len(names_of) + ends.max(axis=0)
        _, which, often = np.unique(met, return_inverse=True, return_counts=True)
        names = [part[name].astype(str) for name in ("system_id", "rival_system_id")]
        systems = list(dict.fromkeys(np.concatenate(names).tolist()))
        number = {name: i for i, name in enumerate(systems)}
        one, other = (np.array([number[name] for name in side.tolist()], dtype=np.int64) for side in names)
        numbers = [
            part[name].astype(np.float64)
            for name in ("score_first", "score_second", "tie_first", "tie_second", "human")
        ]
        first, second, tie_first, tie_second, human = numbers
        share = 1 / often[which]
        return cls(one, other, first, second, tie_first, tie_second, human, share, groups.tolist(), group, systems)

    @property
    def score(self) -> np.ndarray:
        """[n] the share that the judged text wins, both orders averaged."""
        return (self.first + self.second) / 2

    def preferences(self, ranking: Ranking) -> Preferences:
        """Of the pairs of which the humans said something."""
        rows = np.isfinite(self.human)
        return Preferences(
            self.score[rows] - 0.5, self.human[rows], self.share[rows], self.group[rows], ranking.human_tie
        )

    def judged(self, ranking: Ranking, attacked: bool) -> Comparisons:
        """How the pairs ended for the judge."""
        signs = np.full(len(self.one), int(attacked))
        if ranking.outcome == MEAN:
            sides = {FIRST: (self.first, self.tie_first), SECOND: (self.second, self.tie_second)}
            kinds = [
                np.stack([won - tied / 2, tied, 1 - won - tied / 2]) * self.share / 2
                for won, tied in (sides[o] for o in ORDERS)
            ]
            place = np.repeat([1, -1], len(self.one)) if ranking.position else None
            return self._comparisons(np.hstack(kinds), place, np.tile(signs, 2))
        score = self.score - 0.5
        winner = np.where(np.abs(score) <= _EQUAL, 0.0, np.sign(score))
        if ranking.outcome == AGREED:
            both = [
                np.where(np.abs(side - 0.5) <= _EQUAL, 0.0, np.sign(side - 0.5)) for side in (self.first, self.second)
            ]
            winner = np.where(both[0] == both[1], both[0], 0.0)
        return self._comparisons(_ends(winner) * self.share, None, signs)

    def by_humans(self, ranking: Ranking) -> Comparisons:
        """How they ended for the humans; pairs of which they said nothing are left out."""
        told = np.isfinite(self.human)
        human = np.where(told, self.human, 0.0)
        sides = np.where(np.abs(human) <= ranking.human_tie + _EQUAL, 0.0, np.sign(human))
        return self._comparisons(_ends(sides) * self.share * told, None, None)

    def _comparisons(self, outcomes: np.ndarray, place: np.ndarray | None, attacked: np.ndarray | None) -> Comparisons:
        often = outcomes.shape[1] // max(1, len(self.one))
        one, other, group = (np.tile(side, often) for side in (self.one, self.other, self.group))
        return Comparisons.of(len(self.systems), len(self.groups), one, other, group, outcomes, place, attacked)


def _ends(winner: np.ndarray) -> np.ndarray:
    """[3, n] a win, a tie or a loss."""
    return np.stack([winner > 0, winner == 0, winner < 0]).astype(float)
