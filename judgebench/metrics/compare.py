"""Paired comparisons of two series of scores: how far one is better than the other, and whether by more than noise."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.metrics.bootstrap import RESAMPLES
from judgebench.metrics.cells import Cell, cells, checked, series_of
from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.evaluate import check_settings
from judgebench.metrics.intervals import Resampled, mean_of
from judgebench.metrics.levels import LEVELS, correlate
from judgebench.metrics.permutation import PERMUTATIONS, flipped_differences, flips, holm, p_value
from judgebench.metrics.power import SIGNIFICANCE, groups_needed
from judgebench.metrics.series_pairs import Series, matched, named_pair

IMPROVEMENT = 0.05
"""The difference of which `groups_needed_for_0.05` speaks."""

BETTER, WORSE, NOT_TOLD_APART = "better", "worse", "not told apart"
"""What `says` says."""

_NEEDED_FOR = f"groups_needed_for_{IMPROVEMENT:g}"
_Range = tuple[float | None, float | None, float | None]


def compare(
    scores: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[Series, Series]],
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
    chosen_on: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The difference first - second of each pair of series, in every cell that holds both, on the examples of both.

    Args:
        scores: columns of scores, as `evaluate` takes them.
        pairs: ((judge, decoding), (judge, decoding)); see `default_pairs`. A cell that lacks one of them, or ratings of
            what both have scored, gives no record, nor does a level at which nothing can be correlated. lambda and
            temperature, which tuning may set anew in each range, are no part of a series; only where a cell holds
            several settings is each compared.
        dataset: its name, put into each record.
        levels, resamples, seed: see `check_settings`. All differences over the same groups are resampled alike.
        permutations: flips behind each p-value. Without resamples there are none.
        chosen_on: the splits by which settings were chosen (tuning). The chosen are the best there by construction, so
            nothing is tested on these splits.

    Returns:
        A record per split, dimension, attack, defense, level, pair, range and statistic, in this order; after a pair's
        ranges, where there are two or more over the same groups, comes the mean over them, resampled and flipped
        jointly. JSON's own types, never NaN:

        - dataset, split, level, dimension, range_min, range_max, range_step (None in a mean over ranges), ranges (how
          many the record speaks of), attack, defense;
        - first_judge, first_decoding, first_lambda, first_temperature, and second_* alike; lambda and temperature are
          None where there is none, and in a mean where they vary over the ranges;
        - statistic: pearson, spearman or kendall; n, groups: as in `evaluate`;
        - first, second: the two values; difference: first - second;
        - low, high: its 95 % percentile interval; bca_low, bca_high: its BCa interval; se: its standard error;
        - p: of the paired permutation test, see `flipped_differences` and `p_value`; p_holm: the same, Holm-corrected
          over the table: all pairs, ranges and means of one split, dimension, attack, defense, level and statistic;
          comparisons: how many these are;
        - groups_needed: of the observed difference, and groups_needed_for_0.05: of one of 0.05; see there;
        - says: `better` or `worse` where the percentile interval leaves out 0 and p_holm is at most 0.05, else `not
          told apart`.

        From low on all but comparisons are None with fewer than two groups or without resamples, and from p on in the
        splits of `chosen_on`; groups_needed also where there is no difference.

    Raises:
        ValueError: columns that `evaluate` refuses too.
        UserError: settings that `check_settings` refuses.
    """
    check_settings(levels, resamples, seed)
    columns = checked(scores)
    rows_of = cells(columns)
    series = series_of(rows_of)
    records: list[dict[str, Any]] = []
    for table in dict.fromkeys(key[:4] for key in series):
        here = {key[4:]: ranges for key, ranges in series.items() if key[:4] == table}
        aligned = [list(_aligned(columns, rows_of, first, second)) for first, second in matched(here, pairs)]
        for level in levels:
            tested = 0 if table[0] in chosen_on else permutations
            gaps: list[_Gap] = []
            for sides in aligned:
                found = [gap for one in sides if (gap := _gap(level, one, resamples, seed, tested)) is not None]
                gaps += found
                if 1 < len(found) == len(sides) and len({one.labels for one in sides}) == 1:
                    gaps.append(_mean(found))
            records += _records(dataset, level, gaps)
    return records


def default_pairs(columns: Mapping[str, np.ndarray], rules: Mapping[str, str]) -> list[tuple[Series, Series]]:
    """What a run compares: each decoding of the pair with the main model's first one of the same rule.

    Where the main model has none, the decoding is compared with nothing: the difference would be the rule's as much as
    the contrast's. Where the pair has both decodings `X` and `X_per_range`, also X with X_per_range: what one setting
    for all ranges loses.

    Args:
        columns: of scores, of which judge and decoding are looked at.
        rules: name of each decoding -> its `rule`, see `judgebench.decoding.scores.rules_of`.

    Example:
        >>> columns = {"judge": np.array(["main", "pair"]), "decoding": np.array(["greedy", "contrastive"])}
        >>> default_pairs(columns, {"greedy": "argmax", "contrastive": "argmax"})
        [(('pair', 'contrastive'), ('main', 'greedy'))]
    """
    there = list(dict.fromkeys(zip(map(str, columns["judge"]), map(str, columns["decoding"]), strict=True)))
    contrasting = [one for one in there if one[0] == "pair"]
    pairs: list[tuple[Series, Series]] = []
    for one in contrasting:
        base = next((other for other in there if other[0] == "main" and rules[other[1]] == rules[one[1]]), None)
        pairs += [(one, base)] if base else []
    per_range = [(one, (one[0], f"{one[1]}_per_range")) for one in contrasting]
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


