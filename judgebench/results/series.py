"""Which rows of scores and records are one thing to a reader: one line of a figure, one row per range of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from judgebench.types import LABELS, RANGE, ScoreRange

CELL = ("split", "dimension", *RANGE, "attack", "defense")
"""Columns of a condition, to which `LABELS` comes in tables with a range that has some."""
NO_DEFENSE = "none"
_JUDGES = ("main", "assistant", "pair")
_DECODINGS = ("greedy", "expectation", "contrastive")


@dataclass(frozen=True)
class Series:
    """A judge with a decoding. `setting` names one of several that a run tries side by side (a grid of lambda and
    t); it is empty where each range has one setting, which may differ from range to range (tuned on the dev split)."""

    judge: str
    decoding: str
    setting: str = ""

    def __str__(self) -> str:
        name = f"{self.judge}, {self.decoding}"
        return f"{name}, {self.setting}" if self.setting else name


class SeriesIndex:
    """Finds the series in rows that have `CELL`, judge, decoding, lambda and temperature.

    Attributes:
        all: the series, in the order in which they are shown.
        settings: series -> its lambda and t, where they are one for all its rows; "" where they are not (tuned by
            range), or where the series' name says them already.

    Example:
        >>> cell = dict.fromkeys(CELL, 1)
        >>> cell |= {"judge": "pair", "decoding": "contrastive", "temperature": 1}
        >>> tried = [cell | {"lambda": x} for x in (0.1, 1)]
        >>> [str(series) for series in SeriesIndex(tried).all]
        ['pair, contrastive, λ 0.1, t 1', 'pair, contrastive, λ 1, t 1']
        >>> [str(series) for series in SeriesIndex(tried[:1]).all]
        ['pair, contrastive']
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        rows = list(rows)
        tried: dict[tuple[Any, ...], set[str]] = defaultdict(set)
        for row in rows:
            cell = (*(row[name] for name in CELL), row.get(LABELS))
            tried[cell, row["judge"], row["decoding"]].add(setting(row))
        self._several = {(judge, decoding) for (_, judge, decoding), texts in tried.items() if len(texts) > 1}
        knobs = {self.of(row): (number(row["lambda"]) or 0.0, number(row["temperature"]) or 0.0) for row in rows}
        settings: dict[Series, set[str]] = defaultdict(set)
        for row in rows:
            settings[self.of(row)].add(setting(row))
        self.settings = {
            series: "" if series.setting or len(texts) > 1 else min(texts) for series, texts in settings.items()
        }

        def rank(series: Series) -> tuple[Any, ...]:
            # well-known judges and decodings in their order, then the others by name
            judge, decoding = (
                (order.index(name) if name in order else len(order), name)
                for order, name in ((_JUDGES, series.judge), (_DECODINGS, series.decoding))
            )
            return *judge, *decoding, knobs[series], str(series)

        self.all = sorted(knobs, key=rank)

    @classmethod
    def from_frame(cls, scores: pd.DataFrame) -> SeriesIndex:
        return cls(distinct(scores, [*with_labels(CELL, scores), "judge", "decoding", "lambda", "temperature"]))

    def of(self, row: Mapping[str, Any]) -> Series:
        judge, decoding = str(row["judge"]), str(row["decoding"])
        return Series(judge, decoding, setting(row) if (judge, decoding) in self._several else "")

    def parts(self, scores: pd.DataFrame) -> dict[Series, pd.DataFrame]:
        """The scores, by series, in the order of `all`."""
        names = ["judge", "decoding", "lambda", "temperature"]
        numbers = scores.groupby(names, sort=False, dropna=False).ngroup().to_numpy()
        places: dict[Series, list[int]] = defaultdict(list)
        for place, row in enumerate(distinct(scores, names)):
            places[self.of(row)].append(place)
        return {series: scores[np.isin(numbers, places[series])] for series in self.all if series in places}


