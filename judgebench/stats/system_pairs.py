"""Systems compared as in the evaluation of translation metrics: accuracies over pairs, clusters,
tests of two judges.

- Pairwise accuracy: the share of pairs of systems that judge and humans order alike (Kocmi et al.
  2021), of those that the humans order; a pair that the judge ties counts half, as of texts.
- Soft pairwise accuracy: the same with doubt, 1 less the mean distance of the two p-values of a
  pair (Thompson et al., "Improving Statistical Significance in Human Evaluation of Automatic
  Metrics via Soft Pairwise Accuracy", WMT 2024).
- Accuracy with optimised ties over pairs of texts of one article: Deutsch, Foster and Freitag,
  "Ties Matter" (EMNLP 2023).
- BOOT-BOTH, systems resampled as well as articles, and PERM-BOTH, two judges' scores swapped:
  Deutsch, Dror and Roth, "A Statistical Analysis of Summarization Evaluation Metrics Using
  Resampling Methods" (TACL 2021). Both speak of systems like these, of which there are few: they
  find less than `paired.compare`, which speaks of these very systems on other articles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import (
    RESAMPLES,
    SIGNIFICANCE,
    Clusters,
    chunks,
    divided,
    expanded,
    weights_of,
    with_intervals,
)
from judgebench.stats.correlation import CORRELATIONS, correlate_rows
from judgebench.stats.paired import PERMUTATIONS, flips, holm, permutation_p_value

FLIPS = 1000
"""Permutations behind the p-values of soft pairwise accuracy, as in the WMT's own."""

MOST_SYSTEMS = 200
"""More systems than these, as where each text has an author of its own, are not compared in
pairs."""

ACCURACIES = ("soft_pairwise_accuracy", "pairwise_accuracy")

_SAME = 1e-9  # of the largest difference: those no farther apart are equal but for rounding
_DIGITS = 12  # of means of spread 1, to which they are rounded: those equal in truth must tie


def mean_table(
    values: np.ndarray, system: np.ndarray, group: np.ndarray, shape: tuple[int, int] | None = None
) -> np.ndarray:
    """[S, G] means of the texts [N] of each system and article, both numbered from 0, scaled to
    spread 1; NaN where there is none. `shape`: S and G, where some have no text."""
    values = np.asarray(values, dtype=np.float64)
    shape = shape or (int(system.max(initial=-1)) + 1, int(group.max(initial=-1)) + 1)
    spread = np.ptp(values) if len(values) else 0.0
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    place = system * shape[1] + group
    sums, sizes = (
        np.bincount(place, column, shape[0] * shape[1]) for column in (scaled, np.ones(len(values)))
    )
    return divided(sums, sizes).reshape(shape)


@dataclass(frozen=True)
class PairedSystems:
    """All pairs of systems of one side, judge or humans, that share an article, over the articles
    that both have.

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
        """[P] each: the share of flips in which the difference is larger than it is, and in which
        it is the same. Flipped: [F, G] of 0 and 1, which articles' differences change sign; see
        `paired.flips`."""
        above = np.zeros(len(self.differences))
        same = np.zeros(len(self.differences))
        for rows in chunks(len(flipped), flipped.shape[1]):
            signs = 1.0 - 2.0 * flipped[rows]
            for here in chunks(len(above), len(signs)):
                part = self.differences[here]
                # [F, p], [p]
                product = signs @ part.T
                observed = part.sum(axis=1)
                rounding = _SAME * np.abs(part).sum(axis=1)
                more = np.count_nonzero(product > observed + rounding, axis=0)
                above[here] += more
                same[here] += np.count_nonzero(product >= observed - rounding, axis=0) - more
        return above / len(flipped), same / len(flipped)

    def better(self, flipped: np.ndarray) -> np.ndarray:
        """[P] p-values of the first being better than the second: the share of flips in which the
        difference is larger, and half of those in which it is the same, so that the order of the
        systems does not matter."""
        above, same = self.tails(flipped)
        return above + same / 2

    def resampled(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[B, P] differences of the pairs in each row of weights [B, G] of articles, and p-values
        as `better`, by the normal law that the flips' sums follow: mean 0, and the squares' sum as
        variance."""
        sums = weights @ self.differences.T
        squares = weights @ (self.differences**2).T
        z = np.divide(sums, np.sqrt(squares), out=np.zeros_like(sums), where=squares > 0)
        return np.where(np.abs(z) < _SAME, 0.0, sums), scipy.special.ndtr(-z)


# --- agreement about systems --------------------------------------------------------------------


