"""A configuration checked once, before torch is imported, which takes seconds.

Keys that need no part of an experiment are checked by themselves.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from judgebench.attacks import Attack, LearnedPhrase, select_attacks
from judgebench.attacks.search import AdvSuffix, Search
from judgebench.config.defaults import (
    complete_all,
    complete_dimensions,
    complete_rubrics,
    complete_share,
)
from judgebench.config.inputs import inputs_of, store_of
from judgebench.config.keys import FOLDER, choice_of, list_at, path_of
from judgebench.config.parts import JudgeParts, Parts, built, refuse_unrated
from judgebench.config.rules import check_rules, judge_mismatches, run_mismatches, unkept
from judgebench.data.dataset import TEST, RatingDataset, Rivals
from judgebench.decoding.rules import Decoding
from judgebench.defenses import select_defenses
from judgebench.judges.assistants import Assistant
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.ray_runner import RayRunner
from judgebench.judges.spec import RECORDED, REPLAYED, SERVED, JudgeSettings
from judgebench.probes import Probe, select_probes
from judgebench.prompts.builder import NO_DEFENSE, PromptSettings
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime.files import check_outputs, user_path
from judgebench.runtime.values import settle
from judgebench.settings.components import TARGET, build_component
from judgebench.settings.costs import Asking, Costs
from judgebench.settings.fields import plain, settings_of
from judgebench.settings.margins import Margins
from judgebench.settings.metrics import MetricSettings, Ranking
from judgebench.settings.run import LOGGER_MODES, RunSettings
from judgebench.studies.probes import PROBE
from judgebench.tuning.tuners import Tuner
from judgebench.tutor.spec import TutorSpec
from judgebench.types import Classes, RatingKey, Record, ScoreRange
from judgebench.words.errors import Mistakes, UserError, shown

if TYPE_CHECKING:
    from judgebench.readings.reading import Recording


_MOST_DEVICES = 64
"""Processes on one machine, unless it has more cores."""


_NEEDED = ("judge", "assistant", "data", "trainer", "metrics", "run_dir", "store")
"""Keys without which there is no run."""


def missing_values(config: DictConfig, mistakes: Mistakes) -> bool:
    """Adds a mistake for each value that is `???`; True where there is one. Refuses a configuration
    without a key that every run needs."""
    for key in _NEEDED:
        if config.get(key) is None and (
            key not in config or OmegaConf.is_dict(config._get_node(key))
        ):
            mistakes.add(
                f"{key}: this configuration has none, and a run needs it; leave out what takes it "
                "away."
            )
    mistakes.tell()
    incomplete = False
    for group in map(str, config):
        node = config._get_node(group)
        try:
            missing = sorted(OmegaConf.missing_keys(node)) if OmegaConf.is_config(node) else []
        # it refers to a value of another part, which is missing there
        except OmegaConfBaseException:
            missing = []
            incomplete = True
        for key in missing:
            incomplete = True
            choice = choice_of(group)
            comment = _comment(group, key.rpartition(".")[2])
            because = f"{group}={choice} needs it" if choice else "it is needed"
            mistakes.add(
                f"{key} is not given, and {because}; add "
                f"{key}=VALUE{f': {comment}' if comment else ''}."
            )
    return incomplete


def decodings_of(config: Mapping[Any, Any]) -> dict[str, Decoding]:
    """The entries of the decoding group that name a class; the others are hyperparameters."""
    decodings = {
        str(name): build_component(entry)
        for name, entry in config.items()
        if isinstance(entry, Mapping) and TARGET in entry
    }
    if not decodings:
        raise UserError(
            "decoding: none is chosen; give at least one, as decoding=[greedy,contrastive]."
        )
    for name, decoding in decodings.items():
        if not isinstance(decoding, Decoding):
            raise UserError(
                f"decoding.{name}: {type(decoding).__name__} is no decoding; give a subclass of "
                "Greedy, Expectation or Contrastive of judgebench.decoding."
            )
    return decodings


def cells_of(config: Mapping[Any, Any]) -> list[RatingKey]:
    """Every dimension in every range; else `UserError`."""
    if config.get("dimensions") is None:  # which the data have not said
        return []
    mistakes = Mistakes()
    axes: dict[str, list[Any]] = {"dimensions": [], "ranges": []}
    for key, make in (("ranges", ScoreRange.parse), ("dimensions", str)):
        with mistakes.caught():
            for entry in list_at(config, key):
                with mistakes.caught():
                    axes[key].append(make(entry))
            names = list(map(str, axes[key]))
            if len(set(names)) < len(names):
                alike = (
                    ", or two whose ends are alike; ask for those in runs of their own"
                    if key == "ranges"
                    else ""
                )
                raise UserError(f"{key}: {', '.join(names)} names one twice{alike}.")
    mistakes.tell()
    return list(product(axes["dimensions"], axes["ranges"]))


def check_recorded(config: DictConfig, recording: Recording, cells: Sequence[RatingKey]) -> None:
    """Refuses a dimension or range under which a file of recorded readings has none."""
    if recording.about["compares"] != (config.prompt.get("rivals") is not None):
        return  # which is said where prompts meet readings
    recorded: dict[str, list[str]] = {}
    for condition in recording.about["conditions"]:
        ranges = recorded.setdefault(condition["dimension"], [])
        if condition["range"] not in ranges:
            ranges.append(condition["range"])
    for dimension, score_range in cells:
        if str(score_range) not in recorded.get(dimension, ()):
            file = recording.path.name
            answers = "; ".join(f"{name}, {', '.join(recorded[name])}" for name in recorded)
            raise UserError(
                f"judge.path: no row of {file} answers under {dimension}, {score_range}, which is "
                f"to be judged; {file} has answers under {answers}."
            )


def check_packages(parts: JudgeParts) -> None:
    """Refuses models where what reads them, or tokenizes for a server, is not installed."""
    needed: Sequence[str] = ()
    if parts.computes:
        needed = _OF_MODELS
    elif getattr(parts.judge, "own_tokenizer", None):
        needed = _OF_MODELS[:1]
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise UserError(
            "judge: a model that is read here needs packages that this installation leaves out; "
            f"install them with `pip install {' '.join(missing)}`, where there is no GPU from the "
            "index that PyTorch's install page names for CPU; or take judge=recorded, judge=replay "
            "or a judge behind a URL."
        )


def _check_machine(config: DictConfig) -> None:
    mode = None if config.get("logger") is None else config.logger.get("mode")
    if mode is not None and mode not in LOGGER_MODES:
        raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(LOGGER_MODES)}.")
    folder = config.get("tasks")
    if folder is not None and not (isinstance(folder, str) and user_path(folder).is_dir()):
        raise UserError(
            f"tasks: there is no folder {folder}; give the one with the files of the tasks, as "
            "tasks=DIR."
        )


def _check_devices(config: DictConfig) -> None:
    """Refuses more processes than a machine can run, which Lightning would start."""
    devices = config.trainer.get("devices")
    most = max(os.cpu_count() or 1, _MOST_DEVICES)
    if isinstance(devices, int) and devices > most:
        raise UserError(
            f"trainer.devices: {devices} processes on one machine of {os.cpu_count()} cores are "
            f"more than it can run; give at most {most}."
        )


def _check_outputs(config: DictConfig) -> None:
    """Refuses a run folder, or a store, whose files are inputs or would become some."""
    from judgebench.results.schema import own_files  # it needs pyarrow

    folder = path_of(config, "run_dir")
    inputs = list(inputs_of(config))
    files = [path for path in own_files(folder) if not path.is_dir()]
    store = store_of(path_of(config, "store"), inputs)
    check_outputs([(f"run_dir={folder}", path) for path in files], [*inputs, store])


def check_labels(config: DictConfig) -> None:
    """Refuses files of labels beside data that would not read them."""
    data = config.get("data")
    if config.get("labels") is not None and isinstance(data, DictConfig) and "labels" not in data:
        raise UserError(
            f"labels: {config.labels} would be joined to your own texts, and these data have "
            "ratings of their own; give data=jsonl data.path=FILE, or leave labels out."
        )


MACHINE_CHECKS: Sequence[Callable[[DictConfig], object]] = (
    check_labels,
    _check_machine,
    _check_devices,
    _check_outputs,
)
"""Checks of paths, files and devices of this machine."""


def _comment(group: str, name: str) -> str | None:
    """The comment on a key, which has no value there, in the files of a group."""
    for file in sorted((FOLDER / group).glob("*.yaml")):
        pattern = rf"^ *{re.escape(name)}: \?\?\? *# *(.+)$"
        if line := re.search(pattern, file.read_text("utf-8"), re.MULTILINE):
            return line[1]
    return None


_PAIRS = ("rivals", "rivals_seed")


_OF_MODELS = ("transformers", "torch", "lightning", "accelerate", "safetensors", "gguf")


def judge_parts(given: Mapping[str, Any]) -> JudgeParts:
    """The parts of a judge by the keys of a configuration, without one of a run, as a judge card
    has them; `UserError` with all of their mistakes."""
    mistakes = Mistakes()
    made = _made(JUDGE_MAKERS, given, mistakes)
    mistakes.tell()
    return JudgeParts(**made)


def check_judge(parts: JudgeParts, store: object) -> None:
    """Checks that the parts of a judge go together, with each other and with where its readings are
    kept, and that what reads its models is installed; else `UserError`."""
    check_packages(parts)
    check_rules(judge_mismatches(parts), unkept(parts, store))


def _made(makers: Makers, config: Any, mistakes: Mistakes) -> Record:
    """Parts by their names, those that can be made."""
    made = {}
    for name, make in makers.items():
        with mistakes.caught():
            made[name] = make(config)
    return made


class _Mistakes(Mistakes):
    """Mistakes of a configuration; what refers to a value that is not given is passed over, for that
    is a mistake already."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__()
        self._incomplete = missing_values(config, self)

    @contextmanager
    def caught(self) -> Iterator[None]:
        try:
            with super().caught():
                yield
        except OmegaConfBaseException:
            if not self._incomplete:
                raise


