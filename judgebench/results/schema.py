"""The run folder's contract: which files it has, their columns and types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from judgebench.runtime.files import DIGESTS, Input
from judgebench.types import LABELS, RANGE

if TYPE_CHECKING:
    import pandas as pd

_TEXT = pa.string()
_NUMBER = pa.float64()
_INTEGER = pa.int64()
_BOOLEAN = pa.bool_()
_TEXTS = pa.list_(pa.string())
_LOGPROBS = pa.list_(pa.float32())


def _columns(kind: pa.DataType, names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, kind) for name in names.split()]


_RANGE = _columns(_NUMBER, " ".join(RANGE))
_KEYS = [
    *_columns(_TEXT, "example_id group_id system_id split dimension"),
    *_RANGE,
    *_columns(_TEXT, "attack defense"),
]
_DECODING = [*_columns(_TEXT, "judge decoding"), *_columns(_NUMBER, "lambda temperature")]

READINGS_SCHEMA = pa.schema(
    [
        *_KEYS,
        ("candidates", _TEXTS),
        *_columns(_LOGPROBS, "main_logprobs assistant_logprobs"),
        ("text", _TEXT),
        *_DECODING,
        ("prompt", _TEXT),
        *_columns(_INTEGER, "prompt_tokens source_tokens_cut control_tokens"),
        ("seconds", _NUMBER),
    ]
)
"""Columns of readings.parquet, one row per example x condition; log-probabilities that 32 bits would
change, as the means of a panel, are lists of 64 bits."""

SCORES_SCHEMA = pa.schema(
    [*_KEYS, *_DECODING, ("score", _NUMBER), ("status", _TEXT), ("human", _NUMBER)]
)
"""Columns of scores.parquet, one row per example x condition x decoding."""

SERVED_SCHEMA = pa.schema(
    [
        *_KEYS,
        ("role", _TEXT),
        ("candidates", _TEXTS),
        *_columns(_LOGPROBS, "lower upper"),
        ("unlisted", _NUMBER),
        ("texts", _TEXTS),
    ]
)
"""Columns of served.parquet, one row per example x condition x role (main, assistant) of judges
behind a URL: between which log-probabilities each candidate lies, how much probability the first
list leaves out, and what was answered."""

READINGS_COMPARED = _columns(_TEXT, "text_id rival_id rival_system_id order")
SCORES_COMPARED = [
    *_columns(_TEXT, "text_id rival_id rival_system_id"),
    *_columns(_NUMBER, "score_first score_second tie_first tie_second"),
]
"""Columns that the two tables have besides in a run that compares texts, at their end. Its readings
have a row an order, its scores a row a pair."""

EXAMPLES_SCHEMA = pa.schema(
    [
        *_columns(
            _TEXT,
            "example_id group_id system_id split source context question output rival_id rival",
        ),
        ("dimensions", _TEXTS),
        ("human", pa.list_(_NUMBER)),
    ]
)
"""Columns of examples.parquet, one row an example, see `judgebench.types.Example`, and `reason` at
the end where one has it; `human` goes with `dimensions`, all that the data has, judged or not."""

RATINGS_SCHEMA = pa.schema(
    [*_columns(_TEXT, "example_id group_id system_id split dimension rater"), ("score", _NUMBER)]
)
"""Columns of ratings.parquet, one row a rating: the score that one human gave an example on a
judged dimension."""

TEXTS_SCHEMA = pa.schema(
    [
        *_columns(_TEXT, "example_id dimension"),
        *_RANGE,
        *_columns(_TEXT, "attack defense order text"),
    ]
)
"""Columns of texts.parquet: the judged text as the judge read it, one row for each example x
condition in which an attack or a defense had changed it. `order` is empty where texts are judged
alone."""

REFERENCES_SCHEMA = pa.schema(
    [
        *_columns(_TEXT, "defense dimension group_id split high low"),
        *_columns(_NUMBER, "score_high score_low"),
        *_columns(_BOOLEAN, "high_cut low_cut"),
        *_columns(_NUMBER, "alpha_high alpha_low seconds"),
    ]
)
"""Columns of defense/references.parquet, one row a pair: the texts, the judge's score of each by
itself, whether it would have gone on, the strengths that steered it, the seconds of writing
both."""


class Presence(Enum):
    """When a run folder has a file."""

    REQUIRED = "always; without it the run did not finish"
    ALWAYS = "always, also where it holds nothing; a folder may lack it"
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


_WORTH = (
    "beside_humans",
    "forecasts",
    "errors",
    "variance",
    "systems",
    "picks",
    "few_labels",
    "decisions",
    "rewards",
    "repeats",
    "audit",
)
_DEFENSE = ("standards", "strengths", "detectors", "own_answers", "costs")
ARTIFACTS = (
    Artifact("config", "config.yaml", Presence.REQUIRED),
    Artifact(
        "readings", "readings.parquet", Presence.REQUIRED, READINGS_SCHEMA, tuple(READINGS_COMPARED)
    ),
    Artifact("scores", "scores.parquet", Presence.REQUIRED, SCORES_SCHEMA, tuple(SCORES_COMPARED)),
    Artifact("served", "served.parquet", schema=SERVED_SCHEMA, compared=tuple(READINGS_COMPARED)),
    Artifact("metrics", "metrics.json", Presence.REQUIRED),
    Artifact("about", "about.json", Presence.REQUIRED),
    Artifact("examples", "examples.parquet", schema=EXAMPLES_SCHEMA),
    Artifact("ratings", "ratings.parquet", schema=RATINGS_SCHEMA),
    Artifact("humans", "humans.json"),
    Artifact("labels", "labels.json"),
    *(Artifact(name, f"worth/{name}.json") for name in _WORTH),
    Artifact(
        "probes", "worth/probes.parquet", schema=SCORES_SCHEMA, compared=tuple(SCORES_COMPARED)
    ),
    Artifact("texts", "texts.parquet", schema=TEXTS_SCHEMA),
    Artifact("comparisons", "comparisons.json", Presence.ALWAYS),
    Artifact("repairs", "repairs.json"),
    Artifact("pairwise", "pairwise.json"),
    Artifact("trace", "attack/trace.parquet"),
    Artifact("attack_differences", "attack/differences.json"),
    Artifact("suffix", "attack/suffix.json"),
    Artifact("false_passes", "attack/false_passes.json"),
    *(Artifact(name, f"defense/{name}.json") for name in _DEFENSE),
    Artifact("references", "defense/references.parquet", schema=REFERENCES_SCHEMA),
    Artifact("tuning", "tuning.json"),
    Artifact("choice", "choice.json"),
    Artifact("verdict", "verdict.json"),
    Artifact("environment", "environment.json", Presence.REQUIRED),
)
"""The files that hold `Results`, in the order in which they are written."""

LOG = "run.log"
"""The steps of the last run that began here, a line each, as they happened; of a run that failed,
too, and with its mistake. It grows while the run goes on, so it has no digest."""

FILES = (
    *(artifact.path for artifact in ARTIFACTS if "/" not in artifact.path),
    "report.html",
    LOG,
    DIGESTS,
)
"""The contract's files, besides those of `figures/`, `tables/`, `attack/`, `defense/` and
`worth/`."""

PLACES = {
    ".": re.compile("|".join([*map(re.escape, FILES), r"judge_card(_\w+)?\.yaml"])),
    "figures": re.compile(
        r"(spearman_by_range|range_variance|league|detectors|(scores|logprobs|path|grid|suffix|candidates|embeddings|"
        r"separability|strengths|front|ranking|wins|reliability|abstention)_[\w-]+)\.(png|svg)"
    ),
    "tables": re.compile(
        r"(table_\d|own_(correlations|expectation|settings)_[\w-]+)\.(txt|csv|tex)|"
        r"cap_(table_\d+|own_[\w-]+)\.(md|csv|tex)"
    ),
    "attack": re.compile(r"(suffix|differences|false_passes|phrase(_\w+)?)\.json|trace\.parquet"),
    "defense": re.compile(
        rf"({'|'.join(_DEFENSE)})\.json|references\.parquet|vectors_[\w-]+\.safetensors|"
        r"template_[0-9a-f]{12}\.txt"  # of a user's own, in the folder of a judge card
    ),
    "worth": re.compile(rf"({'|'.join(_WORTH)})\.json|probes\.parquet"),
}
"""Where a run writes, and which names of files are its own there."""

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.tmp")  # what `atomic` leaves when it is killed


def is_ours(place: str, name: str) -> bool:
    """True for the name of a file that runs write at a place of `PLACES`, or a half that a killed
    run left of it.

    Example:
        >>> is_ours(".", "scores.parquet"), is_ours(".", ".judge_card.yaml.17.tmp"), is_ours(".", "notes.txt")
        (True, True, False)
    """
    half = _TEMPORARY.fullmatch(name)
    return bool(PLACES[place].fullmatch(half["name"] if half else name))


def own_files(folder: Path) -> list[Path]:
    """The files at the top of a run folder, whether or not they are there, and all others of the
    run's own that are."""
    places = [(place, folder / place) for place in PLACES if (folder / place).is_dir()]
    there = [
        path
        for place, inner in places
        for path in sorted(inner.iterdir())
        if is_ours(place, path.name)
    ]
    return list(dict.fromkeys([*(folder / name for name in FILES), *there]))


