"""Files of a model's folder: which of them transformers loads, and that each is an ordinary file of that folder."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_json

_WHOLE = "model.safetensors"
_INDEX = ".safetensors.index.json"


def weight_files(folder: Path, named: str | None, where: str) -> list[str]:
    """The weights that are loaded, as paths below the folder; none where there are none.

    Args:
        named: what the model's configuration calls them (`transformers_weights`), if anything.
        where: the config key and its value, for errors.

    Raises:
        UserError: the index of the weights is damaged, or a file lies outside of the folder.
    """
    if importlib.util.find_spec("peft") is not None and (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{where}: the folder holds an adapter (adapter_config.json), and the model that it adapts lies elsewhere; "
            "merge it into that model, and give the folder of the whole."
        )
    name = named or (_WHOLE if (folder / _WHOLE).is_file() else f"model{_INDEX}")
    if not named and not (folder / name).is_file():
        return []
    names = [name]
    if name.endswith(_INDEX):
        shape = {"weight_map": {str: str}}
        index = read_json(folder / name, f"{where}: {name}", shape=shape, remedy="fetch it again")
        names += sorted(set(index["weight_map"].values()))
    for one in names:
        _check_inside(folder, one, where)
    return names


def check_regular(paths: Iterable[Path], where: str) -> None:
    """Refuses what is no ordinary file, which might never end.

    Raises:
        UserError: one is a device, a pipe, or a link to one.
    """
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(
                f"{where}: {path.name} is no ordinary file but a device or a pipe, or a link to one; fetch the model "
                "again."
            )


def _check_inside(folder: Path, name: str, where: str) -> None:
    pure = PureWindowsPath(name)
    if pure.drive or pure.root or ".." in pure.parts or ".." in PurePosixPath(name).parts:
        raise UserError(
            f"{where}: its weights are said to lie in {name!r}, outside of its folder; give a folder that holds all of "
            "its weights."
        )
    path, root = folder / name, folder.resolve()
    check_regular([path], where)
    inside = [root]
    if root.parent.name == "snapshots":  # the hub's cache: files are links to blobs, whose names are their digests
        inside.append(root.parent.parent / "blobs")
    target = path.resolve()
    if path.exists() and not any(target.is_relative_to(one) for one in inside):
        raise UserError(
            f"{where}: {name} is a link to {target}, outside of the model's folder; copy the file there, or give the "
            "folder that it lies in."
        )
