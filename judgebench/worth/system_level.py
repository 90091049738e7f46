"""Systems compared as in the evaluation of translation metrics: pairwise accuracies, tests, clusters.

- Pairwise accuracy: the share of pairs of systems that judge and humans order alike (Kocmi et al. 2021).
- Soft pairwise accuracy: the same with doubt, 1 less the mean distance of the two p-values of a pair (Thompson et al.,
  "Improving Statistical Significance in Human Evaluation of Automatic Metrics via Soft Pairwise Accuracy", WMT 2024).
- Accuracy with optimised ties over pairs of texts of one article: see `tied_pairs`.
- BOOT-BOTH: systems resampled as well as articles (Deutsch, Dror and Roth, TACL 2021). See `system_tests` for two
  judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from judgebench.metrics.correlation import MOST_ENTRIES, vectors
from judgebench.metrics.resampling import (
    CONFIDENCE,
    PERMUTATIONS,
    RESAMPLES,
    SIGNIFICANCE,
    expanded,
    flips,
    holm,
    weights_of,
    with_interval,
)
from judgebench.worth.tied_pairs import TiedPairs

FLIPS = 1000
"""Permutations behind the p-values of soft pairwise accuracy, as in the WMT's own."""

MOST_SYSTEMS = 200
"""More systems than these, as where each text has an author of its own, are not compared in pairs."""

_SAME = 1e-9  # of the largest difference: those no farther apart are equal but for rounding
_DIGITS = 12


def mean_table(
    values: np.ndarray, system: np.ndarray, group: np.ndarray, shape: tuple[int, int] | None = None
) -> np.ndarray:
    """[S, G] means of the texts [N] of each system and article, scaled to spread 1; NaN where there is none.

    Args:
        system, group: [N] numbered from 0.
        shape: S and G, where some have no text.
    """
    values = np.asarray(values, dtype=np.float64)
    shape = shape or (int(system.max(initial=-1)) + 1, int(group.max(initial=-1)) + 1)
    spread = np.ptp(values) if len(values) else 0.0
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    place = system * shape[1] + group
    sums, sizes = (np.bincount(place, one, shape[0] * shape[1]) for one in (scaled, np.ones(len(values))))
    table = np.divide(sums, sizes, out=np.full(len(sums), np.nan), where=sizes > 0)
    return table.reshape(shape)


