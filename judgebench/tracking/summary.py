"""The numbers of a run under readable names, as they stand in the summary of its W&B run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.metrics.levels import shown_level
from judgebench.results.series import shown_split
from judgebench.tracking.naming import name_of, setting_of

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


def scalars(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """One level's numbers under readable names; nulls are left out.

    The level is `dataset`, or the first where there is no such level. Names are
    split/dimension/range/judge/decoding/number, with attack, defense and a level other than `dataset` after the
    dimension where there are such, and lambda and t after the decoding where one cell holds several.

    Example:
        >>> record = {"level": "dataset", "split": "test", "dimension": "coherence", "attack": "none",
        ...           "defense": "none", "range_min": 1, "range_max": 5, "range_step": 1, "judge": "main",
        ...           "decoding": "greedy", "lambda": None, "temperature": None, "spearman": 0.25}
        >>> scalars([record])
        {'test/coherence/1-5/main/greedy/spearman': 0.25}
    """
    level = shown_level(record["level"] for record in records)
    records = [record for record in records if record["level"] == level]
    names = [name_of(record) for record in records]
    several = {name for name, count in Counter(names).items() if count > 1}
    found: dict[str, float] = {}
    for name, record in zip(names, records, strict=True):
        if name in several:
            name += setting_of(record)
        for key in _SCALARS:
            value = record.get(key)
            if value is not None and math.isfinite(value):
                found[f"{name}/{key}"] = float(value)
    return found


def differences(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """One level's paired differences in Spearman on the test split (else the first), under readable names, without
    nulls.

    Names are as in `scalars`, with `pair contrastive minus/main greedy` for judge and decoding and `mean` for the range
    of that over the ranges; the numbers are difference, low, high, p and p_holm.
    """
    level = shown_level(record["level"] for record in comparisons)
    wanted = {"split": shown_split(record["split"] for record in comparisons), "level": level, "statistic": "spearman"}
    shown = [record for record in comparisons if all(record[name] == value for name, value in wanted.items())]
    names = [name_of({**record, **_compared(record)}) for record in shown]
    several = {name for name, count in Counter(names).items() if count > 1}
    found: dict[str, float] = {}
    for name, record in zip(names, shown, strict=True):
        if name in several:
            name += setting_of({"lambda": record["first_lambda"], "temperature": record["first_temperature"]})
        found |= {f"{name}/{key}": float(record[key]) for key in _DIFFERENCES if record[key] is not None}
    return found


def rankings(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Rankings of systems, under readable names: the numbers of a record of pairwise.json, named as in `scalars`,
    and the systems' Elo, as `test/joint/main/greedy/elo/NAME`; without nulls."""
    found: dict[str, float] = {}
    several = Counter(_pairwise_name(record) for record in records)
    for record in records:
        name = _pairwise_name(record)
        name += setting_of(record) if several[name] > 1 else ""
        given = {key: record[key] for key in _PAIRWISE} | {
            f"elo/{one['system']}": one["elo"] for one in record["ranking"]
        }
        found |= {f"{name}/{key}": float(value) for key, value in given.items() if value is not None}
    return found


def _pairwise_name(record: Mapping[str, Any]) -> str:
    given = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    return "/".join([record["split"], record["dimension"], *given, record["judge"], record["decoding"]])


def _compared(record: Mapping[str, Any]) -> dict[str, str]:
    first, second = (f"{record[f'{who}_judge']} {record[f'{who}_decoding']}" for who in ("first", "second"))
    return {"judge": f"{first} minus", "decoding": second}
