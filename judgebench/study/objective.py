"""The objective of a sweep: one number, or several, from the records of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from judgebench.runtime.errors import UserError
from judgebench.runtime.fields import LEVELS, Annotated, NotBlank, OneOf, settings_of
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.scores import CLEAN
from judgebench.types import LABELS, RANGE, ScoreRange

CHANGE_METRICS = ("change", "delta", "rate_of_means", "mean_of_rates")
"""Metrics of attacked texts against the clean ones of the same cell, see
`stats.evaluate.robustness`."""

_SERIES = ("judge", "decoding")
_CELL = ("dimension", *RANGE, LABELS)

Record = Mapping[str, Any]


@dataclass(frozen=True)
class SweepObjective:
    """One entry of the config key `objective`: the mean of a metric over cells (dimension x range)
    and attacks.

    Attributes:
        judge, decoding: the series whose scores count.
        attack: one or several; `CHANGE_METRICS` need one.
        dimension, range: these alone; one or several, ranges as in `ranges`.
    """

    judge: str
    decoding: str
    split: Annotated[str, OneOf(("dev", "test"))] = "dev"
    metric: Annotated[str, OneOf((*CORRELATIONS, *CHANGE_METRICS))] = "spearman"
    level: Annotated[str, OneOf(LEVELS)] = LEVELS[0]
    attack: Annotated[str | Sequence[str], NotBlank()] = CLEAN
    defense: str = CLEAN
    dimension: Annotated[str | Sequence[str], NotBlank()] | None = None
    range: Any = None

    def __post_init__(self) -> None:
        if self.metric in CHANGE_METRICS and CLEAN in self.attacks:
            name = self.metric
            raise UserError(
                f"objective: {name} is what an attack changes; name one, as in {{metric: {name}, "
                "attack: dsi}}."
            )
        _ = self.ranges  # what is no range is a mistake here

    @property
    def attacks(self) -> list[str]:
        return [self.attack] if isinstance(self.attack, str) else list(self.attack)

    @cached_property
    def ranges(self) -> list[ScoreRange] | None:
        """None where all count."""
        if self.range is None:
            return None
        several = (
            isinstance(self.range, Sequence) and self.range and not isinstance(self.range, str)
        )
        several = (
            several and isinstance(self.range[0], Sequence) and not isinstance(self.range[0], str)
        )
        return [ScoreRange.parse(ends) for ends in (self.range if several else [self.range])]

    def matching(self, records: Sequence[Record], split: str) -> list[Record]:
        """The records of a split that it names."""
        wanted = {name: getattr(self, name) for name in ("level", *_SERIES, "defense")} | {
            "split": split
        }
        dimensions = [self.dimension] if isinstance(self.dimension, str) else self.dimension
        return [
            record
            for record in records
            if all(record[name] == value for name, value in wanted.items())
            and record["attack"] in self.attacks
            and (dimensions is None or record["dimension"] in dimensions)
            and (self.ranges is None or ScoreRange.of(record) in self.ranges)
        ]


def parse_objective(value: Any) -> list[SweepObjective]:
    """The entries of the config key `objective`: a list of mappings, or one alone; null values ask
    for defaults."""
    entries = [value] if isinstance(value, Mapping) else value
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise UserError(f"objective: {value!r} is neither null nor a list with at least one entry.")
    mappings = [
        {str(key): part for key, part in entry.items() if part is not None}
        if isinstance(entry, Mapping)
        else entry
        for entry in entries
    ]
    return [settings_of(SweepObjective, mapping, "objective") for mapping in mappings]


def default_objective(records: Sequence[Record]) -> list[SweepObjective]:
    """The objective where none is named: dev Spearman of the pair's first decoding, else of main's
    first."""
    series = [(record["judge"], record["decoding"]) for record in records]
    return [
        SweepObjective(*name) for judge in ("pair", "main") for name in series if name[0] == judge
    ][:1]


def objective_values(records: Sequence[Record], objective: Sequence[SweepObjective]) -> list[float]:
    """The value of each entry; `UserError` where no record matches, a cell has several (of several
    lambda), or nobody rated its texts.

    Example:
        >>> record = {"split": "dev", "level": "dataset", "judge": "pair", "decoding": "contrastive", "range_step": 1}
        >>> record |= {"dimension": "coherence", "attack": "none", "defense": "none", "range_min": 1}
        >>> records = [record | {"range_max": 5, "spearman": 0.2}, record | {"range_max": 9, "spearman": 0.4}]
        >>> round(objective_values(records, [SweepObjective("pair", "contrastive")])[0], 3)
        0.3
    """
    means = []
    for position, entry in enumerate(objective, start=1):
        matching = entry.matching(records, entry.split)
        series = f"judge {entry.judge} with decoding {entry.decoding}"
        if not matching:
            raise UserError(
                f"objective: no record matches entry {position} ({series}, split {entry.split}, "
                f"level {entry.level}, attack {', '.join(entry.attacks)}, defense "
                f"{entry.defense}); a run has records of the splits, judges and decodings in its "
                "metrics.json."
            )
        if len({tuple(record.get(key) for key in (*_CELL, "attack")) for record in matching}) < len(
            matching
        ):
            raise UserError(
                f"objective: {series} has several settings in one cell; a sweep tries one at a "
                "time."
            )
        values = [record[entry.metric] for record in matching]
        if None in values:
            why = matching[values.index(None)].get("missing") or "Nobody rated its texts."
            raise UserError(
                f"objective: the {entry.split} split has no {entry.metric} at {entry.level} level. "
                f"{why}"
            )
        means.append(float(sum(values) / len(values)))
    return means


def objective_cells(
    records: Sequence[Record], objective: Sequence[SweepObjective]
) -> list[dict[str, Any]]:
    """The metric in every cell that an entry names, on both splits.

    Returns:
        an entry's position (`objective`), its metric, split, level, judge, decoding, defense and
        attack (several with
            commas between); dimension, and the columns of its range; dev and test (None where there
            is no such split), each the mean over the entry's attacks; `constant`, True where the
            judge gives every text of the entry's split the same score.
    """
    rows = []
    for position, entry in enumerate(objective):
        head = {"objective": position} | {
            name: getattr(entry, name) for name in ("metric", "split", "level", *_SERIES)
        }
        head |= {"defense": entry.defense, "attack": ", ".join(entry.attacks)}
        cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        for split in ("dev", "test"):
            by_cell: dict[tuple[Any, ...], list[Record]] = {}
            for record in entry.matching(records, split):
                by_cell.setdefault(tuple(record.get(name) for name in _CELL), []).append(record)
            for key, matching in by_cell.items():
                cell = cells.setdefault(key, {"dev": None, "test": None, "constant": False})
                values = [record[entry.metric] for record in matching]
                cell[split] = None if None in values else sum(values) / len(values)
                cell["constant"] |= split == entry.split and any(
                    record["constant"] for record in matching
                )
        for key, cell in cells.items():
            place = {
                name: value
                for name, value in zip(_CELL, key, strict=True)
                if name != LABELS or value
            }
            rows.append(head | place | cell)
    return rows
