"""Tuning of a run: which lambda and t each dimension and range gets, and the records of tuning.json."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judgebench.data.split import DEV, TEST
from judgebench.decoding.contrastive import Contrastive
from judgebench.decoding.protocol import Decoding
from judgebench.runtime.errors import UserError
from judgebench.tuning.cells import Cell, Measured, Part, Point, parts_of
from judgebench.tuning.grid import Setting
from judgebench.tuning.optimum import EQUAL
from judgebench.tuning.record import Record
from judgebench.tuning.tuners import PER_RANGE, Dev, Shared, Tuner
from judgebench.types import Reading

EDGE = "edge"
"""The flag of a metric record whose lambda and t lie at an end of what was looked at."""


@dataclass(frozen=True)
class Tuned:
    """What tuning leaves.

    Attributes:
        decodings: cell -> name -> decoding: those that stand there for the configured one of that name, or beside.
        records: those of tuning.json.
    """

    decodings: Mapping[Cell, Mapping[str, Decoding]] = field(default_factory=dict)
    records: Sequence[Record] = ()

    def flagged(self, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The records of metrics.json, with `EDGE` among the flags of those whose setting lies at an edge."""
        # by its setting too: an answer in words is written under the configured one
        names = ("dimension", "range_min", "range_max", "range_step", "decoding", "lambda", "temperature")
        at_edge = {tuple(one[name] for name in names) for one in self.records if one["edge"]}
        return [
            {**one, "flags": [*one["flags"], EDGE]}
            if one["judge"] == "pair" and tuple(one[name] for name in names) in at_edge
            else one
            for one in records
        ]


def check_tuning(
    tuner: Tuner,
    decodings: Mapping[str, Decoding],
    mode: str,
    splits: Collection[str],
    cells: Sequence[Cell],
    models: tuple[str | None, str | None],
) -> None:
    """Refuses what cannot be tuned; to be asked before anything is read.

    Args:
        tuner: how lambda and t are chosen.
        decodings: name -> decoding, as configured.
        mode: the judge's.
        splits: those that hold examples.
        cells, models: see `Tuner.check`.

    Raises:
        UserError: names the config key.
    """
    if mode != "score_tokens":
        raise UserError(
            f"tune={tuner.name}: a free answer is read under one lambda and t, so there is nothing to choose from; use "
            "judge.mode=score_tokens, or tune=none."
        )
    for name in _tuned(tuner, decodings):
        if isinstance(tuner, Shared) and f"{name}{PER_RANGE}" in decodings:
            raise UserError(
                f"decoding {name}{PER_RANGE}: tune=shared gives this name to the decoding that is tuned per range; "
                "call yours something else."
            )
    if tuner.needs_dev and DEV not in splits:
        raise UserError(
            f"tune={tuner.name}: there is no development split to choose lambda and t on; give it articles with "
            "data.dev_share=0.1 (and at least two articles), or take tune=none."
        )
    tuner.check(cells, models)


def tune(readings: Sequence[Reading], decodings: Mapping[str, Decoding], tuner: Tuner | None) -> Tuned:
    """Chooses lambda and t for each cell and each decoding that contrasts.

    Args:
        readings: with log-probabilities of main model and assistant; see `check_tuning`.
        decodings: name -> decoding, as configured.
        tuner: how to choose; None changes nothing.
    """
    if tuner is None:
        return Tuned()
    parts = parts_of(readings)
    found: dict[Cell, dict[str, Decoding]] = {cell: {} for cell in parts}
    records = []
    for name, decoding in _tuned(tuner, decodings).items():
        measured = {cell: Measured(cell, splits, decoding, tuner.grid) for cell, splits in parts.items()}
        for dimension in dict.fromkeys(dimension for dimension, _ in parts):
            held = [one for cell, one in measured.items() if cell[0] == dimension]
            for suffix, settings in tuner.choose(held).items():
                means = _means(held, settings) if isinstance(tuner, Shared) and not suffix else None
                for one, setting in zip(held, settings, strict=True):
                    found[one.cell][name + suffix] = replace(
                        decoding, lambda_=setting.lambda_, temperature=setting.temperature
                    )
                    how = Dev.name if suffix == PER_RANGE else tuner.way(one)
                    records.append(_record(tuner, how, name + suffix, one, setting, means))
    return Tuned(found, records)


def _tuned(tuner: Tuner, decodings: Mapping[str, Decoding]) -> dict[str, Contrastive]:
    contrasting = {name: one for name, one in decodings.items() if isinstance(one, Contrastive)}
    if not contrasting:
        raise UserError(
            f"tune={tuner.name}: no decoding contrasts; choose one, as decoding=[greedy,contrastive], or tune=none."
        )
    for name in tuner.decodings or ():
        if name not in contrasting:
            raise UserError(f"tune.decodings: {name!r} is not one of those that contrast: {', '.join(contrasting)}.")
    return {name: one for name, one in contrasting.items() if tuner.decodings is None or name in tuner.decodings}


def _means(measured: Sequence[Measured], settings: Sequence[Setting]) -> dict[str, float | None]:
    points = [one.at(setting) for one, setting in zip(measured, settings, strict=True)]
    sides = {DEV: [point.dev for point in points], TEST: [point.test for point in points]}
    return {side: _mean(values) for side, values in sides.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _record(
    tuner: Tuner,
    how: str,
    name: str,
    measured: Measured,
    setting: Setting,
    shared: Mapping[str, float | None] | None,
) -> Record:
    dimension, score_range = measured.cell
    kappas, vectors = measured.distinct
    best, exact = measured.best, _exact(measured)
    below = None
    if best is not None and best.dev is not None and exact is not None and best.constant == exact["constant"]:
        below = max(0.0, exact["dev"] - best.dev)
        below = 0.0 if below < EQUAL else below
    sizes = {f"{split}_{what}": _size(measured.parts.get(split), what) for split in (DEV, TEST) for what in _SIZES}
    return {
        "tune": how,
        "decoding": name,
        "rule": measured.decoding.rule,
        "alpha": measured.decoding.alpha,
        "dimension": dimension,
        "range_min": score_range.minimum,
        "range_max": score_range.maximum,
        "range_step": score_range.step,
        **_point(measured.at(setting)),
        **sizes,
        "edge": tuner.at_edge(measured, setting),
        "shared": shared,
        "grid": [_point(point) for point in measured.points],
        "grid_best": None if best is None else _point(best),
        "grid_kappas": kappas,
        "grid_scores": vectors,
        "exact": exact,
        "grid_below_exact": below,
    }


_SIZES = ("examples", "groups")


def _size(part: Part | None, what: str) -> int:
    if part is None:
        return 0
    return len(part.human) if what == "examples" else part.groups


def _point(point: Point) -> dict[str, float | None]:
    setting = point.setting
    return {
        "lambda": setting.lambda_,
        "temperature": setting.temperature,
        "kappa": setting.kappa,
        "dev": point.dev,
        "test": point.test,
        "constant": point.constant,
    }


def _exact(measured: Measured) -> dict[str, Any] | None:
    found = measured.exact
    if found is None:
        return None
    return {
        "kappa": found.kappa,
        "dev": found.value,
        "test": measured.at(Setting(found.kappa, 1.0)).test,
        "constant": found.constant,
        "low": found.low,
        "high": _ending(found.high),
        "width": _ending(found.width),
        "intervals": [[low, _ending(high)] for low, high in found.intervals],
        "breakpoints": found.breakpoints,
    }


def _ending(value: float) -> float | None:
    return value if math.isfinite(value) else None
