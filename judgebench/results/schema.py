"""The run folder's contract: which files it has, their columns and types."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pandas as pd
import pyarrow as pa

from judgebench.runtime.files import DIGESTS
from judgebench.types import LABELS, RANGE

_KEYS = [
    *[(name, pa.string()) for name in ("example_id", "group_id", "system_id", "split", "dimension")],
    *[(name, pa.float64()) for name in RANGE],
    *[(name, pa.string()) for name in ("attack", "defense")],
]

_HOW = [("judge", pa.string()), ("decoding", pa.string()), ("lambda", pa.float64()), ("temperature", pa.float64())]

READINGS_SCHEMA = pa.schema(
    [
        *_KEYS,
        ("candidates", pa.list_(pa.string())),
        ("main_logprobs", pa.list_(pa.float32())),
        ("assistant_logprobs", pa.list_(pa.float32())),
        ("text", pa.string()),
        *_HOW,
        ("prompt", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("source_tokens_cut", pa.int64()),
        ("control_tokens", pa.int64()),
        ("seconds", pa.float64()),
    ]
)
"""Columns of readings.parquet, one row per example x condition."""

SCORES_SCHEMA = pa.schema(
    [*_KEYS, *_HOW, ("score", pa.float64()), ("status", pa.string()), ("human", pa.float64())],
)
"""Columns of scores.parquet, one row per example x condition x decoding."""

SERVED_SCHEMA = pa.schema(
    [
        *_KEYS,
        ("role", pa.string()),
        ("candidates", pa.list_(pa.string())),
        ("lower", pa.list_(pa.float32())),
        ("upper", pa.list_(pa.float32())),
        ("unlisted", pa.float64()),
        ("texts", pa.list_(pa.string())),
    ]
)
"""Columns of served.parquet, one row per example x condition x role (main, assistant) of judges behind a URL: between
which log-probabilities each candidate lies, how much probability the first list leaves out, and what was answered."""

READINGS_COMPARED = [(name, pa.string()) for name in ("text_id", "rival_id", "rival_system_id", "order")]
SCORES_COMPARED = [
    *[(name, pa.string()) for name in ("text_id", "rival_id", "rival_system_id")],
    *[(name, pa.float64()) for name in ("score_first", "score_second", "tie_first", "tie_second")],
]
"""Columns that the two tables have besides in a run that compares texts, at their end. Its readings have a row an
order, its scores a row a pair."""

EXAMPLES_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("example_id", "group_id", "system_id", "split")],
        *[(name, pa.string()) for name in ("source", "context", "output", "rival_id", "rival")],
        ("dimensions", pa.list_(pa.string())),
        ("human", pa.list_(pa.float64())),
    ]
)
"""Columns of examples.parquet, one row an example, see `judgebench.types.Example`; `human` goes with `dimensions`, all
that the data has, judged or not."""

RATINGS_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("example_id", "group_id", "system_id", "split", "dimension", "rater")],
        ("score", pa.float64()),
    ]
)
"""Columns of ratings.parquet, one row a rating: the score that one human gave an example on a judged dimension."""

TEXTS_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("example_id", "dimension")],
        *[(name, pa.float64()) for name in RANGE],
        *[(name, pa.string()) for name in ("attack", "defense", "order", "text")],
    ]
)
"""Columns of texts.parquet: the judged text as the judge read it, one row for each example x condition in which an
attack or a defense had changed it. `order` is empty where texts are judged alone."""

REFERENCES_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("defense", "dimension", "group_id", "split", "high", "low")],
        *[(name, pa.float64()) for name in ("score_high", "score_low")],
        *[(name, pa.bool_()) for name in ("high_cut", "low_cut")],
        *[(name, pa.float64()) for name in ("alpha_high", "alpha_low", "seconds")],
    ]
)
"""Columns of defense/references.parquet, one row a pair: the texts, the judge's score of each by itself, whether it
would have gone on, the strengths that steered it, the seconds of writing both."""


class Presence(Enum):
    """When a run folder has a file."""

    REQUIRED = "always; without it the run did not finish"
    ALWAYS = "always, though runs of earlier versions may lack it"
    FILLED = "where it holds something"


@dataclass(frozen=True)
class Artifact:
    """A file of the run folder that holds one attribute of `Results`.

    Attributes:
        name: of the attribute.
        path: within the run folder; its ending says the kind: yaml, json or parquet.
        schema: the columns of a table; None lets pandas choose.
        compared: columns that the table has besides where texts are compared.
    """

    name: str
    path: str
    presence: Presence = Presence.FILLED
    schema: pa.Schema | None = None
    compared: tuple[tuple[str, pa.DataType], ...] = ()


ARTIFACTS = (
    Artifact("config", "config.yaml", Presence.REQUIRED),
    Artifact("readings", "readings.parquet", Presence.REQUIRED, READINGS_SCHEMA, tuple(READINGS_COMPARED)),
    Artifact("scores", "scores.parquet", Presence.REQUIRED, SCORES_SCHEMA, tuple(SCORES_COMPARED)),
    Artifact("served", "served.parquet", schema=SERVED_SCHEMA, compared=tuple(READINGS_COMPARED)),
    Artifact("metrics", "metrics.json", Presence.REQUIRED),
    Artifact("about", "about.json", Presence.REQUIRED),
    Artifact("examples", "examples.parquet", schema=EXAMPLES_SCHEMA),
    Artifact("ratings", "ratings.parquet", schema=RATINGS_SCHEMA),
    Artifact("humans", "humans.json"),
    Artifact("beside_humans", "worth/beside_humans.json"),
    Artifact("forecasts", "worth/forecasts.json"),
    Artifact("errors", "worth/errors.json"),
    Artifact("variance", "worth/variance.json"),
    Artifact("systems", "worth/systems.json"),
    Artifact("few_labels", "worth/few_labels.json"),
    Artifact("texts", "texts.parquet", schema=TEXTS_SCHEMA),
    Artifact("comparisons", "comparisons.json", Presence.ALWAYS),
    Artifact("pairwise", "pairwise.json"),
    Artifact("trace", "attack/trace.parquet"),
    Artifact("attack_differences", "attack/differences.json"),
    Artifact("suffix", "attack/suffix.json"),
    Artifact("standards", "defense/standards.json"),
    Artifact("strengths", "defense/strengths.json"),
    Artifact("detectors", "defense/detectors.json"),
    Artifact("rewritings", "defense/rewritings.json"),
    Artifact("costs", "defense/costs.json"),
    Artifact("references", "defense/references.parquet", schema=REFERENCES_SCHEMA),
    Artifact("tuning", "tuning.json"),
    Artifact("environment", "environment.json", Presence.REQUIRED),
)
"""The files that hold `Results`, in the order in which they are written."""

FILES = (*(one.path for one in ARTIFACTS if "/" not in one.path), "report.html", DIGESTS)
"""The contract's files, besides those of `figures/`, `tables/`, `attack/`, `defense/` and `worth/`."""

