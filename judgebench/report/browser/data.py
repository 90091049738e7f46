"""The examples of one or several runs as the page carries them: an index that is read at once, and pieces."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.report.browser.chunks import bounds, reading_chunks, text_chunks
from judgebench.report.browser.index import EXPLAINED, STATUSES, Index, index_of
from judgebench.report.views.answers import FLAGS
from judgebench.report.views.bias import spans
from judgebench.results.results import Results


@dataclass(frozen=True)
class Browser:
    """Packed data for the page's template.

    Attributes:
        index: see `index_data`.
        texts, readings: the pieces, see `text_chunks` and `reading_chunks`.
        rows, examples: how many there are.
    """

    index: str
    texts: Sequence[str]
    readings: Sequence[str]
    rows: int
    examples: int


def browse(named: Mapping[str, Results]) -> Browser | None:
    """The examples of runs by name; None where none of them has a score."""
    scored = {name: run for name, run in named.items() if len(run.scores)}
    if not scored:
        return None
    runs = list(scored.values())
    index = index_of(runs, list(scored))
    cuts = bounds(index, runs)
    with_texts = any(run.examples is not None for run in runs)
    texts = text_chunks(index, runs, cuts) if with_texts else []
    return Browser(
        pack(index_data(index, runs, cuts)),
        [pack(chunk) for chunk in texts],
        [pack(chunk) for chunk in reading_chunks(index, runs, cuts)],
        len(index.example),
        len(index.examples),
    )


def index_data(index: Index, runs: Sequence[Results], cuts: Sequence[int]) -> dict[str, Any]:
    """The index as JSON: names once, rows column by column, what is rare as lists of rows."""
    group, groups = _coded(index.group)
    system, systems = _coded(index.system)
    split, splits = _coded(index.split)
    # flag -> place -> split -> who raises it; a judge under several settings once
    raised: dict[str, dict[str, dict[str, list[str]]]] = {}
    for (flag, place, part), judges in index.raised.items():
        raised.setdefault(flag, {}).setdefault(str(place), {})[part] = list(dict.fromkeys(judges))
    # answers of a judge that compares texts: the candidates of its readings
    comparing: Sequence[Any] = next(
        (run.readings["candidates"].iloc[0] for run in runs if run.compares and len(run.readings)), []
    )
    statuses = [[int(s), int(row), int(index.status[s, row])] for s, row in np.argwhere(index.status > 0).tolist()]
    return {
        "runs": list(index.runs),
        "texts": any(run.examples is not None for run in runs),
        "statuses": list(STATUSES),
        "series": [
            {
                "label": series.label,
                "run": series.run,
                "judge": series.judge,
                "settings": {str(place): text for (s, place), text in index.settings.items() if s == number and text},
            }
            for number, series in enumerate(index.series)
        ],
        "places": [
            {
                "dataset": at.dataset,
                "dimension": at.dimension,
                "range": str(at.range),
                "minimum": at.range.minimum,
                "maximum": at.range.maximum,
                "candidates": list(at.range.candidates),
                **({"labelled": True} if at.range.labels else {}),
                "attack": at.attack,
                "defense": at.defense,
                "scale": _scale(at.dataset, at.dimension, runs),
            }
            for at in index.places
        ],
        "datasets": list(dict.fromkeys(at.dataset for at in index.places)),
        "scales": {name: _scale(run.dataset, name, [run]) for run in runs for name in run.scale},
        "compares": any(run.compares for run in runs),
        "places_compared": list(map(str, comparing)),
        "ids": [name for _, name in index.examples],
        "group": group,
        "groups": groups,
        "system": system,
        "systems": systems,
        "split": split,
        "splits": splits,
        "example": index.example.tolist(),
        "place": index.place.tolist(),
        "human": _numbers(index.human),
        "scores": [_numbers(scores) for scores in index.scores],
        "status": statuses,
        "flags": {name: rows.tolist() for name, rows in index.flags.items()},
        "raised": raised,
        "explained": {name: {**FLAGS, **EXPLAINED}.get(name, "") for name in index.flags},
        "cuts": list(cuts),
    }


def _coded(values: Sequence[str]) -> tuple[list[int], list[str]]:
    """Each value as a number, and the values."""
    names = {name: i for i, name in enumerate(dict.fromkeys(values))}
    return [names[value] for value in values], list(names)


def _numbers(values: np.ndarray) -> list[float | int | None]:
    rounded = [None if value != value else round(value, 4) for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]


def _scale(dataset: str, dimension: str, runs: Sequence[Results]) -> list[float] | None:
    """The human scale; None where the scores of human and judge do not compare."""
    scale = next((run.scale.get(dimension) for run in runs if run.dataset == dataset), None)
    return [float(end) for end in scale] if scale is not None and spans(scale) else None


def pack(content: Any) -> str:
    """JSON in UTF-8, gzip, base64: letters, digits and `+/=` alone, so that nothing in it can end its element. Equal
    content gives equal text.

    Example:
        >>> unpack(pack({"said": "</script><!--"}))
        {'said': '</script><!--'}
    """
    plain = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # a lone half of a surrogate pair, which broken data may hold, has no place in UTF-8
    return base64.b64encode(gzip.compress(plain.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")


def unpack(text: str) -> Any:
    """The value that `pack` was given; in the page, assets/examples.js does this."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
