"""Values of phrases in gaps: all up to the gap is read once, and only phrase and tail for each
phrase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from judgebench.attacks.gaps import Gap
from judgebench.decoding.rules import Contrastive, Decoding, Expectation, contrast
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.layers import forget_gradients
from judgebench.judges.engine.plain import Engine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.types import ORDERS, Array, Condition, ScoreRange, answered_place
from judgebench.words.errors import UserError


@dataclass(frozen=True)
class Objective:
    """The expected score of a decoding, as in the CAP paper (2.1): sum over k of value_k * p(k), p
    normalized over the candidates; where the decoding contrasts, under the softmax of the adjusted
    scores."""

    name: str
    decoding: Decoding

    def __post_init__(self) -> None:
        # the score of a decoding that picks one candidate moves in jumps, which no search can
        # follow
        if (
            not isinstance(self.decoding, Expectation | Contrastive)
            or self.decoding.rule != "expectation"
        ):
            raise UserError(
                f"attacks: adv_suffix.against: {self.name} picks one candidate, so that most words change "
                "nothing in its score; choose expectation or contrastive_expectation (a decoding "
                "with decoding.rule=expectation)."
            )

    def of(
        self, main: torch.Tensor, assistant: torch.Tensor | None, values: torch.Tensor
    ) -> torch.Tensor:
        """[N] the expected values, from log-probabilities [N, K] of main model and, where the
        decoding needs it, assistant, and the worth [K] of each candidate."""
        adjusted = main
        if isinstance(self.decoding, Contrastive):
            assert assistant is not None
            adjusted = contrast(main, assistant, self.decoding.kappa, self.decoding.alpha)
        return torch.softmax(adjusted, dim=1) @ values.to(adjusted)


@dataclass(frozen=True)
class EngineExit:
    """One of the judge's models: an engine, and which of its exits is read. `nulls` is condition ->
    [tokens] where it reads prompts about nothing, whichever the phrase."""

    engine: Engine
    exit: int = 0
    nulls: Mapping[Condition, Array] | None = None


class PhraseScorer:
    """The objective of phrases in gaps.

    Args:
        main, assistant: whose log-probabilities the objective takes; assistant None where it needs
            none.
        tries: score range -> its candidates' token paths.
        max_batch_tokens: phrases are read together up to so many tokens.
    """

    def __init__(
        self,
        main: EngineExit,
        assistant: EngineExit | None,
        objective: Objective,
        tries: Mapping[ScoreRange, CandidateTrie],
        gaps: Sequence[Gap],
        max_batch_tokens: int,
    ):
        self.gaps = gaps
        self.tries = tries
        self.objective = objective
        self._main = main
        self._assistant = assistant
        self._budget = max_batch_tokens
        self._engines = [main.engine]
        if assistant and assistant.engine is not main.engine:
            self._engines.append(assistant.engine)
        self._silent: dict[Condition, torch.Tensor] = {}

    @property
    def tokens(self) -> int:
        """Tokens computed so far, of all models, those of gradients twice more: for the way
        back."""
        return sum(engine.computed for engine in self._engines)

    @torch.no_grad()
    def values(self, phrases: Sequence[Sequence[int]], at: Sequence[int]) -> Array:
        """[phrases, gaps] float64 the objective of each phrase (tokens) in the gaps numbered
        `at`."""
        count = len(phrases)
        values = np.empty((count, len(at)))
        for column, number in enumerate(at):
            gap = self.gaps[number]
            longest = max(map(len, phrases)) + len(gap.tail)
            batches = max(1, -(-count * longest // self._budget))
            for rows in np.array_split(np.arange(count), batches):
                texts = [gap.filled(phrases[row]) for row in rows.tolist()]
                main, assistant = self._logprobs(gap, texts)
                values[rows, column] = self._worth(gap, main, assistant).cpu().numpy()
        unknown = np.isnan(values).any(axis=0)
        if unknown.any():
            gap = self.gaps[at[int(unknown.argmax())]]
            raise UserError(
                f"The judge answers to example {gap.example.example_id} with NaN, so "
                "its weights or its dtype are not fit to be searched."
            )
        return values

    @torch.no_grad()
    def estimates(
        self,
        before: Sequence[int],
        after: Sequence[int],
        words: Sequence[Sequence[int]],
        anchors: int,
        at: Sequence[int],
        seed: Sequence[int],
    ) -> Array:
        """[words] first-order estimates of the mean objective, over the gaps `at`, with each of
        `words` (tokens) between the tokens `before` and `after`.

        The objective is linear around an anchor word: its value there plus its gradient with
        respect to the embeddings of the anchor's tokens times the difference of embeddings.
        Estimates around several drawn anchors are averaged. Words are compared with anchors of as
        many tokens.
        """
        estimates = np.zeros(len(words))
        lengths = np.array([len(word) for word in words])
        for length in np.unique(lengths):
            members = np.flatnonzero(lengths == length)
            tokens = np.array([words[i] for i in members.tolist()])
            drawn = np.random.default_rng([*seed, int(length)]).permutation(len(tokens))
            # the engine wants different first tokens
            _, first = np.unique(tokens[drawn, 0], return_index=True)
            around = tokens[drawn[np.sort(first)[:anchors]]]
            estimates[members] = self._linear(before, after, tokens, around, at)
        if np.isnan(estimates).any():
            raise UserError(
                "The judge's gradient is NaN, so no word can be chosen by it; take "
                "search=exhaustive, or judge.dtype=float32."
            )
        return estimates

    def forget(self) -> None:
        """Gives back the memory that only a search needs."""
        for engine in self._engines:
            if isinstance(engine, PrefixEngine):
                forget_gradients(engine.model)
                engine.roots.clear()

    def _linear(
        self,
        before: Sequence[int],
        after: Sequence[int],
        words: Array,
        anchors: Array,
        at: Sequence[int],
    ) -> Array:
        """[words] estimates of `words` [words, tokens] around `anchors` [anchors, tokens]."""
        # 1. mean value at the anchors, and for each model the mean gradient [anchors, tokens,
        # hidden] over the gaps
        phrases = [[*before, *anchor, *after] for anchor in anchors.tolist()]
        base = 0.0
        slopes: dict[Any, torch.Tensor] = {}
        for gap in (self.gaps[number] for number in at):
            prompts = [gap.filled(phrase) for phrase in phrases]
            main, assistant = self._logprobs(gap, prompts)
            base += float(self._worth(gap, main, assistant).mean())
            start = len(gap.head) + len(before)
            places = slice(start, start + anchors.shape[1])
            for engine in self._engines:
                if not isinstance(engine, PrefixEngine):
                    raise UserError(
                        "search: the gradient needs judge.engine=prefix; or take search=exhaustive."
                    )
                objective = partial(self._of_exits, engine, gap, main, assistant)
                began = engine.computed
                slope = engine.gradient(
                    prompts, self.tries[gap.condition.range], places, objective, gap.head
                )
                # the way back costs twice the way there
                engine.computed += 2 * (engine.computed - began)
                slopes[engine.model] = slopes.get(engine.model, 0) + slope / len(anchors)
        # 2. sum over anchors a and positions m of slope[a, m] . (embedding(word m) - embedding(a,
        # m))
        rise = np.zeros(len(words))
        batches = np.array_split(np.arange(len(words)), max(1, len(words) // 4096))
        for model, slope in slopes.items():
            total = slope.sum(0)  # [tokens, hidden]
            there = torch.einsum("pmh,pmh->", slope, _embedded(model, anchors, slope.device))
            for rows in batches:
                embedded = _embedded(model, words[rows], slope.device)
                rises = torch.einsum("mh,wmh->w", total, embedded) - there
                rise[rows] += rises.double().cpu().numpy()
        return (base + rise) / len(at)

    def _of_exits(
        self,
        engine: Engine,
        gap: Gap,
        main: torch.Tensor,
        assistant: torch.Tensor | None,
        exits: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """The objective, summed over prompts, with the log-probabilities at an engine's exits in
        place of those that it gave before."""
        other = self._assistant
        if engine is self._main.engine:
            main = exits[self._main.exit]
        # an exit of the main model is read in the same pass
        if other is not None and engine is other.engine and other.nulls is None:
            assistant = exits[other.exit]
        return self._worth(gap, main, assistant).sum()

    def _logprobs(
        self, gap: Gap, prompts: Sequence[Array]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """[prompts, candidates] of main model and assistant, float64."""
        condition = gap.condition
        trie = self.tries[condition.range]
        other = self._assistant
        exits = self._main.engine.read([prompts], trie, gap.head)
        main = exits[self._main.exit]
        if other is None:
            return main, None
        if other.nulls is not None:
            if condition not in self._silent:
                null = other.nulls[condition]
                exits = other.engine.read([[null]], trie, null[:0])
                self._silent[condition] = exits[other.exit]
            silent = self._silent[condition]
            return main, silent.expand(len(prompts), -1)
        if other.engine is self._main.engine:
            return main, exits[other.exit]
        exits = other.engine.read([prompts], trie, gap.head)
        return main, exits[other.exit].to(main.device)

    def _worth(self, gap: Gap, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        return self.objective.of(main, assistant, torch.tensor(worth(gap.condition)))


def _embedded(model: Any, tokens: Array, device: torch.device) -> torch.Tensor:
    """[..., hidden] float32 the embeddings of tokens [...]."""
    ids = torch.as_tensor(tokens, device=device)
    return model.get_input_embeddings()(ids).float()


def worth(condition: Condition) -> tuple[float, ...]:
    """[K] the worth of each candidate to who is judged: the score itself; where texts are compared,
    1 for the place of the judged text, 0 for its rival's and 1/2 for a tie."""
    if condition.order in ORDERS:
        place = ORDERS.index(condition.order) + 1
        return tuple(1 - abs(answered_place(answer) - place) for answer in condition.range.values)
    return condition.range.values
