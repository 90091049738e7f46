"""The folder conf/, beside the package in a checkout, inside it in an installed wheel, and its groups' choices."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from omegaconf import OmegaConf

_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
"""The configuration folder; its `sweeps` is a link to sweeps/, so that `+sweeps=NAME` finds the studies."""


def groups() -> list[str]:
    """Names of the groups of conf/, but for Hydra's own."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "hydra")


def top_keys(config_name: str) -> list[str]:
    """The keys at the top of a configuration's own file, `hydra` among them.

    Args:
        config_name: the file's name without its ending.
    """
    file = FOLDER / f"{config_name}.yaml"
    own = [str(key) for key in OmegaConf.load(file) if key != "defaults"] if file.is_file() else []
    return list(dict.fromkeys([*own, "hydra"]))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most like `name`, for who has mistyped it; None where none is like it."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return found[0] if found else None


def choice_sentences(group: str) -> dict[str, str]:
    """Choice -> the first sentence of its file's opening comment, of every file of a group and its subfolders.

    Args:
        group: a folder of conf/, as `exp`.
    """
    found = {}
    for file in sorted((FOLDER / group).rglob("*.yaml")):
        lines = takewhile(lambda line: line.startswith("#"), file.read_text("utf-8").splitlines())
        text = " ".join(line.lstrip("# ") for line in lines if not line.startswith("# @package"))
        sentence = re.match(r".*?[.?](?=\s|$)", text)
        found[str(file.relative_to(FOLDER / group).with_suffix(""))] = sentence[0] if sentence else text
    return found


def choice_list(group: str) -> str:
    """The choices of a group, a line each, for --help."""
    told = choice_sentences(group)
    width = max(map(len, told), default=0)
    return "\n".join(
        textwrap.fill(sentence, 118, initial_indent=f"  {name:{width}}  ", subsequent_indent=" " * (width + 4))
        for name, sentence in told.items()
    )


OmegaConf.register_new_resolver("choices_of", choice_list, replace=True)
