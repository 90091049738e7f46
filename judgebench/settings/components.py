"""Components that configuration names: by `_target_`, by the name of one that comes with
judgebench, or by a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from judgebench.runtime.parsing import read_text
from judgebench.runtime.values import literal
from judgebench.settings.fields import settings_of
from judgebench.words.errors import UserError, reason

TARGET = "_target_"
"""The key of an entry that names a class, as in `{_target_: mine.Attack, share: 0.1}`; the class
takes the others."""

VALUES = ("fields", "layouts", "scale", "classes", "pass_from", "labels")
"""Keys whose values stay what they are, whatever they are called: columns and dimensions of a file
stand there."""


_FIELD = re.compile(r"\{(\w+)\}")
Component = TypeVar("Component")


@dataclass(frozen=True)
class Catalog(Generic[Component]):
    """The components that the entries of one config key may name.

    Attributes:
        key: the config key, which is also the name of the package that `base` is in.
        base: the class of every component; each has a `name` that is text.
        shipped: name -> what makes the one that comes with judgebench of its settings.
        readers: for each key that names a file, makes a component of that, its `name` and settings;
            the first of them is meant where an entry is a path alone.
        others: further kinds of entries, for an error.
    """

    key: str
    base: type[Component]
    shipped: Mapping[str, Callable[..., Component]]
    readers: Mapping[str, Callable[..., Component]]
    others: str = ""

    def select(self, entries: Sequence[Any]) -> list[Component]:
        """The components that entries name, in their order.

        Args:
            entries: each a shipped name; a mapping with it as `name`, and settings; the path of a
                template (`.txt`); a mapping with one of `readers` (a path), `name`, by default the
                file's, and settings; or one with `_target_`, a subclass of `base`, and what that
                takes.

        Raises:
            UserError: an entry that is none of these, a file or class that cannot be read, or two
                of one name.
        """
        selected = [self._entry(entry) for entry in entries]
        names = [component.name for component in selected]  # type: ignore[attr-defined]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise UserError(
                f"{self.key}: there are two called {twice[0]!r}; name each once, or give files and "
                "classes names of their own, as in {template: FILE.txt, name: mine}."
            )
        return selected

    def _entry(self, entry: Any) -> Component:
        key = self.key
        noun = self.base.__name__.lower()
        usual = next(iter(self.readers))
        # a text is short for a mapping
        if isinstance(entry, str):
            is_file = entry not in self.shipped and (entry.endswith(".txt") or "/" in entry)
            entry = {usual if is_file else "name": entry}
        given: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
        kind = next((each for each in (TARGET, *self.readers) if each in given), None)
        # 1. one that comes with judgebench; a file may be one of its settings
        name = given.get("name")
        if isinstance(name, str) and name in self.shipped and kind not in (TARGET, usual):
            settings = {each: given[each] for each in given if each != "name"}
            return settings_of(self.shipped[name], settings, f"{key}: {name}")
        if kind is None:
            raise UserError(
                f"{key}: there is no {noun} {name or entry!r}; there are {', '.join(self.shipped)}, "
                f"templates of your own (the path of a .txt file){self.others} and classes of your "
                "own ({_target_: file.Class}); settings stand beside it, as {name: NAME, KEY: VALUE}."
            )
        # 2. a class, or a file
        make = self._of_class if kind == TARGET else partial(settings_of, self.readers[kind])
        made = make(given, key)
        called = made.name  # type: ignore[attr-defined]
        if called in self.shipped:
            raise UserError(
                f"{key}: what {given[kind]!r} gives would be called {called!r}, as "
                f"{'an' if noun[0] in 'aeiou' else 'a'} {noun} that comes with judgebench is; give "
                "it another name, as in {template: FILE.txt, name: mine}."
            )
        return made

    def _of_class(self, entry: Mapping[str, Any], key: str) -> Component:
        base = self.base
        target = entry[TARGET]
        remedy = f"subclass judgebench.{key}.{base.__name__}, as its docstring shows"
        try:
            made = build_component(entry)
        except InstantiationException as error:
            if isinstance(error.__cause__, UserError):
                raise error.__cause__ from error
            if isinstance(error.__cause__, ImportError):
                remedy = (
                    "it must lie in the folder where the command is started, in one of PYTHONPATH, "
                    "or be installed"
                )
            cause = reason(error.__cause__ or error)
            raise UserError(f"{key}: {target!r} gives nothing ({cause}); {remedy}.") from error
        if not isinstance(made, base):
            raise UserError(
                f"{key}: {target!r} gives {type(made).__name__}, which is no "
                f"{base.__name__.lower()}; {remedy}."
            )
        name = getattr(made, "name", None)
        if not isinstance(name, str) or not name.strip():
            raise UserError(
                f"{key}: what {target!r} gives has the name {name!r}; it must be text, as tables "
                "show it."
            )
        return made


def entry_name(entry: Any) -> Any:
    """The name in an entry of a config key that a `Catalog` reads; None where it has none."""
    return entry.get("name") if isinstance(entry, Mapping) else entry


def build_component(node: Any) -> Any:
    """Makes the objects that an entry of a configuration (a node, or a plain value) names, of plain
    values.

    References (`${...}`) are resolved once, before anything is made. Hydra's `instantiate` resolves
    what was resolved, so that a text which only looks like a reference, escaped as it may be, reads
    the environment after all. Nothing below `VALUES` is made: names of a file stand there.

    Raises:
        UserError: a class refuses what it is given, in a sentence.
        InstantiationException: no such class, or it does not take what it is given.
        OmegaConfBaseException: a value is missing, or a reference leads nowhere.
    """
    plain = (
        OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        if OmegaConf.is_config(node)
        else node
    )
    return _made(plain)


def shipped_templates(package: str) -> dict[str, str]:
    """Name -> text of the template files that come with a package, by name."""
    folder = files(package) / "templates"
    return {
        item.name.removesuffix(".txt"): item.read_text("utf-8")
        for item in sorted(folder.iterdir(), key=str)
    }


def read_template(file: Path, key: str) -> str:
    """The text of a template file of the user's, which a config key names, without the mark that
    some editors put first; `UserError` where it cannot be read."""
    text = read_text(file, f"{key}: template {file}", remedy="give an existing text file")
    return text.removeprefix("\ufeff")


def template_fields(template: str, known: Sequence[str], owner: str) -> list[str]:
    """The `{fields}` of a template, in order; `UserError` of one that is not `known`.

    Args:
        owner: config key and name of the component, as in "attacks: the template of mine", for the
            error.
    """
    fields = _FIELD.findall(template)
    if unknown := [field for field in fields if field not in known]:
        listed = ", ".join(f"{{{field}}}" for field in known)
        raise UserError(f"{owner} has the unknown field {{{unknown[0]}}}; known are {listed}.")
    return fields


def fill_fields(template: str, values: Mapping[str, str]) -> str:
    """The template with every field filled in one pass: what a value says is never read as a
    template."""
    return _FIELD.sub(lambda match: values[match[1]], template)


def without_line_end(text: str) -> str:
    """A file's text without the line end that editors put last."""
    return text.removesuffix("\n").removesuffix("\r")


def _made(plain: Any) -> Any:
    if isinstance(plain, list | tuple):
        return [_made(item) for item in plain]
    if not isinstance(plain, Mapping):
        return plain
    if TARGET not in plain:
        return {key: _made(value) for key, value in plain.items()}
    # 1. what is given, as Hydra's own keys say
    given = dict(plain)
    named = given.pop(TARGET)
    positional = given.pop("_args_", ())
    partly = given.pop("_partial_", False)
    given.pop("_convert_", None)  # all is plain
    if given.pop("_recursive_", True):
        given = {key: value if key in VALUES else _made(value) for key, value in given.items()}
        positional = _made(positional)
    # 2. the class; no value passes through what finds it
    maker = instantiate({TARGET: literal(named), "_partial_": True})
    if partly:
        return partial(maker, *positional, **given)
    try:
        return maker(*positional, **given)
    except (UserError, InstantiationException):
        raise
    except Exception as error:
        raise InstantiationException(f"Error in call to target {named!r}:\n{error!r}") from error
