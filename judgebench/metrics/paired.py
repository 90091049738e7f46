"""Paired differences of two series of scores: which agrees better with the humans, and which is easier to fool.

Both sides are resampled together over the examples that both hold, so that what they owe to easy or hard articles
cancels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from judgebench.metrics.cells import Cell, cells, checked, series_of
from judgebench.metrics.evaluation import check_metric_settings
from judgebench.metrics.levels import LEVELS, correlate
from judgebench.metrics.resampling import (
    PERMUTATIONS,
    RESAMPLES,
    SIGNIFICANCE,
    Resampled,
    flipped_differences,
    flips,
    groups_needed,
    holm,
    percentile_interval,
    permutation_p_value,
)
from judgebench.metrics.robustness import CLEAN, clean_cell, pair, resampled_changes
from judgebench.stats.correlation import CORRELATIONS
from judgebench.types import RANGE

Series = tuple[str, str]
"""(judge, decoding), as in the columns of scores.parquet."""

IMPROVEMENT = 0.05
"""The difference of which `groups_needed_for_0.05` speaks."""

BETTER, WORSE, NOT_SIGNIFICANT = "better", "worse", "not significant"
"""Values of `says` in records of `compare`."""

DIFFERENCES = (
    *("change", "standardized", "rate_of_means", "mean_of_rates"),
    *("raised_share", "places_gained", "win_share"),
)
"""The numbers of `robustness` whose differences `attack_differences` gives."""

MORE, LESS = "more", "less"
"""Values of `says` in records of `attack_differences`, besides `not significant`: the attack gains more, or less, of
the first than of the second."""

_NEEDED_FOR = f"groups_needed_for_{IMPROVEMENT:g}"
_USED = ("example_id", "group_id", "system_id", "score", "human")


def compare(
    scores: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[Series, Series]],
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    chosen_on: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The difference first - second of each pair of series, in every cell that holds both, on the examples of both.

    Args:
        scores: columns of scores, as `evaluate` takes them.
        pairs: see `default_pairs`. A cell that lacks one of them, or ratings of what both have scored, gives no record,
            nor does a level at which nothing can be correlated. lambda and temperature, which tuning may set anew in
            each range, are no part of a series; only where a cell holds several settings is each compared.
        dataset: its name, put into each record.
        levels, resamples, seed: see `check_metric_settings`. All differences over the same groups are resampled alike.
        chosen_on: the splits by which settings were tuned; nothing is tested on these.

    Returns:
        A record per split, dimension, attack, defense, level, pair, range and statistic, in this order; after a pair's
        ranges, where there are two or more over the same groups, comes the mean over them, resampled and flipped
        jointly. JSON's own types, never NaN: dataset, level, the keys of `named_pair`, and

        - statistic: pearson, spearman or kendall; n, groups: as in `evaluate`;
        - first, second: the two values; difference: first - second;
        - low, high: its 95 % percentile interval; bca_low, bca_high: its BCa interval; se: its standard error;
        - p: of the paired permutation test, see `flipped_differences` and `permutation_p_value`; p_holm: the same,
          Holm-corrected over the table: all pairs, ranges and means of one split, dimension, attack, defense, level and
          statistic; comparisons: how many these are;
        - groups_needed: of the observed difference, and groups_needed_for_0.05: of one of 0.05; see there;
        - says: `better` or `worse` where the percentile interval leaves out 0 and p_holm is at most 0.05, else `not
          significant`.

        From low on all but comparisons are None with fewer than two groups or without resamples, and from p on in the
        splits of `chosen_on`; groups_needed also where there is no difference.

    Raises:
        ValueError: columns that `evaluate` refuses too.
        UserError: settings that `check_metric_settings` refuses.
    """
    check_metric_settings(levels, resamples, seed)
    columns = checked(scores)
    for name in ("group", "system"):
        columns[name] = np.unique(columns[f"{name}_id"], return_inverse=True)[1]
    rows_of = cells(columns)
    records: list[dict[str, Any]] = []
    for (split, *_), matched in _tables(rows_of, pairs):
        permutations = 0 if split in chosen_on else PERMUTATIONS
        aligned = [[(both, _shared_rows(columns, rows_of, both, rated=True)) for both in ranges] for ranges in matched]
        for level in levels:
            gaps: list[_Gap] = []
            for ranges in aligned:
                rated = [(both, rows) for both, rows in ranges if rows]
                found = [_correlation_gap(level, columns, *side, resamples, seed, permutations) for side in rated]
                known = [gap for gap in found if gap]
                gaps += _with_mean(known) if len(known) == len(rated) else known
            records += _correlation_records({"dataset": dataset, "split": split, "level": level}, gaps, seed)
    return records