def system_record(
    judge: np.ndarray, human: np.ndarray, systems: np.ndarray, clusters: Clusters
) -> dict[str, Any]:
    """Agreement of judge and humans [N] about systems: `ACCURACIES`, each with `_low` and `_high`,
    articles resampled, and `_systems_low`, `_systems_high`, systems resampled as well (BOOT-BOTH);
    ties_accuracy with `_low` and `_high`, and tie_threshold, see `TiedPairs`; reason: why there is
    none, or no interval, else None.

    With fewer articles systems are told apart less well, so that all these accuracies are lower on
    average. Their intervals speak of data with as many articles, not of what more of them would
    show.
    """
    names, system = np.unique(systems, return_inverse=True)
    record: dict[str, Any] = {"systems": len(names), "articles": clusters.count}
    record |= dict.fromkeys(
        f"{name}{end}"
        for name in ACCURACIES
        for end in ("", "_low", "_high", "_systems_low", "_systems_high")
    )
    reason: str | None = None
    if len(names) < 2:
        reason = "No pairwise accuracy: all texts are of one system."
    elif len(names) > MOST_SYSTEMS:
        reason = f"No pairwise accuracy: there are more than {MOST_SYSTEMS} systems."
    else:
        ours, theirs = (
            PairedSystems(mean_table(side, system, clusters.number)) for side in (judge, human)
        )
        if not len(ours.pairs[0]):
            reason = "No pairwise accuracy: no two systems have texts of the same group."
        elif not np.abs(theirs.differences.sum(axis=1)).max() > _SAME:
            reason = "No pairwise accuracy: the humans' means of all systems are the same."
        else:
            record |= _accuracies(ours, theirs, clusters)
            if len(clusters.weights) == 1:
                no_resamples = "there is one group, and resampling takes at least two"
                reason = (
                    "No intervals: "
                    f"{no_resamples if clusters.resamples else 'there are no resamples'}."
                )
    threshold, accuracy = TiedPairs(judge, human, clusters.number).best(clusters.weights)
    record |= clusters.record({"ties_accuracy": accuracy})
    return record | {
        "tie_threshold": None if record["ties_accuracy"] is None else threshold,
        "reason": reason,
    }


def _accuracies(
    judge: PairedSystems, human: PairedSystems, clusters: Clusters
) -> dict[str, float | None]:
    weights = clusters.weights
    systems = len(judge.table)
    # how often each system is drawn, once in the data; another stream than those of groups and
    # flips
    rng = np.random.default_rng([clusters.seed, 2])
    drawn = rng.multinomial(systems, np.full(systems, 1 / systems), len(weights) - 1)
    drawn = np.vstack([np.ones((1, systems)), drawn])
    first, second = judge.pairs
    accuracies = np.empty((4, len(weights)))  # soft, hard; and both with systems resampled
    for part in chunks(len(weights), len(first)):
        (ours, p_ours), (theirs, p_theirs) = (
            side.resampled(weights[part]) for side in (judge, human)
        )
        counted = drawn[part, first] * drawn[part, second]
        alike = 1 - np.abs(p_ours - p_theirs)
        accuracies[0, part] = alike.mean(axis=1)
        accuracies[1, part] = _share_alike(ours, theirs, np.ones_like(counted))
        accuracies[2, part] = divided((alike * counted).sum(axis=1), counted.sum(axis=1))
        accuracies[3, part] = _share_alike(ours, theirs, counted)
    # the resamples' p-values are the normal law's; how far that is off in the data is taken from
    # them
    flipped = flips(clusters.count, FLIPS, clusters.seed)[0]
    accuracies[[0, 2]] += (
        soft_pairwise_accuracy(judge.better(flipped), human.better(flipped)) - accuracies[0, 0]
    )
    accuracies = np.clip(accuracies, 0.0, 1.0)
    record: dict[str, float | None] = {}
    for name, values, both in zip(ACCURACIES, accuracies[:2], accuracies[2:], strict=True):
        like_these = with_intervals({name: both}, expanded(min(clusters.count, systems)))
        record |= clusters.record({name: values})
        record |= {f"{name}_systems{end}": like_these[f"{name}{end}"] for end in ("_low", "_high")}
    return record


def soft_pairwise_accuracy(judge: np.ndarray, human: np.ndarray) -> float:
    """1 less the mean distance of the p-values [P] that judge and humans give to the same pairs of
    systems.

    Example:
        >>> round(soft_pairwise_accuracy(np.array([0.01, 0.5]), np.array([0.03, 0.9])), 12)
        0.79
    """
    return float(1 - np.abs(judge - human).mean())


