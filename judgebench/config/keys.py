"""The folder conf/ with its groups, and keys of a configuration: how they are read, and who has set
them.

The command line is read as Hydra reads it; a refusal is a sentence with the nearest name, and each
of a multirun's jobs is composed and checked before the first begins. `+exp=tasks` sweeps over the
tasks of which a folder holds the files.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from judgebench.config.choices import FOLDER, choice_list, choices, groups
from judgebench.data.dataset import DataSettings
from judgebench.runtime.files import user_path
from judgebench.runtime.secrets import argument_secrets, hider, mask_secrets, masked_argument
from judgebench.runtime.values import CARRIER, command_of, typed
from judgebench.settings.fields import nearest, plain
from judgebench.words.errors import Mistakes, UserError, shown


def top_keys(config_name: str) -> list[str]:
    """The keys at the top of the configuration file of that name (without its ending), `hydra`
    and what carries values among them."""
    file = FOLDER / f"{config_name}.yaml"
    keys = [str(key) for key in OmegaConf.load(file) if key != "defaults"] if file.is_file() else []
    return list(dict.fromkeys([*keys, "hydra", CARRIER]))


OmegaConf.register_new_resolver("choices_of", choice_list, replace=True)


def path_of(config: DictConfig, key: str) -> Path:
    """A path that the configuration names; `UserError` where it is not a text."""
    value = config.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise UserError(f"{key}: {value!r} is not a path.")
    return user_path(value)


def switch_at(config: DictConfig, key: str) -> bool:
    """A switch; `UserError` where it is neither true nor false."""
    value = config.get(key)
    if not isinstance(value, bool):
        raise UserError(f"{key}: {shown(value)} is neither true nor false.")
    return value


def list_at(config: Mapping[Any, Any], key: str) -> list[Any]:
    """The entries under a key that takes a list of at least one; else `UserError`."""
    # of a configuration None where the value is missing
    items = plain(
        OmegaConf.select(config, key) if isinstance(config, DictConfig) else config.get(key)
    )
    if not isinstance(items, list) or not items:
        raise UserError(
            f"{key}: {items!r} is not a list with at least one entry; give {key}=[NAME,...]."
        )
    return items


def typed_overrides() -> list[str]:
    """Overrides that the command line, or a sweep, sets on top of the config files."""
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    return typed(list(overrides))


def command_line() -> str | None:
    """The command that gives this run again, without secrets; None where Hydra has composed
    nothing."""
    if not HydraConfig.initialized():
        return None
    module = str(HydraConfig.get().help.app_name)
    whole: str = mask_secrets(
        command_of(["python", "-m", *module.split(), *map(masked_argument, typed_overrides())])
    )
    return whole


def typed_value(key: str) -> str:
    """The value that the command line gives a key or group; empty where it gives none."""
    overrides = (override.lstrip("+").partition("=") for override in typed_overrides())
    return ([value for name, _, value in overrides if name == key] or [""])[-1]


def choice_of(group: str) -> str:
    """The choice of a group; empty where there is none, or it is not known."""
    return (
        str(HydraConfig.get().runtime.choices.get(group) or "") if HydraConfig.initialized() else ""
    )


def implied_choices(config: DictConfig) -> list[str]:
    """A sentence for each choice of a group that a typed choice of another group makes, as
    judge=replay that of decoding; none where the command line, or an experiment, makes another."""
    sentences = []
    for override in typed_overrides() if config.get("print") != "none" else ():
        group, _, names = override.lstrip("+").partition("=")
        if group not in ("judge", "decoding"):
            continue
        for name in names.strip("[]").split(","):
            for other, choice in _taken_with(group, name):
                stands = choice in (choice_of(other), list(config.get(other) or ()))
                if stands and not typed_value(other):
                    named = str(choice).replace("'", "")
                    sentences.append(
                        f"{group}={name} takes {other}={named} with it; {other}=CHOICE takes another."
                    )
    return sentences


def _taken_with(group: str, name: str) -> Iterator[tuple[str, Any]]:
    """Groups and the choices in them that a file's defaults list makes."""
    file = FOLDER / group / f"{name}.yaml"
    entries = OmegaConf.select(OmegaConf.load(file), "defaults") if file.is_file() else None
    for entry in plain(entries) or ():
        if isinstance(entry, str):
            yield from _taken_with(group, entry)
        else:
            for key, choice in entry.items():
                yield key.removeprefix("override /").partition("@")[0], choice


# --- command line -------------------------------------------------------------------------------


Look = Callable[[DictConfig], object]
"""Refuses a configuration of a run with a `UserError`."""

REFUSALS = (HydraException, OmegaConfBaseException, OSError, ValueError, RecursionError)
"""What Hydra raises for mistakes of a command line."""

