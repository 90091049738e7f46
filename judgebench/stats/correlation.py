"""Correlations of two vectors, of many pairs of vectors at a time, and of resampled texts;
agreement of raters; and the levels at which judge and humans are compared: all pairs, within each
document, or system against system.

What is constant correlates 0.0, never NaN: a judge that always says the same does not agree with
anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.runtime.fields import LEVELS
from judgebench.stats.clusters import MOST_ENTRIES, Clusters, divided, left_out

CORRELATIONS = ("pearson", "spearman", "kendall")
"""The correlations, in the order in which every array [3, ...] of them holds them."""

SPEARMAN = CORRELATIONS.index("spearman")
"""The place of the correlation by which judges are compared, tuned and chosen."""

_LONG = 150  # entries of a row beyond which sorting it is faster than comparing all with all
# distinct pairs of scores that are compared all with all in less time than scipy.stats takes to
# import
_MANY = 2000


def pearson(judge: np.ndarray, human: np.ndarray) -> float:
    """Pearson's r of two vectors [N]; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    return float(_pearson(judge[None], human[None])[0])


def spearman(judge: np.ndarray, human: np.ndarray) -> float:
    """Spearman's rho of two vectors [N]: Pearson's r of their mid-ranks; 0.0 where either is
    constant."""
    judge, human = vectors(judge, human)
    return float(_pearson(*(np.add(*tied_ranks(side[None])) / 2 for side in (judge, human)))[0])


def kendall(judge: np.ndarray, human: np.ndarray) -> float:
    """Kendall's tau-b of two vectors [N], corrected for ties on both sides; 0.0 where either is
    constant."""
    judge, human = vectors(judge, human)
    if is_constant(judge) or is_constant(human):
        return 0.0
    pairs = DistinctPairs(judge, human, np.zeros(len(judge), int), 1)
    once = np.ones((1, 1))
    if len(pairs.jx) > _MANY:
        # n log n, for seconds of imports
        return float(scipy.stats.kendalltau(judge, human).statistic)
    return float(pairs.correlations(once)[2, 0])


