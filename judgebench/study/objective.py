"""The objective of a sweep: one number, or several, from the records of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from judgebench.settings.fields import Annotated, NotBlank, OneOf, settings_of
from judgebench.settings.metrics import LEVELS
from judgebench.stats.correlation import CORRELATIONS
from judgebench.studies.scores import CLEAN
from judgebench.types import RatingKey, Record, Records, Row, Rows, ScoreRange, by_key
from judgebench.words.errors import UserError

CHANGE_METRICS = ("change", "delta", "rate_of_means", "mean_of_rates")
"""Metrics of attacked texts against the clean ones of the same cell, see
`stats.evaluate.robustness`."""

_SERIES = ("judge", "decoding")


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
            isinstance(self.range, list | tuple)
            and self.range
            and isinstance(self.range[0], list | tuple)
        )
        return [ScoreRange.parse(ends) for ends in (self.range if several else [self.range])]

    def matching(self, records: Records, split: str) -> list[Row]:
        """The records of a split that it names."""
        wanted = {name: getattr(self, name) for name in ("level", *_SERIES, "defense")}
        wanted["split"] = split
        dimensions = [self.dimension] if isinstance(self.dimension, str) else self.dimension
        named = []
        for record in records:
            if record["attack"] not in self.attacks:
                continue
            if not all(record[name] == value for name, value in wanted.items()):
                continue
            if dimensions is not None and record["dimension"] not in dimensions:
                continue
            if self.ranges is None or ScoreRange.of(record) in self.ranges:
                named.append(record)
        return named


def _by_cell(records: Records) -> dict[RatingKey, list[Row]]:
    return by_key(records, lambda record: (record["dimension"], ScoreRange.of(record)))


def parse_objective(value: Any) -> list[SweepObjective]:
    """The entries of the config key `objective`: a list of mappings, or one alone; null values ask
    for defaults."""
    entries = [value] if isinstance(value, Mapping) else value
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise UserError(f"objective: {value!r} is neither null nor a list with at least one entry.")
    objective = []
    for entry in entries:
        given = entry
        if isinstance(entry, Mapping):
            given = {str(key): part for key, part in entry.items() if part is not None}
        objective.append(settings_of(SweepObjective, given, "objective"))
    return objective


def default_objective(records: Records) -> list[SweepObjective]:
    """The objective where none is named: dev Spearman of the pair's first decoding, else of main's
    first."""
    for judge in ("pair", "main"):
        for record in records:
            if record["judge"] == judge:
                return [SweepObjective(judge, record["decoding"])]
    return []


def objective_values(records: Records, objective: Sequence[SweepObjective]) -> list[float]:
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
        if any(
            len(rows) > len({row["attack"] for row in rows}) for rows in _by_cell(matching).values()
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


def objective_cells(records: Records, objective: Sequence[SweepObjective]) -> Rows:
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
        head = {
            "objective": position,
            **{name: getattr(entry, name) for name in ("metric", "split", "level", *_SERIES)},
            "defense": entry.defense,
            "attack": ", ".join(entry.attacks),
        }
        cells: dict[RatingKey, Record] = {}
        for split in ("dev", "test"):
            for key, matching in _by_cell(entry.matching(records, split)).items():
                cell = cells.setdefault(key, {"dev": None, "test": None, "constant": False})
                values = [record[entry.metric] for record in matching]
                cell[split] = None if None in values else sum(values) / len(values)
                if split == entry.split:
                    cell["constant"] = any(record["constant"] for record in matching)
        for (dimension, score_range), cell in cells.items():
            rows.append(head | {"dimension": dimension} | score_range.columns | cell)
    return rows
