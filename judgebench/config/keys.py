"""The folder conf/ with its groups, and keys of a configuration: how they are read, and who has set them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from judgebench.config.fields import plain
from judgebench.runtime.errors import UserError, shown
from judgebench.runtime.files import user_path
from judgebench.runtime.secrets import mask_secrets, masked_argument

_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
"""The configuration folder; its `sweeps` is a link to sweeps/, so that `+sweeps=NAME` finds the studies."""


def groups() -> list[str]:
    """Names of the groups of conf/, but for Hydra's own."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "hydra")


def top_keys(config_name: str) -> list[str]:
    """The keys at the top of the configuration file of that name (without its ending), `hydra` among them."""
    file = FOLDER / f"{config_name}.yaml"
    keys = [str(key) for key in OmegaConf.load(file) if key != "defaults"] if file.is_file() else []
    return list(dict.fromkeys([*keys, "hydra"]))


def choices(group: str) -> list[str]:
    """The choices of a group, those in its folders with them."""
    folder = FOLDER / group
    return sorted(str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yaml"))


def choice_sentences(group: str) -> dict[str, str]:
    """Choice -> the first sentence of its file's opening comment, for every file of a group, as `exp`, and its
    subfolders."""
    sentences = {}
    for file in sorted((FOLDER / group).rglob("*.yaml")):
        lines = takewhile(lambda line: line.startswith("#"), file.read_text("utf-8").splitlines())
        text = " ".join(line.lstrip("# ") for line in lines if not line.startswith("# @package"))
        sentence = re.match(r".*?[.?](?=\s|$)", text)
        sentences[str(file.relative_to(FOLDER / group).with_suffix(""))] = sentence[0] if sentence else text
    return sentences


def choice_list(group: str) -> str:
    """The choices of a group, a line each, for --help."""
    sentences = choice_sentences(group)
    width = max(map(len, sentences), default=0)
    return "\n".join(
        textwrap.fill(sentence, 118, initial_indent=f"  {name:{width}}  ", subsequent_indent=" " * (width + 4))
        for name, sentence in sentences.items()
    )


OmegaConf.register_new_resolver("choices_of", choice_list, replace=True)


def path_of(config: DictConfig, key: str) -> Path:
    """A path that the configuration names; `UserError` where it is no text."""
    value = config.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise UserError(f"{key}: {value!r} is not a path.")
    return user_path(value)


def list_at(config: DictConfig, key: str) -> list[Any]:
    """The entries under a key that takes a list of at least one; else `UserError`."""
    items = plain(OmegaConf.select(config, key))
    if not isinstance(items, list) or not items:
        raise UserError(f"{key}: {items!r} is not a list with at least one entry.")
    return items


def typed_overrides() -> list[str]:
    """Overrides that the command line, or a sweep, sets beside the config files."""
    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def command_line() -> str | None:
    """The command that gives this run again, without secrets; None where Hydra has composed nothing."""
    if not HydraConfig.initialized():
        return None
    whole: str = mask_secrets(shlex.join(["python", "-m", "judgebench", *map(masked_argument, typed_overrides())]))
    return whole


def typed(key: str) -> str:
    """The value that the command line gives a key or group; empty where it gives none."""
    overrides = (override.lstrip("+").partition("=") for override in typed_overrides())
    return ([value for name, _, value in overrides if name == key] or [""])[-1]


def choice_of(group: str) -> str:
    """The choice of a group; empty where there is none, or it is not known."""
    return str(HydraConfig.get().runtime.choices.get(group) or "") if HydraConfig.initialized() else ""


def origin(config: DictConfig, keys: Sequence[str]) -> Iterator[str]:
    """A sentence where the command line contradicts an experiment or a default in `keys` that do not go together."""
    set_here = [f"{key}={typed(key)}" for key in keys if typed(key)]
    others = [key for key in keys if not typed(key)]
    who = f"+exp={choice_of('exp')} or a default" if choice_of("exp") else "A default"
    for key in others if set_here else ():
        node = OmegaConf.select(config, key)
        names = [name for name, entry in node.items() if "_target_" in str(entry)] if key == "decoding" else []
        if (
            value := f"[{','.join(names)}]"
            if names
            else choice_of(key) or (shown(plain(node)) if node is not None else "")
        ):
            yield f"{who} sets {key}={value}, which {' and '.join(set_here)} contradicts."
