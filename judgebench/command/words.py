"""The words of a command without Hydra, which has Hydra's form: files and folders by themselves, and
settings as KEY=VALUE.

A command says what it takes in one place, `judgebench.config.choices.COMMANDS`; the lists of
commands, usage and --help are made of that.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from judgebench.config.choices import COMMANDS
from judgebench.runtime.ending import exit_code
from judgebench.runtime.files import user_path
from judgebench.words.errors import UserError

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

    def run(self, arguments: Sequence[str] | None, work: Work) -> int:
        """Does the work that arguments, by default those of the command line, ask for; 2 after a
        user's mistake."""
        begin = partial(self._work, arguments, work)
        return exit_code(f"judgebench {self.name}", arguments, begin)

    def _work(self, arguments: Sequence[str] | None, work: Work) -> int:
        alone = []
        settings = {}
        for word in self._parser().parse_args(arguments).words:
            key, equals, value = word.partition("=")
            if equals and key in self.settings:
                settings[key] = value
            elif equals and not user_path(word).exists():
                self.refuse(f"{word}: there is no such word; there are {', '.join(self.settings)}")
            else:
                alone.append(word)
        return work(alone, settings)

    def refuse(self, message: str) -> NoReturn:
        """Raises `UserError` with a command that would be right."""
        raise UserError(f"{message}; give them as {self.example}.")

    def _parser(self) -> argparse.ArgumentParser:
        takes = COMMANDS[self.name].takes
        parser = argparse.ArgumentParser(
            prog=f"python -m judgebench {self.name}",
            usage=f"%(prog)s [-h] {takes}",
            description=self.about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            exit_on_error=False,
        )
        parser.add_argument("words", nargs="*", metavar=takes.partition(" [")[0], help="see above")
        parser.error = self.refuse  # type: ignore[method-assign, assignment]
        return parser
