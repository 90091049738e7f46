"""Texts, probabilities and prompts, in pieces that are looked up when an example is opened."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from judgebench.decoding.rules import contrast
from judgebench.report.browser.index import Index, rows_of
from judgebench.results.results import Results
from judgebench.results.series import with_labels
from judgebench.tuning.tuners import PER_RANGE
from judgebench.types import RANGE

CHARACTERS = 200_000
"""Of texts in a piece: some hundredths of a second to unpack, and large enough to compress well."""

_ROWS = 2_000
_LEAST = 24
"""Characters from which on a text is referred to and not repeated."""


def bounds(index: Index, runs: Sequence[Results]) -> list[int]:
    """Boundaries of the pieces: numbers of examples, the first 0 and the last how many there are. A group is never
    divided."""
    sizes = np.zeros(len(index.examples))
    at = {key: i for i, key in enumerate(index.examples)}
    for run, examples in ((run, run.examples) for run in runs if run.examples is not None):
        for example, source, output in examples[["example_id", "source", "output"]].itertuples(index=False):
            if (place := at.get((run.dataset, example))) is not None:
                sizes[place] = max(sizes[place], len(output) + len(source) / 8)
    sizes += np.bincount(index.example, minlength=len(sizes)) * CHARACTERS / _ROWS
    cuts, characters = [0], 0.0
    for i, size in enumerate(sizes):
        begins = i == 0 or (index.examples[i][0], index.group[i]) != (index.examples[i - 1][0], index.group[i - 1])
        if begins and characters > CHARACTERS:
            cuts.append(i)
            characters = 0.0
        characters += size
    return [*cuts, len(sizes)]


def text_chunks(index: Index, runs: Sequence[Results], cuts: Sequence[int]) -> list[dict[str, Any]]:
    """For each piece: `groups` with their sources, contexts and references, and of each example its `group`, `output`,
    `rival` and `human` scores. An article stands once, however many texts answer to it."""
    # 1. (data set, example_id) -> its row; (data set, group) -> the references of each run, with their scores
    examples: dict[tuple[str, str], Any] = {}
    references: dict[tuple[str, str], list[list[Any]]] = {}
    for which, run in enumerate(runs):
        if run.examples is None:
            continue
        for record in run.examples.to_dict("records"):
            examples.setdefault((run.dataset, record["example_id"]), record)
        for group, *texts, high, low in run.references[list(_REFERENCES)].itertuples(index=False):
            pair = [which, *texts, _number(high, 3), _number(low, 3)]
            references.setdefault((run.dataset, group), []).append(pair)
    # 2. the pieces
    chunks = []
    for first, last in itertools.pairwise(cuts):
        groups: dict[tuple[str, str], int] = {}
        chunk: dict[str, Any] = {"groups": [], "group": [], "output": [], "rival": [], "human": []}
        for i in range(first, last):
            dataset, row = index.examples[i][0], examples.get(index.examples[i])
            key = dataset, index.group[i]
            if key not in groups:
                groups[key] = len(groups)
                about = {"source": row["source"], "context": row["context"]} if row else {}
                chunk["groups"].append(about | {"references": references.get(key, [])})
            chunk["group"].append(groups[key])
            chunk["output"].append(row["output"] if row else None)
            chunk["rival"].append([row["rival_id"], row["rival"]] if row and row["rival_id"] else None)
            human = zip(row["dimensions"], row["human"], strict=True) if row else ()
            chunk["human"].append([[name, _number(value, 4)] for name, value in human])
        chunks.append(chunk)
    return chunks


def reading_chunks(index: Index, runs: Sequence[Results], cuts: Sequence[int]) -> list[dict[str, Any]]:
    """For each piece: row -> what was read about it. A prompt is a list of numbers of `literals`, the text between what
    the example itself says, and of letters for that: s source, c context, o output, x changed text, r rival."""
    chunks: list[dict[str, Any]] = [{"literals": [], "rows": {}} for _ in cuts[1:]]
    interned: list[dict[str, int]] = [{} for _ in chunks]
    for which, run in enumerate(runs):
        rows = rows_of(index, run, run.readings)
        decided = _contrasted(index, which, run, rows)
        # 1. what examples say, and their changed texts
        texts: dict[str, dict[str, str]] = {}
        changed: dict[tuple[Any, ...], str] = {}
        names = with_labels(_KEY, run.texts)
        if run.examples is not None:
            sayings = run.examples[["example_id", "source", "context", "output", "rival"]].itertuples(index=False)
            texts = {
                example: dict(zip("scor", (text or "" for text in parts), strict=True)) for example, *parts in sayings
            }
            made = run.texts[[*names, "order", "text"]].itertuples(index=False)
            changed = {(*key, order or ""): text for *key, order, text in made}
        # 2. reading by reading
        columns = {name: run.readings[name].tolist() for name in run.readings}
        orders = columns.get("order") or [""] * len(rows)
        for at, row in enumerate(rows):
            if row is None:
                continue
            example = int(index.example[row])
            piece = int(np.searchsorted(cuts, example, side="right")) - 1
            reading: dict[str, Any] = {"run": which}
            if orders[at]:
                reading["order"] = orders[at]
            for short, name in (("m", "main_logprobs"), ("a", "assistant_logprobs")):
                if isinstance(columns[name][at], Sequence | np.ndarray):
                    reading[short] = [_number(value, 3) for value in columns[name][at]]
            if at in decided:
                reading["p"] = decided[at]
            if run.examples is not None:
                said = texts.get(columns["example_id"][at], {})
                text = changed.get((*(columns[name][at] for name in names), orders[at])) if changed else None
                if text is not None:
                    reading["x"] = text
                if isinstance(columns["text"][at], str):  # a null of a frame is None or NaN
                    reading["said"] = [str(columns[name][at]) for name in ("judge", "decoding", "text")]
                parts = {"x": text or "", "o": "", **said}
                reading["prompt"] = _pieces(str(columns["prompt"][at]), parts, chunks[piece], interned[piece])
            numbers = ("prompt_tokens", "source_tokens_cut", "control_tokens")
            reading["n"] = [*(int(columns[name][at]) for name in numbers), _number(columns["seconds"][at], 4)]
            chunks[piece]["rows"].setdefault(str(row), []).append(reading)
    return chunks


_REFERENCES = ("group_id", "dimension", "defense", "high", "low", "score_high", "score_low")
_KEY = ("example_id", "dimension", *RANGE, "attack", "defense")


def _contrasted(index: Index, which: int, run: Results, rows: Sequence[int | None]) -> dict[int, dict[str, list[Any]]]:
    """Reading -> series of the pair -> its probabilities [candidates], normalized over them: the law of decoding at the
    series' own lambda and t."""
    shares: dict[int, dict[str, list[Any]]] = {}
    both = run.readings["main_logprobs"].notna() & run.readings["assistant_logprobs"].notna()
    by_place: dict[int, list[int]] = {}
    for at in np.flatnonzero(both.to_numpy()).tolist():
        if (row := rows[at]) is not None:
            by_place.setdefault(int(index.place[row]), []).append(at)
    if by_place:
        import torch  # it takes seconds, and most runs have no series of the pair
    for place, numbers in by_place.items():
        part = run.readings.iloc[numbers]
        main, assistant = (
            torch.tensor(np.array(part[name].tolist(), dtype=np.float64))
            for name in ("main_logprobs", "assistant_logprobs")
        )
        for number, series in enumerate(index.series):
            if series.run != which or series.judge != "pair" or (number, place) not in index.knobs:
                continue
            _, decoding, lambda_, temperature = index.knobs[number, place]
            adjusted = contrast(main, assistant, lambda_ / temperature, plausibility(run.config, decoding))
            likely = torch.nan_to_num(torch.softmax(adjusted, dim=1)).numpy().round(4).tolist()
            for at, values in zip(numbers, likely, strict=True):
                shares.setdefault(at, {})[str(number)] = values
    return shares


