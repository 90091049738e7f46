"""Free generation: answers of a whole batch, token by token, by one model or by two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.kernels import to_device


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


@dataclass(frozen=True)
class Pace:
    """When a batch of answers is looked at.

    Attributes:
        look: steps until the host looks again at which answers have ended, for which it waits.
        share: of the batch, which must have ended before what has ended leaves it.
        fewest: answers of a batch that nothing leaves any more.
    """

    look: int = 1
    share: float = 0.0
    fewest: int = 0


def generate(
    main: Continuations,
    chooser: Chooser,
    stops: Collection[int],
    max_new_tokens: int,
    assistant: Continuations | None = None,
    others: Sequence[PerAnswer] = (),
    fail: Callable[[int, int], None] = lambda answer, model: None,
) -> list[list[int]]:
    """The tokens of each answer, without the one that ends it.

    Tokens stay on the device that chooses them. Every few steps, as `main.pace` says where it has
    one, the host looks at all since the last look at once. An answer that has ended stays in its
    batch until then, or longer: what it goes on with is thrown away.

    Args:
        main: the main model's answers; where it has two exits, the second is the assistant's.
        stops: tokens that end an answer.
        assistant: the assistant's answers, where it reads for itself.
        others: what else there is of each answer.
        fail: raises the error of an answer to which a model, 0 or 1, has given a NaN or +inf.
    """
    models = [main] if assistant is None else [main, assistant]
    pace: Pace = getattr(main, "pace", Pace())
    answers: list[list[int]] = [[] for _ in main.logits[0]]
    batch = list(range(len(answers)))  # the answers in the batch, in its order
    going = set(batch)  # of them those that have not ended
    unseen: list[Tensor] = []  # tokens [batch] of each step since the last look
    for count in range(1, max_new_tokens + 1):
        # 1. a token each, [batch] int64
        exits = [*main.logits, *([] if assistant is None else assistant.logits)]
        tokens = _next_tokens(exits, chooser)
        unseen.append(tokens)
        # 2. the host looks at them: one wait for all. Each ends its answer or goes on with it
        last = count == max_new_tokens
        if last or len(unseen) == pace.look:
            for row in torch.stack(unseen).tolist():
                for answer, token in zip(batch, row, strict=True):
                    if answer not in going:
                        continue
                    if token < 0:
                        fail(answer, -1 - token)
                    if token in stops:
                        going.remove(answer)
                    else:
                        answers[answer].append(token)
            unseen = []
            # the last token is chosen, and nobody needs what would follow it
            if last or not going:
                break
            # 3. ended answers leave the batch
            ended = len(batch) - len(going)
            if ended and len(batch) > pace.fewest and ended >= pace.share * len(batch):
                # once for all: the models, the assistant, and what else an answer has, keep the
                # same places
                keep = torch.tensor([i for i, answer in enumerate(batch) if answer in going])
                batch = sorted(going)
                tokens = tokens[to_device(keep, tokens.device)]
                for each in (*models, *others):
                    each.keep(keep)
        # 4. the models read the new tokens; what stands for a NaN until the next look is none
        tokens = tokens.clamp_min(0)
        for model in models:
            model.step(tokens)
    return answers


def _next_tokens(exits: list[Tensor], chooser: Chooser) -> Tensor:
    """The chosen tokens, [batch] int64, from the logits [batch, vocabulary] of a model and, if
    there are more, its assistant; -1 and -2 where theirs hold a NaN or +inf."""
    # models of one family may pad their heads to different sizes behind the same vocabulary
    size = min(logits.shape[1] for logits in exits)
    both = [logits[:, :size].to(exits[0].device) for logits in exits[:2]]
    # the maximum is NaN where any entry is; a NaN must be an error, and never a token
    wrong = [~(logits.amax(dim=1) < float("inf")) for logits in both]  # [batch] of each
    ours, *theirs = map(_without, both, wrong)
    tokens = chooser.next_token(ours, theirs[0] if theirs else None)
    for model, rows in enumerate(wrong):
        tokens = tokens.masked_fill(rows, -1 - model)
    return tokens


def _without(logits: Tensor, rows: Tensor) -> Tensor:
    return logits.masked_fill(rows[:, None], 0.0)
