"""Strengths of systems compared two at a time, and preferences between two texts compared with the
humans'.

The model is Bradley and Terry's ("Rank Analysis of Incomplete Block Designs", 1952). A comparison
of i and j is won by i with odds of `e^d`, where d is the strength of i less that of j, and more
where i stood in place one. What a place is worth enters as in Davidson and Beaver ("On Extending
the Bradley-Terry Model to Incorporate Within-Pair Order Effects", 1977). A tie is half a win for
each. Outcomes may be shares: a judge that prefers a text with probability 0.7 has 0.7 of a win, and
the likelihood is then a quasi-likelihood, whose intervals must come from resampling.

Two systems of which one won 3 of 4 comparisons are log(3 / 1) = 1.1 apart, 191 Elo points. Kept by
hand: no library fits a thousand resamples at a time, with places and shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import (
    Clusters,
    chunks,
    safe_divide,
    unknown,
    with_intervals,
)
from judgebench.stats.correlation import ratio
from judgebench.types import Array, Record

ELO = 400 / math.log(10)
"""Points on the Elo scale that a strength of 1 is: odds of 10 to 1 are 400 points."""

ELO_MEAN = 1000.0
"""The Elo points of strength 0."""

_MOST_STEPS = 100
_SMALLEST_STEP = 1e-10  # in log-odds


@dataclass(frozen=True)
class Comparisons:
    """Counts of who met whom and how it ended, group by group.

    Attributes:
        systems: number of systems, K.
        first, second: [E] numbers of the two, `first` below `second`; several entries may be about
            the same two.
        place: [E] 1 where `first` stood in place one, -1 where `second` did, 0 where that is
            unknown.
        counts: [3 * E, G] how often `first` won, both tied, `first` lost, in each group.
    """

    systems: int
    first: Array
    second: Array
    place: Array
    counts: scipy.sparse.csr_array

    @classmethod
    def of(
        cls, systems: int, groups: int, met: Array, group: Array, outcomes: Array
    ) -> Comparisons:
        """From single comparisons; those of a system with itself say nothing and are left out.

        Args:
            met: [3, n] int64, the numbers of the two, 0 to K - 1, then the place as above.
            group: [n] 0 to G - 1.
            outcomes: [3, n] how much of a win, a tie and a loss each was for the first of the two.
        """
        # 1. the system with the lower number first
        first, second, place = met
        # one entry for a pair whoever is named first: a turned one exchanges its ends, and its
        # place
        turned = first > second
        kinds = np.where(turned, [second, first, -place], met)  # [3, n]
        ends = np.where(turned, outcomes[::-1], outcomes)
        apart = first != second
        kinds = kinds[:, apart]
        ends = ends[:, apart]
        # 2. comparisons of the same two in the same places are one entry
        # Comparisons are many, pairs of systems few: the likelihood needs counts alone, and a
        # resample is one product of counts and weights.
        entries, entry = np.unique(kinds, axis=1, return_inverse=True)
        count = entries.shape[1]
        # wins, ties and losses of all entries one below the other, in one table
        rows = entry.reshape(-1) + count * np.arange(3)[:, None]  # [3, n]
        columns = np.tile(group[apart], 3)
        entries_of = ends.reshape(-1), (rows.reshape(-1), columns)
        counts = scipy.sparse.coo_array(entries_of, shape=(3 * count, groups))
        first, second, place = entries
        return cls(systems, first, second, place, scipy.sparse.csr_array(counts))

    def outcomes(self, weights: Array | None = None) -> Array:
        """[3, B, E] wins, ties and losses of `first` where each group counts as often as `weights`
        [B, G] say; over all groups without."""
        if weights is None:
            weights = np.ones((1, self.counts.shape[1]))
        counts = self.counts @ weights.T  # [3 * E, B]
        shape = 3, len(self.first), len(weights)
        return np.asarray(counts.reshape(shape).transpose(0, 2, 1))

    def table(self) -> Array:
        """[3, K, K] how often the row's system won against, tied with and lost to the column's,
        over all groups."""
        wins, ties, losses = self.outcomes()[:, 0]
        counts = np.zeros((3, self.systems, self.systems))
        for kind, (ahead, behind) in enumerate(((wins, losses), (ties, ties), (losses, wins))):
            np.add.at(counts[kind], (self.first, self.second), ahead)
            np.add.at(counts[kind], (self.second, self.first), behind)
        return counts

    @property
    def parts(self) -> list[list[int]]:
        """The systems that met, directly or through others, a list a part; nothing compares one
        part with another."""
        # whoever met, whoever won: apart from the others a strength has no zero in common with
        # theirs
        return _components(self.table().sum(axis=0), "weak")

    @property
    def levels(self) -> list[list[int]]:
        """The systems in levels, of which none above ever lost to or tied with any below: one level
        where strengths are finite without a prior. The best level is first, if levels have met."""
        wins, tied, _ = self.table()
        # Ford's condition: strengths are finite where every system beat every other, directly or
        # through others
        beaten = wins + tied

        def reached(level: list[int]) -> int:
            """Number of systems that it beat or tied with, directly or through others."""
            order = scipy.sparse.csgraph.breadth_first_order
            return len(order(beaten > 0, level[0], return_predecessors=False))

        return sorted(_components(beaten, "strong"), key=reached, reverse=True)

    @property
    def decided_by_place(self) -> bool:
        """True where the side in place one wins every comparison, or loses every one."""
        won, tied, lost = self.outcomes()[:, 0]
        ahead = np.where(self.place > 0, won, lost)
        behind = np.where(self.place > 0, lost, won)
        decided = bool(len(self.place)) and bool(self.place.all()) and not tied.any()
        return decided and not (ahead.any() and behind.any())

    @property
    def design(self) -> scipy.sparse.csr_array:
        """[E, K] the log-odds of each entry as a linear map of the strengths; with a column for
        what the first place is worth, where that can be told from strengths."""
        count = len(self.first)
        # log-odds = strength of the first - strength of the second + what its place is worth
        signs = np.repeat((1.0, -1.0), count)
        rows = np.tile(np.arange(count), 2)
        columns = np.append(self.first, self.second)
        strengths = scipy.sparse.csr_array((signs, (rows, columns)), shape=(count, self.systems))
        of_place = scipy.sparse.coo_array(self.place[:, None])
        wider = scipy.sparse.hstack([strengths, of_place], format="csr")
        # where the better systems always stood first, their place and their strength are one and
        # the same
        return wider if _rank(wider) > _rank(strengths) else strengths


def _components(table: Array, connection: str) -> list[list[int]]:
    number, label = scipy.sparse.csgraph.connected_components(
        table > 0, directed=True, connection=connection
    )
    return [np.flatnonzero(label == part).tolist() for part in range(number)]


def _rank(columns: scipy.sparse.csr_array) -> int:
    if not columns.shape[0]:
        return 0
    # [K, K], whose rank is that of the columns, however many entries there are
    products = (columns.T @ columns).toarray()
    return int(np.linalg.matrix_rank(products, hermitian=True))


def fit_strengths(comparisons: Comparisons, weights: Array, prior: float) -> dict[str, Array]:
    """The parameters that make the outcomes most likely, in each resample of group weights [B, G].

    Args:
        prior: how many comparisons each system is given beforehand with an imagined one of strength
            0, half of them won, and what the first place is worth likewise; above 0, so that
            nothing becomes infinite (Ford, "Solution of a Ranking Problem from Binary Comparisons",
            1957).

    Returns:
        In log-odds: strengths [B, K], their mean 0 in each row; place [B], what the first place is
        worth, where the comparisons can tell it from strengths.
    """
    # 1. a row an entry, then one a parameter for the prior
    entries = comparisons.design
    size = entries.shape[1]
    # the prior is data: comparisons with a system of strength 0, half of them won
    rows_of_prior = scipy.sparse.eye_array(size)
    design = scipy.sparse.csr_array(scipy.sparse.vstack([entries, rows_of_prior]))
    products = _products(design)
    # 2. the resamples, as many at a time as have room
    fitted = np.empty((len(weights), size))
    for rows in chunks(len(weights), max(design.shape[0], size * size)):
        won, tied, lost = comparisons.outcomes(weights[rows])  # [b, E] each
        before = np.full((len(won), size), prior)
        # a tie is half a win for each side
        wins = won + tied / 2
        times = won + tied + lost
        wins = np.hstack([wins, before / 2])
        times = np.hstack([times, before])
        fitted[rows] = _likeliest(design, products, wins, times)
    # 3. strengths around their mean
    strengths = fitted[:, : comparisons.systems]
    # only differences mean something: the mean is the zero
    parameters = {"strengths": strengths - strengths.mean(axis=1, keepdims=True)}
    if size > comparisons.systems:
        parameters["place"] = fitted[:, -1]
    return parameters


def _likeliest(
    design: scipy.sparse.csr_array,
    products: scipy.sparse.csr_array,
    wins: Array,
    met: Array,
) -> Array:
    """[B, P] where the log-likelihood is highest, by Newton's method, all resamples at a time.

    A full step may lead down. One of log(1 + c) / c of it, where c is the largest change of
    log-odds, never does (Sun and Tran-Dinh, "Generalized Self-Concordant Functions: A Recipe for
    Newton-Type Methods", 2019).

    Args:
        design: [R, P]; products: [R, P * P], see `_products`.
        wins, met: [B, R] how often each row was won, and met.
    """
    size = design.shape[1]
    # all equal: the likelihood is concave, and any beginning leads to its one maximum
    at = np.zeros((len(wins), size))
    for _ in range(_MOST_STEPS):
        chance = scipy.special.expit((design @ at.T).T)  # [B, R]
        gradient = (design.T @ (wins - met * chance).T).T  # [B, P]
        bend = met * chance * (1 - chance)  # [B, R]
        # sum over rows of bend x x': the outer products of rows are computed once, for all steps
        # and resamples
        hessian = (products.T @ bend.T).T.reshape(-1, size, size)  # [B, P, P]
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        change = np.abs(design @ step.T).max(axis=0)  # [B]
        # near the maximum change is small and the part 1: a full step of Newton's
        part = np.log1p(change) / np.maximum(change, 1e-300)
        at += step * part[:, None]
        if change.max() < _SMALLEST_STEP:
            break
    return at


def _products(design: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """[R, P * P] each row's entries times each other; few are not 0, however large P is."""
    rows, size = design.shape
    row = np.repeat(np.arange(rows), np.diff(design.indptr))  # of each entry
    partners = design[row].tocoo()  # all entries of that row
    entry, partner = partners.coords
    columns = design.indices[entry].astype(np.int64) * size + partner
    values = design.data[entry] * partners.data
    places = row[entry], columns
    return scipy.sparse.csr_array((values, places), shape=(rows, size * size))


# --- preferences --------------------------------------------------------------------------------


MEASURES = ("position_bias", "consistency", "human_agreement")
"""The numbers of `comparative` that have an interval."""

AGREEMENT_MEASURES = ("tau", "auc", "accuracy", "accuracy_calibrated")
"""The numbers of `Preferences.agreement` that have an interval."""

_EQUAL = 1e-9  # probabilities, or preferences, no farther apart differ by rounding alone


def preferred(preference: Array, tie: float = 0.0) -> Array:
    """[n] 1, 0 or -1: the side that is preferred by more than a tie."""
    return np.where(np.abs(preference) <= tie + _EQUAL, 0.0, np.sign(preference))


def comparative(first: Array, second: Array, human: Array, clusters: Clusters) -> Record:
    """Measures of pairs that were read in both orders, with 95 % percentile intervals.

    Args:
        first, second: [n] the probability that the judged text wins where it stands first, and
            where it stands second.
        human: [n] by how much the humans prefer it; NaN where nobody rated both texts.

    Returns:
        - position_bias: the probability that the text in place one wins, mean over pairs and
          orders, less 1/2;
        - consistency: share of pairs in which the same text wins in both orders; a pair with a tie
          in an order does not count among these;
        - decided_consistency: the same share of the pairs that both orders decide; tied_share:
          share of the others;
        - human_agreement: share of the pairs with a human preference in which the humans' text is
          the judge's winner, both orders averaged; undecided pairs count half;
        - pairs, preferred: numbers of pairs, and of those with a human preference.

        Each of `MEASURES` and decided_consistency with `_low` and `_high`; None where there is no
        such pair.

    Example:
        >>> first, second, human = np.array([0.9, 0.8]), np.array([0.6, 0.1]), np.array([1, 2])
        >>> record = comparative(first, second, human, Clusters.of(["a", "b"]))
        >>> [round(record[name], 3) for name in MEASURES]
        [0.25, 0.5, 0.5]
    """
    # nobody rated: no side is preferred, and such a pair is in no mean over preferred ones
    side = preferred(np.nan_to_num(human))
    record = {"pairs": len(first), "preferred": int((side != 0).sum())}
    if not len(first):
        return record | unknown((*MEASURES, "decided_consistency")) | {"tied_share": None}
    # the winner in each order, and in both together
    where_first = preferred(first - 0.5)
    where_second = preferred(second - 0.5)
    winner = preferred((first + second) / 2 - 0.5)
    decided = (where_first != 0) & (where_second != 0)
    same = (where_first == where_second).astype(float)
    # 1 where winner and side are the same, 0 where opposite, 1/2 where either is undecided
    right = (1 + winner * side) / 2
    figures = {
        # P(place one wins) is first where the judged text stands there, 1 - second where its rival
        # does
        "position_bias": clusters.mean((first - second) / 2),
        "consistency": clusters.mean(same * decided),
        "human_agreement": clusters.mean(right, side != 0),
        "decided_consistency": clusters.mean(same, decided),
    }
    return record | with_intervals(figures) | {"tied_share": float(1 - decided.mean())}


@dataclass(frozen=True)
class Preferences:
    """Pairs of texts with what judge and humans say of them.

    Attributes:
        judge: [n] by how much the judge prefers the first of the two, -1/2 to 1/2.
        human: [n] by how much the humans do, on any scale; finite.
        share: [n] how much of a pair each row is: a half where the same two texts stand there
            twice.
        clusters: of the n pairs.
    """

    judge: Array
    human: Array
    share: Array
    clusters: Clusters

    @property
    def sides(self) -> Array:
        """[n] 1 where the humans prefer the first text, -1 where the second, 0 where neither."""
        return preferred(self.human)

    def sums(self, values: Array) -> Array:
        """[1 + B] sums of values over the pairs."""
        return self.clusters.sums(self.share * values)

    def agreement(self, threshold: float | None) -> Record:
        """Agreement of judge and humans; `threshold`: up to which the judge's preferences are ties
        in `accuracy_calibrated`, see `best_threshold`.

        Returns:
            - tau: Kendall's tau-b of the two preferences' signs, over pairs of texts;
            - auc: the chance that the judge's preference for a text over its rival is greater where
              the humans prefer the text than where they prefer the rival; ties count half;
            - accuracy: share of pairs in which both name one text, or both a tie (Deutsch, Foster
              and Freitag, "Ties Matter", 2023: acc_eq); accuracy_calibrated: the same with the
              judge's ties by threshold;
            - tie_threshold: that threshold; human_tie_share, judge_tie_share: shares of pairs that
              are ties;
            - rated: distinct pairs.

            Each of `AGREEMENT_MEASURES` with `_low` and `_high`; None where nothing is known.
        """
        sides = self.sides
        winners = preferred(self.judge)
        total = self.sums(np.ones(len(sides)))
        agree = self.sums(sides * winners)
        of_judge = self.sums(np.abs(winners))
        of_humans = self.sums(np.abs(sides))
        alike = self.sums(1.0 * (winners == sides))
        figures = {
            "tau": np.where(total > 0, ratio(agree, of_judge, of_humans), np.nan),
            "auc": self._auc(),
            "accuracy": safe_divide(alike, total),
            "accuracy_calibrated": np.full(len(total), np.nan),
        }
        if threshold is not None:
            # probabilities are hardly ever equal: without a threshold the judge has next to no ties
            with_ties = preferred(self.judge, threshold)
            alike = self.sums(1.0 * (with_ties == sides))
            figures["accuracy_calibrated"] = safe_divide(alike, total)
        record = {
            "rated": float(total[0]),
            **with_intervals(figures),
            "tie_threshold": threshold,
            "human_tie_share": None,
            "judge_tie_share": None,
        }
        if total[0] > 0:
            record |= {
                "human_tie_share": float(1 - of_humans[0] / total[0]),
                "judge_tie_share": float(1 - of_judge[0] / total[0]),
            }
        return record

    def agreed(self, rows: Array) -> Record:
        """Of some rows in which the humans prefer a text, the share in which the judge names it:
        preferred (how many), agreement with `_low` and `_high`."""
        sides = self.sides * rows
        total = self.sums(np.abs(sides))
        alike = (1 + preferred(self.judge) * sides) / 2
        right = self.sums(alike * np.abs(sides))
        return {"preferred": float(total[0])} | with_intervals(
            {"agreement": safe_divide(right, total)}
        )

    def _auc(self) -> Array:
        """[1 + B] areas under the curve, each pair seen from both its texts; NaN where the humans
        prefer nothing."""
        weights = self.clusters.weights
        rows = self.sides != 0
        # how far the judge leans to the humans' text
        # a pair seen from its other text has the judge's preference with the other sign
        towards = np.round(self.judge * self.sides, 12)[rows]
        values = np.unique(np.concatenate([towards, -towards, [0.0]]))
        places = np.searchsorted(values, towards), self.clusters.number[rows]
        counts = scipy.sparse.coo_array(
            (self.share[rows], places), shape=(len(values), weights.shape[1])
        ).tocsr()
        areas = np.full(len(weights), np.nan)
        for part in chunks(len(weights), len(values)):
            positive = (counts @ weights[part].T).T  # [b, values]
            # the same pairs from their other texts, for the values are symmetric
            negative = positive[:, ::-1]
            below = negative.cumsum(axis=1) - negative / 2
            ordered = (positive * below).sum(axis=1)
            areas[part] = safe_divide(ordered, positive.sum(axis=1) ** 2)
        return areas


def best_threshold(preferences: Preferences) -> float | None:
    """Up to where a judge's preference is best called a tie, by accuracy over the pairs (Deutsch et
    al. 2023).

    Tried are 0 and every preference that the judge has; of equally good ones the least is taken.
    None without pairs.

    Example:
        >>> judge, human = np.array([0.4, 0.02, -0.3, -0.01]), np.array([1.0, 0.0, -1.0, 0.0])
        >>> best_threshold(Preferences(judge, human, np.ones(4), Clusters.of(list("aabb"))))
        0.02
    """
    if not len(preferences.judge):
        return None
    # 1. the pairs, from the smallest preference on
    # Sorted by size, a threshold cuts the pairs in two: ties before it, winners behind. Two running
    # sums then give the accuracy of every threshold.
    size = np.round(np.abs(preferences.judge), 9)
    order = np.argsort(size, kind="stable")
    size = size[order]
    share = preferences.share[order]
    sides = preferences.sides[order]
    winners = preferred(preferences.judge)[order]
    # 2. with the k smallest as ties: their ties are right, and of the others those that name the
    # humans' text
    tied = np.where(sides == 0, share, 0.0)
    named = np.where((size > _EQUAL) & (winners == sides), share, 0.0)
    right_ties = np.append(0.0, tied.cumsum())
    right_others = named.sum() - np.append(0.0, named.cumsum())
    right = np.round(right_ties + right_others, 9)
    # 3. equal ones are ties together
    thresholds = np.append(0.0, size)
    last = np.append(thresholds[1:] > thresholds[:-1], True)
    candidates = np.flatnonzero(last)
    # argmax takes the first of equals, which is the least threshold
    best = candidates[np.argmax(right[candidates])]
    return float(thresholds[best])
