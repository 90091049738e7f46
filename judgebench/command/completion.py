"""Completion of a command line in Bash: commands, groups with their choices, and keys, from the files
of conf/ and without Hydra."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from judgebench.config.choices import COMMANDS, FOLDER, choices, groups
from judgebench.words.terminal import print_safely

INSTALL = ["-sc", "install=bash"]
QUERY = ["-sc", "query=bash"]
_LINE = "JUDGEBENCH_LINE"

_SCRIPT = r"""_judgebench()
{
    local line="${COMP_LINE:0:COMP_POINT}" program=("$1") IFS=$'\n'
    COMPREPLY=()
    case "$line" in
        *python*\ -m\ judgebench*) program=("$1" -m judgebench) ;;
        *python*) return ;;
    esac
    COMPREPLY=($(JUDGEBENCH_LINE="$line" "${program[@]}" -sc query=bash 2>/dev/null))
    local word="${line##* }"
    # Bash completes what is behind the sign alone
    if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%=*}="}")
    fi
}
complete -o nospace -o default -F _judgebench judgebench python python3"""

_ROLES = ("source", "output", "human", "judge", "system", "group", "id", "rater")
_COMPOSED = {
    "judgebench": "config",
    "judgebench.command.calibrate": "config",
    "judgebench.command.gate": "gate",
    "judgebench.command.score": "score",
    "judgebench.command.label": "label",
}
"""Module -> the file of conf/ that has its keys."""


def asked(arguments: Sequence[str]) -> bool:
    """True where a shell asks, which is answered."""
    if list(arguments) == INSTALL:
        print_safely(_SCRIPT)
    elif list(arguments) == QUERY:
        print_safely(*completions(os.environ.get(_LINE, "")))
    else:
        return False
    return True


def completions(line: str) -> list[str]:
    """Words that the last one of a line, which may be empty, can become.

    Example:
        >>> completions("judgebench cal"), completions("judgebench run judge=smol")
        (['calibrate '], ['judge=smollm2'])
    """
    # 1. the command
    *before, word = line.split(" ")
    start, _, module = " ".join(before).partition(" -m ")
    called, *typed = (module or start).split() or [""]
    module = called if module else ""
    found = []
    if module in ("", "judgebench"):
        if not typed:
            found = [f"{command} " for command in COMMANDS if command.startswith(word)]
        elif typed[0] in COMMANDS:
            module = COMMANDS[typed[0]].module
    # 2. its words
    return [*found, *_words(_COMPOSED.get(module, ""), word)]


def _words(composed: str, word: str) -> list[str]:
    """Overrides that a word can become, of a file of conf/."""
    if not composed:
        return []
    key, equals, value = word.partition("=")
    if equals:
        # several choices are a list
        head = re.match(r".*[\[,]|", value)
        start = head[0] if head else ""
        group = key.lstrip("+")
        known = choices(group) if group in groups() else []
        listed = [f"{start}{name}" for name in known]
        return [f"{key}={name}" for name in listed if name.startswith(value)]
    group = key.partition(".")[0].lstrip("+")
    if "." in key and group in groups():
        keys = []
        for name in choices(group):
            text = (FOLDER / group / f"{name}.yaml").read_text("utf-8")
            keys += [f"{group}.{entry}" for entry in _keys(text)]
    else:
        keys = [*_keys((FOLDER / f"{composed}.yaml").read_text("utf-8")), *_ROLES, "data.path"]
        if composed == "config":
            keys += [f"+{name}" if name in ("exp", "sweeps") else name for name in groups()]
    words = sorted({f"{each}=" for each in keys})
    return [each for each in words if each.startswith(key)]


def _keys(text: str) -> list[str]:
    """The keys at the top of a file of conf/."""
    keys = re.findall(r'^"?([a-z]\w*)"?:', text, re.MULTILINE)
    return [key for key in keys if key not in ("defaults", "hydra")]
