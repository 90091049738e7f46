"""Systems ranked by comparisons of their texts, by judge and by humans: the records of
pairwise.json.

A record per (split, dimension, attack, defense, judge, decoding, lambda, temperature) holds JSON's
own types, never NaN. Numbers with an interval have its ends as `_low` and `_high`.

- dataset, what identifies the cell, rule; prior, resamples, seed: as asked for;
- pairs: distinct pairs of texts, of two systems; groups; systems;
- place_effect: what the first place is worth, in log-odds (0: nothing; 1: as much as a strength
  higher by 1), None where texts never changed places;
- unranked, human_unranked: a sentence where there are no strengths, else None; with more systems
  than `MOST_RANKED`, ranking and system_pairs are empty as well; resting, human_resting: a sentence
  where strengths are finite by the prior alone;
- strength_pearson, strength_spearman, strength_kendall: of the judge's and the humans' strengths
  over systems, None with fewer than three;
- tau, auc, accuracy, accuracy_calibrated, tie_threshold, human_tie_share, judge_tie_share, rated:
  see `Preferences.agreement`; the threshold is chosen on the same judge's dev split (None without
  one), whose own accuracy_calibrated is hence no test;
- ranking: a record a system, the strongest first: system; rank; strength in log-odds; elo, its Elo
  points (1000 at strength 0); wins, ties, losses, as shares of comparisons summed; win_share, ties
  half; and human_ with each of these names;
- system_pairs: a record a pair of systems that met: first, second, pairs, win_share of the first,
  human_win_share, preferred (pairs in which the humans prefer a text), agreement with the humans
  there (with ends).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from judgebench.stats.bradley_terry import (
    ELO,
    ELO_MEAN,
    Comparisons,
    Preferences,
    best_threshold,
    fit_strengths,
    preferred,
)
from judgebench.stats.clusters import (
    CONFIDENCE,
    RESAMPLES,
    Clusters,
    Numbers,
    unknown,
    with_intervals,
)
from judgebench.stats.correlation import CORRELATIONS, correlate_rows, tied_ranks
from judgebench.studies.scores import COMPARED, Scores
from judgebench.types import Array, Columns, Record, Row, Rows
from judgebench.words.formats import say

DEV = "dev"

MOST_RANKED = 500
"""Systems beyond which none are ranked: time and memory grow with their square, and the fit's with
their cube."""

_FEWEST = 3  # systems whose strengths can be correlated: two always lie on a line


@dataclass(frozen=True)
class TextPairs:
    """The pairs of texts of one cell of a table of scores.

    Attributes:
        systems: names of the systems.
        first, second: [n] numbers of the systems that wrote the judged text, and its rival.
        wins, ties: [2, n] what the judged text wins, and ties, where it stands first, and second,
            see `win_probabilities`.
        human: [n] by how much the humans prefer the judged text; NaN where they did not say.
        share: [n] how much of a distinct pair each row is: two texts that met twice, each once as
            the judged one, are one comparison, each row half of it.
        clusters: of the n pairs.
    """

    systems: list[str]
    first: Array
    second: Array
    wins: Array
    ties: Array
    human: Array
    share: Array
    clusters: Clusters

    @classmethod
    def of(cls, part: Columns, resamples: int, seed: int) -> TextPairs:
        """From the columns of a cell."""

        def column(name: str) -> list[str]:
            return part[name].astype(str).tolist()

        def in_both_places(name: str) -> Array:
            places = part[f"{name}_first"], part[f"{name}_second"]
            return np.stack(places).astype(np.float64)

        # 1. how often each pair of texts met
        ids = column("text_id") + column("rival_id")
        ends = np.unique(ids, return_inverse=True)[1].reshape(2, -1)
        # A against B and B against A are the same two texts
        ends = np.sort(ends, axis=0)
        _, pair, often = np.unique(ends, axis=1, return_inverse=True, return_counts=True)
        # 2. the systems, numbered as they appear: first the judged texts', then the rivals'
        writers = np.array(column("system_id") + column("rival_system_id"), dtype=object)
        numbers, systems = pd.factorize(writers)
        first, second = numbers.reshape(2, -1)
        return cls(
            systems=systems.tolist(),
            first=first,
            second=second,
            wins=in_both_places("score"),
            ties=in_both_places("tie"),
            human=part["human"],
            share=1 / often[pair.reshape(-1)],
            clusters=Clusters.of(part["group_id"].astype(str), resamples, seed),
        )

    @property
    def preferences(self) -> Preferences:
        """Of the pairs of which the humans said something."""
        rows = np.isfinite(self.human)
        clusters = replace(self.clusters, number=self.clusters.number[rows])
        # both orders averaged: what the place gives in one it takes in the other
        judge = self.wins.mean(axis=0)[rows] - 0.5
        return Preferences(judge, self.human[rows], self.share[rows], clusters)

    def comparisons(self, outcomes: Array, places: Array) -> Comparisons:
        """From outcomes [3, m] of the pairs, once or twice over, with the place of the judged text
        in each."""
        times = len(places) // max(1, len(self.first))
        first = np.tile(self.first, times)
        second = np.tile(self.second, times)
        group = np.tile(self.clusters.number, times)
        met = np.stack([first, second, places])
        return Comparisons.of(len(self.systems), self.clusters.count, met, group, outcomes)


@dataclass(frozen=True)
class Strengths:
    """Strengths after the judge or the humans.

    Attributes:
        fitted: see `fit_strengths`; empty where there are none, and `unranked` then says why.
        resting: why they are finite by the prior alone; else None.
    """

    comparisons: Comparisons
    fitted: Mapping[str, Array]
    unranked: str | None
    resting: str | None = None

    @classmethod
    def of(cls, comparisons: Comparisons, pairs: TextPairs, prior: float) -> Strengths:
        """Fits the strengths, where the comparisons determine them."""
        unranked = why_unranked(comparisons, pairs.systems)
        if unranked is not None:
            return cls(comparisons, {}, unranked)
        fitted = fit_strengths(comparisons, pairs.clusters.weights, prior)
        return cls(comparisons, fitted, None, why_resting(comparisons, prior, pairs.systems))


def pairwise_records(
    scores: Scores | Row,
    dataset: str,
    prior: float = 1.0,
    resamples: int = RESAMPLES,
    seed: int = 0,
    rules: Mapping[str, str] | None = None,
) -> Rows:
    """Strengths of systems after each judge and after the humans, and whether the two prefer alike:
    a record per cell, in the order in which these appear; see above. Of texts that were not
    compared there is none.

    The humans compared the same pairs: a text is better whose score is higher, or which they
    preferred. Judge and humans are resampled alike. `prior`: see `fit_strengths`.
    """
    table = Scores.of(scores)
    if not table.compares:
        return []
    if missing := [name for name in COMPARED if name not in table.columns]:
        raise ValueError(f"scores: missing columns {', '.join(missing)}")
    settings = {"prior": prior, "resamples": resamples, "seed": seed}
    pairs_of = {cell: TextPairs.of(table.part(cell), resamples, seed) for cell in table.cells}
    records = []
    for cell, pairs in pairs_of.items():
        # chosen on the test pairs, a threshold would fit their noise
        dev = pairs_of.get(cell._replace(split=DEV))
        threshold = None if dev is None else best_threshold(dev.preferences)
        record = {
            "dataset": dataset,
            **cell.named,
            "rule": (rules or {}).get(cell.decoding),
            **settings,
        }
        records.append(record | _record(pairs, prior, threshold))
    return records


def _record(pairs: TextPairs, prior: float, threshold: float | None) -> Record:
    # 1. strengths after judge and humans
    systems = pairs.systems
    judge, humans = _strengths(pairs, prior)
    # 2. what was compared, what the place is worth, and what is missing
    distinct = float(pairs.share[pairs.first != pairs.second].sum())
    record: Record = {
        "pairs": round(distinct, 9),
        "groups": pairs.clusters.count,
        "systems": len(systems),
        **_bounded("place_effect", judge.fitted.get("place")),
        "unranked": judge.unranked,
        "human_unranked": humans.unranked,
        "resting": judge.resting,
        "human_resting": humans.resting,
    }
    # 3. judge and humans: strengths over systems, then pair by pair
    correlated: list[Array | None] = [None] * len(CORRELATIONS)
    if judge.fitted and humans.fitted and len(systems) >= _FEWEST:
        # strengths that are equal in truth must tie, whatever the last step of the fit has left
        by_judge = np.round(judge.fitted["strengths"], 9)
        by_humans = np.round(humans.fitted["strengths"], 9)
        correlated = list(correlate_rows(by_judge, by_humans))
    for name, values in zip(CORRELATIONS, correlated, strict=True):
        record |= _bounded(f"strength_{name}", values)
    preferences = pairs.preferences
    record |= preferences.agreement(threshold)
    record |= {"ranking": [], "system_pairs": []}
    if len(systems) <= MOST_RANKED:
        record |= {
            "ranking": _ranking(pairs, judge, humans),
            "system_pairs": _system_pairs(pairs, judge, humans, preferences),
        }
    return record


def _strengths(pairs: TextPairs, prior: float) -> tuple[Strengths, Strengths]:
    """Strengths after the judge, for whom each order counts half, by its win probability; and after
    the humans, by the pairs that they rated."""
    # the judge, in each order
    # wins hold half of the ties: here they are counted apart
    half_ties = pairs.ties / 2  # [2, n]
    won = pairs.wins - half_ties
    lost = 1 - pairs.wins - half_ties
    by_judge = np.stack([won, pairs.ties, lost])  # [3, 2, n]
    by_judge = by_judge * pairs.share / 2
    places = np.repeat((1, -1), len(pairs.first))
    judged = pairs.comparisons(by_judge.reshape(3, -1), places)
    # the humans, whose places are unknown
    rated = np.isfinite(pairs.human)
    preference = np.where(rated, pairs.human, 0.0)
    winner = preferred(preference)  # [n]
    by_humans = np.stack([winner > 0, winner == 0, winner < 0])
    by_humans = by_humans * pairs.share * rated
    compared = pairs.comparisons(by_humans, np.zeros_like(pairs.first))
    return Strengths.of(judged, pairs, prior), Strengths.of(compared, pairs, prior)


def _system_pairs(
    pairs: TextPairs, judge: Strengths, humans: Strengths, preferences: Preferences
) -> Rows:
    """A record a pair of systems that met, see above."""
    systems = pairs.systems
    rated = np.isfinite(pairs.human)
    tables = {
        "win_share": judge.comparisons.table(),  # [3, K, K]
        "human_win_share": humans.comparisons.table(),
    }
    # a pair of systems by its lower number first, as in `Comparisons`
    low = np.minimum(pairs.first, pairs.second)
    high = np.maximum(pairs.first, pairs.second)
    met = np.zeros((len(systems), len(systems)))
    np.add.at(met, (low, high), pairs.share)
    rows = []
    for i, k in np.argwhere(np.triu(met, 1)).tolist():
        row = {
            "first": systems[i],
            "second": systems[k],
            "pairs": float(met[i, k]),
        }
        for name, table in tables.items():
            outcomes = table[:, i, k].tolist()
            row[name] = _win_share(*outcomes)
        of_both = (low == i) & (high == k)
        rows.append(row | preferences.agreed(of_both[rated]))
    return rows


def _win_share(won: float, tied: float, lost: float) -> float | None:
    """The share of comparisons that were won, ties half; None without any."""
    total = won + tied + lost
    return (won + tied / 2) / total if total else None


def why_unranked(comparisons: Comparisons, systems: Sequence[str]) -> str | None:
    """A sentence that says why there are no strengths; None where there are."""
    if len(systems) > MOST_RANKED:
        return say("unranked", part="many", systems=systems, most=MOST_RANKED)
    if len(systems) < 2:
        return say("unranked", part="one", systems=systems)
    if not comparisons.table().sum():
        return say("unranked", part="nobody")
    # nothing is borrowed from the prior to compare those who never met
    if len(apart := comparisons.parts) > 1:
        return say("unranked", part="parts", systems=systems, apart=apart)
    return None


def why_resting(comparisons: Comparisons, prior: float, systems: Sequence[str]) -> str | None:
    """A sentence that says why strengths are finite by the prior alone; None where they are without
    it."""
    if comparisons.decided_by_place:
        return say("unranked", part="place", prior=prior)
    levels = comparisons.levels
    if len(levels) == 1:
        return None
    # of the fewer systems, the best or the worst, it is said
    part = "never won" if len(levels[0]) > len(levels[-1]) else "never lost"
    return say("unranked", part=part, prior=prior, systems=systems, levels=levels)


def _bounded(name: str, values: Array | None) -> Numbers:
    """A number [1 + B] of the data with the interval of its resamples; None where there is none."""
    return unknown((name,)) if values is None else with_intervals({name: values})


def _ranking(pairs: TextPairs, judge: Strengths, humans: Strengths) -> Rows:
    """A record a system, the strongest first, see above."""
    rows: Rows = [{"system": name} for name in pairs.systems]
    for prefix, side in (("", judge), ("human_", humans)):
        won, tied, lost = side.comparisons.table().sum(axis=2)  # [K] each
        strengths = side.fitted.get("strengths")  # [1 + B, K]
        if strengths is not None:
            rounded = np.round(strengths, 9)
            ranks = tied_ranks(-rounded)[0]  # equal ones share the better
        for i, row in enumerate(rows):
            record = dict.fromkeys(("rank", "rank_low", "rank_high")) | unknown(("strength", "elo"))
            if strengths is not None:
                strength = strengths[:, i]
                record |= _rank(ranks[:, i]) | with_intervals(
                    {"strength": strength, "elo": ELO_MEAN + ELO * strength}
                )
            wins = float(won[i])
            ties = float(tied[i])
            losses = float(lost[i])
            record |= {
                "wins": wins,
                "ties": ties,
                "losses": losses,
                "win_share": _win_share(wins, ties, losses),
            }
            row |= {f"{prefix}{name}": value for name, value in record.items()}
    by = "strength" if judge.fitted else "win_share"

    def weakness(row: Row) -> float:
        value = row[by]
        # equal ones stay in their order, whatever rounding has left of a difference
        return np.inf if value is None else -round(value, 9)

    return sorted(rows, key=weakness)


def _rank(ranks: Array) -> dict[str, int]:
    """A rank [1 + B] with the ranks between which it lies in 95 % of the resamples."""
    record = {"rank": int(ranks[0])}
    if len(ranks) > 1:
        # a rank that was reached, and none between two
        low, high = np.quantile(ranks[1:], CONFIDENCE, method="inverted_cdf").tolist()
        record |= {"rank_low": int(low), "rank_high": int(high)}
    return record
