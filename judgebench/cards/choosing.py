"""Which of the judges that a run has tried is the one to use: the best on the development split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.data.dataset import DEV, TEST
from judgebench.metrics.correlation import CORRELATIONS
from judgebench.runtime.errors import UserError

CELL = ("range_min", "range_max", "range_step", "defense", "judge", "decoding", "lambda", "temperature")
"""What tells the judges of one dimension apart."""

_OWN = ("main", "pair")  # what an assistant says by itself is no candidate: it would be a judge of its own


def check_metric(metric: Any) -> str:
    """`calibrate.metric`, if it is one.

    Raises:
        UserError: it is not.
    """
    if metric not in CORRELATIONS:
        raise UserError(f"calibrate.metric: {metric!r} is not one of {', '.join(CORRELATIONS)}.")
    return str(metric)


def candidates(records: Sequence[Mapping[str, Any]], dimension: str) -> list[dict[str, Any]]:
    """The judges of one dimension on clean texts, over all pairs of the data set.

    Returns:
        `CELL`, and `dev` and `test`, the record of each split (None where there is none).
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        clean = record["attack"] == "none" and record["level"] == "dataset" and record["dimension"] == dimension
        if clean and record["judge"] in _OWN:
            key = tuple(record[name] for name in CELL)
            held = found.setdefault(key, {**dict(zip(CELL, key, strict=True)), DEV: None, TEST: None})
            held[record["split"]] = record
    return list(found.values())


def best(tried: Sequence[Mapping[str, Any]], metric: str, dimension: str) -> Mapping[str, Any]:
    """The candidate that agrees best with the humans of the development split; of equal ones the first.

    Raises:
        UserError: there is no development split, or every judge gives all of its texts the same score.
    """
    if not any(one[DEV] for one in tried):
        raise UserError(
            "data.dev_share: a judge is chosen on the development split, and there is none; give it articles with "
            "data.dev_share=0.3 (and at least two articles)."
        )
    known = [one for one in tried if one[DEV] and one[DEV][metric] is not None and not one[DEV]["constant"]]
    if not known:
        raise UserError(
            f"dimensions: every judge of {dimension} that was tried gives all texts of the development split one "
            "score, so there is none to choose; try other ranges, decoding=[expectation], or a larger judge."
        )
    return max(known, key=lambda one: one[DEV][metric])
