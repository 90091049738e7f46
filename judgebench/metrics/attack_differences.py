"""Is one judge or decoding easier to fool than another? What an attack changes of the one less what of the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from judgebench.metrics.bootstrap import RESAMPLES
from judgebench.metrics.cells import Cell, cells, checked, series_of
from judgebench.metrics.compare import NOT_TOLD_APART
from judgebench.metrics.intervals import interval
from judgebench.metrics.power import groups_needed
from judgebench.metrics.robustness import CLEAN, clean_cell, pair, resampled_changes
from judgebench.metrics.series_pairs import Series, matched, named_pair
from judgebench.types import ScoreRange

DIFFERENCES = (
    *("change", "standardized", "rate_of_means", "mean_of_rates"),
    *("raised_share", "places_gained", "win_share"),
)
"""The numbers of `robustness` whose differences are told."""

MORE, LESS = "more", "less"
"""What `says` says, besides `not told apart`: the attack gains more, or less, of the first than of the second."""

_USED = ("example_id", "group_id", "system_id", "score", "human")


def attack_differences(
    scores: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[Series, Series]],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """What each attack changes of the first series of a pair less what it changes of the second, on the texts that both
    have scored both clean and attacked.

    Args:
        scores: columns of scores, as `evaluate` takes them.
        pairs: ((judge, decoding), (judge, decoding)); see `judgebench.metrics.compare.default_pairs`. A cell that lacks
            one of them, or the clean scores of one, gives no record.
        dataset: its name, put into each record.
        resamples, seed: of the groups, behind each interval; all differences over the same groups are resampled alike,
            both sides together.

    Returns:
        A record per split, dimension, attack, defense, pair, range and number of `DIFFERENCES`, in this order; after a
        pair's ranges, where there are two or more of one width over the same groups, comes the mean over them,
        resampled jointly. JSON's own types, never NaN: dataset, what `named_pair` gives, and

        - statistic: of `DIFFERENCES`; n: texts (None in a mean over ranges that differ in it), groups: distinct groups;
        - first, second: the two values, see `robustness`; difference: first - second;
        - low, high: its 95 % percentile interval; se: its standard error;
        - groups_needed: with which so large a difference is told from 0, see there;
        - says: `more` or `less` where the interval lies wholly above or below 0, else `not told apart`. Each interval
          speaks of its own difference: of twenty true zeros one is expected to be told apart.

        From first on all are None where a side's number is unknown (a rate of scores that are not above 0, a rank in
        groups of one text); from low on, with fewer than two groups or without resamples.

    Raises:
        ValueError: columns that `evaluate` refuses too.
    """
    columns = checked(scores)
    rows_of = cells(columns)
    series = series_of(rows_of)
    records: list[dict[str, Any]] = []
    for table in (table for table in dict.fromkeys(key[:4] for key in series) if table[2] != CLEAN):
        here = {key[4:]: ranges for key, ranges in series.items() if key[:4] == table}
        for first, second in matched(here, pairs):
            gaps = list(_gaps(columns, rows_of, first, second, resamples, seed))
            widths = {high - low for gap in gaps for low, high, _ in (gap.sides[0][0].range,)}
            if len(gaps) > 1 and len(widths) == len({gap.labels for gap in gaps}) == 1:
                gaps.append(_mean(gaps))
            records += [record for gap in gaps for record in _records(dataset, gap)]
    return records


@dataclass(frozen=True)
class _Gap:
    """Both sides in one range, or in the mean over several.

    Attributes:
        both: name -> [2, 1 + B] of first and second, see `resampled_changes`.
        labels: the groups' names.
    """

    sides: tuple[tuple[Cell, Cell], ...]
    both: Mapping[str, np.ndarray]
    labels: tuple[str, ...]
    n: int | None


def _gaps(
    columns: Mapping[str, np.ndarray],
    rows_of: Mapping[Cell, np.ndarray],
    first: Mapping[Any, Cell],
    second: Mapping[Any, Cell],
    resamples: int,
    seed: int,
) -> Iterator[_Gap]:
    """Both sides of each range in which both have clean scores of what they have attacked ones of."""
    for score_range, one in first.items():
        if score_range not in second:
            continue
        sides = (one, second[score_range])
        needed = [cell for side in sides for cell in (clean_cell(side), side)]
        if not all(cell in rows_of for cell in needed):
            continue
        common = reduce(np.intersect1d, [columns["example_id"][rows_of[cell]] for cell in needed])
        if not len(common):
            continue
        parts = []
        for cell in needed:
            rows = rows_of[cell][np.isin(columns["example_id"][rows_of[cell]], common)]
            parts.append({name: columns[name][rows] for name in _USED})
        paired = [pair(*parts[:2]), pair(*parts[2:])]
        found = [resampled_changes(side, ScoreRange(*score_range), resamples, seed) for side in paired]
        both = {name: np.stack([side[name] for side in found]) for name in DIFFERENCES}
        yield _Gap((sides,), both, tuple(np.unique(paired[0].groups).tolist()), len(common))


def _mean(gaps: Sequence[_Gap]) -> _Gap:
    """Over ranges with the same groups, hence the same resamples."""
    return _Gap(
        tuple(cells for gap in gaps for cells in gap.sides),
        {name: np.mean([gap.both[name] for gap in gaps], axis=0) for name in DIFFERENCES},
        gaps[0].labels,
        gaps[0].n if len({gap.n for gap in gaps}) == 1 else None,
    )


def _records(dataset: str, gap: _Gap) -> Iterator[dict[str, Any]]:
    head = {"dataset": dataset} | named_pair(gap.sides)
    groups = len(gap.labels)
    for name, (first, second) in gap.both.items():
        yield head | {"statistic": name, "n": gap.n, "groups": groups} | _measured(first, second, groups)


def _measured(first: np.ndarray, second: np.ndarray, groups: int) -> dict[str, Any]:
    difference = first - second
    record: dict[str, Any] = dict.fromkeys(("first", "second", "difference", "low", "high", "se"))
    record |= dict.fromkeys(("groups_needed", "says"))
    if np.isnan(difference[0]):
        return record
    record |= {"first": float(first[0]), "second": float(second[0]), "difference": float(difference[0])}
    known = difference[1:][~np.isnan(difference[1:])]
    ends = interval(known)
    if ends is None or len(known) < 2:
        return record
    low, high = ends
    error = float(known.std(ddof=1))
    says = MORE if low > 0 else LESS if high < 0 else NOT_TOLD_APART
    needed = groups_needed(record["difference"], error, groups)
    return record | {"low": low, "high": high, "se": error, "groups_needed": needed, "says": says}
