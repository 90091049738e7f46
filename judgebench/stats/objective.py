"""The objective of a sweep: one number, or several, from the records of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.runtime.errors import UserError
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.levels import LEVELS
from judgebench.stats.scores import CLEAN
from judgebench.types import LABELS, RANGE, ScoreRange

CHANGE_METRICS = ("change", "delta", "rate_of_means", "mean_of_rates")
"""Metrics of attacked texts against the clean ones of the same cell, see `stats.robustness`."""

_CHOICES = {"split": ("dev", "test"), "metric": (*CORRELATIONS, *CHANGE_METRICS), "level": LEVELS}
_DEFAULTS = {"split": "dev", "metric": "spearman", "level": "dataset", "attack": CLEAN, "defense": CLEAN}
_SERIES = ("judge", "decoding")
_KEYS = ("split", "metric", "level", *_SERIES, "dimension", "range", "attack", "defense")
_CELL = ("dimension", *RANGE, LABELS)


def parse_objective(given: Any) -> list[dict[str, Any]]:
    """The entries of the config key `objective`, with their defaults.

    Args:
        given: a list of mappings, or one alone, with keys split (dev), metric (spearman; of `CORRELATIONS`, or of
            `CHANGE_METRICS`), level (dataset), judge and decoding (the series), attack (none, or one or several whose
            mean counts; `CHANGE_METRICS` need one), defense (none), and, to count these alone, dimension and range
            (as in `ranges`); each of the latter two may be a list of such.

    Raises:
        UserError: anything else.
    """
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise UserError(f"objective: {given!r} is neither null nor a list with at least one entry.")
    return [_parsed(entry) for entry in entries]


def _parsed(entry: Any) -> dict[str, Any]:
    # 1. the keys
    if not isinstance(entry, Mapping):
        raise UserError(f"objective: {entry!r} is not a mapping, such as {{judge: pair, decoding: contrastive}}.")
    if unknown := [str(key) for key in entry if key not in _KEYS]:
        raise UserError(f"objective: {', '.join(unknown)} is not among {', '.join(_KEYS)}.")
    for key in _SERIES:
        if not isinstance(entry.get(key), str):
            raise UserError(
                f"objective: {key} is missing; name whose scores count, as judge: pair, decoding: contrastive."
            )
    # 2. each value
    whole = {**_DEFAULTS, **{str(key): value for key, value in entry.items() if value is not None}}
    for key, choices in _CHOICES.items():
        if not isinstance(whole[key], str) or whole[key] not in choices:
            raise UserError(f"objective: {key} {whole[key]!r} is not one of {', '.join(choices)}.")
    for key, wording in (("attack", "an attack's name"), ("dimension", "a dimension's name")):
        names = [whole[key]] if isinstance(whole.get(key, ""), str) and key in whole else whole.get(key, ["all"])
        if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
            raise UserError(f"objective: {key} {whole[key]!r} is neither {wording} nor a list of such.")
        if key in whole:
            whole[key] = list(names)
    if not isinstance(whole["defense"], str):
        raise UserError(f"objective: defense {whole['defense']!r} is no defense's name.")
    metric = whole["metric"]
    if metric in CHANGE_METRICS and CLEAN in whole["attack"]:
        raise UserError(
            f"objective: {metric} is what an attack changes; name one, as in {{metric: {metric}, attack: dsi}}."
        )
    if "range" in whole:
        ranges = whole["range"]
        several = isinstance(ranges, Sequence) and ranges and isinstance(ranges[0], Sequence)
        several = several and not isinstance(ranges[0], str)
        whole["range"] = [ScoreRange.parse(ends) for ends in (ranges if several else [ranges])]
    return whole


def default_objective(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The objective where none is given: dev Spearman of the pair's first decoding, else of main's first."""
    first = [record for judge in ("pair", "main") for record in records if record["judge"] == judge][:1]
    return [_parsed({name: record[name] for name in _SERIES}) for record in first]


def objective_values(records: Sequence[Mapping[str, Any]], objective: Sequence[Mapping[str, Any]]) -> list[float]:
    """An entry's value is the mean of its metric over the cells (dimension x range) and attacks that it names;
    `UserError` where no record matches, a cell has several (of several lambda), or nobody rated its texts.

    Example:
        >>> record = {"split": "dev", "level": "dataset", "judge": "pair", "decoding": "contrastive", "range_step": 1}
        >>> record |= {"dimension": "coherence", "attack": "none", "defense": "none", "range_min": 1}
        >>> records = [record | {"range_max": 5, "spearman": 0.2}, record | {"range_max": 9, "spearman": 0.4}]
        >>> round(objective_values(records, parse_objective({"judge": "pair", "decoding": "contrastive"}))[0], 3)
        0.3
    """
    means = []
    for position, entry in enumerate(objective):
        matching = _matching(records, entry)
        if not matching:
            named = (
                f"{key} {', '.join(map(str, value)) if isinstance(value, list) else value}"
                for key, value in entry.items()
                if key not in ("metric", "range")
            )
            raise UserError(
                f"objective: no record matches entry {position + 1} ({', '.join(named)}); a run has records of the "
                "splits, judges and decodings in its metrics.json."
            )
        cells = {tuple(record.get(key) for key in (*_CELL, "attack")) for record in matching}
        if len(cells) < len(matching):
            raise UserError(
                f"objective: judge {entry['judge']} with decoding {entry['decoding']} has several settings in one "
                "cell; a sweep tries one at a time."
            )
        values = [record[entry["metric"]] for record in matching]
        if None in values:
            why = matching[values.index(None)].get("missing") or "Nobody rated its texts."
            raise UserError(
                f"objective: the {entry['split']} split has no {entry['metric']} at {entry['level']} level. {why}"
            )
        means.append(float(sum(values) / len(values)))
    return means


def objective_cells(
    records: Sequence[Mapping[str, Any]], objective: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The metric in every cell that an entry names, on both splits.

    Returns:
        an entry's position (`objective`), its metric, split, level, judge, decoding, defense and attack (several with
            commas between); dimension, and the columns of its range; dev and test (None where there is no such split),
            each the mean over the entry's attacks; `constant`, True where the judge gives every text of the entry's
            split the same score.
    """
    rows = []
    for position, entry in enumerate(objective):
        head = {"objective": position} | {name: entry[name] for name in ("metric", "split", "level", *_SERIES)}
        head |= {"defense": entry["defense"], "attack": ", ".join(entry["attack"])}
        cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        for split in ("dev", "test"):
            by_cell: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
            for record in _matching(records, {**entry, "split": split}):
                by_cell.setdefault(tuple(record.get(name) for name in _CELL), []).append(record)
            for key, matching in by_cell.items():
                cell = cells.setdefault(key, {"dev": None, "test": None, "constant": False})
                values = [record[entry["metric"]] for record in matching]
                cell[split] = None if None in values else sum(values) / len(values)
                cell["constant"] |= split == entry["split"] and any(record["constant"] for record in matching)
        for key, cell in cells.items():
            named = {name: value for name, value in zip(_CELL, key, strict=True) if name != LABELS or value}
            rows.append(head | named | cell)
    return rows


def _matching(records: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        record
        for record in records
        if all(record[key] == entry[key] for key in ("split", "level", *_SERIES, "defense"))
        and record["attack"] in entry["attack"]
        and record["dimension"] in entry.get("dimension", [record["dimension"]])
        and ("range" not in entry or ScoreRange.of(record) in entry["range"])
    ]
