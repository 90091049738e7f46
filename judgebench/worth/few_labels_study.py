"""Few human ratings of many texts, with each judge's scores of all: a record a judge, decoding and range.

Records are those of texts of which humans rated a part; where they rated all there is nothing to predict, and none.
After `JudgeScores.head`:

- texts, articles, labelled_texts, labelled_articles;
- systems: those of `prediction_powered.predicted_means`, the judge's scores mapped to the humans' scale; and
  judge_misses, True where the judge's own interval leaves out `predicted`; None where one of them is unknown;
- narrower, labels_within, predicted_within: the mean over systems of the share that the judge saves, and half of the
  mean width of the intervals of labels alone and of both;
- narrower_these, labels_these_within, predicted_these_within: the same of these very articles, the target of a page;
- misses, counted: systems whose own interval by the judge misses, of those where that is known;
- differences: those of `prediction_powered.predicted_differences`, of all pairs of the `MOST_PAIRED` systems that
  `predicted` ranks highest, the better one first;
- spearman: `prediction_powered.predicted_spearman` with another judge's scores, `stand_in`, in the place of humans;
  None where there is no other judge;
- reason: why there are no intervals, else None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from judgebench.worth.few_labels import FewLabels
from judgebench.worth.judge_scores import JudgeScores
from judgebench.worth.prediction_powered import TARGETS, predicted_differences, predicted_means, predicted_spearman

MOST_PAIRED = 12
"""Systems whose pairs are compared."""

_STAND_INS = {"main": ("assistant",), "assistant": ("main",), "pair": ("main",)}


def few_labels_records(sides: Sequence[JudgeScores]) -> list[dict[str, Any]]:
    """The records of worth/few_labels.json, see above; none of texts that humans rated all, or not at all."""
    return [_record(side, _stand_in(side, sides)) for side in sides if 0 < _given(side).sum() < len(side.names)]


def few_labels(side: JudgeScores) -> FewLabels:
    """A judge's scores on the humans' scale, beside the ratings."""
    human = side.human if side.scale is None else np.clip(side.human, *side.scale)
    return FewLabels(human, side.on_scale, side.groups, side.systems, side.scale)


def _given(side: JudgeScores) -> np.ndarray:
    return ~np.isnan(side.human)


def _stand_in(side: JudgeScores, sides: Sequence[JudgeScores]) -> JudgeScores | None:
    """The scores of another model on the same texts, in the same range."""
    other = _STAND_INS.get(side.cell.judge, ())
    same = ("dimension", "range", "defense")
    for one in sides:
        alike = all(getattr(one.cell, name) == getattr(side.cell, name) for name in same)
        if alike and one.cell.judge in other and np.array_equal(one.names, side.names):
            return one
    return None


def _record(side: JudgeScores, stand_in: JudgeScores | None) -> dict[str, Any]:
    data, given = few_labels(side), _given(side)
    systems = [one | {"judge_misses": _misses(one)} for one in predicted_means(data)]
    known = [one for one in systems if one["narrower"] is not None]
    missed = [one["judge_misses"] for one in systems if one["judge_misses"] is not None]
    best = sorted((one for one in systems if one["predicted"] is not None), key=lambda one: -float(one["predicted"]))
    names = [one["system"] for one in best[:MOST_PAIRED]]
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    spearman = None
    if stand_in is not None:
        found = predicted_spearman(side.scores, side.human, stand_in.scores, side.groups)
        spearman = {"stand_in": f"{stand_in.cell.judge}, {stand_in.cell.decoding}", **found}
    reasons = [str(one["reason"]) for one in systems if one["reason"]]
    return {
        **side.head,
        "texts": len(side.names),
        "articles": len(np.unique(side.groups)),
        "labelled_texts": int(given.sum()),
        "labelled_articles": len(np.unique(side.groups[given])),
        **{
            f"narrower{end}": _mean([one[f"narrower{end}"] for one in known if one[f"narrower{end}"] is not None])
            for end in TARGETS
        },
        **{
            f"{name}{end}_within": _mean([_half(one, f"{name}{end}") for one in known])
            for end in TARGETS
            for name in ("labels", "predicted")
        },
        "misses": sum(missed) if missed else None,
        "counted": len(missed),
        "systems": systems,
        "differences": predicted_differences(data, pairs) if pairs else [],
        "spearman": spearman,
        "reason": None if known or not reasons else reasons[0],
    }


def _misses(one: Mapping[str, Any]) -> bool | None:
    """True where the judge's own interval leaves out the estimate of labels and judge."""
    if any(one[name] is None for name in ("predicted_low", "judge_low", "judge_high")):
        return None
    return not one["judge_low"] <= one["predicted"] <= one["judge_high"]


def _half(one: Mapping[str, Any], name: str) -> float:
    return float(one[f"{name}_high"] - one[f"{name}_low"]) / 2


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
