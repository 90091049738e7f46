"""First look at a configuration: what can be refused within a second, before torch is imported, which takes many.

Everything is checked again, and by the same code, where it is used; what needs torch to be known is left to there.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from judgebench.asked.keys import distinct, listed, path_of
from judgebench.asked.parts import check_parts, decodings_of
from judgebench.attacks import select_attacks
from judgebench.components import TARGET
from judgebench.configuration import FOLDER, nearest
from judgebench.data.hub import is_hub_id
from judgebench.data.rows import existing
from judgebench.data.settings import check_common
from judgebench.errors import UserError
from judgebench.judges.loading import ModelSource
from judgebench.types import ScoreRange

_LIGHT = {
    "judgebench.judges.reader.JudgeSpec": "judgebench.judges.spec.JudgeSpec",  # so configurations and cards spell it
    **{
        name: name
        for name in (
            "judgebench.judges.api.settings.ApiSpec",
            "judgebench.judges.assistants.assistant",
            "judgebench.judges.assistants.served_assistant",
        )
    },
}
"""Target of a part -> where it is found without torch."""

_MOST_DEVICES = 64
"""On one machine, unless it has more cores."""

_NEEDED = ("judge", "assistant", "data", "trainer", "defense", "metrics", "run_dir", "store")
"""Keys without which there is no run."""


def look(config: DictConfig) -> None:
    """Refuses a configuration of a run whose mistake is known without torch.

    Raises:
        UserError: a part is missing or not given; a key that its part does not take; a value of another kind, or out of
            its bounds; parts that do not fit each other; a file, folder or model that is not there, or a run folder
            that cannot be written.
    """
    for key in _NEEDED:
        if config.get(key) is None and (key not in config or OmegaConf.is_dict(config._get_node(key))):
            raise UserError(f"{key}: this configuration has none, and a run needs it; leave out what takes it away.")
    _check_given(config)
    judge, assistant = _part(config, "judge"), _part(config, "assistant")
    decodings = decodings_of(config.get("decoding") or {})
    if judge is not None and assistant is not None:
        check_parts(judge, assistant, decodings)
    distinct("ranges", [ScoreRange.parse(given) for given in listed(config, "ranges")])
    distinct("dimensions", [str(name) for name in listed(config, "dimensions")])
    select_attacks([one for one in listed(config, "attacks") if not isinstance(one, Mapping) or TARGET not in one])
    _check_data(config.data)
    for part in (judge, assistant):
        _check_here(getattr(part, "source", None))
    path_of(config, "store")
    _check_devices(config.trainer)
    _check_slower(config)


def look_at_files(config: DictConfig, keys: Sequence[str]) -> None:
    """Refuses a configuration in which the path of a file is missing, or leads nowhere.

    Args:
        keys: what names the files.
    """
    for key in keys:
        path = None if OmegaConf.is_missing(config, key) else OmegaConf.select(config, key)
        if isinstance(path, str) and path.strip():
            existing(Path(path).expanduser(), key)


def _check_given(config: DictConfig) -> None:
    """Whether every `???` has been given a value."""
    chosen = HydraConfig.get().runtime.choices if HydraConfig.initialized() else {}
    for group, node in ((str(name), config._get_node(name)) for name in config):
        missing = sorted(OmegaConf.missing_keys(node)) if OmegaConf.is_config(node) else []
        for key in missing:
            because = f"{group}={chosen[group]} needs it" if chosen.get(group) else "it is needed"
            said = _comment(group, key.rpartition(".")[2])
            raise UserError(f"{key} is not given, and {because}; add {key}=VALUE{f': {said}' if said else ''}.")


def _comment(group: str, name: str) -> str | None:
    """What the files of a group say of a key that has no value there."""
    for file in sorted((FOLDER / group).glob("*.yaml")):
        if found := re.search(rf"^ *{re.escape(name)}: \?\?\? *# *(.+)$", file.read_text("utf-8"), re.MULTILINE):
            return found[1]
    return None


def _part(config: DictConfig, key: str) -> Any:
    """A part of the configuration as its class, checked by that; None where only torch knows the class."""
    plain: Any = OmegaConf.to_container(config[key], resolve=True)
    target = _LIGHT.get(str(plain.pop(TARGET, ""))) if isinstance(plain, dict) else None
    if target is None:
        return None
    maker: Any = get_object(target)
    taken = inspect.signature(maker).parameters.values()
    if all(one.kind != inspect.Parameter.VAR_KEYWORD for one in taken):
        known = [one.name for one in taken]
        for name in plain:
            if name not in known:
                near = nearest(str(name), known)
                remedy = f"{key}.{near} is the nearest" if near else f"it takes {', '.join(known)}"
                raise UserError(f"{key}.{name}: {key} takes no such key; {remedy}.")
    try:
        return maker(**plain)
    except TypeError:  # told where it is made again
        return None


def _check_data(data: DictConfig) -> None:
    plain: Any = OmegaConf.to_container(data, resolve=True)
    check_common(**{name: plain[name] for name in ("path", "limit_groups", "dev_share", "seed") if name in plain})
    path = plain.get("path")
    if not str(plain.get(TARGET)).startswith("judgebench.data.") or "path" not in plain:
        return
    if path is None or not path.strip():
        raise UserError("data.path is not given; it must be the file with the texts, as data.path=FILE.")
    if path != "hub" and not is_hub_id(path) and not Path(path).expanduser().is_dir():
        existing(Path(path).expanduser())


def _check_here(source: Any) -> None:
    """Whether a model that can only be on this machine is there; the hub is not asked."""
    if isinstance(source, ModelSource) and (not source.on_hub):
        source.locate(weights=False)


def _check_devices(trainer: DictConfig) -> None:
    """Lightning would start as many processes as it is told to."""
    devices, cores = trainer.get("devices"), os.cpu_count() or 1
    if isinstance(devices, int) and not isinstance(devices, bool) and devices > max(cores, _MOST_DEVICES):
        raise UserError(
            f"trainer.devices: {devices} processes on one machine of {cores} cores are more than it can run; give at "
            f"most {max(cores, _MOST_DEVICES)}."
        )


def _check_slower(config: DictConfig) -> None:
    """What needs pandas or scipy, which take a second."""
    from judgebench.report.run_folder import RunFolder

    RunFolder.check(path_of(config, "run_dir"))
    from judgebench.metrics.evaluate import check_settings

    given: Any = OmegaConf.to_container(config.metrics, resolve=True)
    if isinstance(given, dict) and set(given) == {"levels", "resamples", "seed"}:
        check_settings(**given)