def ordered_alike(ours: PairedSystems, theirs: PairedSystems, weights: np.ndarray) -> np.ndarray:
    """[1 + B] the share of pairs of systems that two sides order alike, of those that the second
    orders, by rows of weights [1 + B, G]; a pair that the first ties counts half. Both tables have
    the same empty cells."""
    shares = np.empty(len(weights))
    for here in chunks(len(weights), len(ours.pairs[0])):
        first, second = (side.resampled(weights[here])[0] for side in (ours, theirs))
        shares[here] = _share_alike(first, second, np.ones_like(first))
    return shares


def _share_alike(ours: np.ndarray, theirs: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """[B] the share of pairs that two sides' differences [B, P] order alike; see `ordered_alike`.
    Counted: [B, P] how often each pair counts."""
    mass = np.where(theirs != 0, counted, 0.0)
    alike = (1 + np.sign(ours) * np.sign(theirs)) / 2
    return divided((alike * mass).sum(axis=1), mass.sum(axis=1))


def system_clusters(
    values: np.ndarray, groups: np.ndarray, systems: np.ndarray, seed: int = 0
) -> list[dict[str, Any]]:
    """Systems from best to worst by the mean of values [N], in clusters (from 1, the best) that are
    not told apart, as the WMT's shared tasks rank them; beaten_by: how many systems are better than
    it.

    A new cluster begins with the first system that some system of the present cluster beats: paired
    permutation over articles, two-sided p at most .05 after Holm's correction over all pairs.
    """
    group = np.unique(groups, return_inverse=True)[1]
    names, system = np.unique(systems, return_inverse=True)
    means = np.bincount(system, values) / np.bincount(system)
    paired = PairedSystems(mean_table(values, system, group))
    # which system is better than which
    flipped, exact = flips(paired.table.shape[1], PERMUTATIONS, seed)
    above, same = paired.tails(flipped)
    p_values = 2 * np.minimum(above + same, 1 - above)  # both tails
    if not exact:  # the data count as one more flip
        p_values = (p_values * len(flipped) + 2) / (len(flipped) + 1)
    apart = holm(np.minimum(p_values, 1.0)) <= SIGNIFICANCE
    gap = paired.differences.sum(axis=1)
    beats, (first, second) = np.zeros((len(names), len(names)), dtype=bool), paired.pairs
    for winner, loser, side in ((first, second, gap > 0), (second, first, gap < 0)):
        beats[winner[apart & side], loser[apart & side]] = True
    # clusters, from the best mean on
    records: list[dict[str, Any]] = []
    cluster = 1
    present = list[int]()
    for s in sorted(
        range(len(names)), key=lambda s: (-round(float(means[s]), _DIGITS), str(names[s]))
    ):
        if any(beats[other, s] for other in present):
            cluster = cluster + 1
            present = []
        present.append(s)
        record = {"system": str(names[s]), "mean": float(means[s]), "cluster": cluster}
        records.append(record | {"beaten_by": int(beats[:, s].sum())})
    return records


# --- pairs of texts -----------------------------------------------------------------------------


class TiedPairs:
    """All pairs of texts of one article, by how far apart the judge's two scores are.

    A pair counts where judge and humans order it alike, or both tie it; the judge ties scores no
    farther apart than a threshold. An article's accuracy is the share of its pairs that count, and
    the whole their mean over articles. Of scores 1, 2, 4 and ratings 1, 1, 3 the pairs are right in
    2 of 3 cases with threshold 0, and in all with 1.
    """

    def __init__(self, judge: np.ndarray, human: np.ndarray, group: np.ndarray) -> None:
        """Judge and human [N], and the articles [N] numbered from 0. Scores equal but for rounding
        tie."""
        self.groups = int(group.max(initial=-1)) + 1
        rows_of = np.split(
            np.argsort(group, kind="stable"), np.bincount(group, minlength=1).cumsum()[:-1]
        )
        first, second = np.hstack(
            [rows[np.stack(np.triu_indices(len(rows), 1))] for rows in rows_of]
        )
        ours = _rounded(judge[first] - judge[second])
        theirs = _rounded(human[first] - human[second])
        self.group = group[first]
        self.pairs = np.bincount(self.group, minlength=self.groups)
        self.thresholds, place = np.unique(
            np.concatenate([[0.0], np.abs(ours)]), return_inverse=True
        )
        self.place = place[1:]
        # with a threshold at or above its distance a pair is tied: right if the humans tie it, too
        self.ordered = (ours != 0) & (np.sign(ours) == np.sign(theirs))
        self.gained = (theirs == 0).astype(np.float64) - self.ordered

    def accuracies(self, weights: np.ndarray) -> np.ndarray:
        """[K, B] the mean over articles, as often as each row of weights [B, G] counts them, of the
        accuracy at each of `thresholds`; NaN in a row without an article that has a pair."""
        share = 1 / np.maximum(self.pairs, 1)
        shape = len(self.thresholds), self.groups
        # sparse: of scores that are never equal there are as many thresholds as pairs, each of one
        # article
        gained = scipy.sparse.csr_array(
            (self.gained * share[self.group], (self.place, self.group)), shape=shape
        )
        untied = np.bincount(self.group, self.ordered, self.groups) * share
        drawn = weights.T.astype(np.float64)
        sums = (gained @ drawn).cumsum(axis=0) + untied @ drawn
        return divided(sums, np.broadcast_to((self.pairs > 0) @ drawn, sums.shape))

    def best(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The threshold with the best accuracy in the data, the first row of weights [1 + B, G],
        and the best accuracy [1 + B] in each row, of a threshold of its own. NaN where no article
        has a pair."""
        first = self.accuracies(weights[:1])[:, 0]
        if np.isnan(first).any():
            return 0.0, np.full(len(weights), np.nan)
        best = [
            self.accuracies(weights[here]).max(axis=0) for here in chunks(len(weights), len(first))
        ]
        return float(self.thresholds[np.round(first, _DIGITS).argmax()]), np.concatenate(best)


def _rounded(differences: np.ndarray) -> np.ndarray:
    """Differences equal but for rounding are equal, and those next to 0 are 0."""
    spread = np.abs(differences).max(initial=0.0)
    digits = _DIGITS - 2 - int(np.ceil(np.log10(spread))) if spread > 0 else _DIGITS
    return np.round(differences, digits) + 0.0


# --- two judges ---------------------------------------------------------------------------------


def permuted_both(
    first: np.ndarray,
    second: np.ndarray,
    human: np.ndarray,
    permutations: int = RESAMPLES,
    seed: int = 0,
    swapped: np.ndarray | None = None,
) -> list[dict[str, float | str]]:
    """The PERM-BOTH test of two judges at system level: their standardized scores of single texts
    are swapped.

    Args:
        first, second, human: [S, G] complete tables, see `mean_table`.
        swapped: [P, S * G] of 0 and 1, the swaps to use in place of drawn ones; all there are, if
            any.

    Returns:
        A record a correlation of the systems' means with the humans': statistic; difference: first
        less second; p: two-sided.
    """
    ours, theirs = ((side - side.mean()) / (side.std() or np.inf) for side in (first, second))
    truth = np.round(human.mean(axis=1), _DIGITS)
    rng = np.random.default_rng([seed, 3])

    def gap(*sides: np.ndarray) -> np.ndarray:
        """[3, P] the difference of two sides' correlations over systems, [P, S] each."""
        truths = np.broadcast_to(truth, sides[0].shape)
        of_ours, of_theirs = (correlate_rows(np.round(side, _DIGITS - 2), truths) for side in sides)
        return of_ours - of_theirs

    permuted = []
    for here in chunks(permutations if swapped is None else len(swapped), ours.size):
        size = min(here.stop, permutations) - here.start
        drawn = (
            rng.integers(0, 2, (size, ours.size), dtype=np.int8)
            if swapped is None
            else swapped[here]
        )
        moved = (drawn.reshape(-1, *ours.shape) * (theirs - ours)).sum(axis=2)
        permuted.append(gap(ours.sum(axis=1) + moved, theirs.sum(axis=1) - moved))
    observed = gap(ours.sum(axis=1)[None], theirs.sum(axis=1)[None])[:, 0].tolist()
    return [
        {
            "statistic": name,
            "difference": value,
            "p": permutation_p_value(value, null, swapped is not None),
        }
        for name, value, null in zip(CORRELATIONS, observed, np.hstack(permuted), strict=True)
    ]


def boot_both(
    first: np.ndarray,
    second: np.ndarray,
    human: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """The difference of two judges' correlations over systems, systems and articles resampled
    together (BOOT-BOTH), of complete tables [S, G]: a record a correlation: statistic; difference:
    first less second, with its interval."""
    weights = weights_of(first.shape[1], resamples, seed)
    means = [
        np.round(weights @ side.T / weights.sum(axis=1, keepdims=True), _DIGITS)
        for side in (first, second, human)
    ]
    systems = len(first)
    # the stream of `levels.correlate`, whose resamples over systems these are
    drawn = np.random.default_rng([seed, 2]).integers(0, systems, (len(weights) - 1, systems))
    drawn = np.vstack([np.arange(systems)[None], drawn])
    ours, theirs, truth = (np.take_along_axis(side, drawn, axis=1) for side in means)
    gaps = correlate_rows(ours, truth) - correlate_rows(theirs, truth)
    gaps[:, (drawn == drawn[:, :1]).all(axis=1)] = np.nan
    return [
        {"statistic": name, **with_intervals({"difference": values})}
        for name, values in zip(CORRELATIONS, gaps, strict=True)
    ]