@dataclass(frozen=True)
class PairedSystems:
    """All pairs of systems of one side, judge or humans, that share an article, over the articles that both have.

    Args:
        table: [S, G] means of each system in each article, NaN where it has none.
    """

    table: np.ndarray

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second system of each pair that shares an article, [P] each."""
        first, second = np.triu_indices(len(self.table), 1)
        there = (~np.isnan(self.table)).astype(np.float64)
        share = (there @ there.T)[first, second] > 0
        return first[share], second[share]

    @cached_property
    def differences(self) -> np.ndarray:
        """[P, G] of each pair, first less second; 0 where one of the two has no text."""
        first, second = self.pairs
        return np.nan_to_num(self.table[first] - self.table[second])

    def tails(self, flipped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[P] each: the share of flips in which the difference is larger than it is, and in which it is the same.

        Args:
            flipped: [F, G] of 0 and 1, which articles' differences change sign; see `resampling.flips`.
        """
        signs = 1.0 - 2.0 * flipped
        above, same = np.empty(len(self.differences)), np.empty(len(self.differences))
        step = max(1, MOST_ENTRIES // max(1, len(signs)))
        for start in range(0, len(above), step):
            here = slice(start, start + step)
            part = self.differences[here]
            product, observed = signs @ part.T, part.sum(axis=1)  # [F, p], [p]
            rounding = _SAME * np.abs(part).sum(axis=1)
            above[here] = np.count_nonzero(product > observed + rounding, axis=0)
            same[here] = np.count_nonzero(product >= observed - rounding, axis=0) - above[here]
        return above / len(signs), same / len(signs)

    def better(self, flipped: np.ndarray) -> np.ndarray:
        """[P] p-values of the first being better than the second: the share of flips in which the difference is
        larger, and half of those in which it is the same, so that the order of the systems does not matter."""
        above, same = self.tails(flipped)
        return above + same / 2

    def resampled(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[B, P] differences of the pairs in each row of weights [B, G] of articles, and p-values as `better`, by the
        normal law that the flips' sums follow: mean 0, and the squares' sum as variance."""
        sums, squares = weights @ self.differences.T, weights @ (self.differences**2).T
        z = np.divide(sums, np.sqrt(squares), out=np.zeros_like(sums), where=squares > 0)
        return np.where(np.abs(z) < _SAME, 0.0, sums), special.ndtr(-z)


class _Accuracies(NamedTuple):
    """[1 + B] each, of the data and of resamples."""

    soft: np.ndarray
    hard: np.ndarray


def _accuracies(
    judge: PairedSystems, human: PairedSystems, weights: np.ndarray, systems: np.ndarray
) -> tuple[_Accuracies, _Accuracies]:
    """Accuracies of articles resampled alone, and of systems [1 + B, S] as well."""
    parts: list[list[np.ndarray]] = [[], [], [], []]
    first, second = judge.pairs
    step = max(1, MOST_ENTRIES // max(1, len(first)))
    for start in range(0, len(weights), step):
        part = slice(start, start + step)
        (ours, p_ours), (theirs, p_theirs) = (side.resampled(weights[part]) for side in (judge, human))
        soft, hard = 1 - np.abs(p_ours - p_theirs), (np.sign(ours) == np.sign(theirs)).astype(np.float64)
        counted = systems[part, first] * systems[part, second]
        mass = counted.sum(axis=1)
        drawn = (np.divide((each * counted).sum(axis=1), mass, out=np.full_like(mass, np.nan), where=mass > 0)
                 for each in (soft, hard))  # fmt: skip
        for found, each in zip(parts, (soft.mean(axis=1), hard.mean(axis=1), *drawn), strict=True):
            found.append(each)
    one = [np.concatenate(found) for found in parts]
    return _Accuracies(one[0], one[1]), _Accuracies(one[2], one[3])


def _drawn_systems(systems: int, rows: int, seed: int) -> np.ndarray:
    """[rows, S] how often each system is drawn where systems are; once in the first row."""
    # Another stream than those of groups and flips, which are drawn with the same seed.
    drawn = np.random.default_rng([seed, 2]).multinomial(systems, np.full(systems, 1 / systems), rows - 1)
    return np.vstack([np.ones((1, systems)), drawn])


def system_record(
    judge: np.ndarray,
    human: np.ndarray,
    groups: np.ndarray,
    systems: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Agreement of judge and humans about systems.

    Args:
        judge, human: [N] scores and mean ratings.
        groups: [N] labels of the articles, which are resampled.
        systems: [N] labels of the systems.

    Returns:
        systems, articles: their numbers; soft_pairwise_accuracy and pairwise_accuracy, each with `_low` and `_high`,
        articles resampled, and `_systems_low`, `_systems_high`, systems resampled as well (BOOT-BOTH);
        ties_accuracy with `_low` and `_high`, and tie_threshold, see `TiedPairs`; reason: why there is none, or no
        interval, else None.

        With fewer articles systems are told apart less well, so that all these accuracies are lower on average. Their
        intervals speak of data with as many articles, not of what more of them would show.

    Raises:
        ValueError: shapes that do not fit, NaN or infinite values.
    """
    judge, human = vectors(judge, human)
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    names, system = np.unique(np.asarray(systems), return_inverse=True)
    record: dict[str, Any] = {"systems": len(names), "articles": len(labels)}
    weights = weights_of(len(labels), resamples, seed)
    reason: str | None = None
    sides = (
        [PairedSystems(mean_table(side, system, group)) for side in (judge, human)]
        if 2 <= len(names) <= MOST_SYSTEMS
        else []
    )
    alike = bool(sides) and not np.abs(sides[1].differences.sum(axis=1)).max(initial=0.0) > _SAME
    if not sides or not len(sides[0].pairs[0]) or alike:
        record |= dict.fromkeys(_PAIRWISE)
        reason = "No pairwise accuracy: no two systems have texts of the same group."
        if len(names) < 2:
            reason = "No pairwise accuracy: all texts are of one system."
        elif len(names) > MOST_SYSTEMS:
            reason = f"No pairwise accuracy: there are more than {MOST_SYSTEMS} systems."
        elif alike and len(sides[0].pairs[0]):
            reason = "No pairwise accuracy: the humans' means of all systems are the same."
    else:
        record |= _pairwise(sides[0], sides[1], weights, seed)
        if len(weights) == 1:
            why = "there is one group, and resampling takes at least two" if resamples else "there are no resamples"
            reason = f"No intervals: {why}."
    threshold, accuracy = TiedPairs(judge, human, group).best(weights)
    record |= with_interval("ties_accuracy", accuracy, _ends(weights.shape[1]))
    record["tie_threshold"] = None if record["ties_accuracy"] is None else threshold
    return {**record, "reason": reason}


_PAIRWISE = tuple(
    f"{name}{end}"
    for name in ("soft_pairwise_accuracy", "pairwise_accuracy")
    for end in ("", "_low", "_high", "_systems_low", "_systems_high")
)


def _pairwise(judge: PairedSystems, human: PairedSystems, weights: np.ndarray, seed: int) -> dict[str, float | None]:
    flipped = flips(weights.shape[1], FLIPS, seed)[0]
    found, both = _accuracies(judge, human, weights, _drawn_systems(len(judge.table), len(weights), seed))
    soft = soft_pairwise_accuracy(judge.better(flipped), human.better(flipped))
    record: dict[str, float | None] = {}
    for name, values, over in (
        # The resamples' p-values are the normal law's; how far that is off in the data is taken from them.
        ("soft_pairwise_accuracy", found.soft + (soft - found.soft[0]), both.soft + (soft - found.soft[0])),
        ("pairwise_accuracy", found.hard, both.hard),
    ):
        record |= with_interval(name, np.clip(values, 0.0, 1.0), _ends(weights.shape[1]))
        drawn = with_interval(name, np.clip(over, 0.0, 1.0), _ends(min(weights.shape[1], len(judge.table))))
        record |= {f"{name}_systems{end}": drawn[f"{name}{end}"] for end in ("_low", "_high")}
    return record


def _ends(count: int) -> tuple[float, float]:
    return expanded(count) if count >= 2 else CONFIDENCE


def soft_pairwise_accuracy(judge: np.ndarray, human: np.ndarray) -> float:
    """1 less the mean distance of the p-values [P] that judge and humans give to the same pairs of systems.

    Example:
        >>> round(soft_pairwise_accuracy(np.array([0.01, 0.5]), np.array([0.03, 0.9])), 12)
        0.79
    """
    return float(1 - np.abs(judge - human).mean())


def system_clusters(
    values: np.ndarray, groups: np.ndarray, systems: np.ndarray, seed: int = 0, level: float = SIGNIFICANCE
) -> list[dict[str, Any]]:
    """Systems from best to worst, in clusters that are not told apart, as the WMT's shared tasks rank them.

    A new cluster begins with the first system that some system of the present cluster beats: paired permutation over
    articles, two-sided p at most `level` after Holm's correction over all pairs.

    Args:
        values: [N] scores of a judge, or mean ratings.
        groups, systems: [N] labels of articles and systems.

    Returns:
        A record a system: system; mean; cluster: from 1, the best; beaten_by: how many systems are better than it by
        that test.
    """
    values = np.asarray(values, dtype=np.float64)
    group = np.unique(np.asarray(groups), return_inverse=True)[1]
    names, system = np.unique(np.asarray(systems), return_inverse=True)
    means = np.bincount(system, values) / np.bincount(system)
    paired = PairedSystems(mean_table(values, system, group))
    beats = _beats(paired, *flips(paired.table.shape[1], PERMUTATIONS, seed), level)
    order = sorted(range(len(names)), key=lambda s: (-round(float(means[s]), _DIGITS), str(names[s])))
    records: list[dict[str, Any]] = []
    present: list[int] = []
    for s in order:
        cluster = records[-1]["cluster"] if records else 1
        if any(beats[other, s] for other in present):
            cluster, present = cluster + 1, []
        present.append(s)
        beaten = int(beats[:, s].sum())
        records.append({"system": str(names[s]), "mean": float(means[s]), "cluster": cluster, "beaten_by": beaten})
    return records


def _beats(paired: PairedSystems, flipped: np.ndarray, exact: bool, level: float) -> np.ndarray:
    """[S, S] True where the row's system is better than the column's."""
    first, second = paired.pairs
    found = np.zeros((len(paired.table),) * 2, dtype=bool)
    above, same = paired.tails(flipped)
    one = 2 * np.minimum(above + same, 1 - above)  # both tails
    if not exact:  # the data count as one more flip
        one = (one * len(flipped) + 2) / (len(flipped) + 1)
    told = holm(np.minimum(one, 1.0)) <= level
    gap = paired.differences.sum(axis=1)
    for winner, loser, side in ((first, second, gap > 0), (second, first, gap < 0)):
        found[winner[told & side], loser[told & side]] = True
    return found