def check_config(config: DictConfig, here: bool = True) -> Parts:
    """The parts of a configuration, of which they hold a complete one; `UserError` with all of its
    mistakes, those of this machine's paths and devices only where it runs `here`."""
    config = settle(config)
    mistakes = _Mistakes(config)
    # 1. the data and the judge, which complete the configuration
    data = judge = None
    with mistakes.caught():
        data = built(config, "data", RatingDataset)
        if here:
            data.check_path()
        config = complete_dimensions(config, data)
    with mistakes.caught():
        judge = JUDGE_MAKERS["judge"](config)
    config = complete_all(config, judge)
    with mistakes.caught():
        config = complete_rubrics(config, judge)
    # 2. all other parts and settings
    makers = {name: make for name, make in (JUDGE_MAKERS | _MAKERS).items() if name != "judge"}
    made = _made(makers, config, mistakes)
    for check in (_check_settings, *(MACHINE_CHECKS if here else ())):
        with mistakes.caught():
            check(config)
    # 3. all of them together
    with mistakes.caught():
        _take_probes(made, judge)
    attacks = made.pop("attacks", ())
    learned = next((attack for attack in attacks if isinstance(attack, AdvSuffix)), None)
    others = [attack for attack in attacks if attack is not learned]
    parts = None
    if judge is not None and {"assistant", "decodings"} <= set(made):
        parts = Parts(
            config=config, judge=judge, data=data, attacks=others, learned=learned, **made
        )
        parts = _together(parts, mistakes)
    if here:
        _check_models(parts, [judge, made.get("assistant")], mistakes)
    mistakes.tell()
    assert parts is not None
    return parts


