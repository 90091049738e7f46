"""Paired differences of two series of scores: which agrees better with the humans, and which is
easier to fool.

Both sides are resampled together over the examples that both hold, so that what they owe to easy or
hard articles cancels. The permutation test changes the signs of what independent groups contribute
to a difference, not the scores, which two judges need not give on one scale: Canay, Romano and
Shaikh, "Randomization Tests Under an Approximate Symmetry Assumption" (Econometrica 2017).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import (
    CONFIDENCE,
    FEWEST,
    MOST_ENTRIES,
    RESAMPLES,
    SIGNIFICANCE,
    Clusters,
    Numbers,
    with_intervals,
    without_nan,
)
from judgebench.stats.correlation import CORRELATIONS, LEVELS
from judgebench.studies.evaluate import changes, check_metric_settings, correlate_part
from judgebench.studies.scores import CLEAN, Scores, ScoreSeries, common_rows, series_of
from judgebench.types import RANGE, Array, Columns, Key, Record, Records, Row, Rows

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

PERMUTATIONS = 20_000
"""Flips behind a p-value: as small a p as 1 / 20,001 survives Holm's correction over 1,000
comparisons."""

_POWER = 0.8  # the chance to see a difference that is there
_ROUNDING = 1e-10  # statistics no farther apart differ by rounding alone


# --- the test -----------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def flips(groups: int, permutations: int = PERMUTATIONS, seed: int = 0) -> tuple[Array, bool]:
    """In which groups the two judges change places: [P, groups] of 0 and 1, and whether these are
    all there are.

    All 2^groups (the unchanged data among them) where that is at most `permutations`, else so many,
    drawn at random.
    """
    if groups < 63 and 2**groups <= permutations:
        # the binary digits of 0 to 2^G - 1 are all ways to flip; 0 flips nothing
        flipped = ((np.arange(2**groups)[:, None] >> np.arange(groups)) & 1).astype(np.int8)
        exact = True
    else:
        # another stream than the resamples', which are drawn with the same seed
        flipped = np.random.default_rng([seed, 1]).integers(
            0, 2, (permutations, groups), dtype=np.int8
        )
        exact = False
    flipped.flags.writeable = False  # shared by all callers
    return flipped, exact


def flipped_differences(values: Array, jackknife: Array, flipped: Array) -> Array:
    """The differences [S, P] of two judges' S correlations, `values` [S] and with each group left
    out `jackknife` [S, G], after the sign of some groups' shares in it is flipped, `flipped` [P,
    G].

    A group's share is the difference itself and how far it falls when the group is left out (its
    influence, by the jackknife): the shares' mean is the difference. Where neither judge is better,
    a share is as likely of either sign. At document level this is what swapping the judges' scores
    in whole articles does. At others, swapping scores mixes two judges' ties and loses power where
    these differ; `scripts/simulate.py` has size and power of both.

    Example:
        >>> shares = np.array([1.0, 2.0, 6.0])  # their mean is the difference, 3
        >>> without = (shares.sum() - shares) / 2
        >>> flipped_differences(np.array([3.0]), without[None], np.array([[0, 0, 0], [0, 0, 1]])).tolist()
        [[3.0, -1.0]]
    """
    groups = jackknife.shape[1]
    # The jackknife's pseudo-values, centered: of a mean over groups they are the groups' own
    # differences, of any other statistic its linear part.
    shares = values[:, None] + (groups - 1) * (jackknife.mean(axis=1, keepdims=True) - jackknife)
    return flipped_means(shares, flipped)


def flipped_means(shares: Array, flipped: Array) -> Array:
    """The means [S, P] of the groups' shares [S, G] after the signs of some are flipped, `flipped`
    [P, G]."""
    groups = shares.shape[1]
    step = max(1, MOST_ENTRIES // groups)
    # a flip takes twice the flipped shares from the sum: one product for all flips
    parts = [shares @ flipped[start : start + step].T for start in range(0, len(flipped), step)]
    return (shares.sum(axis=1, keepdims=True) - 2 * np.hstack(parts)) / groups


def permutation_p_value(observed: float, permuted: Array, exact: bool) -> float:
    """The two-sided p: the share of the permuted differences [P] at least as far from 0 as the
    observed one.

    Where they are not all there are, the data itself counts as one more, so that p is never 0 and
    the test keeps its level (Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010).
    """
    # the data among the flips must count, though their sum was taken in another order
    as_far = int((np.abs(permuted) >= abs(observed) - _ROUNDING).sum())
    return as_far / len(permuted) if exact else (as_far + 1) / (len(permuted) + 1)


def holm(p_values: Array) -> Array:
    """p-values [m], corrected so that the risk of any false finding among the m stays at the level;
    Holm (1979).

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(12).tolist()
        [0.03, 0.06, 0.06]
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    times = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    # the j-th smallest of m counts m - j + 1 times, and no later one counts less
    corrected[order] = np.maximum.accumulate(p_values[order] * times)
    return np.minimum(corrected, 1.0)


