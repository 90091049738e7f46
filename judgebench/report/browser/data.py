"""The examples of a run as the page carries them: an index that is read at once, and texts,
probabilities and prompts in pieces that are looked up when an example is opened."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from judgebench.decoding.rules import candidate_distribution, contrast
from judgebench.report.browser.index import EXPLAINED, STATUSES, Index, Place, index_of, rows_of
from judgebench.report.views.bias import spans
from judgebench.report.views.first import beginning, calibrated_scores, looks
from judgebench.results.flags import FLAGS
from judgebench.results.results import Results, with_labels
from judgebench.types import RANGE, Array, Key, Record, Row, Rows
from judgebench.words.errors import UserError

CHARACTERS = 200_000
"""Of texts in a piece: some hundredths of a second to unpack, and large enough to compress well."""

SHOWN = 5_000
"""Examples on a page, about: of more, whole groups are drawn, with a seed, so that it is made and
opened in seconds."""

_ROWS = 2_000
_LEAST = 24
"""Characters from which on a text is referred to and not repeated."""

_REFERENCES = ("group_id", "dimension", "defense", "high", "low", "score_high", "score_low")
_KEY = ("example_id", "dimension", *RANGE, "attack", "defense")


@dataclass(frozen=True)
class Browser:
    """Packed data for the page's template.

    Attributes:
        index: see `index_data`.
        texts, readings: the pieces, see `text_chunks` and `reading_chunks`.
        rows, examples: how many there are.
        of: how many examples the run has of which these are a sample; None where they are all.
    """

    index: str
    texts: Sequence[str]
    readings: Sequence[str]
    rows: int
    examples: int
    of: int | None = None


def browse(run: Results) -> Browser | None:
    """The examples of a run; None where it has no score. `UserError` for several runs, whose
    examples stand each on the page of its own run."""
    if not isinstance(run, Results):
        raise UserError(
            "examples: a page shows those of one run; `python -m judgebench report RUN` makes each "
            "run's page."
        )
    if not len(run.scores):
        return None
    run = replace(run, scores=calibrated_scores(run))
    whole = run.scores["example_id"].nunique()
    groups = sorted(run.scores["group_id"].unique())
    if whole > SHOWN and len(groups) > 1:
        # those that the page opens in place come first
        order = np.random.default_rng(0).permutation(len(groups))
        names = dict.fromkeys([*(row["group"] for row in looks(run)), *(groups[i] for i in order)])
        run = _of_groups(run, list(names)[: max(1, len(groups) * SHOWN // whole)])
    index = index_of(run)
    cuts = bounds(index, run)
    texts = [] if run.examples is None else text_chunks(index, run, cuts)
    return Browser(
        pack(index_data(index, run, cuts)),
        [pack(chunk) for chunk in texts],
        [pack(chunk) for chunk in reading_chunks(index, run, cuts)],
        len(index.example),
        len(index.examples),
        whole if whole > len(index.examples) else None,
    )


def _of_groups(run: Results, groups: Collection[str]) -> Results:
    """A run with the rows of some groups alone."""
    names = run.scores["example_id"][run.scores["group_id"].isin(groups)]
    frames = {name: getattr(run, name) for name in ("scores", "readings", "examples", "texts")}
    parts = {
        name: frame[frame["example_id"].isin(names)].reset_index(drop=True)
        for name, frame in frames.items()
        if frame is not None
    }
    return replace(run, **parts)


def index_data(index: Index, run: Results, cuts: Sequence[int]) -> Record:
    """The index as JSON: names once, rows column by column, what is rare as lists of rows."""
    # 1. group, system and split of each example as numbers, and their names
    names = {
        "group": index.group,
        "system": index.system,
        "split": index.split,
    }
    coded = {name: pd.factorize(np.array(values, dtype=object)) for name, values in names.items()}
    # 2. flag -> place -> split -> who raises it; a judge under several settings once
    raised: dict[str, dict[str, dict[str, list[str]]]] = {}
    for (flag, place, part), judges in index.raised.items():
        raised.setdefault(flag, {}).setdefault(str(place), {})[part] = list(dict.fromkeys(judges))
    # 3. the beginnings of texts, and of a judge that compares texts its answers: the candidates of
    # its readings
    starts = []
    if run.examples is not None:
        texts = dict(zip(run.examples["example_id"], run.examples["output"], strict=True))
        starts = [beginning(texts.get(name) or "") for name in index.examples]
    comparing = []
    if run.compares and len(run.readings):
        comparing = run.readings["candidates"].iloc[0]
    # 4. scores on the humans' scale, as people know it
    dimensions = [index.places[place].dimension for place in index.place]

    def as_rated(scores: Array) -> list[float | int | None]:
        rows = zip(dimensions, scores.tolist(), strict=True)
        return _numbers([run.as_rated(dimension, score) for dimension, score in rows])

    # 5. scores that failed or were moved
    statuses = []
    for s, row in np.argwhere(index.status > 0).tolist():
        statuses.append([s, row, int(index.status[s, row])])
    return {
        "texts": run.examples is not None,
        "statuses": list(STATUSES),
        "series": [_series_data(index, number) for number in range(len(index.series))],
        "places": [_place_data(run, place) for place in index.places],
        "scales": {name: _scale(run, name) for name in run.scale},
        "compares": run.compares,
        "places_compared": list(map(str, comparing)),
        "ids": list(index.examples),
        "starts": starts,
        **{name: numbers.tolist() for name, (numbers, _) in coded.items()},
        **{f"{name}s": texts.tolist() for name, (_, texts) in coded.items()},
        "example": index.example.tolist(),
        "place": index.place.tolist(),
        "human": as_rated(index.human),
        "scores": list(map(_numbers, index.scores)),
        "advised": [list(pair) for pair in index.advised],
        "calibrated": as_rated(index.calibrated),
        "status": statuses,
        "flags": {name: rows.tolist() for name, rows in index.flags.items()},
        "raised": raised,
        "explained": {name: {**FLAGS, **EXPLAINED}.get(name, "") for name in index.flags},
        "cuts": list(cuts),
    }


def _series_data(index: Index, number: int) -> Record:
    settings = {}
    for (series, place), text in index.settings.items():
        if series == number and text:
            settings[str(place)] = text
    judged = index.series[number]
    return {"label": str(judged), "judge": judged.judge, "settings": settings}


def _place_data(run: Results, place: Place) -> Record:
    score_range = place.range
    labelled = {"labelled": True} if score_range.labels else {}
    return {
        "dimension": place.dimension,
        "range": str(score_range),
        "minimum": score_range.minimum,
        "maximum": score_range.maximum,
        "candidates": list(score_range.candidates),
        **labelled,
        "attack": place.attack,
        "defense": place.defense,
        "scale": _scale(run, place.dimension),
    }


def _numbers(values: Any, places: int = 4) -> list[float | int | None]:
    """Numbers as JSON has them, short; None for what is not finite."""
    short = np.round(np.asarray(values, dtype=np.float64), places)
    short[~np.isfinite(short)] = np.nan
    return [None if x != x else int(x) if x.is_integer() else x for x in short.tolist()]


def _scale(run: Results, dimension: str) -> list[float] | None:
    scale = run.scale.get(dimension)
    if scale is None or not spans(scale):
        return None
    return [run.as_rated(dimension, end) for end in scale]


def bounds(index: Index, run: Results) -> list[int]:
    """Boundaries of the pieces: numbers of examples, the first 0 and the last how many there are. A
    group is never divided."""
    rows = np.bincount(index.example, minlength=len(index.examples))
    sizes = rows * CHARACTERS / _ROWS
    if run.examples is not None:
        texts = run.examples.set_index("example_id").reindex(list(index.examples))
        output = texts["output"].str.len().fillna(0)
        source = texts["source"].str.len().fillna(0)
        sizes += output + source / 8
    cuts = [0]
    characters = 0.0
    for i, size in enumerate(sizes):
        begins = i == 0 or index.group[i] != index.group[i - 1]
        if begins and characters > CHARACTERS:
            cuts.append(i)
            characters = 0.0
        characters += size
    return [*cuts, len(sizes)]


def text_chunks(index: Index, run: Results, cuts: Sequence[int]) -> Rows:
    """For each piece: `groups` with their sources, contexts and references, and of each example its
    `group`, `output`, `rival` and `human` scores. An article stands once, however many texts answer
    to it."""
    # 1. example_id -> its row; group -> its references, with their scores
    examples: Record = {}
    if run.examples is not None:
        examples = {row["example_id"]: row for row in run.examples.to_dict("records")}
    references: dict[str, list[list[Any]]] = {}
    for group, *texts, high, low in run.references[list(_REFERENCES)].itertuples(index=False):
        entry = [*texts, *_numbers([high, low], 3)]
        references.setdefault(group, []).append(entry)
    # 2. the pieces
    chunks = []
    for first, last in itertools.pairwise(cuts):
        groups: dict[tuple[str, ...], int] = {}
        chunk: Record = {
            "groups": [],
            "group": [],
            "output": [],
            "rival": [],
            "human": [],
        }
        for i in range(first, last):
            row = examples.get(index.examples[i])
            group = {"source": row["source"], "context": row["context"]} if row else {}
            key = (index.group[i], *group.values())
            if key not in groups:
                groups[key] = len(groups)
                group["references"] = references.get(index.group[i], [])
                chunk["groups"].append(group)
            output = None
            rival = None
            human: list[list[Any]] = []
            if row:
                output = row["output"]
                if row["rival_id"]:
                    rival = [row["rival_id"], row["rival"]]
                for name, value in zip(row["dimensions"], row["human"], strict=True):
                    rated = None if value is None else run.as_rated(name, value)
                    human.append([name, *_numbers([rated])])
            chunk["group"].append(groups[key])
            chunk["output"].append(output)
            chunk["rival"].append(rival)
            chunk["human"].append(human)
        chunks.append(chunk)
    return chunks


_COUNTS = ("prompt_tokens", "source_tokens_cut", "control_tokens")


def reading_chunks(index: Index, run: Results, cuts: Sequence[int]) -> Rows:
    """For each piece: row -> what was read about it. A prompt is a list of numbers of `literals`,
    the text between what the example itself says, and of letters for that: s source, c context, o
    output, x changed text, r rival."""
    chunks: Rows = [{"literals": [], "rows": {}} for _ in cuts[1:]]
    interned: list[dict[str, int]] = [{} for _ in chunks]
    rows = rows_of(index, run, run.readings)
    decided = _contrasted(index, run, rows)
    # 1. what examples say, and their changed texts
    texts: dict[str, dict[str, str]] = {}
    changed: dict[Key, str] = {}
    names = with_labels(_KEY, run.texts)
    if run.examples is not None:
        columns_of = ["example_id", "source", "context", "output", "rival"]
        for name, *contents in run.examples[columns_of].itertuples(index=False):
            texts[name] = dict(zip("scor", [text or "" for text in contents], strict=True))
        made = run.texts[[*names, "order", "text"]].itertuples(index=False)
        changed = {(*key, order or ""): text for *key, order, text in made}
    # 2. reading by reading
    columns = {name: run.readings[name].tolist() for name in run.readings}
    pieces = (np.searchsorted(cuts, index.example, side="right") - 1).tolist()
    orders = columns.get("order") or [""] * len(rows)
    seconds = _numbers(columns["seconds"])
    logprobs = {
        short: _logprobs(columns[name])
        for short, name in (("m", "main_logprobs"), ("a", "assistant_logprobs"))
    }
    for at, row in enumerate(rows):
        if row is None:
            continue
        piece = pieces[row]
        reading: Record = {}
        if orders[at]:
            reading["order"] = orders[at]
        reading |= {short: read[at] for short, read in logprobs.items() if at in read}
        if at in decided:
            reading["p"] = decided[at]
        if run.examples is not None:
            text = None
            if changed:
                key = [columns[name][at] for name in names]
                text = changed.get((*key, orders[at]))
            if text is not None:
                reading["x"] = text
            if isinstance(columns["text"][at], str):  # a null of a frame is None or NaN
                reading["said"] = [str(columns[name][at]) for name in ("judge", "decoding", "text")]
            example_texts = texts.get(columns["example_id"][at], {})
            parts = {"x": text or "", "o": "", **example_texts}
            prompt = str(columns["prompt"][at])
            reading["prompt"] = _pieces(prompt, parts, chunks[piece], interned[piece])
        numbers = [int(columns[name][at]) for name in _COUNTS]
        reading["n"] = [*numbers, seconds[at]]
        chunks[piece]["rows"].setdefault(str(row), []).append(reading)
    return chunks


def _logprobs(rows: Sequence[Any]) -> dict[int, list[Any]]:
    """Reading -> its log-probabilities, of those that have some."""
    known = {at: row for at, row in enumerate(rows) if isinstance(row, Sequence | np.ndarray)}
    # all in one: a reading has few
    numbers = iter(_numbers(np.concatenate([[], *known.values()]), 3))
    return {at: list(itertools.islice(numbers, len(row))) for at, row in known.items()}


def _contrasted(
    index: Index, run: Results, rows: Sequence[int | None]
) -> dict[int, dict[str, list[Any]]]:
    """Reading -> series of the pair -> its probabilities [candidates], normalized over them: the
    law of decoding at the series' own lambda and t."""
    shares: dict[int, dict[str, list[Any]]] = {}
    readings = run.readings[["main_logprobs", "assistant_logprobs"]]
    by_place: dict[int, list[int]] = {}
    for at in np.flatnonzero(readings.notna().all(axis=1)).tolist():
        if (row := rows[at]) is not None:
            by_place.setdefault(int(index.place[row]), []).append(at)
    for place, numbers in by_place.items():
        part = readings.iloc[numbers]
        main, assistant = (np.array(part[name].tolist(), dtype=np.float64) for name in readings)
        for number, series in enumerate(index.series):
            if series.judge != "pair" or (number, place) not in index.hyperparameters:
                continue
            _, decoding, lambda_, temperature = index.hyperparameters[number, place]
            alpha = plausibility(run.config, decoding)
            adjusted = contrast(main, assistant, lambda_ / temperature, alpha)
            likely = candidate_distribution(adjusted).round(4).tolist()
            for at, values in zip(numbers, likely, strict=True):
                shares.setdefault(at, {})[str(number)] = values
    return shares


