"""Agreement within groups and over systems: a block a dimension, a row a range and judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.report.results import Estimate, Row, Section, arrange, missing_note
from judgebench.results.series import Series
from judgebench.types import ScoreRange

SHOWN = "spearman"


@dataclass(frozen=True)
class LevelRow:
    """One series at one range.

    Attributes:
        within: the mean correlation within groups; silent: how many of them say nothing, for the humans gave all their
            texts one score; varied: the mean without those.
        systems: the correlation over systems' means, with its interval for these systems; over_systems: the same with
            the interval for systems like these.
    """

    range: ScoreRange
    series: Series
    within: Estimate
    silent: int | None
    varied: float | None
    systems: Estimate
    over_systems: Estimate


@dataclass(frozen=True)
class LevelBlock:
    """All rows of one dimension under one attack and defense.

    Attributes:
        size: on how many systems and groups it rests.
        notes: reasons for what is missing.
    """

    condition: str
    size: str
    rows: Sequence[LevelRow]
    notes: str

    def title(self, groups: str) -> str:
        """The condition, and what is told of it."""
        kinds = (f"within {groups}" * self.has_within, "over systems" * self.has_systems)
        return f"{self.condition}: {' and '.join(kind for kind in kinds if kind)}, {self.size}"

    @property
    def has_within(self) -> bool:
        """Whether anything is known within groups."""
        return any(row.within.value is not None for row in self.rows)

    @property
    def has_systems(self) -> bool:
        """Whether anything is known over systems."""
        return any(row.systems.value is not None for row in self.rows)

    @property
    def has_intervals(self) -> bool:
        """Whether correlations over systems have intervals."""
        return any(row.systems.low is not None for row in self.rows)


def arrange_levels(records: Sequence[Mapping[str, Any]], split: str, groups: str = "articles") -> list[LevelBlock]:
    """The records of document and system level of one split, in blocks by dimension, attack and defense."""
    at = {
        level: arrange([record for record in records if record["level"] == level], split)
        for level in ("document", "system")
    }
    blocks: dict[tuple[str, str, str], list[LevelBlock]] = {}
    for level, found in at.items():
        for block in found:
            key = block.dimension, block.attack, block.defense
            rows = [_row(level, section, row) for section in block.sections for row in section.rows]
            condition = block.condition.removesuffix(f", {level} level")
            blocks.setdefault(key, []).append(LevelBlock(condition, block.size(groups), rows, missing_note([block])))
    return [_joined(parts) for parts in blocks.values()]


def levels_note(blocks: Sequence[LevelBlock], groups: str = "articles") -> str:
    """The meaning of the columns."""
    told = []
    if any(block.has_within for block in blocks):
        told.append(
            f"Within: {SHOWN.capitalize()} within each of the {groups}, mean over them; those whose humans gave all "
            "texts one score say nothing of the judge and count as 0. Without: the mean without them, and their number."
        )
    if any(block.has_systems for block in blocks):
        told.append(f"Systems: {SHOWN.capitalize()} of the systems' mean scores.")
    if any(block.has_intervals for block in blocks):
        told.append(
            f"These: 95 % interval for these very systems, {groups} resampled. Others: for systems like these, systems "
            f"and {groups} resampled."
        )
    return " ".join([*told, *dict.fromkeys(block.notes for block in blocks if block.notes)])


def without(row: LevelRow) -> str:
    """The mean without silent groups, and how many these are.

    Example:
        >>> unknown = Estimate(None)
        >>> without(LevelRow(ScoreRange(1, 5), Series("main", "greedy"), unknown, 4, 0.5123, unknown, unknown))
        '0.512 (4)'
    """
    if row.silent is None:
        return "-"
    return f"{'-' if row.varied is None else f'{row.varied:.3f}'} ({row.silent})"


def _row(level: str, section: Section, row: Row) -> LevelRow:
    estimate, unknown = row.estimates[SHOWN], Estimate(None)
    if level == "document":
        return LevelRow(section.range, row.series, estimate, row.silent, row.varied, unknown, unknown)
    return LevelRow(section.range, row.series, unknown, None, None, estimate, row.over_systems or unknown)


def _joined(parts: Sequence[LevelBlock]) -> LevelBlock:
    """A block of both levels, of one part each."""
    if len(parts) == 1:
        return parts[0]
    document, system = parts
    over = {(row.range, row.series): row for row in system.rows}
    rows = []
    for row in document.rows:
        other = over.get((row.range, row.series))
        found = (other.systems, other.over_systems) if other else (row.systems, row.over_systems)
        rows.append(LevelRow(row.range, row.series, row.within, row.silent, row.varied, *found))
    notes = " ".join(part.notes for part in parts if part.notes)
    return LevelBlock(document.condition, system.size, rows, notes)
