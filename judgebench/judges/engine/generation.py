"""Free generation over shared prefixes: main model and assistant in step, one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.plain import Side


class Chooser(Protocol):
    """Chooses the next token of each answer; every decoding that can generate is one."""

    def next_token(self, main: Tensor, assistant: Tensor | None) -> Tensor:
        """[answers, vocabulary] logits of each -> [answers] int64."""


def stops_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The tokens that end an answer of this model."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    return {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}


def generate(
    sides: Sequence[Side],
    logits: Callable[[], tuple[Tensor, Tensor | None]],
    chooser: Chooser,
    stops: Collection[int],
    max_new_tokens: int,
) -> list[list[int]]:
    """Goes on with every answer until it stops or is full; finished answers leave the batch.

    Args:
        sides: the main model's answers, and the assistant's where it reads for itself.
        logits: gives both models' logits now, [answers, vocabulary] each.
        stops: tokens that end an answer; not part of it.

    Returns:
        The tokens of each answer.
    """
    ours, theirs = logits()
    answers: list[list[int]] = [[] for _ in range(len(ours))]
    live = list(range(len(answers)))
    for count in range(1, max_new_tokens + 1):
        tokens = chooser.next_token(ours, theirs)
        chosen = tokens.tolist()
        for i, token in zip(live, chosen, strict=True):
            if token not in stops:
                answers[i].append(token)
        going = [n for n, token in enumerate(chosen) if token not in stops]
        if count == max_new_tokens or not going:
            break
        if len(going) < len(live):
            keep = torch.tensor(going)
            live = [live[n] for n in going]
            tokens = tokens[keep.to(tokens.device)]
            for side in sides:
                side.keep(keep)
        for side in sides:
            side.step(tokens)
        ours, theirs = logits()
    return answers