_MOST_JOBS = 10_000
"""Jobs of a multirun; Hydra lists all of them before it starts one."""

_MOST_TRIED = 24
"""Jobs that are composed before a multirun begins; a mistake in a later one is named when that
begins."""


def check_command(arguments: Sequence[str], config_name: str, look: Look | None = None) -> None:
    """Refuses flags that cannot be, keys that nothing reads, and a multirun of which a job cannot
    be composed or is refused by `look`; else `UserError`."""
    flags = _flags(arguments, config_name)
    _check_overrides(flags, config_name)
    # 1. jobs of a multirun, and the part that is to be printed
    extra = []
    if flags.config_dir:
        extra.append(f"hydra.searchpath=[{Path(flags.config_dir).absolute().as_uri()}]")
    jobs = []
    if flags.multirun or _asks_for_several(flags.overrides):
        with composing(arguments, flags.config_name or config_name) as composed:
            jobs = _jobs_of(flags.overrides, lambda job: composed([*job, *extra]))
    elif flags.cfg and flags.package:
        with composing(arguments, flags.config_name or config_name) as composed:
            if OmegaConf.select(composed([*flags.overrides, *extra]), flags.package) is None:
                raise UserError(
                    f"--package: the configuration has no {flags.package}; name one of its keys."
                )
    # 2. `look` is called outside, where its faults are not Hydra's
    mistakes = Mistakes()
    for job in jobs:
        with mistakes.caught(), known_to_hydra(job):
            if look is not None:
                look(job)
    mistakes.tell()


def _flags(arguments: Sequence[str], config_name: str) -> Any:
    """Hydra's flags of a command line, and its overrides; `UserError` of flags that cannot be."""
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise UserError(
            f"The flags cannot be read: {message}; python -m judgebench --help says which there "
            "are."
        )

    parser.error = refuse  # type: ignore[method-assign]
    flags, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        name = unknown[0].lstrip("-").partition("=")[0].replace("-", "_")
        meant = nearest(name, [*groups(), *top_keys(config_name)])
        reason = "flags come before what is set"
        if unknown[0].startswith("-"):
            reason = "there is no such flag"
        remedy = "--help lists what there is"
        if meant:
            remedy = f"keys and groups are set without dashes, as {meant}=VALUE"
        raise UserError(f"{masked_argument(unknown[0])}: {reason}; {remedy}.")
    if flags.experimental_rerun is not None:
        raise UserError(
            "--experimental-rerun: is not supported; give the command of that run again."
        )
    others = [file.stem for file in FOLDER.glob("*.yaml")]
    if flags.config_name in others and flags.config_name != config_name and not flags.config_dir:
        raise UserError(
            f"--config-name: {flags.config_name} is what another command composes; leave the flag "
            "out."
        )
    return flags


def _check_overrides(flags: Any, config_name: str) -> None:
    """`UserError` of a key behind a +, which Hydra adds even where nothing would read it, and of a
    class where names of choices stand."""
    known = [*groups(), *top_keys(config_name)]
    for override in flags.overrides:
        key = re.split(r"[.=]", override.lstrip("+"), maxsplit=1)[0]
        read = key in known or any(f"${{{key}" in other for other in flags.overrides)
        if override.startswith("+") and not flags.config_dir and key.isidentifier() and not read:
            raise UserError(
                f"{masked_argument(override)}: there is no group or key {key!r}; "
                f"{_nearest_of(key, known)}"
            )
        if re.match(rf"\+*{key}=\[.*\{{", override) and key in groups():
            raise UserError(
                f"{masked_argument(override)}: {key} takes names of its choices; a class of your "
                f"own stands next to them, as '+{key}.mine={{_target_: mine.Class}}'."
            )


def _asks_for_several(overrides: Sequence[str]) -> bool:
    """True where an experiment by name is a multirun by itself."""
    for override in overrides:
        key, _, name = override.partition("=")
        file = FOLDER / "exp" / f"{name}.yaml"
        if key == "+exp" and file.is_file():
            mode = OmegaConf.select(OmegaConf.load(file), "hydra.mode")
            if mode == "MULTIRUN":
                return True
    return False