def run_inputs(folder: Path) -> list[Input]:
    """A run's own files, as what a command reads."""
    return [Input(f"{path.name} of the run {folder}", path) for path in own_files(folder)]


def columns_of(artifact: Artifact, frame: pd.DataFrame) -> pa.Schema:
    """The schema of an artifact's table, with the columns for compared texts, for a range's labels
    and for a judge's reasons where the frame has them."""
    assert artifact.schema is not None
    fields = list(artifact.schema)
    for place, field in enumerate(fields):
        if field.type == _LOGPROBS and field.name in frame and not _fits(frame[field.name]):
            fields[place] = field.with_type(pa.list_(_NUMBER))
    if "rival_id" in frame:
        fields += [pa.field(*column) for column in artifact.compared]
    for name in (LABELS, "reason"):
        if name in frame:
            fields.append(pa.field(name, pa.string()))
    return pa.schema(fields)


def _fits(lists: pd.Series) -> bool:
    """True where 32 bits hold every number of a column of lists; of a panel they would set equal
    means apart."""
    known = [values for values in lists if hasattr(values, "__len__")]
    numbers = [np.asarray(values, np.float64) for values in known]
    whole = np.concatenate(numbers) if numbers else np.zeros(0)
    return np.array_equal(whole.astype(np.float32), whole, equal_nan=True)
