"""A judge that reads: examples and conditions become prompts, prompts readings, readings scores.

A run, the judge of a card, the gate and a tutor's scorer are this one thing with other examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from judgebench.decoding.rules import Decoding
from judgebench.decoding.scores import decode
from judgebench.judges.assistants import Assistant
from judgebench.judges.local.devices import compute_with
from judgebench.judges.local.loading import check_vocabularies
from judgebench.judges.spec import GENERATION, LOCAL
from judgebench.prompts.builder import PromptBuilder
from judgebench.readings.reading import reading_frame
from judgebench.readings.store import open_store
from judgebench.runtime.files import user_path
from judgebench.settings.fields import plain
from judgebench.types import Array, Condition, Example, Prompt, Reading, Row, Split

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from judgebench.judges.local.loading import ModelSource
    from judgebench.judges.local.models import Models, Trainers
    from judgebench.judges.precomputed.answers import Answers
    from judgebench.judges.reader import BaseReader
    from judgebench.judges.spec import JudgeSettings
    from judgebench.prompts.builder import Defense, Judged
    from judgebench.readings.store import ReadingStore


_CANDIDATE = 16
"""Tokens that a candidate score may have, at the most."""


class PromptSet(NamedTuple):
    """Prompts for a judge, and its earlier answers to them; None where it is asked now."""

    prompts: list[Prompt]
    answers: Answers | None = None


@dataclass
class RunReadings:
    """The readings of a run, which are not changed.

    Attributes:
        fingerprints: role -> title and SHA-256 of each model's content.
        device: name of the device that computed.
        served, evidence: the requests to judges behind a URL, and the columns of served.parquet;
            None without one.
    """

    readings: Sequence[Reading]
    fingerprints: Mapping[str, Row]
    device: str
    served: Row | None = None
    evidence: Mapping[str, Sequence[Any]] | None = None

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The columns of readings.parquet, one row a reading."""
        return reading_frame(self.readings)


