"""The words of a command without Hydra, which has Hydra's form: files and folders by themselves, and
settings as KEY=VALUE.

A command says what it takes in one place, `judgebench.config.choices.COMMANDS`; the lists of
commands, usage and --help are made of that.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import NoReturn

from judgebench.config.choices import usage_of
from judgebench.runtime.ending import exit_code
from judgebench.runtime.files import user_path
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

Work = Callable[[list[str], dict[str, str]], int]
"""Words by themselves, as files and folders, and settings -> the exit code."""


@dataclass(frozen=True)
class Words:
    """The words that a command takes.

    Attributes:
        name: of the command, as `judgebench NAME` has it.
        about: its help.
        example: a command that is right.
        settings: the keys that it has.
    """

    name: str
    about: str | None
    example: str
    settings: Sequence[str]

    def __call__(self, work: Work) -> Callable[..., int]:
        """The command that does a work: a function of arguments, by default those of the command
        line, that gives the work's exit code, or 2 after a user's mistake."""

        @wraps(work)
        def main(arguments: Sequence[str] | None = None) -> int:
            begin = partial(self._work, arguments, work)
            return exit_code(f"judgebench {self.name}", arguments, begin)

        return main

    def _work(self, arguments: Sequence[str] | None, work: Work) -> int:
        given = sys.argv[1:] if arguments is None else arguments
        if any(word in ("-h", "--help") for word in given):
            print_safely(f"usage: {usage_of(self.name)}\n\n{self.about}")
            return 0
        alone = []
        settings = {}
        for word in given:
            key, equals, value = word.partition("=")
            if word in ("-v", "--verbose"):
                logging.basicConfig(format="%(message)s", level="INFO", stream=sys.stdout)
            elif word.startswith("-"):
                self.refuse(f"{word}: there is no such flag; there are --help and -v")
            elif equals and key in self.settings:
                settings[key] = value
            elif equals and not user_path(word).exists():
                self.refuse(f"{word}: there is no such word; there are {', '.join(self.settings)}")
            else:
                alone.append(word)
        return work(alone, settings)

    def refuse(self, message: str) -> NoReturn:
        """Raises `UserError` with a command that would be right."""
        raise UserError(f"{message}; give them as {self.example}.")
