"""A run as Weights & Biases shows it: its numbers under readable names, and its tables as records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from judgebench.results.results import Results
from judgebench.stats.levels import shown_level
from judgebench.stats.scores import shown_split
from judgebench.types import LABELS, RANGE, ScoreRange

_SCALARS = (
    *("pearson", "spearman", "spearman_low", "spearman_high", "kendall"),
    *("failed_share", "clamped_share", "mean_score", "lambda", "temperature", "n"),
    *("bias_wasserstein", "bias_kl", "bias_shift", "modal_share", "stability", "self_agreement"),
    *("position_bias", "consistency", "human_agreement"),
    *("change", "change_low", "change_high", "delta", "rate_of_means", "mean_of_rates", "raised_share", "win_share"),
)

_PAIRWISE = (
    *("strength_pearson", "strength_spearman", "strength_spearman_low", "strength_spearman_high", "strength_kendall"),
    *("tau", "auc", "accuracy", "accuracy_calibrated", "tie_threshold", "place_effect", "attack_effect"),
)

_DIFFERENCES = ("difference", "low", "high", "p", "p_holm")

_KEY = ["example_id", "dimension", *RANGE, LABELS, "attack", "defense"]
_PAIR_KEY = [name for name in _KEY if not name.startswith("range_")]  # places are read, and wins scored from them
_SYSTEM = ("dataset", "split", "dimension", "attack", "defense", "judge", "decoding", "lambda", "temperature")

Records = Sequence[Mapping[str, Any]]


def scalars(records: Records) -> dict[str, float]:
    """One level's numbers (`dataset`, or the first where there is no such level) under readable names, without nulls.

    Names are split/dimension/range/judge/decoding/number, with attack, defense and a level other than `dataset` after
    the dimension where there are such, and lambda and t after the decoding where one cell holds several.

    Example:
        >>> record = {"level": "dataset", "split": "test", "dimension": "coherence", "attack": "none",
        ...           "defense": "none", "range_min": 1, "range_max": 5, "range_step": 1, "judge": "main",
        ...           "decoding": "greedy", "lambda": None, "temperature": None, "spearman": 0.25}
        >>> scalars([record])
        {'test/coherence/1-5/main/greedy/spearman': 0.25}
    """
    level = shown_level(record["level"] for record in records)
    shown = [record for record in records if record["level"] == level]
    return _named([(_within(record), record, {key: record.get(key) for key in _SCALARS}) for record in shown])


def differences(comparisons: Records) -> dict[str, float]:
    """One level's paired differences in Spearman on the test split (else the first), under readable names, without
    nulls.

    Names are as in `scalars`, with `pair contrastive minus/main greedy` for judge and decoding and `mean` for the range
    of that over the ranges; the numbers are difference, low, high, p and p_holm.
    """
    level = shown_level(record["level"] for record in comparisons)
    split = shown_split(record["split"] for record in comparisons)
    named = []
    for record in comparisons:
        if (record["split"], record["level"], record["statistic"]) == (split, level, "spearman"):
            first, second = (f"{record[f'{who}_judge']} {record[f'{who}_decoding']}" for who in ("first", "second"))
            name = _within({**record, "judge": f"{first} minus", "decoding": second})
            setting = {"lambda": record["first_lambda"], "temperature": record["first_temperature"]}
            named.append((name, setting, {key: record[key] for key in _DIFFERENCES}))
    return _named(named)


def rankings(records: Records) -> dict[str, float]:
    """Rankings of systems under readable names: the numbers of a record of pairwise.json, named as in `scalars`, and
    the systems' Elo, as `test/joint/main/greedy/elo/NAME`; without nulls."""
    return _named(
        [
            (
                _name(record),
                record,
                {key: record[key] for key in _PAIRWISE}
                | {f"elo/{place['system']}": place["elo"] for place in record["ranking"]},
            )
            for record in records
        ]
    )


def _range_name(row: Mapping[str, Any]) -> str:
    return "mean" if row["range_min"] is None else str(ScoreRange.of(row))  # one that is about several ranges has none


