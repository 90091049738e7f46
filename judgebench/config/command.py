"""Mistakes of a command line: what Hydra refuses, said in one sentence with the command that would be right.

The sentences come from the command line itself and from what conf/ holds. Hydra's own words are the last resort, for
its advice (`+judge.pth=x`) is often refused again.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from judgebench.config.keys import FOLDER, groups, nearest, top_keys
from judgebench.config.overrides import ADDED, Look, Overrides, known_to_hydra
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.runtime.secrets import masked_argument

_MOST_TRIES = 4
"""Rounds in which mistakes are mended, each of which may show others."""


_HYDRAS = (HydraException, OmegaConfBaseException, OSError, ValueError, RecursionError)
"""What Hydra raises for mistakes of a command line."""


@dataclass(frozen=True)
class Command:
    """A command as it was typed.

    Attributes:
        module: how the command is started, as in `python -m judgebench`.
        config_name: of the configuration that it composes, without its ending.
        given: its arguments.
        added: arguments that the command adds by itself, and no advice repeats.
    """

    module: str
    config_name: str
    given: Sequence[str]
    added: Sequence[str] = ()

    def check(self, look: Look | None = None) -> None:
        """Refuses flags that cannot be, and a multirun of which one job could not be composed, or is refused by `look`;
        else `UserError`."""
        flags = self.flags
        commands = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(flags, name)]
        if len(commands) > 1:
            shown = " and ".join(f"--{name.replace('_', '-')}" for name in commands)
            raise UserError(f"{shown}: only one of them can be asked for at a time; leave the others out.")
        if flags.resolve and not (flags.cfg or flags.help):
            raise UserError(
                "--resolve: fills in the references of a configuration that is shown, and none is; "
                + self.instead("--resolve", "--cfg", "job", "--resolve")
            )
        if flags.config_dir is not None and not Path(flags.config_dir).is_dir():
            raise UserError(f"--config-dir: there is no folder {flags.config_dir}.")
        if flags.experimental_rerun is not None:
            raise UserError("--experimental-rerun: is not supported; give the command of that run again.")
        if flags.config_name not in (None, self.config_name) and (FOLDER / f"{flags.config_name}.yaml").is_file():
            raise UserError(
                f"--config-name: {flags.config_name} is of another command; python -m {self.module} composes "
                f"{self.config_name}, so leave the flag out."
            )
        self._check_added(flags)
        if self.multirun or (flags.cfg and flags.package):
            with Overrides(self) as conf:
                conf.check_jobs(look)
                if flags.cfg and flags.package:
                    conf.check_package(flags.package)

    def explained(self, error: Exception) -> UserError:
        """The mistake for which Hydra did not begin.

        Args:
            error: what it raised. One that no mistake of a command line raises is raised again.
        """
        if isinstance(error, OSError) and not isinstance(error, HydraException):
            return UserError(_unwritable(error))
        if isinstance(error, OverrideParseException):
            return UserError(self.unparsed(error.override))
        if not isinstance(error, _HYDRAS):
            raise error
        try:
            with Overrides(self) as conf:
                conf.check()
        except OverrideParseException as other:
            return UserError(self.unparsed(other.override))
        except UserError as mistake:
            return mistake
        except _HYDRAS as other:
            error = other
        lines = [str(one).strip().partition("\n")[0] for one in (error, error.__cause__) if one is not None]
        reason = "; ".join(line for line in lines if line) or type(error).__name__
        return UserError(f"The command line cannot be followed: {reason}")

    def with_advice(self, error: UserError, look: Look | None = None) -> str:
        """All mistakes of the command, and the whole command that has none of them where it is known.

        Args:
            error: the first mistakes. The command without them is tried, which shows others.
            look: refuses a configuration.
        """
        sentences, given = list(error.sentences), list(self.given)
        cheap = None if look is None else partial(look, expensive=False)
        for _ in range(_MOST_TRIES):
            mended = _mended(given, error.fix or {})
            if mended == given or (look is None and "" in (error.fix or {})):
                return _joined(sentences)
            given = mended
            try:
                replace(self, given=given).rehearse(cheap)
            except UserError as other:
                error = other
                sentences += [sentence for sentence in other.sentences if sentence not in sentences]
            except Exception:  # advice that cannot be composed is none
                return _joined(sentences)
            else:
                return _joined(sentences, self.given_so(given))
        return _joined(sentences)

    def rehearse(self, look: Look | None) -> None:
        """Composes the configuration without running it; else `UserError`, or what Hydra raises."""
        self.check(look)
        with Overrides(self) as conf:
            try:
                config = conf.first()
            except (HydraException, OmegaConfBaseException):
                conf.check()
                raise
            if look is not None and not (self.multirun or self.flags.cfg or self.flags.info):
                with known_to_hydra(config):
                    look(config)

    def _check_added(self, flags: argparse.Namespace) -> None:
        """Hydra adds whatever stands behind a +, and a key that nothing reads would change nothing."""
        mistakes = Mistakes()
        for one in flags.overrides:
            key = one.partition("=")[0].lstrip("+")
            if not one.startswith("+") or flags.config_dir or not key.isidentifier():
                continue
            known = [*groups(), *top_keys(self.config_name)]
            if key in known or any(f"${{{key}" in other for other in flags.overrides):
                continue
            near = nearest(key, known)
            if near is None:
                mistakes.add(f"{masked_argument(one)}: nothing reads a key {key!r}; leave it out.", {one: []})
                continue
            right = f"{'+' if near in ADDED else ''}{near}={one.partition('=')[2]}"
            sentence = f"{masked_argument(one)}: there is no group or key {key!r}; did you mean {near}?"
            mistakes.add(sentence, {one: [right]})
        mistakes.tell()

    @cached_property
    def multirun(self) -> bool:
        """True if several runs are asked for: by -m, or by an experiment that is a sweep by itself."""
        experiments = [FOLDER / "exp" / f"{one[len('+exp=') :]}.yaml" for one in self.flags.overrides if "+exp=" in one]
        loaded = [OmegaConf.load(file) for file in experiments if file.is_file()]
        return bool(self.flags.multirun) or any(OmegaConf.select(one, "hydra.mode") == "MULTIRUN" for one in loaded)

    @cached_property
    def flags(self) -> argparse.Namespace:
        """Values of Hydra's flags, and its `overrides`; `UserError` of flags that are none."""
        parser = get_args_parser()
        parser.error = _refuse  # type: ignore[method-assign]
        flags, unknown = parser.parse_known_args([*self.added, *self.given])
        for one in unknown:
            if not one.startswith("-"):
                flags_first = sorted(self.given, key=lambda argument: not argument.startswith("-"))
                raise UserError(f"{masked_argument(one)}: flags come before it; {self.given_so(flags_first)}")
            name, equals, value = one.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if near := nearest(name, [*groups(), *top_keys(self.config_name)]):
                right = f"{near}{equals}{value}" if equals else f"{near}=true"
                known = "keys and groups are set without dashes; "
                instead = self.instead(one, right) if equals or near == "dry_run" else f"as {near}=VALUE"
                raise UserError(f"{masked_argument(one)}: there is no such flag; {known}{instead}")
            flag = nearest(one.partition("=")[0], list(parser._option_string_actions))
            meant = f"did you mean {flag}? " if flag else ""
            raise UserError(
                f"{masked_argument(one)}: there is no such flag; {meant}python -m {self.module} --help lists what is."
            )
        return flags

    def unparsed(self, override: str) -> str:
        """Why an argument is no override, in a sentence."""
        shown = masked_argument(override)
        joined = [one for one in self.flags.overrides if one in (override, "=")]
        if "=" in self.flags.overrides and joined:
            return f"{shown}: what is set stands in one word, without spaces around the sign, as in KEY=VALUE"
        key, equals, value = override.partition("=")
        if not equals or not key:
            colon = override.partition(":")
            if colon[1] and not equals:
                return f"{shown}: a key is set with =; {self.instead(override, f'{colon[0]}={colon[2]}')}"
            if (FOLDER / "exp" / f"{override}.yaml").is_file():
                return f"{shown}: an experiment is chosen with +exp; {self.instead(override, f'+exp={override}')}"
            if override in groups():
                return f"{shown}: say which; a choice of this group is made with {shown}=NAME"
            return f"{shown or repr(override)}: every argument is GROUP=CHOICE or KEY=VALUE, and this one is neither"
        for opening, closing in ("[]", "{}", "()"):
            if value.count(opening) != value.count(closing):
                return f"{shown}: its {opening} and {closing} do not pair; every {opening} needs one {closing}"
        if value.count("'") % 2 or value.count('"') % 2:
            return f"{shown}: a quotation mark is opened and not closed; write it twice, or none"
        quoted = f"{key}='{value}'"
        return f'{shown}: its value cannot be read; put text that holds such characters into quotes, as "{quoted}"'

    def instead(self, wrong: str, *right: str) -> str:
        """The advice to give the command with other arguments in the place of `wrong`."""
        return self.given_so([new for one in self.given for new in (right if one == wrong else [one])])

    def given_so(self, arguments: Sequence[str]) -> str:
        """The advice to give the command with these arguments, for a user to copy."""
        return f"write `{shlex.join(['python', '-m', self.module, *map(masked_argument, arguments)])}`"


