"""The interface of engines, and the plain one: one prompt at a time through the model's own attention.

It is slow, and the measure of all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from transformers import PreTrainedModel

from judgebench.judges.engine.attention import own_attention
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.heads import Head
from judgebench.judges.engine.packing import Groups

Wanted = tuple[Groups, CandidateTrie, np.ndarray]
"""Arguments of `Engine.read`: groups, trie and root."""


class Continuations(Protocol):
    """Free answers under way, one for each prompt."""

    logits: list[torch.Tensor]
    """For each exit [prompts, vocabulary] float32: of the next token."""

    def step(self, tokens: torch.Tensor) -> None:
        """Goes on by one token each: [prompts] int64."""

    def keep(self, which: torch.Tensor) -> None:
        """Goes on with the prompts at these ascending indices only."""


class Engine(Protocol):
    """The interface of all that reads prompts: `PrefixEngine`, or `PlainEngine`, which is slow and obviously right; of
    an encoder-decoder model `EncoderDecoderEngine`.

    `root` is what all prompts begin with, if the caller knows of more prompts than these; None lets the engine look.
    """

    head: Head
    computed: int

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: np.ndarray | None = None,
        following: Wanted | None = None,
    ) -> list[torch.Tensor]:
        """For each exit [prompts, candidates] float64 log-probabilities of the candidates as the next text, on the CPU.

        Args:
            following: what will be asked next, with the same groups: packed while a device is at work, if it is one.
        """

    def start(self, groups: Groups, root: np.ndarray | None = None) -> Continuations:
        """Reads the prompts and stands ready to generate."""

    def likelihoods(self, groups: Groups) -> list[list[torch.Tensor]]:
        """For each exit and prompt [tokens - 1] float32: the log-probability of each of the prompt's tokens after its
        first, given those before. Prompts have two tokens at least."""


class PlainEngine:
    """Reads each prompt with a forward pass of its own; the same interface as the prefix engine.

    Args:
        model: any causal language model of transformers.
        exits: see `Head`.
        exact: attention written out in float32 instead of the model's own; without generation.

    Attributes:
        computed: tokens computed so far.
    """

    def __init__(self, model: PreTrainedModel, exits: Sequence[int | None] = (None,), exact: bool = False):
        self.model = model
        self._exact = exact
        self.head = Head(model, exits)
        self.computed = 0

    def read(
        self,
        groups: Groups,
        trie: CandidateTrie,
        root: np.ndarray | None = None,
        following: object | None = None,
    ) -> list[torch.Tensor]:
        """See `Engine.read`; every inner branch of the trie costs a pass of its own."""
        prompts = [ids for group in groups for ids in group]
        per_exit: list[list[torch.Tensor]] = [[] for _ in self.head.exits]
        for ids in prompts:
            columns: list[list[torch.Tensor]] = [[] for _ in self.head.exits]
            for prefix, children in zip(trie.prefixes, trie.children, strict=True):
                states, _ = self.forward(torch.tensor([[*ids.tolist(), *prefix]]), None)
                for column, state in zip(columns, states, strict=True):
                    column.append(self.head.logprobs(state, torch.tensor(children, device=state.device)).cpu())
            for rows, column in zip(per_exit, columns, strict=True):
                rows.append(torch.cat(column, dim=1))
        return [trie.logprobs(torch.cat(rows)) for rows in per_exit]

    def at_branches(self, groups: Groups, trie: CandidateTrie) -> torch.Tensor:
        """See `PrefixEngine.at_branches`."""
        per_exit: list[list[torch.Tensor]] = [[] for _ in self.head.exits]
        for ids in (ids for group in groups for ids in group):
            states = [self.forward(torch.tensor([[*ids.tolist(), *prefix]]), None)[0] for prefix in trie.prefixes]
            for rows, branches in zip(per_exit, zip(*states, strict=True), strict=True):
                rows.append(self.head.logits(torch.cat(branches)))
        return torch.stack([torch.stack(rows) for rows in per_exit]).log_softmax(-1)

    def start(self, groups: Groups, root: np.ndarray | None = None) -> PlainAnswers:
        """See `Engine.start`."""
        return PlainAnswers(self, [ids for group in groups for ids in group])

    def likelihoods(self, groups: Groups) -> list[list[torch.Tensor]]:
        """See `Engine.likelihoods`."""
        per_exit: list[list[torch.Tensor]] = [[] for _ in self.head.exits]
        for ids in (ids for group in groups for ids in group):
            following = torch.tensor(ids[1:].tolist(), device=self.model.device)
            states, _ = self._states(torch.tensor([ids[:-1].tolist()]), None)
            for rows, state in zip(per_exit, states, strict=True):
                rows.append(self.head.each_logprob(state[0], following))
        return per_exit

    def forward(self, token_ids: torch.Tensor, cache: object | None) -> tuple[list[torch.Tensor], object]:
        """[1, tokens] -> for each exit the last token's state [1, hidden]; and the model's own cache."""
        states, cache = self._states(token_ids, cache)
        return [state[:, -1] for state in states], cache

    def _states(self, token_ids: torch.Tensor, cache: object | None) -> tuple[list[torch.Tensor], object]:
        """[1, tokens] -> for each exit the tokens' states [1, tokens, hidden]; and the model's own cache."""
        self.computed += token_ids.numel()
        with own_attention(self.model, self._exact), self.head.capturing() as captured:
            output = self.head.decoder(
                input_ids=token_ids.to(self.model.device), past_key_values=cache, use_cache=not self._exact
            )
        return captured(), getattr(output, "past_key_values", None)


class PlainAnswers:
    """Free answers, each prompt with the model's own cache."""

    def __init__(self, engine: PlainEngine, prompts: Sequence[np.ndarray]):
        self._engine = engine
        self._caches: list[object] = []
        states = []
        for ids in prompts:
            state, cache = engine.forward(torch.tensor([ids.tolist()]), None)
            states.append(state)
            self._caches.append(cache)
        self.logits = self._heads(states)

    def step(self, tokens: torch.Tensor) -> None:
        """See `Continuations.step`."""
        states = []
        for i, token in enumerate(tokens.tolist()):
            state, self._caches[i] = self._engine.forward(torch.tensor([[token]]), self._caches[i])
            states.append(state)
        self.logits = self._heads(states)

    def keep(self, which: torch.Tensor) -> None:
        """See `Continuations.keep`."""
        self._caches = [self._caches[i] for i in which.tolist()]
        self.logits = [logits[which] for logits in self.logits]

    def _heads(self, states: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        head = self._engine.head
        return [head.logits(torch.cat([state[e] for state in states])) for e in range(len(head.exits))]
