"""Free generation: answers of a whole batch, token by token, by one model or by two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.kernels import to_device
from judgebench.types import Array


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

    def leaves(self, going: int, batch: int) -> bool:
        """True where a batch in which so many go on is to go on with these alone."""
        return going < batch > self.fewest and batch - going >= self.share * batch


def generate(
    main: Continuations,
    chooser: Chooser,
    stops: Collection[int],
    max_new_tokens: int,
    assistant: Continuations | None = None,
    others: Sequence[PerAnswer] = (),
    check: Callable[[Array], None] = lambda nan: None,
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
        check: sees at each look which logits held a NaN or +inf, [models, answers] bool.
    """
    models = [main] if assistant is None else [main, assistant]
    pace: Pace = getattr(main, "pace", Pace())
    batch = _Answers(len(main.logits[0]), stops, check)
    for count in range(1, max_new_tokens + 1):
        # 1. logits of the next tokens, [batch, vocabulary] of each model
        ours, *second_exit = main.logits  # [batch, vocabulary] of each exit
        theirs = None
        if assistant is not None:
            theirs = assistant.logits[0]
        elif second_exit:
            theirs = second_exit[0]
        if theirs is not None:
            # models of one family may pad their heads to different sizes behind the same vocabulary
            size = min(ours.shape[1], theirs.shape[1])
            ours, theirs = ours[:, :size], theirs[:, :size].to(ours.device)
        batch.see([ours] if theirs is None else [ours, theirs])
        if pace.look == 1:
            # before the choice: a NaN must be an error, and never a token
            batch.check_logits()
        # 2. a token each, [batch]; it ends its answer or goes on with it
        tokens = chooser.next_token(ours, theirs)  # [batch] int64
        batch.take(tokens)
        # the last token is chosen, and nobody needs what would follow it
        last = count == max_new_tokens
        if last or count % pace.look == 0:
            going = batch.look()
            if last or not going:
                break
            # 3. ended answers leave the batch
            if pace.leaves(len(going), len(tokens)):
                # once for all: the models, the assistant, and what else an answer has, keep the
                # same places
                keep = torch.tensor(going)
                tokens = tokens[to_device(keep, tokens.device)]
                for each in (batch, *models, *others):
                    each.keep(keep)
        # 4. the models read the new tokens
        for model in models:
            model.step(tokens)
    return batch.answers


class _Answers:
    """The answers of a batch so far, and what has come since the last look at them."""

    def __init__(self, count: int, stops: Collection[int], check: Callable[[Array], None]):
        self.answers: list[list[int]] = [[] for _ in range(count)]
        self._batch = list(range(count))  # the answers in the batch, in its order
        self._ended: set[int] = set()
        self._stops = stops
        self._check = check
        self._tokens: list[Tensor] = []  # [batch] of each step
        self._nan: list[Tensor] = []  # [models, batch] of each step

    def see(self, logits: list[Tensor]) -> None:
        """Takes the logits of each model, [batch, vocabulary], before a token is chosen."""
        # the maximum is NaN where any entry is, and a probability is where it is +inf
        largest = torch.stack([each.amax(dim=1) for each in logits])  # [models, batch]
        self._nan.append(~(largest < float("inf")))

    def take(self, tokens: Tensor) -> None:
        """Takes the tokens chosen, [batch]."""
        self._tokens.append(tokens)

    def check_logits(self) -> None:
        """Shows the logits of one step, before a token is chosen from them."""
        self._show([int(answer not in self._ended) for answer in self._batch])

    def look(self) -> list[int]:
        """The places in the batch of answers that go on; what has come since the last look is taken
        up to each answer's end."""
        steps = torch.stack(self._tokens).tolist()  # one wait for all of them
        self._tokens = []
        seen = [0] * len(self._batch)  # steps of each place, that of its end included
        for place, answer in enumerate(self._batch):
            for tokens in steps:
                if answer in self._ended:
                    break
                seen[place] += 1
                if tokens[place] in self._stops:
                    self._ended.add(answer)
                else:
                    self.answers[answer].append(tokens[place])
        if self._nan:
            self._show(seen)
        return [place for place, answer in enumerate(self._batch) if answer not in self._ended]

    def _show(self, seen: list[int]) -> None:
        nan = torch.stack(self._nan).cpu().numpy()  # [steps, models, batch]
        self._nan = []
        found = np.zeros((nan.shape[1], len(self.answers)), bool)  # [models, answers]
        for place, answer in enumerate(self._batch):
            found[:, answer] = nan[: seen[place], :, place].any(axis=0)
        self._check(found)

    def keep(self, which: Tensor) -> None:
        """Goes on with the answers at these places."""
        self._batch = [self._batch[place] for place in which.tolist()]
