"""Mistakes of a command line: what Hydra refuses, said in one sentence with the command that would be right.

The sentences come from the command line itself and from what conf/ holds. Hydra's own words are the last resort, for
its advice (`+judge.pth=x`) is often refused again.
"""

from __future__ import annotations

import argparse
import difflib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, Sweep
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from judgebench.configuration import FOLDER
from judgebench.errors import UserError
from judgebench.report.hiding import masked_argument

_ADDED = ("exp", "sweeps")
"""Groups of which a run has nothing until it is added with +."""

_MOST_TRIED = 24
"""Composed before a multirun begins, beyond which a mistake is found when its job begins."""


@dataclass(frozen=True)
class Command:
    """What was typed.

    Attributes:
        module: how the command is started, as in `python -m judgebench`.
        config_name: of the configuration that it composes, without its ending.
        given: its arguments.
    """

    module: str
    config_name: str
    given: Sequence[str]

    def check(self, look: Callable[[DictConfig], None] | None = None) -> None:
        """Refuses flags that cannot be, and a multirun of which one job could not be composed.

        Args:
            look: refuses a job's configuration.

        Raises:
            UserError: a mistake.
        """
        flags = self.flags
        commands = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(flags, name)]
        if len(commands) > 1:
            shown = " and ".join(f"--{name.replace('_', '-')}" for name in commands)
            raise UserError(f"{shown}: only one of them can be asked for at a time; leave the others out.")
        if flags.resolve and not (flags.cfg or flags.help):
            raise UserError(
                "--resolve: fills in the references of a configuration that is shown, and none is; "
                + self._instead("--resolve", "--cfg", "job", "--resolve")
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
        if flags.multirun or (flags.cfg and flags.package):
            with _Conf(self) as conf:
                conf.check_jobs(look)
                if flags.cfg and flags.package:
                    conf.check_package(flags.package)

    def explained(self, error: Exception) -> str:
        """Why Hydra did not begin, in a sentence.

        Args:
            error: what it raised.
        """
        if isinstance(error, OSError) and not isinstance(error, HydraException):
            return _unwritable(error)
        if isinstance(error, OverrideParseException):
            return self._unparsed(error.override)
        try:
            with _Conf(self) as conf:
                conf.check()
        except OverrideParseException as other:
            return self._unparsed(other.override)
        except UserError as mistake:
            return str(mistake)
        except (HydraException, OmegaConfBaseException, OSError, ValueError) as other:
            error = other
        told = [str(one).strip().partition("\n")[0] for one in (error, error.__cause__) if one is not None]
        reason = "; ".join(line for line in told if line) or type(error).__name__
        return f"The command line cannot be followed: {reason}"

    def _check_added(self, flags: argparse.Namespace) -> None:
        """Hydra adds whatever stands behind a +, and a key that nothing reads would change nothing."""
        for one in flags.overrides:
            key = one.partition("=")[0].lstrip("+")
            if not one.startswith("+") or flags.config_dir or not key.isidentifier():
                continue
            known = [*_groups(), *_keys(self.config_name)]
            if key in known or any(f"${{{key}" in other for other in flags.overrides):
                continue
            nearest = _nearest(key, known)
            if nearest is None:
                raise UserError(f"{_shown(one)}: nothing reads a key {key!r}; leave it out.")
            plus = "+" if nearest in _ADDED else ""
            right = f"{plus}{nearest}={one.partition('=')[2]}"
            raise UserError(
                f"{_shown(one)}: there is no group or key {key!r}; did you mean {nearest}? {self._instead(one, right)}"
            )

    @cached_property
    def flags(self) -> argparse.Namespace:
        """What Hydra's flags say, and its `overrides`.

        Raises:
            UserError: flags that are none.
        """
        parser = get_args_parser()
        parser.error = _refuse  # type: ignore[method-assign]
        flags, unknown = parser.parse_known_args(list(self.given))
        for one in unknown:
            if not one.startswith("-"):
                flags_first = sorted(self.given, key=lambda argument: not argument.startswith("-"))
                raise UserError(f"{_shown(one)}: flags come before it; {replace(self, given=flags_first).written}")
            name, equals, value = one.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if nearest := _nearest(name, [*_groups(), *_keys(self.config_name)]):
                right = f"{nearest}{equals}{value}" if equals else f"{nearest}=true"
                known = "keys and groups are set without dashes; "
                instead = self._instead(one, right) if equals or nearest == "dry_run" else f"as {nearest}=VALUE"
                raise UserError(f"{_shown(one)}: there is no such flag; {known}{instead}")
            flag = _nearest(one.partition("=")[0], list(parser._option_string_actions))
            meant = f"did you mean {flag}? " if flag else ""
            raise UserError(
                f"{_shown(one)}: there is no such flag; {meant}python -m {self.module} --help lists what is."
            )
        return flags

    def _unparsed(self, override: str) -> str:
        shown = _shown(override)
        joined = [one for one in self.flags.overrides if one in (override, "=")]
        if "=" in self.flags.overrides and joined:
            return f"{shown}: what is set stands in one word, without spaces around the sign, as in KEY=VALUE"
        key, equals, value = override.partition("=")
        if not equals or not key:
            colon = override.partition(":")
            if colon[1] and not equals:
                return f"{shown}: a key is set with =; {self._instead(override, f'{colon[0]}={colon[2]}')}"
            if (FOLDER / "exp" / f"{override}.yaml").is_file():
                return f"{shown}: an experiment is chosen with +exp; {self._instead(override, f'+exp={override}')}"
            if override in _groups():
                return f"{shown}: say which; a choice of this group is made with {shown}=NAME"
            return f"{shown or repr(override)}: every argument is GROUP=CHOICE or KEY=VALUE, and this one is neither"
        for opening, closing in ("[]", "{}", "()"):
            if value.count(opening) != value.count(closing):
                return f"{shown}: its {opening} and {closing} do not pair; every {opening} needs one {closing}"
        if value.count("'") % 2 or value.count('"') % 2:
            return f"{shown}: a quotation mark is opened and not closed; write it twice, or none"
        quoted = f"{key}='{value}'"
        return f'{shown}: its value cannot be read; put text that holds such characters into quotes, as "{quoted}"'

    def _instead(self, wrong: str, *right: str) -> str:
        given = [new for one in self.given for new in (right if one == wrong else [one])]
        return replace(self, given=given).written

    @property
    def written(self) -> str:
        """The command, for a user to copy."""
        return f"write `{shlex.join(['python', '-m', self.module, *map(masked_argument, self.given)])}`"


class _Conf:
    """What Hydra knows while a command line is looked at."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.name = command.flags.config_name or command.config_name
        extra = command.flags.config_dir
        self._search = [f"hydra.searchpath=[{Path(extra).absolute().as_uri()}]"] if extra else []
        self._folder = Path(command.flags.config_path or FOLDER)

    def __enter__(self) -> _Conf:
        if not self._folder.is_absolute() or not self._folder.is_dir():
            raise UserError(f"--config-path: there is no folder {self._folder}; give its whole path, from / on.")
        self._kept = dict(GlobalHydra.instance().__dict__)
        GlobalHydra.instance().clear()
        self._opened = initialize_config_dir(str(self._folder), version_base="1.3")
        return self

    def __exit__(self, *_: object) -> None:
        GlobalHydra.instance().clear()
        GlobalHydra.instance().__dict__.update(self._kept)

    @cached_property
    def overrides(self) -> list[Override]:
        return OverridesParser.create(config_loader=self._loader).parse_overrides(self.command.flags.overrides)

    @cached_property
    def chosen(self) -> dict[str, Any]:
        """Group -> what the configuration chooses of it, before the command line does; of a list None."""
        file = self._folder / f"{self.name}.yaml"
        named = OmegaConf.load(file).get("defaults") or [] if file.is_file() else []
        lists = [str(group) for one in named if isinstance(one, DictConfig) for group in one]
        return {**dict.fromkeys(lists), **self._composed([]).hydra.runtime.choices}

    def check(self) -> None:
        """Raises `UserError` at the first argument that is a mistake; whatever Hydra raises, where none is found."""
        known = [one for one in self._loader.get_group_options("", ObjectType.CONFIG) if not one.startswith("_")]
        if self.name not in known:
            meant = _nearest(self.name, known)
            raise UserError(
                f"--config-name: there is no configuration {self.name!r}; "
                + (f"did you mean {meant}?" if meant else f"there are {', '.join(known)}.")
            )
        groups = []
        for one in self.overrides:
            self._check_swept(one)
            group = one.key_or_group
            if not group:
                raise UserError(self.command._unparsed(str(one.input_line)))
            if options := self._options(group):
                self._check_choice(one, options)
                groups.append(one)
            elif not any(mark in group for mark in ".[") and group not in _keys(self.name) and not one.is_add():
                raise UserError(self._unknown(one, group, [*self._groups(), *_keys(self.name)], "group or key"))
        first = self._composed([_first(one) for one in groups])
        for one in self.overrides:
            if one not in groups:
                self._check_key(one, first)
        self._composed([_first(one) for one in self.overrides])

    def check_jobs(self, look: Callable[[DictConfig], None] | None) -> None:
        """Composes a job for every value that a multirun takes, before the multirun makes its folder."""
        jobs = self._jobs()
        here = jobs and "BasicLauncher" in str(jobs[0].hydra.launcher.get("_target_"))
        # a search goes on when one of its trials is refused, and a job that runs elsewhere has its files there
        if look is None or not here or "BasicSweeper" not in str(jobs[0].hydra.sweeper.get("_target_")):
            return
        for job in jobs:
            with open_dict(job):
                del job["hydra"]
            look(job)

    def _jobs(self) -> list[DictConfig]:
        try:
            overrides = self.overrides
            base = [_first(one) for one in overrides]
            tried = [base]
            for place, one in enumerate(overrides):
                for value in list(_values(one))[1:]:
                    tried.append([*base[:place], value, *base[place + 1 :]])
            return [self._composed(job) for job in tried[:_MOST_TRIED]]
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(self.command.explained(error)) from error

    def check_package(self, package: str) -> None:
        """Whether there is something to be shown under `--package`."""
        config = self._composed([_first(one) for one in self.overrides])
        if package not in ("_global_", "") and OmegaConf.select(config, package) is None:
            meant = _nearest(package, [str(name) for name in config])
            raise UserError(f"--package: there is no {package}" + (f"; did you mean {meant}?" if meant else "."))

    def _check_swept(self, one: Override) -> None:
        shown = _shown(str(one.input_line))
        if not one.is_sweep_override():
            return
        if one.is_hydra_override():
            raise UserError(f"{shown}: Hydra's own keys have one value in all jobs; give one.")
        if not self.command.flags.multirun:
            key, _, value = str(one.input_line).partition("=")
            listed = (
                ""
                if "(" in value
                else f", or for a list write {key}=[{value}], for text with commas {key}='\"{value}\"'"
            )
            again = replace(self.command, given=["-m", *self.command.given]).written
            raise UserError(f"{shown}: several values are tried one after the other with -m: {again}{listed}")
        if not one.is_discrete_sweep() and "BasicSweeper" in str(self._composed([]).hydra.sweeper.get("_target_")):
            raise UserError(
                f"{shown}: an interval needs a sweeper that searches; name one with +sweeps=NAME or "
                f"hydra/sweeper=optuna, or list the values, as {one.get_key_element()}=0.1,0.5."
            )

    def _check_choice(self, one: Override, options: list[str]) -> None:
        group, shown = one.key_or_group, _shown(str(one.input_line))
        taken = self.chosen.get(group)
        if one.package is not None:
            raise UserError(
                f"{shown}: the place of a group is not chosen on the command line; leave @{one.package} out."
            )
        if one.is_delete():
            if group not in self.chosen:
                raise UserError(
                    f"{shown}: nothing of {group} is chosen, so there is nothing to take away; leave it out."
                )
            if one.value() not in (None, "", taken):
                raise UserError(f"{shown}: {group} is {taken}; {self._replaced(one, f'~{group}')}")
            return
        for value in _chosen_names(one):
            if not isinstance(value, str) or not value:
                raise UserError(f"{shown}: {group} is chosen by name; there are {', '.join(options)}.")
            if value not in options:
                raise UserError(self._unknown(one, value, options, group))
        right = f"{group}={str(one.input_line).partition('=')[2]}"
        if one.is_force_add() or (one.is_add() and group in self.chosen):
            raise UserError(f"{shown}: {group} is chosen without +; {self._replaced(one, right)}")
        if not one.is_add() and group not in self.chosen:
            raise UserError(f"{shown}: {group} is added with +; {self._replaced(one, f'+{right}')}")

    def _check_key(self, one: Override, config: DictConfig) -> None:
        key, shown = one.key_or_group, _shown(str(one.input_line))
        node, way = config, key.split(".")
        for place, part in enumerate(way):
            last = place == len(way) - 1
            if not isinstance(node, DictConfig):
                if not OmegaConf.is_config(node):
                    raise UserError(f"{shown}: {'.'.join(way[:place])} is a single value and has no key {part!r}.")
                return
            if part not in node:
                if (last and one.is_add() and not one.is_delete()) or one.is_force_add():
                    return
                raise UserError(self._absent(one, way[:place], part, node))
            if last and one.is_add() and not one.is_force_add() and not OmegaConf.is_config(node._get_node(part)):
                raise UserError(f"{shown}: the key is there already; {self._replaced(one, str(one.input_line)[1:])}")
            node = None if OmegaConf.is_missing(node, part) else node._get_node(part)

    def _unknown(self, one: Override, wrong: str, known: Sequence[str], what: str) -> str:
        """A choice, group or key at the top that there is not."""
        line = str(one.input_line)
        sentence = f"{_shown(line)}: there is no {what} {wrong!r}; "
        if nearest := _nearest(wrong, known):
            plus = "+" if what != nearest in _ADDED and not line.startswith("+") else ""
            return sentence + f"did you mean {nearest}? {self._replaced(one, plus + line.replace(wrong, nearest, 1))}"
        return sentence + f"there are {', '.join(dict.fromkeys(known))}"

    def _absent(self, one: Override, way: Sequence[str], part: str, node: DictConfig) -> str:
        """A key that a part of the configuration does not have, or not as it is chosen."""
        line, inside = str(one.input_line), ".".join(way)
        sentence = f"{_shown(line)}: there is no key {part!r}{f' in {inside}' if inside else ''}; "
        keys = [str(name) for name in node if not str(name).endswith("_")]
        if nearest := _nearest(part, keys):
            right = line.replace(".".join([*way, part]), ".".join([*way, nearest]), 1)
            return sentence + f"did you mean {'.'.join([*way, nearest])}? {self._replaced(one, right)}"
        # another choice of the group may have it
        elsewhere = {name: self._keys_of(inside, name) for name in self._options(inside)} if len(way) == 1 else {}
        other = _nearest(part, sorted({key for keys_ in elsewhere.values() for key in keys_}))
        if other is not None:
            having = " or ".join(f"{inside}={name}" for name, keys_ in elsewhere.items() if other in keys_)
            return sentence + f"{inside}.{other} is there with {having}"
        target = str(node.get("_target_") or "")
        if target and not target.startswith("judgebench."):
            sentence += f"what else {target} takes is given with +, as +{line}; "
        return sentence + f"there are {', '.join(keys)}"

    def _keys_of(self, group: str, choice: str) -> list[str]:
        file = self._folder / group / f"{choice}.yaml"
        found = OmegaConf.load(file) if file.is_file() else None
        return [str(key) for key in found if not str(key).endswith("_")] if isinstance(found, DictConfig) else []

    def _replaced(self, one: Override, right: str) -> str:
        return self.command._instead(str(one.input_line), right)

    def _composed(self, overrides: list[str]) -> DictConfig:
        return compose(self.name, [*overrides, *self._search], return_hydra_config=True)

    def _options(self, group: str) -> list[str]:
        """The choices of a group, those in its folders with them; none for what is no group."""
        if not group:
            return []
        found = self._loader.get_group_options(group, ObjectType.CONFIG, self.name, self._search)
        below = self._loader.get_group_options(group, ObjectType.GROUP, self.name, self._search)
        return found + [f"{folder}/{name}" for folder in below for name in self._options(f"{group}/{folder}")]

    def _groups(self) -> list[str]:
        top = self._loader.get_group_options("", ObjectType.GROUP, self.name, self._search)
        inner = self._loader.get_group_options("hydra", ObjectType.GROUP, self.name, self._search)
        return [*top, *(f"hydra/{name}" for name in inner)]

    @property
    def _loader(self) -> ConfigLoader:
        return GlobalHydra.instance().config_loader()


def _refuse(message: str) -> NoReturn:
    raise UserError(f"The flags cannot be read: {message}; python -m judgebench --help says which there are.")


def _shown(argument: str) -> str:
    return masked_argument(argument)


def _nearest(name: str, known: Sequence[str]) -> str | None:
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return found[0] if found else None


def _groups() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "hydra")


def _keys(config_name: str) -> list[str]:
    """The keys at the top of a configuration, hydra's own among them."""
    file = FOLDER / f"{config_name}.yaml"
    own = [str(key) for key in OmegaConf.load(file) if key != "defaults"] if file.is_file() else []
    return [*own, "hydra"]


def _values(one: Override) -> Iterator[str]:
    """An override for each value that it is swept over; itself, where it has one; an interval's lowest."""
    value = one.value()
    if not one.is_sweep_override():
        yield str(one.input_line)
    elif one.is_discrete_sweep():
        yield from (f"{one.get_key_element()}={each}" for each in one.sweep_string_iterator())
    else:
        yield f"{one.get_key_element()}={getattr(value, 'start', value)}"


def _first(one: Override) -> str:
    return next(_values(one))


def _chosen_names(one: Override) -> Iterator[Any]:
    value = one.value()
    if isinstance(value, Sweep):
        yield from (each.partition("=")[2] for each in _values(one))
        return
    for each in value if isinstance(value, list) else [value]:
        yield each.text if isinstance(each, QuotedString) else each


def _unwritable(error: OSError) -> str:
    name = error.filename2 or error.filename
    where = f"{name}: cannot be made or written" if name else "A folder cannot be made or written"
    return (
        f"{where} ({error.strerror or error}); name another folder with run_dir=, and leave hydra.run.dir and "
        "hydra.sweep.dir out"
    )
