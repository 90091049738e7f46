"""What each defense costs: seconds a sample, reading and getting ready (CAP, tables 5 and 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def cost_records(
    columns: Mapping[str, Sequence[Any]], ready: Mapping[str, Mapping[str, float]], dataset: str
) -> list[dict[str, Any]]:
    """A record for each defense, in the order of the readings.

    Args:
        columns: those of readings.parquet.
        ready: defense -> its seconds of getting ready, `once`, for each `context` and for each `text`.
        dataset: its name.

    Returns:
        `dataset`, `defense`; `n` readings; `reading_seconds`, their mean, which is what the models took when they read
        the prompt, be it now or in an earlier run; `text_seconds`, of what the defense made for a text alone, or its
        share of what it made for the context of several; `context_seconds`, of what it made for one context, which is
        what a text costs that nobody shares the context with; `once_seconds`, whatever is judged, as this run took;
        `seconds`, the first two together.
    """
    seconds: dict[str, list[float]] = {}
    for defense, taken in zip(columns["defense"], columns["seconds"], strict=True):
        seconds.setdefault(defense, []).append(taken)
    records = []
    for defense, held in seconds.items():
        cost = ready.get(defense, {})
        mean, text = float(np.mean(held)), float(cost.get("text", 0.0))
        records.append(
            {
                "dataset": dataset,
                "defense": defense,
                "n": len(held),
                "reading_seconds": mean,
                "text_seconds": text,
                "context_seconds": float(cost.get("context", 0.0)),
                "once_seconds": float(cost.get("once", 0.0)),
                "seconds": mean + text,
            }
        )
    return records