def attack_differences(
    scores: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[Series, Series]],
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Change by each attack of the first series of a pair less that of the second, on the texts that both have scored
    both clean and attacked.

    Args:
        scores, pairs, dataset, resamples, seed: see `compare`. A cell that lacks the clean scores of one series gives
            no record.

    Returns:
        A record per split, dimension, attack, defense, pair, range and number of `DIFFERENCES`, in this order; after a
        pair's ranges, where there are two or more of one width over the same groups, comes the mean over them,
        resampled jointly. JSON's own types, never NaN: dataset, the keys of `named_pair`, and

        - statistic: of `DIFFERENCES`; n: texts (None in a mean over ranges that differ in it), groups: distinct groups;
        - first, second: the two values, see `robustness`; difference: first - second;
        - low, high: its 95 % percentile interval; se: its standard error;
        - groups_needed: with which so large a difference is told from 0, see there;
        - says: `more` or `less` where the interval lies wholly above or below 0, else `not significant`. Each interval
          speaks of its own difference: of twenty true zeros one is expected to be told apart.

        From first on all are None where a side's number is unknown (a rate of scores that are not above 0, a rank in
        groups of one text); from low on, with fewer than two groups or without resamples.

    Raises:
        ValueError: columns that `evaluate` refuses too.
    """
    columns = checked(scores)
    rows_of = cells(columns)
    records: list[dict[str, Any]] = []
    for (_, _, attack, _), matched in _tables(rows_of, pairs):
        for ranges in matched if attack != CLEAN else ():
            gaps = [gap for both in ranges if (gap := _change_gap(columns, rows_of, both, resamples, seed))]
            widths = {gap.sides[0][0].range_max - gap.sides[0][0].range_min for gap in gaps}
            for gap in _with_mean(gaps) if len(widths) == 1 else gaps:
                head = {"dataset": dataset} | named_pair(gap.sides)
                for name, (first, second) in gap.arrays.items():
                    counts = {"statistic": name, "n": gap.n, "groups": len(gap.groups)}
                    records.append(head | counts | _change_difference(first, second, len(gap.groups)))
    return records


def default_pairs(columns: Mapping[str, np.ndarray], rules: Mapping[str, str]) -> list[tuple[Series, Series]]:
    """The comparisons of a run: each decoding of the pair with the main model's first one of the same rule.

    Where the main model has none, the decoding is compared with nothing: the difference would be the rule's as much as
    the contrast's. Where the pair has both decodings `X` and `X_per_range`, also X with X_per_range: what one setting
    for all ranges loses.

    Args:
        columns: judge and decoding of the scores.
        rules: name of each decoding -> its `rule`, see `judgebench.decoding.scores.rules_of`.

    Example:
        >>> columns = {"judge": np.array(["main", "pair"]), "decoding": np.array(["greedy", "contrastive"])}
        >>> default_pairs(columns, {"greedy": "argmax", "contrastive": "argmax"})
        [(('pair', 'contrastive'), ('main', 'greedy'))]
    """
    there = list(dict.fromkeys(zip(map(str, columns["judge"]), map(str, columns["decoding"]), strict=True)))
    contrasting = [series for series in there if series[0] == "pair"]
    pairs: list[tuple[Series, Series]] = []
    for series in contrasting:
        base = next((other for other in there if other[0] == "main" and rules[other[1]] == rules[series[1]]), None)
        pairs += [(series, base)] if base else []
    per_range = [(series, (series[0], f"{series[1]}_per_range")) for series in contrasting]
    return pairs + [both for both in per_range if both[1] in contrasting]


def corrected_together(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records of `compare` that are read together: `p_holm`, `comparisons` and `says` anew, with Holm's correction over
    all of one level and statistic instead of over each table."""
    corrected: list[dict[str, Any]] = [dict(record) for record in records]
    for family in {(record["level"], record["statistic"]) for record in corrected}:
        own = [record for record in corrected if (record["level"], record["statistic"]) == family]
        tested = [record for record in own if record["p"] is not None]
        for record, p_holm in zip(tested, holm(np.array([record["p"] for record in tested])).tolist(), strict=True):
            record["p_holm"] = p_holm
        for record in own:
            record |= {"comparisons": len(tested)} | _verdict(record)
    return corrected


