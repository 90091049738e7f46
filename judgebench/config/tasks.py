"""The rated tasks that `+exp=tasks` sweeps over: those of which a folder holds the files."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from judgebench.config.fields import plain
from judgebench.config.keys import FOLDER
from judgebench.data.dataset import DataSettings
from judgebench.runtime.files import user_path

TASKS = ("conala", "mohler", "ghosts", "mlqe", "grade", "openmeva", "lens")
"""Choices of the group data, in the order in which they are judged."""

EMBEDDED = {"conala": "conala_sample"}
"""Task -> what the package holds of it, which stands in where its file is absent."""


_DEPTH = 4
"""Folders below the given one that are looked into: it may be given by mistake, and hold a whole disk."""


def there(folder: str | None) -> list[str]:
    """The tasks of which the folder, or one below it, holds a file that conf/data declares."""
    root = None if folder is None else user_path(folder)
    names: list[str] = []  # of files, by their path in the folder
    for place, folders, files in os.walk(root) if root is not None and root.is_dir() else ():
        within = Path(place).relative_to(root or "")
        folders[:] = [] if len(within.parts) >= _DEPTH else [name for name in folders if not name.startswith(".")]
        names += (f"/{(within / file).as_posix()}" for file in files)
    patterns = {task: [layout.files for layout in _declared(task).get("layouts") or ()] for task in TASKS}
    return [task for task in TASKS if any(fnmatch.filter(names, f"*/{pattern}") for pattern in patterns[task])]


def tasks_in(folder: str | None) -> str:
    """The tasks of which the folder holds files, or the package some, as `data` takes them: "conala_sample,mlqe"."""
    tasks = there(folder)
    return ",".join(task if task in tasks else EMBEDDED[task] for task in TASKS if task in tasks or task in EMBEDDED)


def absences(folder: str | None) -> list[str]:
    """A sentence for each task that is left out, or replaced by what the package holds of it."""
    tasks, sentences = there(folder), []
    where = "no folder is given, as tasks=DIR" if folder is None else f"{folder} does not hold it"
    for task in (task for task in TASKS if task not in tasks):
        kept = EMBEDDED.get(task)
        instead = f"the embedded {kept} stands in" if kept else "left out"
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