def correct(records: Sequence[Record]) -> int:
    """Puts `p_holm`, Holm's correction over all of them, into the records that have a p; how many
    these are."""
    tested = [record for record in records if record["p"] is not None]
    corrected = holm(np.array([record["p"] for record in tested])).tolist()
    for record, p in zip(tested, corrected, strict=True):
        record["p_holm"] = p
    return len(tested)


def groups_needed(difference: float, standard_error: float, groups: int) -> int | None:
    """The groups, at least `FEWEST`, with which a true difference of this size is distinguished
    from 0 with 80 % power at 5 % two-sided; None for no difference at all. One just observed is
    uncertain, and so is the result.

    The standard error falls as 1 / sqrt(groups), and the power is 80 % where the difference is
    1.960 + 0.842 = 2.802 times its standard error (the normal approximation). That of the cluster
    bootstrap, over `groups` (at least 2), has n instead of n - 1 in the denominator, which is put
    right. Holm's correction of several comparisons asks for more.

    Example:
        >>> groups_needed(0.05, 0.05, 10_000)
        78497
    """
    if abs(difference) < 1e-9:
        return None
    spread = standard_error * groups / math.sqrt(groups - 1)  # of a single group
    return max(FEWEST, math.ceil((times_noticed() * spread / difference) ** 2))


def times_noticed() -> float:
    """The standard errors of a difference that is told from 0 with 80 % power at 5 % two-sided.

    Example:
        >>> round(times_noticed(), 3)
        2.802
    """
    level = scipy.special.ndtri(1 - SIGNIFICANCE / 2)
    return float(level + scipy.special.ndtri(_POWER))


# --- pairs of series ----------------------------------------------------------------------------


class Baseline(NamedTuple):
    """In the place of pairs: main model's `decoding` without a defense, with which all other series
    are compared, under whichever defense they stand; assistants alone are left out. Those that are
    decoded `across` all ranges have one score for all, and are compared with the mean over the
    ranges."""

    decoding: str
    across: Collection[str] = ()


Pairs = Sequence[tuple[Series, Series]] | Baseline


@dataclass(frozen=True)
class SeriesGap:
    """Two series in one range, or in the mean over several.

    Attributes:
        sides: both cells, of each range.
        values: [2, S, 1 + B] statistics of the two and of their resamples; left: [2, S, J] with
            each group left out.
        groups: labels of the groups, by which resamples are paired.
        n: examples; None in a mean over ranges that differ in it.
    """

    sides: Sequence[tuple[ScoreSeries, ScoreSeries]]
    values: Array
    left: Array
    groups: Sequence[Any]
    n: int | None

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