def _named(numbers: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, float]:
    """Finite numbers by name, from (name, lambda and t, numbers); shared names have lambda and t as well."""
    several = Counter(name for name, _, _ in numbers)
    return {
        f"{name}{_setting(row) if several[name] > 1 else ''}/{key}": float(value)
        for name, row, values in numbers
        for key, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _name(record: Mapping[str, Any], *more: str) -> str:
    changes = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    return "/".join([record["split"], record["dimension"], *changes, *more, record["judge"], record["decoding"]])


def _within(record: Mapping[str, Any]) -> str:
    """The name of a record of one level and range."""
    level = [] if record["level"] == "dataset" else [f"level={record['level']}"]
    return _name(record, *level, _range_name(record))


def _setting(row: Mapping[str, Any]) -> str:
    """Lambda and t, as ` lambda=1 t=0.5`, or whichever of them the row has."""
    values = [(name, plain_value(row[key])) for name, key in (("lambda", "lambda"), ("t", "temperature"))]
    return "".join(f" {name}={value:g}" for name, value in values if value is not None)


def tables_of(results: Results, examples: int) -> dict[str, list[dict[str, Any]]]:
    """Name of a table -> its rows, of those that have some; `metrics` and `examples` always. `examples` is how many of
    them, see `example_rows`."""
    tables = {
        "metrics": [dict(record) for record in results.metrics],
        "examples": example_rows(results.scores, results.readings, examples),
    }
    more: dict[str, list[dict[str, Any]]] = {
        "comparisons": [dict(record) for record in results.comparisons],
        "tuning": [flat(record) for record in results.tuning or ()],
        "pairwise": [flat(record) for record in results.pairwise],
        "ranking": [
            {key: record[key] for key in _SYSTEM} | dict(place)
            for record in results.pairwise
            for place in record["ranking"]
        ],
    }
    for name in ("standards", "strengths", "costs", "detectors"):
        more[f"defense/{name}"] = [flat(record) for record in getattr(results, name)]
    more["defense/references"] = _records(results.references)
    return tables | {name: rows for name, rows in more.items() if rows}


def example_rows(scores: pd.DataFrame, readings: pd.DataFrame, maximum: int) -> list[dict[str, Any]]:
    """A row for each selected example and condition: ids, range, human score, a column per decoding, answer and prompt.
    The `maximum` examples are spread evenly over the test split (over all if there is none)."""
    of_test = scores[scores["split"] == "test"]
    pool = (of_test if len(of_test) else scores)["example_id"].drop_duplicates().to_numpy()
    spread = np.linspace(0, len(pool) - 1, min(maximum, len(pool))).round().astype(int)
    selected = pool[np.unique(spread)]
    keys = _PAIR_KEY if "rival_id" in scores else _KEY
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for score in _records(scores[scores["example_id"].isin(selected)]):
        ids = {name: score[name] for name in ("example_id", "group_id", "system_id", "split", "dimension")}
        ids |= {"range": _range_name(score)} | {name: score[name] for name in ("attack", "defense", "human")}
        row = rows.setdefault(tuple(score.get(name) for name in keys), ids)
        column = f"{score['judge']} {score['decoding']}{_setting(score)}"
        row[column] = score["score"]
        if score["status"] != "parsed":
            row[f"{column} status"] = score["status"]
    for reading in _records(readings[readings["example_id"].isin(selected)]):
        judged = rows.get(tuple(reading.get(name) for name in keys))
        if judged is not None:
            sampled = plain_value(reading["judge"]) is not None
            answer = f"answer of {reading['judge']} {reading['decoding']}" if sampled else "answer"
            order = f", judged text {reading['order']}" if "order" in reading else ""
            judged |= {f"{answer}{order}": reading["text"], f"prompt{order}": reading["prompt"]}
    return list(rows.values())


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of JSON without its lists, and with nested values as `exact_low`."""
    plain: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            plain |= {f"{key}_{name}": inner for name, inner in value.items() if not isinstance(inner, list)}
        elif not isinstance(value, list):
            plain[key] = value
    return plain


def plain_value(value: Any) -> Any:
    """A value of a table: lists as text, whatever is no number as None."""
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
