"""From configuration to the parts of an experiment, everything checked before anything is computed or written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from judgebench.attacks import NONE, Attack, LearnedPhrase, attacked_text, select_attacks
from judgebench.attacks.search import AdvSuffix
from judgebench.attacks.vocabulary import select_words
from judgebench.components import build_component
from judgebench.config.checks import cells_of, check_run, decodings_of
from judgebench.config.keys import list_at, path_of
from judgebench.config.parts import (
    check_learned,
    conditions_of,
    configured_defenses,
    data_of,
    learned_attack,
    prompt_of,
    ranking_of,
    tokenizer_of,
    tuner_of,
    with_phrases,
)
from judgebench.config.rules import MODELS, SETTINGS, TEXTS, Asked, AskedTexts, check_rules
from judgebench.data.dataset import DEV, paired_systems, pairs, rated
from judgebench.data.module import JudgeDataModule
from judgebench.decoding.rules import Decoding
from judgebench.defenses import Defense, Findings, Planned, Prepared, Resources
from judgebench.judges import reader_for
from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import ModelSource
from judgebench.judges.replay import Answers
from judgebench.judges.spec import GENERATION, LOCAL, JudgeSettings
from judgebench.prompts.builder import PromptBuilder
from judgebench.readings.store import open_store
from judgebench.runtime.errors import Mistakes
from judgebench.stats.rankings import Ranking
from judgebench.stats.robustness import Suffix
from judgebench.tuning.tuners import Tuner
from judgebench.types import Condition, Example, Prompt

if TYPE_CHECKING:
    from judgebench.attacks.adv_suffix import Lesson
    from judgebench.judges.loop import Models, Trainers

_CANDIDATE = 16
"""Tokens that a candidate score may have, at the most."""

_WON = (
    "Texts are compared: a score is the probability that a text wins against another of its group, the mean over both "
    "orders, and a human score by how much the humans prefer it."
)


@dataclass
class Experiment:
    """The parts that a configuration describes.

    Attributes:
        examples: the judged texts of the data, or pairs of them.
        attacks: changes of the texts, `none` first.
        defenses: in the configured order; those that are `Planned` must be prepared before anything is read.
        search: how a phrase is learned before the prompts can be read; None where none is.
        phrases: learned phrases whose words are attacks of this run one after the other; of them curves are made.
        answers: earlier answers of the judge to all of `prompts`; None where it is asked now.

    Raises:
        UserError: in `parse` and whatever it builds: anything in the configuration or the data that cannot be.
    """

    config: DictConfig
    judge: JudgeSettings
    assistant: Assistant
    decodings: Mapping[str, Decoding]
    data: JudgeDataModule
    conditions: list[Condition]
    builder: PromptBuilder
    prompts: list[Prompt]
    examples: Sequence[Example] = ()
    tuner: Tuner | None = None
    attacks: Sequence[Attack] = ()
    defenses: Sequence[Defense] = ()
    search: AdvSuffix | None = None
    phrases: Sequence[LearnedPhrase] = ()
    answers: Answers | None = None

    @classmethod
    def parse(cls, config: DictConfig, data: JudgeDataModule | None = None) -> Experiment:
        """Builds the parts, cheap ones first; of the models only tokenizers and configurations are loaded.

        Args:
            data: the data, where they are read already.

        Raises:
            UserError: anything in the configuration or the data that cannot be.
        """
        # 1. parts by themselves, and whether they go together
        asked = _asked(config, build_component(config.judge), build_component(config.assistant))
        cells = cells_of(config)
        search, phrases = learned_attack(config, asked.judge, asked.decodings)
        asked = replace(asked, search=search)
        attacks = with_phrases(select_attacks(list_at(config, "attacks")), phrases)
        defenses = configured_defenses(config, asked.judge)
        # 2. models and data; neither needs the other, so mistakes of both are told
        mistakes = Mistakes()
        for source in (asked.judge.source, asked.assistant.source):
            with mistakes.caught():
                if source is not None:
                    source.config()  # of models on the hub the first thing to be missing
        if not mistakes.found:
            with mistakes.caught():
                check_rules(MODELS, asked, mistakes)
                tokenizer, limit = tokenizer_of(asked)
        with mistakes.caught():
            data = data or data_of(config)
        mistakes.tell()
        # 3. how prompts are built; what follows them must fit too: a free answer, or the tokens of a candidate
        judge, dimensions = asked.judge, list(dict.fromkeys(dimension for dimension, _ in cells))
        answer = judge.max_new_tokens if GENERATION in judge.gives else _CANDIDATE
        room = max(answer, *(defense.answer_tokens or 0 for defense in defenses))
        given, rivals = prompt_of(config)
        names, closed = judge.spelled_names(tokenizer), judge.source.encoder_decoder
        builder = PromptBuilder.from_config(tokenizer, given, dimensions, limit - room, closed)
        builder = builder.spelling(names).under(defenses)
        ranges = list(dict.fromkeys(score_range for _, score_range in cells))
        check_rules(TEXTS, AskedTexts(asked, data, builder, rivals, ranges, defenses))
        # 4. examples, or pairs of them, under all conditions
        examples = pairs(data.examples, rivals) if rivals and not data.paired else data.examples
        conditions = conditions_of(cells, attacks, defenses, bool(rivals))
        with mistakes.caught():
            tuner = tuner_of(asked, data, conditions)
            if search is not None:
                check_learned(search, tuner, asked.decodings)
        with mistakes.caught():
            if rivals:
                ranking_of(config).check(paired_systems(examples))
        if search is not None:
            with mistakes.caught():
                search.examples(examples, data.split, DEV)
            with mistakes.caught():
                select_words(tokenizer, search.vocabulary, search.words)
        mistakes.tell()
        # 5. prompts, of which a judge may have answered some already
        prompts = builder.build(examples, _ready(conditions, defenses), attacked_text(attacks))
        answers = judge.answers(prompts, data.split, data.name)
        prompts = prompts if answers is None else answers.answered(prompts)
        parts = (config, judge, asked.assistant, asked.decodings, data, conditions, builder, prompts, examples, tuner)
        return cls(*parts, attacks, defenses, search, phrases, answers)

    def again(self, config: DictConfig) -> Experiment:
        """The same data and prompts under a configuration that differs in how it decodes, measures and shows."""
        asked = _asked(config, self.judge, self.assistant)
        other = copy.copy(self)  # with whatever of its properties is computed already
        other.config, other.decodings = config, asked.decodings
        if other.comparative:
            other.ranking.check(paired_systems(other.examples))
        other.tuner = tuner_of(asked, self.data, self.conditions)
        return other

    def attacked(self, phrases: Sequence[LearnedPhrase]) -> Experiment:
        """The same with phrases that were learned since, each of their lengths as one more attack."""
        attacks = with_phrases(self.attacks, phrases)
        cells = list(dict.fromkeys((condition.dimension, condition.range) for condition in self.conditions))
        conditions = conditions_of(cells, attacks, self.defenses, self.comparative)
        prompts = self.builder.build(self.examples, _ready(conditions, self.defenses), attacked_text(attacks))
        joint = [*self.phrases, *phrases]
        return replace(self, conditions=conditions, prompts=prompts, attacks=attacks, phrases=joint, search=None)

    def prepared(self, stage: str, models: Models, trainer: Trainers) -> Experiment:
        """The same with those defenses prepared that needed a stage (`defenses.STAGES`)."""
        if not any(isinstance(defense, Planned) and defense.stage == stage for defense in self.defenses):
            return self
        judged = attacked_text(self.attacks)
        resources = Resources(
            judge=self.judge,
            builder=self.builder,
            conditions=self.conditions,
            examples=self.examples,
            split=self.data.split,
            judged=judged,
            dataset=self.data.name,
            prompt={name: OmegaConf.select(self.config, f"prompt.{name}") for name in ("truncate", "template_options")},
            store=open_store(path_of(self.config, "store")),
            trainer=trainer,
            models=models,
        )
        defenses = [
            defense.prepared(resources) if isinstance(defense, Planned) and defense.stage == stage else defense
            for defense in self.defenses
        ]
        builder = self.builder.under(defenses)
        prompts = builder.build(self.examples, _ready(self.conditions, defenses), judged)
        return replace(self, defenses=defenses, builder=builder, prompts=prompts)

    @property
    def findings(self) -> Findings:
        """Findings of defenses while they got ready."""
        return Findings.together(defense.findings for defense in self.defenses if isinstance(defense, Prepared))

    def changed_texts(self) -> Iterator[tuple[Prompt, str]]:
        """The prompts whose judged text an attack or a defense has changed, each with that text."""
        attacked, defenses = attacked_text(self.attacks), {defense.name: defense for defense in self.defenses}
        for prompt in self.prompts:
            example, condition = prompt.example, prompt.condition
            text = attacked(example, condition)
            if condition.defense in defenses:
                text = defenses[condition.defense].text(text, example, condition)
            if text != example.output:
                yield prompt, text

    @property
    def planned(self) -> list[str]:
        """Names of the defenses that are not ready."""
        return [defense.name for defense in self.defenses if isinstance(defense, Planned)]

    @property
    def suffixes(self) -> list[Suffix]:
        """The learned phrases, for their curves."""
        return [
            Suffix(phrase.prefix, phrase.by_length, phrase.contexts, phrase.systems, phrase.against)
            for phrase in self.phrases
        ]

    def lesson(self) -> Lesson:
        """Lesson for a phrase: clean conditions under the first defense, and texts of the development split."""
        from judgebench.attacks.adv_suffix import Lesson  # it needs torch

        assert self.search is not None
        defense = self.defenses[0].name
        clean = [one for one in self.conditions if (one.attack, one.defense) == (NONE.name, defense)]
        known = {
            "dataset": self.data.name,
            "dimensions": list(dict.fromkeys(condition.dimension for condition in clean)),
            "ranges": list(dict.fromkeys(str(condition.range) for condition in clean)),
            "rubrics": OmegaConf.select(self.config, "prompt.rubrics"),
            "assessment": "comparative" if self.comparative else "absolute",
            "defense": defense,
        }
        return Lesson(self.search.examples(self.examples, self.data.split, DEV), clean, self.builder, known)

    @property
    def ranking(self) -> Ranking:
        """Rule by which systems are ranked where texts are compared."""
        return ranking_of(self.config)

    @property
    def comparative(self) -> bool:
        """True if it asks which of two texts is better."""
        return self.builder.comparative

    @cached_property
    def titles(self) -> dict[str, str | None]:
        """Short names of main model and assistant, names of groups and examples, and a `note` on the scores and the
        data."""
        answers = self.answers.note if self.answers else None
        notes = [
            answers,
            self.judge.note,
            _WON if self.comparative else None,
            self.data.note,
            self._unrated,
            self._foreign,
        ]
        return {
            "main": self.judge.source.title,
            "assistant": self.assistant.title,
            "groups": self.data.groups_are,
            "examples": "pairs" if self.comparative else "examples",
            "note": " ".join(note for note in notes if note) or None,
        }

    @cached_property
    def tokens(self) -> dict[Condition, tuple[int, int]]:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        return self.reader().tokens()

    @property
    def all_tokens(self) -> dict[str, int]:
        """Tokens of all prompts together (`total`), and those of them that must be computed (`unique`)."""
        totals, uniques = zip(*self.tokens.values(), strict=True)
        return {"total": sum(totals), "unique": sum(uniques)}

    @property
    def _unrated(self) -> str | None:
        """A sentence on how many texts, or pairs, humans rated; None where they rated all."""
        dimensions = list(dict.fromkeys(condition.dimension for condition in self.conditions))
        counts = {name: len(rated(self.examples, name)) for name in dimensions}
        if not self.data.rated or min(counts.values()) == len(self.examples):
            return None
        word = "pairs" if self.comparative else "texts"
        if len(set(counts.values())) == 1:
            counts = {"": counts[dimensions[0]]}
        named = "; ".join(f"{count:,}{f' on {name}' if name else ''}" for name, count in counts.items())
        return f"Humans rated {named} of {len(self.examples):,} {word}; agreement with them is of those."

    @cached_property
    def _foreign(self) -> str | None:
        """A sentence on phrases that were learned with another tokenizer."""
        if LOCAL not in self.judge.gives:  # whose tokenizer is not known
            return None
        theirs = [phrase.learned for phrase in self.phrases if phrase.learned.get("tokenizer")]
        if not theirs:
            return None
        from judgebench.attacks.adv_suffix import tokenizer_digest  # it needs torch

        own = tokenizer_digest(self.builder.tokenizer)
        others = [str(learned.get("judge", "another judge")) for learned in theirs if learned["tokenizer"] != own]
        if not others:
            return None
        return f"The phrase was learned on {others[0]} with another tokenizer; a phrase is text, and is read as such."

    @property
    def sources(self) -> list[ModelSource]:
        """The models here that judge."""
        sources: list[Any] = [self.judge.source] if LOCAL in self.judge.gives else []
        return [*sources, *([self.assistant.source] if self.assistant.source is not None else [])]

    def served_estimate(self) -> str | None:
        """Estimate, for people to read, of what asking served models would take; None where none is served."""
        return self.reader().estimate()

    def reader(self, models: Models | None = None) -> Any:
        """The reader of the prompts, with the configured store behind it; see `reader_for`.

        Args:
            models: those that are in memory already.
        """
        from judgebench.judges.reader import ReadingTask  # torch with it

        task = ReadingTask(
            assistant=self.assistant,
            decodings=self.decodings,
            prompts=self.prompts,
            tokenizer=self.builder.tokenizer,
            null=self.builder.null,
            store=lambda: open_store(path_of(self.config, "store")),
            models=models,
            free_text={defense.name: defense.answer_tokens for defense in self.defenses if defense.answer_tokens},
            answers=self.answers,
        )
        return reader_for(self.judge, task)


def _asked(config: DictConfig, judge: JudgeSettings, assistant: Assistant) -> Asked:
    """Judge, assistant and decodings, which fit each other; else `UserError`."""
    asked = Asked(config, judge, assistant, decodings_of(config.get("decoding") or {}))
    check_rules(SETTINGS, asked)
    check_run(config)
    return asked


def _ready(conditions: Sequence[Condition], defenses: Sequence[Defense]) -> list[Condition]:
    """Conditions of which prompts can be built already."""
    planned = {defense.name for defense in defenses if isinstance(defense, Planned)}
    return [condition for condition in conditions if condition.defense not in planned]
