"""The results of a run: one object between computing and showing.

`SeriesIndex` says which rows of scores and records are one thing to a reader: a line of a figure,
or a row of a table.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from judgebench.results.folder import ARTIFACT, RunFolder, plain_frame
from judgebench.results.schema import (
    ARTIFACTS,
    EXAMPLES_SCHEMA,
    RATINGS_SCHEMA,
    READINGS_SCHEMA,
    REFERENCES_SCHEMA,
    SCORES_SCHEMA,
    TEXTS_SCHEMA,
    Presence,
)
from judgebench.stats.correlation import shown_level
from judgebench.studies.scores import CLEAN, shown_split
from judgebench.types import (
    LABELS,
    RANGE,
    Array,
    Example,
    Key,
    Prompt,
    Record,
    Records,
    Row,
    Rows,
    Scales,
    ScoreRange,
    Split,
)
from judgebench.words.errors import UserError

Titles = Mapping[str, str | None]
"""`main` and `assistant`, the models' names; `groups` and `examples`, the words for them;
`note`."""


def frame_of(rows: Iterable[Row], schema: pa.Schema) -> pd.DataFrame:
    return plain_frame(pa.Table.from_pylist([dict(row) for row in rows], schema))


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of a run. Terminal, page, figures, tables and loggers show it and nothing else.

    The attributes are the files of the run folder, see `ARTIFACTS`. Records are lists of mappings
    in which an unknown number is None; `frame` gives any of them as a DataFrame.

    Attributes:
        config: config.yaml: resolved, secrets masked.
        environment: environment.json.
        about: about.json: `titles`, `scale`, `agreement`, and `reversed`, dimensions whose lowest
            score is people's best, where there are any; in tables it counts as the highest.
        readings: one row an example and condition, `READINGS_SCHEMA`.
        scores: one row an example, condition and decoding, `SCORES_SCHEMA`.
        metrics: see `judgebench.studies.evaluate.evaluate`.
        comparisons: paired differences between judges; attack_differences: between what attacks
            change of each.
        repairs: comparisons that every run makes, see `judgebench.studies.repairs`; empty with
            `baseline`.
        pairwise: systems ranked by comparisons.
        suffix: effect of learned phrases by their length; trace: every word that a search tried, or
            None.
        tuning: selected lambda and t of each cell; None where they were given, or cross-fitted.
        choice: what each setting is worth and which is taken, see
            `judgebench.tuning.choose.choice_records`.
        verdict: what the setting taken may be used for, see
            `judgebench.studies.verdict.verdict_records`.
        false_passes: of attacked texts, see `judgebench.studies.attacked.attacked_records`.
        standards, strengths, detectors, own_answers: records of defenses, see
            `judgebench.defenses.Findings`.
        costs: seconds and tokens a defense takes; references: `REFERENCES_SCHEMA`.
        served: `SERVED_SCHEMA`, of judges behind a URL; else None.
        ratings: `RATINGS_SCHEMA`, single humans' scores; humans: what these agree on, see
            `judgebench.studies.humans.human_records`. Both are empty where only means are known.
        labels: of joined label files, those that need a look, see `judgebench.data.labels`.
        beside_humans, forecasts, errors, variance, systems, picks, few_labels: how judges compare
            with humans, see `STUDIES` in `judgebench.runs.measurement`.
        decisions: pass, fail and other classes, see `judgebench.studies.decisions.decision_records`.
        repeats: judges asked again, see `judgebench.studies.repeats.repeat_records`.
        audit: what else moves judges, see `judgebench.studies.audit.audit_records`; probes:
            `SCORES_SCHEMA`, the scores under its probes, which no other table has.
        rewards: with use=reward, see `judgebench.studies.rewards.reward_records`.
        examples: `EXAMPLES_SCHEMA`, the judged texts; None where they may not be shown. texts:
            `TEXTS_SCHEMA`.
        phrases: name -> content of a learned phrase's file. vectors: dimension -> standard vectors.
            Both are written and not read back.
        path: the run folder; None where nothing has been written.

    Example:
        >>> results = Results(metrics=[{"split": "dev", "level": "dataset", "attack": "none", "spearman": 0.5}])
        >>> results.split, results.level, results.frame("metrics")["spearman"].tolist()
        ('dev', 'dataset', [0.5])
    """

    config: Row = field(default_factory=dict)
    environment: Row = field(default_factory=dict)
    about: Row = field(default_factory=dict)
    readings: pd.DataFrame = field(default_factory=partial(frame_of, (), READINGS_SCHEMA))
    scores: pd.DataFrame = field(default_factory=partial(frame_of, (), SCORES_SCHEMA))
    metrics: Records = ()
    comparisons: Records = ()
    repairs: Records = ()
    attack_differences: Records = ()
    pairwise: Records = ()
    suffix: Records = ()
    false_passes: Records = ()
    trace: pd.DataFrame | None = None
    tuning: Records | None = None
    choice: Records = ()
    standards: Records = ()
    strengths: Records = ()
    detectors: Records = ()
    own_answers: Records = ()
    costs: Records = ()
    references: pd.DataFrame = field(default_factory=partial(frame_of, (), REFERENCES_SCHEMA))
    served: pd.DataFrame | None = None
    ratings: pd.DataFrame = field(default_factory=partial(frame_of, (), RATINGS_SCHEMA))
    humans: Records = ()
    labels: Records = ()
    beside_humans: Records = ()
    forecasts: Records = ()
    errors: Records = ()
    variance: Records = ()
    systems: Records = ()
    picks: Records = ()
    few_labels: Records = ()
    decisions: Records = ()
    rewards: Records = ()
    repeats: Records = ()
    audit: Records = ()
    probes: pd.DataFrame | None = None
    verdict: Records = ()
    examples: pd.DataFrame | None = None
    texts: pd.DataFrame = field(default_factory=partial(frame_of, (), TEXTS_SCHEMA))
    phrases: Mapping[str, Row] = field(default_factory=dict)
    vectors: Row = field(default_factory=dict)
    path: Path | None = None

    # --- the run folder --------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """The results in a run folder."""
        folder = RunFolder.open(path)
        read = {artifact.name: folder.read(artifact.name) for artifact in ARTIFACTS}
        return cls(
            **{name: value for name, value in read.items() if value is not None}, path=folder.path
        )

    def save(self, folder: RunFolder) -> list[Path]:
        """Writes the files that the folder's contract asks for, and returns their paths."""
        written = []
        for artifact in ARTIFACTS:
            value = getattr(self, artifact.name)
            filled = value is not None and len(value)
            if filled or artifact.presence is not Presence.FILLED:
                written.append(folder.write(artifact.name, value))
        for name, content in self.phrases.items():
            file = f"attack/phrase_{name}.json"
            if len(self.phrases) == 1:
                file = "attack/phrase.json"
            written.append(folder.write_json(file, dict(content)))
        for dimension, vectors in self.vectors.items():
            from judgebench.tutor.vectors import save_vectors  # torch with it

            path = folder.path / "defense" / f"vectors_{dimension}.safetensors"
            save_vectors(vectors, path)
            written.append(path)
        return written

    # --- frames ----------------------------------------------------------------------------------

    def frame(self, name: str) -> pd.DataFrame:
        """One of the tables or records as a DataFrame of its own: changes do not reach the
        results."""
        value = getattr(self, name) if name in ARTIFACT else None
        if value is None or isinstance(value, Mapping):
            raise UserError(f"{name!r}: not a frame; there are {', '.join(self)}.")
        return value.copy() if isinstance(value, pd.DataFrame) else pd.DataFrame(list(value))

    def __iter__(self) -> Iterator[str]:
        """The names of the frames that hold something."""
        for attribute in fields(self):
            value = getattr(self, attribute.name)
            if (
                attribute.name in ARTIFACT
                and value is not None
                and not isinstance(value, Mapping)
                and len(value)
            ):
                yield attribute.name

    # --- selections that everything shown shares -------------------------------------------------

    @property
    def titles(self) -> Titles:
        return self.about.get("titles") or {}

    @cached_property
    def scale(self) -> Scales:
        """Dimension -> ends of the humans' scale; None where humans prefer and do not score."""
        scale: Row = self.about.get("scale") or {}
        return {
            name: (float(ends[0]), float(ends[1])) if ends else None for name, ends in scale.items()
        }

    def as_rated(self, dimension: str, score: float) -> float:
        """A score on the humans' scale as people know it: on a dimension whose lowest score is their
        best, as far from the other end."""
        ends = self.scale.get(dimension)
        falls = dimension in self.about.get("reversed", ())
        return sum(ends) - score if ends and falls else score

    @property
    def agreement(self) -> Mapping[str, Mapping[str, float | None]]:
        """Dimension -> `alpha` and `spearman` of the experts among themselves; all that runs of
        earlier versions know of them, which have no `humans`."""
        return self.about.get("agreement") or {}

    @property
    def folder(self) -> Path:
        assert self.path is not None
        return self.path

    @property
    def groups(self) -> str:
        return self.titles.get("groups") or "articles"

    @property
    def examples_word(self) -> str:
        return self.titles.get("examples") or "examples"

    @property
    def dataset(self) -> str:
        """Name of the data set; empty where nothing was measured."""
        return str(self.metrics[0]["dataset"]) if self.metrics else ""

    @property
    def compares(self) -> bool:
        """True if two texts were compared; scores are then of pairs, and readings of an order
        each."""
        return "rival_id" in self.scores

    @cached_property
    def split(self) -> str:
        """The reported split: test where there is one, else the first."""
        return shown_split(record["split"] for record in self.metrics)

    @cached_property
    def level(self) -> str:
        """The reported level: dataset where there is one, else the first."""
        return shown_level(
            record["level"] for record in self.metrics if record["split"] == self.split
        )

    @cached_property
    def shown(self) -> Records:
        """The metrics of the reported split and level."""
        return [
            record
            for record in self.metrics
            if (record["split"], record["level"]) == (self.split, self.level)
        ]

    @cached_property
    def clean(self) -> Records:
        """The metrics of clean texts; all metrics where every text was attacked."""
        return unattacked(self.metrics)


