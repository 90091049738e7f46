"""Judges: models here, models behind a URL, and answers or readings of an earlier time."""

from __future__ import annotations

from typing import Any


def reader_for(judge: Any, task: Any) -> Any:
    """The reader of a task (`reader.ReadingTask`) by a judge's settings, which hold none: they are checked before torch
    is imported. All readers have `models`, `fingerprints`, `read`, `readings`, `device`, `served`, `evidence`, `tokens`
    and `estimate`."""
    from judgebench.judges import reader, spec

    if spec.SERVED in judge.gives:
        from judgebench.judges.api.reader import ApiReader

        return ApiReader(judge, task)
    kinds = {spec.LOCAL: reader.Reader, spec.REPLAYED: reader.Replayer, spec.RECORDED: reader.RecordedReader}
    (kind,) = (kind for place, kind in kinds.items() if place in judge.gives)
    return kind(judge, task)
