"""The command `judgebench`, with its commands as words: `judgebench run +exp=demo` is `python -m
judgebench +exp=demo`, and `judgebench score ...` is `python -m judgebench.score ...`."""

from __future__ import annotations

import re
import runpy
import sys

from judgebench.runtime.dropped import dropped
from judgebench.runtime.terminal import print_safely

COMMANDS = {
    "run": ("judgebench", "an experiment: judgebench run +exp=demo"),
    "sweep": (
        "judgebench",
        "a run for each value: judgebench sweep +exp=NAME KEY=1,2; +sweeps=NAME searches",
    ),
    "label": (
        "judgebench.labelling",
        "makes a page on which people label your texts: judgebench label FILE out=label.html",
    ),
    "calibrate": (
        "judgebench.calibrate",
        "chooses range and decoding by your own labels; writes a judge card",
    ),
    "score": ("judgebench.score", "scores texts with the judge of a card"),
    "from": (
        "judgebench.importing",
        "takes results of another tool, or a table: judgebench from FILE out=FOLDER",
    ),
    "gate": (
        "judgebench.gate",
        "says whether a card's judge still does on these labels: exit code 0, 1 or 2",
    ),
    "report": ("judgebench.report", "makes a run's page again, or one page of several runs"),
    "record": (
        "judgebench.record",
        "writes a run's readings as one file, which judge=recorded reads",
    ),
    "store": ("judgebench.store", "verifies stores of readings, or merges them"),
}
"""Command -> its module, and what it does. A sweep is a run with Hydra's flag for several."""


def main() -> None:
    """Runs one command; without any, or with --help, lists them."""
    from judgebench.completion import asked  # which names the commands

    if asked(sys.argv[1:]):
        return
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        lines = "\n".join(f"  {command:9}  {says}" for command, (_, says) in COMMANDS.items())
        print_safely(f"How far an LLM judge can be trusted, and what mends it.\n\n{lines}\n")
        print_safely("judgebench COMMAND --help says more.")
        return
    if sentence := dropped(f"judgebench {name}"):
        print_safely(f"judgebench: {sentence}", error=True)
        sys.exit(2)
    if name not in COMMANDS:
        is_override = re.match(r"[+~]|[\w./@]+=", name)
        meant = f"run {name}" if is_override else ", ".join(COMMANDS)
        print_safely(
            f"judgebench: {name}: there is no such command; give judgebench {meant}.", error=True
        )
        sys.exit(2)
    module, _ = COMMANDS[name]
    if name == "sweep":
        arguments = ["--multirun", *arguments]
    sys.argv = [f"judgebench {name}", *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
