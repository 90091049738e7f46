"""Comparisons of systems, two at a time: who met whom, how it ended, and what can be told from that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

HALF, DAVIDSON = TIES = ("half", "davidson")
"""What a tie is: half a win for each side; or an outcome of its own, with a parameter for how likely it is."""


@dataclass(frozen=True)
class Comparisons:
    """Who met whom, and how it ended, group by group.

    Attributes:
        systems: how many there are, K.
        one, other: [E] numbers of the two, `one` below `other`; several entries may be about the same two.
        place: [E] 1 where `one` stood in place one, -1 where `other` did, 0 where that is not told.
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
    def of(
        cls,
        systems: int,
        groups: int,
        one: np.ndarray,
        other: np.ndarray,
        group: np.ndarray,
        outcomes: np.ndarray,
        place: np.ndarray | None = None,
        attacked: np.ndarray | None = None,
    ) -> Comparisons:
        """From single comparisons; those of a system with itself say nothing and are left out.

        Args:
            systems, groups: K and G.
            one, other: [n] who met, 0 to K - 1.
            group: [n] 0 to G - 1.
            outcomes: [3, n] how much of a win, a tie and a loss each was for `one`.
            place, attacked: [n] as above; None is 0 everywhere.
        """
        none = np.zeros(len(one), dtype=np.int64)
        turned = one > other
        first, second = np.where(turned, other, one), np.where(turned, one, other)
        signs = [none if sign is None else np.where(turned, -sign, sign) for sign in (place, attacked)]
        ends = np.where(turned, outcomes[::-1], outcomes)
        apart = first != second
        kinds = np.stack([first, second, *signs])[:, apart]
        found, entry = np.unique(kinds, axis=1, return_inverse=True)
        entry = entry.reshape(-1)
        count = found.shape[1]
        rows = np.concatenate([entry + kind * count for kind in range(3)])
        columns = np.tile(group[apart], 3)
        held = sparse.coo_array((ends[:, apart].reshape(-1), (rows, columns)), shape=(3 * count, groups))
        return cls(systems, found[0], found[1], found[2], found[3], sparse.csr_array(held))

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
    return sorted(found, key=lambda level: -len(_reached(beaten, level[0])))


def decided_by(comparisons: Comparisons, signs: np.ndarray) -> bool:
    """Whether `signs` [E], of a place or of an attack, tell every outcome: whoever has 1 wins all, or loses all."""
    won, tied, lost = comparisons.outcomes(np.ones((1, comparisons.counts.shape[1])))[:, 0]
    ahead, behind = np.where(signs > 0, won, lost), np.where(signs > 0, lost, won)
    told = bool((signs != 0).all()) and not tied.any()
    return told and bool(len(signs)) and not (ahead.any() and behind.any())


def _components(table: np.ndarray, strong: bool = False) -> list[list[int]]:
    number, label = connected_components(table > 0, directed=True, connection="strong" if strong else "weak")
    return [np.flatnonzero(label == one).tolist() for one in range(number)]


def _reached(table: np.ndarray, start: int) -> set[int]:
    found, new = {start}, [start]
    while new:
        new = [one for one in np.flatnonzero((table[new] > 0).any(axis=0)).tolist() if one not in found]
        found |= set(new)
    return found
