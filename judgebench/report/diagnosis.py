"""Diagnostics arranged as people read them: how biased a judge is, how stable, how like its assistant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.metrics.levels import shown_level
from judgebench.results.series import NO_DEFENSE, Series, SeriesIndex, defenses_of, number, range_of, shown_split
from judgebench.types import ScoreRange

NOTE = (
    "Wasserstein: how far, as a share of the range, the judge's scores must move on average to be distributed as the "
    "humans' are; it says nothing of which texts get them. Shift: the judge's mean less the humans', as a share of the "
    "range; above 0 the judge scores higher. KL: of the judge's histogram from the humans', in nats. Modal: the score "
    "given most often, and its share. SD: standard deviation of Spearman over the ranges. Self: mean Spearman of the "
    "judge with itself in the other ranges."
)


@dataclass(frozen=True)
class Bias:
    """One series at one range; None where it could not be computed."""

    range: ScoreRange
    wasserstein: float | None
    shift: float | None
    kl: float | None
    modal_score: float | None
    modal_share: float | None


@dataclass(frozen=True)
class Diagnosis:
    """One series under one condition.

    Attributes:
        stability: standard deviation of Spearman over ranges.
        self_agreement: mean Spearman between the judge's own scores at two ranges.
    """

    series: Series
    biases: Sequence[Bias]
    stability: float | None
    self_agreement: float | None


@dataclass(frozen=True)
class Similarity:
    """How alike main model and assistant are at one range.

    Attributes:
        correlation: of their mean candidate log-probabilities.
        agreement: share of the texts of which both find the same candidate most likely.
        main, assistant: (candidate that is most often the most likely one, its share).
    """

    range: ScoreRange
    correlation: float | None
    agreement: float
    main: tuple[str, float]
    assistant: tuple[str, float]


@dataclass(frozen=True)
class Diagnostics:
    """All of one dimension under one attack and defense."""

    condition: str
    series: Sequence[Diagnosis]
    similarities: Sequence[Similarity]


def arrange_diagnostics(
    records: Sequence[Mapping[str, Any]], similarity: Sequence[Mapping[str, Any]] = ()
) -> list[Diagnostics]:
    """By dimension and attack, of the shown split and level, without defense, else under the first one; empty where
    records know nothing of it.

    Args:
        records: metrics.json.
        similarity: `judgebench.metrics.diagnostics.family_records` of the readings.
    """
    split = shown_split(record["split"] for record in records)
    level = shown_level(record["level"] for record in records)
    defense = next(iter(defenses_of(records)), NO_DEFENSE)
    shown = {"split": split, "level": level, "defense": defense}
    records = [record for record in records if all(record[name] == value for name, value in shown.items())]
    index = SeriesIndex(records)
    cells: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        if record.get("modal_share") is not None:
            cells.setdefault(_condition(record), []).append(record)
    return [
        Diagnostics(
            ", ".join(
                [
                    key[0],
                    *(
                        f"{axis} {name}"
                        for axis, name in zip(("attack", "defense"), key[1:], strict=True)
                        if name != "none"
                    ),
                ]
            ),
            [
                _diagnosis(one, [row for row in rows if index.of(row) == one])
                for one in index.all
                if one in map(index.of, rows)
            ],
            [_similarity(row) for row in similarity if (row["split"], *_condition(row)) == (split, *key)],
        )
        for key, rows in cells.items()
    ]


def diagnostics_note(records: Sequence[Mapping[str, Any]]) -> str:
    """What the numbers are, and of which defense, where the run has several."""
    first, *others = defenses_of(records) or [NO_DEFENSE]
    if not others:
        return NOTE
    told = "without defense" if first == NO_DEFENSE else f"under the defense {first}"
    return f"{NOTE} All {told}; metrics.json has the same of {', '.join(others)}."


def span(values: Sequence[float | None], signed: bool = False) -> str:
    """The lowest and highest of the known values, two decimals each, with their signs where wanted.

    Example:
        >>> span([0.114, None, 0.3]), span([None])
        ('0.11 to 0.30', '-')
    """
    known = [f"{value:{'+' if signed else ''}.2f}" for value in sorted(value for value in values if value is not None)]
    if not known:
        return "-"
    return known[0] if known[0] == known[-1] else f"{known[0]} to {known[-1]}"


def _condition(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["dimension"], record["attack"], record["defense"]


def _diagnosis(series: Series, rows: Sequence[Mapping[str, Any]]) -> Diagnosis:
    names = ("bias_wasserstein", "bias_shift", "bias_kl", "modal_score", "modal_share")
    biases = [Bias(range_of(row), *(number(row.get(name)) for name in names)) for row in rows]
    ordered = sorted(biases, key=lambda one: (one.range.minimum, one.range.maximum, one.range.step))
    return Diagnosis(series, ordered, number(rows[0].get("stability")), number(rows[0].get("self_agreement")))


def _similarity(row: Mapping[str, Any]) -> Similarity:
    main, assistant = ((str(row[f"{who}_mode"]), float(row[f"{who}_mode_share"])) for who in ("main", "assistant"))
    return Similarity(range_of(row), number(row["logprob_correlation"]), float(row["mode_agreement"]), main, assistant)