def _mended(given: Sequence[str], fix: Mapping[str, Sequence[str]]) -> list[str]:
    """Arguments, with those of `fix` in the place of the same argument, or of the same key."""
    arguments = [new for one in given for new in fix.get(one, [one])]
    for right in fix.get("", ()):
        key = right.partition("=")[0]
        same = [one for one in arguments if one.partition("=")[0].lstrip("+") == key]
        if same:
            arguments = [right if one == same[-1] else one for one in arguments if one not in same[:-1]]
        else:
            arguments.insert(0 if right.startswith("-") else len(arguments), right)
    return arguments


def _joined(sentences: Sequence[str], advice: str = "") -> str:
    """A sentence, or a line for each, and the advice behind it."""
    if len(sentences) == 1:
        (sentence,) = sentences
        end = f" {advice}" if sentence.endswith("?") else f"; {advice}"
        return sentence.rstrip(".") + end if advice else sentence
    lines = [f"- {sentence.rstrip('.')}." if not sentence.endswith("?") else f"- {sentence}" for sentence in sentences]
    advice = f"All of this is mended so: {advice}." if advice else ""
    return "\n".join([f"{len(sentences)} mistakes:", *lines, *([advice] if advice else [])])


def _refuse(message: str) -> NoReturn:
    raise UserError(f"The flags cannot be read: {message}; python -m judgebench --help says which there are.")


def _unwritable(error: OSError) -> str:
    name = error.filename2 or error.filename
    where = f"{name}: cannot be made or written" if name else "A folder cannot be made or written"
    return (
        f"{where} ({error.strerror or error}); name another folder with run_dir=, and leave hydra.run.dir and "
        "hydra.sweep.dir out"
    )