@dataclass(frozen=True)
class _Sides:
    """The scores of two series in one range, on the n rated examples of both.

    Attributes:
        scores: [2][n] of first and second.
        labels: the groups' names; group [n] numbers them.
    """

    cells: tuple[Cell, Cell]
    scores: tuple[np.ndarray, np.ndarray]
    human: np.ndarray
    group: np.ndarray
    system: np.ndarray
    labels: tuple[str, ...]


def _aligned(
    columns: Mapping[str, np.ndarray],
    rows_of: Mapping[Cell, np.ndarray],
    first: Mapping[Any, Cell],
    second: Mapping[Any, Cell],
) -> Iterator[_Sides]:
    """Both sides of each range that has ratings of what both have scored."""
    for score_range, one in first.items():
        if score_range not in second:
            continue
        sides = (one, second[score_range])
        rows = [rows_of[cell][np.isfinite(columns["human"][rows_of[cell]])] for cell in sides]
        ids = [columns["example_id"][held] for held in rows]
        common, *where = np.intersect1d(ids[0], ids[1], assume_unique=True, return_indices=True)
        if not len(common):
            continue
        rows = [held[at] for held, at in zip(rows, where, strict=True)]
        labels, group = np.unique(columns["group_id"][rows[0]], return_inverse=True)
        system = np.unique(columns["system_id"][rows[0]], return_inverse=True)[1]
        scores = (columns["score"][rows[0]], columns["score"][rows[1]])
        yield _Sides(sides, scores, columns["human"][rows[0]], group, system, tuple(labels.tolist()))


@dataclass(frozen=True)
class _Gap:
    """first - second in one range, or in the mean over several.

    Attributes:
        both: [2, 3] the values of first and second.
        resampled: of the difference.
        permuted: [3, P] the difference after flips; P is 0 where there are none.
        exact: whether these are all flips.
    """

    sides: tuple[tuple[Cell, Cell], ...]
    both: np.ndarray
    resampled: Resampled
    permuted: np.ndarray
    exact: bool
    n: int | None
    groups: int


def _gap(level: str, one: _Sides, resamples: int, seed: int, permutations: int) -> _Gap | None:
    """None where nothing can be correlated at this level."""
    first, second = (
        correlate(level, side, one.human, one.group, one.system, resamples=resamples, seed=seed) for side in one.scores
    )
    if not first.known:
        return None
    difference = first.minus(second)
    permuted, exact = np.zeros((3, 0)), False
    if difference.resampled.shape[1] and permutations:
        flipped, exact = flips(difference.jackknife.shape[1], permutations, seed)
        permuted = flipped_differences(difference, flipped)
    both = np.stack([first.values, second.values])
    return _Gap((one.cells,), both, difference, permuted, exact, first.n, first.groups)


def _mean(gaps: Sequence[_Gap]) -> _Gap:
    """Over ranges with the same groups, hence the same resamples and the same flips."""
    return _Gap(
        tuple(cells for gap in gaps for cells in gap.sides),
        np.mean([gap.both for gap in gaps], axis=0),
        mean_of([gap.resampled for gap in gaps]),
        np.mean([gap.permuted for gap in gaps], axis=0),
        gaps[0].exact,
        gaps[0].n if len({gap.n for gap in gaps}) == 1 else None,
        gaps[0].groups,
    )


def _records(dataset: str, level: str, gaps: Sequence[_Gap]) -> list[dict[str, Any]]:
    """The records of one table at one level."""
    tested = [gap for gap in gaps if gap.permuted.shape[1]]
    found = np.array(
        [[p_value(*one, gap.exact) for one in zip(gap.resampled.values, gap.permuted, strict=True)] for gap in tested]
    )
    corrected = np.array([holm(column) for column in found.reshape(-1, len(CORRELATIONS)).T]).T
    rows = iter(zip(found.tolist(), corrected.tolist(), strict=True))
    records = []
    for gap in gaps:
        head = _head(dataset, level, gap)
        untested = ([None] * len(CORRELATIONS),) * 2
        each = zip(CORRELATIONS, _measured(gap), *(next(rows) if gap.permuted.shape[1] else untested), strict=True)
        for statistic, measured, p, p_holm in each:
            record = head | {"statistic": statistic, "n": gap.n, "groups": gap.groups} | measured
            record |= {"p": p, "p_holm": p_holm, "comparisons": len(tested)}
            records.append(record | _verdict(record))
    return records


def _head(dataset: str, level: str, gap: _Gap) -> dict[str, Any]:
    named = named_pair(gap.sides)
    return {"dataset": dataset, "split": named["split"], "level": level} | named


def _measured(gap: _Gap) -> list[dict[str, Any]]:
    """[3] the numbers of each statistic."""
    found = gap.resampled
    rows = zip(gap.both.T, found.values, found.intervals(), found.bca_intervals(), found.standard_errors(), strict=True)
    measured = []
    for (first, second), difference, ends, bca_ends, error in rows:
        low, high = ends or (None, None)
        bca_low, bca_high = bca_ends or (None, None)
        record: dict[str, float | None] = {
            "first": float(first),
            "second": float(second),
            "difference": float(difference),
        }
        record |= {"low": low, "high": high, "bca_low": bca_low, "bca_high": bca_high, "se": error}
        measured.append(record)
    return measured


def _verdict(record: Mapping[str, Any]) -> dict[str, Any]:
    if record["se"] is None or record["p_holm"] is None:
        return {"groups_needed": None, _NEEDED_FOR: None, "says": None}
    needed, needed_for = (
        groups_needed(size, record["se"], record["groups"]) for size in (record["difference"], IMPROVEMENT)
    )
    says = NOT_TOLD_APART
    if record["p_holm"] <= SIGNIFICANCE and not record["low"] <= 0 <= record["high"]:
        says = BETTER if record["low"] > 0 else WORSE
    return {"groups_needed": needed, _NEEDED_FOR: needed_for, "says": says}