def setting(row: Mapping[str, Any]) -> str:
    """Lambda and t as a reader sees them; empty for decodings that have neither."""
    lambda_, temperature = number(row["lambda"]), number(row["temperature"])
    parts = [
        f"λ {lambda_:.4g}" if lambda_ is not None else "",
        f"t {temperature:.4g}" if temperature is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def number(value: Any) -> float | None:
    """`value` as a float, or None for None and NaN: a null is None in records and NaN in frames."""
    return None if value is None or pd.isna(value) else float(value)


def range_of(row: Mapping[str, Any]) -> ScoreRange:
    return ScoreRange.of(row)


def ranges_of(frame: pd.DataFrame) -> list[tuple[ScoreRange, pd.DataFrame]]:
    names = with_labels(RANGE, frame)
    return [(range_of(dict(zip(names, ends, strict=True))), part) for ends, part in frame.groupby(names, sort=True)]


def with_labels(columns: Sequence[str], frame: pd.DataFrame) -> list[str]:
    """The columns of a condition or range, and `LABELS` where the table has it."""
    return [*columns, *([LABELS] if LABELS in frame else [])]


def distinct(frame: pd.DataFrame, columns: list[str]) -> list[dict[str, Any]]:
    """The distinct combinations of `columns`, in order of appearance."""
    rows = frame[columns].drop_duplicates().itertuples(index=False)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def first_condition(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows that a figure of judges shows: those without attack and defense, else those of the first pair."""
    pairs = [(row["attack"], row["defense"]) for row in distinct(frame, ["attack", "defense"])]
    attack, defense = ("none", "none") if not pairs or ("none", "none") in pairs else pairs[0]
    rows = frame[(frame["attack"] == attack) & (frame["defense"] == defense)]
    sentences = [f"{axis} {name}" for axis, name in (("attack", attack), ("defense", defense)) if name != "none"]
    return rows, ", ".join(sentences)


def defenses_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(str(row["defense"]) for row in rows)
    return sorted(names, key=lambda name: name != NO_DEFENSE)


def condition_text(row: Mapping[str, Any]) -> str:
    """The dimension, and the attack and the defense where there are such, as in "coherence, attack dsi"."""
    axes = (f"{axis} {row[axis]}" for axis in ("attack", "defense") if row[axis] != "none")
    return ", ".join([str(row["dimension"]), *axes])


def labelled(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Records of cells and series as a frame that tables show: sorted by dimension, attack, defense (in order of
    appearance), range and series, with labels as further columns.

    Added are `series`, such as "pair, contrastive", with its setting where several are tried side by side; `who`, the
    same without; `setting`, lambda and t; `range`; and `condition`, such as "coherence, attack dsi".

    Example:
        >>> cell = dict.fromkeys(CELL, 1) | {"dimension": "coherence", "attack": "dsi", "defense": "none"}
        >>> cell |= {"range_max": 5}
        >>> frame = labelled([cell | {"judge": "pair", "decoding": "contrastive", "lambda": 0.1, "temperature": 1}])
        >>> frame[["series", "setting", "range", "condition"]].iloc[0].tolist()
        ['pair, contrastive', 'λ 0.1, t 1', '1-5', 'coherence, attack dsi']
    """
    rows = [dict(record) for record in records]
    index = SeriesIndex(rows)
    conditions = list(dict.fromkeys((row["dimension"], row["attack"], row["defense"]) for row in rows))
    order = []
    for row in rows:
        series, score_range = index.of(row), range_of(row)
        key = (row["dimension"], row["attack"], row["defense"])
        order.append((conditions.index(key), score_range.order, index.all.index(series)))
        row |= {"series": str(series), "who": f"{series.judge}, {series.decoding}", "setting": setting(row)}
        row |= {"range": str(score_range), "condition": condition_text(row)}
    frame = pd.DataFrame(rows)
    return frame.iloc[sorted(range(len(rows)), key=order.__getitem__)].reset_index(drop=True)
