"""From configuration to the parts of an experiment, everything checked before anything is computed or written."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from judgebench.attacks import NONE, Attack, LearnedPhrase, PhraseFile, attacked_text, chosen_attacks
from judgebench.attacks.search import AdvSuffix
from judgebench.attacks.search.learn import Lesson, tokenizer_digest
from judgebench.attacks.search.vocabulary import chosen_words
from judgebench.data.module import JudgeDataModule
from judgebench.data.pairs import Rivals, pairs
from judgebench.data.split import DEV
from judgebench.decoding.protocol import Decoding
from judgebench.defenses import Defense, Retokenization, chosen_defenses
from judgebench.errors import UserError
from judgebench.judges.assistants import Assistant
from judgebench.judges.judge import Models
from judgebench.judges.loading import check_vocabularies
from judgebench.judges.planning import once, plan, roots
from judgebench.judges.reader import JudgeSpec, Reader, check_fit
from judgebench.metrics.agreement import krippendorff_alpha, mean_pairwise_spearman
from judgebench.metrics.evaluate import check_settings
from judgebench.metrics.suffix import Suffix
from judgebench.prompts.builder import NO_DEFENSE, PromptBuilder
from judgebench.readings.store import ReadingStore
from judgebench.tuning.tune import check_tuning
from judgebench.tuning.tuners import Tuner
from judgebench.types import ORDERS, PLACES, Condition, Example, Prompt, ScoreRange

_METRICS = ("levels", "resamples", "seed")
_TUNES = ("dev", "exact", "published", "shared")
_KNOBS = ("decoding.lambda=", "decoding.temperature=")
_PAIRS = ("rivals", "rivals_seed")
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
        defenses: what is done against that, in the configured order.
        search: how a phrase is learned before the prompts can be read; None where none is.
        phrases: learned phrases whose words are attacks of this run one after the other; of them curves are made.

    Raises:
        UserError: in `parse` and whatever it builds: anything in the configuration or the data that cannot be.
    """

    config: DictConfig
    judge: JudgeSpec
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

    @classmethod
    def parse(cls, config: DictConfig) -> Experiment:
        """Builds the parts, cheap ones first; of the models only tokenizers and configurations are loaded."""
        judge: JudgeSpec = instantiate(config.judge)
        assistant: Assistant = instantiate(config.assistant)
        decodings = _decodings(config.get("decoding") or {})
        check_fit(judge, assistant, decodings)
        _check_settings(config)
        ranges = _distinct("ranges", [ScoreRange.parse(given) for given in _listed(config, "ranges")])
        dimensions = _distinct("dimensions", [str(name) for name in _listed(config, "dimensions")])
        search, phrases = _searched(config, judge, decodings)
        attacks = _distinct_attacks([*chosen_attacks(_listed(config, "attacks")), *_words_of(phrases)])
        defenses = chosen_defenses(_listed(config, "defenses"), config.get("defenses_seed"))
        if search is not None:
            _check_learnable(defenses[0])
        tokenizer = judge.source.tokenizer()
        limit = _most_tokens(judge.source.config())
        if assistant.source is not None:
            check_vocabularies(tokenizer, assistant.source.tokenizer())
            limit = min(limit, _most_tokens(assistant.source.config()))
        data: JudgeDataModule = instantiate(config.data)
        data.setup()
        for dimension in dimensions:
            if dimension not in data.dimensions:
                raise UserError(
                    f"dimensions: {data.name} has no human scores for {dimension!r}; it has "
                    f"{', '.join(data.dimensions)}."
                )
        # what follows the prompt must fit too: a free answer, or the tokens of a candidate
        room = judge.max_new_tokens if judge.mode == "generate" else 16
        asked: Any = OmegaConf.to_container(config.prompt, resolve=True) if config.get("prompt") else None
        asked, rivals = _rivals(asked)
        builder = PromptBuilder.from_config(tokenizer, asked, dimensions, limit - room, defenses)
        _check_compared(builder.comparative, rivals, ranges)
        cells = [(dimension, score_range) for dimension in dimensions for score_range in ranges]
        conditions = _conditions(cells, attacks, defenses, bool(rivals))
        tuner = _tuner(config, judge, assistant, decodings, data, conditions)
        examples = pairs(data.examples, rivals) if rivals else data.examples
        if search is not None:
            _check_learned(search, tuner, decodings)
            search.examples(examples, data.split, DEV)
            chosen_words(tokenizer, search.vocabulary, search.words)
        prompts = builder.build(examples, conditions, attacked_text(attacks))
        parts = (config, judge, assistant, decodings, data, conditions, builder, prompts, examples, tuner)
        return cls(*parts, attacks, defenses, search, phrases)

    def again(self, config: DictConfig) -> Experiment:
        """The same data and prompts under a configuration that differs in how it decodes, measures and shows."""
        decodings = _decodings(config.get("decoding") or {})
        check_fit(self.judge, self.assistant, decodings)
        _check_settings(config)
        other = copy.copy(self)  # with whatever of its properties is computed already
        other.config, other.decodings = config, decodings
        other.tuner = _tuner(config, self.judge, self.assistant, decodings, self.data, self.conditions)
        return other

    def attacked(self, phrases: Sequence[LearnedPhrase]) -> Experiment:
        """The same with phrases that were learned since, each of their lengths as one more attack."""
        attacks = _distinct_attacks([*self.attacks, *_words_of(phrases)])
        cells = list(dict.fromkeys((condition.dimension, condition.range) for condition in self.conditions))
        conditions = _conditions(cells, attacks, self.defenses, self.comparative)
        prompts = self.builder.build(self.examples, conditions, attacked_text(attacks))
        return replace(
            self,
            conditions=conditions,
            prompts=prompts,
            attacks=attacks,
            phrases=[*self.phrases, *phrases],
            search=None,
        )

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
    def comparative(self) -> bool:
        """Whether it asks which of two texts is better."""
        return self.builder.comparative

    @cached_property
    def titles(self) -> dict[str, str | None]:
        """Short names of main model and assistant, what groups and examples are called, what must be known of the
        scores and the data (`note`)."""
        notes = [_WON if self.comparative else None, self.data.note, self._foreign]
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
        known = roots(self.prompts)
        totals = dict.fromkeys(self.conditions, 0)
        for prompt in self.prompts:
            totals[prompt.condition] += len(prompt.token_ids)
        uniques = dict.fromkeys(self.conditions, 0)
        for batch in once(plan(self.prompts, self.judge.token_budget), _read_alike):
            condition = batch.prompts[0].condition
            root = len(known[condition])
            uniques[condition] += batch.tokens(root)[1] + (root if not uniques[condition] else 0)
        return {condition: (totals[condition], uniques[condition]) for condition in self.conditions}

    @property
    def all_tokens(self) -> dict[str, int]:
        """Tokens of all prompts together (`total`), and those of them that must be computed (`unique`)."""
        totals, uniques = zip(*self.tokens.values(), strict=True)
        return {"total": sum(totals), "unique": sum(uniques)}

    @cached_property
    def _foreign(self) -> str | None:
        """A sentence on phrases that were learned with another tokenizer."""
        theirs = [phrase.learned for phrase in self.phrases if phrase.learned.get("tokenizer")]
        own = tokenizer_digest(self.builder.tokenizer) if theirs else None
        others = [str(learned.get("judge", "another judge")) for learned in theirs if learned["tokenizer"] != own]
        if not others:
            return None
        return f"The phrase was learned on {others[0]} with another tokenizer; a phrase is text, and is read as such."

    def reader(self, models: Models | None = None) -> Reader:
        """What reads the prompts, with the configured store behind it.

        Args:
            models: those that are in memory already.
        """
        return Reader(
            judge=self.judge,
            assistant=self.assistant,
            decodings=self.decodings,
            tokenizer=self.builder.tokenizer,
            prompts=self.prompts,
            null=self.builder.null,
            store=ReadingStore(path_of(self.config, "store")),
            models=models or Models(),
        )


def path_of(config: DictConfig, key: str) -> Path:
    """A path that the configuration names.

    Raises:
        UserError: it is no text.
    """
    value = config.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise UserError(f"{key}: {value!r} is not a path.")
    return Path(str(value)).expanduser()


def _read_alike(prompt: Prompt) -> tuple[ScoreRange, bytes]:
    return prompt.condition.range, prompt.token_ids.tobytes()


def _searched(
    config: DictConfig, judge: JudgeSpec, decodings: Mapping[str, Decoding]
) -> tuple[AdvSuffix | None, list[LearnedPhrase]]:
    """How a phrase is learned, or one that was learned elsewhere."""
    if config.get("attack") is None:
        return None, []
    try:
        asked = instantiate(config.attack)
    except MissingMandatoryValue as error:
        raise UserError(
            "attack.phrase_file: name the attack/phrase.json of a run with attack=adv_suffix, or any JSON file with "
            '{"phrase": "some words"}.'
        ) from error
    if isinstance(asked, PhraseFile):
        return None, [asked.load()]
    if not isinstance(asked, AdvSuffix):
        raise UserError(f"attack: {config.attack!r} is no way of learning a phrase; conf/attack has them.")
    asked.objectives(decodings, judge.mode)
    if asked.search.takes_gradient and judge.engine != "prefix":
        raise UserError("search: the gradient needs judge.engine=prefix; or take search=exhaustive or halving.")
    return asked, []


