"""Correlations of two vectors, of many pairs of vectors at a time, and of resampled texts;
agreement of raters; and the levels at which judge and humans are compared: all pairs, within each
document, or system against system.

What is constant correlates 0.0, never NaN: a judge that always says the same does not agree with
anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.settings.metrics import LEVELS
from judgebench.stats.clusters import Clusters, chunks, left_out, safe_divide, without_nan
from judgebench.types import Array, Record

CORRELATIONS = ("pearson", "spearman", "kendall")
"""The correlations, in the order in which every array [3, ...] of them holds them."""

SPEARMAN = CORRELATIONS.index("spearman")
"""The place of the correlation by which judges are compared, tuned and chosen."""

_LONG = 150  # entries of a row beyond which sorting it is faster than comparing all with all
# texts that are compared all with all in less time than scipy.stats takes to import
_MANY = 2000


def pearson(judge: Array, human: Array) -> float:
    """Pearson's r of two vectors [N]; 0.0 where either is constant."""
    judge, human = vectors(judge, human)
    return float(_pearson(judge[None], human[None])[0])


def spearman(judge: Array, human: Array) -> float:
    """Spearman's rho of two vectors [N]: Pearson's r of their mid-ranks; 0.0 where either is
    constant."""
    judge, human = vectors(judge, human)
    return float(_pearson(mid_ranks(judge[None]), mid_ranks(human[None]))[0])


def kendall(judge: Array, human: Array) -> float:
    """Kendall's tau-b of two vectors [N], corrected for ties on both sides; 0.0 where either is
    constant."""
    judge, human = vectors(judge, human)
    if len(judge) > _MANY and not is_constant(judge) and not is_constant(human):
        # n log n, for seconds of imports
        return float(scipy.stats.kendalltau(judge, human).statistic)
    one_group = np.zeros(len(judge), dtype=np.int64)
    return float(resampled_correlations(judge, human, one_group, np.ones((1, 1)))[2, 0])


def tied_ranks(values: Array, axis: int = -1) -> tuple[Array, Array]:
    """The lowest and the highest rank, from 1, that a value, [N] or along an axis of [B, N], shares
    with its equals: their mean is its mid-rank.

    Example:
        >>> [ranks.tolist() for ranks in tied_ranks(np.array([5.0, 1.0, 5.0]))]
        [[2, 1, 2], [3, 1, 3]]
    """

    def ranks(row: Array) -> Array:
        ordered = np.sort(row)
        low = np.searchsorted(ordered, row, "left") + 1
        return np.stack([low, np.searchsorted(ordered, row, "right")])

    low, high = np.moveaxis(np.apply_along_axis(ranks, axis, values), 2 * axis, 0)
    return low, high


def mid_ranks(values: Array) -> Array:
    """The mid-ranks of each row, from 1: [B, N] -> [B, N]."""
    low, high = tied_ranks(values)
    return (low + high) / 2


def vectors(judge: Array, human: Array) -> tuple[Array, Array]:
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


def is_constant(values: Array) -> bool:
    """True where all values [N] are equal, to the last bit; also where there are fewer than two.

    Equality is exact on purpose: a judge whose scores differ at all, were it in the ninth digit,
    ranks its examples, and its correlation says how well. Decodings give equal log-probabilities
    equal scores.
    """
    return len(values) < 2 or bool((values == values[0]).all())


