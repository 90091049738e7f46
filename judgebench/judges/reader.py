"""From prompts to readings: which passes of which models an experiment needs, what of them is missing, and the reading
that main model and assistant give together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import lightning as L
import numpy as np
import torch

from judgebench.decoding.rules import Decoding, Greedy
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.loop import Models, Trainers, compute
from judgebench.judges.passes import GeneratePass, ModelView, Pass, ScorePass
from judgebench.judges.recorded import RecordedSpec, answer_row
from judgebench.judges.replay import ReplaySpec
from judgebench.judges.spec import JudgeSpec, ReadingTask
from judgebench.readings.reading import check_shares
from judgebench.readings.store import ReadingStore
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Generation, Prompt, Reading, ScoreRange


class BaseReader:
    """The readings of a task's prompts under one judge, with its assistant.

    Args:
        judge: settings that keep `judgebench.config.rules.SETTINGS`.
        task: prompts, and what reads them.

    Attributes:
        models: the models in memory.
    """

    served: Any = None
    evidence: Any = None

    def __init__(self, judge: Any, task: ReadingTask):
        self.judge, self.task = judge, task
        self.assistant, self.prompts = task.assistant, task.prompts
        self.models = task.models or Models()

    @cached_property
    def store(self) -> ReadingStore:
        return self.task.store()

    @cached_property
    def _free(self) -> list[Prompt]:
        """Prompts under no defense that asks for words."""
        return [prompt for prompt in self.prompts if prompt.condition.defense not in self.task.free_text]

    @cached_property
    def _scored(self) -> list[Prompt]:
        """Prompts that the candidates' probabilities answer."""
        return [] if self.judge.mode == "generate" else self._free

    @cached_property
    def _worded(self) -> list[tuple[list[Prompt], int]]:
        """Prompts of each defense under which the judge answers in words first, and most tokens of an answer."""
        under = [
            ([prompt for prompt in self.prompts if prompt.condition.defense == defense], max_tokens)
            for defense, max_tokens in self.task.free_text.items()
        ]
        return [(prompts, max_tokens) for prompts, max_tokens in under if prompts]

    @cached_property
    def _asked(self) -> list[tuple[Sequence[Prompt], int, bool]]:
        """Prompts that are answered freely, most tokens of an answer, whether it reasons first: all prompts in
        `generate` mode, else those under a defense that asks for words."""
        worded = [(prompts, max_tokens, True) for prompts, max_tokens in self._worded]
        own = [(self._free, self.judge.max_new_tokens, False)] if self.judge.mode == "generate" and self._free else []
        return [*own, *worded]

    def _ways(self, reasoned: bool) -> list[tuple[Generation, Decoding]]:
        """Ways of answering freely: every decoding that can, by main model, assistant or both."""
        writing = {name: decoding for name, decoding in self.task.decodings.items() if decoding.generates}
        return [
            (Generation(judge, name, decoding.lambda_, decoding.temperature, reasoned), decoding)
            for name, decoding in (writing or {"greedy": Greedy()}).items()
            for judge in (
                ["pair"] if decoding.needs_assistant else ["main", *(["assistant"] if self.assistant.answers else [])]
            )
        ]

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


