"""Paired comparisons arranged as people read them: a block a pair of judges, a row a range, the mean last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.metrics.levels import shown_level
from judgebench.metrics.paired import BETTER, WORSE
from judgebench.metrics.resampling import FEWEST, SIGNIFICANCE
from judgebench.results.series import range_of, setting, shown_split

SHOWN = "spearman"

_ENOUGH = 1_000_000
_CONDITION = ("dimension", "attack", "defense")
_WHO = ("first_judge", "first_decoding", "second_judge", "second_decoding")


@dataclass(frozen=True)
class Difference:
    """Difference of the first judge's correlation from the second's.

    Attributes:
        place: the range, or what the mean is over.
        low, high: 95 % percentile interval, bca_low, bca_high: BCa; None without resamples.
        p, p_holm: of the paired permutation test, alone and after Holm's correction.
        groups: how many it rests on.
        needed: groups with which so large a difference, tested by itself, is told from 0 with 80 % power; None where it
            is 0, or unknown.
        needed_005: the same of a difference of 0.05.
        says: better, worse or not told apart; None where nothing was tested: without resamples, or on texts by which
            settings were chosen.
        mean: whether it is that over the ranges.
    """

    place: str
    first: float | None
    second: float | None
    difference: float
    low: float | None
    high: float | None
    bca_low: float | None
    bca_high: float | None
    p: float | None
    p_holm: float | None
    groups: int
    needed: int | None
    needed_005: int | None
    says: str | None
    mean: bool

    @property
    def holds_zero(self) -> bool:
        """True if there is an interval, and 0 lies in it."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    @property
    def told_apart(self) -> bool:
        """True if it is significant after Holm's correction."""
        return self.says in (BETTER, WORSE)


@dataclass(frozen=True)
class Comparison:
    """One pair of judges under one condition.

    Attributes:
        first, second: judge and decoding, as "pair, contrastive".
        comparisons: how many the Holm correction counts.
    """

    dimension: str
    condition: str
    level: str
    first: str
    second: str
    rows: Sequence[Difference]
    comparisons: int


def arrange_comparisons(comparisons: Sequence[Mapping[str, Any]], statistic: str = SHOWN) -> list[Comparison]:
    """The records of comparisons.json for one statistic, of the shown split and level, in order of appearance."""
    split = shown_split(record["split"] for record in comparisons)
    level = shown_level(record["level"] for record in comparisons)
    wanted = {"split": split, "level": level, "statistic": statistic}
    shown = [record for record in comparisons if all(record[name] == value for name, value in wanted.items())]
    blocks: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in shown:
        blocks.setdefault(tuple(record[name] for name in (*_CONDITION, *_WHO)), []).append(record)
    return [_block(records, level) for records in blocks.values()]


def note(difference: Difference, groups_are: str = "articles") -> str:
    """Beside a difference whose interval holds 0, how many groups it takes to tell it from 0; beside one that is not
    told apart all the same, why; else empty. The groups are those of the difference tested by itself: Holm's correction
    over several asks for more.

    Example:
        >>> ends, tested = (-0.01, 0.05, None, None), (0.2, 0.4, 60, 1234, 210, "not told apart")
        >>> note(Difference("1-5", 0.3, 0.28, 0.02, *ends, *tested, mean=False))
        'needs about 1,300 articles for 80 % power before Holm; here 60'
    """
    if difference.says is None:
        return ""
    if not difference.holds_zero:
        if difference.low is None or difference.told_apart:
            return ""
        if difference.groups < FEWEST:
            return f"it takes at least {FEWEST} {groups_are}; here {difference.groups}"
        return f"its interval leaves out 0, but p{' after Holm' if _is_small(difference.p) else ''} is above 0.05"
    if difference.needed is None:
        return f"there is no difference to tell; here {difference.groups} {groups_are}"
    return f"needs {about(difference.needed)} {groups_are} for 80 % power before Holm; here {difference.groups}"


def verdict(difference: Difference) -> str:
    """Better, worse or not told apart; why there is none where nothing was tested."""
    if difference.low is None:
        return "no interval"
    return difference.says or "not tested: chosen on these texts"


