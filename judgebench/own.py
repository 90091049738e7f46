"""Parts that configuration names by `_target_`, made of plain values; and classes of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from judgebench.errors import UserError

TARGET = "_target_"
"""The key of an entry that names a class, as in `{_target_: mine.Attack, share: 0.1}`; the class takes the others."""

MOVED_TARGETS = {
    "judgebench.data.jsonl_pairs.JsonPairs": "judgebench.data.pairs.JsonPairs",
    "judgebench.data.mini.Mini": "judgebench.data.benchmarks.Mini",
    "judgebench.data.summeval.SummEval": "judgebench.data.benchmarks.SummEval",
    "judgebench.data.topicalchat.TopicalChat": "judgebench.data.benchmarks.TopicalChat",
    "judgebench.data.unrated.Unrated": "judgebench.data.jsonl.Unrated",
}
"""Classes that configurations of earlier versions name by another path -> where they are now."""

_HYDRAS = {"_args_", "_convert_", "_partial_", "_recursive_"}


def built(node: Any) -> Any:
    """Makes the objects that an entry of a configuration names, of plain values.

    References (`${...}`) are resolved once, before anything is made. Hydra's `instantiate` resolves what was resolved,
    so that a text which only looks like a reference, escaped as it may be, reads the environment after all.

    Args:
        node: a node of a configuration, or a plain value.

    Raises:
        UserError: a class refuses what it is given, in a sentence.
        InstantiationException: no such class, or it does not take what it is given.
        OmegaConfBaseException: a value is missing, or a reference leads nowhere.
    """
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True) if OmegaConf.is_config(node) else node
    return instantiate(node) if _is_hydras(plain) else _made(plain)


def own(entry: Mapping[str, Any], key: str, base: type) -> Any:
    """What an entry's class makes of the entry's other keys, lists and mappings among them as Python's own.

    Args:
        entry: plain, with `TARGET`.
        key: the config key that it stands under, which is the name of the package that `base` is in.
        base: what it must be an instance of, with a `name` that is text.

    Raises:
        UserError: no such class, one that does not take the keys, or one that makes something else.
    """
    target = entry[TARGET]
    asked = f"subclass judgebench.{key}.{base.__name__}, as its docstring shows"
    try:
        made = built(entry)
    except InstantiationException as error:
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from error
        where = "it must lie in the folder where the command is started, in one of PYTHONPATH, or be installed"
        remedy = where if isinstance(error.__cause__, ImportError) else asked
        reason = " ".join(str(error.__cause__ or error).split())
        raise UserError(f"{key}: {target!r} gives nothing ({reason}); {remedy}.") from error
    if not isinstance(made, base):
        raise UserError(f"{key}: {target!r} gives {type(made).__name__}, which is no {base.__name__.lower()}; {asked}.")
    name = getattr(made, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"{key}: what {target!r} gives has the name {name!r}; it must be text, as tables show it.")
    return made


def _made(plain: Any) -> Any:
    if isinstance(plain, list | tuple):
        return [_made(item) for item in plain]
    if not isinstance(plain, Mapping):
        return plain
    given = {key: _made(value) for key, value in plain.items()}
    if TARGET not in given:
        return given
    named = given.pop(TARGET)
    target = MOVED_TARGETS.get(named, named) if isinstance(named, str) else named
    maker = instantiate({TARGET: target, "_partial_": True})  # finds the class; no value passes through it
    try:
        return maker(**given)
    except (UserError, InstantiationException):
        raise
    except Exception as error:
        raise InstantiationException(f"Error in call to target {target!r}:\n{error!r}") from error


def _is_hydras(plain: Any) -> bool:
    """Whether anything in an entry is to be made as Hydra alone can."""
    if isinstance(plain, Mapping):
        return bool(_HYDRAS & set(plain)) or any(map(_is_hydras, plain.values()))
    return isinstance(plain, list | tuple) and any(map(_is_hydras, plain))
