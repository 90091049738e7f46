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
    statuses = [[int(s), int(row), int(index.status[s, row])] for s, row in np.argwhere(index.status > 0).tolist()]
    return {
        "runs": list(index.runs),
        "texts": any(run.examples is not None for run in runs),
        "statuses": list(STATUSES),
        "series": [
            {
                "label": one.label,
                "run": one.run,
                "judge": one.judge,
                "settings": {str(place): text for (s, place), text in index.settings.items() if s == number and text},
            }
            for number, one in enumerate(index.series)
        ],
        "places": [
            {
                "dataset": one.dataset,
                "dimension": one.dimension,
                "range": str(one.range),
                "minimum": one.range.minimum,
                "maximum": one.range.maximum,
                "candidates": list(one.range.candidates),
                **({"labelled": True} if one.range.labels else {}),
                "attack": one.attack,
                "defense": one.defense,
                "scale": _scale(one.dataset, one.dimension, runs),
            }
            for one in index.places
        ],
        "datasets": list(dict.fromkeys(one.dataset for one in index.places)),
        "scales": {name: _scale(run.dataset, name, [run]) for run in runs for name in run.scale},
        "compares": any(run.compares for run in runs),
        "places_compared": _compared(runs),
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
        "scores": [_numbers(one) for one in index.scores],
        "status": statuses,
        "flags": {name: rows.tolist() for name, rows in index.flags.items()},
        "raised": _raised(index),
        "explained": {name: {**FLAGS, **EXPLAINED}.get(name, "") for name in index.flags},
        "cuts": list(cuts),
    }


def _raised(index: Index) -> dict[str, dict[str, dict[str, list[str]]]]:
    """Flag -> place -> split -> who raises it; a judge under several settings once."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for (flag, place, split), who in index.raised.items():
        found.setdefault(flag, {}).setdefault(str(place), {})[split] = list(dict.fromkeys(who))
    return found


def _coded(values: Sequence[str]) -> tuple[list[int], list[str]]:
    """Each value as a number, and the values."""
    names = {name: i for i, name in enumerate(dict.fromkeys(values))}
    return [names[one] for one in values], list(names)


def _numbers(values: np.ndarray) -> list[float | int | None]:
    shown = [None if one != one else round(one, 4) for one in values.tolist()]
    return [int(one) if one is not None and one == int(one) else one for one in shown]


def _scale(dataset: str, dimension: str, runs: Sequence[Results]) -> list[float] | None:
    """The human scale; None where human and judge cannot be laid beside each other."""
    found = next((run.scale.get(dimension) for run in runs if run.dataset == dataset), None)
    return [float(end) for end in found] if found is not None and spans(found) else None


def _compared(runs: Sequence[Results]) -> list[str]:
    """Answers of a judge that compares texts: the candidates of its readings."""
    run = next((run for run in runs if run.compares and len(run.readings)), None)
    return [] if run is None else [str(one) for one in run.readings["candidates"].iloc[0]]


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