def tied_ranks(values: np.ndarray, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest rank, from 1, that a value [..., N, ...] shares with its equals
    along an axis: their mean is its mid-rank.

    Example:
        >>> [ranks.tolist() for ranks in tied_ranks(np.array([5.0, 1.0, 5.0]))]
        [[2, 1, 2], [3, 1, 3]]
    """
    rows = np.moveaxis(values, axis, -1)
    order = rows.argsort(axis=-1)
    number = np.arange(1, rows.shape[-1] + 1)
    ordered = np.take_along_axis(rows, order, -1)
    first = np.ones(rows.shape, dtype=bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    low = np.maximum.accumulate(np.where(first, number, 0), axis=-1)
    last = np.where(np.roll(first, -1, axis=-1), number, len(number))
    high = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    placed = np.empty((2, *rows.shape), dtype=np.int64)
    np.put_along_axis(placed, order[None], np.stack([low, high]), -1)
    return np.moveaxis(placed[0], -1, axis), np.moveaxis(placed[1], -1, axis)


def vectors(judge: np.ndarray, human: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 [N]; ValueError for other shapes, NaN or infinite values."""
    judge = np.asarray(judge, dtype=np.float64)
    human = np.asarray(human, dtype=np.float64)
    if judge.ndim != 1 or judge.shape != human.shape:
        raise ValueError(
            f"judge and human must be vectors of one length, got {judge.shape} and {human.shape}"
        )
    if not (np.isfinite(judge).all() and np.isfinite(human).all()):
        raise ValueError("judge and human must be finite numbers")
    return judge, human


def is_constant(values: np.ndarray) -> bool:
    """True where all values [N] are equal, to the last bit; also where there are fewer than two.

    Equality is exact on purpose: a judge whose scores differ at all, were it in the ninth digit,
    ranks its examples, and its correlation says how well. Decodings give equal log-probabilities
    equal scores.
    """
    return len(values) < 2 or bool((values == values[0]).all())


def correlate_rows(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """All correlations of many pairs of vectors: [B, N] and [B, N] -> [3, B] in the order of
    `CORRELATIONS`; 0.0 where either side of a row is constant. Many short rows are compared all
    with all at a time, N * N each, for Kendall's tau; long ones take n log n each."""
    rows, width = judge.shape
    if not width:
        return np.zeros((3, rows))
    rho = _pearson(*(np.add(*tied_ranks(side)) / 2 for side in (judge, human)))
    tau = np.zeros(rows)
    step = max(1, MOST_ENTRIES // (width * width))
    if width > _LONG:
        tau = np.array([kendall(x, y) for x, y in zip(judge, human, strict=True)])
    for start in range(0, rows, step) if width <= _LONG else ():
        part = slice(start, start + step)
        x, y = (np.sign(side[part, :, None] - side[part, None, :]) for side in (judge, human))
        tau[part] = ratio(
            (x * y).sum(axis=(1, 2)), (x * x).sum(axis=(1, 2)), (y * y).sum(axis=(1, 2))
        )
    return np.stack([_pearson(judge, human), rho, tau])


def _pearson(judge: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Pearson's r of each row, [B, N] -> [B]."""
    # first to the row's first value: a constant row becomes exactly 0, which its mean's rounding
    # would not promise
    x, y = (side - side[:, :1] for side in (judge, human))
    x, y = (side - side.sum(axis=1, keepdims=True) / max(1, side.shape[1]) for side in (x, y))
    return ratio((x * y).sum(axis=1), (x * x).sum(axis=1), (y * y).sum(axis=1))


def ratio(product: np.ndarray, square_x: np.ndarray, square_y: np.ndarray) -> np.ndarray:
    """product / sqrt(square_x * square_y), held within [-1, 1]; 0.0 where a square is 0. All
    [B]."""
    scale = np.sqrt(square_x) * np.sqrt(square_y)
    return np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 0), -1.0, 1.0)


# --- resampled texts ----------------------------------------------------------------------------

_PAIR_CHUNK = 1 << 18  # entries at work on at a time: they stay near the processor


def resampled_correlations(
    judge: np.ndarray, human: np.ndarray, groups: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The correlations [3, B] of each resample's texts, in the order of `CORRELATIONS`; 0.0 where a
    resample is constant.

    Args:
        groups: [N] the group of each text, numbered 0 to G - 1.
        weights: [B, G] how often each group was drawn. The identity gives each group's own
            correlation.
    """
    if not len(judge) or not len(weights):
        return np.zeros((3, len(weights)))
    return DistinctPairs(judge, human, groups, weights.shape[1]).correlations(weights)


class DistinctPairs:
    """The distinct pairs of scores, and how often each group holds each, from which the
    correlations of resamples follow without building any of them: exactly, not approximately.

    J distinct pairs, sorted by the judge's score: with discrete scores far fewer than texts, at
    worst as many. Kept by hand: scipy's bootstrap of the same three takes a thousand times as long.
    """

    def __init__(
        self, judge: np.ndarray, human: np.ndarray, groups: np.ndarray, group_count: int
    ) -> None:
        self.x, x = np.unique(np.asarray(judge, dtype=np.float64), return_inverse=True)
        self.y, y = np.unique(np.asarray(human, dtype=np.float64), return_inverse=True)
        codes, pair = np.unique(x * len(self.y) + y, return_inverse=True)
        self.jx, self.jy = np.divmod(codes, len(self.y))  # [J] which x, and which y, each pair has
        self.counts = scipy.sparse.csr_array(
            (np.ones(len(pair)), (np.asarray(groups), pair)), shape=(group_count, len(codes))
        )  # [G, J]; equal entries add up

    def correlations(self, weights: np.ndarray) -> np.ndarray:
        """[B, G] weights, whole numbers >= 0 -> [3, B]; 0.0 where a resample is constant."""
        weights = weights.astype(np.float64)
        spearman, untied_x, untied_y = self._ranked(weights)
        return np.stack(
            [self.pearson(weights), spearman, ratio(self._agreeing(weights), untied_x, untied_y)]
        )

    def spearman(self, weights: np.ndarray) -> np.ndarray:
        """Spearman's rho alone, at a fraction of the time: [B, G] -> [B]; 0.0 where a resample is
        constant."""
        return self._ranked(weights.astype(np.float64))[0]

    def pearson(self, weights: np.ndarray) -> np.ndarray:
        """Pearson's r alone, by the scatter within groups and between them: [B, G] -> [B]; 0.0 as
        above.

        Plain moments would cancel where a resample varies far less than the data; this form is 0
        exactly where a resample is constant.
        """
        size = self.counts.sum(axis=1)
        at = self.counts.tocoo()
        filled = size > 0
        mass = weights * size
        total = np.maximum(mass.sum(axis=1), 1.0)
        drawn = (mass > 0).argmax(axis=1)  # a group that the resample holds
        within = []
        between = []
        for values in (self.x[self.jx], self.y[self.jy]):
            # a group's mean is a value of it and the rest: groups of equal values then differ by
            # exactly 0
            first = np.zeros(len(size))
            first[filled] = values[self.counts.indices[self.counts.indptr[:-1][filled]]]
            offsets = values[at.col] - first[at.row]
            rest = np.bincount(at.row, at.data * offsets, len(size)) / np.maximum(size, 1)
            within.append(offsets - rest[at.row])
            apart = (first - first[drawn, None]) + (rest - rest[drawn, None])
            between.append(apart - ((mass * apart).sum(axis=1) / total)[:, None])
        sums = []
        for a, b in ((0, 1), (0, 0), (1, 1)):
            inner = np.bincount(at.row, at.data * within[a] * within[b], len(size))
            sums.append(weights @ inner + (mass * between[a] * between[b]).sum(axis=1))
        return ratio(*sums)

    def _ranked(self, weights: np.ndarray) -> np.ndarray:
        """Spearman's rho, and the ordered pairs of texts not tied in x, and in y: [B, G] -> [3, B].

        With w_k the weight of the k-th distinct value and n the sum, the mid-rank of k is (w_1 +
        ... + w_(k-1)) + (w_k + 1) / 2 and the mean rank (n + 1) / 2. Twice their difference is an
        integer, so all sums are exact. Resamples lie innermost, so that every step is on long rows.
        """
        results = np.empty((3, len(weights)))
        pairs_of = self.counts.T.tocsr()
        places = np.arange(len(self.jx))
        of_x, of_y = (
            scipy.sparse.csr_array((np.ones(len(places)), (side, places)))
            for side in (self.jx, self.jy)
        )
        step = max(16, _PAIR_CHUNK // len(places))
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            pairs = pairs_of @ np.ascontiguousarray(weights[part].T)  # [J, b]
            masses = of_x @ pairs, of_y @ pairs  # [Kx, b], [Ky, b]
            a, b = (2 * upto - mass - upto[-1] for mass in masses for upto in [mass.cumsum(axis=0)])
            product = np.einsum("kb,kb->b", of_y @ (pairs * a[self.jx]), b)
            squares = (
                np.einsum("kb,kb,kb->b", mass, rank, rank)
                for mass, rank in zip(masses, (a, b), strict=True)
            )
            results[0, part] = ratio(product, *squares)
            for k, mass in enumerate(masses, start=1):
                results[k, part] = mass.sum(axis=0) ** 2 - np.einsum("kb,kb->b", mass, mass)
        return results

    def _agreeing(self, weights: np.ndarray) -> np.ndarray:
        """Ordered pairs of texts that agree less those that disagree, as a quadratic form: [B, G]
        -> [B].

        The sum of sign(x_i - x_j) * sign(y_i - y_j) over ordered pairs is w' A w, with w the
        weights of the groups and A [G, G] that sum between two groups; or, as well, with w the
        weights of the distinct pairs of scores and A [J, J]. Time goes as J * J + B * min(G, J)^2,
        in integers.
        """
        by_pair = len(self.jx) <= self.counts.shape[0]
        if by_pair:
            weights = (self.counts.T @ weights.T).T
        sums = np.zeros(len(weights))
        form = np.zeros((self.counts.shape[0],) * 2)
        # the shortest type: a comparison of all with all waits for memory alone
        x, y = (side.astype(np.min_scalar_type(side.max())) for side in (self.jx, self.jy))
        step = max(1, MOST_ENTRIES // len(x))
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            above_x, above_y = (
                (side[:, None] > side[part]).view(np.int8)
                - (side[:, None] < side[part]).view(np.int8)
                for side in (x, y)
            )
            signs = (above_x * above_y).astype(np.float64)  # [J, j]
            if by_pair:
                sums += ((weights @ signs) * weights[:, part]).sum(axis=1)
            else:
                form += self.counts[:, part] @ (self.counts @ signs).T
        return sums if by_pair else ((weights @ form) * weights).sum(axis=1)


def influences(
    scores: np.ndarray, human: np.ndarray, ranked: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's rho (`ranked`) or Pearson's r of each of S judges with the humans [S], and how
    fast it changes with the weight of each text [N, S]: 0 in sum, and all 0 where either side is
    constant.

    The infinitesimal jackknife: Efron, "The Jackknife, the Bootstrap and Other Resampling Plans"
    (1982), section 6.3. With a text's weight change the ranks of all others too. Sorted once, a
    text takes log N, and no resample is built.

    Args:
        scores: [N, S]; human: [N].

    Example:
        Both find the first text worst, and turn the others: with twice its weight rho would rise.

        >>> rho, change = influences(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 2.0]), ranked=True)
        >>> rho.round(2).tolist(), change[:, 0].round(2).tolist()
        ([0.5], [0.5, -0.25, -0.25])
    """
    sides = scores, human[:, None]
    if ranked:
        places = [(np.argsort(side, axis=0), *tied_ranks(side, axis=0)) for side in sides]
        # twice what a rank is above the mean: the texts below less those above, which another
        # text's weight moves
        a, b = (low + high - (len(human) + 1.0) for _, low, high in places)

        def moved(values: np.ndarray, place: tuple[np.ndarray, ...]) -> np.ndarray:
            """The sum of values, themselves 0 in sum, of the texts above each less that of the
            texts below."""
            order, low, high = place
            upto = np.take_along_axis(values, order, axis=0).cumsum(axis=0)
            upto = np.concatenate([np.zeros((1, upto.shape[1])), upto])
            return -np.take_along_axis(upto, low - 1, axis=0) - np.take_along_axis(
                upto, high, axis=0
            )

        changed = [a * b + moved(b, places[0]) + moved(a, places[1])]
        changed += [
            side * side + 2 * moved(side, place) for side, place in zip((a, b), places, strict=True)
        ]
    else:
        a, b = ((side - side[0]) - (side - side[0]).mean(axis=0) for side in sides)
        a, b = (
            np.where((side == side[0]).all(axis=0), 0.0, part)
            for side, part in zip(sides, (a, b), strict=True)
        )
        changed = [a * b, a * a, b * b]
    square_x = (a * a).sum(axis=0)
    square_y = (b * b).sum(axis=0)
    square_y, scale = (
        np.broadcast_to(square_y, square_x.shape),
        np.sqrt(square_x) * np.sqrt(square_y),
    )
    values = ratio((a * b).sum(axis=0), square_x, square_y)
    product, *squares = (
        np.divide(change, below, out=np.zeros(scores.shape), where=scale > 0)
        for change, below in zip(changed, (scale, square_x, square_y), strict=True)
    )
    return values, product - values / 2 * (squares[0] + squares[1])


# --- raters -------------------------------------------------------------------------------------


def krippendorff_alpha(
    ratings: np.ndarray, metric: Literal["interval", "ordinal"] = "interval"
) -> float | None:
    """Krippendorff's alpha of ratings [N, R], NaN where a rater gave none: 1 - observed / expected
    disagreement; 1 is agreement, 0 is chance. None where it is undefined: no two ratings of one
    example, or all ratings equal.

    Args:
        metric: the distance of two values: `interval`, their squared difference; `ordinal`, the
            squared number of ratings ranked between them.
    """
    shared = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return None
    import krippendorff

    return float(krippendorff.alpha(reliability_data=shared.T, level_of_measurement=metric))


def mean_pairwise_spearman(ratings: np.ndarray) -> float | None:
    """The mean over pairs of raters of Spearman's rho on the examples that both rated, from ratings
    [N, R] with NaN where a rater gave none; a constant rater counts 0.0. None if no two raters
    share two examples."""
    rhos = []
    for first, second in combinations(ratings.T, 2):
        both = ~np.isnan(first) & ~np.isnan(second)
        if both.sum() >= 2:
            rhos.append(spearman(first[both], second[both]))
    return float(np.mean(rhos)) if rhos else None


# --- levels -------------------------------------------------------------------------------------


MOST_SYSTEMS = 1000
"""Systems beyond which they have no intervals: each resample would sort all their means."""

_FEWEST_SYSTEMS = 3  # of which drawn ones can differ in their correlation: two always lie on a line


def shown_level(levels: Iterable[str]) -> str:
    """The level that is shown where only one is: dataset where there is one, else the first.

    Example:
        >>> shown_level(["system", "dataset"]), shown_level(["system", "document"])
        ('dataset', 'system')
    """
    names = list(dict.fromkeys(levels))
    return LEVELS[0] if LEVELS[0] in names or not names else names[0]


@dataclass(frozen=True)
class Correlated:
    """The correlations of judge and humans at one level: pearson, spearman, kendall (tau-b).

    Attributes:
        values: [3, 1 + B] of the data, then of each resample of groups.
        n: what was correlated: pairs (dataset), groups (document), systems (system).
        groups: distinct groups, the unit of resampling.
        constant, constant_humans: True where the judge, or the humans, always say the same: over
            all pairs (dataset), within every group (document), in the mean over every system
            (system). The values are then 0.0.
        constant_groups: document level: groups without a correlation, which count as 0.0, because
            judge or humans are constant there.
        human_constant_groups: document level: those of them in which the humans are constant, as of
            a group's only text, which say nothing about the judge.
        varied: [3] document level: the values without those groups; None at other levels, and where
            all are such.
        over_systems: [3, B] system level: the correlations where systems are resampled as well as
            groups; NaN where a resample holds no two systems. [3, 0] at other levels, and with
            fewer than three systems.
        jackknife: [3, J] with each group left out in turn, where that was asked for.
        missing: a sentence that says why there are no correlations, or no intervals; else None.
        known: False where there are no correlations; then values are 0.0, and nothing is resampled.
    """

    values: np.ndarray
    n: int
    groups: int
    constant: bool = False
    constant_humans: bool = False
    constant_groups: int | None = None
    human_constant_groups: int | None = None
    varied: np.ndarray | None = None
    over_systems: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))
    jackknife: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))
    missing: str | None = None
    known: bool = True


