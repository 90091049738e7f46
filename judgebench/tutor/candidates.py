"""Candidates: texts that the tutor writes without being steered, from which the standards are drawn (CAP, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judgebench.tutor.tutor import Tutor
from judgebench.tutor.writing import Text
from judgebench.types import Example, Prompt


@dataclass(frozen=True, eq=False)
class Candidate:
    """One text for one context.

    Attributes:
        prompt: what the tutor read.
        index: which of the context's texts, from 0.
        text: what it wrote, trimmed.
        tokens: [tokens] int32 of it, without what ended it.
        cut: whether it would have gone on.
    """

    prompt: Prompt
    index: int
    text: str
    tokens: np.ndarray
    cut: bool

    def as_example(self, dimension: str) -> Example:
        """The candidate as a judged text; nobody has rated it, so its human score is NaN."""
        context = self.prompt.example
        name = f"{context.group_id}/{self.index}"
        return Example(
            name, context.group_id, "tutor", context.source, self.text, {dimension: float("nan")}, context.context
        )


def write_candidates(tutor: Tutor, contexts: Sequence[Example]) -> list[Candidate]:
    """`tutor.spec.candidates` sampled texts of each context, context by context.

    A text depends on the model, the seed, its context and its index alone: more candidates, or other contexts, leave
    those that are there as they are.

    Args:
        contexts: of `asking.contexts_of`.
    """
    prompts = tutor.asking.prompts(contexts)
    texts = [Text(prompt, index) for prompt in prompts for index in range(tutor.spec.candidates)]
    found = tutor.write(texts, tutor.sampling)
    return [
        Candidate(text.prompt, text.index, each.text, each.tokens, each.cut)
        for text, each in zip(texts, found, strict=True)
    ]