def plausibility(config: Mapping[str, Any], decoding: str) -> float:
    """The constraint alpha of a decoding, which scores.parquet does not have.

    Args:
        config: of the run.
    """
    entries = config.get("decoding") or {}
    entry = entries.get(decoding) or entries.get(decoding.removesuffix(PER_RANGE))
    return float((entry.get("alpha") if isinstance(entry, Mapping) else None) or 0.0)


def _pieces(prompt: str, parts: Mapping[str, str], chunk: dict[str, Any], interned: dict[str, int]) -> list[int | str]:
    """The prompt, taken apart at what its example says; longest first, each in its first place."""
    pieces: list[tuple[str, str]] = [("", prompt)]
    for letter, text in sorted(parts.items(), key=lambda item: -len(item[1])):
        if len(text) < _LEAST:
            continue
        for i, (kind, piece) in enumerate(pieces):
            if not kind and (at := piece.find(text)) >= 0:
                pieces[i : i + 1] = [("", piece[:at]), (letter, text), ("", piece[at + len(text) :])]
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


def _number(value: Any, places: int) -> float | int | None:
    """A number as JSON has it, short; None for what is not finite."""
    if value is None or pd.isna(value) or not math.isfinite(value):
        return None
    short = round(float(value), places)
    return int(short) if short == int(short) else short
