"""What a configuration asks for, part by part: each checked by itself and against its neighbors, with the key named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from judgebench.attacks import Attack, LearnedPhrase, PhraseFile
from judgebench.attacks.search import AdvSuffix
from judgebench.data.module import JudgeDataModule
from judgebench.data.pairs import Rivals
from judgebench.decoding.protocol import Decoding
from judgebench.defenses import Defense, DefenseSettings, Planned
from judgebench.defenses.detectors import DETECTORS
from judgebench.defenses.paraphrase import PARAPHRASE
from judgebench.defenses.references import REFERENCE_DEFENSES
from judgebench.errors import UserError
from judgebench.judges.api.fit import check_served
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.judges.reader import JudgeSpec, check_fit
from judgebench.judges.replay import ReplaySpec
from judgebench.judges.settings import JudgeSettings
from judgebench.metrics.evaluate import check_settings
from judgebench.metrics.ranking import Ranking
from judgebench.prompts.builder import NO_DEFENSE
from judgebench.tuning.tune import check_tuning
from judgebench.tuning.tuners import Tuner
from judgebench.tutor.spec import TutorSpec
from judgebench.types import ORDERS, PLACES, PLACES_OR_TIE, TIE, Condition, ScoreRange

MEASURE = "measure"
"""The value of `dry_run` that reads a little, to tell how long the whole takes."""

_METRICS = ("levels", "resamples", "seed")
_TUNES = ("dev", "exact", "published", "shared")
_KNOBS = ("decoding.lambda=", "decoding.temperature=")
_PAIRS = ("rivals", "rivals_seed")


def path_of(config: DictConfig, key: str) -> Path:
    """A path that the configuration names.

    Raises:
        UserError: it is no text.
    """
    value = config.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise UserError(f"{key}: {value!r} is not a path.")
    return Path(str(value)).expanduser()


def check_parts(judge: JudgeSettings, assistant: Assistant, decodings: Mapping[str, Decoding]) -> None:
    """Whether the parts of a judge fit each other; see `check_fit` for one that is a model, `check_served` for one
    behind a URL.

    Raises:
        UserError: they do not, or answers that were given earlier are to be decoded otherwise or contrasted.
    """
    if isinstance(judge, ApiSpec):
        check_served(judge, assistant, decodings)
        return
    if assistant.kind == "api":
        raise UserError(
            "assistant=api: a served assistant goes with a served judge; take judge=api, or a model here with "
            "assistant=model."
        )
    if isinstance(judge, JudgeSpec):
        check_fit(judge, assistant, decodings)
        return
    if assistant.kind != "none":
        raise UserError(
            f"assistant={assistant.kind}: judge=replay has answers and no probabilities to contrast with; take "
            "assistant=none."
        )
    if other := [name for name, one in decodings.items() if one.kind != "greedy"]:
        raise UserError(
            f"decoding {other[0]}: judge=replay has answers and no probabilities to decode; take decoding=[greedy]."
        )
    if len(decodings) > 1:
        raise UserError(
            f"decoding: {', '.join(decodings)} would all read the same answers of judge=replay; take decoding=[greedy]."
        )


def check_elsewhere(config: DictConfig, judge: JudgeSettings) -> None:
    """Whether anything is asked for that needs a judge which is a model here.

    Raises:
        UserError: it is; names the key.
    """
    if isinstance(judge, ReplaySpec):
        check_replayed(config)
    if isinstance(judge, ApiSpec):
        check_away(config)


def check_away(config: DictConfig) -> None:
    """Whether anything is asked for that a judge behind a URL cannot give, be it asked or at hand.

    Raises:
        UserError: it is; names the key.
    """
    if config.get("tutor") is not None:
        raise UserError(
            "tutor: references are scored while they are made, which is not done with a served judge; take tutor=none."
        )
    for name in listed(config, "defenses"):
        if name in REFERENCE_DEFENSES:
            raise UserError(
                f"defenses: {name} needs references that are scored while they are made, which is not done with a "
                "served judge; leave it out."
            )
        if name == "retokenization" and OmegaConf.select(config, "judge.protocol") == "chat":
            raise UserError(
                "defenses: retokenization is a matter of tokens, and judge.protocol=chat sends text; leave it out, or "
                "take judge.protocol=completions with judge.tokenizer."
            )
        if name in (*DETECTORS, PARAPHRASE) and OmegaConf.select(config, "defense.helper.path") is None:
            raise UserError(
                f"defenses: {name} needs a model here, and the judge is served; name one with defense.helper.path=DIR "
                "(and defense.helper.gguf_file=), or leave it out."
            )


def check_replayed(config: DictConfig) -> None:
    """Whether anything is asked for that needs a model beside answers that were given earlier.

    Raises:
        UserError: it is; names the key.
    """
    if config.get("tutor") is not None:
        raise UserError("tutor: judge=replay computes nothing, so nobody needs references; take tutor=none.")
    if config.get("tune") is not None:
        raise UserError(
            "tune: judge=replay has answers and no probabilities, so there is no lambda or t to choose; take tune=none."
        )
    for name in listed(config, "defenses"):
        if name in REFERENCE_DEFENSES:
            raise _must_compute(str(name))


def check_ready(defenses: Sequence[Defense], judge: JudgeSettings) -> None:
    """Whether defenses need nothing computed; else `UserError`, for judge=replay."""
    if not isinstance(judge, ReplaySpec):
        return
    if planned := [defense.name for defense in defenses if isinstance(defense, Planned)]:
        raise _must_compute(planned[0])


def _must_compute(name: str) -> UserError:
    return UserError(
        f"defenses: {name} must compute something, and judge=replay has answers only; leave it out. Answers that were "
        "given under a defense of your own go by the name of its template, as in {template: FILE.txt, name: mine}."
    )


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


def tutor_of(config: DictConfig) -> TutorSpec | None:
    """Who writes references; None where nobody does."""
    if config.get("tutor") is None:
        return None
    tutor = _made(config.tutor, "tutor")
    if not isinstance(tutor, TutorSpec):
        raise UserError(f"tutor: {config.tutor!r} is no tutor; conf/tutor has them.")
    return tutor


def defense_settings(config: DictConfig) -> DefenseSettings:
    """What defenses need to know."""
    settings = _made(config.defense, "defense")
    if not isinstance(settings, DefenseSettings):
        raise UserError(f"defense: {config.defense!r} holds no settings of defenses; conf/defense has them.")
    return settings


def _made(node: Any, key: str) -> Any:
    try:
        return instantiate(node)
    except MissingMandatoryValue as error:
        raise UserError(f"{key}.path: name the model, as in {key}.path=DIR.") from error


def words_of(phrases: Sequence[LearnedPhrase]) -> list[Attack]:
    """The attacks of learned phrases, one a length."""
    return [attack for phrase in phrases for attack in phrase.attacks()]


def distinct_attacks(attacks: list[Attack]) -> list[Attack]:
    """`attacks`, unless two share a name (`UserError`)."""
    names = [attack.name for attack in attacks]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(f"attacks: {twice[0]!r} is what a learned phrase is called; give your own file another name.")
    return attacks


def check_learnable(defense: Defense) -> None:
    """Whether a phrase can be learned under a defense: words must be the same tokens wherever they stand."""
    if not defense.learnable:
        raise UserError(
            f"defenses: a phrase is learned under the first one, and under {defense.name} its words are not the same "
            f"tokens before the same scores in every text; put none first, as in 'defenses=[none,{defense.name}]'."
        )


def all_conditions(
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


def rivals_of(prompt: Any) -> tuple[Any, Rivals | None]:
    """conf/prompt without its keys on rivals, and those."""
    if not isinstance(prompt, Mapping) or not set(_PAIRS) & set(prompt):
        return prompt, None
    rivals = Rivals.parse(prompt.get("rivals"), prompt.get("rivals_seed", 0))
    return {key: value for key, value in prompt.items() if key not in _PAIRS}, rivals


def check_compared(
    comparative: bool, rivals: Rivals | None, ranges: list[ScoreRange], defenses: Sequence[Defense]
) -> None:
    """Whether rubrics, rivals, ranges and defenses speak of the same: of texts compared, or of texts judged alone."""
    if comparative and (alone := [defense.name for defense in defenses if not defense.compares]):
        raise UserError(
            f"defenses: {alone[0]} is for texts that are judged alone, and these rubrics compare two; leave it out, or "
            "choose prompt=cap or prompt=paper."
        )
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
    if comparative and ranges not in ([PLACES], [PLACES_OR_TIE]):
        raise UserError(
            f"ranges: {', '.join(map(str, ranges))} cannot be asked for where two texts are compared: the answer is "
            "the place of the better one; give 'ranges=[[1,2]]', as prompt=comparative does by itself, or "
            "'ranges=[[0,2]]' where 0 is a tie."
        )


def check_paired(data: JudgeDataModule, comparative: bool) -> None:
    """Whether data whose rows are pairs of texts is compared, just as it stands.

    Raises:
        UserError: it is not, or the command line asks for other pairs.
    """
    if not data.paired:
        return
    if not comparative:
        raise UserError(
            f"data: each row of {data.name} is two texts, and these rubrics judge one alone; choose prompt=comparative."
        )
    if given := [one for one in _overrides() if one.lstrip("+").startswith(("prompt.rivals=", "prompt.rivals_seed="))]:
        raise UserError(
            f"{given[0]}: {data.name} says itself who meets whom, so this would change nothing; leave it out."
        )


def check_ties(tieless: Sequence[str], ranges: Sequence[ScoreRange]) -> None:
    """Whether every rubric says how a tie is answered, where the judge may find one; else `UserError`."""
    if PLACES_OR_TIE in ranges and tieless:
        raise UserError(
            f"ranges: {PLACES_OR_TIE} lets the judge find a tie, and the rubric for {tieless[0]!r} does not say that "
            f"this is answered with {TIE:g}; write so in it, as in {{ties:, or 0 if both are equally good}}, or give "
            "'ranges=[[1,2]]'."
        )


def ranking_of(config: DictConfig) -> Ranking:
    """How systems are ranked where texts are compared."""
    given = config.get("pairwise")
    return Ranking.parse(OmegaConf.to_container(given, resolve=True) if OmegaConf.is_config(given) else given)


def check_run(config: DictConfig) -> None:
    """The keys that are neither parts nor prompts."""
    for key in ("report", "examples"):
        if not isinstance(config.get(key), bool):
            raise UserError(f"{key}: {config.get(key)!r} is neither true nor false.")
    if not isinstance(config.get("dry_run"), bool) and config.get("dry_run") != MEASURE:
        raise UserError(f"dry_run: {config.get('dry_run')!r} is none of true, false and {MEASURE}.")
    settings: Any = OmegaConf.to_container(config.metrics, resolve=True)
    if set(settings) != set(_METRICS):
        raise UserError(f"metrics: has {', '.join(map(str, settings))}; it must have {', '.join(_METRICS)}.")
    check_settings(**settings)
    ranking_of(config)
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


def tuner_of(
    config: DictConfig,
    judge: JudgeSettings,
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
    other = assistant.served.model if assistant.served is not None else None
    models = (_named(judge), assistant.source.path if assistant.source is not None else other)
    cells = list(dict.fromkeys((condition.dimension, condition.range) for condition in conditions))
    check_tuning(tuner, decodings, judge.mode, set(data.split.values()), cells, models)
    return tuner


def _named(judge: JudgeSettings) -> str:
    return judge.model if isinstance(judge, ApiSpec) else str(judge.path)


def decodings_of(config: Mapping[Any, Any]) -> dict[str, Decoding]:
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


def listed(config: DictConfig, key: str) -> list[Any]:
    """What stands under a key that takes a list of at least one entry; else `UserError`."""
    items = OmegaConf.select(config, key)
    items = OmegaConf.to_container(items) if OmegaConf.is_config(items) else items
    if not isinstance(items, list) or not items:
        raise UserError(f"{key}: {items!r} is not a list with at least one entry.")
    return items


def distinct(key: str, items: list[Any]) -> list[Any]:
    """`items`, unless one is named twice (`UserError`)."""
    if len(set(items)) < len(items):
        raise UserError(f"{key}: {', '.join(map(str, items))} names one twice.")
    return items


def most_tokens(config: Any) -> int:
    """Tokens that a model of this configuration can read."""
    text = config.get_text_config(decoder=True)
    return int(getattr(text, "max_position_embeddings", None) or 2**31)