def correlate(
    level: str,
    judge: np.ndarray,
    human: np.ndarray,
    clusters: Clusters,
    systems: np.ndarray,
    jackknife: bool = False,
) -> Correlated:
    """Judge [N] against humans [N] at one level, in the data and in each resample of the groups.

    - `dataset`: one correlation over all pairs; the CD paper's.
    - `document`: the mean over groups of the correlation within each; G-Eval's, except that groups
      where it is undefined count as 0.0 instead of being left out.
    - `system`: one correlation over the systems, of judge's and humans' means. `values` keeps the
      systems and resamples their means: it speaks for these systems. `over_systems` resamples the
      systems too, and speaks for systems like these: "both" of Deutsch, Dror and Roth, "A
      Statistical Analysis of Summarization Evaluation Metrics Using Resampling Methods" (TACL
      2021).

    `systems` [N] are labels.
    """
    judge, human = vectors(judge, human)
    group = clusters.number
    count = clusters.count
    weights = clusters.weights
    names, system = np.unique(np.asarray(systems), return_inverse=True)
    # 1. why there is nothing to correlate, and why nothing is resampled
    n = {"dataset": len(judge), "document": count, "system": len(names)}[level]
    if missing := _no_correlation(level, group, system):
        return Correlated(np.zeros((3, 1)), n, count, missing=missing, known=False)
    if count < 2 and clusters.resamples:
        missing = "No intervals: there is one group, and resampling takes at least two."
    elif level == "system" and len(names) > MOST_SYSTEMS and clusters.resamples:
        missing = (
            f"No intervals over systems: {len(names):,} are more than the {MOST_SYSTEMS:,} that "
            "are resampled."
        )
        weights = weights[:1]
    # 2. correlations of the data, of the resamples, and with each group left out
    rows = np.vstack([weights, left_out(count)]) if jackknife and len(weights) > 1 else weights
    facts: dict[str, Any] = {"constant": is_constant(judge), "constant_humans": is_constant(human)}
    if level == "dataset":
        values = resampled_correlations(judge, human, group, rows)
        data = np.array(
            [[correlation(judge, human)] for correlation in (pearson, spearman, kendall)]
        )
    elif level == "document":
        within = _within_groups(judge, human, group, count)
        values, data = (within @ of.T / np.maximum(of.sum(axis=1), 1) for of in (rows, weights[:1]))
        facts = _constant_groups(judge, human, group, within)
    else:
        means = [_means(side, group, system) for side in (judge, human)]
        values, data = (_over_systems(means, of, len(names)) for of in (rows, weights[:1]))
        constant = (is_constant(side(weights[:1])[0]) for side in means)
        facts = dict(zip(("constant", "constant_humans"), constant, strict=True))
        if len(names) >= _FEWEST_SYSTEMS:
            # another stream than those of groups and flips, which are drawn with the same seed
            rng = np.random.default_rng([clusters.seed, 2])
            facts["over_systems"] = _over_systems(means, weights[1:], len(names), rng)
    # 3. the data by themselves: to the bit the same with resamples and without
    resampled = values[:, 1 : len(weights)]
    left = values[:, len(weights) :]
    return Correlated(
        np.hstack([data, resampled]), n, count, jackknife=left, missing=missing, **facts
    )


