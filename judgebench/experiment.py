"""From configuration to the parts of an experiment, everything checked before anything is computed
or written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from omegaconf import DictConfig, OmegaConf

from judgebench.attacks import NONE, LearnedPhrase, attacked_text
from judgebench.attacks.search import select_words
from judgebench.config.keys import path_of
from judgebench.config.parts import Parts, check_config, data_of
from judgebench.config.rules import check_rules, model_mismatches, range_mismatches, text_mismatches
from judgebench.data.dataset import DEV, JudgeDataModule, paired_systems, pairs, rated
from judgebench.defenses import Findings, Planned, Prepared, Resources
from judgebench.judges import reader_for
from judgebench.judges.earlier.replay import Answers
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.spec import GENERATION, LOCAL
from judgebench.prompts.builder import PromptBuilder
from judgebench.readings.store import open_store
from judgebench.runtime.errors import Mistakes
from judgebench.tuning.tuners import Tuner
from judgebench.types import Condition, Example, Prompt

if TYPE_CHECKING:
    from judgebench.attacks.adv_suffix import Lesson
    from judgebench.judges.local.models import Models, Trainers
    from judgebench.judges.reader import BaseReader

_CANDIDATE = 16
"""Tokens that a candidate score may have, at the most."""

_WON = (
    "Texts are compared: a score is the probability that a text wins against another of its group, "
    "the mean over both orders, and a human score by how much the humans prefer it."
)


@dataclass(kw_only=True)
class Experiment(Parts):
    """The parts that a configuration describes, with their prompts.

    Attributes:
        examples: the judged texts of the data, or pairs of them.
        answers: earlier answers of the judge to all of `prompts`; None where it is asked now.
        phrases: learned phrases whose words are attacks of this run one after the other; of them
            curves are made.
    """

    data: JudgeDataModule
    builder: PromptBuilder
    conditions: list[Condition] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    examples: Sequence[Example] = ()
    tuner: Tuner | None = None
    answers: Answers | None = None

    @classmethod
    def parse(cls, config: DictConfig, parts: Parts | None = None) -> Experiment:
        """Builds the prompts of parts; of the models only tokenizers and configurations are loaded.

        Args:
            parts: from `check_config`, where the configuration is checked already.

        Raises:
            UserError: anything in the configuration or the data that cannot be.
        """
        parts = parts or check_config(config, here=False)
        # 1. models and data; neither needs the other, so mistakes of both are named
        mistakes = Mistakes()
        judge = parts.judge
        search = parts.search
        for source in (judge.source, parts.assistant.source):
            with mistakes.caught():
                if source is not None:
                    source.config()  # of models on the hub the first thing to be missing
        if not mistakes.found:
            with mistakes.caught():
                check_rules(model_mismatches(parts))
                tokenizer, limit = parts.tokenizer()
                if search is not None:
                    search.objectives(parts.decodings, judge.mode)
        with mistakes.caught():
            data = data_of(parts)
        mistakes.tell()
        # 2. how prompts are built; what follows them must fit too: a free answer, or the tokens of
        # a candidate
        dimensions = list(dict.fromkeys(dimension for dimension, _ in parts.cells))
        room = judge.max_new_tokens if GENERATION in judge.capabilities else _CANDIDATE
        for defense in parts.defenses:
            room = max(room, defense.answer_tokens or 0)
            if defense.thought_tokens:
                room = max(room, defense.thought_tokens + 2 * _CANDIDATE)
        closed = judge.source.encoder_decoder
        builder = PromptBuilder.from_config(
            tokenizer, parts.prompt, dimensions, limit - room, closed
        )
        builder = builder.spelling(judge.spelled_names(tokenizer))
        check_rules(text_mismatches(parts, data, builder), range_mismatches(parts, builder))
        defenses = [defense.fitted(data, parts.cells) for defense in parts.defenses]
        builder = builder.under(defenses)
        # 3. examples, or pairs of them
        examples = data.examples
        if parts.rivals and not data.paired:
            examples = pairs(data.examples, parts.rivals)
        with mistakes.caught():
            tuner = parts.tuner_of(data)
        with mistakes.caught():
            if parts.rivals:
                parts.ranking.check(paired_systems(examples))
        if search is not None:
            with mistakes.caught():
                search.examples(examples, data.split, DEV)
            with mistakes.caught():
                select_words(tokenizer, search.vocabulary, search.words)
        mistakes.tell()
        # 4. prompts, of which a judge may have answered some already
        prepared = {
            "data": data,
            "builder": builder,
            "examples": examples,
            "tuner": tuner,
            "defenses": defenses,
        }
        experiment = cls(**vars(parts) | prepared).built()
        experiment.answers = judge.answers(experiment.prompts, data.split, data.name)
        if experiment.answers is not None:
            experiment.prompts = experiment.answers.answered(experiment.prompts)
        return experiment

    def built(self) -> Self:
        """The same with the prompts of its conditions that can be built already."""
        planned = set(self.planned)
        conditions = self.all_conditions()
        ready = [condition for condition in conditions if condition.defense not in planned]
        prompts = self.builder.build(self.examples, ready, attacked_text(self.attacks))
        return replace(self, conditions=conditions, prompts=prompts)

    def again(self, parts: Parts) -> Experiment:
        """The same data and prompts under parts that differ in how they decode, measure and
        show."""
        other = copy.copy(self)  # with those of its properties that are computed already
        other.config = parts.config
        other.decodings = parts.decodings
        other.ranking = parts.ranking
        if other.comparative:
            other.ranking.check(paired_systems(other.examples))
        other.tuner = other.tuner_of(self.data)
        return other

    def attacked(self, phrases: Sequence[LearnedPhrase]) -> Experiment:
        """The same with phrases that were learned since, each of their lengths as one more
        attack."""
        return self.with_phrases(phrases).built()

    def prepared(self, stage: str, models: Models, trainer: Trainers) -> Experiment:
        """The same with those defenses prepared that needed a stage (`defenses.STAGES`)."""
        planned = [defense for defense in self.defenses if isinstance(defense, Planned)]
        due = [defense.name for defense in planned if defense.stage == stage]
        if not due:
            return self
        resources = Resources(
            judge=self.judge,
            builder=self.builder,
            conditions=self.conditions,
            examples=self.examples,
            split=self.data.split,
            judged=attacked_text(self.attacks),
            dataset=self.data.name,
            prompt={
                name: OmegaConf.select(self.config, f"prompt.{name}")
                for name in ("truncate", "template_options")
            },
            store=open_store(path_of(self.config, "store")),
            trainer=trainer,
            models=models,
        )
        defenses = list(self.defenses)
        for i, defense in enumerate(defenses):
            if isinstance(defense, Planned) and defense.name in due:
                defenses[i] = defense.prepared(resources)
        return replace(self, defenses=defenses, builder=self.builder.under(defenses)).built()

    @property
    def findings(self) -> Findings:
        """Findings of defenses while they got ready."""
        return Findings.together(
            defense.findings for defense in self.defenses if isinstance(defense, Prepared)
        )

    def changed_texts(self) -> Iterator[tuple[Prompt, str]]:
        """The prompts whose judged text an attack or a defense has changed, each with that text."""
        attacked = attacked_text(self.attacks)
        defenses = {defense.name: defense for defense in self.defenses}
        for prompt in self.prompts:
            example = prompt.example
            condition = prompt.condition
            text = attacked(example, condition)
            if condition.defense in defenses:
                text = defenses[condition.defense].text(text, example, condition)
            if text != example.output:
                yield prompt, text

    @property
    def planned(self) -> list[str]:
        """Names of the defenses that are not ready."""
        return [defense.name for defense in self.defenses if isinstance(defense, Planned)]

    def lesson(self) -> Lesson:
        """Lesson for a phrase: clean conditions under the first defense, and texts of the
        development split."""
        from judgebench.attacks.adv_suffix import Lesson  # it needs torch

        assert self.search is not None
        defense = self.defenses[0].name
        clean = [
            condition
            for condition in self.conditions
            if condition.attack == NONE.name and condition.defense == defense
        ]
        examples = self.search.examples(self.examples, self.data.split, DEV)
        known = {
            "dataset": self.data.name,
            "dimensions": list(dict.fromkeys(condition.dimension for condition in clean)),
            "ranges": list(dict.fromkeys(str(condition.range) for condition in clean)),
            "rubrics": OmegaConf.select(self.config, "prompt.rubrics"),
            "assessment": "comparative" if self.comparative else "absolute",
            "defense": defense,
        }
        return Lesson(examples, clean, self.builder, known)

    @property
    def comparative(self) -> bool:
        """True if it asks which of two texts is better."""
        return self.builder.comparative

    @cached_property
    def titles(self) -> dict[str, str | None]:
        """Short names of main model and assistant, names of groups and examples, a `note` on the
        scores and the data, and of it the part on what is `left_out`."""
        answers = self.answers
        of_data = [self.data.note, self._unrated, self._foreign]
        left_out = [answers.left_out if answers else None, *of_data]
        notes = [
            answers.note if answers else None,
            self.judge.note,
            _WON if self.comparative else None,
            *of_data,
            self._fewer_resamples,
            *(defense.note for defense in self.defenses),
        ]
        return {
            "main": self.judge.source.title,
            "assistant": self.assistant.title,
            "groups": self.data.groups_are,
            "examples": "pairs" if self.comparative else "examples",
            "note": " ".join(filter(None, notes)) or None,
            "left_out": " ".join(filter(None, left_out)) or None,
        }

    @cached_property
    def tokens(self) -> dict[Condition, tuple[int, int]]:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        return self.reader().tokens()

    @property
    def all_tokens(self) -> dict[str, int]:
        """Tokens of all prompts together (`total`), and those of them that must be computed
        (`unique`)."""
        counts = self.tokens.values()
        return {
            "total": sum(total for total, _ in counts),
            "unique": sum(unique for _, unique in counts),
        }

    @property
    def _unrated(self) -> str | None:
        """A sentence on how many texts, or pairs, humans rated; None where they rated all."""
        dimensions = dict.fromkeys(condition.dimension for condition in self.conditions)
        counts = {name: len(rated(self.examples, name)) for name in dimensions}
        least = min(counts.values())
        if not self.data.rated or least == len(self.examples):
            return None
        numbers = "; ".join(f"{count:,} on {name}" for name, count in counts.items())
        if least == max(counts.values()):
            numbers = f"{least:,}"
        word = "pairs" if self.comparative else "texts"
        return (
            f"Humans rated {numbers} of {len(self.examples):,} {word}; agreement with them is of "
            "those."
        )

    @property
    def _fewer_resamples(self) -> str | None:
        """A sentence on intervals of fewer resamples than were asked for; None where there are as
        many."""
        from judgebench.stats.clusters import affordable  # scipy with it

        groups = len(self.data.split)
        asked = int(OmegaConf.select(self.config, "metrics.resamples") or 0)
        drawn = affordable(groups, asked)
        if drawn == asked:
            return None
        return (
            f"Intervals over all {groups:,} {self.data.groups_are} are of {drawn} resamples, not "
            f"{asked:,}."
        )

    @cached_property
    def _foreign(self) -> str | None:
        """A sentence on phrases that were learned with another tokenizer."""
        if LOCAL not in self.judge.capabilities:  # whose tokenizer is not known
            return None
        theirs = [phrase.learned for phrase in self.phrases if phrase.learned.get("tokenizer")]
        if not theirs:
            return None
        from judgebench.attacks.adv_suffix import tokenizer_digest  # it needs torch

        digest = tokenizer_digest(self.builder.tokenizer)
        for learned in theirs:
            if learned["tokenizer"] != digest:
                judge = learned.get("judge", "another judge")
                return (
                    f"The phrase was learned on {judge} with another tokenizer; a phrase is text, "
                    "and is read as such."
                )
        return None

    @property
    def sources(self) -> list[ModelSource]:
        """The models here that judge."""
        sources: list[Any] = []
        if LOCAL in self.judge.capabilities:
            sources.append(self.judge.source)
        if self.assistant.source is not None:
            sources.append(self.assistant.source)
        return sources

    def served_estimate(self) -> str | None:
        """Estimate, for people to read, of what asking served models would take; None where none is
        served."""
        return self.reader().estimate()

    def reader(self, models: Models | None = None) -> BaseReader:
        """The reader of the prompts, with the configured store behind it; see `reader_for`.

        Args:
            models: those that are in memory already.
        """
        from judgebench.judges.reader import ReadingTask  # torch with it

        answers = {defense.name: defense.answer_tokens for defense in self.defenses}
        thoughts = {defense.name: defense.thought_tokens for defense in self.defenses}
        task = ReadingTask(
            assistant=self.assistant,
            decodings=self.decodings,
            prompts=self.prompts,
            tokenizer=self.builder.tokenizer,
            null=self.builder.null,
            store=lambda: open_store(path_of(self.config, "store")),
            models=models,
            free_text={name: most for name, most in answers.items() if most},
            thinking={name: most for name, most in thoughts.items() if most},
            answers=self.answers,
        )
        return reader_for(self.judge, task)
