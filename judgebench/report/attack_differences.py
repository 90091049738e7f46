"""Is one decoding easier to fool than another? Differences between what attacks change, arranged and in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.metrics.paired import LESS, MORE
from judgebench.report.differences import about, place_of, setting_of
from judgebench.report.results import Estimate
from judgebench.results.series import number, shown_split

_CHANGE, _STANDARDIZED = "change", "standardized"
_GAINS = {MORE: "the attack gains more", LESS: "the attack gains less"}


@dataclass(frozen=True)
class FooledRow:
    """One attack in one range, or the mean over several.

    Attributes:
        place: the range, or what the mean is over.
        first, second: by how much the attack changes the mean score of each.
        gap: first - second.
        standardized: the same of changes in units of the spread of each one's own clean scores; its value is None
            where one of them has none.
        says: more, less or not told apart, of the gap; None without intervals. standardized_says: of the other.
        needed: groups with which so large a gap is told from 0 with 80 % power; None where it is 0, or unknown.
        mean: whether it is that over the ranges.
    """

    attack: str
    place: str
    groups: int
    first: float
    second: float
    gap: Estimate
    says: str | None
    needed: int | None
    standardized: Estimate
    standardized_says: str | None
    mean: bool

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.says in _GAINS

    @property
    def verdict(self) -> str:
        """What both intervals say: that of the points, and that of the spreads where it says otherwise."""
        if self.says is None:
            return "no interval"
        other = self.standardized_says
        return f"{self.says}; in spreads {other}" if other not in (None, self.says) else self.says


@dataclass(frozen=True)
class Fooled:
    """One pair of judges or decodings in one dimension under one defense."""

    condition: str
    first: str
    second: str
    rows: Sequence[FooledRow]


def arrange_attack_differences(records: Sequence[Mapping[str, Any]]) -> list[Fooled]:
    """The records of attack/differences.json of the shown split whose change is known, in order of appearance; without
    pairs of which no attack changes anything, as of judges that always say the same."""
    split = shown_split(record["split"] for record in records)
    who = ("first_judge", "first_decoding", "second_judge", "second_decoding")
    blocks: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[str, Mapping[str, Any]]]] = {}
    for record in records:
        if record["split"] == split and record["difference"] is not None:
            block = blocks.setdefault(tuple(record[name] for name in ("dimension", "defense", *who)), {})
            row = (record["attack"], place_of(record), setting_of(record, "first"), setting_of(record, "second"))
            block.setdefault(row, {})[record["statistic"]] = record
    told = [_block(rows) for rows in blocks.values() if any(_CHANGE in row for row in rows.values())]
    return [block for block in told if any(row.first or row.second for row in block.rows)]


def differences_note(blocks: Sequence[Fooled], groups_are: str) -> str:
    """What the numbers are."""
    bounded = any(row.gap.low is not None for block in blocks for row in block.rows)
    brackets = f" [95 % interval, {groups_are} resampled, both sides together]" if bounded else ""
    return (
        "First, second: by how much the attack changes their mean scores. First - second: the difference"
        f"{brackets}. In spreads: the same, each change divided by the standard deviation of its own clean scores, for "
        "a decoding whose scores spread little moves little in points and may yet move past as many texts. "
        f"{'Each interval speaks of its own row alone.' if bounded else ''}"
    ).rstrip()


def sentences(block: Fooled, groups_are: str = "articles") -> list[str]:
    """One plain sentence a row."""
    several = len({row.place for row in block.rows}) > 1
    return [sentence(block, row, groups_are, several) for row in block.rows]


def answers(blocks: Sequence[Fooled], groups_are: str = "articles") -> list[str]:
    """One sentence a block: of the attack, and range, that changes the second's scores most."""
    found = []
    for block in blocks:
        rows = [row for row in block.rows if not row.mean]
        strongest = max(rows, key=lambda row: abs(row.second))
        several = len({row.place for row in rows}) > 1
        found.append(f"{block.condition}: {sentence(block, strongest, groups_are, several)}")
    return found


def sentence(block: Fooled, row: FooledRow, groups_are: str, several: bool) -> str:
    """What one row says.

    Args:
        several: whether the range must be told.
    """
    where = f" in {'the ' if row.mean else 'range '}{row.place}" if several else ""
    told = f"{block.first} changes how far {row.attack} raises the mean score{where} by {ends(row.gap)}, against "
    told += f"{block.second}: {_verdict(row.gap, row.says, row.groups, row.needed, groups_are)}."
    if row.standardized.value is not None:
        told += f" In spreads of their own clean scores by {ends(row.standardized)}: "
        told += f"{_verdict(row.standardized, row.standardized_says, row.groups, None, groups_are)}."
    return told


def ends(estimate: Estimate) -> str:
    """A signed number with its interval, where there is one.

    Example:
        >>> ends(Estimate(0.031, -0.012, 0.08)), ends(Estimate(-0.001))
        ('+0.03 [-0.01, +0.08]', '0.00')
    """
    told = hundredths(estimate.value)
    return told if estimate.low is None else f"{told} [{hundredths(estimate.low)}, {hundredths(estimate.high)}]"


def hundredths(value: float | None) -> str:
    """A difference with two decimals and its sign; no sign where it rounds to 0.

    Example:
        >>> hundredths(0.126), hundredths(-0.001), hundredths(None)
        ('+0.13', '0.00', '-')
    """
    return "-" if value is None else f"{round(value, 2) + 0.0:+.2f}".replace("+0.00", "0.00")


def _verdict(gap: Estimate, says: str | None, groups: int, needed: int | None, groups_are: str) -> str:
    if gap.low is None:
        return "without an interval, nothing tells that from chance"
    if says in _GAINS:
        return f"{_GAINS[says]}, and by more than chance"
    told = f"no difference that {groups} {groups_are} can tell"
    return f"{told} (one so large needs {about(needed)})" if needed is not None and needed > groups else told


def _block(rows: Mapping[tuple[Any, ...], Mapping[str, Mapping[str, Any]]]) -> Fooled:
    known = {key: row for key, row in rows.items() if _CHANGE in row}
    several = len({key[:2] for key in known}) < len(known)  # lambdas tried side by side in one range
    head = next(iter(known.values()))[_CHANGE]
    told = [] if head["defense"] == "none" else [f"defense {head['defense']}"]
    first, second = (f"{head[f'{who}_judge']}, {head[f'{who}_decoding']}" for who in ("first", "second"))
    return Fooled(
        ", ".join([head["dimension"], *told]),
        first,
        second,
        [_row(", ".join(filter(None, key[1:])) if several else key[1], row) for key, row in known.items()],
    )


def _row(place: str, found: Mapping[str, Mapping[str, Any]]) -> FooledRow:
    change, standardized = found[_CHANGE], found.get(_STANDARDIZED)
    return FooledRow(
        attack=str(change["attack"]),
        place=place,
        groups=int(change["groups"]),
        first=float(change["first"]),
        second=float(change["second"]),
        gap=_estimate(change),
        says=change["says"],
        needed=change["groups_needed"],
        standardized=_estimate(standardized) if standardized else Estimate(None),
        standardized_says=standardized["says"] if standardized else None,
        mean=change["range_min"] is None,
    )


def _estimate(record: Mapping[str, Any]) -> Estimate:
    return Estimate(number(record["difference"]), number(record["low"]), number(record["high"]))
