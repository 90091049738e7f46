"""What defenses have found, as files in a run folder's `defense/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from judgebench.atomic import atomic
from judgebench.defenses import Findings
from judgebench.report.run_folder import RunFolder
from judgebench.tutor.vectors import save_vectors

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

_JSON = ("standards", "strengths", "detectors", "rewritings", "costs")


@dataclass(frozen=True)
class DefenseRecords:
    """The records of `defense/`, each empty where the run has none.

    Attributes:
        standards, strengths, detectors, rewritings: see `defenses.Findings`.
        costs: see `metrics.costs`.
        references: `REFERENCES_SCHEMA`.
    """

    standards: Sequence[Mapping[str, Any]] = ()
    strengths: Sequence[Mapping[str, Any]] = ()
    detectors: Sequence[Mapping[str, Any]] = ()
    rewritings: Sequence[Mapping[str, Any]] = ()
    costs: Sequence[Mapping[str, Any]] = ()
    references: pd.DataFrame = field(default_factory=REFERENCES_SCHEMA.empty_table().to_pandas)

    @classmethod
    def of(cls, findings: Findings, costs: Sequence[Mapping[str, Any]]) -> DefenseRecords:
        """What a run has found."""
        table = pa.Table.from_pylist([dict(one) for one in findings.references], REFERENCES_SCHEMA)
        told = (findings.standards, findings.strengths, findings.detectors, findings.rewritings)
        return cls(*told, costs, table.to_pandas())


def write_defenses(folder: RunFolder, records: DefenseRecords, findings: Findings) -> list[Path]:
    """Writes the files, those that hold something, and returns the paths."""
    place, written = folder.path / "defense", []
    for name in _JSON:
        if content := getattr(records, name):
            folder.write_json(f"defense/{name}.json", list(content))
            written.append(place / f"{name}.json")
    if len(records.references):
        path = place / "references.parquet"
        with folder.writing(path), atomic(path) as temporary:
            pq.write_table(pa.Table.from_pandas(records.references, REFERENCES_SCHEMA), temporary, compression="zstd")
        written.append(path)
    for dimension, vectors in findings.vectors.items():
        save_vectors(vectors, place / f"vectors_{dimension}.safetensors")
        written.append(place / f"vectors_{dimension}.safetensors")
    return written


def read_defenses(folder: RunFolder) -> DefenseRecords:
    """The records of a finished run."""
    held: dict[str, Any] = {name: folder.optional_json(f"defense/{name}.json") or () for name in _JSON}
    if (folder.path / "defense" / "references.parquet").is_file():
        held["references"] = folder.table("defense/references.parquet").to_pandas()
    return DefenseRecords(**held)
