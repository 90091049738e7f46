"""How lambda and t are chosen."""

from __future__ import annotations

from collections.abc import Mapping

from hydra.utils import instantiate
from omegaconf import DictConfig

from judgebench.config.keys import typed_overrides
from judgebench.data.module import JudgeDataModule
from judgebench.decoding.protocol import Decoding
from judgebench.judges.api.settings import ApiSpec
from judgebench.judges.assistants import Assistant
from judgebench.judges.settings import JudgeSettings
from judgebench.prompts.builder import NO_DEFENSE
from judgebench.runtime.errors import UserError
from judgebench.tuning.tune import check_tuning
from judgebench.tuning.tuners import Tuner
from judgebench.types import Condition

_TUNES = ("dev", "exact", "published", "shared")
_KNOBS = ("decoding.lambda=", "decoding.temperature=")


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
    given = [one for one in typed_overrides() if one.lstrip("+").startswith(_KNOBS)]
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


def check_tune(config: DictConfig) -> None:
    """A study of sweeps/ has the last word on `tune`; the user's own word must not be passed over in silence."""
    asked = [one.partition("=")[2] for one in typed_overrides() if one.lstrip("+").startswith("tune=")]
    tune = config.get("tune")
    if not asked or asked[-1] in ("none", "null", ""):
        return
    there = str(tune.get("_target_")).rpartition(".")[2].lower() if isinstance(tune, DictConfig) else "none"
    if there == "none" or (asked[-1] in _TUNES and there in _TUNES and there != asked[-1]):
        raise UserError(
            f"tune={asked[-1]}: the sweep that is taken too sets tune={there}, so this would change nothing; leave one "
            "of the two out."
        )