def _take_probes(made: Record, judge: JudgeSettings | None) -> None:
    """Puts the parts of probes among attacks and defenses; of a judge whose answers are recorded
    none is asked. `UserError` where no text is judged without a defense."""
    probes: Sequence[Probe] = made.get("probes", ())
    for kind in ("attacks", "defenses"):
        for part in made.get(kind, ()):
            if part.name.startswith(PROBE):
                raise UserError(
                    f"{kind}: {shown(part.name)} begins with '{PROBE}', as the conditions of probes "
                    "do; give it another name."
                )
    if judge is None or {RECORDED, REPLAYED} & judge.capabilities:
        made["probes"] = probes = ()
    names = [defense.name for defense in made.get("defenses", ())]
    if probes and names and NO_DEFENSE not in names:
        raise UserError(
            "audit: probes are asked without a defense, and `defenses` has none of that; add none, "
            f"as in 'defenses=[none,{names[0]}]'."
        )
    for probe in probes:
        kind = "attacks" if isinstance(probe.part, Attack) else "defenses"
        made[kind] = [*made.get(kind, ()), probe.part]


def _together(parts: Parts, mistakes: Mistakes) -> Parts:
    """Parts with a development split and with phrases that were learned before; checked
    together."""
    with mistakes.caught():
        config = complete_share(parts.config, parts.needs_dev)
        if config is not parts.config and parts.data is not None:
            parts.data.divide(config.data.dev_share)
        parts = replace(parts, config=config)
    with mistakes.caught():
        check_packages(parts)
        check_rules(run_mismatches(parts))
        if parts.costs.threshold is not None:
            for _, score_range in parts.cells:
                score_range.threshold(parts.costs.threshold)
        served: Any = parts.judge
        if parts.assistant.served is not None and SERVED in served.capabilities:
            parts.assistant.served.spec(served)
    learned = parts.learned
    if learned is not None and learned.phrase_file is not None:
        with mistakes.caught():
            return parts.with_phrases([LearnedPhrase.read(learned.phrase_file)])
    return parts


