"""Where conf/ lies, beside the package in a checkout, inside it in an installed wheel; and what can be chosen there."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hydra.errors import HydraException
from omegaconf import OmegaConf

from judgebench.errors import UserError

_PACKAGE = Path(__file__).resolve().parent
FOLDER = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
"""The configuration folder; its `sweeps` is a link to sweeps/, so that `+sweeps=NAME` finds the studies."""


def check_groups(arguments: Sequence[str]) -> None:
    """Whether what a command line chooses of each group can be a choice: Hydra has only a traceback for `tune=true`.

    What cannot be parsed, or names nothing that there is, is left to Hydra, which tells it well.

    Raises:
        UserError: a group is set to a number, a switch, nothing, or a list of other things than names.
    """
    groups = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "hydra")
    given = [argument for argument in arguments if argument.lstrip("+").partition("=")[0].partition("@")[0] in groups]
    try:
        parsed = OverridesParser.create().parse_overrides(given)
    except HydraException:
        return
    for one in parsed:
        value = one.value()
        names = value if isinstance(value, list) else [value]
        if one.is_sweep_override() or one.is_delete() or all(isinstance(name, str | QuotedString) for name in names):
            continue
        known = sorted(path.stem for path in (FOLDER / one.key_or_group).glob("*.yaml"))
        shown = one.input_line or one.key_or_group
        raise UserError(f"{shown}: {one.key_or_group} is chosen by name; there are {', '.join(known)}.")


def sentences(group: str) -> dict[str, str]:
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


def listed(group: str) -> str:
    """The choices of a group, a line each, for --help."""
    told = sentences(group)
    width = max(map(len, told), default=0)
    return "\n".join(
        textwrap.fill(sentence, 118, initial_indent=f"  {name:{width}}  ", subsequent_indent=" " * (width + 4))
        for name, sentence in told.items()
    )


OmegaConf.register_new_resolver("choices_of", listed, replace=True)