@dataclass(frozen=True, kw_only=True)
class ReadingJudge:
    """A judge with its assistant, prompts and decodings; no model is loaded until it reads.

    Attributes:
        settings: of the model, the server or the file of earlier answers.
        decodings: by name.
        builder: builds its prompts, under its defenses.
        defenses: those that conditions may name, besides `none`.
        store: opens the store of readings.

    Example:
        questions = judge.questions(examples, conditions, split)
        readings = judge.read(questions, split, trainer, models)
        judge.scores(readings.readings)["score"]
    """

    settings: JudgeSettings
    assistant: Assistant
    decodings: Mapping[str, Decoding]
    builder: PromptBuilder
    store: Callable[[], ReadingStore]
    defenses: Sequence[Defense] = ()

    @classmethod
    def of(
        cls,
        settings: JudgeSettings,
        decodings: Mapping[str, Any],
        prompt: Row,
        dimensions: Sequence[str],
        store: str | Path | Callable[[], ReadingStore],
        assistant: Assistant | None = None,
        defenses: Sequence[Defense] = (),
    ) -> ReadingJudge:
        """A judge from its parts, as `hydra.utils.instantiate` makes them of conf/; of its models
        only tokenizers and configurations are loaded.

        Args:
            decodings: by name; what is none, such as the lambda of conf/decoding, is left out.
            prompt: conf/prompt without its keys on rivals.
            dimensions: what it judges, each with a rubric.
            store: the file where its readings are kept (`none` keeps them while the program runs),
                or what opens it.

        Raises:
            UserError: a model is not there, or the parts do not go together.

        Example:
            decodings = instantiate(config.decoding, _convert_="partial")
            judge = ReadingJudge.of(
                instantiate(config.judge),
                decodings,
                config.prompt,
                config.dimensions,
                "readings.sqlite",
            )
        """
        assistant = assistant or Assistant()
        # 1. the tokenizer, and how many tokens all models can read
        tokenizer = settings.source.tokenizer()
        sources = [settings.source, *filter(None, [assistant.source])]
        for other in sources[1:]:
            check_vocabularies(tokenizer, other.tokenizer())
        assistant.check_served(settings)
        configs = [source.config().get_text_config(decoder=True) for source in sources]
        limits = [getattr(config, "max_position_embeddings", None) for config in configs]
        limit = min(int(most or 2**31) for most in limits)
        # 2. of which a prompt leaves some for what follows: a free answer, thoughts, or a candidate
        room = settings.max_new_tokens if GENERATION in settings.capabilities else _CANDIDATE
        for defense in defenses:
            room = max(room, defense.answer_tokens or 0)
            if defense.thought_tokens:
                room = max(room, defense.thought_tokens + 2 * _CANDIDATE)
        # 3. how prompts are built
        builder = PromptBuilder.from_config(
            tokenizer,
            plain(prompt),
            list(dimensions),
            limit - room,
            closed=settings.source.encoder_decoder,
        )
        judge = cls(
            settings=settings,
            assistant=assistant,
            decodings={
                name: rule for name, rule in decodings.items() if isinstance(rule, Decoding)
            },
            builder=builder.spelling(settings.spelled_names(tokenizer)),
            store=store if callable(store) else partial(open_store, user_path(store)),
        )
        return judge.under(defenses)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The main model's."""
        return self.builder.tokenizer

    @property
    def free_text(self) -> dict[str, int]:
        """Defense -> most tokens of an answer, of those under which the judge answers in words and
        gives its number last, whatever its mode is."""
        limits = {defense.name: defense.answer_tokens for defense in self.defenses}
        return {name: most for name, most in limits.items() if most}

    @property
    def thinking(self) -> dict[str, int]:
        """Defense -> most tokens of the thoughts, of those under which the candidates are read
        behind thoughts."""
        limits = {defense.name: defense.thought_tokens for defense in self.defenses}
        return {name: most for name, most in limits.items() if most}

    @property
    def sources(self) -> list[ModelSource]:
        """The models here that judge."""
        main: Any = self.settings.source if LOCAL in self.settings.capabilities else None
        return [source for source in (main, self.assistant.source) if source is not None]

    @property
    def titles(self) -> dict[str, str | None]:
        """Short names of main model and assistant."""
        return {"main": self.settings.source.title, "assistant": self.assistant.title}

    def under(self, defenses: Sequence[Defense]) -> ReadingJudge:
        """The same under other defenses."""
        return replace(self, defenses=defenses, builder=self.builder.under(defenses))

    def questions(
        self,
        examples: Sequence[Example],
        conditions: Sequence[Condition],
        split: Split,
        dataset: str = "texts",
        judged: Judged | None = None,
    ) -> PromptSet:
        """The prompts about examples; of a judge that has answered before, those that it answered.

        Args:
            split: group_id -> dev or test.
            dataset: the data's name, for errors.
            judged: gives the judged text of each prompt; None takes the example's.
        """
        prompts = self.builder.build(examples, conditions, judged)
        answers = self.settings.answers(prompts, split, dataset)
        if answers is not None:
            prompts = answers.answered(prompts)
        return PromptSet(prompts, answers)

    def reader(self, questions: PromptSet, models: Models | None = None) -> BaseReader:
        """The reader of the prompts, as the settings make it; `models`: those that are in memory
        already."""
        return self.settings.reader(self, questions, models)

    def read(
        self, questions: PromptSet, split: Split, trainer: Trainers, models: Models
    ) -> RunReadings:
        """The readings of all prompts: what the store lacks is computed; `split`: group_id -> dev
        or test."""
        compute_with(trainer)
        reader = self.reader(questions, models)
        last = reader.read(trainer)
        return RunReadings(
            readings=reader.readings(split),
            fingerprints=reader.fingerprints,
            device=reader.device(last),
            served=reader.served,
            evidence=reader.evidence,
        )

    def scores(self, readings: Sequence[Reading]) -> dict[str, Array]:
        """The scores of readings by every decoding, see `decode`."""
        return decode(readings, self.decodings)
