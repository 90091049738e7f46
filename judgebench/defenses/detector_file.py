"""Detectors that an earlier run has fitted: the records of its defense/detectors.json, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.defenses.detectors import Detector
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import check_run_file
from judgebench.runtime.parsing import read_json

_KEY = "defense.detectors"
_TEXTS = ("dataset", "helper", "helper_sha256")
_COLUMNS = ("thresholds", "precision", "recall")


def load_detector(path: str, detector: Detector) -> dict[str, Any]:
    """The record of one detector.

    Args:
        path: as configured.
        detector: for whom; its name and its settings must be the record's.

    Raises:
        UserError: the file cannot be read, is damaged, has no such detector, or one with other settings.
    """
    file = Path(path).expanduser()
    where = f"{_KEY}: {file}"
    check_run_file(file, _KEY)
    content = read_json(file, where, remedy="name the defense/detectors.json of a run that has fitted them")
    records = [one for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []
    names = [str(one.get("defense")) for one in records]
    if detector.name not in names:
        raise UserError(
            f"{where} holds no detector {detector.name}, but {', '.join(names) or 'none at all'}; leave it out of "
            f"defenses, or set {_KEY}=null to fit it."
        )
    record = dict(records[names.index(detector.name)])
    if (fault := _fault(record, detector)) is not None:
        raise UserError(
            f"{where}: the record of {detector.name} is damaged ({fault}); take the file as the run has left it, or "
            "fit the detector again."
        )
    for name, value in detector.settings.items():
        if record.get(name) != value:
            raise UserError(
                f"{where}: {detector.name} was fitted with {name} {record.get(name)!r}, and this run has {value!r}; "
                f"set defense.{name}={record.get(name)}."
            )
    return record


_LARGEST = 1e300


def _fault(record: Mapping[str, Any], detector: Detector) -> str | None:
    """What is wrong with a record, if anything is."""
    if missing := [name for name in _TEXTS if not isinstance(record.get(name), str)]:
        return f"{missing[0]} is no text"
    if not _finite(record.get("threshold")):
        large = type(record.get("threshold")) is int
        return f"threshold is {'a number of too many digits' if large else repr(record.get('threshold'))}"
    training, curve = record.get("training"), record.get("curve")
    groups = training.get("groups") if isinstance(training, Mapping) else None
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        return "training has no groups"
    columns = [curve.get(name) for name in _COLUMNS] if isinstance(curve, Mapping) else []
    if not columns or not all(isinstance(one, list) and all(map(_finite, one)) for one in columns):
        return "its curve is none"
    try:
        detector.values(np.zeros((1, 2)), record)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        return f"what it has learned is not there: {error!r}"
    return None


def _finite(value: object) -> bool:
    # compared, not converted: a whole number may be too long to be a float
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST
