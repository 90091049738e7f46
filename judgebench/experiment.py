"""From configuration to the parts of an experiment, everything checked before anything is computed or written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.asked.attack import check_learnable, check_learned, distinct_attacks, searched, words_of
from judgebench.asked.compared import all_conditions, check_compared, check_paired, check_ties, ranking_of, rivals_of
from judgebench.asked.defense import defense_settings, tutor_of
from judgebench.asked.judge import check_elsewhere, check_ready, most_tokens
from judgebench.asked.keys import distinct, listed, path_of
from judgebench.asked.parts import check_parts, decodings_of
from judgebench.asked.ranges import check_ranges
from judgebench.asked.run import check_run
from judgebench.asked.tune import tuner_of
from judgebench.attacks import NONE, Attack, LearnedPhrase, attacked_text, chosen_attacks
from judgebench.attacks.search import AdvSuffix
from judgebench.attacks.search.learn import Lesson, tokenizer_digest
from judgebench.attacks.search.vocabulary import chosen_words
from judgebench.data.dataset import DEV
from judgebench.data.module import JudgeDataModule
from judgebench.data.pairs import paired_systems, pairs
from judgebench.decoding.rules import Decoding
from judgebench.defenses import Defense, Findings, Means, Planned, Prepared, chosen_defenses
from judgebench.errors import UserError
from judgebench.judges.answers import Answers
from judgebench.judges.api.reader import ApiReader, served_estimate
from judgebench.judges.api.settings import ApiSpec, how_scored, spelled_names
from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import check_vocabularies
from judgebench.judges.loop import Models, Trainers
from judgebench.judges.planning import distinct_tokens, shared_tokens, whole_tokens
from judgebench.judges.reader import Reader
from judgebench.judges.replay import Replayer, ReplaySpec
from judgebench.judges.settings import JudgeSettings
from judgebench.judges.spec import JudgeSpec, check_kinds
from judgebench.metrics.comparisons import Ranking
from judgebench.metrics.correlation import krippendorff_alpha, mean_pairwise_spearman
from judgebench.metrics.suffix import Suffix
from judgebench.own import built
from judgebench.prompts.builder import PromptBuilder
from judgebench.readings.shared import open_store
from judgebench.tuning.tuners import Tuner
from judgebench.types import Condition, Example, Prompt, ScoreRange

_WON = (
    "Texts are compared: a score is the probability that a text wins against another of its group, the mean over both "
    "orders, and a human score by how much the humans prefer it."
)


@dataclass
class Experiment:
    """The parts that a configuration describes.

    Attributes:
        examples: what is judged: the data's texts, or pairs of them.
        attacks: what is done to them, `none` first.
        defenses: what is done against that, in the configured order; those that are `Planned` must be made ready before
            anything is read.
        search: how a phrase is learned before the prompts can be read; None where none is.
        phrases: learned phrases whose words are attacks of this run one after the other; of them curves are made.
        answers: what the judge answered earlier, to all of `prompts`; None where it is asked now.

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
    def parse(cls, config: DictConfig) -> Experiment:
        """Builds the parts, cheap ones first; of the models only tokenizers and configurations are loaded."""
        judge: JudgeSettings = built(config.judge)
        assistant: Assistant = built(config.assistant)
        decodings = decodings_of(config.get("decoding") or {})
        check_parts(judge, assistant, decodings)
        check_run(config)
        check_elsewhere(config, judge)
        ranges = distinct("ranges", [ScoreRange.parse(given) for given in listed(config, "ranges")])
        dimensions = distinct("dimensions", [str(name) for name in listed(config, "dimensions")])
        search, phrases = searched(config, judge, decodings)
        attacks = distinct_attacks([*chosen_attacks(listed(config, "attacks")), *words_of(phrases)])
        defenses = chosen_defenses(listed(config, "defenses"), defense_settings(config), tutor_of(config))
        if search is not None:
            check_learnable(defenses[0])
        check_ready(defenses, judge)
        tokenizer = judge.source.tokenizer()
        if isinstance(judge, JudgeSpec):
            check_kinds(judge, assistant)
        limit = most_tokens(judge.source.config())
        if assistant.source is not None:
            check_vocabularies(tokenizer, assistant.source.tokenizer())
            limit = min(limit, most_tokens(assistant.source.config()))
        data: JudgeDataModule = built(config.data)
        data.setup()
        for dimension in dimensions:
            if dimension not in data.dimensions:
                raise UserError(
                    f"dimensions: {data.name} has no human scores for {dimension!r}; it has "
                    f"{', '.join(data.dimensions)}."
                )
        # what follows the prompt must fit too: a free answer, or the tokens of a candidate
        room = max(judge.max_new_tokens if judge.mode == "generate" else 16, *(d.answer_tokens or 0 for d in defenses))
        asked: Any = OmegaConf.to_container(config.prompt, resolve=True) if config.get("prompt") else None
        asked, rivals = rivals_of(asked)
        closed = judge.source.encoder_decoder
        names = spelled_names(judge, tokenizer)
        builder = PromptBuilder.from_config(tokenizer, asked, dimensions, limit - room, closed)
        builder = builder.spelling(names).under(defenses)
        check_paired(data, builder.comparative)
        check_compared(builder.comparative, rivals, ranges, defenses)
        check_ranges([] if builder.comparative else builder.rangeless, ranges)
        check_ties(builder.tieless if builder.comparative else [], ranges)
        cells = [(dimension, score_range) for dimension in dimensions for score_range in ranges]
        conditions = all_conditions(cells, attacks, defenses, bool(rivals))
        tuner = tuner_of(config, judge, assistant, decodings, data, conditions)
        examples = pairs(data.examples, rivals) if rivals and not data.paired else data.examples
        if rivals:
            ranking_of(config).check(paired_systems(examples))
        if search is not None:
            check_learned(search, tuner, decodings)
            search.examples(examples, data.split, DEV)
            chosen_words(tokenizer, search.vocabulary, search.words)
        prompts = builder.build(examples, _ready(conditions, defenses), attacked_text(attacks))
        answers = None
        if isinstance(judge, ReplaySpec):
            answers = judge.answers(prompts, data.split, data.name)
            prompts = answers.answered(prompts)
        parts = (config, judge, assistant, decodings, data, conditions, builder, prompts, examples, tuner)
        return cls(*parts, attacks, defenses, search, phrases, answers)

    def again(self, config: DictConfig) -> Experiment:
        """The same data and prompts under a configuration that differs in how it decodes, measures and shows."""
        decodings = decodings_of(config.get("decoding") or {})
        check_parts(self.judge, self.assistant, decodings)
        check_run(config)
        other = copy.copy(self)  # with whatever of its properties is computed already
        other.config, other.decodings = config, decodings
        if other.comparative:
            other.ranking.check(paired_systems(other.examples))
        other.tuner = tuner_of(config, self.judge, self.assistant, decodings, self.data, self.conditions)
        return other

    def attacked(self, phrases: Sequence[LearnedPhrase]) -> Experiment:
        """The same with phrases that were learned since, each of their lengths as one more attack."""
        attacks = distinct_attacks([*self.attacks, *words_of(phrases)])
        cells = list(dict.fromkeys((condition.dimension, condition.range) for condition in self.conditions))
        conditions = all_conditions(cells, attacks, self.defenses, self.comparative)
        prompts = self.builder.build(self.examples, _ready(conditions, self.defenses), attacked_text(attacks))
        return replace(
            self,
            conditions=conditions,
            prompts=prompts,
            attacks=attacks,
            phrases=[*self.phrases, *phrases],
            search=None,
        )

    def prepared(self, stage: str, models: Models, trainer: Trainers) -> Experiment:
        """The same with those defenses ready that needed to know what a stage brings (`defenses.STAGES`)."""
        if not any(isinstance(defense, Planned) and defense.stage == stage for defense in self.defenses):
            return self
        judged = attacked_text(self.attacks)
        means = Means(
            judge=self.judge,
            builder=self.builder,
            conditions=self.conditions,
            examples=self.examples,
            split=self.data.split,
            judged=judged,
            dataset=self.data.name,
            prompt={name: OmegaConf.select(self.config, f"prompt.{name}") for name in ("truncate", "template_options")},
            store=open_store(path_of(self.config, "store")),
            data=self.data,
            trainer=trainer,
            models=models,
        )
        defenses = [
            defense.prepared(means) if isinstance(defense, Planned) and defense.stage == stage else defense
            for defense in self.defenses
        ]
        builder = self.builder.under(defenses)
        prompts = builder.build(self.examples, _ready(self.conditions, defenses), judged)
        return replace(self, defenses=defenses, builder=builder, prompts=prompts)

    @property
    def findings(self) -> Findings:
        """What defenses have found while they got ready."""
        return Findings.together(defense.findings for defense in self.defenses if isinstance(defense, Prepared))

    def changed_texts(self) -> Iterator[tuple[Prompt, str]]:
        """The prompts that have another judged text than their example's own, and that text: what an attack made of
        it, and a defense of that."""
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
        """What the curves of learned phrases are about."""
        return [
            Suffix(phrase.prefix, phrase.by_length, phrase.contexts, phrase.systems, phrase.against)
            for phrase in self.phrases
        ]

    def lesson(self) -> Lesson:
        """What a phrase is learned on: clean conditions under the first defense, and texts of the development split."""
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
        """How systems are ranked where texts are compared."""
        return ranking_of(self.config)

    @property
    def comparative(self) -> bool:
        """Whether it asks which of two texts is better."""
        return self.builder.comparative

    @cached_property
    def titles(self) -> dict[str, str | None]:
        """Short names of main model and assistant, what groups and examples are called, what must be known of the
        scores and the data (`note`)."""
        answers = self.answers.note if self.answers else None
        notes = [answers, how_scored(self.judge), _WON if self.comparative else None, self.data.note, self._foreign]
        return {
            "main": self.judge.source.title,
            "assistant": self.assistant.title,
            "groups": self.data.groups_are,
            "examples": "pairs" if self.comparative else "examples",
            "note": " ".join(note for note in notes if note) or None,
        }

    @cached_property
    def scale(self) -> dict[str, tuple[float, float] | None]:
        """Dimension -> the humans' scale; where the data does not say, what their scores span; None where texts are
        compared, for a preference is no score."""
        dimensions = {condition.dimension for condition in self.conditions}
        spans: dict[str, tuple[float, float] | None] = dict(self.data.scale)
        for dimension in dimensions - set(spans):
            given = [example.human[dimension] for example in self.data.examples]
            spans[dimension] = (min(given), max(given))
        return dict.fromkeys(spans) if self.comparative else spans

    @cached_property
    def agreement(self) -> dict[str, dict[str, float]]:
        """Dimension -> how far the experts agree among themselves, where their single scores are known."""
        found = {}
        for dimension in dict.fromkeys(condition.dimension for condition in self.conditions):
            ratings = self.data.ratings.get(dimension)
            if ratings is not None and (alpha := krippendorff_alpha(ratings)) is not None:
                found[dimension] = {"alpha": alpha, "spearman": mean_pairwise_spearman(ratings) or 0.0}
        return found

    @cached_property
    def tokens(self) -> dict[Condition, tuple[int, int]]:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        if self.answers is not None:
            return {prompt.condition: (0, 0) for prompt in self.prompts}
        if isinstance(self.judge, ApiSpec):  # whose server bills every prompt
            return whole_tokens(self.prompts)
        count = distinct_tokens if self.judge.source.encoder_decoder else shared_tokens
        return count(self.prompts, self.judge.token_budget)

    @property
    def all_tokens(self) -> dict[str, int]:
        """Tokens of all prompts together (`total`), and those of them that must be computed (`unique`)."""
        totals, uniques = zip(*self.tokens.values(), strict=True)
        return {"total": sum(totals), "unique": sum(uniques)}

    @cached_property
    def _foreign(self) -> str | None:
        """A sentence on phrases that were learned with another tokenizer."""
        if self.answers is not None or isinstance(self.judge, ApiSpec):  # whose tokenizer is not known
            return None
        theirs = [phrase.learned for phrase in self.phrases if phrase.learned.get("tokenizer")]
        own = tokenizer_digest(self.builder.tokenizer) if theirs else None
        others = [str(learned.get("judge", "another judge")) for learned in theirs if learned["tokenizer"] != own]
        if not others:
            return None
        return f"The phrase was learned on {others[0]} with another tokenizer; a phrase is text, and is read as such."

    @property
    def _worded(self) -> dict[str, int]:
        return {defense.name: defense.answer_tokens for defense in self.defenses if defense.answer_tokens}

    def served_estimate(self) -> str | None:
        """What asking served models would take, for people to read; None where none is served."""
        if not isinstance(self.judge, ApiSpec):
            return None
        parts = (self.judge, self.assistant, self.decodings, self.prompts, self.builder.null)
        return served_estimate(*parts, self._worded)

    def reader(self, models: Models | None = None) -> Reader | Replayer | ApiReader:
        """What reads the prompts, with the configured store behind it; or what knows the answers already.

        Args:
            models: those that are in memory already.
        """
        worded = self._worded
        if isinstance(self.judge, ReplaySpec):
            assert self.answers is not None
            return Replayer(self.judge.source, self.answers, self.prompts, next(iter(self.decodings)), worded)
        if isinstance(self.judge, ApiSpec):
            store = open_store(path_of(self.config, "store"))
            parts = (self.judge, self.assistant, self.decodings, self.prompts, self.builder.null, store)
            return ApiReader(*parts, worded)
        assert isinstance(self.judge, JudgeSpec)
        return Reader(
            judge=self.judge,
            assistant=self.assistant,
            decodings=self.decodings,
            tokenizer=self.builder.tokenizer,
            prompts=self.prompts,
            null=self.builder.null,
            store=open_store(path_of(self.config, "store")),
            models=models or Models(),
            worded=worded,
        )


def _ready(conditions: Sequence[Condition], defenses: Sequence[Defense]) -> list[Condition]:
    """Those of which prompts can be built already."""
    planned = {defense.name for defense in defenses if isinstance(defense, Planned)}
    return [condition for condition in conditions if condition.defense not in planned]