def plausibility(config: Row, decoding: str) -> float:
    """The constraint alpha of a decoding, which scores.parquet does not have."""
    entries = config.get("decoding") or {}
    # a run of tune=shared, which there is no more, has the settings of each range beside the shared
    entry = entries.get(decoding) or entries.get(decoding.removesuffix("_per_range"))
    return float((entry.get("alpha") if isinstance(entry, Mapping) else None) or 0.0)


def _pieces(
    prompt: str, parts: Mapping[str, str], chunk: Record, interned: dict[str, int]
) -> list[int | str]:
    """The prompt, taken apart at what its example says; longest first, each in its first place."""
    pieces: list[tuple[str, str]] = [("", prompt)]
    for letter, text in sorted(parts.items(), key=lambda item: -len(item[1])):
        if len(text) < _LEAST:
            continue
        for i, (kind, piece) in enumerate(pieces):
            if not kind and (at := piece.find(text)) >= 0:
                pieces[i : i + 1] = [
                    ("", piece[:at]),
                    (letter, text),
                    ("", piece[at + len(text) :]),
                ]
                break
    parts_of: list[int | str] = []
    for kind, piece in pieces:
        if kind:
            parts_of.append(kind)
        elif piece:
            if piece not in interned:
                interned[piece] = len(interned)
                chunk["literals"].append(piece)
            parts_of.append(interned[piece])
    return parts_of


def pack(content: Any) -> str:
    """JSON in UTF-8, gzip, base64: letters, digits and `+/=` alone, so that nothing in it can end
    its element. Equal content gives equal text.

    Example:
        >>> unpack(pack({"said": "</script><!--"}))
        {'said': '</script><!--'}
    """
    plain = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # a lone half of a surrogate pair, which broken data may hold, has no place in UTF-8
    packed = gzip.compress(plain.encode("utf-8", "replace"), 6, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def unpack(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))
