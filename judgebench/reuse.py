"""The last run of a process, kept: the jobs of a sweep differ in how they decode, and need not load and read anew.

Kept are the data, the prompts and the readings of `score_tokens` mode, for a later run of the same process whose
configuration differs in nothing that is loaded or read."""

from __future__ import annotations

import copy
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from judgebench.config.fields import plain
from judgebench.config.keys import path_of
from judgebench.experiment import Experiment
from judgebench.judges.api.billing import unpaid
from judgebench.judges.reader import Reader
from judgebench.judges.spec import RECORDED
from judgebench.readings.reading import reading_columns
from judgebench.types import Reading

FREE = frozenset(
    (
        *("decoding", "tune", "metrics", "pairwise", "report", "worth", "examples", "tables"),
        *("name", "run_dir", "logger", "objective", "hydra", "dry_run"),
    )
)
"""The config's entries that change nothing of what is loaded and read."""


MOST_FILES = 10_000
"""In a larger folder of data no changes are looked for: its data is loaded anew."""


@dataclass
class Read:
    """The readings of a run, which are not changed.

    Attributes:
        fingerprints: role -> title and SHA-256 of each model's content.
        device: name of the device that computed.
        served, evidence: the requests to judges behind a URL, and the columns of served.parquet; None without one.
    """

    readings: Sequence[Reading]
    fingerprints: Mapping[str, Mapping[str, str]]
    device: str
    served: Mapping[str, Any] | None = None
    evidence: Mapping[str, Sequence[Any]] | None = None

    @cached_property
    def columns(self) -> Mapping[str, Sequence[Any]]:
        return reading_columns(self.readings)

    @cached_property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.columns)


@dataclass(frozen=True)
class LastRun:
    """A run that can be used again.

    Attributes:
        key: see `key_of`.
        store: the store's file, by device and inode.
    """

    key: str
    store: tuple[int, int] | None
    experiment: Experiment
    read: Read


_last: LastRun | None = None


def load_last(config: DictConfig) -> LastRun | None:
    """The last run, if its data and readings are this configuration's too; else None, and it is forgotten: a file that
    the configuration names has changed since, or the store's file, which must hold what a run says it has stored, has
    gone."""
    global _last
    if _last is not None and (_last.key, _last.store) != (key_of(config), _inode(path_of(config, "store"))):
        _last = None  # before the next data and readings come, for there is room for one
    return _last


def save_last(key: str, experiment: Experiment, read: Read) -> None:
    """Keeps a run whose readings are complete; not free answers, which depend on the decodings.

    Args:
        key: from `key_of` before the data was loaded, so that a file which changes meanwhile counts as changed.
    """
    global _last
    if experiment.judge.mode == "score_tokens" and not any(defense.answer_tokens for defense in experiment.defenses):
        kept = copy.copy(read)  # with its columns, where they are computed already
        kept.device = read.device if RECORDED in experiment.judge.gives else Reader.device(None)
        kept.served = None if kept.served is None else unpaid(kept.served)
        _last = LastRun(key, _inode(path_of(experiment.config, "store")), experiment, kept)


def key_of(config: DictConfig) -> str:
    """Everything that data, prompts and readings depend on: the resolved config less its `FREE` entries, and size and
    time of change of every file that it names, of those in a folder, and under data.path of those in its subfolders.
    """
    read = {key: plain(config[key]) for key in config if key not in FREE}
    data = read.get("data")
    whole = data.get("path") if isinstance(data, Mapping) else None
    files = {
        text: list(_stamps(Path(text).expanduser(), deep=text == whole))
        for text in sorted(set(_texts(read)))
        if text != read.get("store")
    }
    return json.dumps([os.getcwd(), read, files], sort_keys=True, default=str)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping | list):
        for item in node.values() if isinstance(node, Mapping) else node:
            yield from _texts(item)


def _stamps(path: Path, deep: bool) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of change of a file, or of the files in a folder; nothing where there is no such path."""
    try:
        files = [path]
        if path.is_dir():
            files = sorted(islice(path.rglob("*") if deep else path.iterdir(), MOST_FILES + 1))
        if len(files) > MOST_FILES:
            yield uuid.uuid4().hex, 0, 0  # like no other key
            return
        for file in files:
            if file.is_file():
                stat = file.stat()
                yield str(file.relative_to(path)), stat.st_size, stat.st_mtime_ns
    except (OSError, ValueError):  # a text that could not be a path
        return


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
