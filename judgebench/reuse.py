"""The last run of a process, kept: the jobs of a sweep differ in how they decode, and need not load and read again.

Kept are the data, the prompts and the readings of `score_tokens` mode, for a later run of the same process whose
configuration differs in nothing that is loaded or read."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from judgebench.config.fields import plain
from judgebench.config.keys import path_of
from judgebench.experiment import Experiment
from judgebench.judges.api.billing import unpaid
from judgebench.judges.reader import IN_STORE
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
    """The last run, if its data and readings are this configuration's too; else None, and it is forgotten, as where the
    store's file, which must hold what a run says it has stored, has gone."""
    global _last
    if _last is not None and (_last.key, _last.store) != (key_of(config), _inode(path_of(config, "store"))):
        _last = None  # before the next data and readings come, for there is room for one
    return _last


def save_last(key: str, experiment: Experiment, read: Read) -> None:
    """Keeps a run whose readings are complete; not free answers, which depend on the decodings.

    Args:
        key: from `key_of`.
    """
    global _last
    if (
        key
        and experiment.judge.mode == "score_tokens"
        and not any(defense.answer_tokens for defense in experiment.defenses)
    ):
        kept = copy.copy(read)  # with its columns, where they are computed already
        kept.device = read.device if RECORDED in experiment.judge.gives else IN_STORE
        kept.served = None if kept.served is None else unpaid(kept.served)
        _last = LastRun(key, _inode(path_of(experiment.config, "store")), experiment, kept)


def key_of(config: DictConfig) -> str:
    """Everything that data, prompts and readings of a multirun's job depend on: the resolved config less its `FREE`
    entries. Empty for a run by itself: before the next one of the same process, in a notebook, any file may change."""
    if not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN:
        return ""
    read = {key: plain(config[key]) for key in config if key not in FREE}
    return json.dumps([os.getcwd(), HydraConfig.get().sweep.dir, read], sort_keys=True, default=str)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
