"""Strengths of systems compared two at a time: Bradley and Terry's model, and Davidson's where it
has ties.

A comparison of i and j is won by i, tied or lost with odds `e^(d/2) : nu : e^(-d/2)`, where d is
the strength of i less that of j, and more where i stood in place one or was attacked. Without nu it
is Bradley and Terry's model ("Rank Analysis of Incomplete Block Designs", 1952) in log-odds, with
nu Davidson's ("On Extending the Bradley-Terry Model to Accommodate Ties in Paired Comparison
Experiments", 1970); what a place is worth enters as in Davidson and Beaver ("On Extending the
Bradley-Terry Model to Incorporate Within-Pair Order Effects", 1977). Outcomes may be shares: a
judge that prefers a text with probability 0.7 has 0.7 of a win, and the likelihood is then a
quasi-likelihood, whose intervals must come from resampling.

Two systems of which one won 3 of 4 comparisons are log(3 / 1) = 1.1 apart, 191 Elo points. Kept by
hand: no library fits a thousand resamples at a time, with ties, places and shares.

Preferences between two texts are also compared with the humans' pair by pair, and the weight of the
order is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.config.fields import DAVIDSON, HALF
from judgebench.stats.clusters import MOST_ENTRIES, Clusters, divided, unknown, with_intervals
from judgebench.stats.correlation import ratio

ELO = 400 / math.log(10)
"""Points on the Elo scale that a strength of 1 is: odds of 10 to 1 are 400 points."""

ELO_MEAN = 1000.0
"""The Elo points of strength 0."""

_LARGEST = 20.0  # beyond, in log-odds, nothing holds a parameter back
_MOST_STEPS = 100
_MOST_HALVINGS = 40
_STEP = 1e-10
_WORSE = 1e-12


@dataclass(frozen=True)
class Comparisons:
    """Counts of who met whom and how it ended, group by group.

    Attributes:
        systems: number of systems, K.
        first, second: [E] numbers of the two, `first` below `second`; several entries may be about
            the same two.
        place: [E] 1 where `first` stood in place one, -1 where `second` did, 0 where that is
            unknown.
        attack: [E] 1 where the text of `first` was attacked, -1 where that of `second` was, else 0.
        counts: [3 * E, G] how often `first` won, both tied, `first` lost, in each group.
    """

    systems: int
    first: np.ndarray
    second: np.ndarray
    place: np.ndarray
    attack: np.ndarray
    counts: scipy.sparse.csr_array

    @classmethod
    def of(
        cls, systems: int, groups: int, met: np.ndarray, group: np.ndarray, outcomes: np.ndarray
    ) -> Comparisons:
        """From single comparisons; those of a system with itself say nothing and are left out.

        Args:
            met: [4, n] int64, the numbers of the two, 0 to K - 1, then place and attack as above.
            group: [n] 0 to G - 1.
            outcomes: [3, n] how much of a win, a tie and a loss each was for the first of the two.
        """
        turned = met[0] > met[1]
        apart = met[0] != met[1]
        kinds = np.where(turned, [met[1], met[0], -met[2], -met[3]], met)
        ends = np.where(turned, outcomes[::-1], outcomes)
        entries, entry = np.unique(kinds[:, apart], axis=1, return_inverse=True)
        count = entries.shape[1]
        rows = (entry.reshape(-1) + count * np.arange(3)[:, None]).reshape(-1)
        values = (ends[:, apart].reshape(-1), (rows, np.tile(group[apart], 3)))
        counts = scipy.sparse.csr_array(scipy.sparse.coo_array(values, shape=(3 * count, groups)))
        return cls(systems, entries[0], entries[1], entries[2], entries[3], counts)

    def outcomes(self, weights: np.ndarray | None = None) -> np.ndarray:
        """[3, B, E] wins, ties and losses of `first` where each group counts as often as `weights`
        [B, G] say; over all groups without."""
        weights = np.ones((1, self.counts.shape[1])) if weights is None else weights
        return np.asarray(
            (self.counts @ weights.T).reshape(3, len(self.first), len(weights)).transpose(0, 2, 1)
        )

    def table(self) -> np.ndarray:
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
        return _components(self.table().sum(axis=0), "weak")

    def dominant(self, ties: str = HALF) -> list[list[int]]:
        """The systems in levels, of which none above ever lost to any below: one level where
        maximum likelihood has an answer. The best level is first, if levels have met."""
        wins, tied, _ = self.table()
        beaten = wins + (tied if ties == HALF else 0)
        return sorted(
            _components(beaten, "strong"),
            key=lambda level: (
                -len(
                    scipy.sparse.csgraph.breadth_first_order(
                        beaten > 0, level[0], return_predecessors=False
                    )
                )
            ),
        )

    def decided_by(self, signs: np.ndarray) -> bool:
        """True where `signs` [E], of a place or of an attack, decide every outcome: the side with 1
        wins all, or loses all."""
        won, tied, lost = self.outcomes()[:, 0]
        ahead = np.where(signs > 0, won, lost)
        behind = np.where(signs > 0, lost, won)
        decided = bool(len(signs)) and bool((signs != 0).all()) and not tied.any()
        return decided and not (ahead.any() and behind.any())


def _components(table: np.ndarray, connection: str) -> list[list[int]]:
    number, label = scipy.sparse.csgraph.connected_components(
        table > 0, directed=True, connection=connection
    )
    return [np.flatnonzero(label == part).tolist() for part in range(number)]


@dataclass(frozen=True)
class Model:
    """The parameters that are fitted.

    Attributes:
        ties: one of `TIES`.
        prior: how many comparisons each system is given beforehand with an imagined one of strength
            0, half of them won and half lost (under `davidson` a third tied, too), and likewise
            each other parameter with a comparison of equals; so that nothing becomes infinite. 0 is
            plain maximum likelihood.
        place, attack: whether d has a parameter for the first place, and for an attacked text; each
            is left out where the comparisons cannot separate it from strengths.
    """

    ties: str = HALF
    prior: float = 0.0
    place: bool = False
    attack: bool = False


def fit_strengths(
    comparisons: Comparisons, weights: np.ndarray, model: Model
) -> dict[str, np.ndarray]:
    """The parameters that make the outcomes most likely, in each resample of group weights [B, G];
    the others start from the first row, usually of ones.

    By Newton's method with halved steps: the log-likelihood is concave. Without a prior it has no
    maximum where some systems never lost to any of the others (Ford, "Solution of a Ranking Problem
    from Binary Comparisons", 1957) or a place decides everything; such a row is NaN. Under
    Davidson's model a tie does not count as a loss there, which is on the safe side.

    Returns:
        In log-odds, NaN in resamples that do not determine them: strengths [B, K], their mean 0 in
        each row; where there is such a parameter, [B] place and attack, what the first place and
        being attacked are worth, and tie, Davidson's nu, the odds of a tie against a win of either
        of two equals.
    """
    # 1. d as a linear map of the parameters: strengths, then what can be separated from them
    entries = np.arange(len(comparisons.first))
    systems = comparisons.systems
    columns = np.zeros((len(entries), systems))
    columns[entries, comparisons.first], columns[entries, comparisons.second] = 1, -1
    names = []
    for name in ("place", "attack"):
        wider = np.hstack([columns, getattr(comparisons, name)[:, None]])
        if getattr(model, name) and _rank(wider) > _rank(columns):
            columns = wider
            names.append(name)
    design = scipy.sparse.csr_array(
        np.vstack([columns, np.eye(columns.shape[1])]) if model.prior else columns
    )
    # 2. the data, then the resamples from where the data ended
    size = columns.shape[1] + (model.ties == DAVIDSON)
    fitted = np.full((len(weights), size), np.nan)
    start = np.zeros(size)
    chunk = max(1, MOST_ENTRIES // max(1, 3 * design.shape[0], size * size))
    for begin in [0, *range(1, len(weights), chunk)]:
        rows = slice(begin, 1 if begin == 0 else begin + chunk)
        outcomes = comparisons.outcomes(weights[rows])
        determined = (
            np.ones(outcomes.shape[1], dtype=bool)
            if model.prior
            else _connected(comparisons, outcomes, model)
        )
        if determined.any():
            fitted[rows][determined] = _climb(
                _Likelihood(design, outcomes[:, determined], model, systems), start
            )
        if begin == 0 and np.isfinite(fitted[0]).all():
            start = fitted[0]
    strengths = fitted[:, :systems]
    parameters = {"strengths": strengths - strengths.mean(axis=1, keepdims=True)}
    parameters |= {name: fitted[:, systems + i] for i, name in enumerate(names)}
    return parameters | ({"tie": np.exp(fitted[:, -1])} if model.ties == DAVIDSON else {})


def _rank(columns: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(columns.T @ columns, hermitian=True)) if columns.size else 0


def _connected(comparisons: Comparisons, outcomes: np.ndarray, model: Model) -> np.ndarray:
    """[B] whether from every system a chain of wins leads to every other, which a maximum needs."""
    won, drawn, lost = outcomes
    if model.ties == HALF:
        won = won + drawn
        lost = lost + drawn
    count = comparisons.systems
    wins = np.zeros((count * count, len(won)), dtype=np.float32)
    np.add.at(wins, comparisons.first * count + comparisons.second, won.T > 0)
    np.add.at(wins, comparisons.second * count + comparisons.first, lost.T > 0)
    reach = (wins.T.reshape(-1, count, count) + np.eye(count, dtype=np.float32) > 0).astype(
        np.float32
    )
    for _ in range(max(1, math.ceil(math.log2(max(2, count))))):
        reach = (reach @ reach > 0).astype(np.float32)
    return np.asarray(reach.all(axis=(1, 2)))


class _Likelihood:
    """The log-likelihood of parameters [B, P]: those of d, and under Davidson's model log nu, the
    last.

    Attributes:
        design: [R, P] d of each entry, and of the prior's comparisons below, as a linear map of the
            parameters.
        won, drawn, lost: [B, R] outcomes: ties are split where they are half wins, and the prior's
            comparisons added.
        free: [B] whether there is a nu whose likeliest value is above 0, for there are ties.
        products: [R, P * P] of each row's entries of the design with each other; few are not 0,
            however large P is.
        level: [P, P] what holds the strengths' mean, without a prior: what all have in common
            changes nothing, and must not make the Hessian singular.
    """

    def __init__(
        self, design: scipy.sparse.csr_array, outcomes: np.ndarray, model: Model, systems: int
    ) -> None:
        self.design = design
        self.systems = systems
        self.tied = model.ties == DAVIDSON
        (won, drawn, lost), shares = outcomes, (1 / 3, 1 / 3, 1 / 3)
        if not self.tied:
            won, drawn, lost, shares = (
                won + drawn / 2,
                np.zeros_like(drawn),
                lost + drawn / 2,
                (1 / 2, 0, 1 / 2),
            )
        before = np.full((len(won), design.shape[0] - won.shape[1]), model.prior)
        sides = zip((won, drawn, lost), shares, strict=True)
        self.won, self.drawn, self.lost = (
            np.hstack([side, before * share]) for side, share in sides
        )
        self.total, self.free = (
            self.won + self.drawn + self.lost,
            self.tied & (self.drawn.sum(axis=1) > 0),
        )
        # each entry of a row with all entries of that row
        (rows, size), row = (
            design.shape,
            np.repeat(np.arange(design.shape[0]), np.diff(design.indptr)),
        )
        partners = design[row].tocoo()
        entry, partner = partners.coords
        places = (row[entry], design.indices[entry].astype(np.int64) * size + partner)
        values = (design.data[entry] * partners.data, places)
        self.products = scipy.sparse.csr_array(
            scipy.sparse.coo_array(values, shape=(rows, size * size))
        )
        self.level = np.zeros((size, size))
        self.level[:systems, :systems] = not model.prior

    def chances(self, at: np.ndarray) -> tuple[np.ndarray, ...]:
        """[B, R] the chances of a win, a tie and a loss, then d / 2 and the logarithm of the odds'
        sum."""
        half = (self.design @ at[:, : self.design.shape[1]].T).T / 2
        tie = at[:, -1:] if self.tied else np.full((len(at), 1), -np.inf)
        top = np.maximum(np.abs(half), tie)
        odds = np.exp(half - top), np.exp(tie - top), np.exp(-half - top)
        total = odds[0] + odds[1] + odds[2]
        return odds[0] / total, odds[1] / total, odds[2] / total, half, np.log(total) + top

    def value(self, at: np.ndarray) -> np.ndarray:
        """[B] log-likelihoods."""
        *_, half, total = self.chances(at)
        value = ((self.won - self.lost) * half - self.total * total).sum(axis=1)
        return np.asarray(value + self.drawn.sum(axis=1) * np.where(self.free, at[:, -1], 0.0))

    def step(self, at: np.ndarray) -> np.ndarray:
        """[B, P] Newton's step: the Hessian's inverse times the gradient."""
        (p_won, p_tied, p_lost, *_), size = self.chances(at), self.design.shape[1]
        ahead = p_won - p_lost
        gradient = (self.design.T @ ((self.won - self.lost) / 2 - self.total * ahead / 2).T).T
        bend = self.total / 4 * (p_won + p_lost - ahead**2)
        curved = (self.products.T @ bend.T).T.reshape(-1, size, size) + self.level
        if self.tied:
            both = (self.design.T @ (-self.total / 2 * ahead * p_tied).T).T
            corner = np.where(self.free, (self.total * p_tied * (1 - p_tied)).sum(axis=1), 1.0)
            gradient = np.hstack(
                [gradient, (self.drawn - self.total * p_tied).sum(axis=1, keepdims=True)]
            )
            last = np.concatenate([both, corner[:, None]], axis=1)
            curved = np.concatenate(
                [np.concatenate([curved, both[:, :, None]], axis=2), last[:, None, :]], axis=1
            )
        curved += (
            1e-12
            * np.eye(curved.shape[1])
            * np.maximum(np.trace(curved, axis1=1, axis2=2), 1)[:, None, None]
        )
        step = np.linalg.solve(curved, gradient[:, :, None])[:, :, 0]
        if self.tied:
            step[~self.free, -1] = 0.0
        return step


def _climb(likelihood: _Likelihood, start: np.ndarray) -> np.ndarray:
    """[B, P] where the log-likelihood is highest; NaN where a parameter runs away."""
    free = likelihood.free
    systems = likelihood.systems
    size = likelihood.design.shape[1]
    at = np.tile(start, (len(free), 1))
    if likelihood.tied:  # without any tie, none is the likeliest
        at[~free, -1] = -np.inf
    value = likelihood.value(at)
    for _ in range(_MOST_STEPS):
        step = likelihood.step(at)
        for _ in range(_MOST_HALVINGS):  # steps are halved where they lead down
            higher = likelihood.value(at + step)
            worse = higher < value - _WORSE * (1 + np.abs(value))
            if not worse.any():
                break
            step = np.where(worse[:, None], step / 2, step)
        at = at + step
        value = higher
        if np.abs(step).max() < _STEP:
            break
    lengths = np.abs(at[:, :systems] - at[:, :systems].mean(axis=1, keepdims=True)).max(axis=1)
    lengths = np.maximum(lengths, np.abs(at[:, systems:size]).max(axis=1, initial=0.0))
    if likelihood.tied:
        lengths = np.maximum(lengths, np.abs(np.where(free, at[:, -1], 0.0)))
    at[lengths > _LARGEST] = np.nan
    return at


# --- preferences --------------------------------------------------------------------------------


MEASURES = ("position_bias", "consistency", "human_agreement")
"""The numbers of `comparative` that have an interval."""

AGREEMENT_MEASURES = ("tau", "auc", "accuracy", "accuracy_calibrated")
"""The numbers of `Preferences.agreement` that have an interval."""

_EQUAL = 1e-9  # probabilities, or preferences, no farther apart differ by rounding alone


def preferred(preference: np.ndarray, tie: float = 0.0) -> np.ndarray:
    """[n] 1, 0 or -1: the side that is preferred by more than a tie."""
    return np.where(np.abs(preference) <= tie + _EQUAL, 0.0, np.sign(preference))


def comparative(
    first: np.ndarray, second: np.ndarray, human: np.ndarray, clusters: Clusters
) -> dict[str, Any]:
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
    if not len(first):
        return (
            {"pairs": 0, "preferred": 0}
            | unknown((*MEASURES, "decided_consistency"))
            | {"tied_share": None}
        )
    side = preferred(np.nan_to_num(human))
    winners = [preferred(order - 0.5) for order in (first, second)]
    decided = (winners[0] != 0) & (winners[1] != 0)
    same = (winners[0] == winners[1]).astype(float)
    figures = {
        "position_bias": clusters.mean((first - second) / 2),
        "consistency": clusters.mean(same * decided),
        "human_agreement": clusters.mean(
            (1 + preferred((first + second) / 2 - 0.5) * side) / 2, side != 0
        ),
        "decided_consistency": clusters.mean(same, decided),
    }
    record: dict[str, Any] = {"pairs": len(first), "preferred": int((side != 0).sum())}
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
        tie: humans that prefer a text by no more than this prefer neither.
    """

    judge: np.ndarray
    human: np.ndarray
    share: np.ndarray
    clusters: Clusters
    tie: float = 0.0

    @property
    def sides(self) -> np.ndarray:
        """[n] 1 where the humans prefer the first text, -1 where the second, 0 where neither."""
        return preferred(self.human, self.tie)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """[1 + B] sums of values over the pairs."""
        return self.clusters.sums(self.share * values)

    def agreement(self, threshold: float | None) -> dict[str, Any]:
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
        of_judge, of_humans = (self.sums(np.abs(side)) for side in (winners, sides))
        nothing = np.full(len(total), np.nan)
        figures = {
            "tau": np.where(total > 0, ratio(agree, of_judge, of_humans), np.nan),
            "auc": self._auc(),
            "accuracy": divided(self.sums(1.0 * (winners == sides)), total),
            "accuracy_calibrated": nothing,
        }
        if threshold is not None:
            figures["accuracy_calibrated"] = divided(
                self.sums(1.0 * (preferred(self.judge, threshold) == sides)), total
            )
        record: dict[str, Any] = (
            {"rated": float(total[0])} | with_intervals(figures) | {"tie_threshold": threshold}
        )
        for name, decided in (("human_tie_share", of_humans), ("judge_tie_share", of_judge)):
            record[name] = float(1 - decided[0] / total[0]) if total[0] > 0 else None
        return record

    def agreed(self, rows: np.ndarray) -> dict[str, Any]:
        """Of some rows in which the humans prefer a text, the share in which the judge names it:
        preferred (how many), agreement with `_low` and `_high`."""
        sides = self.sides * rows
        total = self.sums(np.abs(sides))
        right = self.sums((1 + preferred(self.judge) * sides) / 2 * np.abs(sides))
        return {"preferred": float(total[0])} | with_intervals({"agreement": divided(right, total)})

    def _auc(self) -> np.ndarray:
        """[1 + B] areas under the curve, each pair seen from both its texts; NaN where the humans
        prefer nothing."""
        weights = self.clusters.weights
        rows = self.sides != 0
        # how far the judge leans to the humans' text
        towards = np.round(self.judge * self.sides, 12)[rows]
        values = np.unique(np.concatenate([towards, -towards, [0.0]]))
        places = (np.searchsorted(values, towards), self.clusters.number[rows])
        counts = scipy.sparse.csr_array(
            scipy.sparse.coo_array(
                (self.share[rows], places), shape=(len(values), weights.shape[1])
            )
        )
        areas = np.full(len(weights), np.nan)
        chunk = max(1, MOST_ENTRIES // len(values))
        for start in range(0, len(weights), chunk):
            positive = (counts @ weights[start : start + chunk].T).T
            # the same pairs from their other texts, for the values are symmetric
            negative = positive[:, ::-1]
            below = negative.cumsum(axis=1) - negative / 2
            areas[start : start + chunk] = divided(
                (positive * below).sum(axis=1), positive.sum(axis=1) ** 2
            )
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
    size = np.round(np.abs(preferences.judge), 9)
    sides = preferences.sides
    order = np.argsort(size, kind="stable")
    share = preferences.share[order]
    tie = (sides == 0)[order] * share
    right = np.where(size <= _EQUAL, 0.0, preferred(preferences.judge) == sides)[order] * share
    # with the k smallest as ties: their ties are right, and of the others those that name the
    # humans' text
    good = np.append(0.0, tie.cumsum()) + right.sum() - np.append(0.0, right.cumsum())
    sizes = np.append(0.0, size[order])
    # equal ones are ties together
    candidates = np.flatnonzero(np.append(sizes[1:] > sizes[:-1], True))
    return float(sizes[candidates[np.argmax(np.round(good[candidates], 9))]])
