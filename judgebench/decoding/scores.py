"""From readings to scores: every decoding of every reading it applies to, as the columns of
scores.parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from judgebench.decoding.parser import parse_answer, parse_final, parse_place, warn_of_cut
from judgebench.decoding.rules import CrossFitted, Decoding, Decodings, Ranged, has_answer
from judgebench.types import (
    CLAMPED,
    FAILED,
    LABELS,
    ORDERS,
    PARSED,
    PLACES,
    RANGE,
    TIE,
    Array,
    Columns,
    Generation,
    RatingKey,
    Reading,
    Record,
    Rows,
    ScoreRange,
    answered_place,
)

KEYS = ("example_id", "group_id", "system_id", "split", "dimension", *RANGE, "attack", "defense")
"""What identifies an example under a condition, in every table."""

COMPARED = ("text_id", "rival_id", "rival_system_id", "order")
"""Besides `KEYS`, of texts that are compared: the judged text, its rival, what wrote that, the
place of the first. The example_id is the pair's."""

TIED = "tied"
"""Of texts that are compared: how much of an answer says that both are equally good, 0 to 1."""

# alike but for the tie, in the middle: 2 apart
_TIE_COUNTS = np.array([0.0, 3.0, 4.0]), np.array([0.0, 1.0, 4.0])

COLUMNS = (*KEYS, "judge", "decoding", "lambda", "temperature", "score", "status", "human")


def key_columns(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    """The `KEYS` of readings, as columns; where any range has labels, also `LABELS`, and where any
    of them compares texts, also `COMPARED`."""
    examples = [reading.prompt.example for reading in readings]
    conditions = [reading.prompt.condition for reading in readings]
    asked = dict.fromkeys(condition.range for condition in conditions)
    ranges = {score_range: score_range.columns for score_range in asked}
    columns = _attributes(examples, KEYS[:3])
    columns["split"] = [reading.split for reading in readings]
    columns |= _attributes(conditions, ["dimension"])
    labels = [LABELS] if any(score_range.labels for score_range in ranges) else []
    for name in (*RANGE, *labels):
        columns[name] = [ranges[condition.range].get(name, "") for condition in conditions]
    columns |= _attributes(conditions, ["attack", "defense"])
    if any(condition.order for condition in conditions):
        columns |= _attributes(examples, COMPARED[:3])
        columns |= _attributes(conditions, ["order"])
    return columns


def _attributes(objects: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [getattr(each, name) for each in objects] for name in names}


def decode(
    readings: Sequence[Reading],
    decodings: Decodings,
    tuned: Mapping[RatingKey, Mapping[str, Decoding | None]] | None = None,
) -> dict[str, Array]:
    """Scores of all readings, as `COLUMNS`, each [scores]; lambda and temperature are NaN where a
    decoding has none. Where a range has labels, also `LABELS`.
    Where texts are compared, also `COMPARED` and `TIED`, and a score is an `answered_place`.

    Log-probabilities are decoded by every decoding: those that contrast give the pair's score, the
    others the main model's and, where there is one, the assistant's. A generated text has its
    decoding behind it and is only parsed.

    Args:
        readings: those of a condition share its candidates, and are all log-probabilities or all
            generated.
        tuned: dimension and range -> the decodings that replace those of the same name there, or
            stand with them; None leaves it out.
    """
    # 1. readings of log-probabilities, by dimension and range; the others are answers
    cells: dict[RatingKey, list[Reading]] = {}
    for reading in readings:
        if reading.text is None:
            condition = reading.prompt.condition
            cells.setdefault((condition.dimension, condition.range), []).append(reading)
    answered = [reading for reading in readings if reading.text is not None]
    # 2. every decoding of every cell
    parts = []
    for cell, members in cells.items():
        dimension, _ = cell
        ranges = [cells[other] for other in cells if other[0] == dimension]
        here = {**decodings, **(tuned or {}).get(cell, {})}
        for name, decoding in here.items():
            if decoding is None:
                continue
            if not decoding.across:
                parts += _decoded([members], name, decoding)
            elif members is ranges[0]:  # one score a text, in the first range of its dimension
                parts += _decoded(aligned(ranges), name, decoding)
    if answered:
        parts.append(_parsed(answered))
    # 3. one table of them all
    names = list(COLUMNS)
    for name in (*COMPARED, TIED):
        if name in parts[0]:
            names.append(name)
    if any(LABELS in part for part in parts):
        names.append(LABELS)
        for part in parts:
            part.setdefault(LABELS, [""] * len(part["score"]))
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in names}


