"""Parts of an experiment, made from their groups and keys; each is checked by its class, and against others."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue

from judgebench.attacks import Attack, LearnedPhrase, PhraseFile
from judgebench.attacks.search import AdvSuffix
from judgebench.components import build_component
from judgebench.config.checks import cells_of
from judgebench.config.fields import plain
from judgebench.config.keys import list_at
from judgebench.config.rules import Asked
from judgebench.data.dataset import DEV, TEST, Rivals, rated
from judgebench.data.module import JudgeDataModule
from judgebench.decoding.rules import Decoding
from judgebench.defenses import Defense, DefenseSettings, Planned, select_defenses
from judgebench.judges.loading import check_vocabularies
from judgebench.judges.spec import JudgeSettings
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.stats.rankings import Ranking
from judgebench.tuning.tune import check_tuning
from judgebench.tuning.tuners import Tuner
from judgebench.tutor.spec import TutorSpec
from judgebench.types import ORDERS, Condition, ScoreRange

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PAIRS = ("rivals", "rivals_seed")


def tokenizer_of(asked: Asked) -> tuple[PreTrainedTokenizerBase, int]:
    """The main model's tokenizer, and how many tokens main model and assistant can read; `UserError` where their
    vocabularies differ."""
    tokenizer, sources = asked.judge.source.tokenizer(), [asked.judge.source]
    if asked.assistant.source is not None:
        sources.append(asked.assistant.source)
        check_vocabularies(tokenizer, asked.assistant.source.tokenizer())
    asked.assistant.check_served(asked.judge)
    configs = [source.config().get_text_config(decoder=True) for source in sources]
    return tokenizer, min(int(getattr(config, "max_position_embeddings", None) or 2**31) for config in configs)


def learned_attack(
    config: DictConfig, judge: JudgeSettings, decodings: Mapping[str, Decoding]
) -> tuple[AdvSuffix | None, list[LearnedPhrase]]:
    """The search that learns a phrase, or a phrase that was learned elsewhere."""
    if config.get("attack") is None:
        return None, []
    try:
        made = instantiate(config.attack)
    except MissingMandatoryValue as error:
        raise UserError(
            "attack.phrase_file: name the attack/phrase.json of a run with attack=adv_suffix, or any JSON file with "
            '{"phrase": "some words"}.'
        ) from error
    if isinstance(made, PhraseFile):
        return None, [made.load()]
    if not isinstance(made, AdvSuffix):
        raise UserError(f"attack: {config.attack!r} is no way of learning a phrase; conf/attack has them.")
    made.objectives(decodings, judge.mode)
    return made, []


def with_phrases(attacks: Sequence[Attack], phrases: Sequence[LearnedPhrase]) -> list[Attack]:
    """Attacks, and those of learned phrases, one a length; `UserError` where two share a name."""
    joint = [*attacks, *(attack for phrase in phrases for attack in phrase.attacks())]
    names = [attack.name for attack in joint]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(f"attacks: {twice[0]!r} is what a learned phrase is called; give your own file another name.")
    return joint


def configured_defenses(config: DictConfig, judge: JudgeSettings) -> list[Defense]:
    """The configured defenses; those that are `Planned` are not ready yet."""
    settings = _built(config.defense, "defense")
    if not isinstance(settings, DefenseSettings):
        raise UserError(f"defense: {config.defense!r} holds no settings of defenses; conf/defense has them.")
    tutor = None if config.get("tutor") is None else _built(config.tutor, "tutor")
    if tutor is not None and not isinstance(tutor, TutorSpec):
        raise UserError(f"tutor: {config.tutor!r} is no tutor; conf/tutor has them.")
    defenses = select_defenses(list_at(config, "defenses"), settings, tutor)
    planned = [defense.name for defense in defenses if isinstance(defense, Planned)]
    if planned and judge.computes_nothing:
        raise UserError(f"defenses: {planned[0]} must compute something, and {judge.computes_nothing}; leave it out.")
    return defenses


def read_early(config: DictConfig, asked: Asked | None) -> JudgeDataModule | None:
    """Makes the parts that need no model and reads the data, so that a mistake in them is named before torch is
    imported, which takes seconds; nothing where it is imported already.

    Args:
        asked: from `check_config`.

    Raises:
        UserError: all mistakes.
    """
    if "torch" in sys.modules:
        return None
    mistakes, data = Mistakes(), None
    with mistakes.caught():
        data = data_of(config)
    with mistakes.caught():
        ranking_of(config)
    with mistakes.caught():
        prompt, _ = prompt_of(config)
        if isinstance(prompt, Mapping) and "rubrics" in prompt:
            load_rubrics(prompt["rubrics"], list_at(config, "dimensions"), prompt.get("variants"))
    if config.get("tables"):
        from judgebench.report.paper import check_tables  # it needs pandas

        with mistakes.caught():
            check_tables(config.tables)
    if asked is not None:
        with mistakes.caught():
            configured_defenses(config, asked.judge)
        with mistakes.caught():
            learned_attack(config, asked.judge, asked.decodings)
    mistakes.tell()
    return data


def data_of(config: DictConfig) -> JudgeDataModule:
    """The data, read; `UserError` where it has no human scores of a dimension."""
    data: JudgeDataModule = build_component(config.data)
    data.setup()
    known = ", ".join(data.dimensions)
    if missing := [name for name in dict.fromkeys(name for name, _ in cells_of(config)) if name not in data.dimensions]:
        raise UserError(
            *(f"dimensions: {data.name} has no human scores for {name!r}; it has {known}." for name in missing)
        )
    if unrated := [
        name
        for name in dict.fromkeys(name for name, _ in cells_of(config))
        if data.rated and not rated_in(data, name, TEST)
    ]:
        raise UserError(
            *(
                f"data.dev_share: none of the {data.groups_are} of the test split has a human score for {name!r}; put "
                "all into it with data.dev_share=0, draw others with data.seed=1, or rate some of them."
                for name in unrated
            )
        )
    return data


def rated_in(data: JudgeDataModule, dimension: str, split: str) -> bool:
    """True where somebody rated a text of a split on a dimension."""
    return any(data.split[example.group_id] == split for example in rated(data.examples, dimension))


def prompt_of(config: DictConfig) -> tuple[Any, Rivals | None]:
    """conf/prompt without its keys on rivals, and those."""
    prompt = plain(config.get("prompt")) or None
    if not isinstance(prompt, Mapping) or not set(_PAIRS) & set(prompt):
        return prompt, None
    rivals = Rivals.parse(prompt.get("rivals"), prompt.get("rivals_seed", 0))
    return {key: value for key, value in prompt.items() if key not in _PAIRS}, rivals


def conditions_of(
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


def ranking_of(config: DictConfig) -> Ranking:
    """The rule by which systems are ranked where texts are compared."""
    return Ranking.parse(plain(config.get("pairwise")))


def tuner_of(asked: Asked, data: JudgeDataModule, conditions: Sequence[Condition]) -> Tuner | None:
    """The tuner of lambda and t; None where they are as configured."""
    if asked.config.get("tune") is None:
        return None
    tuner = instantiate(asked.config.tune)
    if not isinstance(tuner, Tuner):
        raise UserError(f"tune: {asked.config.tune!r} is no way of tuning; conf/tune has them.")
    models = (asked.judge.name, asked.assistant.name)
    cells = list(dict.fromkeys((condition.dimension, condition.range) for condition in conditions))
    check_tuning(tuner, asked.decodings, asked.judge.mode, set(data.split.values()), cells, models)
    if tuner.needs_dev:
        check_dev_rated(data, dict(cells), f"tune={tuner.name}")
    return tuner


def check_dev_rated(data: JudgeDataModule, dimensions: Iterable[str], key: str) -> None:
    """Refuses to choose by a development split in which nobody rated a text."""
    if unrated := [name for name in dimensions if not rated_in(data, name, DEV)]:
        raise UserError(
            *(
                f"{key}: none of the {data.groups_are} of the development split has a human score for {name!r}, so "
                "there is nothing to choose by; give it more with data.dev_share=0.5, draw others with data.seed=1, or "
                "rate some of them."
                for name in unrated
            )
        )


def check_learned(search: AdvSuffix, tuner: Tuner | None, decodings: Mapping[str, Decoding]) -> None:
    """Refuses a phrase that is learned against a decoding which tuning changes before the phrase is tried."""
    if tuner is None:
        return
    tuned = tuner.decodings or [name for name, decoding in decodings.items() if decoding.needs_assistant]
    if both := [name for name in search.against if name in tuned]:
        raise UserError(
            f"attack.against: a phrase against {both[0]} would be learned before tune={tuner.name} has chosen lambda "
            "and t; add tune=none, and set decoding.lambda and decoding.temperature."
        )


def _built(node: Any, key: str) -> Any:
    try:
        return build_component(node)
    except MissingMandatoryValue as error:
        raise UserError(f"{key}.path: name the model, as in {key}.path=DIR.") from error