def named_pair(sides: Sequence[tuple[Cell, Cell]]) -> dict[str, Any]:
    """The columns that name a comparison in one range, or in the mean over several.

    Returns:
        split, dimension, the columns of the range (None in a mean over ranges), ranges (how many), attack, defense, and
        judge, decoding, lambda and temperature of `first_` and `second_`: lambda and temperature are None
        where there is none, and in a mean where they vary over the ranges.
    """
    cell = sides[0][0]
    named: dict[str, Any] = {"split": cell.split, "dimension": cell.dimension}
    named |= {**(cell.range.columns if len(sides) == 1 else dict.fromkeys(RANGE)), "ranges": len(sides)}
    named |= {"attack": cell.attack, "defense": cell.defense}
    for side, name in enumerate(("first", "second")):
        cell = sides[0][side]
        settings = zip(*(both[side].knobs for both in sides), strict=True)
        lambda_, temperature = (values[0] if len(set(values)) == 1 else None for values in settings)
        named |= {f"{name}_judge": cell.judge, f"{name}_decoding": cell.decoding}
        named |= {f"{name}_lambda": lambda_, f"{name}_temperature": temperature}
    return named


def _tables(
    rows_of: Mapping[Cell, np.ndarray], pairs: Sequence[tuple[Series, Series]]
) -> Iterator[tuple[tuple[str, str, str, str], list[list[tuple[Cell, Cell]]]]]:
    """Each table (split, dimension, attack, defense) with both cells of every pair of series in it, range by range.

    A pair stands there several times where a table holds several settings of a judge and decoding.
    """
    series = series_of(rows_of)
    for table in dict.fromkeys(key[:4] for key in series):
        here = {key[4:]: ranges for key, ranges in series.items() if key[:4] == table}
        matched = [
            (here[first], here[second])
            for one, other in pairs
            for first in here
            for second in here
            if (first[:2], second[:2]) == (tuple(one), tuple(other))
        ]
        yield table, [[(cell, second[at]) for at, cell in first.items() if at in second] for first, second in matched]


def _shared_rows(
    columns: Mapping[str, np.ndarray], rows_of: Mapping[Cell, np.ndarray], of: Sequence[Cell], rated: bool = False
) -> list[np.ndarray]:
    """For each cell the rows [n] of the (rated) examples that all of them hold, in one order; empty where none is."""
    rows = [rows_of[cell] for cell in of]
    if rated:
        rows = [own[np.isfinite(columns["human"][own])] for own in rows]
    ids = [columns["example_id"][own] for own in rows]
    common = reduce(np.intersect1d, ids)
    if not len(common):
        return []
    return [
        own[np.intersect1d(names, common, assume_unique=True, return_indices=True)[1]]
        for own, names in zip(rows, ids, strict=True)
    ]


@dataclass(frozen=True)
class _Gap:
    """Two series in one range, or in the mean over several.

    Attributes:
        arrays: measured of the two and of their resamples, by name; a mean over ranges is that of each array.
        n: examples; None in a mean over ranges that differ in it.
    """

    sides: tuple[tuple[Cell, Cell], ...]
    arrays: Mapping[str, np.ndarray]
    groups: tuple[Any, ...]
    n: int | None


def _with_mean(gaps: list[_Gap]) -> list[_Gap]:
    """The gaps of one pair and, where they are several over the same groups, hence the same resamples, their mean."""
    if len(gaps) < 2 or len({gap.groups for gap in gaps}) > 1:
        return gaps
    sides = tuple(cells for gap in gaps for cells in gap.sides)
    arrays = {name: np.mean([gap.arrays[name] for gap in gaps], axis=0) for name in gaps[0].arrays}
    return [*gaps, _Gap(sides, arrays, gaps[0].groups, gaps[0].n if len({gap.n for gap in gaps}) == 1 else None)]


def _correlation_gap(
    level: str,
    columns: Mapping[str, np.ndarray],
    both: tuple[Cell, Cell],
    rows: Sequence[np.ndarray],
    resamples: int,
    seed: int,
    permutations: int,
) -> _Gap | None:
    """values [2, 3] of both; difference [3], resampled [3, B], jackknife [3, G] and permuted [3, P] of first - second,
    P being 0 where nothing is tested; None where nothing can be correlated at this level."""
    human, group, system = (columns[name][rows[0]] for name in ("human", "group", "system"))
    first, second = (
        correlate(level, columns["score"][own], human, group, system, resamples=resamples, seed=seed) for own in rows
    )
    if not first.known:
        return None
    difference = first.minus(second)
    permuted = np.zeros((3, 0))
    if difference.resampled.shape[1] and permutations:
        permuted = flipped_differences(difference, flips(difference.jackknife.shape[1], permutations, seed)[0])
    arrays = {"values": np.stack([first.values, second.values]), "difference": difference.values}
    arrays |= {"resampled": difference.resampled, "jackknife": difference.jackknife, "permuted": permuted}
    return _Gap((both,), arrays, tuple(np.unique(group).tolist()), first.n)


