"""What defenses need: their settings, and who writes references."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue

from judgebench.components import build_component
from judgebench.defenses import DefenseSettings
from judgebench.errors import UserError
from judgebench.tutor.spec import TutorSpec


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
        return build_component(node)
    except MissingMandatoryValue as error:
        raise UserError(f"{key}.path: name the model, as in {key}.path=DIR.") from error
