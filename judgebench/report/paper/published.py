"""The figures that the contrastive-decoding paper prints, as data: facts with their source, kept in `published/`.

Source: Fujinuma, "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge", arXiv 2510.18196.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.tuning.tuners import published_settings
from judgebench.types import ScoreRange

FOLDER = Path(__file__).resolve().parent.parent / "published"

ROUNDING = 0.001
"""How far a printed average may lie from that of its printed rows: both are rounded to three decimals. Further off, the
two contradict each other."""

_SETTINGS = {"coherence": 3, "relevance": 4, "consistency": 5}
"""Dimension -> the table that holds its lambda and t."""

System = tuple[str, str | None]
"""Who judges: a main model and, where it is contrasted, its assistant, both as `model_key` names them."""


@dataclass(frozen=True)
class PrintedRow:
    """A row of Tables 1, 2, 6-9.

    Attributes:
        label: the system as the table calls it.
        range: None: an average over the table's ranges.
        values: correlation -> the printed figure.
    """

    table: int
    dimension: str
    family: str
    label: str
    system: System
    range: ScoreRange | None
    values: Mapping[str, float]


@dataclass(frozen=True)
class PrintedSetting:
    """A row of Tables 3-5: what was chosen on the development split."""

    table: int
    dimension: str
    main: str
    assistant: str
    range: ScoreRange
    lambda_: float
    temperature: float

    @property
    def system(self) -> System:
        """The judge: both models of the pair."""
        return model_key(self.main), model_key(self.assistant)


def model_key(name: str) -> str:
    """A key that names of one model share: the last part of a hub id or path, in small letters.

    Example:
        >>> model_key("Qwen/Qwen2.5-14B-Instruct") == model_key("/models/Qwen2.5-14B-Instruct")
        True
    """
    return name.rstrip("/\\").replace("\\", "/").split("/")[-1].casefold()


@cache
def printed_rows() -> tuple[PrintedRow, ...]:
    """Tables 1, 2, 6-9 in print order, each table's averages after its ranges."""
    rows = [*published_rows("cd_correlations.csv"), *published_rows("cd_correlation_averages.csv")]
    found = []
    for row in sorted(rows, key=lambda row: int(row["table"])):  # stable: averages stay last
        ends = (row["range_min"], row["range_max"]) if "range_min" in row else None
        found.append(
            PrintedRow(
                int(row["table"]),
                row["dimension"],
                row["family"],
                row["system"],
                (model_key(row["main"]), model_key(row["assistant"]) if row["assistant"] else None),
                ScoreRange(float(ends[0]), float(ends[1])) if ends else None,
                {name: float(row[name]) for name in CORRELATIONS},
            )
        )
    return tuple(found)


@cache
def printed_settings() -> tuple[PrintedSetting, ...]:
    """Tables 3-5 in print order; `judgebench.tuning` keeps them, for it can take them."""
    found = [
        PrintedSetting(_SETTINGS[dimension], dimension, main, assistant, at, setting.lambda_, setting.temperature)
        for (main, assistant), cells in published_settings().items()
        for (dimension, at), setting in cells.items()
    ]
    return tuple(sorted(found, key=lambda one: one.table))


def recomputed_average(table: int, label: str) -> dict[str, float]:
    """Correlation -> the mean of a system's printed rows, which the printed average should be."""
    rows = [row for row in printed_rows() if (row.table, row.label) == (table, label) and row.range is not None]
    return {name: fmean(row.values[name] for row in rows) for name in CORRELATIONS}


def is_slip(printed: float, recomputed: float) -> bool:
    """True where rounding cannot explain the difference.

    Example:
        >>> is_slip(0.408, 0.4095), is_slip(0.557, 0.55625)
        (True, False)
    """
    return abs(printed - recomputed) > ROUNDING + 1e-9


def published_rows(name: str) -> list[dict[str, str]]:
    """The rows of a file in `published/`, comments left out."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))