def _no_correlation(level: str, group: np.ndarray, system: np.ndarray) -> str | None:
    """The reason why there is nothing to correlate, for any scores."""
    if not len(group):
        return "No correlation: nobody rated these texts."
    if level == "system" and not system.any():
        return (
            "No correlation over systems: all texts are of one system, and it takes at least two."
        )
    if len(group) < 2:
        return "No correlation: there is one text, and it takes at least two."
    if level == "document" and len(np.unique(group)) == len(group):
        return "No correlation within groups: no group has two texts."
    return None


def _within_groups(
    judge: np.ndarray, human: np.ndarray, group: np.ndarray, count: int
) -> np.ndarray:
    """[3, G] each group's own correlations, of as many groups of one size at a time as there are;
    0.0 of one text."""
    sizes = np.bincount(group, minlength=count)
    order = np.argsort(group, kind="stable")
    starts = sizes.cumsum() - sizes
    within = np.zeros((3, count))
    for size in np.unique(sizes[sizes > 1]):
        here = np.flatnonzero(sizes == size)
        rows = order[starts[here, None] + np.arange(size)]
        within[:, here] = correlate_rows(judge[rows], human[rows])
    return within


def _constant_groups(
    judge: np.ndarray, human: np.ndarray, group: np.ndarray, within: np.ndarray
) -> dict[str, Any]:
    """The attributes of `Correlated` that speak of groups in which judge or humans are constant."""
    varies = []
    for values in (judge, human):
        low = np.full(within.shape[1], np.inf)
        high = np.full(within.shape[1], -np.inf)
        np.minimum.at(low, group, values)
        np.maximum.at(high, group, values)
        varies.append(low < high)
    judge_varies, human_varies = varies
    return {
        "constant": not judge_varies.any(),
        "constant_humans": not human_varies.any(),
        "constant_groups": int((~(judge_varies & human_varies)).sum()),
        "human_constant_groups": int((~human_varies).sum()),
        "varied": within[:, human_varies].mean(axis=1) if human_varies.any() else None,
    }


