"""The folder conf/ and its groups, as files: what --help lists without Hydra."""

from __future__ import annotations

import re
import textwrap
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
"""The configuration folder; its `sweeps` is a link to sweeps/, so that `+sweeps=NAME` finds the
studies."""


class Command(NamedTuple):
    """A command: its module, the words that it takes, and what it does."""

    module: str
    takes: str
    says: str


_HYDRA = "[KEY=VALUE ...]"

COMMANDS = {
    "run": Command("judgebench", _HYDRA, "an experiment: judgebench run +exp=demo"),
    "sweep": Command(
        "judgebench",
        _HYDRA,
        "a run for each value: judgebench sweep +exp=NAME KEY=1,2; +sweeps=NAME searches",
    ),
    "label": Command(
        "judgebench.command.label",
        f"FILE out=FILE.html {_HYDRA}",
        "makes a page on which people label your texts: judgebench label FILE out=label.html",
    ),
    "calibrate": Command(
        "judgebench.command.calibrate",
        f"data=NAME judge=NAME {_HYDRA}",
        "chooses range and decoding by your own labels; writes a judge card",
    ),
    "score": Command(
        "judgebench.command.score",
        f"card=FILE data.path=FILE {_HYDRA}",
        "scores texts with the judge of a card",
    ),
    "from": Command(
        "judgebench.command.from_results",
        "FILE [FILE ...] [out=FOLDER] [KEY=VALUE ...]",
        "takes results of another tool, or a table: judgebench from FILE out=FOLDER",
    ),
    "gate": Command(
        "judgebench.command.gate",
        f"card=FILE data.path=FILE {_HYDRA}",
        "says whether a card's judge still does on these labels: exit code 0, 1 or 2",
    ),
    "report": Command(
        "judgebench.command.report",
        "RUN [RUN ...] [out=FILE]",
        "makes a run's page again, or one page of several runs",
    ),
    "paper": Command(
        "judgebench.command.paper",
        "RUN [RUN ...] [out=FOLDER]",
        "prints the papers' tables with the numbers of runs",
    ),
    "record": Command(
        "judgebench.command.record",
        "RUN out=FILE.parquet",
        "writes a run's readings as one file, which judge=recorded reads",
    ),
    "store": Command(
        "judgebench.command.store",
        "COMMAND STORE [STORE ...] [out=STORE]",
        "verifies stores of readings, or merges them",
    ),
}
"""The commands. A sweep is a run with Hydra's flag for several."""


def usage_of(name: str) -> str:
    """The line that says how a command is started."""
    return f"python -m judgebench {name} {COMMANDS[name].takes}"


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
