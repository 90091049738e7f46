"""What a sweep maximizes: one number, or several, from the records of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.errors import UserError
from judgebench.metrics.correlation import CORRELATIONS
from judgebench.metrics.levels import LEVELS
from judgebench.types import ScoreRange

_DEFAULTS: Mapping[str, Any] = {"split": "dev", "metric": "spearman", "level": "dataset"}
_SERIES = ("judge", "decoding")
_FILTERS = ("dimension", "range")
_KEYS = (*_DEFAULTS, *_SERIES, *_FILTERS)
_CELL = ("dimension", "range_min", "range_max", "range_step")


def parse_objective(given: Any) -> list[dict[str, Any]]:
    """The entries of the config key `objective`, with their defaults.

    Args:
        given: a list of mappings, or one alone, with keys split (dev), metric (spearman; of `CORRELATIONS`), level
            (dataset), judge and decoding (the series that is tuned), and, to count these alone, dimension and range
            ([minimum, maximum] or [minimum, maximum, step]); each of the latter two may be a list of such.

    Raises:
        UserError: anything else.
    """
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise UserError(f"objective: {given!r} is neither null nor a list with at least one entry.")
    return [_parsed(entry) for entry in entries]


def default_objective(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is meant where nothing is said: dev Spearman of the pair's first decoding, else of main's first."""
    for judge in ("pair", "main"):
        for record in records:
            if record["judge"] == judge:
                return [_parsed({"judge": judge, "decoding": record["decoding"]})]
    return []


def objective_values(records: Sequence[Mapping[str, Any]], objective: Sequence[Mapping[str, Any]]) -> list[float]:
    """An entry's value is the mean of its metric over the cells (dimension x range) that it names.

    Example:
        >>> record = {"split": "dev", "level": "dataset", "judge": "pair", "decoding": "contrastive", "range_step": 1}
        >>> record |= {"dimension": "coherence", "attack": "none", "defense": "none", "range_min": 1}
        >>> records = [record | {"range_max": 5, "spearman": 0.2}, record | {"range_max": 9, "spearman": 0.4}]
        >>> round(objective_values(records, parse_objective({"judge": "pair", "decoding": "contrastive"}))[0], 3)
        0.3

    Raises:
        UserError: no record matches, a cell has several (of several lambda), or nobody rated its texts.
    """
    return [_value(records, entry, position) for position, entry in enumerate(objective)]


def objective_cells(
    records: Sequence[Mapping[str, Any]], objective: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The metric in every cell that an entry names, on both splits.

    Returns:
        an entry's position (`objective`), its `metric`, split, level, judge and decoding; dimension, range_min,
        range_max, range_step, dev and test (None where there is no such split); `constant`, whether the judge gives
        every text of the entry's split the same score.
    """
    found = []
    for position, entry in enumerate(objective):
        asked = {name: entry[name] for name in ("metric", "split", "level", *_SERIES)}
        cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        for split in ("dev", "test"):
            for record in _matching(records, {**entry, "split": split}):
                key = tuple(record[name] for name in _CELL)
                cell = cells.setdefault(key, {"dev": None, "test": None, "constant": False})
                cell[split] = record[entry["metric"]]
                cell["constant"] |= split == entry["split"] and bool(record["constant"])
        for key, values in cells.items():
            named = dict(zip(_CELL, key, strict=True))
            found.append({"objective": position, **asked, **named, **values})
    return found


def _parsed(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise UserError(f"objective: {entry!r} is not a mapping, such as {{judge: pair, decoding: contrastive}}.")
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        raise UserError(f"objective: {', '.join(unknown)} is not among {', '.join(_KEYS)}.")
    for key in _SERIES:
        if not isinstance(entry.get(key), str):
            raise UserError(
                f"objective: {key} is missing; name whose scores count, as judge: pair, decoding: contrastive."
            )
    whole = {**_DEFAULTS, **{str(key): value for key, value in entry.items() if value is not None}}
    for key, known in (("metric", CORRELATIONS), ("level", LEVELS), ("split", ("dev", "test"))):
        if not isinstance(whole[key], str) or whole[key] not in known:
            raise UserError(f"objective: {key} {whole[key]!r} is not one of {', '.join(known)}.")
    if "range" in whole:
        given = whole["range"]
        several = isinstance(given, Sequence) and given and isinstance(given[0], Sequence)
        whole["range"] = [_ends(ScoreRange.parse(one)) for one in (given if several else [given])]
    if "dimension" in whole:
        given = whole["dimension"]
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
            raise UserError(f"objective: dimension {given!r} is neither a dimension's name nor a list of such.")
        whole["dimension"] = list(names)
    return whole


def _ends(given: ScoreRange) -> tuple[float, float, float]:
    return given.minimum, given.maximum, given.step


def _value(records: Sequence[Mapping[str, Any]], entry: Mapping[str, Any], position: int) -> float:
    matching = _matching(records, entry)
    if not matching:
        kept = {key: value for key, value in entry.items() if key not in ("metric", "range")}
        raise UserError(
            f"objective: no record matches entry {position + 1} "
            f"({', '.join(f'{key} {_shown(value)}' for key, value in kept.items())}); a run has records of the splits, "
            "judges and decodings in its metrics.json."
        )
    cells = [tuple(record[key] for key in _CELL) for record in matching]
    if len(set(cells)) < len(cells):
        raise UserError(
            f"objective: judge {entry['judge']} with decoding {entry['decoding']} has several settings in one cell; a "
            "sweep tries one at a time."
        )
    values = [record[entry["metric"]] for record in matching]
    if any(value is None for value in values):
        raise UserError(
            f"objective: nobody rated a text of the {entry['split']} split, so it has no {entry['metric']}."
        )
    return float(sum(values) / len(values))


def _matching(records: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        record
        for record in records
        if all(record[key] == entry[key] for key in ("split", "level", *_SERIES))
        and record["attack"] == "none"
        and record["defense"] == "none"
        and record["dimension"] in entry.get("dimension", [record["dimension"]])
        and ("range" not in entry or (record["range_min"], record["range_max"], record["range_step"]) in entry["range"])
    ]


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
