"""Systems ranked by comparisons of their texts, by judge and by humans: the records of pairwise.json.

A record per (split, dimension, attack, defense, judge, decoding, lambda, temperature) holds JSON's own types, never
NaN. Numbers with an interval have its ends as `_low` and `_high`.

- dataset, what identifies the cell, rule; ties, prior, reference, human_tie, resamples, seed: as asked
  for;
- pairs: distinct pairs of texts, of two systems; groups; systems;
- place_effect: what the first place is worth, in log-odds (0: nothing; 1: as much as a strength higher by 1),
  None without such a parameter; attack_effect: what being attacked is worth, likewise; tie_odds and
  human_tie_odds: Davidson's nu;
- unranked, human_unranked: a sentence where there are no strengths, else None; with more systems than
  `MOST_RANKED`, ranking and system_pairs are empty as well; resting, human_resting: a sentence
  where strengths are finite by the prior alone; undetermined_share: of the resamples, those in which
  the judge's or the humans' strengths do not exist; there are no intervals of strengths then;
- strength_pearson, strength_spearman, strength_kendall: of the judge's and the humans' strengths over systems,
  None with fewer than three;
- tau, auc, accuracy, accuracy_calibrated, tie_threshold, human_tie_share, judge_tie_share, rated: see
  `Preferences.agreement`; the threshold is chosen on the same judge's dev split (None without one), whose own
  accuracy_calibrated is hence no test;
- ranking: a record a system, the strongest first: system; rank; strength in log-odds; elo, its Elo points
  (1000 at strength 0); wins, ties, losses, as shares of comparisons summed; win_share, ties half; and human_
  with each of these names;
- system_pairs: a record a pair of systems that met: first, second, pairs,
  win_share of the first, human_win_share, agreement with the humans where they prefer one (with ends).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.metrics import bradley_terry
from judgebench.metrics.bradley_terry import ELO, ELO_MEAN, Fitted, Model
from judgebench.metrics.comparisons import (
    DAVIDSON,
    NEEDED,
    Comparisons,
    Ranking,
    TextPairs,
    decided_by,
    dominant,
    parts,
)
from judgebench.metrics.preference import best_threshold
from judgebench.stats.clusters import RESAMPLES, unknown, weights_of, with_interval
from judgebench.stats.correlation import CORRELATIONS, correlate_rows
from judgebench.stats.scores import CLEAN, Cell, cells, checked

DEV = "dev"

MOST_RANKED = 500
"""Systems beyond which none are ranked: time and memory grow with their square, and the fit's with their cube."""

_WITH_TIES = ("lost to or tied with", "won against or tied with")
_SETTINGS = ("ties", "prior", "reference", "human_tie")
_FEWEST = 3
"""Systems whose strengths can be correlated: two always lie on a line."""


