"""An experiment: data, conditions and the judge that is asked, from the parts of a configuration,
everything checked before anything is computed or written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from omegaconf import DictConfig

from judgebench.attacks import NONE, LearnedPhrase, attacked_text
from judgebench.attacks.search import select_words
from judgebench.config.check import check_config, data_of
from judgebench.config.keys import path_of
from judgebench.config.parts import JudgeParts, Parts
from judgebench.config.rules import (
    check_rules,
    choice_mismatches,
    model_mismatches,
    range_mismatches,
    text_mismatches,
)
from judgebench.data.dataset import DEV, RatingDataset, pairs, rated
from judgebench.defenses.prepared import Findings, Prepared, planned, prepare
from judgebench.judges.judge import PromptSet, ReadingJudge
from judgebench.judges.spec import LOCAL
from judgebench.readings.store import open_store
from judgebench.tuning.tuners import Tuner
from judgebench.types import Condition, Example, Prompt
from judgebench.words.errors import Mistakes
from judgebench.words.formats import say

if TYPE_CHECKING:
    from judgebench.attacks.adv_suffix import Lesson
    from judgebench.judges.local.models import Models, Trainers

_WON = (
    "Texts are compared: a score is the probability that a text wins against another of its group, "
    "the mean over both orders, and a human score by how much the humans prefer it."
)


def judge_of(parts: JudgeParts, store: Path) -> ReadingJudge:
    """The judge of some parts; of its models only tokenizers and configurations are loaded.

    Raises:
        UserError: the parts do not go with the models, or the rubrics not with the tokenizer.
    """
    # 1. the models' configurations, of models on the hub the first thing to be missing
    mistakes = Mistakes()
    for source in (parts.judge.source, parts.assistant.source):
        with mistakes.caught():
            if source is not None:
                source.config()
    mistakes.tell()
    check_rules(model_mismatches(parts))
    # 2. the judge
    return ReadingJudge.of(
        parts.judge,
        parts.decodings,
        parts.prompt,
        parts.dimensions,
        partial(open_store, store),
        parts.assistant,
        parts.defenses,
    )


def check_texts(parts: JudgeParts, judge: ReadingJudge, data: RatingDataset) -> None:
    """Checks that rubrics, ranges and defenses go with the texts that are judged; else
    `UserError`."""
    builder = judge.builder
    check_rules(text_mismatches(parts, data, builder), range_mismatches(parts, builder))


def examples_of(parts: JudgeParts, data: RatingDataset) -> Sequence[Example]:
    """The judged texts of the data, or pairs of them."""
    if parts.rivals and not data.paired:
        return pairs(data.examples, parts.rivals)
    return data.examples


@dataclass(kw_only=True)
class Experiment:
    """A judge that is asked about data under conditions.

    Attributes:
        parts: as configured; their attacks grow as phrases are learned.
        judge: under its defenses, which get ready one after the other.
        examples: the judged texts of the data, or pairs of them.
    """

    parts: Parts
    data: RatingDataset
    judge: ReadingJudge
    examples: Sequence[Example]
    tuner: Tuner | None = None

    @classmethod
    def parse(cls, config: DictConfig, parts: Parts | None = None) -> Experiment:
        """Builds the prompts of parts; of the models only tokenizers and configurations are loaded.

        Args:
            parts: from `check_config`, where the configuration is checked already.

        Raises:
            UserError: anything in the configuration or the data that cannot be.
        """
        parts = parts or check_config(config, here=False)
        # 1. judge and data; neither needs the other, so mistakes of both are named
        mistakes = Mistakes()
        with mistakes.caught():
            judge = judge_of(parts, path_of(parts.config, "store"))
        with mistakes.caught():
            data = data_of(parts)
        mistakes.tell()
        # 2. judge and data together
        check_texts(parts, judge, data)
        check_rules(choice_mismatches(parts, judge.builder))
        judge = judge.under([defense.fitted(data, parts.cells) for defense in parts.defenses])
        # 3. examples, or pairs of them, and what is chosen or learned by them
        examples = examples_of(parts, data)
        tuner = None
        with mistakes.caught():
            tuner = parts.tuner_of(data)
        if parts.search is not None:
            with mistakes.caught():
                parts.search.objectives(parts.decodings, parts.judge.mode)
            with mistakes.caught():
                parts.search.examples(examples, data.split, DEV)
            with mistakes.caught():
                select_words(judge.tokenizer, parts.search.vocabulary, parts.search.words)
        mistakes.tell()
        # 4. its prompts, of which a mistake is named now
        experiment = cls(parts=parts, data=data, judge=judge, examples=examples, tuner=tuner)
        experiment.questions  # noqa: B018
        return experiment

    @cached_property
    def conditions(self) -> list[Condition]:
        return self.parts.all_conditions()

    @cached_property
    def questions(self) -> PromptSet:
        """The prompts that can be built already, and earlier answers to them."""
        waiting = planned(self.judge)
        return self.judge.questions(
            self.examples,
            [condition for condition in self.conditions if condition.defense not in waiting],
            self.data.split,
            self.data.name,
            attacked_text(self.parts.attacks),
        )

    @property
    def prompts(self) -> list[Prompt]:
        return self.questions.prompts

    def again(self, parts: Parts) -> Experiment:
        """The same data and prompts under parts that differ in how they decode, measure and
        show."""
        other = copy.copy(self)  # with those of its properties that are computed already
        other.parts = parts
        other.judge = replace(self.judge, decodings=parts.decodings)
        other.tuner = parts.tuner_of(self.data)
        return other

    def attacked(self, phrases: Sequence[LearnedPhrase]) -> Experiment:
        """The same with phrases that were learned since, each of their lengths as one more
        attack."""
        return replace(self, parts=self.parts.with_phrases(phrases))

    def prepared(self, stage: str, models: Models, trainer: Trainers) -> Experiment:
        """The same with those defenses prepared that needed a stage (`defenses.STAGES`)."""
        judge = prepare(
            self.judge,
            stage,
            self.conditions,
            attacked_text(self.parts.attacks),
            examples=self.examples,
            split=self.data.split,
            dataset=self.data.name,
            trainer=trainer,
            models=models,
        )
        return self if judge is self.judge else replace(self, judge=judge)

    @property
    def findings(self) -> Findings:
        """Findings of defenses while they got ready."""
        return Findings.together(
            defense.findings for defense in self.judge.defenses if isinstance(defense, Prepared)
        )

    def changed_texts(self) -> Iterator[tuple[Prompt, str]]:
        """The prompts whose judged text an attack or a defense has changed, each with that text."""
        attacked = attacked_text(self.parts.attacks)
        defenses = {defense.name: defense for defense in self.judge.defenses}
        for prompt in self.prompts:
            example = prompt.example
            condition = prompt.condition
            text = attacked(example, condition)
            if condition.defense in defenses:
                text = defenses[condition.defense].text(text, example, condition)
            if text != example.output:
                yield prompt, text

    def lesson(self) -> Lesson:
        """Lesson for a phrase: clean conditions under the first defense, and texts of the
        development split."""
        from judgebench.attacks.adv_suffix import Lesson  # it needs torch

        assert self.parts.search is not None
        defense = self.parts.defenses[0].name
        clean = [
            condition
            for condition in self.conditions
            if condition.attack == NONE.name and condition.defense == defense
        ]
        examples = self.parts.search.examples(self.examples, self.data.split, DEV)
        known = {
            "dataset": self.data.name,
            "dimensions": list(dict.fromkeys(condition.dimension for condition in clean)),
            "ranges": list(dict.fromkeys(str(condition.range) for condition in clean)),
            "rubrics": self.parts.prompt["rubrics"],
            "assessment": "comparative" if self.comparative else "absolute",
            "defense": defense,
        }
        return Lesson(examples, clean, self.judge.builder, known)

    @property
    def comparative(self) -> bool:
        """True if it asks which of two texts is better."""
        return self.judge.builder.comparative

    @cached_property
    def titles(self) -> dict[str, str | None]:
        """Short names of main model and assistant, names of groups and examples, a `note` on the
        scores and the data, and of it the part on what is `left_out`."""
        answers = self.questions.answers
        of_data = [self.data.note, self._unrated, self._foreign]
        left_out = [answers.left_out if answers else None, *of_data]
        notes = [
            answers.note if answers else None,
            self.judge.settings.note,
            _WON if self.comparative else None,
            *of_data,
            self._fewer_resamples,
            *(defense.note for defense in self.judge.defenses),
        ]
        return {
            **self.judge.titles,
            "groups": self.data.groups_are,
            "examples": "pairs" if self.comparative else "examples",
            "note": " ".join(filter(None, notes)) or None,
            "left_out": " ".join(filter(None, left_out)) or None,
        }

    @cached_property
    def tokens(self) -> dict[Condition, tuple[int, int]]:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        return self.judge.reader(self.questions).tokens()

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
    def _unrated(self) -> str:
        """A sentence on how many texts, or pairs, humans rated; empty where they rated all."""
        if not self.data.rated:
            return ""
        return say(
            "data_note",
            part="rated",
            counts={name: len(rated(self.examples, name)) for name in self.parts.dimensions},
            all=len(self.examples),
            pairs=self.comparative,
        )

    @property
    def possible_bands(self) -> list[str]:
        """A sentence on each dimension whose labels say which texts pass, where the best judge that
        there can be would leave some of them to a person."""
        sentences = []
        for name, classes in self.data.classes.items():
            if (
                classes.pass_from is None
                or self.comparative
                or not self.parts.config.human_agreement
            ):
                continue
            from judgebench.studies.decisions import aim_record  # scipy with it

            humans = [[example.human.get(name, np.nan)] for example in self.data.examples]
            ratings = self.data.ratings.get(name, np.array(humans, dtype=float))
            groups = np.array([example.group_id for example in self.data.examples])
            row = aim_record(ratings, classes, groups, self.parts.asking)
            said = say("decisions", part="ahead", row=row)
            if said:
                sentences.append(said if len(self.data.classes) == 1 else f"{name}: {said}")
        return sentences

    @property
    def _fewer_resamples(self) -> str:
        """A sentence on intervals of fewer resamples than were asked for; empty where there are as
        many."""
        from judgebench.stats.clusters import affordable  # scipy with it

        groups = len(self.data.split)
        asked = int(self.parts.config.metrics.resamples)
        return say(
            "data_note",
            part="resamples",
            data=self.data,
            groups=groups,
            asked=asked,
            drawn=affordable(groups, asked),
        )

    @property
    def _foreign(self) -> str | None:
        """A sentence on phrases that were learned with another tokenizer."""
        theirs = [
            phrase.learned for phrase in self.parts.phrases if phrase.learned.get("tokenizer")
        ]
        # a tokenizer that is not here is not known
        if not theirs or LOCAL not in self.judge.settings.capabilities:
            return None
        from judgebench.attacks.adv_suffix import tokenizer_digest  # it needs torch

        digest = tokenizer_digest(self.judge.tokenizer)
        foreign = [learned for learned in theirs if learned["tokenizer"] != digest]
        return say("data_note", part="phrase", phrase=foreign[0]) if foreign else None