def _correlation_records(head: Mapping[str, Any], gaps: Sequence[_Gap], seed: int) -> list[dict[str, Any]]:
    """The records of one table at one level."""
    records = []
    for gap in gaps:
        difference = Resampled(*(gap.arrays[name] for name in ("difference", "resampled", "jackknife")))
        intervals, bca_intervals = difference.intervals(), difference.bca_intervals()
        errors, permuted = difference.standard_errors(), gap.arrays["permuted"]
        exact = permuted.shape[1] > 0 and flips(difference.jackknife.shape[1], PERMUTATIONS, seed)[1]
        named = {**head, **named_pair(gap.sides)}
        for k, statistic in enumerate(CORRELATIONS):
            first, second = gap.arrays["values"][:, k].tolist()
            value = float(difference.values[k])
            low, high = intervals[k] or (None, None)
            bca_low, bca_high = bca_intervals[k] or (None, None)
            record = named | {"statistic": statistic, "n": gap.n, "groups": len(gap.groups)}
            record |= {"first": first, "second": second, "difference": value, "low": low, "high": high}
            record |= {"bca_low": bca_low, "bca_high": bca_high, "se": errors[k]}
            p = permutation_p_value(value, permuted[k], exact) if permuted.shape[1] else None
            records.append(record | {"p": p, "p_holm": None, "comparisons": 0})
    return corrected_together(records)


def _verdict(record: Mapping[str, Any]) -> dict[str, Any]:
    if record["se"] is None or record["p_holm"] is None:
        return {"groups_needed": None, _NEEDED_FOR: None, "says": None}
    needed, needed_for = (
        groups_needed(size, record["se"], record["groups"]) for size in (record["difference"], IMPROVEMENT)
    )
    says = NOT_SIGNIFICANT
    if record["p_holm"] <= SIGNIFICANCE and not record["low"] <= 0 <= record["high"]:
        says = BETTER if record["low"] > 0 else WORSE
    return {"groups_needed": needed, _NEEDED_FOR: needed_for, "says": says}


def _change_gap(
    columns: Mapping[str, np.ndarray],
    rows_of: Mapping[Cell, np.ndarray],
    both: tuple[Cell, Cell],
    resamples: int,
    seed: int,
) -> _Gap | None:
    """Each of `DIFFERENCES` [2, 1 + B] of first and second, see `resampled_changes`; None where a side has no clean
    scores, or no text is in all four."""
    needed = [cell for side in both for cell in (clean_cell(side), side)]
    if not all(cell in rows_of for cell in needed) or not (rows := _shared_rows(columns, rows_of, needed)):
        return None
    parts = [{name: columns[name][own] for name in _USED} for own in rows]
    paired = [pair(*parts[:2]), pair(*parts[2:])]
    changes = [resampled_changes(side, both[0].range, resamples, seed) for side in paired]
    arrays = {name: np.stack([side[name] for side in changes]) for name in DIFFERENCES}
    return _Gap((both,), arrays, tuple(np.unique(paired[0].groups).tolist()), len(rows[0]))


def _change_difference(first: np.ndarray, second: np.ndarray, groups: int) -> dict[str, Any]:
    difference = first - second
    record: dict[str, Any] = dict.fromkeys(("first", "second", "difference", "low", "high", "se"))
    record |= dict.fromkeys(("groups_needed", "says"))
    if np.isnan(difference[0]):
        return record
    record |= {"first": float(first[0]), "second": float(second[0]), "difference": float(difference[0])}
    known = difference[1:][~np.isnan(difference[1:])]
    ends = percentile_interval(known)
    if ends is None or len(known) < 2:
        return record
    low, high = ends
    error = float(known.std(ddof=1))
    says = MORE if low > 0 else LESS if high < 0 else NOT_SIGNIFICANT
    needed = groups_needed(record["difference"], error, groups)
    return record | {"low": low, "high": high, "se": error, "groups_needed": needed, "says": says}