def pairwise_records(
    scores: Mapping[str, np.ndarray],
    dataset: str,
    ranking: Ranking | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    rules: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Strengths of systems after each judge and after the humans, and whether the two prefer alike: a record per cell,
    in the order in which these appear; see above. Of texts that were not compared there is none.

    Two texts that met twice, each once as the judged one, are one comparison, each row half of it. The humans compared
    the same pairs: a text is better whose score is higher, or which they preferred. Judge and humans are resampled
    alike.

    Raises:
        ValueError: see `cells.checked`, or a column of compared texts is missing.
    """
    ranking = ranking or Ranking()
    columns = checked(scores)
    if "score_first" not in columns:
        return []
    if missing := [name for name in NEEDED if name not in columns]:
        raise ValueError(f"scores: missing columns {', '.join(missing)}")
    settings: dict[str, Any] = {name: getattr(ranking, name) for name in _SETTINGS}
    settings |= {"resamples": resamples, "seed": seed}
    pairs_of = {cell: TextPairs.of(columns, rows) for cell, rows in cells(columns).items()}
    records = []
    for cell, pairs in pairs_of.items():
        named = {"dataset": dataset} | cell.named | {"rule": (rules or {}).get(cell.decoding)}
        dev = pairs_of.get(cell._replace(split=DEV))
        threshold = None if dev is None else best_threshold(dev.preferences(ranking))
        records.append(named | settings | _record(cell, pairs, ranking, threshold, resamples, seed))
    return records


@dataclass(frozen=True)
class _Side:
    """Strengths after the judge or the humans; where there are none, `unranked` says why."""

    comparisons: Comparisons
    fitted: Fitted | None
    unranked: str | None
    resting: str | None


def _record(
    cell: Cell, pairs: TextPairs, ranking: Ranking, threshold: float | None, resamples: int, seed: int
) -> dict[str, Any]:
    weights = weights_of(len(pairs.groups), resamples, seed)
    attacked = cell.attack != CLEAN
    model = Model(ranking.ties, ranking.prior, ranking.position, attacked)
    judge = _side(pairs.judged(ranking, attacked), weights, model, pairs.systems)
    humans = _side(pairs.by_humans(ranking), weights, Model(ranking.ties, ranking.prior), pairs.systems)
    reference = pairs.systems.index(ranking.reference) if ranking.reference in pairs.systems else None
    if ranking.reference is not None and reference is None:
        note = f"no text of this split is by the reference {ranking.reference}"
        judge, humans = (_Side(side.comparisons, None, side.unranked or note, None) for side in (judge, humans))
    missing = []  # of each side the share of resamples without strengths
    for side in (judge, humans):
        drawn = np.zeros((0, 1)) if side.fitted is None else side.fitted.strengths[1:]
        missing.append(float((~np.isfinite(drawn).all(axis=1)).mean()) if len(drawn) else 0.0)
    apart = pairs.one != pairs.other
    record: dict[str, Any] = {
        "pairs": round(float(pairs.share[apart].sum()), 9),
        "groups": len(pairs.groups),
        "systems": len(pairs.systems),
    }
    fitted = judge.fitted
    for name in ("place", "attack"):
        values = None if fitted is None else getattr(fitted, name)
        record |= _bounded(f"{name}_effect", values, missing[0])
    ties = [side.fitted.tie if side.fitted else None for side in (judge, humans)]
    odds = (None if tie is None else float(tie[0]) for tie in ties)
    record |= dict(zip(("tie_odds", "human_tie_odds"), odds, strict=True))
    record |= {"unranked": judge.unranked, "human_unranked": humans.unranked}
    record |= {"resting": judge.resting, "human_resting": humans.resting}
    record["undetermined_share"] = max(missing)
    record |= _correlations(judge, humans, max(missing))
    preferences = pairs.preferences(ranking)
    record |= preferences.agreement(weights, threshold)
    ranked = len(pairs.systems) <= MOST_RANKED
    record["ranking"] = _ranking(pairs, judge, humans, reference, missing) if ranked else []
    record["system_pairs"] = _system_pairs(pairs, ranking, judge, humans, weights) if ranked else []
    return record


def _side(comparisons: Comparisons, weights: np.ndarray, model: Model, systems: Sequence[str]) -> _Side:
    unranked, resting = _determined(comparisons, model, systems)
    if unranked is not None:
        return _Side(comparisons, None, unranked, None)
    fitted = bradley_terry.fit_strengths(comparisons, weights, model)
    if not np.isfinite(fitted.strengths[0]).all():
        reason = "the likeliest strengths, with what the place and the attack are worth, are infinite; "
        return _Side(comparisons, None, f"{reason}pairwise.prior=1 holds them back", None)
    return _Side(comparisons, fitted, None, resting)


def _determined(comparisons: Comparisons, model: Model, systems: Sequence[str]) -> tuple[str | None, str | None]:
    """Sentences that say why there are no strengths, and why they are finite by the prior alone; None where neither."""
    if len(systems) > MOST_RANKED:
        return f"{len(systems):,} systems are more than the {MOST_RANKED} that are ranked", None
    if len(systems) < 2:
        return f"all texts are by one system, {systems[0] if systems else 'none'}", None
    if not comparisons.table().sum():
        return "nobody compared these texts", None
    apart = parts(comparisons)
    if len(apart) > 1:
        named = "; ".join(_listed([systems[i] for i in part]) for part in apart)
        return f"the systems fall into {len(apart)} parts that never met, directly or through others: {named}", None
    resting = None
    levels = dominant(comparisons, model.ties)
    if len(levels) > 1:
        top, bottom = (_listed([systems[i] for i in levels[end]]) for end in (0, -1))
        lost, won = ("lost to", "won against") if model.ties == DAVIDSON else _WITH_TIES
        never = f"{top} never {lost} {bottom if len(levels) == 2 else 'any of the others'}"
        if len(levels[0]) > len(levels[-1]):
            never = f"{bottom} never {won} any of the others"
        if not model.prior:
            return f"{never}: the likeliest strengths are infinite; pairwise.prior=1 holds them back", None
        resting = f"{never}: without pairwise.prior ({model.prior:g}) strengths would be infinite"
    for name, asked, signs in (
        ("the place", model.place, comparisons.place),
        ("the attack", model.attack, comparisons.attacked),
    ):
        if asked and decided_by(comparisons, signs):
            if not model.prior:
                return f"{name} decides every comparison, so nothing is told of strengths", None
            resting = f"{name} decides every comparison: what it is worth is finite by pairwise.prior ({model.prior:g})"
            resting += " alone, and nothing is told of strengths"
    return None, resting


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _bounded(name: str, values: np.ndarray | None, missing: float) -> dict[str, float | None]:
    """A number of the data with the interval of its resamples, unless some of these do not have it."""
    if values is None or np.isnan(values[0]):
        return unknown((name,))
    return with_interval(name, values[:1] if missing else values)


def _correlations(judge: _Side, humans: _Side, missing: float) -> dict[str, float | None]:
    names = [f"strength_{name}" for name in CORRELATIONS]
    if judge.fitted is None or humans.fitted is None or judge.fitted.strengths.shape[1] < _FEWEST:
        return unknown(names)
    sides = [np.round(side.fitted.strengths, 9) for side in (judge, humans) if side.fitted is not None]
    whole = np.isfinite(sides[0]).all(axis=1) & np.isfinite(sides[1]).all(axis=1)
    found = correlate_rows(*(side[whole] for side in sides))
    record: dict[str, float | None] = {}
    for name, values in zip(names, found, strict=True):
        record |= _bounded(name, values, missing)
    return record


def _ranking(
    pairs: TextPairs, judge: _Side, humans: _Side, reference: int | None, missing: Sequence[float]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"system": name} for name in pairs.systems]
    for prefix, side, lost in (("", judge, missing[0]), ("human_", humans, missing[1])):
        won, tied, _ = side.comparisons.table()
        strengths = None if side.fitted is None else side.fitted.against(reference)
        places = None if strengths is None else bradley_terry.ranks(strengths if not lost else strengths[:1])
        for i, row in enumerate(rows):
            row |= _placed(prefix, None if places is None else places[:, i])
            own = None if strengths is None else strengths[:, i]
            row |= _bounded(f"{prefix}strength", own, lost)
            row |= _bounded(f"{prefix}elo", None if own is None else ELO_MEAN + ELO * own, lost)
            ends = float(won[i].sum()), float(tied[i].sum()), float(won[:, i].sum())
            row |= {f"{prefix}{name}": value for name, value in zip(("wins", "ties", "losses"), ends, strict=True)}
            row[f"{prefix}win_share"] = (ends[0] + ends[1] / 2) / sum(ends) if sum(ends) else None
    by = "strength" if judge.fitted is not None else "win_share"
    return sorted(rows, key=lambda row: -(row[by] if row[by] is not None else -np.inf))


def _placed(prefix: str, ranks: np.ndarray | None) -> dict[str, int | None]:
    """A rank, with the ranks between which it lies in 95 % of the resamples."""
    names = [f"{prefix}rank{end}" for end in ("", "_low", "_high")]
    if ranks is None:
        return dict.fromkeys(names)
    ends = np.quantile(ranks[1:], (0.025, 0.975), method="inverted_cdf").tolist() if len(ranks) > 1 else (None, None)
    return dict(zip(names, (int(ranks[0]), *(None if end is None else int(end) for end in ends)), strict=True))


def _system_pairs(
    pairs: TextPairs, ranking: Ranking, judge: _Side, humans: _Side, weights: np.ndarray
) -> list[dict[str, Any]]:
    tables = [side.comparisons.table() for side in (judge, humans)]
    preferences = pairs.preferences(ranking)
    told = np.isfinite(pairs.human)
    low, high = (end(pairs.one, pairs.other)[told] for end in (np.minimum, np.maximum))
    met = np.zeros((len(pairs.systems),) * 2)
    np.add.at(met, (np.minimum(pairs.one, pairs.other), np.maximum(pairs.one, pairs.other)), pairs.share)
    records = []
    for i, k in zip(*np.nonzero(np.triu(met, 1)), strict=True):
        record: dict[str, Any] = {"first": pairs.systems[i], "second": pairs.systems[k], "pairs": float(met[i, k])}
        for name, (won, tied, lost) in zip(("win_share", "human_win_share"), tables, strict=True):
            total = won[i, k] + tied[i, k] + lost[i, k]
            record[name] = float((won[i, k] + tied[i, k] / 2) / total) if total else None
        agreed = preferences.of((low == i) & (high == k)).named(weights)
        records.append(record | {"preferred": agreed.pop("pairs")} | agreed)
    return records