def _check_learned(search: AdvSuffix, tuner: Tuner | None, decodings: Mapping[str, Decoding]) -> None:
    """Whether what a phrase is learned against is what it is tried on."""
    if tuner is None:
        return
    tuned = tuner.decodings or [name for name, decoding in decodings.items() if decoding.needs_assistant]
    if both := [name for name in search.against if name in tuned]:
        raise UserError(
            f"attack.against: a phrase against {both[0]} would be learned before tune={tuner.name} has chosen lambda "
            "and t; add tune=none, and set decoding.lambda and decoding.temperature."
        )


def _words_of(phrases: Sequence[LearnedPhrase]) -> list[Attack]:
    return [attack for phrase in phrases for attack in phrase.attacks()]


def _distinct_attacks(attacks: list[Attack]) -> list[Attack]:
    names = [attack.name for attack in attacks]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(f"attacks: {twice[0]!r} is what a learned phrase is called; give your own file another name.")
    return attacks


def _check_learnable(defense: Defense) -> None:
    """Whether a phrase can be learned under a defense: words must be the same tokens wherever they stand."""
    if isinstance(defense, Retokenization):
        raise UserError(
            f"defenses: a phrase is learned under the first one, and {defense.name} gives its words other tokens in "
            "each text; put none first, as in 'defenses=[none,retokenization]'."
        )


def _conditions(
    cells: Sequence[tuple[str, ScoreRange]], attacks: Sequence[Attack], defenses: Sequence[Defense], compared: bool
) -> list[Condition]:
    """Every cell under every attack and every defense, and where texts are compared in both orders."""
    orders = ORDERS if compared else ("",)
    return [
        Condition(dimension, score_range, attack.name, defense.name, order)
        for dimension, score_range in cells
        for attack in attacks
        for defense in defenses
        for order in orders
    ]


def _rivals(prompt: Any) -> tuple[Any, Rivals | None]:
    """conf/prompt without its keys on rivals, and those."""
    if not isinstance(prompt, Mapping) or not set(_PAIRS) & set(prompt):
        return prompt, None
    rivals = Rivals.parse(prompt.get("rivals"), prompt.get("rivals_seed", 0))
    return {key: value for key, value in prompt.items() if key not in _PAIRS}, rivals


def _check_compared(comparative: bool, rivals: Rivals | None, ranges: list[ScoreRange]) -> None:
    """Whether rubrics, rivals and ranges speak of the same: of texts compared, or of texts judged alone."""
    if comparative and rivals is None:
        raise UserError(
            "prompt.rivals is not given, and these rubrics compare two texts; choose prompt=comparative, with "
            "prompt.rubrics=FOLDER for rubrics of your own."
        )
    if rivals is not None and not comparative:
        raise UserError(
            "prompt.rivals: these rubrics judge one text alone, so there is nothing to compare it with; name rubrics "
            "with {{Summary_1}} and {{Summary_2}} in prompt.rubrics, or choose prompt=paper."
        )
    if comparative and ranges != [PLACES]:
        raise UserError(
            f"ranges: {', '.join(map(str, ranges))} cannot be asked for where two texts are compared: the answer is "
            "the place of the better one; give 'ranges=[[1,2]]', as prompt=comparative does by itself."
        )