def _jobs_of(
    arguments: Sequence[str], composed: Callable[[Sequence[str]], DictConfig]
) -> list[DictConfig]:
    """Composes a job for every value that a multirun takes, the other keys at their first; none
    where jobs are not checked: a search goes on when one of its trials is refused, and a job that
    runs elsewhere has its files there."""
    parse = OverridesParser.create(
        config_loader=GlobalHydra.instance().config_loader()
    ).parse_overrides
    overrides = parse(list(arguments))
    first = composed([_values(override)[0] for override in overrides])
    if "BasicSweeper" not in str(first.hydra.sweeper.get("_target_")):
        return []
    # Hydra sweeps over these too
    overrides = [
        *parse(
            [f"{key}={value}" for key, value in (first.hydra.sweeper.get("params") or {}).items()]
        ),
        *overrides,
    ]
    swept = [override for override in overrides if override.is_sweep_override()]
    for override in swept:
        if not override.is_discrete_sweep():
            raise UserError(
                f"{masked_argument(str(override.input_line))}: an interval needs a sweeper that "
                "searches; name one with +sweeps=NAME, or list the values, as "
                f"{override.get_key_element()}=0.1,0.5."
            )
    values = [_values(override) for override in overrides]
    if math.prod(map(len, values)) > _MOST_JOBS:
        shown = ", ".join(masked_argument(str(override.input_line)) for override in swept)
        raise UserError(
            f"{shown}: more than {_MOST_JOBS} runs would begin; give fewer values, or search with "
            "+sweeps=NAME."
        )
    base = [each[0] for each in values]
    others = [
        [*base[:i], value, *base[i + 1 :]]
        for i, each in enumerate(values)
        for value in each[1:_MOST_TRIED]
    ]
    jobs = [composed(job) for job in [base, *others][:_MOST_TRIED]]
    return jobs if "BasicLauncher" in str(first.hydra.launcher.get("_target_")) else []


def _values(override: Override) -> list[str]:
    """An override for each value that is swept, of an interval for its lowest; itself, where there
    is one value."""
    value: Any = override.value()
    if not override.is_sweep_override():
        return [str(override.input_line)]
    key = override.get_key_element()
    if not override.is_discrete_sweep():
        return [f"{key}={getattr(value, 'start', value)}"]
    values = [f"{key}={each}" for each in islice(override.sweep_string_iterator(), _MOST_JOBS + 1)]
    if not values:
        raise UserError(
            f"{masked_argument(str(override.input_line))}: it stands for no value; name at least "
            "one."
        )
    return values


@contextmanager
def composing(
    arguments: Sequence[str], config_name: str
) -> Iterator[Callable[[Sequence[str]], DictConfig]]:
    """Gives what composes a configuration of overrides, with Hydra's own keys; `UserError` of what
    Hydra refuses. When the block ends, Hydra's state is again what it was."""
    before = dict(GlobalHydra.instance().__dict__)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(FOLDER), version_base="1.3"):
            yield lambda overrides: compose(config_name, list(overrides), return_hydra_config=True)
    except REFUSALS as error:
        raise explained(error, arguments) from error
    finally:
        GlobalHydra.instance().clear()
        GlobalHydra.instance().__dict__.update(before)


@contextmanager
def known_to_hydra(config: DictConfig) -> Iterator[None]:
    """Makes a composed configuration the one that Hydra knows, until the block ends, and takes
    Hydra's own keys out."""
    hydra = HydraConfig.instance()
    before = hydra.cfg
    hydra.set_config(config)
    try:
        with open_dict(config):
            del config["hydra"]
        yield
    finally:
        hydra.cfg = before


def explained(error: Exception, arguments: Sequence[str]) -> UserError:
    """A refusal by Hydra as a sentence without secrets: a name that there is not with the nearest
    that there is, else Hydra's own words."""
    cause: Any = error.__cause__
    if isinstance(error, OSError) and not isinstance(error, HydraException):
        sentence = (
            f"{error.filename2 or error.filename or 'A folder'}: cannot be made or written "
            f"({error.strerror or error}); name another folder with run_dir=, and leave "
            "hydra.run.dir and hydra.sweep.dir out."
        )
    elif isinstance(error, OverrideParseException):
        words = str(error).partition("\nSee https")[0].replace("\n", " ")
        sentence = (
            f"{error.override}: a file needs its key; give data.path={error.override}."
            if os.path.isfile(error.override)
            else f"{masked_argument(error.override)}: this is no GROUP=CHOICE or KEY=VALUE "
            f"({words.strip(' ^')}); put a value with marks or blanks into quotes, and leave no "
            "blank around the sign."
        )
    elif isinstance(error, MissingConfigException) and "/" in (error.missing_cfg_file or ""):
        place = str(error.missing_cfg_file)
        group = next(
            (group for group in groups() if place.startswith(f"{group}/")), place.rpartition("/")[0]
        )
        name = place.removeprefix(f"{group}/")
        remedy = _nearest_of(name, choices(group) or error.options or ())
        sentence = f"{group}: there is no {group} {name!r}; {remedy}"
    elif entry := re.match(r"(\w+)\[\d+\](\.\w+)?$", str(getattr(cause, "full_key", ""))):
        sentence = (
            f"{entry[0]}: there is no such entry, counted from 0, or no such key in it; settings "
            f"stand in an entry, as '{entry[1]}=[none,{{name: NAME, KEY: VALUE}}]'."
        )
    elif isinstance(getattr(cause, "parent_node", None), Mapping) and "not in" in str(cause):
        inside = str(cause.full_key).rpartition(".")[0]
        keys = [*(groups() if "hydra" in cause.parent_node else ()), *map(str, cause.parent_node)]
        known = [key for key in dict.fromkeys(keys) if not key.startswith("_")]
        where, stem = (f" in {inside}", f"{inside}.") if inside else ("", "")
        # a card's judge and assistant are empty: what differs here from the card is added
        remedy = (
            _nearest_of(str(cause.key), known, stem)
            if known
            else f"add it, as +{cause.full_key}=VALUE."
        )
        sentence = f"{cause.full_key}: there is no key {str(cause.key)!r}{where}; {remedy}"
    elif override := re.match(
        r"Could not override '(\w+)'[^;]*;?.*?use (\+\S+)", str(error), re.DOTALL
    ):
        sentence = f"{override[2][1:]}: {_unchosen(override[1], override[2])}"
    else:
        parts = [
            str(each).partition("\n\n")[0].splitlines()
            for each in (error, cause)
            if each is not None
        ]
        lines = [
            line.strip().rstrip(".")
            for lines in parts
            for line in lines
            if not line.startswith("See https")
        ]
        sentence = f"The command line cannot be followed: {'; '.join(filter(None, lines))[:1000]}."
    return UserError(hider(argument_secrets(arguments))(sentence))


