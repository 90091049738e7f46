"""From prompts to readings: the prompts of a judge and its assistant by what is asked about them. A
reader of each kind of judge stands beside its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from judgebench.decoding.rules import Decoding, Greedy
from judgebench.judges import PassRunner
from judgebench.judges.judge import PromptSet, ReadingJudge
from judgebench.judges.local.batches import Tokens
from judgebench.judges.local.models import Models, Trainers
from judgebench.prompts.thoughts import after_thoughts
from judgebench.prompts.tokens import encode_texts
from judgebench.readings.reading import check_shares
from judgebench.readings.store import ReadingStore
from judgebench.types import (
    Array,
    Condition,
    Generation,
    Prompt,
    Reading,
    Record,
    Row,
    Split,
    by_key,
)

IN_STORE = "none: every reading was in the store"
"""Name of the device where nothing was computed."""


class BaseReader:
    """The readings of prompts by one judge, with its assistant: first `read`, then all else that is
    known.

    Attributes:
        judge: its settings.
        of: the judge, with its decodings and tokenizer.
        models: the models in memory.
        served, evidence: see `judgebench.judges.judge.RunReadings`; None where no server was asked.
        _scored: prompts that the candidates' probabilities answer.
        _asked: prompts that are answered freely, most tokens of an answer, whether it reasons
            first: all prompts in `generate` mode, else those under a defense that asks for words.
    """

    served: Any = None
    evidence: Any = None
    _thoughts: Any = ()  # the passes that write them, which are read first
    origin = ""  # of readings that no model gives

    def __init__(self, judge: ReadingJudge, questions: PromptSet, models: Models | None = None):
        self.judge: Any = judge.settings
        self.of = judge
        self.assistant = judge.assistant
        self.prompts, self.answers = questions
        self.models = models or Models()
        by_defense = by_key(self.prompts, lambda prompt: prompt.condition.defense)
        worded = judge.free_text
        free = [prompt for prompt in self.prompts if prompt.condition.defense not in worded]
        generates = self.judge.mode == "generate"
        self._scored = [] if generates else free
        self._asked = [(free, self.judge.max_new_tokens, False)] if generates and free else []
        for name, most in worded.items():
            if name in by_defense:
                self._asked.append((by_defense[name], most, True))

    @cached_property
    def store(self) -> ReadingStore:
        return self.of.store()

    def runner(self, trainer: Trainers) -> PassRunner:
        return PassRunner(store=self.store, trainer=trainer, models=self.models)

    @cached_property
    def nulls(self) -> dict[Condition, Prompt] | None:
        """Condition -> the prompt about nothing; attacked conditions share the clean one's. None
        without such."""
        if self.assistant.kind != "null_context":
            return None
        nothing: dict[Condition, Prompt] = {}
        nulls = {}
        for condition in dict.fromkeys(prompt.condition for prompt in self.prompts):
            clean = replace(condition, attack="none")
            if clean not in nothing:
                nothing[clean] = self.of.builder.null(clean)
            nulls[condition] = nothing[clean]
        return nulls

    @cached_property
    def _candidates_read(self) -> list[Prompt]:
        """The prompts whose candidates' probabilities are read: those of texts, then those about
        nothing, each once."""
        if not self.nulls:
            return self._scored
        conditions = dict.fromkeys(prompt.condition for prompt in self._scored)
        nulls = {id(self.nulls[condition]): self.nulls[condition] for condition in conditions}
        return [*self._scored, *nulls.values()]

    def _thinking(self) -> list[tuple[list[Prompt], int]]:
        """Prompts whose candidates are read behind thoughts, and most tokens of those."""
        thinking = []
        for name, most in self.of.thinking.items():
            prompts = [each for each in self._candidates_read if each.condition.defense == name]
            if prompts:
                thinking.append((prompts, most))
        return thinking

    @cached_property
    def _after(self) -> dict[int, tuple[Prompt, float]]:
        """A scored prompt's `id` -> the prompt behind which its candidates are read, with the
        thoughts that the store has, and the seconds that these took."""
        after = {id(prompt): (prompt, 0.0) for prompt in self._candidates_read}
        tokenizer = self.of.tokenizer
        for pass_ in self._thoughts:
            keys = [pass_.keys(prompt)[0] for prompt in pass_.prompts]
            if self.store.missing(keys):  # as in a dry run
                continue
            stored = self.store.get(keys)
            for prompt, key in zip(pass_.prompts, keys, strict=True):
                thoughts = stored[key]
                if thoughts.tokens is None:  # a server's answer is a text
                    tokens = encode_texts(tokenizer, [json.loads(thoughts.text or "")["text"]])[0]
                else:
                    tokens = thoughts.tokens.tolist()
                after[id(prompt)] = after_thoughts(prompt, tokens, tokenizer), thoughts.seconds
        return after

    def tokens(self) -> Tokens:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        return {prompt.condition: (0, 0) for prompt in self.prompts}

    def held(self) -> str | None:
        """A sentence on how many readings the store holds already; None where none are read."""
        passes: Sequence[Any] = getattr(self, "passes", ())
        keys = {key for pass_ in passes for prompt in pass_.prompts for key in pass_.keys(prompt)}
        if not keys:
            return None
        left = len(self.store.missing(keys))
        return f"Readings: {len(keys):,}; stored: {len(keys) - left:,}; to be read: {left:,}."

    def estimate(self) -> str | None:
        """An estimate of requests, tokens and money for people to read, where prompts are paid
        for."""
        return None

    @property
    def fingerprints(self) -> Mapping[str, Row]:
        """Role -> title and SHA-256 of each model's content."""
        raise NotImplementedError

    def readings(self, split: Split) -> list[Reading]:
        """The readings of all prompts, once they are read; `split`: group_id -> dev or test."""
        ways: list[tuple[Prompt, Generation | None]] = [(prompt, None) for prompt in self._scored]
        for prompts, _, reasoned in self._asked:
            for how, _ in self._ways(reasoned):
                ways += [(prompt, how) for prompt in prompts]
        return [
            Reading(
                prompt, split[prompt.example.group_id], generation=how, **self.said(prompt, how)
            )
            for prompt, how in ways
        ]

    def said(self, prompt: Prompt, how: Generation | None) -> Record:
        """The content of a reading besides its prompt, of a judge that needs no pass of a model:
        log-probabilities (`how` None), or an answer that was given so, and seconds."""
        raise NotImplementedError

    def read(self, trainer: Trainers) -> Any:
        """Computes and stores what is missing, pass by pass, batch by batch; nothing where there is
        no model."""
        return None

    def device(self, trainer: Any) -> str:
        return self.origin

    def _ways(self, reasoned: bool) -> list[tuple[Generation, Decoding]]:
        """Ways of answering freely: every decoding that can, by main model, assistant or both."""
        alone = ["main", "assistant"] if self.assistant.answers else ["main"]
        decodings = self.of.decodings.items()
        writing = {name: decoding for name, decoding in decodings if decoding.generates}
        return [
            (Generation(judge, name, decoding.lambda_, decoding.temperature, reasoned), decoding)
            for name, decoding in (writing or {"greedy": Greedy()}).items()
            for judge in (["pair"] if decoding.needs_assistant else alone)
        ]

    def _reading(
        self,
        prompt: Prompt,
        split: str,
        logprobs: Array,
        assistant: Array | None,
        seconds: float,
    ) -> Reading:
        """A reading of [candidates] log-probabilities from the store; `UserError` where they sum to
        more than 1."""
        main = tuple(logprobs.tolist())
        other = None if assistant is None else tuple(assistant.tolist())
        for values in (main, other or ()):
            check_shares(values, prompt, self.store.path)
        return Reading(prompt, split, main, other, seconds=seconds)
