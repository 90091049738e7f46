"""The table of examples: a row for each example under each condition, its scores by judge and
decoding."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from judgebench.report.views.correlations import advised_rows
from judgebench.report.views.first import CALIBRATED
from judgebench.results.results import (
    CELL,
    Results,
    Series,
    SeriesIndex,
    distinct,
    number,
    range_of,
    setting,
    with_labels,
)
from judgebench.stats.correlation import shown_level
from judgebench.types import CLAMPED, FAILED, LABELS, PARSED, RANGE, Array, Key, Row, ScoreRange

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


@dataclass(frozen=True)
class Place:
    """A condition: one cell of the experiment."""

    dimension: str
    range: ScoreRange
    attack: str
    defense: str


@dataclass(frozen=True)
class Index:
    """Every row of the table, column by column.

    Attributes:
        examples: their ids, those of a group together, the groups by appearance.
        group, system, split: [examples].
        places: the conditions.
        series: judges with a decoding; `settings` maps (series, place) to lambda and t as a reader
            sees them.
        hyperparameters: (series, place) -> judge, decoding, lambda, t.
        example, place: [rows] numbers of both.
        human: [rows], NaN without a human score.
        scores, status: [series, rows]; NaN where a series has no score, and a place in `STATUSES`.
        advised: (series, place) of the setting that is taken in each dimension.
        calibrated: [rows] the score of the advised series on the humans' scale, calibrated by other
            groups; NaN where there is none.
        flags: flag -> [rows] numbers, ascending.
        raised: (flag, place, split) -> the judges and decodings that raise it, where it is raised
            by a whole condition.
    """

    examples: Sequence[str]
    group: Sequence[str]
    system: Sequence[str]
    split: Sequence[str]
    places: Sequence[Place]
    series: Sequence[Series]
    settings: Mapping[tuple[int, int], str]
    hyperparameters: Mapping[tuple[int, int], tuple[str, str, float, float]]
    example: Array
    place: Array
    human: Array
    scores: Array
    status: Array
    advised: Sequence[tuple[int, int]]
    calibrated: Array
    flags: Mapping[str, Array]
    raised: Mapping[tuple[str, int, str], Sequence[str]]

    @property
    def keys(self) -> Array:
        """[rows] place and example as one number, ascending."""
        return self.place * len(self.examples) + self.example


def index_of(run: Results) -> Index:
    """The rows of a run: an example under a condition is one row."""
    scores = run.scores
    # 1. the examples, those of a group together
    about = scores.drop_duplicates("example_id")
    order = about.groupby("group_id", sort=False).ngroup().to_numpy().argsort(kind="stable")
    about = about.iloc[order]
    numbers = {name: i for i, name in enumerate(about["example_id"])}
    # 2. the conditions: by dimension, attack and defense as they appear, by range ascending
    by = [*with_labels(CELL, scores), *_HOW]
    cells = distinct(scores, by)
    places = _ordered([_place(cell) for cell in cells])
    # 3. the cells: series and place of each
    judged = SeriesIndex.from_frame(scores)
    at = [(judged.all.index(judged.of(cell)), places.index(_place(cell))) for cell in cells]
    settings = {pair: setting(cell) for pair, cell in zip(at, cells, strict=True)}
    hyperparameters = {pair: _hyperparameters(cell) for pair, cell in zip(at, cells, strict=True)}
    # 4. a row for each example at each place
    codes = scores.groupby(by, dropna=False, sort=False).ngroup().to_numpy()
    series_of, place_of = np.array(at, dtype=np.int64)[codes].T
    example_of = scores["example_id"].map(numbers).to_numpy()
    keys, rows = np.unique(place_of * len(about) + example_of, return_inverse=True)
    values = np.full((len(judged.all), len(keys)), np.nan)
    values[series_of, rows] = scores["score"]
    status = np.zeros(values.shape, dtype=np.int64)
    status[series_of, rows] = scores["status"].map(STATUSES.index)
    human = np.full(len(keys), np.nan)
    human[rows] = scores["human"]
    # 5. the settings that are taken, and their calibrated scores
    leads = advised_rows(run)
    advised = [(judged.all.index(judged.of(lead)), places.index(_place(lead))) for lead in leads]
    calibrated = np.full(len(keys), np.nan)
    if CALIBRATED in scores:
        known = scores[CALIBRATED].notna().to_numpy()
        calibrated[rows[known]] = scores.loc[known, CALIBRATED]
    texts = {name: list(map(str, about[name])) for name in ("group_id", "system_id", "split")}
    index = Index(
        examples=list(numbers),
        group=texts["group_id"],
        system=texts["system_id"],
        split=texts["split"],
        places=places,
        series=judged.all,
        settings=settings,
        hyperparameters=hyperparameters,
        example=keys % len(about),
        place=keys // len(about),
        human=human,
        scores=values,
        status=status,
        advised=advised,
        calibrated=calibrated,
        flags={},
        raised={},
    )
    return _with_flags(index, run)


def _place(row: Row) -> Place:
    return Place(row["dimension"], range_of(row), row["attack"], row["defense"])


def _ordered(places: Sequence[Place]) -> list[Place]:
    dimensions = [place.dimension for place in places]
    attacks = [place.attack for place in places]
    defenses = [place.defense for place in places]

    def rank(place: Place) -> Key:
        return (
            dimensions.index(place.dimension),
            place.range.order,
            attacks.index(place.attack),
            defenses.index(place.defense),
        )

    return sorted(dict.fromkeys(places), key=rank)


def _hyperparameters(cell: Row) -> tuple[str, str, float, float]:
    lambda_ = number(cell["lambda"])
    temperature = number(cell["temperature"])
    lambda_ = 0.0 if lambda_ is None else lambda_
    temperature = 1.0 if temperature is None else temperature
    return cell["judge"], cell["decoding"], lambda_, temperature


def _with_flags(index: Index, run: Results) -> Index:
    flags: dict[str, set[int]] = {}
    raised: dict[tuple[str, int, str], list[str]] = {}
    # 1. of answers that failed or lie beyond the range
    for name in (FAILED, CLAMPED):
        of_status = index.status == STATUSES.index(name)
        rows = np.flatnonzero(of_status.any(axis=0))
        if len(rows):
            flags[name] = set(rows.tolist())
    # 2. of single prompts
    for column, name in (("source_tokens_cut", CUT), ("control_tokens", CONTROL)):
        marked = run.readings[run.readings[column] > 0]
        of_prompts = {row for row in rows_of(index, run, marked) if row is not None}
        if of_prompts:
            flags[name] = of_prompts
    # 3. of whole conditions, as metrics.json has them at the level that is shown
    splits = np.array(index.split, dtype=object)[index.example]
    level = shown_level(record["level"] for record in run.metrics)
    for record in run.metrics:
        condition = _place(record)
        if record["level"] != level or not record.get("flags") or condition not in index.places:
            continue
        place = index.places.index(condition)
        split = record["split"]
        judge = f"{record['judge']}, {record['decoding']}"
        of_condition = np.flatnonzero((index.place == place) & (splits == split)).tolist()
        for flag in map(str, record["flags"]):
            flags.setdefault(flag, set()).update(of_condition)
            raised.setdefault((flag, place, split), []).append(judge)
    flagged = {name: np.array(sorted(rows), dtype=np.int64) for name, rows in flags.items()}
    return replace(index, flags=flagged, raised=raised)


def rows_of(index: Index, run: Results, readings: pd.DataFrame) -> list[int | None]:
    """The row that each of a run's readings belongs to. Where texts are compared, a row is a pair
    and its range that of winning, however the places are called."""
    numbers = {name: i for i, name in enumerate(index.examples)}
    keep = [
        "dimension",
        *([] if run.compares else with_labels(RANGE, readings)),
        "attack",
        "defense",
    ]
    places: dict[Hashable, int] = {}
    for at, place in enumerate(index.places):
        if LABELS in keep or not place.range.labels:
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
        example_at = numbers.get(example)
        known = place_at is not None and example_at is not None
        rows.append(by_key.get(place_at * len(index.examples) + example_at) if known else None)  # type: ignore[operator]
    return rows