def _unchosen(group: str, added: str) -> str:
    """Advice where a choice of a group replaces none: the group is added, or is a card's own."""
    if group in ("judge", "assistant"):
        return (
            f"a card has its own {group}; what differs here is added to it, as +{group}.path=DIR "
            "where its model lies, and the gate takes recorded readings of its texts with "
            "readings=FILE."
        )
    there = ", ".join(choices(group))
    return (
        f"no {group} is chosen yet that this could replace; add it, as {added.rstrip('.')}; there "
        f"are {there}."
    )


def _nearest_of(name: str, known: Sequence[str], inside: str = "") -> str:
    meant = nearest(name, known)
    return f"did you mean {inside}{meant}?" if meant else f"there are {', '.join(known) or 'none'}."


# --- rated tasks --------------------------------------------------------------------------------


TASKS = ("conala", "mohler", "ghosts", "mlqe", "grade", "openmeva", "lens")
"""Choices of the group data, in the order in which they are judged."""

EMBEDDED = {"conala": "conala_sample"}
"""Task -> what the package holds of it, which stands in where its file is absent."""


_DEPTH = 4
"""Folders below the given one that are looked into: it may be given by mistake, and hold a whole
disk."""


def there(folder: str | None) -> list[str]:
    """The tasks of which the folder, or one below it, holds a file that conf/data declares."""
    root = None if folder is None else user_path(folder)
    if root is None or not root.is_dir():
        return []
    tasks = []
    for task in TASKS:
        layouts = _declared(task).get("layouts") or ()
        patterns = [layout.files for layout in layouts]
        below = [f"{'*/' * depth}{pattern}" for pattern in patterns for depth in range(_DEPTH + 1)]
        if any(next(root.glob(path), None) for path in below):
            tasks.append(task)
    return tasks


def tasks_in(folder: str | None) -> str:
    """The tasks of which the folder holds files, or the package some, as `data` takes them:
    "conala_sample,mlqe"."""
    tasks = there(folder)
    return ",".join(
        task if task in tasks else EMBEDDED[task]
        for task in TASKS
        if task in tasks or task in EMBEDDED
    )


def absences(folder: str | None) -> list[str]:
    """A sentence for each task that is left out, or replaced by what the package holds of it."""
    present = there(folder)
    where = "no folder is given, as tasks=DIR" if folder is None else f"{folder} does not hold it"
    sentences = []
    for task in TASKS:
        if task in present:
            continue
        embedded = EMBEDDED.get(task)
        instead = f"the embedded {embedded} stands in" if embedded else "left out"
        published = plain(_declared(task).get("published"))
        source = f"; it is {DataSettings(published=published).source}" if published else ""
        sentences.append(f"{task}: {instead}, for {where}{source}.")
    return sentences


def _declared(choice: str) -> DictConfig:
    """The file of a choice of the group data; empty where there is none."""
    file = FOLDER / "data" / f"{choice}.yaml"
    loaded = OmegaConf.load(file) if file.is_file() else None
    return loaded if isinstance(loaded, DictConfig) else OmegaConf.create({})


OmegaConf.register_new_resolver("tasks_in", tasks_in, replace=True)
