"""Free generation over shared prefixes: main model and assistant in step, one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import torch

from judgebench.judges.engine import Answers


class Chooser(Protocol):
    """Chooses the next token of each answer; every decoding that can generate is one."""

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """[answers, vocabulary] logits of each -> [answers] int64."""


def generate(
    sides: Sequence[Answers],
    logits: Callable[[], tuple[torch.Tensor, torch.Tensor | None]],
    chooser: Chooser,
    stops: Collection[int],
    max_new_tokens: int,
) -> list[list[int]]:
    """Goes on with every answer until it stops or is full; finished answers leave the batch.

    Args:
        sides: the answers under way, of the main model and of the assistant where it reads for itself.
        logits: the main model's and the assistant's logits now, [answers, vocabulary] each.
        chooser: picks each next token.
        stops: tokens that end an answer; not part of it.
        max_new_tokens: most tokens of an answer.

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
