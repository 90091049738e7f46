"""Answers that were drawn, as probabilities of the candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judgebench.decoding.parser import parse_answer, parse_place
from judgebench.types import FAILED, Prompt


def shares(prompt: Prompt, answers: Sequence[str]) -> tuple[float, ...]:
    """[candidates] log of each candidate's share of the answers; -inf for none.

    A share is of all answers, so that those which name no candidate (they failed, or name a number between two) take
    from every one alike; nothing is added for candidates that were not drawn.
    """
    named = [candidate_of(prompt, answer) for answer in answers]
    counts = np.array([named.count(value) for value in prompt.condition.range.values])
    with np.errstate(divide="ignore"):
        return tuple(np.log(counts / len(answers)).tolist())


def candidate_of(prompt: Prompt, answer: str) -> float | None:
    """The score that an answer names, if it is one of the candidates."""
    condition = prompt.condition
    read = (
        parse_place(answer, prompt.choices)
        if condition.order
        else parse_answer(answer, condition.range, prompt.choices)
    )
    return read.value if read.status != FAILED and read.value in condition.range.values else None