def unattacked(records: Records) -> Records:
    """The records of clean texts; all of them where none is of clean texts."""
    return [record for record in records if record["attack"] == CLEAN] or list(records)


def examples_frame(examples: Sequence[Example], split: Split) -> pd.DataFrame:
    """The judged examples as examples.parquet holds them; `split`: group_id -> dev or test."""
    # columns of the examples' own texts: copies would take as much memory again
    columns: dict[str, list[Any]] = {}
    for name in EXAMPLES_SCHEMA.names[:-2]:
        if name == "split":
            columns[name] = [split[example.group_id] for example in examples]
        else:
            columns[name] = [getattr(example, name) for example in examples]
    if any(example.reason for example in examples):
        columns["reason"] = [example.reason for example in examples]
    columns["dimensions"] = [list(example.human) for example in examples]
    columns["human"] = []
    for example in examples:
        scores = example.human.values()
        columns["human"].append([None if math.isnan(x) else float(x) for x in scores])
    return pd.DataFrame(columns, dtype=object)


def ratings_frame(
    examples: Sequence[Example],
    ratings: Mapping[str, Array],
    raters: Sequence[str],
    split: Split,
) -> pd.DataFrame:
    """The single ratings as ratings.parquet holds them; `ratings`: dimension -> [examples, raters],
    NaN where a rater gave none. Raters without names are called 1, 2, ..."""
    parts = []
    for dimension, table in ratings.items():
        texts, columns = np.nonzero(~np.isnan(table))
        rows = []
        for text in texts.tolist():
            example = examples[text]
            rows.append((example.example_id, example.group_id, example.system_id, dimension))
        frame = pd.DataFrame(rows, columns=["example_id", "group_id", "system_id", "dimension"])
        frame.insert(3, "split", frame["group_id"].map(split))
        frame["rater"] = [
            raters[column] if raters else str(column + 1) for column in columns.tolist()
        ]
        parts.append(frame.assign(score=table[texts, columns].astype(np.float64)))
    return pd.concat(parts, ignore_index=True) if parts else frame_of([], RATINGS_SCHEMA)


