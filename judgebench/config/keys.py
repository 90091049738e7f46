"""How keys of a configuration are read, and what the command line sets of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from judgebench.runtime.errors import UserError

MEASURE = "measure"
"""The value of `dry_run` that reads a little, to tell how long the whole takes."""


def path_of(config: DictConfig, key: str) -> Path:
    """A path that the configuration names.

    Raises:
        UserError: it is no text.
    """
    value = config.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise UserError(f"{key}: {value!r} is not a path.")
    return Path(str(value)).expanduser()


def listed(config: DictConfig, key: str) -> list[Any]:
    """What stands under a key that takes a list of at least one entry; else `UserError`."""
    items = OmegaConf.select(config, key)
    items = OmegaConf.to_container(items, resolve=True) if OmegaConf.is_config(items) else items
    if not isinstance(items, list) or not items:
        raise UserError(f"{key}: {items!r} is not a list with at least one entry.")
    return items


def distinct(key: str, items: list[Any]) -> list[Any]:
    """`items`, unless one is named twice (`UserError`)."""
    if len(set(items)) < len(items):
        raise UserError(f"{key}: {', '.join(map(str, items))} names one twice.")
    return items


def typed_overrides() -> list[str]:
    """What the command line, or a sweep, sets beside the config files."""
    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []
