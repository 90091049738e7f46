"""The folder conf/ and its groups, as files: what --help lists without Hydra."""

from __future__ import annotations

import re
import textwrap
from itertools import takewhile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
"""The configuration folder; its `sweeps` is a link to sweeps/, so that `+sweeps=NAME` finds the
studies."""

COMMANDS = {
    "run": ("judgebench", "an experiment: judgebench run +exp=demo"),
    "sweep": (
        "judgebench",
        "a run for each value: judgebench sweep +exp=NAME KEY=1,2; +sweeps=NAME searches",
    ),
    "label": (
        "judgebench.command.label",
        "makes a page on which people label your texts: judgebench label FILE out=label.html",
    ),
    "calibrate": (
        "judgebench.command.calibrate",
        "chooses range and decoding by your own labels; writes a judge card",
    ),
    "score": ("judgebench.command.score", "scores texts with the judge of a card"),
    "from": (
        "judgebench.command.from_results",
        "takes results of another tool, or a table: judgebench from FILE out=FOLDER",
    ),
    "gate": (
        "judgebench.command.gate",
        "says whether a card's judge still does on these labels: exit code 0, 1 or 2",
    ),
    "report": (
        "judgebench.command.report",
        "makes a run's page again, or one page of several runs",
    ),
    "record": (
        "judgebench.command.record",
        "writes a run's readings as one file, which judge=recorded reads",
    ),
    "store": ("judgebench.command.store", "verifies stores of readings, or merges them"),
}
"""Command -> its module, and what it does. A sweep is a run with Hydra's flag for several."""


def groups() -> list[str]:
    """Names of the groups of conf/, but for Hydra's own."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "hydra")


def choices(group: str) -> list[str]:
    """The choices of a group, those in its folders with them."""
    folder = FOLDER / group
    return sorted(str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yaml"))


def choice_sentences(group: str) -> dict[str, str]:
    """Choice -> the first sentence of its file's opening comment, for every file of a group, as
    `exp`, and its subfolders."""
    folder = FOLDER / group
    sentences = {}
    for file in sorted(folder.rglob("*.yaml")):
        lines = file.read_text("utf-8").splitlines()
        comment = list(takewhile(lambda line: line.startswith("#"), lines))
        if comment and comment[0].startswith("# @package"):
            del comment[0]
        text = " ".join(line.lstrip("# ") for line in comment)
        sentence = re.match(r".*?[.?](?=\s|$)", text)
        choice = str(file.relative_to(folder).with_suffix(""))
        sentences[choice] = sentence[0] if sentence else text
    return sentences


def choice_list(group: str) -> str:
    """The choices of a group, a line each, for --help."""
    sentences = choice_sentences(group)
    width = max(map(len, sentences), default=0)
    wrapper = textwrap.TextWrapper(118, subsequent_indent=" " * (width + 4))
    lines = []
    for name, sentence in sentences.items():
        wrapper.initial_indent = f"  {name:{width}}  "
        lines.append(wrapper.fill(sentence))
    return "\n".join(lines)


def help_text() -> str:
    """The text of --help: the template in conf/config.yaml, filled as Hydra would."""
    # 1. the template, and the header that it names
    text = (FOLDER / "config.yaml").read_text("utf-8")
    lines = text.partition("    template: |")[2].splitlines()[1:]
    template = ""
    for line in lines:
        if line.strip() and not line[:6].isspace():
            break
        template += f"{line[6:]}\n"
    header = re.search(r"^    header: (.*)$", text, re.MULTILINE)
    title = header[1] if header else ""
    filled = template.removesuffix("\n").replace("${hydra.help.header}", title)
    # 2. the choices of each group
    filled = filled.replace("$$", "$")
    filled = re.sub(r"\$\{choices_of:(\w+)\}", lambda match: choice_list(match[1]), filled)
    listed = []
    for group in groups():
        folders = sorted({file.parent for file in (FOLDER / group).rglob("*.yaml")})
        for folder in folders:
            names = sorted(file.stem for file in folder.glob("*.yaml"))
            listed.append(f"{folder.relative_to(FOLDER)}: {', '.join(names)}")
    return filled.replace("$APP_CONFIG_GROUPS", "\n".join(listed))