def correlate_rows(judge: Array, human: Array) -> Array:
    """All correlations of many pairs of vectors: [B, N] and [B, N] -> [3, B] in the order of
    `CORRELATIONS`; 0.0 where either side of a row is constant. Many short rows are compared all
    with all at a time, N * N each, for Kendall's tau; long ones take n log n each."""
    rows, width = judge.shape
    if not judge.size:
        return np.zeros((3, rows))
    # all pairs of a row at once, N * N signs, are faster for short rows than sorting each
    if width > _LONG:
        tau = np.array([kendall(x, y) for x, y in zip(judge, human, strict=True)])
        ranks = [mid_ranks(judge), mid_ranks(human)]
    else:
        tau = np.zeros(rows)
        ranks = [np.empty((rows, width)), np.empty((rows, width))]
        first, second = np.triu_indices(width, 1)
        # [N, P] which pairs an entry is the first of, less which it is the second of
        places = np.arange(width)[:, None]
        sides = np.subtract(first == places, second == places, dtype=np.float32)
        for part in chunks(rows, len(first)):
            signs = []
            for values, ranked in zip((judge, human), ranks, strict=True):
                columns = np.ascontiguousarray(values[part].T)
                above = columns[first]
                below = columns[second]
                # [P, b] of each pair; in 4 bytes, in which sums of `_LONG` squared are exact
                sign = np.subtract(above > below, above < below, dtype=np.float32)
                # the entries below less those above: twice what the mid-rank is above the mean
                ranked[part] = (sides @ sign).T
                signs.append(sign)
            x, y = signs
            tau[part] = ratio(*(np.einsum("pb,pb->b", *both) for both in ((x, y), (x, x), (y, y))))
    return np.stack([_pearson(judge, human), _pearson(*ranks), tau])


def _pearson(judge: Array, human: Array) -> Array:
    """Pearson's r of each row, [B, N] -> [B]."""
    x = _centered(judge)
    y = _centered(human)
    return ratio((x * y).sum(axis=1), (x * x).sum(axis=1), (y * y).sum(axis=1))


def _centered(values: Array) -> Array:
    """Each row less its mean, [B, N] -> [B, N]: exactly 0 in a constant row, which the rounding of
    its mean alone would not promise."""
    # less the first entry, then less the mean: equal entries are 0 before anything is rounded
    apart = values - values[:, :1]
    return apart - apart.sum(axis=1, keepdims=True) / max(1, values.shape[1])


def ratio(product: Array, square_x: Array, square_y: Array) -> Array:
    """product / sqrt(square_x * square_y), held within [-1, 1]; 0.0 where a square is 0. All
    [B]."""
    # root by root: the product of both squares may leave the range of numbers
    scale = np.sqrt(square_x, dtype=np.float64) * np.sqrt(square_y, dtype=np.float64)
    return np.clip(np.divide(product, scale, out=np.zeros_like(scale), where=scale > 0), -1.0, 1.0)


# --- resampled texts ----------------------------------------------------------------------------

_PAIR_CHUNK = 1 << 18  # entries at work on at a time: they stay near the processor
_EXACT = 1 << 24  # whole numbers up to which 4 bytes hold each


def resampled_correlations(judge: Array, human: Array, groups: Array, weights: Array) -> Array:
    """The correlations [3, B] of each resample's texts, in the order of `CORRELATIONS`; 0.0 where a
    resample is constant.

    Args:
        groups: [N] the group of each text, numbered 0 to G - 1.
        weights: [B, G] how often each group was drawn. The identity gives each group's own
            correlation.
    """
    if not len(judge):
        return np.zeros((3, len(weights)))
    return DistinctPairs(judge, human, groups, weights.shape[1]).correlations(weights)