class Reader(BaseReader):
    """Reads prompts with models here; see `BaseReader`."""

    judge: JudgeSpec

    @cached_property
    def passes(self) -> list[Pass]:
        """Every pass that the experiment needs, whether or not its readings are stored."""
        scoring: list[Pass] = [self._score] if self._scored else []
        if scoring and self.assistant.kind == "model" and self.other:
            scoring.append(ScorePass([self.other], self._scored, self._tries))
        return [*scoring, *(pass_ for _, pass_ in self._generating)]

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Role -> title and SHA-256 of each model's content, and how it is computed."""
        views = [self.main, *([self.other] if self.other and self.assistant.kind == "model" else [])]
        roles = ("main", "assistant")
        return {
            role: {"title": view.source.title, "sha256": view.fingerprint, **view.arithmetic()}
            for role, view in zip(roles, views, strict=False)
        }

    def read(self, trainer: Trainers) -> L.Trainer | None:
        """Computes and stores what is missing, pass by pass, batch by batch; see `compute`."""
        return compute(self.passes, self.judge.token_budget, self.store, self.models, trainer)

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, from the store; of free answers one a prompt and way of answering.

        Args:
            split: group_id -> dev or test.
        """
        stored = self.store.get(key for pass_ in self.passes for prompt in pass_.prompts for key in pass_.keys(prompt))
        readings = []
        for prompt in self._scored:
            main = stored[self._score.key(self.main, prompt)]
            other = None
            if self.other is not None:
                other = stored[self._score.key(self.other, self.nulls[prompt.condition] if self.nulls else prompt)]
            assert main.logprobs is not None
            seconds = main.seconds + (other.seconds if other is not None and self.assistant.kind == "model" else 0.0)
            theirs = None if other is None else other.logprobs
            readings.append(self._reading(prompt, split[prompt.example.group_id], main.logprobs, theirs, seconds))
        readings += [
            Reading(prompt, split[prompt.example.group_id], text=answer.text, generation=how, seconds=answer.seconds)
            for how, pass_ in self._generating
            for prompt in pass_.prompts
            for answer in [stored[pass_.keys(prompt)[0]]]
        ]
        return readings

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        if trainer is None:
            return "none: every reading was in the store"
        device = trainer.strategy.root_device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type

    @cached_property
    def main(self) -> ModelView:
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
        return replace(self.main, exit=self.assistant.layer)

    @cached_property
    def nulls(self) -> dict[Condition, Prompt] | None:
        """Condition -> the prompt about nothing; None where no assistant reads it."""
        return null_prompts(self.prompts, self.task.null) if self.assistant.kind == "null_context" else None

    @cached_property
    def _tries(self) -> dict[ScoreRange, CandidateTrie]:
        ranges = dict.fromkeys(prompt.condition.range for prompt in self.prompts)
        return {r: CandidateTrie.of(self.task.tokenizer, r.candidates) for r in ranges}

    @cached_property
    def _score(self) -> ScorePass:
        views = [self.main, self.other] if self.assistant.kind == "early_exit" else [self.main]
        nulls: dict[int, Prompt] = {}  # attacked conditions share the clean one's
        if self.nulls is not None:
            conditions = dict.fromkeys(prompt.condition for prompt in self._scored)
            nulls = {id(null): null for null in (self.nulls[condition] for condition in conditions)}
        return ScorePass([v for v in views if v], [*self._scored, *nulls.values()], self._tries)

    @cached_property
    def _generating(self) -> list[tuple[Generation, GeneratePass]]:
        """Free answers: ways of giving them, and their passes."""
        return [
            (how, self._answers(how, decoding, prompts, max_tokens))
            for prompts, max_tokens, reasoned in self._asked
            for how, decoding in self._ways(reasoned)
        ]

    def _answers(
        self, how: Generation, decoding: Decoding, prompts: Sequence[Prompt], max_new_tokens: int
    ) -> GeneratePass:
        asked = (prompts, self.task.tokenizer, max_new_tokens)
        if how.judge == "pair":
            return GeneratePass(self.main, self.other, self.nulls, decoding, *asked, self.judge.draft_tokens)
        view = self.other if how.judge == "assistant" else self.main
        assert view is not None
        return GeneratePass(view, None, None, decoding, *asked, 0)


class Replayer(BaseReader):
    """Gives answers of an earlier time, as a `Reader` gives those that it computes; each prompt has one."""

    judge: ReplaySpec

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        return {"main": {"title": self.judge.source.title, "sha256": self.judge.source.sha256()}}

    def read(self, trainer: Trainers) -> None:
        """Does nothing: all is known."""

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """One a prompt.

        Args:
            split: group_id -> dev or test.
        """
        answers, decoding = self.task.answers, next(iter(self.task.decodings))
        assert answers is not None
        return [
            Reading(
                prompt,
                split[prompt.example.group_id],
                text=answers.to(prompt),
                generation=Generation("main", decoding, reasoned=prompt.condition.defense in self.task.free_text),
            )
            for prompt in self.prompts
        ]

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        return "none: the answers were given earlier"


class RecordedReader(BaseReader):
    """Gives recorded readings, as a `Reader` gives those that it computes."""

    judge: RecordedSpec

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        models = self.judge.recording.models
        return {role: model for role, model in models.items() if role == "main" or self.assistant.kind != "none"}

    def read(self, trainer: Trainers) -> None:
        """Does nothing: all is known."""

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`.

        Raises:
            UserError: an answer under a lambda or t, or an assistant's log-probabilities, that were not recorded.
        """
        readings = []
        for prompt in self._scored:
            row = self._row(prompt, None)
            theirs = row["assistant_logprobs"] if self.assistant.kind != "none" else None
            if theirs is None and self.assistant.kind != "none":
                raise self._missing(prompt, "log-probabilities of the assistant")
            given = (tuple(row["main_logprobs"]), None if theirs is None else tuple(theirs))
            readings.append(Reading(prompt, split[prompt.example.group_id], *given, seconds=row["seconds"]))
        for prompts, _, reasoned in self._asked:
            for how, _ in self._ways(reasoned):
                for prompt in prompts:
                    row, own = self._row(prompt, how), split[prompt.example.group_id]
                    seconds = row["seconds"]
                    readings.append(Reading(prompt, own, text=row["text"], generation=how, seconds=seconds))
        return readings

    def _row(self, prompt: Prompt, how: Generation | None) -> Mapping[str, Any]:
        assert self.task.answers is not None
        row = answer_row(self.task.answers.to(prompt), how)
        if row is not None:
            return row
        if how is None:
            raise self._missing(prompt, "log-probabilities")
        under = f" (lambda {how.lambda_:g}, t {how.temperature:g})" if how.lambda_ is not None else ""
        raise self._missing(prompt, f"free answers of {how.judge} by {how.decoding}{under}")

    def _missing(self, prompt: Prompt, what: str) -> UserError:
        return UserError(
            f"judge.path: {self.judge.recording.path.name} has no {what} for example {prompt.example.example_id} "
            f"({prompt.condition}); choose what was recorded, or record it too."
        )

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        return "none: recorded readings"
