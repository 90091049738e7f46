"""What phrases are worth in gaps: everything up to the gap is read once, and only phrase and tail for each phrase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from judgebench.attacks.search.gaps import Gap
from judgebench.attacks.search.objective import Objective
from judgebench.errors import UserError
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.layers import forget_gradients
from judgebench.judges.engine.plain import Engine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.types import ORDERS, Condition, ScoreRange, answered_place


@dataclass(frozen=True)
class Listener:
    """One of the judge's voices: an engine, and which of its exits is read.

    Attributes:
        nulls: condition -> [tokens] the prompt about nothing, if that is what it reads whatever the phrase.
    """

    engine: Engine
    exit: int = 0
    nulls: Mapping[Condition, np.ndarray] | None = None


class PhraseScorer:
    """The objective of phrases in gaps.

    Args:
        main, assistant: whose log-probabilities the objective takes; assistant None where it needs none.
        objective: what is maximized.
        tries: score range -> its candidates' token paths.
        gaps: where phrases go.
        token_budget: phrases are read together up to so many tokens.

    Raises:
        UserError: in `values` and `estimates`: a NaN.
    """

    def __init__(
        self,
        main: Listener,
        assistant: Listener | None,
        objective: Objective,
        tries: Mapping[ScoreRange, CandidateTrie],
        gaps: Sequence[Gap],
        token_budget: int,
    ):
        self.gaps = gaps
        self._main, self._assistant, self._objective = main, assistant, objective
        self._tries, self._budget = tries, token_budget
        self._silent: dict[Condition, torch.Tensor] = {}

    @property
    def tokens(self) -> int:
        """Tokens computed so far, of all models, those of gradients twice more: for the way back."""
        engines = {id(one.engine): one.engine for one in (self._main, self._assistant) if one is not None}
        return sum(engine.computed for engine in engines.values())

    @torch.no_grad()
    def values(self, phrases: Sequence[Sequence[int]], at: Sequence[int]) -> np.ndarray:
        """[phrases, gaps] float64 the objective of each phrase (tokens) in the gaps numbered `at`."""
        found = np.empty((len(phrases), len(at)))
        for column, number in enumerate(at):
            gap = self.gaps[number]
            for rows in self._parts(phrases, gap):
                prompts = [gap.filled(phrases[row]) for row in rows.tolist()]
                main, assistant = self._logprobs(gap, prompts)
                found[rows, column] = self._worth(gap, main, assistant).cpu().numpy()
        if np.isnan(found).any():
            number = at[int(np.isnan(found).any(axis=0).argmax())]
            raise UserError(
                f"The judge answers to example {self.gaps[number].example.example_id} with NaN, so its weights or its "
                "dtype are not fit to be searched."
            )
        return found

    @torch.no_grad()
    def estimates(
        self,
        before: Sequence[int],
        after: Sequence[int],
        words: Sequence[Sequence[int]],
        anchors: int,
        at: Sequence[int],
        seed: Sequence[int],
    ) -> np.ndarray:
        """[words] first-order estimates of the mean objective with each word between the tokens `before` and `after`.

        The objective is linear around an anchor word: its value there plus its gradient with respect to the embeddings
        of the anchor's tokens times the difference of embeddings. Estimates around several anchors are averaged. Words
        are compared with anchors of as many tokens.

        Args:
            words: tokens of each.
            anchors: words drawn to linearize at.
            at: the gaps whose mean is estimated.
            seed: of the drawing.
        """
        found = np.zeros(len(words))
        lengths = np.array([len(word) for word in words])
        for length in np.unique(lengths):
            members = np.flatnonzero(lengths == length)
            tokens = np.array([words[i] for i in members.tolist()])
            drawn = np.random.default_rng([*seed, int(length)]).permutation(len(tokens))
            _, first = np.unique(tokens[drawn, 0], return_index=True)  # the engine wants different first tokens
            around = tokens[drawn[np.sort(first)[:anchors]]]
            found[members] = self._linear(before, after, tokens, around, at)
        if np.isnan(found).any():
            raise UserError(
                "The judge's gradient is NaN, so no word can be chosen by it; take search=exhaustive or halving, or "
                "judge.dtype=float32."
            )
        return found

    def forget(self) -> None:
        """Gives back the memory that only a search needs."""
        for one in (self._main, self._assistant):
            if one is not None and isinstance(one.engine, PrefixEngine):
                forget_gradients(one.engine.model)
                one.engine.roots.clear()

    def _linear(
        self,
        before: Sequence[int],
        after: Sequence[int],
        words: np.ndarray,
        anchors: np.ndarray,
        at: Sequence[int],
    ) -> np.ndarray:
        """[words] estimates of `words` [words, tokens] around `anchors` [anchors, tokens]."""
        phrases = [[*before, *anchor, *after] for anchor in anchors.tolist()]
        base = 0.0
        slopes: dict[int, torch.Tensor] = {}
        embed: dict[int, torch.nn.Module] = {}
        for number in at:
            gap = self.gaps[number]
            prompts = [gap.filled(phrase) for phrase in phrases]
            main, assistant = self._logprobs(gap, prompts)
            base += float(self._worth(gap, main, assistant).mean())
            start = len(gap.head) + len(before)
            for one, slope in self._slopes(gap, prompts, slice(start, start + anchors.shape[1]), main, assistant):
                model = one.engine.model  # type: ignore[attr-defined]
                embed[id(model)] = model.get_input_embeddings()
                slopes[id(model)] = slopes.get(id(model), 0) + slope / len(anchors)
        rise = np.zeros(len(words))
        for name, slope in slopes.items():
            device = slope.device
            # sum over anchors a and places m of slope[a, m] . (embedding(word m) - embedding(a, m))
            own = embed[name](torch.as_tensor(anchors, device=device)).float()
            there = torch.einsum("pmh,pmh->", slope, own)
            total = slope.sum(0)
            for rows in np.array_split(np.arange(len(words)), max(1, len(words) // 4096)):
                embedded = embed[name](torch.as_tensor(words[rows], device=device)).float()
                rise[rows] += (torch.einsum("mh,wmh->w", total, embedded) - there).double().cpu().numpy()
        return (base + rise) / len(at)

    def _slopes(
        self,
        gap: Gap,
        prompts: Sequence[np.ndarray],
        places: slice,
        main: torch.Tensor,
        assistant: torch.Tensor | None,
    ) -> list[tuple[Listener, torch.Tensor]]:
        """For each model that hears the phrase [prompts, places, hidden] the gradient of the summed objective."""
        trie = self._tries[gap.condition.range]
        together = self._assistant is not None and self._assistant.engine is self._main.engine

        def of_main(exits: list[torch.Tensor]) -> torch.Tensor:
            theirs = assistant
            if together and self._assistant is not None and self._assistant.nulls is None:
                theirs = exits[self._assistant.exit]
            return self._worth(gap, exits[self._main.exit], theirs).sum()

        def of_assistant(exits: list[torch.Tensor]) -> torch.Tensor:
            assert self._assistant is not None
            return self._worth(gap, main, exits[self._assistant.exit]).sum()

        heard: list[tuple[Listener, torch.Tensor]] = []
        for one, value in ((self._main, of_main), (self._assistant, of_assistant)):
            if one is None or (one is self._assistant and together):
                continue
            if not isinstance(one.engine, PrefixEngine):
                raise UserError("search: the gradient needs judge.engine=prefix; or take search=exhaustive or halving.")
            began = one.engine.computed
            heard.append((one, one.engine.gradient(prompts, trie, places, value, gap.head)))
            one.engine.computed += 2 * (one.engine.computed - began)  # the way back costs twice the way there
        return heard

    def _parts(self, phrases: Sequence[Sequence[int]], gap: Gap) -> list[np.ndarray]:
        """Rows of phrases that are read together, about `token_budget` tokens each."""
        longest = max(map(len, phrases)) + len(gap.tail)
        return np.array_split(np.arange(len(phrases)), max(1, -(-len(phrases) * longest // self._budget)))

    def _logprobs(self, gap: Gap, prompts: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """[prompts, candidates] of main model and assistant, float64."""
        trie = self._tries[gap.condition.range]
        exits = self._main.engine.read([prompts], trie, gap.head)
        other = self._assistant
        if other is None:
            return exits[self._main.exit], None
        if other.nulls is not None:
            if gap.condition not in self._silent:
                null = other.nulls[gap.condition]
                self._silent[gap.condition] = other.engine.read([[null]], trie, null[:0])[other.exit]
            return exits[self._main.exit], self._silent[gap.condition].expand(len(prompts), -1)
        if other.engine is not self._main.engine:
            theirs = other.engine.read([prompts], trie, gap.head)[other.exit]
            return exits[self._main.exit], theirs.to(exits[self._main.exit].device)
        return exits[self._main.exit], exits[other.exit]

    def _worth(self, gap: Gap, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        return self._objective.of(main, assistant, torch.tensor(worth(gap.condition)))


def worth(condition: Condition) -> tuple[float, ...]:
    """[K] what each candidate is worth to who is judged: the score itself; where texts are compared, 1 for the place of
    the judged text, 0 for its rival's and 1/2 for a tie."""
    if condition.order in ORDERS:
        own = ORDERS.index(condition.order) + 1
        return tuple(1 - abs(answered_place(answer) - own) for answer in condition.range.values)
    return condition.range.values