def with_mean(gaps: list[SeriesGap]) -> list[SeriesGap]:
    """The gaps of one pair and, where they are several over the same groups, hence the same
    resamples, their mean; the mean alone of a first side that has one cell for all of them."""
    groups = {tuple(gap.groups) for gap in gaps}
    # the same resample must draw the same articles in all ranges, or their mean has no error
    if len(gaps) < 2 or len(groups) > 1:
        return gaps
    sides: list[tuple[ScoreSeries, ScoreSeries]] = []
    for gap in gaps:
        sides += gap.sides
    numbers = {gap.n for gap in gaps}
    mean = SeriesGap(
        sides=sides,
        values=np.mean([gap.values for gap in gaps], axis=0),
        left=np.mean([gap.left for gap in gaps], axis=0),
        groups=gaps[0].groups,
        n=gaps[0].n if len(numbers) == 1 else None,
    )
    firsts = {first for first, _ in sides}
    # a score across all ranges compared with each of them is no comparison of its own
    return [mean] if len(firsts) == 1 else [*gaps, mean]


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
        - p: of the paired permutation test, see `flipped_differences` and `permutation_p_value`;
          p_holm: the same, Holm-corrected over what is read together (`corrected_together`), within
          one split, dimension, attack, defense, level and statistic; comparisons: how many these
          are;
        - groups_needed: of the observed difference, and groups_needed_for_0.05: of one of 0.05; see
          there;
        - says: `better` or `worse` where the percentile interval leaves out 0 and p_holm is at most
          0.05, else `not significant`.

        With fewer than two groups, or without resamples, all from low on are None; where nothing is
        tested, all from p on. comparisons is 0 then.
    """
    check_metric_settings(levels, resamples, seed)
    table = Scores.of(scores).answered
    with_ends = isinstance(pairs, Baseline)
    records = Rows()
    for (split, *_), matched in _tables(table, pairs):
        for level in levels:
            head = {"dataset": dataset, "split": split, "level": level}
            rows = []
            for ranges in matched:
                gaps = []
                for cells in ranges:
                    # on the texts of both: one judge may have failed where texts are hard
                    sides = common_rows([table.rated(cell) for cell in cells])
                    if len(sides[0]["score"]):
                        gaps.append(_correlations(level, cells, sides, resamples, seed))
                known = [gap for gap in gaps if gap is not None]
                # a mean is over all ranges, or it would compare other texts than a reader expects
                if len(known) == len(gaps):
                    known = with_mean(known)
                for gap in known:
                    rows += _gap_records(gap, split not in chosen_on, seed, with_ends)
            records += corrected_together([head | row for row in rows])
    return records


def _correlations(
    level: str,
    cells: tuple[ScoreSeries, ScoreSeries],
    sides: Sequence[Columns],
    resamples: int,
    seed: int,
) -> SeriesGap | None:
    """The correlations of both sides; None where nothing can be correlated."""
    both = [correlate_part(level, side, resamples, seed, jackknife=True) for side in sides]
    if not both[0].known:
        return None
    values = np.stack([side.values for side in both])
    left = np.stack([side.jackknife for side in both])
    return SeriesGap([cells], values, left, np.unique(sides[0]["group_id"]).tolist(), both[0].n)


def _gap_records(gap: SeriesGap, tested: bool, seed: int, ends: bool) -> Rows:
    """The records of one gap, before they are corrected together; `ends`: of both sides too."""
    # 1. differences of the statistics: [3, 1 + B], and [3, G] without each group
    # Resample by resample: what makes articles easy for both cancels, which intervals of the two
    # apart would hold twice.
    difference = gap.values[0] - gap.values[1]
    left = gap.left[0] - gap.left[1]
    # 2. the same with the sides of groups exchanged, [3, permutations]
    permuted = np.zeros((3, 0))
    exact = False
    if left.shape[1] and tested:
        flipped, exact = flips(left.shape[1], PERMUTATIONS, seed)
        permuted = flipped_differences(difference[:, 0], left, flipped)
    # 3. a record a statistic
    records = []
    for k, statistic in enumerate(CORRELATIONS):
        first, second = gap.values[:, k]
        sides = with_intervals({"first": first, "second": second})
        if not ends:
            sides = {name: sides[name] for name in ("first", "second")}
        record = {
            **gap.named,
            "statistic": statistic,
            "n": gap.n,
            "groups": len(gap.groups),
            **sides,
            **_spread(difference[k]),
            "p": None,
            "p_holm": None,
        }
        if permuted.shape[1]:
            observed = float(difference[k, 0])
            record["p"] = permutation_p_value(observed, permuted[k], exact)
        records.append(record)
    return records


def _spread(difference: Array) -> Numbers:
    """A difference [1 + B] with its percentile interval and its standard error, which are None with
    fewer than two resamples in which it is known."""
    record = {"difference": float(difference[0]), "low": None, "high": None, "se": None}
    known = without_nan(difference[1:])
    if len(known) > 1:
        record["low"], record["high"] = np.quantile(known, CONFIDENCE).tolist()
        record["se"] = float(known.std(ddof=1))
    return record


def corrected_together(records: Records) -> Rows:
    """Records of `compare` with `p_holm`, `comparisons` and `says` by Holm's correction over those
    that are read together, of one level and statistic: each pair's mean over its ranges, or its
    only range; and apart from these the single ranges of pairs that have a mean."""
    corrected: Rows = [dict(record) for record in records]
    # 1. pairs that have a mean over ranges, which stands for them
    with_means = {_sides(record) for record in corrected if record["range_min"] is None}
    # 2. one correction for what is shown first, another for its parts
    families: dict[tuple[str, str, bool], Rows] = {}
    for record in corrected:
        part = record["range_min"] is not None and _sides(record) in with_means
        families.setdefault((record["level"], record["statistic"], part), []).append(record)
    for family in families.values():
        comparisons = correct(family)
        for record in family:
            record["comparisons"] = comparisons
            record |= dict.fromkeys(("groups_needed", _NEEDED_FOR, "says"))
            error = record["se"]
            if error is None or record["p_holm"] is None:
                continue
            groups = record["groups"]
            record["groups_needed"] = groups_needed(
                record["difference"],
                error,
                groups,
            )
            record[_NEEDED_FOR] = groups_needed(IMPROVEMENT, error, groups)
            # both must agree: the interval knows nothing of other comparisons, p nothing of the
            # size
            record["says"] = NOT_SIGNIFICANT
            if record["p_holm"] <= SIGNIFICANCE and not record["low"] <= 0 <= record["high"]:
                record["says"] = BETTER if record["low"] > 0 else WORSE
    return corrected


def _sides(record: Row) -> Key:
    """The condition and the two series of a record of `compare`, whatever its range."""
    condition = ("dimension", "attack", "defense", "second_defense")
    series = ("first_judge", "first_decoding", "second_judge", "second_decoding")
    return tuple(record.get(name) for name in condition + series)


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
    records = Rows()
    for (_, _, attack, _), matched in _tables(table, pairs):
        if attack == CLEAN:
            continue
        for ranges in matched:
            of_ranges = [_changes(table, cells, resamples, seed) for cells in ranges]
            gaps = [gap for gap in of_ranges if gap is not None]
            widths = {gap.sides[0][0].range_max - gap.sides[0][0].range_min for gap in gaps}
            # points of ranges of different widths are no one unit
            if len(widths) == 1:
                gaps = with_mean(gaps)
            for gap in gaps:
                groups = len(gap.groups)
                for k, name in enumerate(DIFFERENCES):
                    record = {
                        "dataset": dataset,
                        **gap.named,
                        "statistic": name,
                        "n": gap.n,
                        "groups": groups,
                        **_change_difference(gap.values[0, k], gap.values[1, k], groups),
                    }
                    records.append(record)
    return records


def _changes(
    table: Scores, cells: tuple[ScoreSeries, ScoreSeries], resamples: int, seed: int
) -> SeriesGap | None:
    """`DIFFERENCES` of both sides; None where no text has all four scores."""
    first, second = cells
    needed = [first.clean, first, second.clean, second]
    if not all(cell in table.cells for cell in needed):
        return None
    parts = common_rows([table.part(cell) for cell in needed])
    clean, attacked, rivals_clean, rivals_attacked = (part["score"] for part in parts)
    if not len(clean):
        return None
    groups = parts[1]["group_id"]
    texts = parts[1].get("text_id")
    clusters = Clusters.of(groups, resamples, seed)
    both = (
        changes(clean, attacked, first.range, clusters, texts),
        changes(rivals_clean, rivals_attacked, first.range, clusters, texts),
    )
    values = np.array([[side[name] for name in DIFFERENCES] for side in both])  # [2, S, 1 + B]
    left = values[..., :0]
    return SeriesGap([cells], values, left, np.unique(groups).tolist(), len(groups))


def _change_difference(first: Array, second: Array, groups: int) -> Record:
    """The numbers of a record of `attack_differences`, of [1 + B] of both sides."""
    names = ("first", "second", "difference", "low", "high", "se", "groups_needed", "says")
    record: Record = dict.fromkeys(names)
    if np.isnan(first[0] - second[0]):
        return record
    record |= {"first": float(first[0]), "second": float(second[0])} | _spread(first - second)
    if record["se"] is None:
        return record
    record["groups_needed"] = groups_needed(record["difference"], record["se"], groups)
    record["says"] = NOT_SIGNIFICANT
    if record["low"] > 0:
        record["says"] = MORE
    elif record["high"] < 0:
        record["says"] = LESS
    return record


def default_pairs(
    cells: Iterable[ScoreSeries], rules: Mapping[str, str]
) -> list[tuple[Series, Series]]:
    """The comparisons of a run: each decoding of the pair with the main model's first one of the
    same rule.

    Where the main model has none, the decoding is compared with nothing: the difference would be
    the rule's as much as the contrast's. Where the pair has both decodings `X` and `X_per_range`,
    also X with X_per_range: what one setting for all ranges loses.

    Args:
        rules: name of each decoding -> its `rule`.
    """
    series = list(dict.fromkeys((cell.judge, cell.decoding) for cell in cells))
    contrasting = [(judge, decoding) for judge, decoding in series if judge == "pair"]
    first_of_rule: dict[str, Series] = {}
    for judge, decoding in series:
        if judge == "main" and decoding in rules:
            first_of_rule.setdefault(rules[decoding], (judge, decoding))
    pairs = []
    for judge, decoding in contrasting:
        # an expectation with an expectation, an argmax with an argmax
        base = first_of_rule.get(rules[decoding])
        if base is not None:
            pairs.append(((judge, decoding), base))
    for judge, decoding in contrasting:
        per_range = judge, f"{decoding}_per_range"
        if per_range in contrasting:
            pairs.append(((judge, decoding), per_range))
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
