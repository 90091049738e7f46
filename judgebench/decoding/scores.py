"""From readings to scores: every decoding of every reading it applies to, as the columns of scores.parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.decoding.numerals import warn_of_cut
from judgebench.decoding.parser import parse_answer, parse_final, parse_place
from judgebench.decoding.rules import Decoding, has_answer
from judgebench.types import (
    CLAMPED,
    FAILED,
    FIRST,
    LABELS,
    ORDERS,
    PARSED,
    PLACES,
    RANGE,
    SECOND,
    TIE,
    Reading,
    ScoreRange,
    answered_place,
)

KEYS = (
    *("example_id", "group_id", "system_id", "split", "dimension"),
    *(*RANGE, "attack", "defense"),
)
"""What identifies an example under a condition, in every table."""

COMPARED = ("text_id", "rival_id", "rival_system_id", "order")
"""Besides `KEYS`, of texts that are compared: the judged text, its rival, what wrote that, the place of the first.
The example_id is the pair's."""

TIED = "tied"
"""Of texts that are compared: how much of an answer says that both are equally good, 0 to 1."""

_TIE_COUNTS = np.array([0.0, 3.0, 4.0]), np.array([0.0, 1.0, 4.0])  # alike but for the tie, in the middle: 2 apart

COLUMNS = (*KEYS, "judge", "decoding", "lambda", "temperature", "score", "status", "human")


def key_columns(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    """The `KEYS` of readings, as columns; where any range has labels, also `LABELS`, and where any of them compares
    texts, also `COMPARED`."""
    examples = [reading.prompt.example for reading in readings]
    conditions = [reading.prompt.condition for reading in readings]
    ranges = [condition.range for condition in conditions]
    columns = {name: [getattr(example, name) for example in examples] for name in KEYS[:3]}
    columns["split"] = [reading.split for reading in readings]
    columns["dimension"] = [condition.dimension for condition in conditions]
    named = {score_range: score_range.columns for score_range in dict.fromkeys(ranges)}
    for name in (*RANGE, *([LABELS] if any(score_range.labels for score_range in named) else [])):
        columns[name] = [named[score_range].get(name, "") for score_range in ranges]
    columns |= {name: [getattr(condition, name) for condition in conditions] for name in ("attack", "defense")}
    orders = [condition.order for condition in conditions]
    if any(orders):
        columns |= {name: [getattr(example, name) for example in examples] for name in COMPARED[:3]}
        columns["order"] = orders
    return columns


def decode(
    readings: Sequence[Reading],
    decodings: Mapping[str, Decoding],
    tuned: Mapping[tuple[str, ScoreRange], Mapping[str, Decoding]] | None = None,
) -> dict[str, np.ndarray]:
    """Scores of all readings, as `COLUMNS`, each [scores]; lambda and temperature are NaN where a decoding has none.
    Where a range has labels, also `LABELS`.
    Where texts are compared, also `COMPARED` and `TIED`, and a score is an `answered_place`.

    Log-probabilities are decoded by every decoding: those that contrast give the pair's score, the others the main
    model's and, where there is one, the assistant's. A generated text has its decoding behind it and is only parsed.

    Args:
        readings: those of a condition share its candidates, and are all log-probabilities or all generated.
        tuned: dimension and range -> the decodings that replace those of the same name there, or stand beside them.
    """
    parts: list[dict[str, Any]] = []
    cells: dict[tuple[str, ScoreRange], list[Reading]] = {}
    for reading in readings:
        if reading.text is None:
            cells.setdefault((reading.prompt.condition.dimension, reading.prompt.condition.range), []).append(reading)
    for cell, own in cells.items():
        for name, decoding in {**decodings, **(tuned or {}).get(cell, {})}.items():
            parts += _decoded(own, cell[1], name, decoding)
    if answered := [reading for reading in readings if reading.text is not None]:
        parts.append(_parsed(answered))
    names = [*COLUMNS, *(name for name in (*COMPARED, TIED) if name in parts[0])]
    if any(LABELS in part for part in parts):
        parts, names = [{LABELS: [""] * len(part["score"]), **part} for part in parts], [*names, LABELS]
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in names}