def _check_settings(config: DictConfig) -> None:
    """The keys that are neither parts nor prompts."""
    for key in ("dry_run", "report"):
        if not isinstance(config.get(key), bool):
            raise UserError(f"{key}: {config.get(key)!r} is neither true nor false.")
    settings: Any = OmegaConf.to_container(config.metrics, resolve=True)
    if set(settings) != set(_METRICS):
        raise UserError(f"metrics: has {', '.join(map(str, settings))}; it must have {', '.join(_METRICS)}.")
    check_settings(**settings)
    _check_tune(config)


def _check_tune(config: DictConfig) -> None:
    """A study of sweeps/ has the last word on `tune`; the user's own word must not be passed over in silence."""
    asked = [one.partition("=")[2] for one in _overrides() if one.lstrip("+").startswith("tune=")]
    tune = config.get("tune")
    if not asked or asked[-1] in ("none", "null", ""):
        return
    there = str(tune.get("_target_")).rpartition(".")[2].lower() if isinstance(tune, DictConfig) else "none"
    if there == "none" or (asked[-1] in _TUNES and there in _TUNES and there != asked[-1]):
        raise UserError(
            f"tune={asked[-1]}: the sweep that is taken too sets tune={there}, so this would change nothing; leave one "
            "of the two out."
        )


def _tuner(
    config: DictConfig,
    judge: JudgeSpec,
    assistant: Assistant,
    decodings: Mapping[str, Decoding],
    data: JudgeDataModule,
    conditions: list[Condition],
) -> Tuner | None:
    """How lambda and t are chosen; None where they are as configured."""
    if config.get("tune") is None:
        return None
    tuner = instantiate(config.tune)
    if not isinstance(tuner, Tuner):
        raise UserError(f"tune: {config.tune!r} is no way of tuning; conf/tune has them.")
    if any(condition.order for condition in conditions):
        raise UserError(
            f"tune={tuner.name}: lambda and t are chosen by the scores of single texts, and here texts are compared; "
            "add tune=none, and set decoding.lambda, or sweep it with -m."
        )
    if all(condition.defense != NO_DEFENSE for condition in conditions):
        raise UserError(
            f"tune={tuner.name}: lambda and t are chosen on texts without a defense, and then serve the others too; "
            "add none to defenses, or add tune=none."
        )
    given = [one for one in _overrides() if one.lstrip("+").startswith(_KNOBS)]
    if given and tuner.decodings is None:
        raise UserError(
            f"{given[0]}: tune={tuner.name} chooses lambda and t, so this would change nothing; add tune=none."
        )
    models = (judge.path, assistant.source.path if assistant.source is not None else None)
    cells = list(dict.fromkeys((condition.dimension, condition.range) for condition in conditions))
    check_tuning(tuner, decodings, judge.mode, set(data.split.values()), cells, models)
    return tuner


def _decodings(config: Mapping[Any, Any]) -> dict[str, Decoding]:
    """The entries of the decoding group that name a class; the knobs stand beside them."""
    found = {
        str(name): instantiate(entry)
        for name, entry in config.items()
        if isinstance(entry, DictConfig) and "_target_" in entry
    }
    if not found:
        raise UserError("decoding: none is chosen; give at least one, as decoding=[greedy,contrastive].")
    return found


def _overrides() -> list[str]:
    """What the command line, or a sweep, sets beside the config files."""
    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def _listed(config: DictConfig, key: str) -> list[Any]:
    items = OmegaConf.select(config, key)
    items = OmegaConf.to_container(items) if OmegaConf.is_config(items) else items
    if not isinstance(items, list) or not items:
        raise UserError(f"{key}: {items!r} is not a list with at least one entry.")
    return items


def _distinct(key: str, items: list[Any]) -> list[Any]:
    if len(set(items)) < len(items):
        raise UserError(f"{key}: {', '.join(map(str, items))} names one twice.")
    return items


def _most_tokens(config: Any) -> int:
    text = config.get_text_config(decoder=True)
    return int(getattr(text, "max_position_embeddings", None) or 2**31)
