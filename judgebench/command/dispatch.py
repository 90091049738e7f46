"""The command `judgebench`, with its commands as words: `judgebench run +exp=demo` is `python -m
judgebench +exp=demo`, and `judgebench score ...` is `python -m judgebench score ...`."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Sequence
from itertools import takewhile

from judgebench.command.completion import asked
from judgebench.config.choices import COMMANDS
from judgebench.words.terminal import print_safely

_ALONE = frozenset({"-v", "--verbose", "-m", "--multirun", "-h", "--help"})
"""Flags that take no value."""


def word_first(arguments: Sequence[str]) -> list[str]:
    """Arguments with the word of a command before the flags that stand in front of it.

    Example:
        >>> word_first(["-v", "score", "card=a.yaml"]), word_first(["-m", "+exp=demo"])
        (['score', '-v', 'card=a.yaml'], ['-m', '+exp=demo'])
    """
    flags = list(takewhile(_ALONE.__contains__, arguments))
    word = arguments[len(flags) : len(flags) + 1]
    if not word or word[0] not in COMMANDS:
        return list(arguments)
    return [*word, *flags, *arguments[len(flags) + 1 :]]


def main() -> None:
    """Runs one command; without any, or with --help, lists them."""
    if asked(sys.argv[1:]):
        return
    name, *arguments = word_first(sys.argv[1:]) or ["--help"]
    if name in ("--help", "-h"):
        lines = "\n".join(f"  {name:9}  {command.says}" for name, command in COMMANDS.items())
        print_safely(f"How far an LLM judge can be trusted, and what mends it.\n\n{lines}\n")
        print_safely("judgebench COMMAND --help says more.")
        return
    if name not in COMMANDS:
        is_override = re.match(r"[+~]|[\w./@]+=", name)
        meant = f"run {name}" if is_override else ", ".join(COMMANDS)
        print_safely(
            f"judgebench: {name}: there is no such command; give judgebench {meant}.", error=True
        )
        sys.exit(2)
    if name == "sweep":
        arguments = ["--multirun", *arguments]
    sys.argv = [f"judgebench {name}", *arguments]
    runpy.run_module(COMMANDS[name].module, run_name="__main__", alter_sys=True)
