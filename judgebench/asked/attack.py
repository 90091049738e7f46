"""Phrases: how one is learned, or which was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue

from judgebench.attacks import Attack, LearnedPhrase, PhraseFile
from judgebench.attacks.search import AdvSuffix
from judgebench.decoding.protocol import Decoding
from judgebench.defenses import Defense
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.replay import ReplaySpec
from judgebench.judges.settings import JudgeSettings
from judgebench.runtime.errors import UserError
from judgebench.tuning.tuners import Tuner


def searched(
    config: DictConfig, judge: JudgeSettings, decodings: Mapping[str, Decoding]
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
    if isinstance(judge, ReplaySpec):
        raise UserError(
            "attack: a phrase is learned by asking the judge, and judge=replay has answers only; take attack=none, or "
            "attack=phrase for answers to texts with a phrase that was learned elsewhere."
        )
    if isinstance(judge, ApiSpec):
        raise UserError(
            "attack: a phrase is learned by asking a model here many thousand times, and the judge is served; take "
            "attack=none, or attack=phrase with one that was learned on another judge."
        )
    asked.objectives(decodings, judge.mode)
    if asked.search.takes_gradient and judge.engine != "prefix":
        raise UserError("search: the gradient needs judge.engine=prefix; or take search=exhaustive or halving.")
    if asked.search.takes_gradient and judge.source.encoder_decoder:
        raise UserError(
            "search: the gradient needs a decoder-only judge, and this one is an encoder-decoder model "
            f"({judge.source.config().model_type}); take search=exhaustive or halving."
        )
    return asked, []


def check_learned(search: AdvSuffix, tuner: Tuner | None, decodings: Mapping[str, Decoding]) -> None:
    """Whether what a phrase is learned against is what it is tried on."""
    if tuner is None:
        return
    tuned = tuner.decodings or [name for name, decoding in decodings.items() if decoding.needs_assistant]
    if both := [name for name in search.against if name in tuned]:
        raise UserError(
            f"attack.against: a phrase against {both[0]} would be learned before tune={tuner.name} has chosen lambda "
            "and t; add tune=none, and set decoding.lambda and decoding.temperature."
        )


def check_learnable(defense: Defense) -> None:
    """Whether a phrase can be learned under a defense: words must be the same tokens wherever they stand."""
    if not defense.learnable:
        raise UserError(
            f"defenses: a phrase is learned under the first one, and under {defense.name} its words are not the same "
            f"tokens before the same scores in every text; put none first, as in 'defenses=[none,{defense.name}]'."
        )


def words_of(phrases: Sequence[LearnedPhrase]) -> list[Attack]:
    """The attacks of learned phrases, one a length."""
    return [attack for phrase in phrases for attack in phrase.attacks()]


def distinct_attacks(attacks: list[Attack]) -> list[Attack]:
    """`attacks`, unless two share a name (`UserError`)."""
    names = [attack.name for attack in attacks]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(f"attacks: {twice[0]!r} is what a learned phrase is called; give your own file another name.")
    return attacks
