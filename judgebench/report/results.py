"""Metric records arranged as people read them: a block a dimension, a section a range, averages below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from judgebench.report.series import Series, SeriesIndex, number, range_of, setting
from judgebench.types import ScoreRange

CORRELATIONS = ("pearson", "spearman", "kendall")


@dataclass(frozen=True)
class Estimate:
    """A correlation with its 95 % interval; `best` of its section (or of the averages) where several compete and
    it is above 0."""

    value: float | None
    low: float | None = None
    high: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One series at one range (or, in the averages, over all ranges)."""

    series: Series
    setting: str
    estimates: Mapping[str, Estimate]
    failed_share: float | None = None
    clamped_share: float | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """All series at one range."""

    range: ScoreRange
    rows: Sequence[Row]


@dataclass(frozen=True)
class Block:
    """All ranges of one dimension under one attack and defense.

    Attributes:
        examples, groups: how many each record rests on: (fewest, most).
        averages: means over the ranges, of the series that have every range; empty where there is one range.
    """

    dimension: str
    attack: str
    defense: str
    examples: tuple[int, int]
    groups: tuple[int, int]
    sections: Sequence[Section]
    averages: Sequence[Row] = field(default=())

    @property
    def condition(self) -> str:
        """Dimension, and attack and defense where there are such."""
        axes = (("attack", self.attack), ("defense", self.defense))
        return ", ".join([self.dimension, *(f"{axis} {name}" for axis, name in axes if name != "none")])

    def size(self, groups_are: str = "articles") -> str:
        """On how much the block rests, such as `1440 examples of 90 articles`."""
        return f"{_span(self.examples)} examples of {_span(self.groups)} {groups_are}"


def arrange(records: Sequence[Mapping[str, Any]], split: str = "test", level: str = "dataset") -> list[Block]:
    """The records of one split and level, in blocks by dimension, attack and defense, in order of appearance."""
    records = [record for record in records if record["split"] == split and record["level"] == level]
    index = SeriesIndex(records)
    cells: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        cells.setdefault((record["dimension"], record["attack"], record["defense"]), []).append(record)
    return [_block(key, rows, index) for key, rows in cells.items()]


def _block(key: tuple[str, str, str], records: list[Mapping[str, Any]], index: SeriesIndex) -> Block:
    ranges = sorted({range_of(record) for record in records}, key=lambda r: (r.minimum, r.maximum, r.step))
    sections = []
    for score_range in ranges:
        rows = [_row(record, index) for record in records if range_of(record) == score_range]
        sections.append(Section(score_range, _mark_best(sorted(rows, key=lambda row: index.all.index(row.series)))))
    dimension, attack, defense = key
    examples, groups = ([int(record[name]) for record in records] for name in ("n", "groups"))
    return Block(
        dimension,
        attack,
        defense,
        (min(examples), max(examples)),
        (min(groups), max(groups)),
        sections,
        _averages(sections, index) if len(sections) > 1 else (),
    )


def _row(record: Mapping[str, Any], index: SeriesIndex) -> Row:
    estimates = {
        name: Estimate(number(record[name]), number(record.get(f"{name}_low")), number(record.get(f"{name}_high")))
        for name in CORRELATIONS
    }
    return Row(
        index.of(record),
        setting(record),
        estimates,
        number(record.get("failed_share")),
        number(record.get("clamped_share")),
        tuple(record.get("flags") or ()),
    )


def _averages(sections: Sequence[Section], index: SeriesIndex) -> list[Row]:
    rows = []
    for series in index.all:
        found = [row for section in sections for row in section.rows if row.series == series]
        if len(found) != len(sections):
            continue
        settings = {row.setting for row in found}
        rows.append(
            Row(
                series,
                settings.pop() if len(settings) == 1 else "λ, t by range",
                {name: Estimate(_mean([row.estimates[name].value for row in found])) for name in CORRELATIONS},
                _mean([row.failed_share for row in found]),
                _mean([row.clamped_share for row in found]),
            )
        )
    return _mark_best(rows)


def _mark_best(rows: list[Row]) -> list[Row]:
    if len(rows) < 2:
        return rows
    for name in CORRELATIONS:
        values = [value for row in rows if (value := row.estimates[name].value) is not None]
        best = max(values, default=0.0)
        if best > 0:  # a judge that always says the same has 0.000, and would win against inverted ones
            rows = [_with_best(row, name) if row.estimates[name].value == best else row for row in rows]
    return rows


def _with_best(row: Row, name: str) -> Row:
    old = row.estimates[name]
    estimates = {**row.estimates, name: Estimate(old.value, old.low, old.high, best=True)}
    return Row(row.series, row.setting, estimates, row.failed_share, row.clamped_share, row.flags)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _span(ends: tuple[int, int]) -> str:
    low, high = ends
    return f"{low}" if low == high else f"{low} to {high}"
