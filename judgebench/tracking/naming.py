"""Readable names of what is logged: `test/coherence/1-5/main/greedy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgebench.tracking.values import cell
from judgebench.types import ScoreRange


def name_of(record: Mapping[str, Any]) -> str:
    """Split, dimension, attack and defense where there are such, level unless it is `dataset`, range, judge and
    decoding."""
    given = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    given += [] if record["level"] == "dataset" else [f"level={record['level']}"]
    parts = [record["split"], record["dimension"], *given, range_of(record), record["judge"], record["decoding"]]
    return "/".join(parts)


def range_of(row: Mapping[str, Any]) -> str:
    """The score range of a row; `mean` of one that is about several."""
    if row["range_min"] is None:
        return "mean"
    return str(ScoreRange(float(row["range_min"]), float(row["range_max"]), float(row["range_step"])))


def setting_of(row: Mapping[str, Any]) -> str:
    """Lambda and t, as ` lambda=1 t=0.5`, or whichever of them the row has."""
    given = [(name, cell(row[key])) for name, key in (("lambda", "lambda"), ("t", "temperature"))]
    return "".join(f" {name}={value:g}" for name, value in given if value is not None)
