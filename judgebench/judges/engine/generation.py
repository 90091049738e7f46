"""Free generation over shared prefixes: main model and assistant in step, one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.plain import Side
from judgebench.judges.engine.prefix import PackedAnswers


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


def speculate(
    main: PackedAnswers,
    assistant: PackedAnswers,
    matched: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    chooser: Chooser,
    draft: int,
    stops: Collection[int],
    max_new_tokens: int,
) -> list[list[int]]:
    """Speculative contrastive decoding: the same answers as `generate` with fewer passes of the main model.

    Each round the assistant drafts a few tokens by its own choice; the main model reads them all in one pass; the
    contrastive choice at each place follows from logits that both have given anyway, and holds as far as the draft
    agreed with it (O'Brien and Lewis 2023 note that both methods pair the same models).

    Args:
        main, assistant: the answers under way.
        matched: gives both models' logits [answers, vocabulary] over one vocabulary.
        draft: tokens drafted in a round, above 0.
        chooser, stops, max_new_tokens: as in `generate`, as is the result.
    """
    chosen = chooser.next_token(*matched(main.logits[0], assistant.logits[0]))
    answers: list[list[int]] = [[] for _ in range(len(chosen))]
    live = list(range(len(answers)))
    new = [[token] for token in chosen.tolist()]
    while True:
        # 1. what was chosen is taken over; complete answers leave
        going = []
        for n, (i, tokens) in enumerate(zip(live, new, strict=True)):
            ended = next((at for at, token in enumerate(tokens) if token in stops), None)
            answers[i] = (answers[i] + tokens[:ended])[:max_new_tokens]
            if ended is None and len(answers[i]) < max_new_tokens:
                going.append(n)
        if not going:
            return answers
        if len(going) < len(live):
            keep = torch.tensor(going)
            live, chosen = [live[n] for n in going], chosen[keep.to(chosen.device)]
            main.keep(keep)
            assistant.keep(keep)
        # 2. the assistant drafts on, 3. the main model reads the draft
        drafted, theirs = [chosen], []
        for _ in range(draft):
            assistant.step(drafted[-1])
            theirs.append(assistant.logits[0])
            drafted.append(assistant.logits[0].argmax(dim=-1))
        ours = main.extend(torch.stack(drafted[:draft], dim=1))[0]
        # 4. the choices hold up to the first that the draft had not foreseen, that one included
        choices = torch.stack([chooser.next_token(*matched(ours[:, j], theirs[j])) for j in range(draft)], dim=1)
        foreseen = choices == torch.stack(drafted[1:], dim=1)
        agreed = (foreseen.long().cumprod(dim=1).sum(dim=1) + 1).clamp(max=draft)
        chosen = choices.gather(1, agreed[:, None] - 1)[:, 0]
        new = [tokens[:count] for tokens, count in zip(choices.tolist(), agreed.tolist(), strict=True)]
        back = [draft - count for count in agreed.tolist()]
        main.rewind(back)
        assistant.rewind(back)