def texts_frame(changed: Iterable[tuple[Prompt, str]]) -> pd.DataFrame:
    """The changed texts as texts.parquet holds them; `changed`: prompts, and the text that each has
    in the place of its example's own."""
    rows = []
    for prompt, text in changed:
        condition = prompt.condition
        row = {
            "example_id": prompt.example.example_id,
            "dimension": condition.dimension,
            **condition.range.columns,
            "attack": condition.attack,
            "defense": condition.defense,
            "order": condition.order,
            "text": text,
        }
        rows.append(row)
    if not any(LABELS in row for row in rows):
        return frame_of(rows, TEXTS_SCHEMA)
    return frame_of(
        [{LABELS: "", **row} for row in rows], TEXTS_SCHEMA.append(pa.field(LABELS, pa.string()))
    )


# --- series -------------------------------------------------------------------------------------


CELL = ("split", "dimension", *RANGE, "attack", "defense")
"""Columns of a condition, to which `LABELS` comes in tables with a range that has some."""
NO_DEFENSE = "none"
_JUDGES = ("main", "assistant", "pair")
_DECODINGS = ("greedy", "expectation", "contrastive")


@dataclass(frozen=True)
class Series:
    """A judge with a decoding. `setting` names one of several that a run tries side by side (a grid
    of lambda and t); it is empty where each range has one setting, which may differ from range to
    range (tuned on the dev split)."""

    judge: str
    decoding: str
    setting: str = ""

    def __str__(self) -> str:
        name = f"{self.judge}, {self.decoding}"
        return f"{name}, {self.setting}" if self.setting else name


