"""From prompts to readings by models here: which passes of which models an experiment needs, what
of them is missing, and the reading that main model and assistant give together."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import lightning as L
import torch

from judgebench.decoding.rules import Greedy
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.local.batches import Tokens, token_counts
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.models import Trainers
from judgebench.judges.local.passes import FreeAnswerPass, LocalPass, ModelView, ScorePass
from judgebench.judges.reader import IN_STORE, BaseReader
from judgebench.judges.spec import JudgeSpec
from judgebench.runtime.distributed import NullTrainer
from judgebench.types import Generation, Reading, Split


class Reader(BaseReader):
    """Reads prompts with models here."""

    judge: JudgeSpec

    def tokens(self) -> Tokens:
        return token_counts(
            self.prompts, self.judge.max_batch_tokens, sharing=not self.judge.source.encoder_decoder
        )

    @cached_property
    def main(self) -> ModelView:
        return self._view(self.judge.source)

    @cached_property
    def other(self) -> ModelView | None:
        if self.assistant.kind == "none":
            return None
        if (source := self.assistant.source) is not None:
            return self._view(source)
        return replace(self.main, exit=self.assistant.layer)

    def _view(self, source: ModelSource) -> ModelView:
        fingerprint = source.fingerprint(self.store.file_digest)
        return ModelView(source, fingerprint, self.judge.engine, check=self.judge.check)

    @cached_property
    def _thoughts(self) -> list[FreeAnswerPass]:
        alone = (self.main, None, None, Greedy())
        return [
            FreeAnswerPass(*alone, prompts, self.of.tokenizer, most, True)
            for prompts, most in self._thinking()
        ]

    @cached_property
    def _scoring(self) -> list[ScorePass]:
        if not self._scored:
            return []
        ranges = dict.fromkeys(prompt.condition.range for prompt in self.prompts)
        tries = {r: CandidateTrie.of(self.of.tokenizer, r.candidates) for r in ranges}
        views = (
            [self.main, self.other]
            if self.assistant.kind == "early_exit" and self.other
            else [self.main]
        )
        prompts = [prompt for prompt, _ in self._after.values()]
        passes = [ScorePass(views, prompts, tries)]
        if self.assistant.kind == "model" and self.other:
            passes.append(ScorePass([self.other], prompts, tries))
        return passes

    @cached_property
    def _generating(self) -> list[tuple[Generation, FreeAnswerPass]]:
        answers = []
        for prompts, most, reasoned in self._asked:
            for how, decoding in self._ways(reasoned):
                view = self.other if how.judge == "assistant" else self.main
                minus, nulls = (self.other, self.nulls) if how.judge == "pair" else (None, None)
                assert view is not None
                answers.append(
                    (
                        how,
                        FreeAnswerPass(
                            view, minus, nulls, decoding, prompts, self.of.tokenizer, most
                        ),
                    )
                )
        return answers

    @cached_property
    def passes(self) -> list[LocalPass]:
        return [*self._thoughts, *self._scoring, *(pass_ for _, pass_ in self._generating)]

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Role -> title and SHA-256 of each model's content, and how it is computed."""
        views = {"main": self.main}
        if self.other and self.assistant.kind == "model":
            views["assistant"] = self.other
        return {
            role: {"title": view.source.title, "sha256": view.fingerprint, **view.arithmetic()}
            for role, view in views.items()
        }

    def read(self, trainer: Trainers) -> L.Trainer | NullTrainer | None:
        runner = self.runner(trainer)
        ran = runner.run(self._thoughts, self.judge.max_batch_tokens)
        return runner.run(self.passes, self.judge.max_batch_tokens) or ran

    def readings(self, split: Split) -> list[Reading]:
        """The readings of all prompts, from the store; of free answers one a prompt and way of
        answering. `split`: group_id -> dev or test."""
        stored = self.store.get(
            key for pass_ in self.passes for prompt in pass_.prompts for key in pass_.keys(prompt)
        )
        readings = []
        for prompt in self._scored:
            scoring = self._scoring[0]
            read, thought = self._after[id(prompt)]
            main = stored[scoring.key(self.main, read)]
            logprobs = None
            seconds = main.seconds + thought
            if self.other is not None:
                other_read = (
                    self._after[id(self.nulls[prompt.condition])][0] if self.nulls else read
                )
                other = stored[scoring.key(self.other, other_read)]
                logprobs = other.logprobs
                seconds += other.seconds if self.assistant.kind == "model" else 0.0
            assert main.logprobs is not None
            readings.append(
                self._reading(
                    read, split[prompt.example.group_id], main.logprobs, logprobs, seconds
                )
            )
        for how, pass_ in self._generating:
            for prompt in pass_.prompts:
                answer = stored[pass_.keys(prompt)[0]]
                part = split[prompt.example.group_id]
                readings.append(
                    Reading(prompt, part, text=answer.text, generation=how, seconds=answer.seconds)
                )
        return readings

    def device(self, trainer: L.Trainer | NullTrainer | None) -> str:
        if trainer is None:
            return IN_STORE
        if isinstance(trainer, NullTrainer):
            return str(trainer.device)
        device = trainer.strategy.root_device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
