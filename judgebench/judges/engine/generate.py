"""Free generation: answers of a whole batch, token by token, by one model or by two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase


class PerAnswer(Protocol):
    """State of each answer under way; `keep` goes on with the answers at these ascending indices
    only."""

    def keep(self, which: Tensor) -> None: ...


class Continuations(PerAnswer, Protocol):
    """Free answers of a model, one for each prompt; `logits`: for each exit [prompts, vocabulary]
    float32, of the next token; `step` goes on by one token each, [prompts] int64."""

    logits: list[Tensor]

    def step(self, tokens: Tensor) -> None: ...


class Chooser(Protocol):
    """Chooses the next token of each answer, [answers] int64, from logits [answers, vocabulary]:
    every decoding that can generate is one."""

    def next_token(self, main: Tensor, assistant: Tensor | None) -> Tensor: ...


def stops_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The tokens that end an answer of this model."""
    # a model may end its turn by another token than its text: both end an answer
    ends = getattr(model.generation_config, "eos_token_id", None)
    return {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}


def generate(
    main: Continuations,
    chooser: Chooser,
    stops: Collection[int],
    max_new_tokens: int,
    assistant: Continuations | None = None,
    others: Sequence[PerAnswer] = (),
    check: Callable[[Tensor, Tensor | None], None] = lambda ours, theirs: None,
) -> list[list[int]]:
    """The tokens of each answer, without the one that ends it.

    Args:
        main: the main model's answers; where it has two exits, the second is the assistant's.
        stops: tokens that end an answer.
        assistant: the assistant's answers, where it reads for itself.
        others: what else there is of each answer.
        check: sees the logits of both before each choice.
    """
    models = [main] if assistant is None else [main, assistant]
    answers: list[list[int]] = [[] for _ in main.logits[0]]
    live = list(range(len(answers)))  # the answers still in the batch, in its order
    for count in range(1, max_new_tokens + 1):
        # 1. logits of the next tokens, [live, vocabulary] of each model
        ours, *second_exit = main.logits  # [live, vocabulary] of each exit
        theirs = None
        if assistant is not None:
            theirs = assistant.logits[0]
        elif second_exit:
            theirs = second_exit[0]
        if theirs is not None:
            # models of one family may pad their heads to different sizes behind the same vocabulary
            size = min(ours.shape[1], theirs.shape[1])
            ours, theirs = ours[:, :size], theirs[:, :size].to(ours.device)
        # before the choice: a NaN must be an error, and never a token
        check(ours, theirs)
        # 2. a token each, [live]; it ends its answer or goes on with it
        tokens = chooser.next_token(ours, theirs)  # [live] int64
        going = []
        for place, token in enumerate(tokens.tolist()):
            if token not in stops:
                answers[live[place]].append(token)
                going.append(place)
        # the last token is chosen, and nobody needs what would follow it
        if count == max_new_tokens or not going:
            break
        # 3. ended answers leave the batch
        if len(going) < len(live):
            # once for all: the models, the assistant, and what else an answer has, keep the same
            # places
            keep = torch.tensor(going)
            live = [live[place] for place in going]
            tokens = tokens[keep.to(tokens.device)]
            for each in (*models, *others):
                each.keep(keep)
        # 4. the models read the new tokens
        for model in models:
            model.step(tokens)
    return answers
