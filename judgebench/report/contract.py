"""The contract of the run folder: its files, their columns and types."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
import pyarrow as pa

from judgebench.runtime.files import DIGESTS

_KEYS = [
    *[(name, pa.string()) for name in ("example_id", "group_id", "system_id", "split", "dimension")],
    *[(name, pa.float64()) for name in ("range_min", "range_max", "range_step")],
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

FILES = (
    *("config.yaml", "environment.json", "readings.parquet", "scores.parquet", "metrics.json"),
    *("comparisons.json", "pairwise.json", "tuning.json", "report.html", "served.parquet"),
    *("about.json", "examples.parquet", "texts.parquet"),
    DIGESTS,
)
"""The contract's files, besides those of `figures/`, `tables/`, `attack/` and `defense/`."""

ATTACK = re.compile(r"(suffix|differences|phrase(_\w+)?)\.json|trace\.parquet")
DEFENSE = re.compile(
    r"(standards|strengths|detectors|rewritings|costs)\.json|references\.parquet|vectors_[\w-]+\.safetensors|"
    r"template_[0-9a-f]{12}\.txt"  # of a user's own, beside a judge card
)
FIGURE = re.compile(
    r"(spearman_by_range|detectors|(scores|logprobs|path|grid|suffix)_[\w-]+|"
    r"(candidates|embeddings|separability|strengths|front|ranking|wins)_[\w-]+)\.(png|svg)"
)
CARD = re.compile(r"judge_card(_\w+)?\.yaml")
TABLE = re.compile(
    r"(table_\d|own_(correlations|expectation|settings)_[\w-]+)\.(txt|csv|tex)|cap_(table_\d+|own_[\w-]+)\.(md|csv|tex)"
)
"""Names of the files of `attack/`, `defense/`, `figures/` and `tables/`, and of judge cards."""

PLACES: dict[str, Callable[[str], object]] = {
    ".": lambda name: name in FILES or CARD.fullmatch(name),
    "figures": FIGURE.fullmatch,
    "tables": TABLE.fullmatch,
    "attack": ATTACK.fullmatch,
    "defense": DEFENSE.fullmatch,
}
"""Where a run writes, and which names are its own there."""

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.tmp")  # what `atomic` leaves when it is killed


def is_ours(place: str, name: str) -> bool:
    """Whether a file's name is one that runs write at a place of `PLACES`, or a half that a killed run left of it.

    Example:
        >>> is_ours(".", "scores.parquet"), is_ours(".", ".judge_card.yaml.17.tmp"), is_ours(".", "notes.txt")
        (True, True, False)
    """
    half = _TEMPORARY.fullmatch(name)
    return bool(PLACES[place](half["name"] if half else name))


def compared(schema: pa.Schema, more: list[tuple[str, pa.DataType]], frame: pd.DataFrame) -> pa.Schema:
    """The schema of a table, with the columns that it has `more` where texts are compared, as its own columns tell."""
    return pa.schema([*schema, *(pa.field(*one) for one in more)]) if "rival_id" in frame else schema