def aligned(ranges: Sequence[Sequence[Reading]]) -> list[list[Reading]]:
    """The readings of each range, of the texts that all ranges hold, in the order of the first."""
    rows = [{_text_key(reading): reading for reading in readings} for readings in ranges]
    common = [key for key in rows[0] if all(key in other for other in rows)]
    return [[of_range[key] for key in common] for of_range in rows]


def _text_key(reading: Reading) -> tuple[str, ...]:
    """Names that identify a reading within a range."""
    condition = reading.prompt.condition
    example = reading.prompt.example
    return example.example_id, condition.attack, condition.defense, condition.order


def ranged(readings: Sequence[Reading]) -> Ranged:
    """The log-probabilities of readings in one range, its candidates ascending."""
    condition = readings[0].prompt.condition
    values = np.array(condition.range.values)
    if condition.order:
        values = np.array([answered_place(value) for value in values])
    ascending = np.argsort(values)

    def side(rows: Sequence[Any]) -> Any:
        return None if rows[0] is None else np.array(rows, np.float64)[..., ascending]

    # a text that was generated has no log-probabilities, and is only parsed
    rows = [reading.main_logprobs for reading in readings]
    others = [reading.assistant_logprobs for reading in readings]
    return Ranged(
        side(rows),
        side(others),
        values[ascending],
    )


def _decoded(ranges: Sequence[Sequence[Reading]], name: str, decoding: Decoding) -> Rows:
    """The `COLUMNS` of one decoding, a part for each judge; `ranges`: one, or all of a dimension,
    of the same texts."""
    readings = ranges[0]
    sides = [ranged(part) for part in ranges]
    groups = [reading.prompt.example.group_id for reading in readings]

    def scores(sides: Sequence[Ranged]) -> Array:
        if isinstance(decoding, CrossFitted):
            return decoding.scores_of(groups, sides)
        return decoding.scores_across(sides)

    # 1. whose log-probabilities are decoded
    judges = {"main": [side._replace(assistant=None) for side in sides]}
    others = [side.assistant for side in sides if side.assistant is not None]
    if decoding.needs_assistant:
        judges = {"pair": sides}
    elif others and not decoding.taught:
        pairs = zip(sides, others, strict=True)
        judges["assistant"] = [Ranged(other, None, side.values) for side, other in pairs]
    # 2. their scores, and how much of them says that two texts are equally good
    parts = []
    for judge, of_judge in judges.items():
        way = Generation(judge, name, decoding.lambda_, decoding.temperature)
        statuses = np.where(has_answer(of_judge[0].main), PARSED, FAILED)
        part = _columns(readings, [way] * len(readings), scores(of_judge), statuses)
        if readings[0].prompt.condition.order:
            part[TIED] = np.zeros(len(readings))
            # scores are linear in the values, and choose alike by both
            if len(sides[0].values) == len(_TIE_COUNTS[0]):
                side = of_judge[0]
                counts, fewer = _TIE_COUNTS
                more = scores([side._replace(values=counts)])
                less = scores([side._replace(values=fewer)])
                part[TIED] = (more - less) / 2
        parts.append(part)
    return parts


def _parsed(readings: Sequence[Reading]) -> Record:
    """The `COLUMNS` of free answers."""
    warn_of_cut(reading.text or "" for reading in readings)
    generations = [reading.generation or Generation("", "") for reading in readings]
    answers = []
    for reading, generation in zip(readings, generations, strict=True):
        text = reading.text or ""
        prompt = reading.prompt
        score_range = prompt.condition.range
        if prompt.condition.order:
            answers.append(parse_place(text, prompt.choices, score_range))
        elif generation.reasoned:
            answers.append(parse_final(text, score_range, prompt.choices))
        else:
            answers.append(parse_answer(text, score_range, prompt.choices))
    values = [answer.value for answer in answers]
    statuses = [answer.status for answer in answers]
    if not readings[0].prompt.condition.order:
        return _columns(readings, generations, values, statuses)
    places = [answered_place(value) for value in values]
    ties = [float(value == TIE) for value in values]
    return _columns(readings, generations, places, statuses) | {TIED: ties}


REPEAT = "repeat"
"""Of answers to one prompt: their number, from 0."""


def decode_answers(readings: Sequence[Reading]) -> Columns:
    """The scores of all answers to prompts that were asked several times: `COLUMNS` and `REPEAT`,
    each [answers]; NaN for an answer that could not be read. Empty without such prompts, and where
    texts are compared."""
    several = [each for each in readings if each.answers and not each.prompt.condition.order]
    if not several:
        return {}
    single = []
    for reading in several:
        generation = reading.generation or Generation("main", "")
        for answer in reading.answers:
            single.append(replace(reading, text=answer, generation=generation))
    columns = _parsed(single)
    failed = np.asarray(columns["status"]) == FAILED
    scores = np.where(failed, np.nan, np.asarray(columns["score"], np.float64))
    repeats = np.concatenate([np.arange(len(reading.answers)) for reading in several])
    return {name: np.asarray(column) for name, column in columns.items()} | {
        "score": scores,
        REPEAT: repeats,
    }