def _check_settings(config: DictConfig) -> None:
    """Refuses values of switches, and of `metrics`, that cannot be."""
    mistakes = Mistakes()
    with mistakes.caught():
        switches = [key.name for key in dataclasses.fields(RunSettings)]
        settings_of(RunSettings, {name: config.get(name) for name in switches}, "")
    with mistakes.caught():
        settings_of(MetricSettings, config.metrics, "metrics")
    mistakes.tell()


def _check_models(parts: Parts | None, roles: Sequence[Any], mistakes: Mistakes) -> None:
    """Looks at recorded readings, at models that can only be on this machine and, where there are
    mistakes already, at data and rubrics, so that all is said at once."""
    recording: Any = getattr(roles[0], "recording", None)
    if parts is not None and recording is not None:
        with mistakes.caught():
            check_recorded(parts.config, recording, parts.cells)
    for role in roles:
        with mistakes.caught():
            source = getattr(role, "source", None)
            if isinstance(source, ModelSource) and not source.on_hub:
                source.locate(weights=False)
    if mistakes.found and parts is not None and parts.cells:
        with mistakes.caught():
            _read(parts)


def with_data(parts: Parts) -> Parts:
    """The same with the data read, so that a mistake in them is named before what takes seconds is
    imported; in a later run of a process they are read when they are needed, if the last run's
    cannot be used again."""
    return parts if "judgebench.runs.pipeline" in sys.modules else with_read(parts)


def with_read(parts: Parts) -> Parts:
    """The same with the data read; `UserError` of all mistakes in data and rubrics, or in the run
    folder."""
    parts = _read(parts)
    from judgebench.results.folder import RunFolder  # it needs pandas, which takes a second

    RunFolder.check(path_of(parts.config, "run_dir"))
    return parts


