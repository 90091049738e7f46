"""Metric records arranged as people read them: a block a dimension, a section a range, averages below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.levels import shown_level
from judgebench.metrics.resampling import FEWEST
from judgebench.results.series import Series, SeriesIndex, number, range_of, setting
from judgebench.types import ScoreRange


@dataclass(frozen=True)
class Estimate:
    """A correlation with its 95 % interval; `best` of its section (or of the averages) where several compete and
    it is above 0."""

    value: float | None
    low: float | None = None
    high: float | None = None
    best: bool = False


def estimate(record: Mapping[str, Any], name: str, kind: str = "") -> Estimate:
    """The number of a record with its interval of some kind, each unknown where the record lacks it."""
    value, low, high = (number(record.get(key)) for key in (name, f"{name}{kind}_low", f"{name}{kind}_high"))
    return Estimate(value, low, high)


@dataclass(frozen=True)
class Row:
    """One series at one range (or, in the averages, over all ranges).

    Attributes:
        missing: a sentence that says why there are no correlations, or no intervals.
        silent: document level: groups whose humans gave all texts one score; varied: Spearman without them.
        over_systems: system level: Spearman with its interval over systems as well as groups.
    """

    series: Series
    setting: str
    estimates: Mapping[str, Estimate]
    failed_share: float | None = None
    clamped_share: float | None = None
    flags: tuple[str, ...] = ()
    missing: str | None = None
    silent: int | None = None
    varied: float | None = None
    over_systems: Estimate | None = None


@dataclass(frozen=True)
class Section:
    """All series at one range."""

    range: ScoreRange
    rows: Sequence[Row]


@dataclass(frozen=True)
class Block:
    """All ranges of one dimension under one attack and defense.

    Attributes:
        examples: how many texts (level dataset), groups (document) or systems (system) a record correlates: (fewest,
            most).
        groups: how many groups it rests on: (fewest, most).
        averages: means over the ranges, of the series that have every range; empty where there is one range.
        level: of the records, see `judgebench.metrics.levels.correlate`.
    """

    dimension: str
    attack: str
    defense: str
    examples: tuple[int, int]
    groups: tuple[int, int]
    sections: Sequence[Section]
    averages: Sequence[Row] = field(default=())
    level: str = "dataset"

    @property
    def condition(self) -> str:
        """Dimension, attack and defense where there are such, and the level unless it is dataset."""
        axes = (("attack", self.attack), ("defense", self.defense))
        told = [f"{axis} {name}" for axis, name in axes if name != "none"]
        return ", ".join([self.dimension, *told, *([] if self.level == "dataset" else [f"{self.level} level"])])

    def size(self, groups_are: str = "articles", examples_are: str = "examples") -> str:
        """On how much the block rests, such as `1440 examples of 90 articles`."""
        groups = f"{_span(self.groups)} {groups_are}"
        if self.level == "document":
            return groups
        return f"{_span(self.examples)} {'systems over' if self.level == 'system' else f'{examples_are} of'} {groups}"


def missing_note(blocks: Sequence[Block]) -> str:
    """The reasons for missing correlations and intervals; empty where nothing is missing."""
    rows = (row for block in blocks for section in block.sections for row in section.rows)
    return " ".join(dict.fromkeys(row.missing for row in rows if row.missing))


def resampled_note(level: str, groups_are: str = "articles") -> str:
    """Subject of an interval at a level, as words that follow "95 % interval"."""
    return f"{groups_are} resampled{': for these systems alone' if level == 'system' else ''}"


def level_note(level: str, groups_are: str = "articles") -> str:
    """Units that are correlated at a level, as words that follow "correlation"."""
    return {
        "dataset": "over all texts",
        "document": f"within each of the {groups_are}, mean over them",
        "system": "over the systems' mean scores",
    }.get(level, f"at level {level}")


def arrange(records: Sequence[Mapping[str, Any]], split: str = "test") -> list[Block]:
    """The records of one split and its shown level (see `shown_level`), in blocks by dimension, attack and defense, in
    order of appearance."""
    records = [record for record in records if record["split"] == split]
    level = shown_level(record["level"] for record in records)
    records = [record for record in records if record["level"] == level]
    index = SeriesIndex(records)
    cells: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        cells.setdefault((record["dimension"], record["attack"], record["defense"]), []).append(record)
    return [_block(key, level, rows, index) for key, rows in cells.items()]


def has_intervals(blocks: Sequence[Block]) -> bool:
    """True if any estimate has one: none has where nothing was resampled."""
    rows = (row for block in blocks for section in block.sections for row in section.rows)
    return any(estimate.low is not None for row in rows for estimate in row.estimates.values())


def few_note(blocks: Sequence[Block], groups_are: str = "articles") -> str:
    """Warning about intervals that rest on too few groups (see `FEWEST`); empty where there are none."""
    if not has_intervals(blocks) or min(block.groups[0] for block in blocks) >= FEWEST:
        return ""
    return f"Fewer than {FEWEST} {groups_are}: the intervals are too narrow, and nothing can be told apart from chance."


def _block(key: tuple[str, str, str], level: str, records: list[Mapping[str, Any]], index: SeriesIndex) -> Block:
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
        level,
    )


def _row(record: Mapping[str, Any], index: SeriesIndex) -> Row:
    return Row(
        index.of(record),
        setting(record),
        {name: estimate(record, name) for name in CORRELATIONS},
        number(record.get("failed_share")),
        number(record.get("clamped_share")),
        tuple(record.get("flags") or ()),
        record.get("missing"),
        record.get("human_constant_groups"),
        number(record.get("spearman_varied")),
        estimate(record, "spearman", "_systems"),
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
    return replace(row, estimates=estimates)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _span(ends: tuple[int, int]) -> str:
    low, high = ends
    return f"{low}" if low == high else f"{low} to {high}"