class DistinctPairs:
    """The distinct pairs of scores, and how often each group holds each, from which the
    correlations of resamples follow without building any of them: exactly, not approximately.

    J distinct pairs, sorted by the judge's score: with discrete scores far fewer than texts, at
    worst as many. Kept by hand: scipy's bootstrap of the same three takes a thousand times as long.
    """

    def __init__(self, judge: Array, human: Array, groups: Array, group_count: int) -> None:
        groups = np.asarray(groups)
        self.x = _Values(judge, groups, group_count)
        self.y = _Values(human, groups, group_count)
        # one code for each pair of places: a sort of whole numbers in place of one of rows
        several = len(self.y.values)
        codes, pair = np.unique(self.x.place * several + self.y.place, return_inverse=True)
        self.jx, self.jy = np.divmod(codes, several)  # [J] which x, and which y, each pair has
        count = len(codes)
        places = np.arange(count)
        # 4 bytes: a product with 8 of them takes 8
        ones = np.ones(len(pair), dtype=np.float32)
        self.pairs_of = _sums_by(pair, count, groups, group_count, ones)  # [J, G]
        ones = ones[:count]
        # where every pair has an x of its own, in this order, a table over xs is one over pairs
        self.of_x = None
        if len(self.x.values) < count:
            self.of_x = _sums_by(self.jx, len(self.x.values), places, count, ones)  # [Kx, J]
        self.of_y = _sums_by(self.jy, len(self.y.values), places, count, ones)  # [Ky, J]

    def correlations(self, weights: Array) -> Array:
        """[B, G] weights, whole numbers >= 0 -> [3, B]; 0.0 where a resample is constant."""
        spearman, untied_x, untied_y = self._ranked(weights)
        kendall = ratio(self._agreeing(weights.astype(np.float64)), untied_x, untied_y)
        return np.stack([self.pearson(weights), spearman, kendall])

    def spearman(self, weights: Array) -> Array:
        """Spearman's rho alone, at a fraction of the time: [B, G] -> [B]; 0.0 where a resample is
        constant."""
        return self._ranked(weights)[0]

    def pearson(self, weights: Array) -> Array:
        """Pearson's r alone: [B, G] -> [B]; 0.0 as above.

        Each resample's distances are from its own mean, for plain moments would cancel where it
        varies far less than the data.
        """
        correlations = np.empty(len(weights))
        for part in chunks(len(weights), len(self.jx)):
            mass = self.pairs_of @ weights[part].T.astype(np.float64)  # [J, b]
            x = _apart(self.x.values[self.jx], mass)
            y = _apart(self.y.values[self.jy], mass)
            weighted = mass * x
            correlations[part] = ratio(
                np.einsum("kb,kb->b", weighted, y),
                np.einsum("kb,kb->b", weighted, x),
                np.einsum("kb,kb,kb->b", mass, y, y),
            )
        return correlations

    def _ranked(self, weights: Array) -> Array:
        """Spearman's rho, and the ordered pairs of texts not tied in x, and in y: [B, G] -> [3, B].

        All sums are of whole numbers, and exact. Resamples lie innermost, so that every step is on
        long rows.
        """
        results = np.empty((3, len(weights)))
        # some resamples at a time: the tables [J, b] stay in the processor's cache
        step = max(16, _PAIR_CHUNK // len(self.jx))
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            drawn = np.ascontiguousarray(weights[part].T, dtype=np.float64)  # [G, b]
            count = self.x.sizes @ drawn
            # no sum of weights and ranks is beyond the square of the texts
            exact = np.float32 if count.max() ** 2 < _EXACT else np.float64
            pairs = self.pairs_of @ drawn.astype(exact)  # [J, b]
            mass_x = pairs if self.of_x is None else self.of_x @ pairs  # [Kx, b]
            mass_y = np.asarray(self.of_y @ pairs, dtype=np.float64)  # [Ky, b]
            untied_x = self.x.untied(mass_x, drawn)
            untied_y = self.y.untied(mass_y, drawn)
            # the sum over pairs of w x y: first over the pairs of each y, then over the ys, whose
            # ranks are from their mean, so that those of x may be from any number
            ranks = _twice_ranks(mass_x)
            pairs *= ranks if self.of_x is None else ranks[self.jx]
            of_y = self.of_y @ pairs
            product = np.einsum("kb,kb->b", of_y, _twice_ranks(mass_y) - count)
            # squares of ranks are a third of the triples that are not all tied
            results[0, part] = ratio(3 * product, untied_x[1], untied_y[1])
            results[1:, part] = untied_x[0], untied_y[0]
        return results

    def _agreeing(self, weights: Array) -> Array:
        """Ordered pairs of texts that agree less those that disagree, as a quadratic form: [B, G]
        -> [B].

        The sum of sign(x_i - x_j) * sign(y_i - y_j) over ordered pairs is w' A w, with w the
        weights of the groups and A [G, G] that sum between two groups; or, as well, with w the
        weights of the distinct pairs of scores and A [J, J]. Time goes as J * J + B * min(G, J)^2,
        in integers.
        """
        # the smaller of both forms: of few distinct scores, or of few groups
        groups = self.pairs_of.shape[1]
        by_pair = len(self.jx) <= groups
        if by_pair:
            weights = (self.pairs_of @ weights.T).T
        sums = np.zeros(len(weights))
        form = np.zeros((groups, groups))
        # the shortest type: a comparison of all with all waits for memory alone
        x = self.jx.astype(np.min_scalar_type(len(self.jx)))
        y = self.jy.astype(np.min_scalar_type(len(self.jx)))
        for part in chunks(len(x), len(x)):
            # 1 where both sides order two pairs alike, -1 where they do not, 0 where one of them
            # ties
            signs = (_above(x, part) * _above(y, part)).astype(np.float64)  # [J, j]
            if by_pair:
                sums += ((weights @ signs) * weights[:, part]).sum(axis=1)
            else:
                form += self.pairs_of[part].T @ (signs.T @ self.pairs_of)
        return sums if by_pair else ((weights @ form) * weights).sum(axis=1)


class _Values:
    """The distinct values [K] of texts, ascending.

    Attributes:
        place: [N] each text's.
        sizes: [G] texts of each group; alone: those of them whose value no other text has.
        tied: [K] True for values of several texts.
    """

    def __init__(self, values: Array, groups: Array, group_count: int) -> None:
        values = np.asarray(values, dtype=np.float64)
        self.values, self.place, counts = np.unique(values, return_inverse=True, return_counts=True)
        self.tied = counts > 1
        self.sizes = np.bincount(groups, minlength=group_count)
        self.alone = np.bincount(groups, ~self.tied[self.place], group_count)

    def untied(self, mass: Array, drawn: Array) -> list[Array]:
        """Ordered pairs of texts with different values, and ordered triples that are not all of one
        value, [b] each; of values that count so often, mass [K, b], and groups that do, [G, b]."""
        mass = mass[self.tied].astype(np.float64)
        # a text by itself counts as often as its group: no table over all values
        sides = [self.sizes @ drawn, drawn, mass]
        powers = sides
        untied = []
        for _ in ("pairs", "triples"):
            powers = [power * side for power, side in zip(powers, sides, strict=True)]
            count, alone, shared = powers
            tied = self.alone @ alone + shared.sum(axis=0)
            untied.append(count - tied)
        return untied


def _sums_by(
    rows: Array, height: int, columns: Array, width: int, entries: Array
) -> scipy.sparse.csr_array:
    """The matrix [height, width] with these entries [N] in the rows and columns [N]; equal places add
    up."""
    # sparse: where each text has a group and a system of its own, tables would grow with the square
    # of the texts
    order = np.argsort(rows, kind="stable")
    starts = np.append(0, np.bincount(rows, minlength=height).cumsum())
    return scipy.sparse.csr_array((entries[order], columns[order], starts), shape=(height, width))


def _twice_ranks(mass: Array) -> Array:
    """Twice the mid-ranks, less 1, of ascending values that count so often: [K, b] -> [K, b].

    With w_k the weight of the k-th value, its mid-rank is (w_1 + ... + w_(k-1)) + (w_k + 1) / 2,
    and twice that a whole number.
    """
    # running sums within blocks, then of the blocks: NumPy's take each column by itself
    count, many = mass.shape
    width = math.isqrt(count)
    blocks = -(-count // width)
    sums = np.zeros((blocks, width, many), dtype=mass.dtype)
    ranks = sums.reshape(-1, many)[:count]
    ranks[:] = mass
    for place in range(1, width):
        sums[:, place] += sums[:, place - 1]
    for block in range(1, blocks):
        sums[block] += sums[block - 1, -1]
    ranks *= 2
    ranks -= mass
    return ranks


def _apart(values: Array, mass: Array) -> Array:
    """Distances of values [K] from their mean, as they count so often: [K, b] -> [K, b]; 0 of those
    that are all the same."""
    apart = values[:, None] - values[(mass > 0).argmax(axis=0)]
    return apart - (apart * mass).sum(axis=0) / np.maximum(mass.sum(axis=0), 1.0)


def _above(values: Array, part: slice) -> Array:
    """1 where a value [J] is above another of a part [j], -1 where it lies below: [J, j] int8."""
    above = (values[:, None] > values[part]).view(np.int8)
    below = (values[:, None] < values[part]).view(np.int8)
    return above - below


def influences(scores: Array, human: Array, ranked: bool) -> tuple[Array, Array]:
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
    human = human[:, None]
    # 1. both sides less their means, and how fast their products change with each text's weight
    if ranked:
        x = _Ranks.of(scores)
        y = _Ranks.of(human)
        a = x.ranks
        b = y.ranks
        change = a * b + x.moved(b) + y.moved(a)
        change_x = a * a + 2 * x.moved(a)
        change_y = b * b + 2 * y.moved(b)
    else:
        a = _centered(scores.T).T
        b = _centered(human.T).T
        change = a * b
        change_x = a * a
        change_y = b * b
    # 2. the correlations [S]
    square_x = (a * a).sum(axis=0)
    square_y = np.broadcast_to((b * b).sum(axis=0), square_x.shape)
    scale = np.sqrt(square_x) * np.sqrt(square_y)
    values = ratio((a * b).sum(axis=0), square_x, square_y)

    # 3. their changes [N, S]
    def part(change: Array, below: Array) -> Array:
        return np.divide(change, below, out=np.zeros(scores.shape), where=scale > 0)

    # the quotient rule of a / sqrt(b c): change of a, less half of the value times those of b and c
    squares = part(change_x, square_x) + part(change_y, square_y)
    return values, part(change, scale) - values / 2 * squares


def pair_influences(scores: Array, human: Array) -> tuple[Array, Array]:
    """The share of pairs of texts with different ratings that each of S judges orders as the
    humans do [S], half of those with equal scores, and how fast it changes with the weight of each
    text [N, S]; .5 and 0 where no two ratings differ. Of two ratings it is the area under the ROC
    curve.

    Args:
        scores: [N, S]; human: [N], of few different values.

    Example:
        >>> share, change = pair_influences(np.array([[1.0], [2.0], [2.0]]), np.array([0.0, 0.0, 1.0]))
        >>> share.tolist(), change[:, 0].round(2).tolist()
        ([0.75], [0.12, -0.12, 0.0])
    """
    right = np.zeros(scores.shape)
    pairs = np.zeros(len(human))
    # a loop over ratings and not over pairs: of few ratings, sorting the scores of each is enough
    for rating in np.unique(human):
        here = human == rating
        sign = np.sign(human - rating)  # 1 of texts that should lie above those here
        pairs += here.sum() * (sign != 0)
        for number, column in enumerate(scores.T):
            ordered = np.sort(column[here])
            below = np.searchsorted(ordered, column, "left")
            upto = np.searchsorted(ordered, column, "right")
            ahead = (below + upto) / 2
            # the place in the middle of equal scores counts half of them
            right[:, number] += np.where(sign > 0, ahead, here.sum() - ahead) * (sign != 0)
    if not pairs.any():
        return np.full(scores.shape[1], 0.5), np.zeros(scores.shape)
    share = right.sum(axis=0) / pairs.sum()
    # each pair is counted from both of its texts, so a text's part in it counts twice
    return share, 2 * (right - share * pairs[:, None]) / pairs.sum()


class _Ranks(NamedTuple):
    """Columns of values [N, S], by rank.

    Attributes:
        order, low, high: the texts in ascending order, and the lowest and highest rank of each.
        ranks: twice what the mid-rank is above the mean: the texts below less those above.
    """

    order: Array
    low: Array
    high: Array
    ranks: Array

    @classmethod
    def of(cls, values: Array) -> _Ranks:
        low, high = tied_ranks(values, axis=0)
        # low + high is twice the mid-rank, N + 1 twice the mean rank: whole numbers, exact sums
        ranks = low + high - (len(values) + 1.0)
        return cls(np.argsort(values, axis=0), low, high, ranks)

    def moved(self, values: Array) -> Array:
        """The sum of values [N, S], themselves 0 in sum, of the texts above each less that of the
        texts below."""
        # sums over all texts below, by one pass over the sorted values; the sum of all is 0
        upto = np.take_along_axis(values, self.order, axis=0).cumsum(axis=0)
        upto = np.concatenate([np.zeros((1, upto.shape[1])), upto])
        below = np.take_along_axis(upto, self.low - 1, axis=0)
        return -below - np.take_along_axis(upto, self.high, axis=0)


# --- raters -------------------------------------------------------------------------------------


def krippendorff_alpha(
    ratings: Array, metric: Literal["interval", "ordinal"] = "interval"
) -> float | None:
    """Krippendorff's alpha of ratings [N, R], NaN where a rater gave none: 1 - observed / expected
    disagreement; 1 is agreement, 0 is chance. None where it is undefined: no two ratings of one
    example, or all ratings equal.

    Args:
        metric: the distance of two values: `interval`, their squared difference; `ordinal`, the
            squared number of ratings ranked between them.
    """
    # a text with one rating is in no pair, and alpha is of pairs
    shared = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    if len(np.unique(without_nan(shared))) < 2:
        return None
    import krippendorff

    return float(krippendorff.alpha(reliability_data=shared.T, level_of_measurement=metric))


def mean_pairwise_spearman(ratings: Array) -> float | None:
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
        values: [3, 1 + B] of the data, then of each resample of groups; [3, 1] of NaN where there
            are no correlations.
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
        law: weights of the groups [B, G] -> the correlations [3, B].
        missing: in a word why there are no correlations (no ratings, one system, one text, single
            texts), or no intervals (one group, many systems); else None.
    """

    values: Array
    n: int
    groups: int
    constant: bool = False
    constant_humans: bool = False
    constant_groups: int | None = None
    human_constant_groups: int | None = None
    varied: Array | None = None
    over_systems: Array = field(default_factory=lambda: np.zeros((3, 0)))
    law: Callable[[np.ndarray], np.ndarray] = lambda weights: np.zeros((3, 0))
    missing: str | None = None

    @cached_property
    def jackknife(self) -> Array:
        """[3, J] with each group left out in turn; J is 0 of one group."""
        return self.law(left_out(self.groups)[: self.groups if self.groups > 1 else 0])

    @property
    def figures(self) -> dict[str, Array]:
        """`CORRELATIONS` by their names, [1 + B] each."""
        return dict(zip(CORRELATIONS, self.values, strict=True))

    @property
    def known(self) -> bool:
        """False where there are no correlations."""
        return not np.isnan(self.values[:, 0]).any()


def correlate(
    level: str,
    judge: Array,
    human: Array,
    clusters: Clusters,
    systems: Array,
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
        return Correlated(np.full((3, 1), np.nan), n, count, missing=missing)
    if count < 2 and clusters.resamples:
        missing = "one group"
    elif level == "system" and len(names) > MOST_SYSTEMS and clusters.resamples:
        missing = "many systems"
        weights = weights[:1]
    # 2. correlations of the data, and of the resamples
    facts: Record = {"constant": is_constant(judge), "constant_humans": is_constant(human)}
    if level == "dataset":
        pairs = DistinctPairs(judge, human, group, count)
        law = pairs.correlations
    elif level == "document":
        within = _within_groups(judge, human, group, count)
        facts = _constant_groups(
            judge,
            human,
            group,
            within,
        )
        law = partial(_mean_over_groups, within)
    else:
        sides = [_means(side, group, system, count) for side in (judge, human)]
        law = partial(_over_systems, sides)
        for name, side in zip(facts, sides, strict=True):
            facts[name] = is_constant(side(weights[:1])[0])
        # groups and systems are drawn independently of each other, as "both" of the paper asks
        if len(names) >= _FEWEST_SYSTEMS:
            # another stream than those of groups and flips, which are drawn with the same seed
            rng = np.random.default_rng([clusters.seed, 2])
            facts["over_systems"] = law(weights[1:], rng)
    # the data by themselves: to the bit the same with resamples and without
    data = law(weights[:1])
    values = np.hstack([data, law(weights[1:])])
    return Correlated(values, n, count, law=law, missing=missing, **facts)


def _no_correlation(level: str, group: Array, system: Array) -> str | None:
    """The reason why there is nothing to correlate, for any scores."""
    if not len(group):
        return "no ratings"
    if level == "system" and not system.any():
        return "one system"
    if len(group) < 2:
        return "one text"
    if level == "document" and len(np.unique(group)) == len(group):
        return "single texts"
    return None


def _mean_over_groups(within: Array, weights: Array) -> Array:
    """[3, B] the means of the groups' own correlations [3, G] by weights [B, G]."""
    # a group's correlation does not depend on what else is drawn: resampling is a mean by weights
    return within @ weights.T / np.maximum(weights.sum(axis=1), 1)


def _within_groups(judge: Array, human: Array, group: Array, count: int) -> Array:
    """[3, G] each group's own correlations, of as many groups of one size at a time as there are;
    0.0 of one text."""
    sizes = np.bincount(group, minlength=count)
    # groups of one size form a rectangle [groups, size]: no loop over thousands of documents
    order = np.argsort(group, kind="stable")
    starts = sizes.cumsum() - sizes
    within = np.zeros((3, count))
    several = sizes[sizes > 1]
    for size in np.unique(several):
        here = np.flatnonzero(sizes == size)
        places = starts[here, None] + np.arange(size)
        rows = order[places]  # [groups, size]
        within[:, here] = correlate_rows(judge[rows], human[rows])
    return within


def _constant_groups(judge: Array, human: Array, group: Array, within: Array) -> Record:
    """The attributes of `Correlated` that speak of groups in which judge or humans are constant."""
    varies = np.zeros((within.shape[1], 2), dtype=bool)  # [G, 2]
    for side, values in enumerate((judge, human)):
        any_of = np.zeros(len(varies))
        any_of[group] = values  # one of each group's
        varies[group[values != any_of[group]], side] = True
    human_varies = varies[:, 1]
    return {
        "constant": not varies[:, 0].any(),
        "constant_humans": not human_varies.any(),
        "constant_groups": int((~varies.all(axis=1)).sum()),
        "human_constant_groups": int((~human_varies).sum()),
        "varied": within[:, human_varies].mean(axis=1) if human_varies.any() else None,
    }


Means = Callable[[np.ndarray], np.ndarray]


def _means(values: Array, group: Array, system: Array, groups: int) -> Means:
    """[B, G] weights -> [B, S] the systems' means in each resample, shifted and scaled by what
    correlations do not see; NaN where a system was not drawn.

    Rounded to 12 digits of the spread: means that are equal in truth must tie, whatever order they
    were summed in.
    """
    spread = np.ptp(values)
    # to spread 1, so that rounding to so many digits means the same for any scale
    lowest = values.min()
    scaled = (values - lowest) / (spread or 1.0)
    systems = int(system.max()) + 1
    place = (system, systems, group, groups)
    sums = _sums_by(*place, scaled)
    sizes = _sums_by(*place, np.ones(len(values)))

    def at(weights: Array) -> Array:
        drawn = np.ascontiguousarray(weights.T, dtype=np.float64)
        means = safe_divide(sums @ drawn, sizes @ drawn)
        rounded = np.round(means, 12)
        return np.ascontiguousarray(rounded.T)

    return at


def _over_systems(
    sides: Sequence[Means], weights: Array, rng: np.random.Generator | None = None
) -> Array:
    """[3, B] the correlations over systems in each resample of the groups, of which judge and humans
    each give the means; with `rng`, of as many systems drawn from it, and NaN where these are not
    two."""
    means = [side(weights) for side in sides]
    count = means[0].shape[1]
    correlations = np.zeros((3, len(weights)))
    for rows in chunks(len(weights), count):
        x, y = (side[rows] for side in means)  # [b, S]
        part = correlations[:, rows]
        if rng is not None:
            drawn = rng.integers(0, count, x.shape)
            x = np.take_along_axis(x, drawn, axis=1)
            y = np.take_along_axis(y, drawn, axis=1)
        present = ~np.isnan(x)
        whole = present.all(axis=1)
        part[:, whole] = correlate_rows(x[whole], y[whole])
        # a system whose articles were not drawn has no mean in this resample
        for row in np.flatnonzero(~whole):
            systems = present[row]
            one_row = correlate_rows(x[[row]][:, systems], y[[row]][:, systems])
            part[:, row] = one_row[:, 0]
        if rng is not None:
            last = np.where(present, drawn, -1).max(axis=1)
            first = np.where(present, drawn, count).min(axis=1)
            # all systems drawn are one and the same: there is nothing to correlate
            part[:, last <= first] = np.nan
    return correlations