def _place(name: str, order: Sequence[str]) -> tuple[int, str]:
    """Sorts a name by its place in an order, and behind all of it by itself."""
    return (order.index(name) if name in order else len(order), name)


class SeriesIndex:
    """Finds the series in rows that have `CELL`, judge, decoding, lambda and temperature.

    Attributes:
        all: the series, in the order in which they are shown.
        settings: series -> its lambda and t, where they are one for all its rows; "" where they are
            not (tuned by range), or where the series' name says them already.

    Example:
        >>> cell = dict.fromkeys(CELL, 1)
        >>> cell |= {"judge": "pair", "decoding": "contrastive", "temperature": 1}
        >>> tried = [cell | {"lambda": x} for x in (0.1, 1)]
        >>> [str(series) for series in SeriesIndex(tried).all]
        ['pair, contrastive, λ 0.1, t 1', 'pair, contrastive, λ 1, t 1']
        >>> [str(series) for series in SeriesIndex(tried[:1]).all]
        ['pair, contrastive']
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        tried: dict[Key, set[str]] = defaultdict(set)
        for row in rows:
            cell = (*(row[name] for name in CELL), row.get(LABELS))
            tried[cell, row["judge"], row["decoding"]].add(setting(row))
        self._several = {
            (judge, decoding) for (_, judge, decoding), texts in tried.items() if len(texts) > 1
        }
        hyperparameters = {
            self.of(row): (number(row["lambda"]) or 0.0, number(row["temperature"]) or 0.0)
            for row in rows
        }
        settings: dict[Series, set[str]] = defaultdict(set)
        for row in rows:
            settings[self.of(row)].add(setting(row))
        self.settings = {
            series: "" if series.setting or len(texts) > 1 else min(texts)
            for series, texts in settings.items()
        }

        def rank(series: Series) -> Key:
            # well-known judges and decodings in their order, then the others by name
            return (
                _place(series.judge, _JUDGES),
                _place(series.decoding, _DECODINGS),
                hyperparameters[series],
                str(series),
            )

        self.all = sorted(hyperparameters, key=rank)

    @classmethod
    def from_frame(cls, scores: pd.DataFrame) -> SeriesIndex:
        return cls(
            distinct(
                scores, [*with_labels(CELL, scores), "judge", "decoding", "lambda", "temperature"]
            )
        )

    def of(self, row: Row) -> Series:
        judge = str(row["judge"])
        decoding = str(row["decoding"])
        return Series(judge, decoding, setting(row) if (judge, decoding) in self._several else "")

    def parts(self, scores: pd.DataFrame) -> dict[Series, pd.DataFrame]:
        """The scores, by series, in the order of `all`."""
        names = ["judge", "decoding", "lambda", "temperature"]
        numbers = scores.groupby(names, sort=False, dropna=False).ngroup().to_numpy()
        places: dict[Series, list[int]] = defaultdict(list)
        for place, row in enumerate(distinct(scores, names)):
            places[self.of(row)].append(place)
        return {
            series: scores[np.isin(numbers, places[series])]
            for series in self.all
            if series in places
        }


def setting(row: Row) -> str:
    """Lambda and t as a reader sees them; empty for decodings that have neither."""
    lambda_ = number(row["lambda"])
    temperature = number(row["temperature"])
    parts = [
        f"λ {lambda_:.4g}" if lambda_ is not None else "",
        f"t {temperature:.4g}" if temperature is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def number(value: Any) -> float | None:
    """`value` as a float, or None for None and NaN: a null is None in records and NaN in frames."""
    return None if value is None or pd.isna(value) else float(value)


def range_of(row: Row) -> ScoreRange:
    return _range_of(*(row[name] for name in RANGE), row.get(LABELS))


@cache
def _range_of(*columns: Any) -> ScoreRange:
    return ScoreRange.of(dict(zip((*RANGE, LABELS), columns, strict=True)))


def ranges_of(frame: pd.DataFrame) -> list[tuple[ScoreRange, pd.DataFrame]]:
    names = with_labels(RANGE, frame)
    return [
        (range_of(dict(zip(names, ends, strict=True))), part)
        for ends, part in frame.groupby(names, sort=True)
    ]


def with_labels(columns: Sequence[str], frame: pd.DataFrame) -> list[str]:
    """The columns of a condition or range, and `LABELS` where the table has it."""
    return [*columns, LABELS] if LABELS in frame else list(columns)


def distinct(frame: pd.DataFrame, columns: list[str]) -> Rows:
    """The distinct combinations of `columns`, in order of appearance."""
    rows = frame[columns].drop_duplicates().itertuples(index=False)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def first_condition(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows that a figure of judges shows: those without attack and defense, else those of the
    first pair; and a title for the pair."""
    pairs = [(row["attack"], row["defense"]) for row in distinct(frame, ["attack", "defense"])]
    clean = ("none", "none")
    attack, defense = clean if not pairs or clean in pairs else pairs[0]
    rows = frame[(frame["attack"] == attack) & (frame["defense"] == defense)]
    named = {"attack": attack, "defense": defense}
    title = ", ".join(f"{axis} {name}" for axis, name in named.items() if name != "none")
    return rows, title


