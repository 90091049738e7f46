"""The rows of the tables that W&B shows of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from judgebench.results.results import Results
from judgebench.tracking.naming import range_of, setting_of
from judgebench.tracking.values import cell, flat

_KEY = ["example_id", "dimension", "range_min", "range_max", "range_step", "attack", "defense"]
_PAIR_KEY = [name for name in _KEY if not name.startswith("range_")]  # places are read, and wins scored from them


def metric_rows(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Columns, and a row a record: all keys that any of them has."""
    columns = list(dict.fromkeys(key for record in records for key in record))
    return columns, [[cell(record.get(column)) for column in columns] for record in records]


def example_rows(scores: pd.DataFrame, readings: pd.DataFrame, most: int) -> tuple[list[str], list[list[Any]]]:
    """One row per chosen example x condition: ids, range, human score, a column per decoding, answer and prompt."""
    of_test = scores[scores["split"] == "test"]
    pool = (of_test if len(of_test) else scores)["example_id"].drop_duplicates().to_numpy()
    chosen = (
        pool[np.unique(np.linspace(0, len(pool) - 1, min(most, len(pool))).round().astype(int))] if len(pool) else pool
    )
    keys = _PAIR_KEY if "rival_id" in scores else _KEY
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for score in _rows(scores[scores["example_id"].isin(chosen)]):
        key = tuple(score[name] for name in keys)
        row = rows.setdefault(
            key,
            {name: score[name] for name in ("example_id", "group_id", "system_id", "split", "dimension")}
            | {
                "range": range_of(score),
                "attack": score["attack"],
                "defense": score["defense"],
                "human": score["human"],
            },
        )
        column = f"{score['judge']} {score['decoding']}{setting_of(score)}"
        row[column] = score["score"]
        if score["status"] != "parsed":
            row[f"{column} status"] = score["status"]
    for reading in _rows(readings[readings["example_id"].isin(chosen)]):
        found = rows.get(tuple(reading[name] for name in keys))
        if found is not None:
            whose = (
                "answer" if cell(reading["judge"]) is None else f"answer of {reading['judge']} {reading['decoding']}"
            )
            place = f", judged text {reading['order']}" if "order" in reading else ""
            found |= {f"{whose}{place}": reading["text"], f"prompt{place}": reading["prompt"]}
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    return columns, [[cell(row.get(column)) for column in columns] for row in rows.values()]


def defense_rows(results: Results) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Name -> columns and rows, of those that hold something."""
    found = {
        name: [flat(record) for record in getattr(results, name)]
        for name in ("standards", "strengths", "costs", "detectors")
    }
    found["references"] = list(_rows(results.references))
    return {name: metric_rows(records) for name, records in found.items() if records}


def pairwise_rows(records: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Name of a table -> its rows."""
    keys = ("dataset", "split", "dimension", "attack", "defense", "judge", "decoding", "lambda", "temperature")
    systems = [{key: record[key] for key in keys} | dict(one) for record in records for one in record["ranking"]]
    return {"pairwise": [flat(record) for record in records], "ranking": systems}


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for row in frame.itertuples(index=False):
        yield dict(zip(frame.columns, row, strict=True))
