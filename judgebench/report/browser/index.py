"""The table of examples: a row for each example under each condition, its scores by judge and decoding."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from judgebench.metrics.levels import shown_level
from judgebench.results.results import Results
from judgebench.results.series import CELL, SeriesIndex, distinct, number, range_of, setting, with_labels
from judgebench.types import CLAMPED, FAILED, LABELS, PARSED, RANGE, ScoreRange

STATUSES = (PARSED, FAILED, CLAMPED)
CUT, CONTROL = "article cut", "control token"
"""Flags of single prompts, beside those of scores and of whole conditions."""

EXPLAINED: Mapping[str, str] = {
    FAILED: "an answer that could not be read; the lowest score stands in for it",
    CLAMPED: "a score outside the range, moved to its nearest end",
    CUT: "the article was too long for the judge and was shortened",
    CONTROL: "a text names a control token of the judge's tokenizer, which the judge read as plain text",
}

_HOW = ("judge", "decoding", "lambda", "temperature")


@dataclass(frozen=True)
class Place:
    """A condition: one cell of the experiment."""

    dataset: str
    dimension: str
    range: ScoreRange
    attack: str
    defense: str


@dataclass(frozen=True)
class ShownSeries:
    """A judge with a decoding, of one run."""

    run: int
    judge: str
    label: str


@dataclass(frozen=True)
class Index:
    """Every row of the table, column by column.

    Attributes:
        runs: their names.
        examples: (data set, example_id), those of a group together, the groups by appearance.
        group, system, split: [examples].
        places: the conditions.
        series: the columns of scores; `settings` maps (series, place) to lambda and t as a reader sees them.
        knobs: (series, place) -> judge, decoding, lambda, t.
        example, place: [rows] numbers of both.
        human: [rows], NaN where nobody has scored.
        scores, status: [series, rows]; NaN where a series has no score, and a place in `STATUSES`.
        flags: flag -> [rows] numbers, ascending.
        raised: (flag, place, split) -> the judges and decodings that raise it, where it is raised by a whole condition.
    """

    runs: Sequence[str]
    examples: Sequence[tuple[str, str]]
    group: Sequence[str]
    system: Sequence[str]
    split: Sequence[str]
    places: Sequence[Place]
    series: Sequence[ShownSeries]
    settings: Mapping[tuple[int, int], str]
    knobs: Mapping[tuple[int, int], tuple[str, str, float, float]]
    example: np.ndarray
    place: np.ndarray
    human: np.ndarray
    scores: np.ndarray
    status: np.ndarray
    flags: Mapping[str, np.ndarray]
    raised: Mapping[tuple[str, int, str], Sequence[str]]

    @property
    def keys(self) -> np.ndarray:
        """[rows] place and example as one number, ascending."""
        return self.place * len(self.examples) + self.example


def index_of(runs: Sequence[Results], names: Sequence[str] = ("",)) -> Index:
    """The rows of one run, or of several side by side: where they judged the same example under the same condition,
    it is one row.

    Args:
        names: tell the runs apart on the page; empty for one that stands alone.
    """
    about = _examples(runs)
    numbers = {key: i for i, key in enumerate(about)}
    places: dict[Place, int] = {}
    series: list[ShownSeries] = []
    settings: dict[tuple[int, int], str] = {}
    knobs: dict[tuple[int, int], tuple[str, str, float, float]] = {}
    parts = []
    for which, (run, name) in enumerate(zip(runs, names, strict=True)):
        found = SeriesIndex.from_frame(run.scores)
        own = {one: len(series) + i for i, one in enumerate(found.all)}
        series += [ShownSeries(which, one.judge, _named(name, str(one))) for one in found.all]
        kinds = distinct(run.scores, [*with_labels(CELL, run.scores), *_HOW])
        at = []
        for kind in kinds:
            at.append((places.setdefault(_place(run.dataset, kind), len(places)), own[found.of(kind)]))
            settings[at[-1][1], at[-1][0]] = setting(kind)
            knobs[at[-1][1], at[-1][0]] = (str(kind["judge"]), str(kind["decoding"]), *_knobs(kind))
        parts.append(_scored(run, at, numbers))
    table = pd.concat(parts, ignore_index=True)
    order = _ordered(list(places))
    table["place"] = order[table["place"].to_numpy()]
    keys, rows = np.unique(table["place"] * len(about) + table["example"], return_inverse=True)
    scores, status = np.full((len(series), len(keys)), np.nan), np.zeros((len(series), len(keys)), dtype=np.int64)
    scores[table["series"], rows], status[table["series"], rows] = table["score"], table["status"]
    human = np.full(len(keys), np.nan)
    human[rows] = table["human"]
    group, system, split = ([one[i] for one in about.values()] for i in range(3))
    index = Index(
        runs=names,
        examples=list(about),
        group=group,
        system=system,
        split=split,
        places=sorted(places, key=lambda one: int(order[places[one]])),
        series=series,
        settings={(one, int(order[place])): text for (one, place), text in settings.items()},
        knobs={(one, int(order[place])): known for (one, place), known in knobs.items()},
        example=keys % len(about),
        place=keys // len(about),
        human=human,
        scores=scores,
        status=status,
        flags={},
        raised={},
    )
    return _with_flags(index, runs, numbers)


def _scored(run: Results, at: Sequence[tuple[int, int]], numbers: Mapping[tuple[str, str], int]) -> pd.DataFrame:
    """A run's scores by the numbers of example, place and series.

    Args:
        at: place and series of each distinct condition and series of the scores, in order of appearance.
    """
    codes = run.scores.groupby([*with_labels(CELL, run.scores), *_HOW], dropna=False, sort=False).ngroup().to_numpy()
    places, series = np.array(at, dtype=np.int64).reshape(-1, 2).T
    return pd.DataFrame(
        {
            "example": [numbers[run.dataset, one] for one in run.scores["example_id"]],
            "place": places[codes],
            "series": series[codes],
            "score": run.scores["score"].to_numpy(dtype=np.float64),
            "status": [STATUSES.index(one) for one in run.scores["status"]],
            "human": run.scores["human"].to_numpy(dtype=np.float64),
        }
    )


def _examples(runs: Sequence[Results]) -> dict[tuple[str, str], tuple[str, str, str]]:
    """(data set, example_id) -> group, system and split, those of a group together."""
    names = ["example_id", "group_id", "system_id", "split"]
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for run in runs:
        for one, group, system, split in run.scores[names].drop_duplicates("example_id").itertuples(index=False):
            found.setdefault((run.dataset, str(one)), (str(group), str(system), str(split)))
    groups: dict[Hashable, int] = {}
    for key, about in found.items():
        groups.setdefault((key[0], about[0]), len(groups))
    return dict(sorted(found.items(), key=lambda item: groups[item[0][0], item[1][0]]))


def _place(dataset: str, row: Mapping[str, Any]) -> Place:
    return Place(dataset, str(row["dimension"]), range_of(row), str(row["attack"]), str(row["defense"]))


def _knobs(row: Mapping[str, Any]) -> tuple[float, float]:
    lambda_, temperature = number(row["lambda"]), number(row["temperature"])
    return (0.0 if lambda_ is None else lambda_), (1.0 if temperature is None else temperature)


def _ordered(places: Sequence[Place]) -> np.ndarray:
    """[places] where each stands: by dimension, attack and defense as they appear, by range ascending."""
    axes = [list(dict.fromkeys(getattr(one, axis) for one in places)) for axis in ("dataset", "dimension", "attack")]
    defenses = list(dict.fromkeys(one.defense for one in places))

    def key(i: int) -> tuple[Any, ...]:
        one = places[i]
        named = [axes[n].index(getattr(one, axis)) for n, axis in enumerate(("dataset", "dimension"))]
        return (*named, one.range.order, axes[2].index(one.attack), defenses.index(one.defense))

    order = np.empty(len(places), dtype=np.int64)
    order[sorted(range(len(places)), key=key)] = np.arange(len(places))
    return order


def _with_flags(index: Index, runs: Sequence[Results], numbers: Mapping[tuple[str, str], int]) -> Index:
    found: dict[str, set[int]] = {}
    raised: dict[tuple[str, int, str], list[str]] = {}
    for code, name in enumerate(STATUSES):
        if code and (index.status == code).any():
            found[name] = set(np.flatnonzero((index.status == code).any(axis=0)).tolist())
    splits = np.array(index.split, dtype=object)[index.example]
    for which, run in enumerate(runs):
        for column, name in (("source_tokens_cut", CUT), ("control_tokens", CONTROL)):
            marked = run.readings[run.readings[column] > 0]
            at = [row for row in rows_of(index, run, marked, numbers) if row is not None]
            if at:
                found.setdefault(name, set()).update(at)
        for flag, place, split, who in _of_conditions(index, run):
            rows = np.flatnonzero((index.place == place) & (splits == split))
            found.setdefault(flag, set()).update(rows.tolist())
            raised.setdefault((flag, place, split), []).append(_named(index.runs[which], who))
    flags = {name: np.array(sorted(rows), dtype=np.int64) for name, rows in found.items()}
    return replace(index, flags=flags, raised=raised)


def rows_of(
    index: Index, run: Results, readings: pd.DataFrame, numbers: Mapping[tuple[str, str], int] | None = None
) -> list[int | None]:
    """The row that each of a run's readings belongs to. Where texts are compared, a row is a pair and its range that
    of winning, whatever the places are called."""
    numbers = numbers or {key: i for i, key in enumerate(index.examples)}
    keep = ["dimension", *([] if run.compares else with_labels(RANGE, readings)), "attack", "defense"]
    known: dict[Hashable, int] = {}
    for at, one in enumerate(index.places):
        if one.dataset == run.dataset and (LABELS in keep or not one.range.labels):
            row = {LABELS: "", **one.range.columns, **{name: getattr(one, name) for name in (keep[0], *keep[-2:])}}
            known[tuple(row[name] for name in keep)] = at
    keys = index.keys
    found: list[int | None] = []
    for example, *key in readings[["example_id", *keep]].itertuples(index=False):
        place, number_ = known.get(tuple(key)), numbers.get((run.dataset, example))
        if place is None or number_ is None:
            found.append(None)
            continue
        wanted = place * len(index.examples) + number_
        at = int(np.searchsorted(keys, wanted))
        found.append(at if at < len(keys) and keys[at] == wanted else None)
    return found


def _of_conditions(index: Index, run: Results) -> Iterator[tuple[str, int, str, str]]:
    """Flags that metrics.json has of a whole condition, at the level that is shown: flag, place, split, and whose."""
    level = shown_level(str(record["level"]) for record in run.metrics)
    for record in run.metrics:
        place = _place(run.dataset, record)
        if record["level"] != level or not record.get("flags") or place not in index.places:
            continue
        for flag in record["flags"]:
            yield str(flag), index.places.index(place), record["split"], f"{record['judge']}, {record['decoding']}"


def _named(run: str, text: str) -> str:
    return f"{run}: {text}" if run else text
