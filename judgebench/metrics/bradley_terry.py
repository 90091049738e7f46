"""Strengths of systems compared two at a time: Bradley and Terry's model, and Davidson's where it has ties.

A comparison of i and j is won by i, tied or lost with odds `e^(d/2) : nu : e^(-d/2)`, where d is the strength of i less
that of j, and more where i stood in place one or was attacked. Without nu it is Bradley and Terry's model ("Rank
Analysis of Incomplete Block Designs", 1952) in log-odds, with nu Davidson's ("On Extending the Bradley-Terry Model to
Accommodate Ties in Paired Comparison Experiments", 1970); what a place is worth enters as in Davidson and Beaver ("On
Extending the Bradley-Terry Model to Incorporate Within-Pair Order Effects", 1977). Outcomes may be shares: a judge that
prefers a text with probability 0.7 has 0.7 of a win, and the likelihood is then a quasi-likelihood, whose intervals
must come from resampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from judgebench.metrics.comparisons import DAVIDSON, HALF, Comparisons
from judgebench.stats.correlation import MOST_ENTRIES

ELO = 400 / math.log(10)
"""Points on the Elo scale that a strength of 1 is: odds of 10 to 1 are 400 points."""

ELO_MEAN = 1000.0
"""The Elo points of strength 0."""

_LARGEST = 20.0  # beyond, in log-odds, nothing holds a parameter back
_MOST_STEPS, _MOST_HALVINGS = 100, 40
_STEP, _WORSE = 1e-10, 1e-12


@dataclass(frozen=True)
class Model:
    """The parameters that are fitted.

    Attributes:
        ties: one of `TIES`.
        prior: how many comparisons each system is given beforehand with an imagined one of strength 0, half of them
            won and half lost (under `davidson` a third tied, too), and likewise each other parameter with a comparison
            of equals; so that nothing becomes infinite. 0 is plain maximum likelihood.
        place, attack: whether d has a parameter for the first place, and for an attacked text; each is left out where
            the comparisons cannot tell it from strengths.
    """

    ties: str = HALF
    prior: float = 0.0
    place: bool = False
    attack: bool = False


@dataclass(frozen=True)
class Fitted:
    """The parameters of each resample, in log-odds; NaN in resamples that do not determine them.

    Attributes:
        strengths: [B, K], their mean 0 in each row.
        place, attack: [B] what the first place is worth, and what being attacked is; None where there is no such
            parameter.
        tie: [B] Davidson's nu, the odds of a tie against a win of either of two equals; None under `half`.
    """

    strengths: np.ndarray
    place: np.ndarray | None
    attack: np.ndarray | None
    tie: np.ndarray | None

    def against(self, reference: int | None) -> np.ndarray:
        """[B, K] the strengths, that of a reference being 0; None leaves their mean at 0."""
        return self.strengths if reference is None else self.strengths - self.strengths[:, reference, None]


def fit_strengths(comparisons: Comparisons, weights: np.ndarray, model: Model) -> Fitted:
    """The parameters that make the outcomes most likely, in each resample of group weights [B, G]; the others start
    from the first row, usually of ones.

    By Newton's method with halved steps: the log-likelihood is concave. Without a prior it has no maximum where some
    systems never lost to any of the others (Ford, "Solution of a Ranking Problem from Binary Comparisons", 1957) or a
    place decides everything; such a row is NaN. Under Davidson's model a tie does not count as a loss there, which is
    on the safe side.
    """
    count = len(weights)
    signs = _signs(comparisons, model)
    size = comparisons.systems + len(signs) + (model.ties == DAVIDSON)
    found = np.full((count, size), np.nan)
    design = _design(comparisons, list(signs.values()), model)
    start: np.ndarray | None = None
    chunk = max(1, MOST_ENTRIES // max(1, 3 * design.shape[0], size * size))
    for first in [0, *range(1, count, chunk)]:
        rows = slice(first, 1 if first == 0 else first + chunk)
        outcomes = comparisons.outcomes(weights[rows])
        determined = np.ones(outcomes.shape[1], dtype=bool) if model.prior else _connected(comparisons, outcomes, model)
        part = np.full((len(determined), size), np.nan)
        if determined.any():
            begun = np.zeros(size) if start is None else start
            part[determined] = _climb(design, outcomes[:, determined], model, comparisons.systems, begun)
        found[rows] = part
        if first == 0 and np.isfinite(part).all():
            start = part[0]
    strengths = found[:, : comparisons.systems]
    strengths = strengths - strengths.mean(axis=1, keepdims=True)
    more = {name: found[:, comparisons.systems + i] for i, name in enumerate(signs)}
    tie = np.exp(found[:, -1]) if model.ties == DAVIDSON else None
    return Fitted(strengths, more.get("place"), more.get("attack"), tie)


def ranks(strengths: np.ndarray) -> np.ndarray:
    """[B, K] the rank of each strength in its row, 1 the strongest; equal ones share the better rank.

    Example:
        >>> ranks(np.array([[0.5, 2.0, 0.5, -1.0]])).tolist()
        [[2, 1, 2, 4]]
    """
    rounded = np.round(strengths, 9)
    parts_of = [rounded[start : start + 4096] for start in range(0, len(rounded), 4096)]
    above = [1 + (part[:, None, :] > part[:, :, None]).sum(axis=2) for part in parts_of]
    return np.concatenate(above) if above else np.empty(rounded.shape, dtype=np.int64)


def _signs(comparisons: Comparisons, model: Model) -> dict[str, np.ndarray]:
    """Name -> [E] sign of each parameter beside the strengths, of those that the comparisons can tell from them."""
    columns = [_strengths(comparisons)]
    found = {}
    for name, asked, sign in (
        ("place", model.place, comparisons.place),
        ("attack", model.attack, comparisons.attacked),
    ):
        if asked and _rank([*columns, sign[:, None]]) > _rank(columns):
            columns.append(sign[:, None])
            found[name] = sign
    return found


def _rank(columns: Sequence[np.ndarray]) -> int:
    whole = np.hstack(columns)
    return int(np.linalg.matrix_rank(whole.T @ whole, hermitian=True)) if whole.size else 0


def _strengths(comparisons: Comparisons) -> np.ndarray:
    """[E, K] which strengths enter d, and with which sign."""
    entries = np.arange(len(comparisons.one))
    design = np.zeros((len(entries), comparisons.systems))
    design[entries, comparisons.one], design[entries, comparisons.other] = 1, -1
    return design


def _design(comparisons: Comparisons, signs: Sequence[np.ndarray], model: Model) -> sparse.csr_array:
    """[R, K + signs] d of each entry, and of the prior's comparisons below, as a linear map of the parameters."""
    own = np.hstack([_strengths(comparisons), *(sign[:, None].astype(float) for sign in signs)])
    return sparse.csr_array(np.vstack([own, np.eye(own.shape[1])]) if model.prior else own)