def _read(parts: Parts) -> Parts:
    mistakes = Mistakes()
    if parts.data is not None:  # else a mistake in its settings is known already
        with mistakes.caught():
            parts = replace(parts, data=data_of(parts))
    with mistakes.caught():
        prompts = settings_of(PromptSettings, parts.prompt, "prompt")
        load_rubrics(prompts.rubrics, list_at(parts.config, "dimensions"), prompts.variants)
    mistakes.tell()
    return parts


def data_of(parts: Parts) -> RatingDataset:
    """The data, read; `UserError` where it has no human scores of a dimension."""
    data: RatingDataset = parts.data
    data.setup()
    known = ", ".join(data.dimensions)
    if missing := [name for name in parts.dimensions if name not in data.dimensions]:
        raise UserError(
            *(
                f"dimensions: {data.name} has no human scores for {name!r}; it has {known}."
                for name in missing
            ),
            give={"dimensions": list(data.dimensions)} if len(data.dimensions) == 1 else {},
        )
    # a judge's words have the places of the data's classes
    for name, score_range in parts.cells:
        classes = data.classes.get(name, Classes())
        words = [word.casefold() for word in score_range.labels]
        names = [word.casefold() for word in classes.names]
        same = set(words) == set(names)
        if score_range.worded and names and words != names and (same or not classes.ordered):
            raise UserError(
                f"ranges: the labels of {name!r} are {', '.join(classes.names)}, worst first, and "
                f"the judge's words are {', '.join(score_range.labels)}; give the same in this "
                "order, or another order as data.classes.",
                give={"ranges": [list(classes.names)]},
            )
    if data.rated:
        refuse_unrated(
            data,
            parts.dimensions,
            TEST,
            "data.dev_share: none of the {groups} of the test split has a human score for "
            "{name!r}; put all into it with data.dev_share=0, draw others with data.seed=1, or "
            "rate some of them.",
        )
    return data


def _tuner(config: Mapping[Any, Any]) -> Tuner | None:
    """The tuner; None for none, also where an experiment has settings of one."""
    tune = config.get("tune")
    without = isinstance(tune, Mapping) and TARGET not in tune
    return None if without else built(config, "tune", Tuner)


def _prompt(config: Mapping[Any, Any]) -> Any:
    """conf/prompt without its keys on rivals."""
    prompt = plain(config.get("prompt")) or None
    if not isinstance(prompt, Mapping):
        return prompt
    return {key: value for key, value in prompt.items() if key not in _PAIRS}


def _rivals(config: Mapping[Any, Any]) -> Rivals | None:
    """conf/prompt's keys on rivals; None where it has none."""
    prompt = plain(config.get("prompt"))
    given = {key: prompt[key] for key in _PAIRS if key in prompt} if prompt else {}
    return settings_of(Rivals, {"rivals": None, **given}, "prompt") if given else None


Makers = Mapping[str, Callable[[Any], Any]]

JUDGE_MAKERS: dict[str, Callable[[Any], Any]] = {
    "judge": lambda config: built(config, "judge", JudgeSettings),
    "assistant": lambda config: built(config, "assistant", Assistant),
    "decodings": lambda config: decodings_of(config.get("decoding") or {}),
    "cells": cells_of,
    "attacks": lambda config: select_attacks(
        list_at(config, "attacks"), built(config, "search", Search)
    ),
    "defenses": lambda config: select_defenses(
        list_at(config, "defenses"), built(config, "tutor", TutorSpec)
    ),
    "prompt": _prompt,
    "rivals": _rivals,
}
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "tuner": _tuner,
    "probes": select_probes,
    "runner": lambda config: built(config, "runner", RayRunner),
    "ranking": lambda config: Ranking.parse(plain(config.get("pairwise"))),
    "margins": lambda config: settings_of(Margins, config.get("verdict") or {}, "verdict"),
    "costs": lambda config: settings_of(Costs, config.get("costs") or {}, "costs"),
    "asking": lambda config: settings_of(Asking, config.get("ask") or {}, "ask"),
}
"""Parts of a judge, and those of a run, by the names of their fields, each made by itself."""
