"""Checks of keys by themselves, which need no part of an experiment."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from judgebench.components import TARGET, build_component
from judgebench.config.fields import LOGGER_MODES
from judgebench.config.keys import FOLDER, choice_of, list_at, path_of
from judgebench.data.dataset import DataSettings
from judgebench.data.rows import existing, is_hub_id, local_path
from judgebench.decoding.rules import Decoding
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.runtime.files import user_path
from judgebench.types import ScoreRange

if TYPE_CHECKING:
    from judgebench.readings.recording import Recording

_MOST_DEVICES = 64
"""Processes on one machine, unless it has more cores."""

_NEEDED = ("judge", "assistant", "data", "trainer", "defense", "metrics", "run_dir", "store")
"""Keys without which there is no run."""


def missing_values(config: DictConfig, mistakes: Mistakes) -> bool:
    """Adds a mistake for each value that is `???`; True where there is one. Refuses a configuration without a key that
    every run needs."""
    for key in _NEEDED:
        if config.get(key) is None and (key not in config or OmegaConf.is_dict(config._get_node(key))):
            mistakes.add(f"{key}: this configuration has none, and a run needs it; leave out what takes it away.")
    mistakes.tell()
    incomplete = False
    for group in map(str, config):
        node = config._get_node(group)
        try:
            missing = sorted(OmegaConf.missing_keys(node)) if OmegaConf.is_config(node) else []
        except OmegaConfBaseException:  # it refers to a value of another part, which is missing there
            missing, incomplete = [], True
        for key in missing:
            incomplete, choice = True, choice_of(group)
            comment = _comment(group, key.rpartition(".")[2])
            because = f"{group}={choice} needs it" if choice else "it is needed"
            mistakes.add(f"{key} is not given, and {because}; add {key}=VALUE{f': {comment}' if comment else ''}.")
    return incomplete


def decodings_of(config: Mapping[Any, Any]) -> dict[str, Decoding]:
    """The entries of the decoding group that name a class; hyperparameters stand beside them."""
    decodings = {
        str(name): build_component(entry)
        for name, entry in config.items()
        if isinstance(entry, DictConfig) and TARGET in entry
    }
    if not decodings:
        raise UserError("decoding: none is chosen; give at least one, as decoding=[greedy,contrastive].")
    for name, decoding in decodings.items():
        if not isinstance(decoding, Decoding):
            raise UserError(
                f"decoding.{name}: {type(decoding).__name__} is no decoding; give a subclass of Greedy, Expectation or "
                "Contrastive of judgebench.decoding."
            )
    return decodings


def cells_of(config: DictConfig) -> list[tuple[str, ScoreRange]]:
    """Every dimension in every range; else `UserError`."""
    mistakes = Mistakes()
    axes: dict[str, list[Any]] = {"dimensions": [], "ranges": []}
    for key, make in (("ranges", ScoreRange.parse), ("dimensions", str)):
        with mistakes.caught():
            for entry in list_at(config, key):
                with mistakes.caught():
                    axes[key].append(make(entry))
            names = list(map(str, axes[key]))
            if len(set(names)) < len(names):
                alike = ", or two whose ends are alike; ask for those in runs of their own" if key == "ranges" else ""
                raise UserError(f"{key}: {', '.join(names)} names one twice{alike}.")
    mistakes.tell()
    return list(product(axes["dimensions"], axes["ranges"]))


def check_recorded(config: DictConfig, recording: Recording, cells: Sequence[tuple[str, ScoreRange]]) -> None:
    """Refuses a dimension or range under which a file of recorded readings has none."""
    if recording.about["compares"] != (config.prompt.get("rivals") is not None):
        return  # which is said where prompts meet readings
    recorded: dict[str, list[str]] = {}
    for condition in recording.about["conditions"]:
        ranges = recorded.setdefault(condition["dimension"], [])
        ranges += [condition["range"]] if condition["range"] not in ranges else []
    for dimension, score_range in cells:
        if str(score_range) not in recorded.get(dimension, ()):
            file, answers = recording.path.name, "; ".join(f"{name}, {', '.join(recorded[name])}" for name in recorded)
            raise UserError(
                f"judge.path: no row of {file} answers under {dimension}, {score_range}, which is to be judged; {file} "
                f"has answers under {answers}."
            )


def _check_data(config: DictConfig) -> None:
    """Refuses settings of data that cannot be, and a path that leads nowhere."""
    settings = OmegaConf.to_container(config.data, resolve=True, throw_on_missing=True)
    assert isinstance(settings, dict)
    names = [field.name for field in dataclasses.fields(DataSettings)]
    source = DataSettings(**{name: settings[name] for name in names if name in settings}).source
    path = settings.get("path")
    if not str(settings.get(TARGET)).startswith("judgebench.data.") or "path" not in settings:
        return
    if path is None or not path.strip():
        hub = "hub" in (_comment("data", "path", choice_of("data"), "null") or "")
        raise UserError(
            f"data.path is not given; it must be {source or 'the file with the texts'}, as data.path=FILE"
            f"{', or hub, which downloads it' if hub else ''}."
        )
    file = local_path(path)
    if path != "hub" and not is_hub_id(path) and not file.is_dir():
        if source is not None and not file.exists():
            raise UserError(f"{file}: there is no such file; data.path must be {source}, or a folder that holds it.")
        existing(file)


def _check_machine(config: DictConfig) -> None:
    mode = None if config.get("logger") is None else config.logger.get("mode")
    if mode is not None and mode not in LOGGER_MODES:
        raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(LOGGER_MODES)}.")
    folder = config.get("tasks")
    if folder is not None and not (isinstance(folder, str) and user_path(folder).is_dir()):
        raise UserError(f"tasks: there is no folder {folder}; give the one with the files of the tasks, as tasks=DIR.")
    # more processes than a machine can run; Lightning would start them
    devices, most = config.trainer.get("devices"), max(os.cpu_count() or 1, _MOST_DEVICES)
    if isinstance(devices, int) and not isinstance(devices, bool) and devices > most:
        raise UserError(
            f"trainer.devices: {devices} processes on one machine of {os.cpu_count()} cores are more than it can run; "
            f"give at most {most}."
        )


MACHINE_CHECKS: Sequence[Callable[[DictConfig], object]] = (
    _check_data,
    _check_machine,
    lambda config: path_of(config, "store"),
)
"""Checks of paths, files and devices of this machine."""


def _comment(group: str, name: str, choice: str = "*", value: str = "???") -> str | None:
    """The comment on a key, which has no value there, in the files of a group."""
    for file in sorted((FOLDER / group).glob(f"{choice}.yaml")):
        pattern = rf"^ *{re.escape(name)}: {re.escape(value)} *# *(.+)$"
        if line := re.search(pattern, file.read_text("utf-8"), re.MULTILINE):
            return line[1]
    return None
