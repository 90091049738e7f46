"""The keys that are neither parts nor prompts."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.asked.compared import ranking_of
from judgebench.asked.tune import check_tune
from judgebench.config.keys import MEASURE
from judgebench.metrics.evaluate import check_settings
from judgebench.runtime.errors import UserError

_METRICS = ("levels", "resamples", "seed")


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
    check_tune(config)
