"""The part of a run that the pages of its examples show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from judgebench.report.humans import Scale
from judgebench.results.results import Results
from judgebench.tuning.tuners import PER_RANGE


@dataclass(frozen=True)
class ExampleTexts:
    """The judged texts.

    Attributes:
        examples: `EXAMPLES_SCHEMA`.
        changed: `TEXTS_SCHEMA`.
    """

    examples: pd.DataFrame
    changed: pd.DataFrame


@dataclass(frozen=True)
class JudgedRun:
    """One run, as its files hold it.

    Attributes:
        name: what tells it from others on the same page; empty where it stands alone.
        dataset: of what it judged; runs of one data set share its examples.
        readings, scores, records: readings.parquet, scores.parquet and metrics.json.
        scale: dimension -> the human scale.
        config: config.yaml.
        texts: None where no texts may be shown.
        references: defense/references.parquet.
    """

    name: str
    dataset: str
    readings: pd.DataFrame
    scores: pd.DataFrame
    records: Sequence[Mapping[str, Any]]
    scale: Mapping[str, Scale]
    config: Mapping[str, Any]
    texts: ExampleTexts | None
    references: pd.DataFrame

    @classmethod
    def of(cls, results: Results, name: str = "") -> JudgedRun:
        """A run's results under a name."""
        texts = None if results.examples is None else ExampleTexts(results.examples, results.texts)
        return cls(
            name,
            results.dataset,
            results.readings,
            results.scores,
            results.metrics,
            results.scale,
            results.config,
            texts,
            results.references,
        )

    @property
    def compares(self) -> bool:
        """True if two texts were compared; scores are then of pairs, and readings of an order each."""
        return "rival_id" in self.scores

    def alpha(self, decoding: str) -> float:
        """The plausibility constraint of a decoding, which scores.parquet does not tell."""
        entries = self.config.get("decoding") or {}
        entry = entries.get(decoding) or entries.get(decoding.removesuffix(PER_RANGE))
        return float((entry.get("alpha") if isinstance(entry, Mapping) else None) or 0.0)