Means = Callable[[np.ndarray], np.ndarray]


def _means(values: np.ndarray, group: np.ndarray, system: np.ndarray) -> Means:
    """[B, G] weights -> [B, S] the systems' means in each resample, shifted and scaled by what
    correlations do not see; NaN where a system was not drawn.

    Rounded to 12 digits of the spread: means that are equal in truth must tie, whatever order they
    were summed in.
    """
    spread = np.ptp(values)
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    # sparse: where each text has a group and a system of its own, the tables would grow with the
    # square of the texts
    sizes, sums = (
        scipy.sparse.csr_array((each, (system, group))) for each in (np.ones(len(values)), scaled)
    )

    def at(weights: np.ndarray) -> np.ndarray:
        drawn = weights.T.astype(np.float64)
        return np.ascontiguousarray(np.round(divided(sums @ drawn, sizes @ drawn), 12).T)

    return at


def _over_systems(
    means: Sequence[Means], weights: np.ndarray, count: int, rng: np.random.Generator | None = None
) -> np.ndarray:
    """[3, B] the correlations over systems in each resample of the groups; with `rng`, of as many
    systems drawn from it, and NaN where these are not two."""
    correlations = np.zeros((3, len(weights)))
    step = max(1, MOST_ENTRIES // count)
    for start in range(0, len(weights), step):
        x, y = (side(weights[start : start + step]) for side in means)
        part = correlations[:, start : start + step]
        if rng is not None:
            drawn = rng.integers(0, count, x.shape)
            x, y = (np.take_along_axis(side, drawn, axis=1) for side in (x, y))
        present = ~np.isnan(x)
        whole = present.all(axis=1)
        part[:, whole] = correlate_rows(x[whole], y[whole])
        # a system whose articles were not drawn has no mean in this resample
        for row in np.flatnonzero(~whole):
            of = present[row]
            part[:, row] = correlate_rows(x[row : row + 1, of], y[row : row + 1, of])[:, 0]
        if rng is not None:
            last = np.where(present, drawn, -1).max(axis=1)
            first = np.where(present, drawn, count).min(axis=1)
            part[:, last <= first] = np.nan
    return correlations
