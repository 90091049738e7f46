"""Overrides of a command line, checked against conf/: all that are mistakes, and what would be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, Sweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from judgebench.config.keys import FOLDER, nearest, top_keys
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.runtime.secrets import masked_argument

if TYPE_CHECKING:
    from judgebench.config.command import Command

ADDED = ("exp", "sweeps")
"""Groups of which a run has nothing until it is added with +."""

Look = Callable[..., None]
"""Refuses a configuration; with `expensive=False` only for what is known at once."""

_MOST_JOBS = 10_000
"""Jobs that a multirun may have."""

_MOST_TRIED = 24
"""Jobs that are composed before a multirun begins; a mistake in a later one is found when that begins."""


class Overrides:
    """Hydra, set up to compose what a command line asks for."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.name = command.flags.config_name or command.config_name
        extra = command.flags.config_dir
        self._search = [f"hydra.searchpath=[{Path(extra).absolute().as_uri()}]"] if extra else []
        self._folder = Path(command.flags.config_path or FOLDER)

    def __enter__(self) -> Overrides:
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
        return self._parsed(self.command.flags.overrides)

    @cached_property
    def chosen(self) -> dict[str, Any]:
        """Group -> its choice in the configuration, before the command line; None of a list."""
        file = self._folder / f"{self.name}.yaml"
        loaded: Any = OmegaConf.load(file) if file.is_file() else {}
        named = loaded.get("defaults") or []
        lists = [str(group) for one in named if isinstance(one, DictConfig) for group in one]
        return {**dict.fromkeys(lists), **self._composed([]).hydra.runtime.choices}

    def check(self) -> None:
        """Raises `UserError` of all arguments that are mistakes; whatever Hydra raises, where none is found."""
        known = [one for one in self._loader.get_group_options("", ObjectType.CONFIG) if not one.startswith("_")]
        if self.name not in known:
            meant = nearest(self.name, known)
            raise UserError(
                f"--config-name: there is no configuration {self.name!r}; "
                + (f"did you mean {meant}?" if meant else f"there are {', '.join(known)}.")
            )
        mistakes, choosing = Mistakes(), []
        for one in self.overrides:
            with mistakes.caught():
                self._check_swept(one)
                if not one.key_or_group:
                    raise UserError(self.command.unparsed(str(one.input_line)))
                if options := self._options(one.key_or_group):
                    choosing.append(one)
                    self._check_choice(one, options)
                elif not any(mark in one.key_or_group for mark in ".[") and not one.is_add():
                    top = top_keys(self.name)
                    if one.key_or_group not in top:
                        raise self._unknown(one, one.key_or_group, [*self._groups(), *top], "group or key")
        mistakes.tell()
        first = self._composed([_first(one) for one in choosing])
        for one in self.overrides:
            with mistakes.caught():
                self._check_interval(one, first)
                if one not in choosing:
                    self._check_key(one, first)
        mistakes.tell()
        self.first()

    def first(self) -> DictConfig:
        """The configuration of the run, or of a multirun's first job, with Hydra's own keys."""
        return self._composed([_first(one) for one in self.overrides])

    def check_jobs(self, look: Look | None) -> None:
        """Composes a job for every value that a multirun takes, before the multirun makes its folder."""
        try:
            first = self.first()
            for one in self.overrides:
                self._check_interval(one, first)
            plain = "BasicSweeper" in str(first.hydra.sweeper.get("_target_"))
            params = (first.hydra.sweeper.get("params") or {}) if plain else {}  # which Hydra sweeps over too
            swept = [*self._parsed([f"{key}={value}" for key, value in params.items()]), *self.overrides]
            if plain:
                _check_count(swept)
            jobs = [self._composed(job) for job in _tried(swept)]
        except (HydraException, OmegaConfBaseException) as error:
            raise self.command.explained(error) from error
        # a search goes on when one of its trials is refused, and a job that runs elsewhere has its files there
        if look is None or not plain or "BasicLauncher" not in str(first.hydra.launcher.get("_target_")):
            return
        mistakes = Mistakes()
        for job in jobs:
            with mistakes.caught(), known_to_hydra(job):
                look(job)
        mistakes.tell()

    def check_package(self, package: str) -> None:
        """Refuses a `--package` under which nothing stands."""
        config = self.first()
        if package not in ("_global_", "") and OmegaConf.select(config, package) is None:
            meant = nearest(package, [str(name) for name in config])
            raise UserError(f"--package: there is no {package}" + (f"; did you mean {meant}?" if meant else "."))

    def _check_swept(self, one: Override) -> None:
        if not one.is_sweep_override():
            return
        if one.is_hydra_override():
            raise UserError(f"{_shown(one)}: Hydra's own keys have one value in all jobs; give one.")
        if not self.command.multirun:
            sentence = f"{_shown(one)}: several values are tried one after the other with -m"
            key, _, value = str(one.input_line).partition("=")
            if "(" not in value:
                sentence += f", or for a list write {key}=[{value}], for text with commas {key}='\"{value}\"'"
            raise UserError(sentence, fix={"": ["-m"]})

    def _check_interval(self, one: Override, config: DictConfig) -> None:
        continuous = one.is_sweep_override() and not one.is_discrete_sweep()
        if continuous and "BasicSweeper" in str(config.hydra.sweeper.get("_target_")):
            raise UserError(
                f"{_shown(one)}: an interval needs a sweeper that searches; name one with +sweeps=NAME or "
                f"hydra/sweeper=optuna, or list the values, as {one.get_key_element()}=0.1,0.5."
            )

    def _check_choice(self, one: Override, options: list[str]) -> None:
        group, shown = one.key_or_group, _shown(one)
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
                raise _fixable(one, f"{shown}: {group} is {taken}", f"~{group}")
            return
        for value in _chosen_names(one):
            if not isinstance(value, str) or not value:
                raise UserError(f"{shown}: {group} is chosen by name; there are {', '.join(options)}.")
            if value not in options:
                raise self._unknown(one, value, options, group)
        right = f"{group}={str(one.input_line).partition('=')[2]}"
        if one.is_force_add() or (one.is_add() and group in self.chosen):
            raise _fixable(one, f"{shown}: {group} is chosen without +", right)
        if not one.is_add() and group not in self.chosen:
            raise _fixable(one, f"{shown}: {group} is added with +", f"+{right}")

    def _check_key(self, one: Override, config: DictConfig) -> None:
        shown, path = _shown(one), one.key_or_group.split(".")
        node: Any = config
        for depth, part in enumerate(path):
            last = depth == len(path) - 1
            if not isinstance(node, DictConfig):
                if not OmegaConf.is_config(node):
                    raise UserError(f"{shown}: {'.'.join(path[:depth])} is a single value and has no key {part!r}.")
                return
            if part not in map(str, node):  # a key whose value is ??? is not `in node`
                if (last and one.is_add() and not one.is_delete()) or one.is_force_add():
                    return
                raise self._absent(one, path[:depth], part, node)
            if last and one.is_add() and not one.is_force_add() and not OmegaConf.is_config(node._get_node(part)):
                raise _fixable(one, f"{shown}: the key is there already", str(one.input_line)[1:])
            node = None if OmegaConf.is_missing(node, part) else node._get_node(part)

    def _unknown(self, one: Override, wrong: str, known: Sequence[str], what: str) -> UserError:
        """A choice, group or key at the top that there is not."""
        line = str(one.input_line)
        sentence = f"{_shown(one)}: there is no {what} {wrong!r}; "
        if close := nearest(wrong, known):
            options = self._options(close) if what != close and "." not in close else []
            if options and not one.is_delete() and not set(_chosen_names(one)) <= set(options):
                return UserError(sentence + f"did you mean {close}? Of it there are {', '.join(options)}")
            plus = "+" if what != close in ADDED and not line.startswith("+") else ""
            return _fixable(one, sentence + f"did you mean {close}?", plus + line.replace(wrong, close, 1))
        return UserError(sentence + f"there are {', '.join(dict.fromkeys(known))}")

    def _absent(self, one: Override, path: Sequence[str], part: str, node: DictConfig) -> UserError:
        """A key that a part of the configuration does not have, or not as it is chosen."""
        line, inside = str(one.input_line), ".".join(path)
        sentence = f"{_shown(one)}: there is no key {part!r}{f' in {inside}' if inside else ''}; "
        keys = [str(name) for name in node if not str(name).endswith("_")]
        if close := nearest(part, keys):
            wrong, right = (".".join([*path, name]) for name in (part, close))
            return _fixable(one, sentence + f"did you mean {right}?", line.replace(wrong, right, 1))
        # another choice of the group may have it
        elsewhere = {name: self._keys_of(inside, name) for name in self._options(inside)} if len(path) == 1 else {}
        other = nearest(part, sorted({key for keys_ in elsewhere.values() for key in keys_}))
        if other is not None:
            having = " or ".join(f"{inside}={name}" for name, keys_ in elsewhere.items() if other in keys_)
            return UserError(sentence + f"{inside}.{other} is there with {having}")
        target = str(node.get("_target_") or "")
        if target and not target.startswith("judgebench."):
            sentence += f"what else {target} takes is given with +, as +{line}; "
        return UserError(sentence + f"there are {', '.join(keys)}")

    def _keys_of(self, group: str, choice: str) -> list[str]:
        file = self._folder / group / f"{choice}.yaml"
        found = OmegaConf.load(file) if file.is_file() else None
        return [str(key) for key in found if not str(key).endswith("_")] if isinstance(found, DictConfig) else []

    def _parsed(self, arguments: list[str]) -> list[Override]:
        return OverridesParser.create(config_loader=self._loader).parse_overrides(arguments)

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


