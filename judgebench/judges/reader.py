"""From prompts to readings: which passes of which models an experiment needs, what of them is missing, and the reading
that main model and assistant give together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from transformers import PreTrainedTokenizerBase

from judgebench.decoding.rules import Decoding, Greedy
from judgebench.judges.assistants import Assistant
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.loop import Models, compute
from judgebench.judges.passes import GeneratePass, ModelView, Pass, ScorePass
from judgebench.judges.spec import JudgeSettings, JudgeSpec
from judgebench.readings.reading import check_shares
from judgebench.readings.store import ReadingStore
from judgebench.types import Condition, Generation, Prompt, Reading, ScoreRange


class BaseReader:
    """Prompts by how they are answered, for readers of models and of served judges alike."""

    judge: JudgeSettings
    prompts: Sequence[Prompt]
    store: ReadingStore
    worded: Mapping[str, int]

    @cached_property
    def _free(self) -> list[Prompt]:
        """Prompts under no defense that asks for words."""
        return [prompt for prompt in self.prompts if prompt.condition.defense not in self.worded]

    @cached_property
    def _scored(self) -> list[Prompt]:
        """Prompts that the candidates' probabilities answer."""
        return [] if self.judge.mode == "generate" else self._free

    def _under(self, defense: str) -> list[Prompt]:
        return [prompt for prompt in self.prompts if prompt.condition.defense == defense]

    def _reading(
        self, prompt: Prompt, split: str, logprobs: np.ndarray, assistant: np.ndarray | None, seconds: float
    ) -> Reading:
        """A reading of [candidates] log-probabilities from the store.

        Raises:
            UserError: they sum to more than 1.
        """
        own, other = tuple(logprobs.tolist()), None if assistant is None else tuple(assistant.tolist())
        for values in (own, other or ()):
            check_shares(values, prompt, self.store.path)
        return Reading(prompt, split, own, other, seconds=seconds)


def null_prompts(prompts: Sequence[Prompt], null: Callable[[Condition], Prompt]) -> dict[Condition, Prompt]:
    """Condition -> the prompt about nothing; attacked conditions share the clean one's."""
    clean = {condition: replace(condition, attack="none") for condition in (prompt.condition for prompt in prompts)}
    nothing = {condition: null(condition) for condition in dict.fromkeys(clean.values())}
    return {condition: nothing[clean[condition]] for condition in clean}


