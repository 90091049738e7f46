"""References: for each context a high and a low text that a judge can hold others against (CAP, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from judgebench.runtime.errors import UserError
from judgebench.tutor.candidates import TextScorer
from judgebench.tutor.steering import HIGH, LOW, Standard
from judgebench.tutor.tutor import GOOD, POOR, REFERENCE, SCORED, Tutor, written_example
from judgebench.tutor.writing import Sampling, Text, Written
from judgebench.types import Example


@dataclass(frozen=True)
class Reference:
    """The two texts of one context. `high_cut` and `low_cut` are True where one ends at the most tokens; `seconds` is
    the time of both."""

    group_id: str
    high: str
    low: str
    high_cut: bool = False
    low_cut: bool = False
    seconds: float = 0.0


def steered_texts(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alphas: Sequence[float]
) -> dict[float, list[Written]]:
    """Texts of each context under several strengths, in the same batches: alpha -> a text a context, in order; a text
    may be empty.

    A text is stored under the model, the standard vectors with their layer, its alpha, its context, the longest length
    and, where tokens are drawn, the seed: a strength that was tried before costs nothing.

    Args:
        alphas: alpha_h of a text towards the high standard, -alpha_l of one towards the low standard; 0 is the plain
            tutor's text.
    """
    prompts = tutor.prompts(contexts, REFERENCE)
    alphas = list(dict.fromkeys(float(alpha) for alpha in alphas))
    texts = [Text(prompt, alpha=alpha) for prompt in prompts for alpha in alphas]
    written = tutor.write(texts, _sampling(tutor), standard)
    return {alpha: written[i :: len(alphas)] for i, alpha in enumerate(alphas)}


def steered_references(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alpha_high: float, alpha_low: float
) -> list[Reference]:
    """CAP's pairs, in order of the contexts: equations 4 and 5 with these strengths, each at least 0. `UserError` where
    the tutor wrote nothing."""
    texts = steered_texts(tutor, contexts, standard, [alpha_high, -alpha_low])
    remedy = {HIGH: f"lower tutor.alpha_high={alpha_high:g}", LOW: f"lower tutor.alpha_low={alpha_low:g}"}
    return _pairs(contexts, texts[float(alpha_high)], texts[-float(alpha_low)], remedy)


def asked_references(
    tutor: Tutor, contexts: Sequence[Example], scores: tuple[float, float] | None = None
) -> list[Reference]:
    """W-CAP's pairs, for which the tutor is asked for a good and for a bad text; or random references, for which it is
    asked for a text of each of two scores, the high one first (CAP, section 3.2). `UserError` where the tutor wrote
    nothing."""
    kinds = ((GOOD, None), (POOR, None)) if scores is None else tuple((SCORED, score) for score in scores)
    high, low = (
        tutor.write([Text(prompt) for prompt in tutor.prompts(contexts, kind, score)], _sampling(tutor))
        for kind, score in kinds
    )
    return _pairs(contexts, high, low, dict.fromkeys((HIGH, LOW), "choose another tutor"))


def _sampling(tutor: Tutor) -> Sampling | None:
    return tutor.sampling if tutor.spec.sample_references else None


def _pairs(
    contexts: Sequence[Example], high: Sequence[Written], low: Sequence[Written], remedy: dict[str, str]
) -> list[Reference]:
    pairs = []
    for context, good, bad in zip(contexts, high, low, strict=True):
        for side, each in ((HIGH, good), (LOW, bad)):
            if not each.text:
                raise UserError(
                    f"tutor: the {side} reference of group {context.group_id} is empty, and a judge cannot hold a text "
                    f"against nothing; {remedy[side]}."
                )
        seconds = good.seconds + bad.seconds
        pairs.append(Reference(context.group_id, good.text, bad.text, good.cut, bad.cut, seconds))
    return pairs


@dataclass(frozen=True)
class Strength:
    """The judge's scores of the texts that one strength steers.

    Attributes:
        side: `high` or `low`: to which standard.
        alpha: the strength as it acts, of equation 4 or 5.
        n, empty: texts with a score, and empty texts, which have none.
        mean, variance: of their scores; the variance over n - 1.
        low, high: 95 % interval of the mean, by Student's t over contexts.
        target: the score to be met, a threshold of the candidates'.
        chosen: True where its mean is the nearest to the target of all that were tried.
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
    targets: tuple[float, float],
) -> list[Strength]:
    """Every strength towards both standards.

    Args:
        contexts: of training data, as all that something is chosen on.
        alphas: strengths as they act, each at least 0.
        targets: the low and the high score to be met.

    Raises:
        UserError: no text has a score.
    """
    signed = {HIGH: 1.0, LOW: -1.0}
    goals = {LOW: targets[0], HIGH: targets[1]}
    written = steered_texts(tutor, contexts, standard, [sign * alpha for sign in signed.values() for alpha in alphas])
    examples = {
        (alpha, i): written_example(context, f"steered/{alpha:g}", text.text)
        for alpha, texts in written.items()
        for i, (context, text) in enumerate(zip(contexts, texts, strict=True))
        if text.text
    }
    in_groups = sorted(examples, key=lambda key: key[1])  # the texts of a context together, which share its prompt
    if not in_groups:
        raise UserError("tutor.strengths: the tutor wrote nothing at any of them; choose others, or another tutor.")
    scores = dict(zip(in_groups, scorer([examples[key] for key in in_groups]), strict=True))
    strengths = []
    for side, sign in signed.items():
        tried = [
            _strength(side, alpha, [scores.get((sign * alpha, i)) for i in range(len(contexts))], goals[side])
            for alpha in dict.fromkeys(map(float, alphas))
        ]
        scored = [strength for strength in tried if strength.mean is not None]
        if not scored:
            raise UserError(f"tutor.strengths: the judge gave no {side} text a score; choose others, or another judge.")
        best = min(scored, key=lambda strength: (abs((strength.mean or 0.0) - strength.target), strength.alpha))
        strengths += [replace(strength, chosen=strength is best) for strength in tried]
    return strengths


def selected_strength(strengths: Sequence[Strength], side: str) -> float:
    """The chosen alpha of a side."""
    return next(strength.alpha for strength in strengths if strength.side == side and strength.chosen)


def _strength(side: str, alpha: float, scores: Sequence[float | None], target: float) -> Strength:
    known = np.array([score for score in scores if score is not None and not math.isnan(score)])
    empty = sum(score is None for score in scores)
    if not known.size:
        return Strength(side, alpha, 0, empty, None, None, None, None, target)
    mean = float(known.mean())
    if known.size == 1:
        return Strength(side, alpha, 1, empty, mean, None, None, None, target)
    variance = float(known.var(ddof=1))
    half = float(stats.t.ppf(0.975, known.size - 1)) * math.sqrt(variance / known.size)
    return Strength(side, alpha, int(known.size), empty, mean, variance, mean - half, mean + half, target)
