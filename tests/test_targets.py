"""Classes that conf/ names are where it says, and `hydra.utils.instantiate` makes them of their files alone."""

import importlib.util
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from judgebench.config.choices import FOLDER, choices, groups
from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.settings.metrics import MetricSettings, Ranking

FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml"))
SWEEPS = sorted(str(path.relative_to(FOLDER)) for path in (FOLDER / "sweeps").glob("*.yaml"))


def targets_of(node: Any) -> Iterator[str]:
    """Every `_target_` in a plain value, but those that the user is to give."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and node.get("_target_", "???") != "???":
        yield node["_target_"]
    for child in children:
        yield from targets_of(child)


@pytest.mark.parametrize("file", [*FILES, *SWEEPS])
def test_a_class_is_where_the_file_says(file):
    """In the module that defines it, or in the package around that which shows it to users."""
    for target in targets_of(OmegaConf.to_container(OmegaConf.load(FOLDER / file))):
        place, _, name = target.rpartition(".")
        maker = get_object(target)
        assert maker.__qualname__ == name
        if place.startswith("judgebench"):
            assert maker.__module__ == place or name in get_object(place).__all__, f"it is {maker.__module__}.{name}"


NEEDS = {
    "assistant=api": ["judge=openai", "assistant.model=m"],
    "assistant=early_exit": ["assistant.layer=1"],
    "assistant=model": ["assistant.path=owner/name"],
    "assistant=recorded": ["judge=recorded", "judge.path=qwen2.5-coder"],
    "judge=api": ["judge.url=http://127.0.0.1:8000/v1", "judge.model=m"],
    "judge=base": ["judge.path=owner/name"],
    "judge=llama_cpp": ["judge.tokenizer=owner/name"],
    "judge=local": ["judge.path=owner/name"],
    "judge=own": ["judge._target_=tests.judges.own_judges.Dictionary", "+judge.words={good: 1}"],
    "judge=panel": ["judge.members=[qwen2.5-coder]"],
    "judge=recorded": ["judge.path=qwen2.5-coder"],
    "judge=replay": ["judge.path=answers.jsonl"],
    "judge=vllm": ["judge.model=owner/name"],
    "tutor=base": ["tutor.path=owner/name"],
    "tutor=local": ["tutor.path=owner/name"],
}
"""A choice -> the values that its user must give."""

PACKAGES = {"logger=mlflow": "mlflow", "logger=tensorboard": "tensorboardX", "runner=ray": "ray"}
"""A choice -> the package that it needs, which an installation may lack."""

CHOICES = [
    f"{group}={choice}" for group in groups() if group not in ("exp", "use", "sweeps") for choice in choices(group)
]


@pytest.mark.parametrize("choice", CHOICES)
def test_hydra_makes_what_a_choice_names(choice, tmp_path):
    if choice in PACKAGES and importlib.util.find_spec(PACKAGES[choice]) is None:
        pytest.skip(f"{PACKAGES[choice]} is not installed")
    group, _, name = choice.partition("=")
    asked = f"decoding=[{name}]" if group == "decoding" else choice
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("config", [asked, *NEEDS.get(choice, ()), f"run_dir={tmp_path}"])
    node = config[group]
    if node is None:  # as tutor=none
        return
    made = instantiate(node)
    target = node.get("_target_")
    maker = get_object(target) if target else None
    if inspect.isclass(maker) and not node.get("_partial_"):
        assert type(made) is maker


def test_only_choices_that_need_a_value_are_given_one():
    """A choice that stands here without need would hide that its file is not enough."""
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        for choice in NEEDS:
            with pytest.raises((InstantiationException, OmegaConfBaseException)):
                instantiate(compose("config", [choice])[choice.partition("=")[0]])


DEFAULTS = ("assistant/base", "data/jsonl", "judge/api", "judge/base", "judge/panel")
DEFAULTS += ("judge/recorded", "judge/replay", "tutor/base")
"""Files that show every key of a class. A configuration says there what it takes; the class holds the same, for a card
or a Python program that leaves keys out."""

SECTIONS = {"metrics": MetricSettings, "pairwise": Ranking, "verdict": Margins, "costs": Costs, "ask": Asking}
"""Keys of conf/config.yaml -> the class that reads what is below."""


def differences(node: dict[str, Any], maker: Any, file: str) -> list[str]:
    """Keys whose value is another than the class's default, references and values to be given aside."""
    different = []
    for key, parameter in inspect.signature(maker).parameters.items():
        given = node.get(key)
        default = parameter.default
        if key not in node or default is parameter.empty or str(given).startswith("${") or given == "???":
            continue
        # a mapping is read by a class of its own
        if given != default and not isinstance(given, dict):
            different.append(f"{file}.yaml: {key} is {given!r}, and {maker.__qualname__} has {default!r}")
    return different


def test_a_default_is_the_same_in_the_file_and_in_the_class():
    found = []
    for file in DEFAULTS:
        node: Any = OmegaConf.to_container(OmegaConf.load(FOLDER / f"{file}.yaml"))
        for part in (node, node.get("helper", {})):
            if "_target_" in part:
                found += differences(part, get_object(part["_target_"]), file)
    whole: Any = OmegaConf.to_container(OmegaConf.load(FOLDER / "config.yaml"))
    for key, maker in SECTIONS.items():
        found += differences(whole[key], maker, f"config.yaml, {key}")
    assert not found, "\n".join(found)