def about(count: int) -> str:
    """A number of groups as no more than an estimate is: two digits, rounded up.

    Example:
        >>> about(87), about(1234), about(10**9)
        ('about 87', 'about 1,300', 'more than a million')
    """
    if count > _ENOUGH:
        return "more than a million"
    unit = 10 ** max(0, int(math.log10(max(1, count))) - 1)
    return f"about {math.ceil(count / unit) * unit:,}"


def comparison_note(compared: Sequence[Comparison], groups: str, together: bool = False) -> str:
    """The meaning of the comparisons' numbers.

    Args:
        together: whether Holm's correction is over all that is shown, and not over each dimension by itself.
    """
    rows = [row for one in compared for row in one.rows]
    text = f"First - second: difference in {SHOWN.capitalize()}"
    if any(row.low is not None for row in rows):
        text += f" [95 % interval, {groups} resampled]"
    if any(row.p is not None for row in rows):
        text += f". p: paired permutation test over whole {groups}; Holm: corrected over {_family(compared, together)}."
        text += f" How many {groups} a difference needs is said of its comparison by itself, before Holm's correction"
    return f"{text}."


def significance_note(compared: Sequence[Comparison], together: bool = False) -> str:
    """The meaning of the underlining; empty where nothing was tested."""
    if not any(row.p is not None for one in compared for row in one.rows):
        return ""
    return f"Underlined: more than chance, {_family(compared, together)} considered."


def _family(compared: Sequence[Comparison], together: bool) -> str:
    """The comparisons over which Holm's correction is: on the page, or of each dimension, attack and defense."""
    counts = sorted({one.comparisons for one in compared})
    several = "" if counts == [1] else "s"
    if together:
        return f"{'all ' if several else ''}the {counts[-1]} comparison{several} of this page"
    listed = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    alone = len({one.condition for one in compared}) == 1
    return f"the {listed} comparison{several} of {'the dimension' if alone else 'each dimension by itself'}"


def _is_small(p: float | None) -> bool:
    return p is not None and p <= SIGNIFICANCE


def p_value(value: float | None) -> str:
    """A p-value with three decimals, never 0.

    Example:
        >>> p_value(0.0312), p_value(0.0001), p_value(None)
        ('0.031', '<.001', '-')
    """
    if value is None:
        return "-"
    return "<.001" if value < 0.001 else f"{value:.3f}"


def _block(records: Sequence[Mapping[str, Any]], level: str) -> Comparison:
    head = records[0]
    records = sorted(records, key=_range_order)
    places = [place_of(record) for record in records]
    several = len(set(places)) < len(places)  # lambdas tried side by side in one range
    told = [f"{axis} {head[axis]}" for axis in _CONDITION[1:] if head[axis] != "none"]
    condition = ", ".join([head["dimension"], *told, *([] if level == "dataset" else [f"{level} level"])])
    rows = [
        _row(record, f"{place}, {setting_of(record)}" if several else place)
        for record, place in zip(records, places, strict=True)
    ]
    first, second = (f"{head[f'{who}_judge']}, {head[f'{who}_decoding']}" for who in ("first", "second"))
    return Comparison(
        head["dimension"], condition, level, first, second, rows, int(head.get("comparisons") or len(rows))
    )


def _range_order(record: Mapping[str, Any]) -> tuple[bool, float, float, float]:
    """By range as in all tables, whatever their order in the configuration; means last."""
    low, high, step = (float(record[name] or 0.0) for name in ("range_min", "range_max", "range_step"))
    return record["range_min"] is None, low, high, step


def place_of(record: Mapping[str, Any]) -> str:
    """The range that a paired difference is of, or what its mean is over."""
    if record["range_min"] is None:
        return f"mean of {record['ranges']} ranges"
    return str(range_of(record))


def setting_of(record: Mapping[str, Any], side: str = "first") -> str:
    """Lambda and t of one side of a paired difference, see `setting`."""
    return setting({"lambda": record[f"{side}_lambda"], "temperature": record[f"{side}_temperature"]})


def _row(record: Mapping[str, Any], place: str) -> Difference:
    names = ("first", "second", "difference", "low", "high", "bca_low", "bca_high", "p", "p_holm", "groups", "says")
    return Difference(
        place=place,
        needed=record["groups_needed"],
        needed_005=record["groups_needed_for_0.05"],
        mean=record["range_min"] is None,
        **{name: record[name] for name in names},
    )