def _products(design: sparse.csr_array) -> sparse.csr_array:
    """[R, P * P] the products of each row's entries with each other; few are not 0, whatever P is."""
    rows, size = design.shape
    sizes = np.diff(design.indptr)
    row = np.repeat(np.arange(rows), sizes)
    left = np.repeat(np.arange(design.nnz), sizes[row])
    begins = np.concatenate([[0], np.cumsum(sizes[row])[:-1]])
    right = np.arange(len(left)) - np.repeat(begins - design.indptr[row], sizes[row])
    values = design.data[left] * design.data[right]
    columns = design.indices[left].astype(np.int64) * size + design.indices[right]
    return sparse.csr_array(sparse.coo_array((values, (row[left], columns)), shape=(rows, size * size)))


def _climb(design: sparse.csr_array, outcomes: np.ndarray, model: Model, systems: int, start: np.ndarray) -> np.ndarray:
    """[B, parameters] where the log-likelihood of outcomes [3, B, E] is highest; NaN where a parameter runs away."""
    tied = model.ties == DAVIDSON
    won, drawn, lost = _with_prior(outcomes, design.shape[0], model)
    size = design.shape[1]
    products = _products(design)
    # what all strengths have in common changes nothing, and must not make the Hessian singular
    level = np.zeros((size, size))
    if not model.prior:
        level[:systems, :systems] = 1.0
    found = np.tile(start, (len(won), 1))
    free = np.full(len(won), tied)
    if tied:  # without any tie, none is the likeliest
        free = drawn.sum(axis=1) > 0
        found[~free, -1] = -np.inf
    value = _likelihood(design, found, won, drawn, lost, tied)
    for _ in range(_MOST_STEPS):
        p_won, p_tied, p_lost = _chances(design, found, tied)[:3]
        total = won + drawn + lost
        ahead = p_won - p_lost
        slope = (won - lost) / 2 - total * ahead / 2
        bend = total / 4 * (p_won + p_lost - ahead**2)
        gradient = (design.T @ slope.T).T
        curved = (products.T @ bend.T).T.reshape(-1, size, size) + level
        if tied:
            both = (design.T @ (-total / 2 * ahead * p_tied).T).T
            gradient = np.hstack([gradient, (drawn - total * p_tied).sum(axis=1, keepdims=True)])
            corner = (total * p_tied * (1 - p_tied)).sum(axis=1)
            curved = np.concatenate([curved, both[:, :, None]], axis=2)
            last = np.concatenate([both, np.where(free, corner, 1.0)[:, None]], axis=1)
            curved = np.concatenate([curved, last[:, None, :]], axis=1)
        curved += 1e-12 * np.eye(curved.shape[1]) * np.maximum(np.trace(curved, axis1=1, axis2=2), 1)[:, None, None]
        step = np.linalg.solve(curved, gradient[:, :, None])[:, :, 0]
        if tied:
            step[~free, -1] = 0.0
        step, found, value = _stepped(design, found, step, value, (won, drawn, lost), tied)
        if np.abs(step).max() < _STEP:
            break
    own = found[:, :size]
    lengths = np.abs(own[:, :systems] - own[:, :systems].mean(axis=1, keepdims=True)).max(axis=1)
    lengths = np.maximum(lengths, np.abs(own[:, systems:]).max(axis=1, initial=0.0))
    if tied:
        lengths = np.maximum(lengths, np.where(free, np.abs(np.where(free, found[:, -1], 0.0)), 0.0))
    found[lengths > _LARGEST] = np.nan
    return found


