"""References: for each context a high and a low text that a judge can hold others against (CAP, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgebench.runtime.errors import UserError
from judgebench.tutor.asking import GOOD, POOR, REFERENCE, SCORED
from judgebench.tutor.sampling import Sampling
from judgebench.tutor.steering import HIGH, LOW, Standard
from judgebench.tutor.tutor import Tutor
from judgebench.tutor.writing import Text, Written
from judgebench.types import Example


@dataclass(frozen=True)
class Reference:
    """The two texts of one context.

    Attributes:
        group_id: whose.
        high, low: texts.
        high_cut, low_cut: whether a text would have gone on; it then ends where the most tokens were reached.
        seconds: of writing both.
    """

    group_id: str
    high: str
    low: str
    high_cut: bool = False
    low_cut: bool = False
    seconds: float = 0.0


def steered_texts(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alphas: Sequence[float], index: int = 0
) -> dict[float, list[Written]]:
    """Texts of each context under several strengths, all of them in the same batches.

    A text is stored under the model, the standard vectors with their layer, its alpha, its context, the longest length
    and, where tokens are drawn, the seed: a strength that was tried before costs nothing.

    Args:
        contexts: of `asking.contexts_of`.
        standard: where to steer.
        alphas: alpha_h of a text towards the high standard, -alpha_l of one towards the low standard; 0 is the plain
            tutor's text.
        index: which sampled text of each context, where `tutor.sample_references`.

    Returns:
        alpha -> a text a context, in order; a text may be empty.
    """
    prompts = tutor.asking.prompts(contexts, REFERENCE)
    alphas = list(dict.fromkeys(float(alpha) for alpha in alphas))
    texts = [Text(prompt, index, alpha) for prompt in prompts for alpha in alphas]
    found = tutor.write(texts, _sampling(tutor), standard)
    return {alpha: found[i :: len(alphas)] for i, alpha in enumerate(alphas)}


def steered_references(
    tutor: Tutor, contexts: Sequence[Example], standard: Standard, alpha_high: float, alpha_low: float, index: int = 0
) -> list[Reference]:
    """CAP's pairs, in order of the contexts: equations 4 and 5 with these strengths, each at least 0.

    Raises:
        UserError: the tutor wrote nothing; names the context and the strength.
    """
    found = steered_texts(tutor, contexts, standard, [alpha_high, -alpha_low], index)
    remedy = {HIGH: f"lower tutor.alpha_high={alpha_high:g}", LOW: f"lower tutor.alpha_low={alpha_low:g}"}
    return _pairs(contexts, found[float(alpha_high)], found[-float(alpha_low)], remedy)


def asked_references(tutor: Tutor, contexts: Sequence[Example], index: int = 0) -> list[Reference]:
    """W-CAP's pairs: the tutor is simply asked for a good and for a bad text.

    Raises:
        UserError: the tutor wrote nothing; names the context.
    """
    high, low = (_asked(tutor, contexts, kind, None, index) for kind in (GOOD, POOR))
    return _pairs(contexts, high, low, dict.fromkeys((HIGH, LOW), "choose another tutor"))


def scored_references(
    tutor: Tutor, contexts: Sequence[Example], high_score: float, low_score: float, index: int = 0
) -> list[Reference]:
    """Random references: the tutor is asked for a text of a given score (CAP, section 3.2).

    Args:
        high_score, low_score: in the range that `tutor.asking` was made for.

    Raises:
        UserError: the tutor wrote nothing; names the context.
    """
    high, low = (_asked(tutor, contexts, SCORED, score, index) for score in (high_score, low_score))
    return _pairs(contexts, high, low, dict.fromkeys((HIGH, LOW), "choose another tutor"))


def _asked(tutor: Tutor, contexts: Sequence[Example], kind: str, score: float | None, index: int) -> list[Written]:
    prompts = tutor.asking.prompts(contexts, kind, score)
    return tutor.write([Text(prompt, index) for prompt in prompts], _sampling(tutor))


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
