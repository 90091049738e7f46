"""All studies of what judges are worth beside humans: each makes the records of one file of the run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judgebench.stats.errors import error_records
from judgebench.stats.few_labels import few_labels_records
from judgebench.stats.forecasts import forecast_records
from judgebench.stats.humans import beside_humans_records
from judgebench.stats.sample import Sample
from judgebench.stats.systems import system_records
from judgebench.stats.variance import variance_records

Study = Callable[[Sequence[Sample]], list[dict[str, Any]]]

STUDIES: Mapping[str, Study] = {
    "beside_humans": beside_humans_records,
    "variance": variance_records,
    "systems": system_records,
    "forecasts": forecast_records,
    "errors": error_records,
    "few_labels": few_labels_records,
}
"""Attribute of `Results` -> the study that fills it."""


def studied(sides: Sequence[Sample]) -> dict[str, Any]:
    """The records of every study, by the attribute of `Results` that holds them."""
    return {name: study(sides) for name, study in STUDIES.items()}