def _stepped(
    design: sparse.csr_array,
    found: np.ndarray,
    step: np.ndarray,
    value: np.ndarray,
    outcomes: tuple[np.ndarray, np.ndarray, np.ndarray],
    tied: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, halved where they lead down; where they lead to; the log-likelihood there."""
    won, drawn, lost = outcomes
    for _ in range(_MOST_HALVINGS):
        there = _likelihood(design, found + step, won, drawn, lost, tied)
        worse = there < value - _WORSE * (1 + np.abs(value))
        if not worse.any():
            break
        step = np.where(worse[:, None], step / 2, step)
    return step, found + step, there


def _with_prior(outcomes: np.ndarray, rows: int, model: Model) -> np.ndarray:
    """[3, B, R] the outcomes, ties split where they are half wins, and the prior's comparisons."""
    won, drawn, lost = outcomes
    if model.ties == HALF:
        won, drawn, lost = won + drawn / 2, np.zeros_like(drawn), lost + drawn / 2
    more = rows - won.shape[1]
    shares = (1 / 2, 0, 1 / 2) if model.ties == HALF else (1 / 3, 1 / 3, 1 / 3)
    given = [np.full((len(won), more), model.prior * share) for share in shares]
    return np.stack([np.hstack(both) for both in zip((won, drawn, lost), given, strict=True)])


def _chances(
    design: sparse.csr_array, found: np.ndarray, tied: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """[B, R] the chances of a win, a tie and a loss, then d / 2 and the logarithm of the odds' sum."""
    half = (design @ found[:, : design.shape[1]].T).T / 2
    tie = found[:, -1:] if tied else np.full((len(found), 1), -np.inf)
    top = np.maximum(np.abs(half), tie)
    odds = np.exp(half - top), np.exp(tie - top), np.exp(-half - top)
    total = odds[0] + odds[1] + odds[2]
    return odds[0] / total, odds[1] / total, odds[2] / total, half, np.log(total) + top


def _likelihood(
    design: sparse.csr_array, found: np.ndarray, won: np.ndarray, drawn: np.ndarray, lost: np.ndarray, tied: bool
) -> np.ndarray:
    """[B] log-likelihoods."""
    *_, half, total = _chances(design, found, tied)
    value = ((won - lost) * half - (won + drawn + lost) * total).sum(axis=1)
    if tied:
        ties = drawn.sum(axis=1)
        value = value + np.where(ties > 0, ties * np.where(ties > 0, found[:, -1], 0.0), 0.0)
    return np.asarray(value)


def _connected(comparisons: Comparisons, outcomes: np.ndarray, model: Model) -> np.ndarray:
    """[B] whether from every system a chain of wins leads to every other, which a maximum needs."""
    won, drawn, lost = outcomes
    if model.ties == HALF:
        won, lost = won + drawn, lost + drawn
    count = comparisons.systems
    wins = np.zeros((count * count, len(won)), dtype=np.float32)
    for ahead, behind, some in ((comparisons.one, comparisons.other, won), (comparisons.other, comparisons.one, lost)):
        np.add.at(wins, ahead * count + behind, some.T > 0)
    reach = (wins.T.reshape(-1, count, count) + np.eye(count, dtype=np.float32) > 0).astype(np.float32)
    for _ in range(max(1, math.ceil(math.log2(max(2, count))))):
        reach = (reach @ reach > 0).astype(np.float32)
    return np.asarray(reach.all(axis=(1, 2)))