ATTACK = re.compile(r"(suffix|differences|phrase(_\w+)?)\.json|trace\.parquet")
DEFENSE = re.compile(
    r"(standards|strengths|detectors|rewritings|costs)\.json|references\.parquet|vectors_[\w-]+\.safetensors|"
    r"template_[0-9a-f]{12}\.txt"  # of a user's own, beside a judge card
)
WORTH = re.compile(r"(beside_humans|forecasts|errors|variance|systems|few_labels)\.json")
FIGURE = re.compile(
    r"(spearman_by_range|range_variance|detectors|(scores|logprobs|path|grid|suffix)_[\w-]+|"
    r"(candidates|embeddings|separability|strengths|front|ranking|wins|reliability|abstention)_[\w-]+)\.(png|svg)"
)
CARD = re.compile(r"judge_card(_\w+)?\.yaml")
TABLE = re.compile(
    r"(table_\d|own_(correlations|expectation|settings)_[\w-]+)\.(txt|csv|tex)|cap_(table_\d+|own_[\w-]+)\.(md|csv|tex)"
)
"""Names of the files of `attack/`, `defense/`, `worth/`, `figures/` and `tables/`, and of judge cards."""

PLACES: dict[str, Callable[[str], object]] = {
    ".": lambda name: name in FILES or CARD.fullmatch(name),
    "figures": FIGURE.fullmatch,
    "tables": TABLE.fullmatch,
    "attack": ATTACK.fullmatch,
    "defense": DEFENSE.fullmatch,
    "worth": WORTH.fullmatch,
}
"""Where a run writes, and which names are its own there."""

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.tmp")  # what `atomic` leaves when it is killed


def is_ours(place: str, name: str) -> bool:
    """True for the name of a file that runs write at a place of `PLACES`, or a half that a killed run left of it.

    Example:
        >>> is_ours(".", "scores.parquet"), is_ours(".", ".judge_card.yaml.17.tmp"), is_ours(".", "notes.txt")
        (True, True, False)
    """
    half = _TEMPORARY.fullmatch(name)
    return bool(PLACES[place](half["name"] if half else name))


def columns_of(artifact: Artifact, frame: pd.DataFrame) -> pa.Schema:
    """The schema of an artifact's table, with the columns for compared texts and for a range's labels where the
    frame has them."""
    assert artifact.schema is not None
    more = (artifact.compared if "rival_id" in frame else ()) + (((LABELS, pa.string()),) if LABELS in frame else ())
    return pa.schema([*artifact.schema, *(pa.field(*one) for one in more)])
