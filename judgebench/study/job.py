"""One job of a multirun: where it writes, what it gives back to the sweep, and what it may print."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf

from judgebench.runtime.errors import UserError

if TYPE_CHECKING:
    from judgebench.results.results import Results


class JobFailed(Exception):
    """A job ended the program; `sentence` says why. Unlike SystemExit, it ends that job alone."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Quiet:
    """A task whose prints go to a file, and which cannot end the sweep.

    Args:
        task: what Hydra runs.
        log: the file, which all jobs share.
    """

    def __init__(self, task: TaskFunction, log: str) -> None:
        functools.update_wrapper(self, task)
        self._task, self._log = task, log

    def __call__(self, config: DictConfig) -> Any:
        """Runs the task; where it ends the program, JobFailed is raised instead."""
        Path(self._log).parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "a", encoding="utf-8") as log, redirect_stdout(log):
            try:
                return self._task(config)
            except SystemExit as end:
                raise JobFailed(getattr(end, "sentence", None) or f"the job ended with exit code {end.code}.") from end


def runs_elsewhere() -> bool:
    """True in a job of a multirun that submitit has started as a process of its own: it can end, but only by an
    exception does the multirun hear why."""
    return "SUBMITIT_EXECUTOR" in os.environ


def as_job(config: DictConfig, hydra_config: Any) -> None:
    """Gives a job of a multirun a folder of its own in `run_dir`, and one group on W&B together with the others."""
    folder = config.get("run_dir")
    if not folder:
        return
    logger = config.get("logger")
    if logger is not None and "group" in logger and logger.group is None:
        OmegaConf.update(config, "logger.group", group_name(hydra_config))
    OmegaConf.update(config, "run_dir", str(Path(str(folder)) / str(hydra_config.job.num)))


def check_one_run(hydra_config: Any) -> None:
    """Checks that one run was not meant as a sweep, whose settings one run would pass over.

    Raises:
        UserError: a sweep's settings are given, without -m.
    """
    sweeper = hydra_config.sweeper
    params = sweeper.get("params")
    if params or str(sweeper.get("_target_")).endswith(".OptunaSweeper"):
        swept = f" of {', '.join(map(str, params))}" if isinstance(params, Mapping) and params else ""
        raise UserError(
            f"hydra.sweeper: this is a sweep{swept}, and one run would try none of it; add -m, as in python -m "
            "judgebench -m ..., or leave the sweep out."
        )


def check_processes(config: DictConfig) -> None:
    """Checks that a job of a multirun reads in one process: others would begin the whole multirun anew, unless SLURM
    started them all for this one job.

    Raises:
        UserError: the trainer has several processes.
    """
    from hydra.utils import instantiate

    if os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
        return

    try:
        make = instantiate(config.trainer)
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)  # what it says of devices is the run's affair
        count = int(make(callbacks=[]).world_size)
    except Exception:  # whatever a trainer that cannot be made raises; the job itself says it better
        return
    if count > 1:
        raise UserError(
            f"trainer: jobs of a multirun read in one process, and this trainer has {count}; run the experiment once "
            "without -m and without a sweep, which stores what it reads, and then this with trainer=auto; or have "
            "SLURM start each job with hydra/launcher=submitit_slurm and trainer=slurm."
        )


def group_name(hydra_config: Any) -> str:
    """The joint name of the jobs of one sweep: the study's name, else the sweep's folder."""
    return str(hydra_config.sweeper.get("study_name") or hydra_config.sweep.dir)


def checked_objective(config: DictConfig) -> list[dict[str, Any]] | None:
    """The config key `objective`; None where it leaves the choice to us.

    Raises:
        UserError: see `parse_objective`.
    """
    from judgebench.metrics.objective import parse_objective

    given = config.get("objective")
    return (
        None
        if given is None
        else parse_objective(OmegaConf.to_container(given) if OmegaConf.is_config(given) else given)
    )


def kept_so_far(config: DictConfig, hydra_config: Any) -> str:
    """A sentence on what is kept of work that was interrupted; of a sweep that has a storage, the study too."""
    from judgebench.study.storage import shown_storage  # takes a second to import, and most runs are no sweep

    kept = f"What was read and written so far is kept in {config.get('store')}"
    sweeper = hydra_config.sweeper
    if hydra_config.mode != RunMode.MULTIRUN or "storage" not in sweeper:
        return f"{kept}."
    if not sweeper.storage:
        return f"{kept}; the sweep's own trials are not, for hydra.sweeper.storage is null."
    return f"{kept}, and the sweep's trials in {shown_storage(str(sweeper.storage))}."


def outcome(finished: Results, objective: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """The result of a finished job: `values`, one an entry of the objective (empty where none is named and the data
    has no dev split), and `attributes`: `run_dir` and `cells` (see `objective_cells`).

    Raises:
        UserError: see `objective_values`.
    """
    from judgebench.metrics.objective import default_objective, objective_cells, objective_values

    records = finished.metrics
    asked = default_objective(records) if objective is None else objective
    try:
        values = objective_values(records, asked)
    except UserError:
        if objective is not None:
            raise
        values = []
    attributes = {"run_dir": str(finished.path), "cells": objective_cells(records, asked)}
    return {"values": values, "attributes": attributes}
