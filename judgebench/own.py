"""Classes of the user's own, which configuration names by `_target_`: made, or a sentence says why they cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf.errors import OmegaConfBaseException

from judgebench.errors import UserError

TARGET = "_target_"
"""The key of an entry that names a class, as in `{_target_: mine.Attack, share: 0.1}`; the class takes the others."""


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
        made = instantiate({"_convert_": "all", **entry})
    except InstantiationException as error:
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from error
        where = "it must lie in the folder where the command is started, in one of PYTHONPATH, or be installed"
        remedy = where if isinstance(error.__cause__, ImportError) else asked
        reason = " ".join(str(error.__cause__ or error).split())
        raise UserError(f"{key}: {target!r} gives nothing ({reason}); {remedy}.") from error
    except OmegaConfBaseException as error:
        raise UserError(f"{key}: {target!r} gives nothing ({str(error).splitlines()[0]}).") from error
    if not isinstance(made, base):
        raise UserError(f"{key}: {target!r} gives {type(made).__name__}, which is no {base.__name__.lower()}; {asked}.")
    name = getattr(made, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"{key}: what {target!r} gives has the name {name!r}; it must be text, as tables show it.")
    return made