def _decoded(
    readings: Sequence[Reading], score_range: ScoreRange, name: str, decoding: Decoding
) -> list[dict[str, Any]]:
    values = np.array(score_range.values)
    compared = bool(readings[0].prompt.condition.order)
    if compared:
        values = np.array([answered_place(value) for value in score_range.values])
    ascending = np.argsort(values)
    values = values[ascending]
    main = np.array([reading.main_logprobs for reading in readings], dtype=np.float32)[:, ascending]
    assistant = None
    if readings[0].assistant_logprobs is not None:
        assistant = np.array([reading.assistant_logprobs for reading in readings], dtype=np.float32)[:, ascending]
    if decoding.needs_assistant:
        judged = {"pair": (main, assistant)}
    else:
        judged = {"main": (main, None)}
        if assistant is not None:
            judged["assistant"] = (assistant, None)
    parts = []
    for judge, (given, other) in judged.items():
        how = (judge, name, decoding.lambda_, decoding.temperature)
        statuses = np.where(has_answer(given), PARSED, FAILED)
        part = _columns(readings, *how, decoding.scores(given, other, values), statuses)
        if compared:
            part[TIED] = np.zeros(len(readings))
            if len(values) == len(_TIE_COUNTS[0]):  # scores are linear in the values, and choose alike by both
                more, less = (decoding.scores(given, other, counts) for counts in _TIE_COUNTS)
                part[TIED] = (more - less) / 2
        parts.append(part)
    return parts


def _parsed(readings: Sequence[Reading]) -> dict[str, Any]:
    warn_of_cut(reading.text or "" for reading in readings)
    how = [reading.generation for reading in readings]
    scores = []
    for reading in readings:
        asked = (reading.prompt.condition.range, reading.prompt.choices)
        if reading.prompt.condition.order:
            scores.append(parse_place(reading.text or "", asked[1], asked[0]))
        else:
            reasoned = reading.generation is not None and reading.generation.reasoned
            scores.append((parse_final if reasoned else parse_answer)(reading.text or "", *asked))
    values = [score.value for score in scores]
    places = [
        answered_place(value) if reading.prompt.condition.order else value
        for value, reading in zip(values, readings, strict=True)
    ]
    columns = _columns(readings, "", "", None, None, places, [score.status for score in scores])
    if "order" in columns:
        columns[TIED] = [float(value == TIE) for value in values]
    columns["judge"] = [h.judge if h else "" for h in how]
    columns["decoding"] = [h.decoding if h else "" for h in how]
    columns["lambda"] = [_or_nan(h.lambda_ if h else None) for h in how]
    columns["temperature"] = [_or_nan(h.temperature if h else None) for h in how]
    return columns


def _columns(
    readings: Sequence[Reading],
    judge: str,
    decoding: str,
    lambda_: float | None,
    temperature: float | None,
    scores: Sequence[float] | np.ndarray,
    statuses: Sequence[str] | np.ndarray,
) -> dict[str, Any]:
    count = len(readings)
    human = [reading.prompt.example.human for reading in readings]
    return key_columns(readings) | {
        "judge": [judge] * count,
        "decoding": [decoding] * count,
        "lambda": [_or_nan(lambda_)] * count,
        "temperature": [_or_nan(temperature)] * count,
        "score": scores,
        "status": statuses,
        "human": [h[reading.prompt.condition.dimension] for h, reading in zip(human, readings, strict=True)],
    }


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


WINS = ScoreRange(0, 1, 0.5)
"""The scores of a pair: its judged text loses, nothing is decided, it wins; expectations lie between."""

UNDECIDED = 0.5