def _columns(
    readings: Sequence[Reading],
    generations: Sequence[Generation],
    scores: Sequence[float] | Array,
    statuses: Sequence[str] | Array,
) -> Record:
    """The `COLUMNS` of readings, each with who decoded it, and how."""
    prompts = [reading.prompt for reading in readings]
    columns = key_columns(readings) | _attributes(generations, ["judge", "decoding"])
    # None is NaN
    for name, attribute in (("lambda", "lambda_"), ("temperature", "temperature")):
        settings = [getattr(generation, attribute) for generation in generations]
        columns[name] = np.array(settings, np.float64)  # type: ignore[assignment]
    return columns | {
        "score": scores,
        "status": statuses,
        "human": [prompt.example.human[prompt.condition.dimension] for prompt in prompts],
    }


WINS = ScoreRange(0, 1, 0.5)
"""The scores of a pair: its judged text loses, nothing is decided, it wins; expectations lie
between."""

UNDECIDED = 0.5

_SAME = (*KEYS, "judge", "decoding", "lambda", "temperature")


def win_probabilities(columns: Columns) -> dict[str, Array]:
    """The probability that a judge finds each text better than its rival, both orders averaged.

    The CAP paper's `p = 1/2 (P(first wins | A first) + P(second wins | A second))` (section 2.1,
    after Shi et al. 2024), with `P` the share of a decoding's answer that is the text's own place:
    0 or 1 where it is one of the places, something between where it is their expectation. A tie,
    where the judge may find one, is half a win for each.

    An order whose answer could not be read, or named a place that there is not, is undecided, like
    a tie: to count it as the lowest score would be a verdict for the rival.

    Args:
        columns: of scores, as `decode` gives them; those of texts that were judged alone are
            returned as they are.

    Returns:
        A row a pair, condition, judge and decoding, in the order in which these appear: the columns
            without `order`,
        on the range `WINS`, with score_first and score_second, the probability of winning in each
        place, half of that of a tie added; score, their mean; tie_first and tie_second, the
        probability of a tie itself; status, `failed` where either order is undecided for want of an
        answer, else `parsed`.

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
    import pandas as pd  # it takes long to import

    # 1. the row of each pair in each order
    table = pd.DataFrame({name: list(columns[name]) for name in _SAME}, dtype=object)
    pair = table.groupby(list(_SAME), sort=False, dropna=False).ngroup().to_numpy()
    rows = np.full((len(ORDERS), pair.max(initial=-1) + 1), -1)
    for number, order in enumerate(ORDERS):
        at = np.flatnonzero(np.asarray(columns["order"]) == order)
        rows[number, pair[at]] = at
        repeated = at[rows[number, pair[at]] != at].tolist()
        if repeated:
            row = tuple(table.iloc[repeated[0]])
            raise ValueError(f"scores: {row} appears twice with its text {order}")
    lone = np.flatnonzero((rows < 0).any(axis=0)).tolist()
    if lone:
        row = tuple(table.iloc[int(np.argmax(pair == lone[0]))])
        raise ValueError(f"scores: {row} was read in one order only")
    first, second = rows  # [pairs] each
    # 2. the probability of winning in each order
    lost = np.isin(np.asarray(columns["status"]).astype(str), (FAILED, CLAMPED))  # [scores]
    place = np.asarray(columns["score"], dtype=np.float64)
    won_first = np.where(lost[first], UNDECIDED, PLACES.maximum - place[first])
    won_second = np.where(lost[second], UNDECIDED, place[second] - PLACES.minimum)
    ties = np.asarray(columns.get(TIED, np.zeros(len(place))), dtype=np.float64)
    tied = np.where(lost, 1.0, ties)
    # 3. a row a pair
    names = [name for name in columns if name not in ("order", TIED)]
    pairs = {name: np.asarray(columns[name])[first] for name in names}
    for name, value in WINS.columns.items():
        pairs[name] = np.full(len(first), value)
    return pairs | {
        "score_first": won_first,
        "score_second": won_second,
        "score": (won_first + won_second) / 2,
        "tie_first": tied[first],
        "tie_second": tied[second],
        "status": np.where(lost[first] | lost[second], FAILED, PARSED),
    }
