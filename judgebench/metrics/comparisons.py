"""Comparisons of systems, two at a time: who met whom, and how it ended for judge and humans."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from judgebench.config.fields import Annotated, Ge, Le, OneOf, Wording, check_fields, named
from judgebench.metrics.preference import Preferences, preferred
from judgebench.runtime.errors import UserError
from judgebench.stats.scores import COMPARED
from judgebench.types import FIRST, ORDERS, SECOND

HALF, DAVIDSON = TIES = ("half", "davidson")
"""What a tie is: half a win for each side; or an outcome of its own, with a parameter for how likely it is."""


@dataclass(frozen=True)
class Comparisons:
    """Counts of who met whom and how it ended, group by group.

    Attributes:
        systems: number of systems, K.
        one, other: [E] numbers of the two, `one` below `other`; several entries may be about the same two.
        place: [E] 1 where `one` stood in place one, -1 where `other` did, 0 where that is unknown.
        attacked: [E] 1 where the text of `one` was attacked, -1 where that of `other` was, else 0.
        counts: [3 * E, G] how often `one` won, both tied, `one` lost, in each group.
    """

    systems: int
    one: np.ndarray
    other: np.ndarray
    place: np.ndarray
    attacked: np.ndarray
    counts: sparse.csr_array

    @classmethod
    def of(cls, systems: int, groups: int, met: np.ndarray, group: np.ndarray, outcomes: np.ndarray) -> Comparisons:
        """From single comparisons; those of a system with itself say nothing and are left out.

        Args:
            met: [4, n] int64, the numbers of the two, 0 to K - 1, then place and attacked as above.
            group: [n] 0 to G - 1.
            outcomes: [3, n] how much of a win, a tie and a loss each was for the first of the two.
        """
        turned = met[0] > met[1]
        kinds = np.where(turned, [met[1], met[0], -met[2], -met[3]], met)
        ends = np.where(turned, outcomes[::-1], outcomes)
        apart = met[0] != met[1]
        found, entry = np.unique(kinds[:, apart], axis=1, return_inverse=True)
        count = found.shape[1]
        rows = (entry.reshape(-1) + count * np.arange(3)[:, None]).reshape(-1)
        entries = (ends[:, apart].reshape(-1), (rows, np.tile(group[apart], 3)))
        counts = sparse.csr_array(sparse.coo_array(entries, shape=(3 * count, groups)))
        return cls(systems, found[0], found[1], found[2], found[3], counts)

    def outcomes(self, weights: np.ndarray) -> np.ndarray:
        """[3, B, E] wins, ties and losses of `one` where each group counts as often as `weights` [B, G] say."""
        return np.asarray((self.counts @ weights.T).reshape(3, len(self.one), len(weights)).transpose(0, 2, 1))

    def table(self) -> np.ndarray:
        """[3, K, K] how often the row's system won against, tied with and lost to the column's, over all groups."""
        wins, ties, losses = self.outcomes(np.ones((1, self.counts.shape[1])))[:, 0]
        found = np.zeros((3, self.systems, self.systems))
        for kind, (ahead, behind) in enumerate(((wins, losses), (ties, ties), (losses, wins))):
            np.add.at(found[kind], (self.one, self.other), ahead)
            np.add.at(found[kind], (self.other, self.one), behind)
        return found


def parts(comparisons: Comparisons) -> list[list[int]]:
    """The systems that met, directly or through others, a list a part; nothing compares one part with another."""
    table = comparisons.table().sum(axis=0)
    return _components(table + table.T)


def dominant(comparisons: Comparisons, ties: str = HALF) -> list[list[int]]:
    """The systems in levels, of which none above ever lost to any below: one level where maximum likelihood has an
    answer. The best level is first, if levels have met."""
    wins, tied, _ = comparisons.table()
    beaten = wins + (tied if ties == HALF else 0)
    found = _components(beaten, strong=True)
    return sorted(found, key=lambda level: -len(breadth_first_order(beaten > 0, level[0], return_predecessors=False)))


def decided_by(comparisons: Comparisons, signs: np.ndarray) -> bool:
    """True where `signs` [E], of a place or of an attack, tell every outcome: whoever has 1 wins all, or loses all."""
    won, tied, lost = comparisons.outcomes(np.ones((1, comparisons.counts.shape[1])))[:, 0]
    ahead, behind = np.where(signs > 0, won, lost), np.where(signs > 0, lost, won)
    told = bool((signs != 0).all()) and not tied.any()
    return told and bool(len(signs)) and not (ahead.any() and behind.any())


def _components(table: np.ndarray, strong: bool = False) -> list[list[int]]:
    number, label = connected_components(table > 0, directed=True, connection="strong" if strong else "weak")
    return [np.flatnonzero(label == part).tolist() for part in range(number)]


RETIRED = {"outcome": "mean", "margins": 4}
"""Settings of earlier versions, and the values at which they ask for what is done now."""


@dataclass(frozen=True)
class Ranking:
    """conf/config.yaml's `pairwise`.

    Attributes:
        position: whether the first place has a parameter.
        prior: comparisons given beforehand, see `bradley_terry.Model`.
        reference: the system whose strength is 0; None puts the mean there.
        human_tie: humans' preferences up to this are ties.

    Raises:
        UserError: from `parse`, a key that is unknown, missing or holds something else than it should.
    """

    ties: Annotated[str, OneOf(TIES)] = HALF
    position: bool = True
    prior: Annotated[float, Ge(0), Le(1000), Wording("a number from 0 to 1000; more would drown the data")] = 1.0
    reference: Annotated[str | int, Wording("the name of a system")] | None = None
    human_tie: Annotated[float, Ge(0)] = 0.0

    @classmethod
    def parse(cls, given: Any) -> Ranking:
        """From the config key `pairwise`."""
        if isinstance(given, Mapping):
            given = {key: value for key, value in given.items() if key not in RETIRED or value != RETIRED[key]}
        ranking = cls(**named(cls, given, "pairwise"))
        check_fields(ranking, "pairwise")
        reference = None if ranking.reference is None else str(ranking.reference)
        return replace(ranking, prior=float(ranking.prior), reference=reference, human_tie=float(ranking.human_tie))

    def check(self, systems: Collection[str]) -> None:
        """Raises `UserError` where the reference is none of the systems compared."""
        if self.reference is not None and self.reference not in systems:
            raise UserError(
                f"pairwise.reference: no text is by {self.reference!r}; the systems are {', '.join(sorted(systems))}."
            )


NEEDED = (*COMPARED, "human")
"""Columns of scores that a ranking rests on, besides those of the cell, system_id and group_id."""


@dataclass(frozen=True)
class TextPairs:
    """The pairs of texts of one cell of a table of scores.

    Attributes:
        one, other: [n] numbers of the systems that wrote the judged text, and its rival.
        first, second, tie_first, tie_second: [n] see `win_probabilities`.
        human: [n] by how much the humans prefer the judged text; NaN where they did not say.
        share: [n] how much of a distinct pair each row is.
        group: [n] numbers of `groups`.
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
        columns_of = ("score_first", "score_second", "tie_first", "tie_second", "human")
        first, second, tie_first, tie_second, human = (part[name].astype(np.float64) for name in columns_of)
        share = 1 / often[which]
        return cls(one, other, first, second, tie_first, tie_second, human, share, groups.tolist(), group, systems)

    @property
    def score(self) -> np.ndarray:
        """[n] the share that the judged text wins, both orders averaged."""
        return (self.first + self.second) / 2

    def preferences(self, ranking: Ranking) -> Preferences:
        """Of the pairs of which the humans said something."""
        rows = np.isfinite(self.human)
        judge = self.score[rows] - 0.5
        return Preferences(judge, self.human[rows], self.share[rows], self.group[rows], ranking.human_tie)

    def judged(self, ranking: Ranking, attacked: bool) -> Comparisons:
        """Outcomes of the pairs for the judge: each order counts half, by its win probability."""
        sides = {FIRST: (self.first, self.tie_first), SECOND: (self.second, self.tie_second)}
        ends = [
            np.stack([won - tied / 2, tied, 1 - won - tied / 2]) * self.share / 2
            for won, tied in (sides[o] for o in ORDERS)
        ]
        return self._comparisons(np.hstack(ends), attacked, (1, -1) if ranking.position else (0, 0))

    def by_humans(self, ranking: Ranking) -> Comparisons:
        """Outcomes of the pairs for the humans; those of which they said nothing are left out."""
        known = np.isfinite(self.human)
        winner = preferred(np.where(known, self.human, 0.0), ranking.human_tie)
        return self._comparisons(_ends(winner) * self.share * known, False)

    def _comparisons(self, outcomes: np.ndarray, attacked: bool, places: tuple[int, ...] = (0,)) -> Comparisons:
        """From outcomes [3, n * len(places)], the pairs once for each place in which the judged text stands."""
        one, other, group = (np.tile(side, len(places)) for side in (self.one, self.other, self.group))
        met = np.stack([one, other, np.repeat(places, len(self.one)), np.full(len(one), int(attacked))])
        return Comparisons.of(len(self.systems), len(self.groups), met, group, outcomes)


def _ends(winner: np.ndarray) -> np.ndarray:
    """[3, n] a win, a tie or a loss."""
    return np.stack([winner > 0, winner == 0, winner < 0]).astype(float)
