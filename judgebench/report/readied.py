"""What defenses found while they got ready, arranged as people read it: standards, the references' scores, detectors,
costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from judgebench.report.detected import DetectorRow, arrange_detectors, detector_sentences
from judgebench.report.results import Estimate
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, number, shown_split

REFERENCES_NOTE = (
    "References by themselves, as the judge scores them: mean of the good ones and of the poor ones, and how far the "
    "good lie above the poor [95 % interval of the mean difference over {groups}, by Student's t]. Cut: share of the "
    "texts that would have gone on."
)
_UNSTEERED = "alpha 0: what the tutor wrote for the development split unsteered."
COSTS_NOTE = (
    "Seconds a sample: reading the prompt, with its share of what the defense made for the context. Context: of what "
    "it made for one context; once: of getting ready, whatever is judged, in this run."
)


@dataclass(frozen=True)
class Standards:
    """What the standard vectors of one dimension are made of, and whether their layer tells more than chance."""

    dimension: str
    made: str
    separability: str


@dataclass(frozen=True)
class ReferenceRow:
    """The judge's scores of one defense's references; None where unknown.

    Attributes:
        name: the defense, or the unsteered tutor.
        split: of the groups; n: pairs with both scores.
        difference: high - low.
        cut: share of texts.
    """

    dimension: str
    name: str
    split: str
    n: int
    high: float | None
    low: float | None
    difference: Estimate
    cut: float | None

    @property
    def told(self) -> bool:
        """Whether the difference's interval leaves out 0."""
        low, high = self.difference.low, self.difference.high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True)
class CostRow:
    """What one defense takes, in seconds."""

    defense: str
    n: int
    seconds: float
    reading: float
    context: float
    once: float


@dataclass(frozen=True)
class Readied:
    """All of a run."""

    standards: Sequence[Standards]
    references: Sequence[ReferenceRow]
    costs: Sequence[CostRow]
    groups: str
    detectors: Sequence[DetectorRow] = ()

    @property
    def references_note(self) -> str:
        """What the references' numbers are."""
        told = REFERENCES_NOTE.format(groups=self.groups)
        return f"{told} {_UNSTEERED}" if any(row.cut is None for row in self.references) else told


def arrange_readied(defense: Results, groups: str = "articles") -> Readied:
    """The records of `defense/`.

    References are those of the shown split; of CAP also those of the development split, where unsteered texts stand
    beside them.

    Args:
        groups: what a group is.
    """
    # without a defense the costs say nothing that the environment does not
    costs = defense.costs if any(one["defense"] != NO_DEFENSE for one in defense.costs) else ()
    ordered = sorted(costs, key=lambda one: one["defense"] != NO_DEFENSE)
    return Readied(
        [_standards(one, groups) for one in defense.standards],
        _references(defense),
        [
            CostRow(one["defense"], int(one["n"]), *(float(one[f"{name}seconds"]) for name in _SECONDS))
            for one in ordered
        ],
        groups,
        arrange_detectors(defense.detectors),
    )


def readied_sentences(readied: Readied) -> list[str]:
    """Whether steering moved what the judge thinks of the references, one sentence a dimension and defense; and whether
    detectors detect, a sentence each."""
    moved = [
        _moved(row, readied.groups)
        for row in readied.references
        if row.name == "cap" and row.difference.value is not None
    ]
    return [*moved, *detector_sentences(readied.detectors)]


_SECONDS = ("", "reading_", "context_", "once_")


def _standards(one: Mapping[str, Any], groups: str) -> Standards:
    scored = sum(score is not None for score in one["scores"])
    made = (
        f"{one['tutor']} wrote {one['candidates']} texts for each of {len(one['groups'])} {groups}; of the {scored} "
        f"that {one['judge']} scored, {one['high_count']} at {one['high_threshold']:.2f} or above make the high "
        f"standard, {one['low_count']} at {one['low_threshold']:.2f} or below the low one."
    )
    layer, layers = int(one["layer"]), len(one["separability"])
    found, chance = (float(one[name][layer - 1]) for name in ("separability", "chance"))
    verdict = "more than chance" if found > chance else "no more than chance"
    told = (
        f"Layer {layer} of {layers} is steered: its separability, {found:.3f}, is {verdict}, for of texts dealt to the "
        f"sets at random 95 % stay below {chance:.3f}"
    )
    if found > chance and layer == int(one["best_layer"]) and layers > 1:
        told += f"; but the best of {layers} layers surpasses that more easily than any one"
    return Standards(str(one["dimension"]), made, f"{told}.")


def _references(defense: Results) -> list[ReferenceRow]:
    rows, frame = [], defense.references
    unsteered = [one for one in defense.strengths if one["alpha"] == 0]
    for dimension in dict.fromkeys(frame["dimension"]):
        at_zero = {one["side"]: one for one in unsteered if one["dimension"] == dimension}
        own = frame[frame["dimension"] == dimension]
        shown = shown_split(own["split"])
        for name in dict.fromkeys(own["defense"]):
            held = own[own["defense"] == name]
            splits = [shown]
            if name == "cap" and at_zero:
                splits += [split for split in dict.fromkeys(held["split"]) if split != shown]
            rows += [_row(dimension, name, split, held[held["split"] == split]) for split in splits]
            if name == "cap" and at_zero:
                means = [number(at_zero[side]["mean"]) if side in at_zero else None for side in ("high", "low")]
                difference = None if None in means else (means[0] or 0.0) - (means[1] or 0.0)
                n = max(int(one["n"]) for one in at_zero.values())
                none = Estimate(difference, None, None)
                rows.append(ReferenceRow(dimension, "  alpha 0", "dev", n, means[0], means[1], none, None))
    return rows


def _row(dimension: str, name: str, split: str, held: pd.DataFrame) -> ReferenceRow:
    both = held[["score_high", "score_low"]].dropna().to_numpy(dtype=np.float64)
    cut = float(held[["high_cut", "low_cut"]].to_numpy(dtype=np.float64).mean()) if len(held) else None
    if not len(both):
        return ReferenceRow(dimension, name, split, 0, None, None, Estimate(None, None, None), cut)
    differences = both[:, 0] - both[:, 1]
    mean, reach = float(differences.mean()), None
    if len(differences) > 1:
        reach = float(stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1)) / math.sqrt(len(differences))
    ends = (None, None) if reach is None else (mean - reach, mean + reach)
    high, low = (float(value) for value in both.mean(axis=0))
    return ReferenceRow(dimension, name, split, len(both), high, low, Estimate(mean, *ends), cut)


def _moved(row: ReferenceRow, groups: str) -> str:
    told = f"{row.dimension}, {row.split} split: "
    difference = row.difference
    if difference.low is None or difference.high is None:
        return f"{told}CAP's good references score {difference.value:+.2f} above its poor ones, of one pair alone."
    ends = f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]"
    if not row.told:
        return (
            f"{told}the judge does not tell CAP's good references from its poor ones by more than chance ({ends}, "
            f"{row.n} {groups})."
        )
    side = "above" if (difference.value or 0.0) > 0 else "below"
    return f"{told}the judge scores CAP's good references {side} its poor ones, by {ends} ({row.n} {groups})."
