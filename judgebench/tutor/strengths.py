"""How the judge scores steered texts, strength by strength, and which strength comes nearest to a standard (CAP,
appendix D.3, figure 10, tables 12 and 13)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from judgebench.runtime.errors import UserError
from judgebench.tutor.references import steered_texts
from judgebench.tutor.steering import HIGH, LOW, Standard
from judgebench.tutor.tutor import Tutor
from judgebench.types import Example

TextScorer = Callable[[Sequence[Example]], np.ndarray]
"""[examples] the judge's score of each, NaN where it gave none (see `scoring.JudgeScorer.examples`)."""


@dataclass(frozen=True)
class Strength:
    """The judge's scores of the texts that one strength steers.

    Attributes:
        side: `high` or `low`: to which standard.
        alpha: the strength as it acts, of equation 4 or 5.
        n: texts with a score; `empty`: texts of nothing, which have none.
        mean, variance: of their scores; the variance over n - 1.
        low, high: 95 % interval of the mean, by Student's t over contexts.
        target: the score to be met, a threshold of the candidates'.
        chosen: whether its mean is the nearest to it of all that were tried.
    """

    side: str
    alpha: float
    n: int
    empty: int
    mean: float | None
    variance: float | None
    low: float | None
    high: float | None
    target: float
    chosen: bool = False


def measure_strengths(
    tutor: Tutor,
    contexts: Sequence[Example],
    standard: Standard,
    alphas: Sequence[float],
    scorer: TextScorer,
    dimension: str,
    targets: tuple[float, float],
) -> list[Strength]:
    """Every strength towards both standards.

    Args:
        contexts: of `asking.contexts_of`; of training data, as all that something is chosen on.
        alphas: strengths as they act, each at least 0.
        scorer: the judge.
        dimension: what it judges.
        targets: the low and the high score to be met.

    Raises:
        UserError: no text has a score.
    """
    signed = {HIGH: 1.0, LOW: -1.0}
    goals = {LOW: targets[0], HIGH: targets[1]}
    written = steered_texts(tutor, contexts, standard, [sign * alpha for sign in signed.values() for alpha in alphas])
    examples = {
        (alpha, i): replace(
            context,
            example_id=f"{context.group_id}/steered/{alpha:g}",
            system_id="tutor",
            output=text.text,
            human={dimension: math.nan},
        )
        for alpha, texts in written.items()
        for i, (context, text) in enumerate(zip(contexts, texts, strict=True))
        if text.text
    }
    in_groups = sorted(examples, key=lambda key: key[1])  # the texts of a context together, which share its prompt
    if not in_groups:
        raise UserError("tutor.strengths: the tutor wrote nothing at any of them; choose others, or another tutor.")
    scores = dict(zip(in_groups, scorer([examples[key] for key in in_groups]), strict=True))
    found = []
    for side, sign in signed.items():
        tried = [
            _strength(side, alpha, [scores.get((sign * alpha, i)) for i in range(len(contexts))], goals[side])
            for alpha in dict.fromkeys(map(float, alphas))
        ]
        known = [one for one in tried if one.mean is not None]
        if not known:
            raise UserError(f"tutor.strengths: the judge gave no {side} text a score; choose others, or another judge.")
        best = min(known, key=lambda one: (abs((one.mean or 0.0) - one.target), one.alpha))
        found += [replace(one, chosen=one is best) for one in tried]
    return found


def chosen_strength(strengths: Sequence[Strength], side: str) -> float:
    """The chosen alpha of a side."""
    return next(one.alpha for one in strengths if one.side == side and one.chosen)


def _strength(side: str, alpha: float, scores: Sequence[float | None], target: float) -> Strength:
    known = np.array([score for score in scores if score is not None and not math.isnan(score)])
    empty = sum(score is None for score in scores)
    if not known.size:
        return Strength(side, alpha, 0, empty, None, None, None, None, target)
    mean = float(known.mean())
    if known.size == 1:
        return Strength(side, alpha, 1, empty, mean, None, None, None, target)
    variance = float(known.var(ddof=1))
    reach = float(stats.t.ppf(0.975, known.size - 1)) * math.sqrt(variance / known.size)
    return Strength(side, alpha, int(known.size), empty, mean, variance, mean - reach, mean + reach, target)