def defenses_of(rows: Iterable[Row]) -> list[str]:
    names = dict.fromkeys(str(row["defense"]) for row in rows)
    return sorted(names, key=lambda name: name != NO_DEFENSE)


def condition_text(row: Row) -> str:
    """The dimension, and the attack and the defense where there are such, as in "coherence, attack
    dsi"."""
    axes = (f"{axis} {row[axis]}" for axis in ("attack", "defense") if row[axis] != "none")
    return ", ".join([str(row["dimension"]), *axes])


Shown = TypeVar("Shown", pd.DataFrame, list[Record])


def cached(make: Callable[..., Shown]) -> Callable[..., Shown]:
    """A function of results, and of what else it takes, that computes a frame or rows once for the
    same results: many parts of a page ask for them. Each caller gets a copy."""

    @wraps(make)
    def known(results: Results, *asked: Any, **named: Any) -> Shown:
        key = (make, asked, *named.items())
        values = results.__dict__.setdefault("_kept", {})
        if key not in values:
            values[key] = make(results, *asked, **named)
        value: Any = values[key]
        copy: Any = (
            value.copy() if isinstance(value, pd.DataFrame) else [dict(row) for row in value]
        )
        return copy

    return known


def labelled(records: Iterable[Row]) -> list[Record]:
    """Records of cells and series as tables show them: sorted by dimension, attack, defense
    (in order of appearance), range and series, with labels as further keys.

    Added are `series`, such as "pair, contrastive", with its setting where several are tried side
    by side; `who`, the same without; `setting`, lambda and t; `range`; and `condition`, such as
    "coherence, attack dsi".

    Example:
        >>> cell = dict.fromkeys(CELL, 1) | {"dimension": "coherence", "attack": "dsi", "defense": "none"}
        >>> cell |= {"range_max": 5}
        >>> [row] = labelled([cell | {"judge": "pair", "decoding": "contrastive", "lambda": 0.1, "temperature": 1}])
        >>> [row[name] for name in ("series", "setting", "range", "condition")]
        ['pair, contrastive', 'λ 0.1, t 1', '1-5', 'coherence, attack dsi']
    """
    rows = [dict(record) for record in records]
    index = SeriesIndex(rows)
    conditions = list(
        dict.fromkeys((row["dimension"], row["attack"], row["defense"]) for row in rows)
    )
    order = []
    for row in rows:
        series = index.of(row)
        score_range = range_of(row)
        key = (row["dimension"], row["attack"], row["defense"])
        order.append((conditions.index(key), score_range.order, index.all.index(series)))
        row |= {
            "series": str(series),
            "who": f"{series.judge}, {series.decoding}",
            "setting": setting(row),
        }
        row |= {"range": str(score_range), "condition": condition_text(row)}
    return [rows[place] for place in sorted(range(len(rows)), key=order.__getitem__)]
