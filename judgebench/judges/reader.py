"""From prompts to readings: the prompts of a judge and its assistant by what is asked about them,
and the readings of a judge that has answered before. Models here are read in `judges.local`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from judgebench.decoding.rules import Decoding, Greedy
from judgebench.judges import PassRunner
from judgebench.judges.earlier.recorded import RecordedSpec, answer_row
from judgebench.judges.earlier.replay import Answers, ReplaySpec
from judgebench.judges.local.batches import Tokens
from judgebench.judges.local.models import Models, Trainers
from judgebench.prompts.thoughts import after_thoughts
from judgebench.prompts.tokens import encode_texts
from judgebench.readings.reading import check_shares
from judgebench.readings.store import ReadingStore
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Generation, Prompt, Reading

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from judgebench.judges.assistants import Assistant
    from judgebench.judges.spec import JudgeSettings


IN_STORE = "none: every reading was in the store"
"""Name of the device where nothing was computed."""


@dataclass(frozen=True)
class ReadingTask:
    """A task for a reader: prompts, and what reads them.

    Attributes:
        decodings: name -> decoding; what `generate` answers under, and whether an assistant is
            needed at all.
        tokenizer: the main model's.
        null: condition -> the prompt about nothing.
        store: opens the store of readings.
        models: those that are in memory already.
        free_text: defense -> most tokens of an answer, of those under which the judge answers in
            words and gives its number last, whatever `judge.mode` is.
        thinking: defense -> most tokens of the thoughts, of those under which the candidates are
            read behind thoughts.
        answers: those of an earlier time, where the judge has them.
    """

    assistant: Assistant
    decodings: Mapping[str, Decoding]
    prompts: Sequence[Prompt]
    tokenizer: PreTrainedTokenizerBase
    null: Callable[[Condition], Prompt]
    store: Callable[[], ReadingStore]
    models: Models | None = None
    free_text: Mapping[str, int] = field(default_factory=dict)
    thinking: Mapping[str, int] = field(default_factory=dict)
    answers: Answers | None = None


class BaseReader:
    """The readings of a task's prompts under one judge, with its assistant: first `read`, then all
    else that is known.

    Attributes:
        models: the models in memory.
        served, evidence: see `judgebench.job.RunReadings`; None where no server was asked.
        _free: prompts under no defense that asks for words.
        _scored: prompts that the candidates' probabilities answer.
        _worded: prompts of each defense under which the judge answers in words first, and most
            tokens of an answer.
        _asked: prompts that are answered freely, most tokens of an answer, whether it reasons
            first: all prompts in `generate` mode, else those under a defense that asks for words.
    """

    served: Any = None
    evidence: Any = None
    _thoughts: Any = ()  # the passes that write them, which are read first
    origin = ""  # of readings that no model gives

    def __init__(self, judge: JudgeSettings, task: ReadingTask):
        self.judge = judge
        self.task = task
        self.assistant = task.assistant
        self.prompts = task.prompts
        self.models = task.models or Models()
        by_defense: dict[str, list[Prompt]] = {}
        for prompt in self.prompts:
            by_defense.setdefault(prompt.condition.defense, []).append(prompt)
        self._free = [
            prompt for prompt in self.prompts if prompt.condition.defense not in task.free_text
        ]
        self._worded = [
            (by_defense[name], most) for name, most in task.free_text.items() if name in by_defense
        ]
        generates = judge.mode == "generate"
        self._scored = [] if generates else self._free
        self._asked = (
            [(self._free, judge.max_new_tokens, False)] if generates and self._free else []
        )
        self._asked += [(prompts, most, True) for prompts, most in self._worded]

    @cached_property
    def store(self) -> ReadingStore:
        return self.task.store()

    def runner(self, trainer: Trainers) -> PassRunner:
        return PassRunner(store=self.store, trainer=trainer, models=self.models)

    @cached_property
    def nulls(self) -> dict[Condition, Prompt] | None:
        """Condition -> the prompt about nothing; attacked conditions share the clean one's. None
        without such."""
        if self.assistant.kind != "null_context":
            return None
        conditions = dict.fromkeys(prompt.condition for prompt in self.prompts)
        clean = {condition: replace(condition, attack="none") for condition in conditions}
        nothing = {
            condition: self.task.null(condition) for condition in dict.fromkeys(clean.values())
        }
        return {condition: nothing[clean[condition]] for condition in clean}

    def _scored_nulls(self) -> list[Prompt]:
        """The prompts about nothing that are scored with `_scored`, each once."""
        conditions = dict.fromkeys(prompt.condition for prompt in self._scored)
        return (
            list({id(null): null for null in (self.nulls[c] for c in conditions)}.values())
            if self.nulls
            else []
        )

    def _thinking(self) -> list[tuple[list[Prompt], int]]:
        """Prompts whose candidates are read behind thoughts, and most tokens of those."""
        scored = [*self._scored, *self._scored_nulls()]
        thinking = self.task.thinking.items()
        of_defense = [
            ([p for p in scored if p.condition.defense == name], most) for name, most in thinking
        ]
        return [(prompts, most) for prompts, most in of_defense if prompts]

    @cached_property
    def _after(self) -> dict[int, tuple[Prompt, float]]:
        """A scored prompt's `id` -> the prompt behind which its candidates are read, with the
        thoughts that the store has, and the seconds that these took."""
        after = {id(prompt): (prompt, 0.0) for prompt in (*self._scored, *self._scored_nulls())}
        for pass_ in self._thoughts:
            keys = [pass_.keys(prompt)[0] for prompt in pass_.prompts]
            tokenizer = self.task.tokenizer
            if self.store.missing(keys):  # as in a dry run
                continue
            for prompt, thoughts in zip(
                pass_.prompts, map(self.store.get(keys).__getitem__, keys), strict=True
            ):
                if thoughts.tokens is None:  # a server's answer is a text
                    tokens = encode_texts(tokenizer, [json.loads(thoughts.text or "")["text"]])[0]
                else:
                    tokens = thoughts.tokens.tolist()
                after[id(prompt)] = after_thoughts(prompt, tokens, tokenizer), thoughts.seconds
        return after

    def tokens(self) -> Tokens:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        return {prompt.condition: (0, 0) for prompt in self.prompts}

    def estimate(self) -> str | None:
        """An estimate of requests, tokens and money for people to read, where prompts are paid
        for."""
        return None

    @property
    def fingerprints(self) -> Mapping[str, Mapping[str, Any]]:
        """Role -> title and SHA-256 of each model's content."""
        raise NotImplementedError

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, once they are read; `split`: group_id -> dev or test."""
        raise NotImplementedError

    def read(self, trainer: Trainers) -> Any:
        """Computes and stores what is missing, pass by pass, batch by batch; nothing where there is
        no model."""
        return None

    def device(self, trainer: Any) -> str:
        return self.origin

    def _ways(self, reasoned: bool) -> list[tuple[Generation, Decoding]]:
        """Ways of answering freely: every decoding that can, by main model, assistant or both."""
        alone = ["main", *(["assistant"] if self.assistant.answers else [])]
        writing = {
            name: decoding for name, decoding in self.task.decodings.items() if decoding.generates
        }
        return [
            (Generation(judge, name, decoding.lambda_, decoding.temperature, reasoned), decoding)
            for name, decoding in (writing or {"greedy": Greedy()}).items()
            for judge in (["pair"] if decoding.needs_assistant else alone)
        ]

    def _reading(
        self,
        prompt: Prompt,
        split: str,
        logprobs: np.ndarray,
        assistant: np.ndarray | None,
        seconds: float,
    ) -> Reading:
        """A reading of [candidates] log-probabilities from the store; `UserError` where they sum to
        more than 1."""
        main = tuple(logprobs.tolist())
        other = None if assistant is None else tuple(assistant.tolist())
        for values in (main, other or ()):
            check_shares(values, prompt, self.store.path)
        return Reading(prompt, split, main, other, seconds=seconds)


class Replayer(BaseReader):
    """Gives answers of an earlier time, as a `Reader` gives those that it computes; each prompt has
    one."""

    judge: ReplaySpec
    origin = "none: the answers were given earlier"

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        return {"main": {"title": self.judge.source.title, "sha256": self.judge.source.sha256()}}

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        answers = self.task.answers
        decoding = next(iter(self.task.decodings))
        assert answers is not None
        reasoned = [prompt.condition.defense in self.task.free_text for prompt in self.prompts]
        ways = [Generation("main", decoding, reasoned=each) for each in reasoned]
        return [
            Reading(prompt, split[prompt.example.group_id], text=answers.to(prompt), generation=how)
            for prompt, how in zip(self.prompts, ways, strict=True)
        ]


class RecordedReader(BaseReader):
    """Gives recorded readings, as a `Reader` gives those that it computes."""

    judge: RecordedSpec
    origin = "none: recorded readings"

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        models = self.judge.recording.models
        return {
            role: model
            for role, model in models.items()
            if role == "main" or self.assistant.kind != "none"
        }

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`; `UserError` for what was not
        recorded: an answer under a lambda or t, or log-probabilities."""
        readings = []
        for prompt in self._scored:
            row = self._row(prompt, None)
            part = split[prompt.example.group_id]
            other = row["assistant_logprobs"] if self.assistant.kind != "none" else None
            logprobs = (tuple(row["main_logprobs"]), None if other is None else tuple(other))
            readings.append(Reading(prompt, part, *logprobs, seconds=row["seconds"]))
        for prompts, _, reasoned in self._asked:
            for how, _ in self._ways(reasoned):
                for prompt in prompts:
                    row = self._row(prompt, how)
                    part = split[prompt.example.group_id]
                    readings.append(
                        Reading(
                            prompt, part, text=row["text"], generation=how, seconds=row["seconds"]
                        )
                    )
        return readings

    def _row(self, prompt: Prompt, how: Generation | None) -> Mapping[str, Any]:
        """The row of a way of answering, or of log-probabilities; else `UserError`."""
        assert self.task.answers is not None
        row = answer_row(self.task.answers.to(prompt), how)
        what = "log-probabilities"
        if row is not None and (
            how or self.assistant.kind == "none" or row["assistant_logprobs"] is not None
        ):
            return row
        if row is not None:
            what = "log-probabilities of the assistant"
        elif how is not None:
            under = (
                f" (lambda {how.lambda_:g}, t {how.temperature:g})"
                if how.lambda_ is not None
                else ""
            )
            what = f"free answers of {how.judge} by {how.decoding}{under}"
        raise UserError(
            f"judge: {self.judge.recording.path.name} has no {what} for example "
            f"{prompt.example.example_id} ({prompt.condition}); choose what was recorded, or "
            "record it too."
        )
