"""Paired differences of two series of scores: which agrees better with the humans, and which is
easier to fool.

Both sides are resampled together over the examples that both hold, so that what they owe to easy or
hard articles cancels; the test is that of `judgebench.stats.permutation`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from judgebench.stats.clusters import (
    CONFIDENCE,
    RESAMPLES,
    SIGNIFICANCE,
    Clusters,
    quantiles,
    with_intervals,
    without_nan,
)
from judgebench.stats.correlation import CORRELATIONS, LEVELS
from judgebench.stats.permutation import groups_needed, holm, paired_p_values
from judgebench.studies.evaluate import (
    changes,
    check_metric_settings,
    correlate_cell,
)
from judgebench.studies.scores import CLEAN, Scores, ScoreSeries, common_rows, series_of
from judgebench.types import RANGE, Array, Key, Record, Records, Row, Rows, by_key

Series = tuple[str, str]
"""(judge, decoding), as in the columns of scores.parquet."""

IMPROVEMENT = 0.05
"""The difference of which `groups_needed_for_0.05` speaks."""

BETTER = "better"
WORSE = "worse"
NOT_SIGNIFICANT = "not significant"
"""Values of `says` in records of `compare`."""

DIFFERENCES = (
    "change",
    "standardized",
    "rate_of_means",
    "mean_of_rates",
    "raised_share",
    "places_gained",
    "win_share",
)
"""The numbers of `robustness` whose differences `attack_differences` gives."""

MORE = "more"
LESS = "less"
"""Values of `says` in records of `attack_differences`, besides `not significant`: the attack gains
more, or less, of the first than of the second."""

_NEEDED_FOR = f"groups_needed_for_{IMPROVEMENT:g}"


# --- pairs of series ----------------------------------------------------------------------------


class Baseline(NamedTuple):
    """In the place of pairs: main model's `decoding` without a defense, with which all other series
    are compared, under whichever defense they stand; assistants alone are left out. Those that are
    decoded `across` all ranges have one score for all, and are compared with the mean over the
    ranges."""

    decoding: str
    across: Collection[str] = ()


Pairs = Sequence[tuple[Series, Series]] | Baseline
Sides = tuple[ScoreSeries, ScoreSeries]
"""Both cells of one range."""


@dataclass(frozen=True)
class SeriesGap:
    """Two series in one range, or in the mean over several.

    Attributes:
        sides: both cells, of each range.
        values: [2, S, 1 + B] statistics of the two and of their resamples; left: [2, S, J] with
            each group left out.
        groups: labels of the groups, by which resamples are paired.
        n: examples; None in a mean over ranges that differ in it.
        unit: of the statistics, what they count in; None where that is the same in all ranges.
    """

    sides: Sequence[Sides]
    values: Array
    left: Array
    groups: Sequence[Any]
    n: int | None
    unit: float | None = None

    @property
    def named(self) -> Record:
        """The columns that name the comparison: split, dimension, the columns of the range (None in
        a mean over ranges), ranges (how many), attack, defense, and judge, decoding, lambda and
        temperature of `first_` and `second_`: lambda and temperature are None where there is none,
        and in a mean where they vary over the ranges; second_defense only where it is another."""
        first, second = self.sides[0]
        ranges = first.range.columns if len(self.sides) == 1 else dict.fromkeys(RANGE)
        named = {
            "split": first.split,
            "dimension": first.dimension,
            **ranges,
            "ranges": len(self.sides),
            "attack": first.attack,
            "defense": first.defense,
        }
        by_side = zip(*self.sides, strict=True)
        for name, cells in zip(("first", "second"), by_side, strict=True):
            lambdas = {cell.lambda_ for cell in cells}
            temperatures = {cell.temperature for cell in cells}
            named |= {
                f"{name}_judge": cells[0].judge,
                f"{name}_decoding": cells[0].decoding,
                f"{name}_lambda": cells[0].lambda_ if len(lambdas) == 1 else None,
                f"{name}_temperature": cells[0].temperature if len(temperatures) == 1 else None,
            }
        if second.defense != first.defense:
            named["second_defense"] = second.defense
        return named

    def record(self, statistic: str, place: int, ends: bool = False) -> Record:
        """Names, and the numbers of the statistic at a `place`: both sides, with `ends` with their
        intervals; their difference with its percentile interval and standard error. All are None
        where the difference is unknown, from `low` on where it is in all but one resample."""
        first, second = self.values[:, place]
        # Resample by resample: what makes articles easy for both cancels, which intervals of the
        # two apart would hold twice.
        difference = first - second
        numbers: Record = with_intervals({"first": first, "second": second})
        if not ends:
            numbers = {name: numbers[name] for name in ("first", "second")}
        numbers |= {"difference": float(difference[0]), "low": None, "high": None, "se": None}
        known = without_nan(difference[1:])
        if np.isnan(difference[0]):
            numbers = dict.fromkeys(numbers)
        elif len(known) > 1:
            numbers["low"], numbers["high"] = quantiles(known, CONFIDENCE)
            numbers["se"] = float(known.std(ddof=1))
        about = {"statistic": statistic, "n": self.n, "groups": len(self.groups)}
        return self.named | about | numbers


def _gaps(ranges: Sequence[Sides], measure: Callable[[Sides], SeriesGap | None]) -> list[SeriesGap]:
    """The gaps of one pair, as measured in each range, None where there is nothing to compare; and
    where they are several in one unit over the same groups, hence the same resamples, their mean;
    the mean alone of a first side that has one cell for all of them."""
    measured = [measure(cells) for cells in ranges]
    gaps = [gap for gap in measured if gap is not None]
    # the same resample must draw the same articles in all ranges, or their mean has no error; and
    # a mean is over all ranges, or it would compare other texts than a reader expects
    alike = {(tuple(gap.groups), gap.unit) for gap in gaps}
    if not 1 < len(gaps) == len(measured) or len(alike) > 1:
        return gaps
    sides: list[Sides] = []
    for gap in gaps:
        sides += gap.sides
    mean = SeriesGap(
        sides=sides,
        values=np.mean([gap.values for gap in gaps], axis=0),
        left=np.mean([gap.left for gap in gaps], axis=0),
        groups=gaps[0].groups,
        n=gaps[0].n if len({gap.n for gap in gaps}) == 1 else None,
    )
    firsts = {first for first, _ in sides}
    # a score across all ranges compared with each of them is no comparison of its own
    return [mean] if len(firsts) == 1 else [*gaps, mean]


def _judged(record: Record, more: str, less: str) -> None:
    """Puts in what an interval says, and the groups that so large a difference takes; where there
    is no interval both stay None."""
    if record["se"] is None:
        return
    record["groups_needed"] = groups_needed(record["difference"], record["se"], record["groups"])
    record["says"] = NOT_SIGNIFICANT
    if not record["low"] <= 0 <= record["high"]:
        record["says"] = more if record["low"] > 0 else less


# --- agreement with humans ----------------------------------------------------------------------


def compare(
    scores: Scores | Row,
    pairs: Pairs,
    dataset: str,
    levels: Sequence[str] = LEVELS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    chosen_on: Collection[str] = (),
) -> Rows:
    """The difference first - second of each pair of series, in every cell that holds both, on the
    examples of both.

    Args:
        pairs: see `default_pairs`. A cell that lacks one of them, or ratings of what both have
            scored, gives no record, nor does a level at which nothing can be correlated. lambda and
            temperature, which tuning may choose in each range, are no part of a series; only where
            a cell holds several settings is each compared.
        chosen_on: the splits by which settings were tuned; nothing is tested on these.

    Returns:
        A record per split, dimension, attack, defense, level, pair, range and statistic, in this
        order; after a pair's ranges, where there are two or more over the same groups, comes the
        mean over them, resampled and flipped jointly. JSON's own types, never NaN: dataset, level,
        the keys of `SeriesGap.named`, and

        - statistic: pearson, spearman or kendall; n, groups: as in `evaluate`;
        - first, second: the two values, compared with `Baseline` each with its own interval, `_low`
          and `_high`; difference: first - second;
        - low, high: its 95 % percentile interval; se: its standard error;
        - p: of the paired permutation test, see `stats.permutation`; p_holm: the same,
          Holm-corrected over what is read together (`corrected_together`), within one split,
          dimension, attack, defense, level and statistic; comparisons: how many these are;
        - groups_needed: of the observed difference, and groups_needed_for_0.05: of one of 0.05; see
          there;
        - says: `better` or `worse` where the percentile interval leaves out 0 and p_holm is at most
          0.05, else `not significant`.

        With fewer than two groups, or without resamples, all from low on are None; where nothing is
        tested, all from p on. comparisons is 0 then.
    """
    check_metric_settings(levels, resamples, seed)
    table = Scores.of(scores).answered
    records = Rows()
    for (split, *_), matched in _tables(table, pairs):
        for level in levels:
            measure = partial(_correlations, table, level, resamples, seed)
            rows = []
            for ranges in matched:
                for gap in _gaps(ranges, measure):
                    rows += _compared(
                        gap, split not in chosen_on, seed, isinstance(pairs, Baseline)
                    )
            head = {"dataset": dataset, "split": split, "level": level}
            records += corrected_together([head | row for row in rows])
    return records


def _correlations(
    table: Scores, level: str, resamples: int, seed: int, cells: Sides
) -> SeriesGap | None:
    """The correlations of both sides; None where nothing can be correlated."""
    # on the texts of both: one judge may have failed where texts are hard
    sides = common_rows([table.rated(cell) for cell in cells])
    both = []
    for cell, side in zip(cells, sides, strict=True):
        known = correlate_cell(table, level, cell, resamples, seed, side)
        both.append(known)
    if not both[0].known:
        return None
    values = np.stack([side.values for side in both])
    left = values[..., :0]
    # without resamples nothing is tested
    if values.shape[-1] > 1:
        left = np.stack([side.jackknife for side in both])
    labels = np.unique(sides[0]["group_id"])
    return SeriesGap(
        [cells],
        values,
        left,
        labels.tolist(),
        both[0].n,
    )


def _compared(gap: SeriesGap, tested: bool, seed: int, ends: bool) -> Rows:
    """The records of one gap, before they are corrected together; `ends`: of both sides too."""
    left = gap.left[0] - gap.left[1]  # [3, G]
    difference = gap.values[0] - gap.values[1]  # [3, 1 + B]
    p_values: Sequence[float | None] = [None] * len(CORRELATIONS)
    if left.shape[1] and tested:
        p_values = paired_p_values(difference[:, 0], left, seed)
    records = []
    for k, statistic in enumerate(CORRELATIONS):
        record = gap.record(statistic, k, ends)
        records.append(record | {"p": p_values[k], "p_holm": None})
    return records


def correct(records: Sequence[Record]) -> int:
    """Puts `p_holm`, Holm's correction over all of them, into the records that have a p; how many
    these are."""
    tested = [record for record in records if record["p"] is not None]
    corrected = holm(np.array([record["p"] for record in tested])).tolist()
    for record, p in zip(tested, corrected, strict=True):
        record["p_holm"] = p
    return len(tested)


def corrected_together(records: Records) -> Rows:
    """Records of `compare` with `p_holm`, `comparisons` and `says` by Holm's correction over those
    that are read together, of one level and statistic: each pair's mean over its ranges, or its
    only range; and apart from these the single ranges of pairs that have a mean."""
    corrected: Rows = [dict(record) for record in records]
    # 1. pairs that have a mean over ranges, which stands for them
    with_means = {_sides(record) for record in corrected if record["range_min"] is None}
    # 2. one correction for what is shown first, another for its parts

    def family_of(record: Row) -> Key:
        part = record["range_min"] is not None and _sides(record) in with_means
        return record["level"], record["statistic"], part

    for family in by_key(corrected, family_of).values():
        comparisons = correct(family)
        for record in family:
            record["comparisons"] = comparisons
            record |= dict.fromkeys(("groups_needed", _NEEDED_FOR, "says"))
            if record["p_holm"] is None or record["se"] is None:
                continue
            _judged(record, BETTER, WORSE)
            record[_NEEDED_FOR] = groups_needed(IMPROVEMENT, record["se"], record["groups"])
            # both must agree: the interval knows nothing of other comparisons, p nothing of the
            # size
            if record["p_holm"] > SIGNIFICANCE:
                record["says"] = NOT_SIGNIFICANT
    return corrected


def _sides(record: Row) -> Key:
    """The condition and the two series of a record of `compare`, whatever its range."""
    condition = ("dimension", "attack", "defense", "second_defense")
    series = ("first_judge", "first_decoding", "second_judge", "second_decoding")
    return tuple(record.get(name) for name in condition + series)


# --- changes by attacks -------------------------------------------------------------------------


def attack_differences(
    scores: Scores | Row,
    pairs: Pairs,
    dataset: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rows:
    """Change by each attack of the first series of a pair less that of the second, on the texts
    that both have scored both clean and attacked; see `compare`. A cell that lacks the clean scores
    of one series gives no record.

    Returns:
        A record per split, dimension, attack, defense, pair, range and number of `DIFFERENCES`, in
        this order; after a pair's ranges, where there are two or more of one width over the same
        groups, comes the mean over them, resampled jointly. JSON's own types, never NaN: dataset,
        the keys of `SeriesGap.named`, and

        - statistic: of `DIFFERENCES`; n: texts (None in a mean over ranges that differ in it),
          groups: distinct groups;
        - first, second: the two values, see `robustness`; difference: first - second;
        - low, high: its 95 % percentile interval; se: its standard error;
        - groups_needed: with which so large a difference is distinguished from 0, see there;
        - says: `more` or `less` where the interval lies wholly above or below 0, else `not
          significant`. Each interval speaks of its own difference: of twenty true zeros one is
          expected to be called a difference.

        From first on all are None where a side's number is unknown (a rate of scores that are not
        above 0, a rank in groups of one text); from low on, with fewer than two groups or without
        resamples.
    """
    table = Scores.of(scores)
    measure = partial(_changes, table, resamples, seed)
    records = Rows()
    for (_, _, attack, _), matched in _tables(table, pairs):
        for ranges in matched if attack != CLEAN else ():
            for gap in _gaps(ranges, measure):
                for place, name in enumerate(DIFFERENCES):
                    record = {"dataset": dataset, **gap.record(name, place)}
                    record |= {"groups_needed": None, "says": None}
                    _judged(record, MORE, LESS)
                    records.append(record)
    return records


def _changes(table: Scores, resamples: int, seed: int, cells: Sides) -> SeriesGap | None:
    """`DIFFERENCES` of both sides; None where no text has all four scores."""
    first, second = cells
    needed = [first.clean, first, second.clean, second]
    if not all(cell in table.cells for cell in needed):
        return None
    parts = common_rows([table.part(cell) for cell in needed])
    groups = parts[1]["group_id"]
    if not len(groups):
        return None
    clusters = Clusters.of(groups, resamples, seed)
    both = []
    for clean, attacked in (parts[:2], parts[2:]):
        sides = (clean["score"], attacked["score"])
        both.append(changes(*sides, first.range, clusters, parts[1].get("text_id")))
    values = np.array([[side[name] for name in DIFFERENCES] for side in both])  # [2, S, 1 + B]
    # points of ranges of different widths are no one unit
    width = first.range_max - first.range_min
    labels = np.unique(groups).tolist()
    return SeriesGap([cells], values, values[..., :0], labels, len(groups), width)


# --- which pairs --------------------------------------------------------------------------------


def default_pairs(
    cells: Iterable[ScoreSeries], rules: Mapping[str, str]
) -> list[tuple[Series, Series]]:
    """The comparisons of a run: each decoding of the pair with the main model's first one of the
    same rule.

    Where the main model has none, the decoding is compared with nothing: the difference would be
    the rule's as much as the contrast's.

    Args:
        rules: name of each decoding -> its `rule`.
    """
    series = list(dict.fromkeys((cell.judge, cell.decoding) for cell in cells))
    first_of_rule: dict[str, Series] = {}
    for judge, decoding in series:
        if judge == "main" and decoding in rules:
            first_of_rule.setdefault(rules[decoding], (judge, decoding))
    pairs = []
    for judge, decoding in series:
        # an expectation with an expectation, an argmax with an argmax
        if judge == "pair" and rules[decoding] in first_of_rule:
            pairs.append(((judge, decoding), first_of_rule[rules[decoding]]))
    return pairs


def _tables(
    scores: Scores, pairs: Pairs
) -> Iterator[tuple[tuple[str, str, str, str], list[list[tuple[ScoreSeries, ScoreSeries]]]]]:
    """Each table (split, dimension, attack, defense) with both cells of every pair of series in it,
    range by range; compared with `Baseline`, all defenses are one table.

    A pair stands there several times where a table holds several settings of a judge and decoding.
    """
    series = series_of(scores.cells)
    if isinstance(pairs, Baseline):
        for head in dict.fromkeys(key[:3] for key in series):
            plain = series.get((*head, CLEAN, "main", pairs.decoding, None, None), {})
            sides = []
            for key, ranges in series.items():
                if key[:3] != head or key[4] == "assistant" or ranges is plain:
                    continue
                # its one score stands beside the plain one of each range
                if key[5] in pairs.across:
                    ranges = dict.fromkeys(plain, next(iter(ranges.values())))
                sides.append(_matched(ranges, plain))
            yield (*head, CLEAN), sides
        return
    for table in dict.fromkeys(key[:4] for key in series):
        by_series: dict[Series, list[dict[Any, ScoreSeries]]] = {}
        for key, ranges in series.items():
            if key[:4] == table:
                by_series.setdefault((key[4], key[5]), []).append(ranges)
        sides = []
        for first, second in pairs:
            ours = by_series.get((first[0], first[1]), ())
            theirs = by_series.get((second[0], second[1]), ())
            sides += [_matched(one, other) for one, other in product(ours, theirs)]
        yield table, sides


def _matched(
    first: Mapping[Any, ScoreSeries], second: Mapping[Any, ScoreSeries]
) -> list[tuple[ScoreSeries, ScoreSeries]]:
    """Both cells of each range that two series have."""
    return [(cell, second[at]) for at, cell in first.items() if at in second]