_SAME = (*KEYS, "judge", "decoding", "lambda", "temperature")
_ENDS = WINS.columns


def win_probabilities(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The probability that a judge finds each text better than its rival, both orders averaged.

    The CAP paper's `p = 1/2 (P(first wins | A first) + P(second wins | A second))` (section 2.1, after Shi et al.
    2024), with `P` the share of a decoding's answer that is the text's own place: 0 or 1 where it is one of the places,
    something between where it is their expectation. A tie, where the judge may find one, is half a win for each.

    An order whose answer could not be read, or named a place that there is not, is undecided, like a tie: to count it
    as the lowest score would be a verdict for the rival.

    Args:
        columns: of scores, as `decode` gives them; those of texts that were judged alone are returned as they are.

    Returns:
        A row a pair, condition, judge and decoding, in the order in which these appear: the columns without `order`,
        on the range `WINS`, with score_first and score_second, the probability of winning in each place, half of that
        of a tie added; score, their mean; tie_first and tie_second, the probability of a tie itself; status, `failed`
        where either order is undecided for want of an answer, else `parsed`.

    Raises:
        ValueError: one of the two orders is missing, or there twice.

    Example:
        >>> keys = dict.fromkeys(_SAME, np.array(["x", "x"])) | {"lambda": np.full(2, np.nan)}
        >>> keys |= {"order": np.array(["first", "second"]), "status": np.array(["parsed", "parsed"])}
        >>> won = win_probabilities(keys | {"score": np.array([1.25, 1.25]), "temperature": np.full(2, np.nan)})
        >>> [float(won[name][0]) for name in ("score_first", "score_second", "score")]
        [0.75, 0.25, 0.5]
    """
    if "order" not in columns:
        return dict(columns)
    places = _places(columns)
    first, second = places[FIRST], places[SECOND]
    lost = np.isin(np.asarray(columns["status"]).astype(str), (FAILED, CLAMPED))
    place = np.asarray(columns["score"], dtype=np.float64)
    won = {
        FIRST: np.where(lost[first], UNDECIDED, PLACES.maximum - place[first]),
        SECOND: np.where(lost[second], UNDECIDED, place[second] - PLACES.minimum),
    }
    kept: dict[str, np.ndarray] = {name: np.asarray(column)[first] for name, column in columns.items()}
    del kept["order"]
    kept.pop(TIED, None)
    count = len(first)
    tied = np.where(lost, 1.0, np.asarray(columns.get(TIED, np.zeros(len(place))), dtype=np.float64))
    return kept | {
        **{name: np.full(count, value) for name, value in _ENDS.items()},
        "score_first": won[FIRST],
        "score_second": won[SECOND],
        "score": (won[FIRST] + won[SECOND]) / 2,
        "tie_first": tied[first],
        "tie_second": tied[second],
        "status": np.where(lost[first] | lost[second], FAILED, PARSED),
    }


def _places(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Order -> [pairs] rows of it, pair for pair alike."""
    rows: dict[str, dict[tuple[Any, ...], int]] = {order: {} for order in ORDERS}
    # NaN, which is not even itself, stands for a knob that does not exist
    plain = ([None if value != value else value for value in np.asarray(columns[name]).tolist()] for name in _SAME)
    keys = zip(*plain, strict=True)
    for row, (order, key) in enumerate(zip(columns["order"], keys, strict=True)):
        if key in rows[str(order)]:
            raise ValueError(f"scores: {key} appears twice with its text {order}")
        rows[str(order)][key] = row
    if rows[FIRST].keys() != rows[SECOND].keys():
        lone = next(iter(rows[FIRST].keys() ^ rows[SECOND].keys()))
        raise ValueError(f"scores: {lone} was read in one order only")
    at = rows[SECOND]
    return {
        FIRST: np.array(list(rows[FIRST].values()), dtype=np.int64),
        SECOND: np.array([at[key] for key in rows[FIRST]], dtype=np.int64),
    }