@contextmanager
def known_to_hydra(config: DictConfig) -> Iterator[None]:
    """Makes a composed configuration the one that Hydra knows, until the block ends, and takes Hydra's own keys out."""
    hydra = HydraConfig.instance()
    before = hydra.cfg
    hydra.set_config(config)
    try:
        with open_dict(config):
            del config["hydra"]
        yield
    finally:
        hydra.cfg = before


def _shown(one: Override) -> str:
    return masked_argument(str(one.input_line))


def _fixable(one: Override, sentence: str, right: str) -> UserError:
    return UserError(sentence, fix={str(one.input_line): [right]})


def _values(one: Override) -> Iterator[str]:
    """An override for each value that is swept, of an interval for its lowest; itself, where there is one value."""
    value = one.value()
    if not one.is_sweep_override():
        yield str(one.input_line)
    elif one.is_discrete_sweep():
        yield from (f"{one.get_key_element()}={each}" for each in one.sweep_string_iterator())
    else:
        yield f"{one.get_key_element()}={getattr(value, 'start', value)}"


def _tried(swept: Sequence[Override]) -> list[list[str]]:
    """A job for every value that is swept over, the others at their first."""
    base = [_first(one) for one in swept]
    others = [
        [*base[:i], value, *base[i + 1 :]]
        for i, one in enumerate(swept)
        for value in islice(_values(one), 1, _MOST_TRIED)
    ]
    return [base, *others][:_MOST_TRIED]


def _check_count(overrides: Sequence[Override]) -> None:
    """Hydra lists all jobs before it starts one: of `range(0,1000000000)` it would never be done."""
    swept = [one for one in overrides if one.is_discrete_sweep()]
    if math.prod(len(list(islice(_values(one), _MOST_JOBS + 1))) for one in swept) > _MOST_JOBS:
        shown = ", ".join(map(_shown, swept))
        raise UserError(
            f"{shown}: more than {_MOST_JOBS} runs would begin; give fewer values, or search with +sweeps=NAME."
        )


def _first(one: Override) -> str:
    for value in _values(one):
        return value
    raise UserError(f"{_shown(one)}: it stands for no value at all; name at least one.")


def _chosen_names(one: Override) -> Iterator[Any]:
    value = one.value()
    if isinstance(value, Sweep):
        yield from (each.partition("=")[2] for each in _values(one))
        return
    for each in value if isinstance(value, list) else [value]:
        yield each.text if isinstance(each, QuotedString) else each
