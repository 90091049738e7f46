"""The table of examples: a row for each example under each condition, its scores by judge and
decoding."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from judgebench.results.results import (
    CELL,
    Results,
    SeriesIndex,
    distinct,
    number,
    range_of,
    setting,
    with_labels,
)
from judgebench.stats.correlation import shown_level
from judgebench.types import CLAMPED, FAILED, LABELS, PARSED, RANGE, ScoreRange

STATUSES = (PARSED, FAILED, CLAMPED)
CUT = "article cut"
CONTROL = "control token"
"""Flags of single prompts; scores and whole conditions have others."""

EXPLAINED: Mapping[str, str] = {
    FAILED: "an answer that could not be read; the lowest score stands in for it",
    CLAMPED: "a score outside the range, moved to its nearest end",
    CUT: "the article was too long for the judge and was shortened",
    CONTROL: "a text names a control token of the judge's tokenizer, which the judge read as plain "
    "text",
}

_HOW = ("judge", "decoding", "lambda", "temperature")
_AXES = ("dataset", "dimension", "attack", "defense")


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
        series: the columns of scores; `settings` maps (series, place) to lambda and t as a reader
            sees them.
        knobs: (series, place) -> judge, decoding, lambda, t.
        example, place: [rows] numbers of both.
        human: [rows], NaN without a human score.
        scores, status: [series, rows]; NaN where a series has no score, and a place in `STATUSES`.
        flags: flag -> [rows] numbers, ascending.
        raised: (flag, place, split) -> the judges and decodings that raise it, where it is raised
            by a whole condition.
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
    """The rows of one run, or of several side by side: the same example under the same condition is
    one row."""
    # 1. (data set, example_id) -> group, system and split, those of a group together
    known: dict[tuple[str, str], tuple[str, str, str]] = {}
    for run in runs:
        distinct_rows = run.scores[
            ["example_id", "group_id", "system_id", "split"]
        ].drop_duplicates("example_id")
        for example, *where in distinct_rows.itertuples(index=False):
            known.setdefault((run.dataset, str(example)), tuple(map(str, where)))  # type: ignore[arg-type]
    groups: dict[Hashable, int] = {}
    for (dataset, _), (group, *_) in known.items():
        groups.setdefault((dataset, group), len(groups))
    about = dict(sorted(known.items(), key=lambda item: groups[item[0][0], item[1][0]]))
    numbers = {key: i for i, key in enumerate(about)}
    # 2. scores by the numbers of example, place and series
    places: dict[Place, int] = {}
    series: list[ShownSeries] = []
    entries: list[tuple[Place, int, Mapping[str, Any]]] = []
    parts = []
    for which, (run, name) in enumerate(zip(runs, names, strict=True)):
        judged = SeriesIndex.from_frame(run.scores)
        columns = {kind: len(series) + i for i, kind in enumerate(judged.all)}
        series += [ShownSeries(which, kind.judge, _named(name, str(kind))) for kind in judged.all]
        by = [*with_labels(CELL, run.scores), *_HOW]
        kinds = [
            (_place(run.dataset, kind), columns[judged.of(kind)], kind)
            for kind in distinct(run.scores, by)
        ]
        for place, *_ in kinds:
            places.setdefault(place, len(places))
        entries += kinds
        codes = run.scores.groupby(by, dropna=False, sort=False).ngroup().to_numpy()
        part = {
            "example": [numbers[run.dataset, example] for example in run.scores["example_id"]],
            "place": np.array([places[place] for place, *_ in kinds], dtype=np.int64)[codes],
            "series": np.array([column for _, column, _ in kinds], dtype=np.int64)[codes],
            "score": run.scores["score"].to_numpy(dtype=np.float64),
            "status": [STATUSES.index(status) for status in run.scores["status"]],
            "human": run.scores["human"].to_numpy(dtype=np.float64),
        }
        parts.append(pd.DataFrame(part))
    # 3. places by dimension, attack and defense as they appear, by range ascending
    axes = {name: list(dict.fromkeys(getattr(place, name) for place in places)) for name in _AXES}
    ranks = {place: [axes[name].index(getattr(place, name)) for name in _AXES] for place in places}
    sorted_places = sorted(
        places, key=lambda place: (*ranks[place][:2], place.range.order, *ranks[place][2:])
    )
    order = np.argsort([places[place] for place in sorted_places])
    settings = {}
    knobs = {}
    for place, column, kind in entries:
        lambda_ = number(kind["lambda"])
        temperature = number(kind["temperature"])
        entry_at = column, int(order[places[place]])
        settings[entry_at] = setting(kind)
        mixed = 0.0 if lambda_ is None else lambda_, 1.0 if temperature is None else temperature
        knobs[entry_at] = str(kind["judge"]), str(kind["decoding"]), *mixed
    # 4. a row for each example at each place
    table = pd.concat(parts, ignore_index=True)
    keys, rows = np.unique(
        order[table["place"].to_numpy()] * len(about) + table["example"], return_inverse=True
    )
    scores = np.full((len(series), len(keys)), np.nan)
    status = np.zeros((len(series), len(keys)), dtype=np.int64)
    scores[table["series"], rows], status[table["series"], rows] = table["score"], table["status"]
    human = np.full(len(keys), np.nan)
    human[rows] = table["human"]
    group_of, system_of, split_of = ([values[i] for values in about.values()] for i in range(3))
    every = (
        names,
        list(about),
        group_of,
        system_of,
        split_of,
        sorted_places,
        series,
        settings,
        knobs,
    )
    index = Index(*every, keys % len(about), keys // len(about), human, scores, status, {}, {})
    return _with_flags(index, runs, numbers)


def _place(dataset: str, row: Mapping[str, Any]) -> Place:
    return Place(
        dataset, str(row["dimension"]), range_of(row), str(row["attack"]), str(row["defense"])
    )


def _with_flags(
    index: Index, runs: Sequence[Results], numbers: Mapping[tuple[str, str], int]
) -> Index:
    flags: dict[str, set[int]] = {}
    raised: dict[tuple[str, int, str], list[str]] = {}
    # 1. of answers that failed or lie beyond the range
    for code, name in enumerate(STATUSES):
        if code and (index.status == code).any():
            flags[name] = set(np.flatnonzero((index.status == code).any(axis=0)).tolist())
    splits = np.array(index.split, dtype=object)[index.example]
    for which, run in enumerate(runs):
        # 2. of single prompts
        for column, name in (("source_tokens_cut", CUT), ("control_tokens", CONTROL)):
            marked = run.readings[run.readings[column] > 0]
            if rows := [row for row in rows_of(index, run, marked, numbers) if row is not None]:
                flags.setdefault(name, set()).update(rows)
        # 3. of whole conditions, as metrics.json has them at the level that is shown
        level = shown_level(str(record["level"]) for record in run.metrics)
        for record in run.metrics:
            condition = _place(run.dataset, record)
            if record["level"] != level or not record.get("flags") or condition not in index.places:
                continue
            place = index.places.index(condition)
            split = record["split"]
            judge = _named(index.runs[which], f"{record['judge']}, {record['decoding']}")
            for flag in map(str, record["flags"]):
                flags.setdefault(flag, set()).update(
                    np.flatnonzero((index.place == place) & (splits == split)).tolist()
                )
                raised.setdefault((flag, place, split), []).append(judge)
    return replace(
        index,
        flags={name: np.array(sorted(rows), dtype=np.int64) for name, rows in flags.items()},
        raised=raised,
    )


def rows_of(
    index: Index,
    run: Results,
    readings: pd.DataFrame,
    numbers: Mapping[tuple[str, str], int] | None = None,
) -> list[int | None]:
    """The row that each of a run's readings belongs to. Where texts are compared, a row is a pair
    and its range that of winning, however the places are called."""
    numbers = numbers or {key: i for i, key in enumerate(index.examples)}
    keep = [
        "dimension",
        *([] if run.compares else with_labels(RANGE, readings)),
        "attack",
        "defense",
    ]
    places: dict[Hashable, int] = {}
    for at, place in enumerate(index.places):
        if place.dataset == run.dataset and (LABELS in keep or not place.range.labels):
            row = {
                LABELS: "",
                **place.range.columns,
                **{name: getattr(place, name) for name in (keep[0], *keep[-2:])},
            }
            places[tuple(row[name] for name in keep)] = at
    by_key = dict(zip(index.keys.tolist(), range(len(index.keys)), strict=True))
    rows: list[int | None] = []
    for example, *key in readings[["example_id", *keep]].itertuples(index=False):
        place_at = places.get(tuple(key))
        example_at = numbers.get((run.dataset, example))
        known = place_at is not None and example_at is not None
        rows.append(by_key.get(place_at * len(index.examples) + example_at) if known else None)  # type: ignore[operator]
    return rows


def _named(run: str, text: str) -> str:
    return f"{run}: {text}" if run else text