@dataclass
class Reader(BaseReader):
    """Reads prompts under one judge and assistant that keep `judgebench.config.rules.SETTINGS`.

    Args:
        judge, assistant: as configured.
        decodings: name -> decoding; what `generate` answers under, and whether an assistant is needed at all.
        tokenizer: the main model's.
        prompts: what is read.
        null: condition -> the prompt about nothing.
        store: where readings are kept.
        worded: defense -> most tokens of an answer, of those under which the judge answers in words and gives its
            number last, whatever `judge.mode` is.

    Attributes:
        models: the models in memory.
    """

    judge: JudgeSpec
    assistant: Assistant
    decodings: Mapping[str, Decoding]
    tokenizer: PreTrainedTokenizerBase
    prompts: Sequence[Prompt]
    null: Callable[[Condition], Prompt]
    store: ReadingStore
    models: Models = field(default_factory=Models)
    worded: Mapping[str, int] = field(default_factory=dict)
    served: ClassVar[None] = None
    evidence: ClassVar[None] = None
    _generated: list[tuple[Generation, GeneratePass]] = field(default_factory=list, init=False)

    @cached_property
    def passes(self) -> list[Pass]:
        """Every pass that the experiment needs, whether or not its readings are stored."""
        return [*(self._scoring() if self._scored else []), *self._generating()]

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Role -> title and SHA-256 of each model's content, and how it is computed."""
        views = [self.main, *([self.other] if self.other and self.assistant.kind == "model" else [])]
        roles = ("main", "assistant")
        return {
            role: {"title": view.source.title, "sha256": view.fingerprint, **view.arithmetic()}
            for role, view in zip(roles, views, strict=False)
        }

    def read(self, data: L.LightningDataModule, trainer: Callable[[list[Callback]], L.Trainer]) -> L.Trainer | None:
        """Computes and stores what is missing, pass by pass, batch by batch.

        Args:
            data: its `batches` are set to what is to be read.
            trainer: makes a Trainer with the given callbacks.

        Returns:
            The last trainer that ran; None if nothing was missing.
        """
        return compute(self.passes, self.judge.token_budget, self.store, self.models, data, trainer)

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, from the store; of free answers one a prompt and way of answering.

        Args:
            split: group_id -> dev or test.
        """
        passes = self.passes
        keys = [key for pass_ in passes for prompt in pass_.prompts for key in pass_.keys(prompt)]
        stored = self.store.get(keys)
        readings = []
        for prompt in self._scored:
            main = stored[self._score.key(self.main, prompt)]
            assistant_key = self._assistant_key(prompt)
            other = None if assistant_key is None else stored[assistant_key]
            assert main.logprobs is not None
            seconds = main.seconds + (other.seconds if other is not None and self.assistant.kind == "model" else 0.0)
            theirs = None if other is None else other.logprobs
            readings.append(self._reading(prompt, split[prompt.example.group_id], main.logprobs, theirs, seconds))
        readings += [
            Reading(prompt, split[prompt.example.group_id], text=answer.text, generation=how, seconds=answer.seconds)
            for how, pass_ in self._generated
            for prompt in pass_.prompts
            for answer in [stored[pass_.keys(prompt)[0]]]
        ]
        return readings

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        """The name of what computed."""
        if trainer is None:
            return "none: every reading was in the store"
        device = trainer.strategy.root_device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type

    @cached_property
    def main(self) -> ModelView:
        """The judge's own view."""
        source = self.judge.source
        return ModelView(source, source.fingerprint(self.store.file_digest), self.judge.engine)

    @cached_property
    def other(self) -> ModelView | None:
        """The assistant's view; the null context is the main model's own."""
        if self.assistant.kind == "none":
            return None
        if self.assistant.source is not None:
            source = self.assistant.source
            return ModelView(source, source.fingerprint(self.store.file_digest), self.judge.engine)
        main = self.main
        return ModelView(main.source, main.fingerprint, main.engine, self.assistant.layer)

    @cached_property
    def nulls(self) -> dict[Condition, Prompt] | None:
        """Condition -> the prompt about nothing; None where no assistant reads it."""
        if self.assistant.kind != "null_context":
            return None
        return null_prompts(self.prompts, self.null)

    @cached_property
    def _tries(self) -> dict[ScoreRange, CandidateTrie]:
        ranges = dict.fromkeys(prompt.condition.range for prompt in self.prompts)
        return {r: CandidateTrie.of(self.tokenizer, r.candidates) for r in ranges}

    @cached_property
    def _score(self) -> ScorePass:
        views = [self.main, self.other] if self.assistant.kind == "early_exit" else [self.main]
        nulls: dict[int, Prompt] = {}  # attacked conditions share the clean one's
        if self.nulls is not None:
            conditions = dict.fromkeys(prompt.condition for prompt in self._scored)
            nulls = {id(null): null for null in (self.nulls[condition] for condition in conditions)}
        return ScorePass([v for v in views if v], [*self._scored, *nulls.values()], self._tries)

    def _scoring(self) -> list[Pass]:
        if self.assistant.kind == "model" and self.other:
            return [self._score, ScorePass([self.other], self._scored, self._tries)]
        return [self._score]

    def _assistant_key(self, prompt: Prompt) -> str | None:
        if self.other is None:
            return None
        return self._score.key(self.other, self.nulls[prompt.condition] if self.nulls else prompt)

    def _generating(self) -> list[Pass]:
        """Free answers: of all prompts in `generate` mode, else of those under a defense that asks for words."""
        if self.judge.mode == "generate" and self._free:
            self._answers(self._free, self.judge.max_new_tokens, False)
        for defense, max_tokens in self.worded.items():
            if prompts := self._under(defense):
                self._answers(prompts, max_tokens, True)
        return [pass_ for _, pass_ in self._generated]

    def _answers(self, prompts: Sequence[Prompt], max_new_tokens: int, reasoned: bool) -> None:
        writing = {name: decoding for name, decoding in self.decodings.items() if decoding.generates}
        for name, decoding in (writing or {"greedy": Greedy()}).items():
            options: dict[str, Any] = {"chooser": decoding, "prompts": prompts, "tokenizer": self.tokenizer}
            options["max_new_tokens"] = max_new_tokens
            how = {"decoding": name, "lambda_": decoding.lambda_, "temperature": decoding.temperature}
            how |= {"reasoned": reasoned}
            if decoding.needs_assistant:
                draft = self.judge.draft_tokens
                pair = GeneratePass(self.main, self.other, self.nulls, **options, draft=draft)
                self._generated.append((Generation("pair", **how), pair))  # type: ignore[arg-type]
                continue
            self._generated.append((Generation("main", **how), GeneratePass(self.main, None, None, **options)))  # type: ignore[arg-type]
            # asked about nothing, the main model says the same to every example: no judge of its own
            if self.other and self.nulls is None:
                alone = GeneratePass(self.other, None, None, **options)
                self._generated.append((Generation("assistant", **how), alone))  # type: ignore[arg-type]
