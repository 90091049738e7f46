"""First check of a configuration: what can be refused within a second, before torch is imported, which takes many.

The parts are checked again, by the same code, where they are used."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from judgebench.attacks import select_attacks
from judgebench.components import TARGET, build_component
from judgebench.config.fields import LOGGER_MODES, MetricSettings, RunSettings, nearest, plain, settings_of
from judgebench.config.keys import FOLDER, choice_of, list_at, path_of
from judgebench.config.rules import SETTINGS, Asked, check_rules
from judgebench.config.tasks import check_tasks
from judgebench.data.dataset import DataSettings
from judgebench.data.rows import existing, is_hub_id, local_path
from judgebench.decoding.rules import Decoding
from judgebench.judges.loading import ModelSource
from judgebench.judges.spec import RECORDED, SERVED
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.types import ScoreRange

if TYPE_CHECKING:
    from judgebench.readings.recording import Recording

_LIGHT = {
    "judgebench.judges.reader.JudgeSpec": "judgebench.judges.spec.JudgeSpec",  # so configurations and cards spell it
    **{
        name: name
        for name in (
            "judgebench.judges.api.settings.ApiSpec",
            "judgebench.judges.replay.ReplaySpec",
            "judgebench.judges.recorded.RecordedSpec",
            "judgebench.judges.assistants.assistant",
            "judgebench.judges.assistants.recorded_assistant",
            "judgebench.judges.assistants.served_assistant",
            "judgebench.tutor.spec.TutorSpec",
        )
    },
}
"""Target of a part -> its path that imports no torch."""

_MOST_DEVICES = 64
"""Processes on one machine, unless it has more cores."""

_NEEDED = ("judge", "assistant", "data", "trainer", "defense", "metrics", "run_dir", "store")
"""Keys without which there is no run."""


def check_config(config: DictConfig, expensive: bool = True) -> Asked | None:
    """Refuses a configuration of a run whose mistakes can be found without torch.

    Args:
        expensive: whether to try that the run folder can be written, which takes a second to import.

    Raises:
        UserError: all mistakes: a part that is missing; a key that its part does not take; a value of another kind, or
            out of its bounds; parts that do not fit each other; a file, folder or model that is not there. Where there
            is none of these: a run folder that cannot be written.

    Returns:
        Judge, assistant and decodings; None where one of them is a class of the user's own.
    """
    mistakes = Mistakes()
    for key in _NEEDED:
        if config.get(key) is None and (key not in config or OmegaConf.is_dict(config._get_node(key))):
            mistakes.add(f"{key}: this configuration has none, and a run needs it; leave out what takes it away.")
    mistakes.tell()  # what is missing altogether is looked for below
    incomplete = _check_given(config, mistakes)
    parts = {key: _part(config, key, mistakes) for key in ("judge", "assistant", "tutor") if key not in incomplete}
    asked = None
    with mistakes.caught():
        decodings = decodings_of(config.get("decoding") or {})
        if parts.get("judge") is not None and parts.get("assistant") is not None:
            asked = Asked(config, parts["judge"], parts["assistant"], decodings)
    if asked is not None:
        with mistakes.caught():
            check_rules(SETTINGS, asked, mistakes)
            if asked.assistant.served is not None and SERVED in asked.judge.gives:
                asked.assistant.served.spec(parts["judge"])
    for check in (
        cells_of,
        _check_attacks,
        _check_logger,
        check_run,
        check_tasks,
        _check_devices,
        lambda given: path_of(given, "store"),
    ):
        with mistakes.caught():
            check(config)
    if "data" not in incomplete:
        with mistakes.caught():
            _check_data(config.data)
    if asked is not None and RECORDED in asked.judge.gives:
        with mistakes.caught():
            _check_recorded(config, asked.judge.recording)  # type: ignore[attr-defined]
    for part in parts.values():
        with mistakes.caught():
            _check_here(getattr(part, "source", None))
    mistakes.tell()
    if expensive:
        from judgebench.results.folder import RunFolder  # it needs pandas, which takes a second

        RunFolder.check(path_of(config, "run_dir"))
    return asked


def check_files(config: DictConfig, keys: Sequence[str]) -> None:
    """Refuses a configuration in which the path of a file, under one of `keys`, leads nowhere."""
    mistakes = Mistakes()
    for key in keys:
        path = None if OmegaConf.is_missing(config, key) else OmegaConf.select(config, key)
        if isinstance(path, str) and path.strip():
            with mistakes.caught():
                existing(Path(path).expanduser(), key)
    mistakes.tell()


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


def check_run(config: DictConfig) -> None:
    """Checks the keys that are neither parts nor prompts; else `UserError`."""
    mistakes = Mistakes()
    with mistakes.caught():
        RunSettings(*(config.get(key) for key in ("report", "worth", "examples", "dry_run")))
    with mistakes.caught():
        settings_of(MetricSettings, config.metrics, "metrics")
    mistakes.tell()


def _check_given(config: DictConfig, mistakes: Mistakes) -> set[str]:
    """Adds a mistake for each value that is `???`, and gives the parts that have one."""
    incomplete = set()
    for group in map(str, config):
        node = config._get_node(group)
        chosen = choice_of(group)
        try:
            missing = sorted(OmegaConf.missing_keys(node)) if OmegaConf.is_config(node) else []
        except OmegaConfBaseException:  # it refers to a value of another part, which is missing there
            incomplete.add(group)
            continue
        for key in missing:
            incomplete.add(group)
            because = f"{group}={chosen} needs it" if chosen else "it is needed"
            said = _comment(group, key.rpartition(".")[2])
            mistakes.add(f"{key} is not given, and {because}; add {key}=VALUE{f': {said}' if said else ''}.")
    return incomplete


def _comment(group: str, name: str, choice: str = "*", value: str = "???") -> str | None:
    """The comment on a key, which has no value there, in the files of a group."""
    for file in sorted((FOLDER / group).glob(f"{choice}.yaml")):
        pattern = rf"^ *{re.escape(name)}: {re.escape(value)} *# *(.+)$"
        if found := re.search(pattern, file.read_text("utf-8"), re.MULTILINE):
            return found[1]
    return None


def _part(config: DictConfig, key: str, mistakes: Mistakes) -> Any:
    """A part of the configuration as its class, checked by that; None where it has a mistake or needs torch."""
    try:
        given = plain(config.get(key))
    except OmegaConfBaseException:  # it refers to what is not given, which is a mistake of there
        return None
    target = _LIGHT.get(str(given.pop(TARGET, ""))) if isinstance(given, dict) else None
    if target is None:
        return None
    maker: Any = get_object(target)
    taken = inspect.signature(maker).parameters.values()
    known = [parameter.name for parameter in taken if parameter.kind != inspect.Parameter.VAR_KEYWORD]
    unknown = [str(name) for name in given if name not in known] if len(known) == len(taken) else []
    for name in unknown:
        near = nearest(name, known)
        remedy = f"{key}.{near} is the nearest" if near else f"it takes {', '.join(known)}"
        mistakes.add(f"{key}.{name}: {key} takes no such key; {remedy}.")
    if unknown or "???" in given.values():
        return None
    with mistakes.caught():
        try:
            return maker(**given)
        except TypeError:  # told where it is made again
            return None
    return None


def cells_of(config: DictConfig) -> list[tuple[str, ScoreRange]]:
    """Every dimension in every range; else `UserError`."""
    mistakes = Mistakes()
    axes: dict[str, list[Any]] = {"dimensions": [], "ranges": []}
    for key, make in (("ranges", ScoreRange.parse), ("dimensions", str)):
        with mistakes.caught():
            for given in list_at(config, key):
                with mistakes.caught():
                    axes[key].append(make(given))
            if len(set(axes[key])) < len(axes[key]):
                raise UserError(f"{key}: {', '.join(map(str, axes[key]))} names one twice.")
            if len(set(map(str, axes[key]))) < len(axes[key]):
                raise UserError(
                    f"{key}: {', '.join(map(str, axes[key]))} has one name for two, whose ends are alike; ask for them "
                    "in runs of their own."
                )
    mistakes.tell()
    return list(product(axes["dimensions"], axes["ranges"]))


def _check_attacks(config: DictConfig) -> None:
    given = list_at(config, "attacks")
    select_attacks([entry for entry in given if not isinstance(entry, Mapping) or TARGET not in entry])


def _check_logger(config: DictConfig) -> None:
    mode = None if config.get("logger") is None else config.logger.get("mode")
    if mode is not None and mode not in LOGGER_MODES:
        raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(LOGGER_MODES)}.")


def _check_data(data: DictConfig) -> None:
    given = plain(data)
    names = [field.name for field in dataclasses.fields(DataSettings)]
    source = DataSettings(**{name: given[name] for name in names if name in given}).source
    path = given.get("path")
    if not str(given.get(TARGET)).startswith("judgebench.data.") or "path" not in given:
        return
    if path is None or not path.strip():
        hub = "hub" in (_comment("data", "path", choice_of("data"), "null") or "")
        raise UserError(
            f"data.path is not given; it must be {source or 'the file with the texts'}, "
            f"as data.path=FILE"
            f"{', or hub, which downloads it' if hub else ''}.",
        )
    file = local_path(path)
    if path != "hub" and not is_hub_id(path) and not file.is_dir():
        if source is not None and not file.exists():
            raise UserError(f"{file}: there is no such file; data.path must be {source}, or a folder that holds it.")
        existing(file)


def _check_recorded(config: DictConfig, recording: Recording) -> None:
    """Refuses a dimension or range under which a file of recorded readings has none."""
    if recording.about["compares"] != (config.prompt.get("rivals") is not None):
        return  # which is said where prompts meet readings
    cells = [(one["dimension"], one["range"]) for one in recording.about["conditions"]]
    for dimension, score_range in cells_of(config):
        if (dimension, str(score_range)) not in cells:
            ranges: dict[str, list[str]] = {}
            for name, answered in dict.fromkeys(cells):
                ranges.setdefault(name, []).append(answered)
            there = "; ".join(f"{name}, {', '.join(answered)}" for name, answered in ranges.items())
            raise UserError(
                f"judge.path: no row of {recording.path.name} answers under {dimension}, {score_range}, which is to be "
                f"judged; {recording.path.name} has answers under {there}."
            )


def _check_here(source: Any) -> None:
    """Refuses a model that can only be on this machine and is not."""
    if isinstance(source, ModelSource) and not source.on_hub:
        source.locate(weights=False)


def _check_devices(config: DictConfig) -> None:
    """Refuses more processes than a machine can run; Lightning would start them."""
    devices, cores = config.trainer.get("devices"), os.cpu_count() or 1
    if isinstance(devices, int) and not isinstance(devices, bool) and devices > max(cores, _MOST_DEVICES):
        raise UserError(
            f"trainer.devices: {devices} processes on one machine of {cores} cores are more than it can run; give at "
            f"most {max(cores, _MOST_DEVICES)}."
        )
