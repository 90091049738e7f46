"""Jobs of a multirun, and its end, whichever sweeper ran it. Hydra imports this at every start."""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode, TaskFunction
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from judgebench.config.keys import absences, tasks_in
from judgebench.data.dataset import DEV
from judgebench.runtime.files import LOCK, UNTIL_THE_END, atomic
from judgebench.runtime.secrets import hide_in_file, masked_argument
from judgebench.runtime.values import command_of, typed
from judgebench.settings.fields import plain
from judgebench.types import Record, Records, Rows
from judgebench.words.errors import Refusal, UserError
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.results.results import Results
    from judgebench.study.objective import SweepObjective


class JobFailed(Exception):
    """The end of a job that ended its program; `sentence` says why. Unlike SystemExit, it ends that
    job alone."""

    @property
    def sentence(self) -> str:
        return str(self)


class SilencedStdout:
    """A task for Hydra whose prints go to a file, which all jobs share, and which cannot end the
    sweep."""

    def __init__(self, task: TaskFunction, log: str) -> None:
        functools.update_wrapper(self, task)
        self._task = task
        self._log = log

    def __call__(self, config: DictConfig) -> Any:
        Path(self._log).parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "a", encoding="utf-8") as log, redirect_stdout(log):
            try:
                return self._task(config)
            except SystemExit as end:
                raise JobFailed(
                    getattr(end, "sentence", None) or f"the job ended with exit code {end.code}."
                ) from end


def as_job(config: DictConfig, hydra_config: Any) -> None:
    """Gives a job of a multirun its own folder in `run_dir`, and the group on W&B that all jobs
    share."""
    folder = config.get("run_dir")
    if not folder:
        return
    logger = config.get("logger")
    if logger is not None and "group" in logger and logger.group is None:
        OmegaConf.update(config, "logger.group", group_name(hydra_config))
    OmegaConf.update(config, "run_dir", str(Path(str(folder)) / str(hydra_config.job.num)))


def check_one_run(hydra_config: Any) -> None:
    """Checks that one run was not meant as a sweep, whose settings it would pass over; else
    `UserError`."""
    sweeper = hydra_config.sweeper
    params = sweeper.get("params")
    if params or str(sweeper.get("_target_")).endswith(".OptunaSweeper"):
        swept = (
            f" of {', '.join(map(str, params))}" if isinstance(params, Mapping) and params else ""
        )
        raise UserError(
            f"hydra.sweeper: this is a sweep{swept}, and one run would try none of it; add -m, as "
            "in python -m judgebench -m ..., or leave the sweep out."
        )


def check_processes(config: DictConfig) -> None:
    """Checks that a job of a multirun reads in one process, else `UserError`: others would begin
    the whole multirun again, unless SLURM started them all for this one job."""
    if os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
        return

    try:
        if (config.trainer.get("devices"), config.trainer.get("num_nodes", 1)) == (1, 1):
            return  # known without Lightning, which takes seconds to import
        make = instantiate(config.trainer)
        # what it says of devices is the run's affair
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
        count = int(make(callbacks=[]).world_size)
    # whatever a trainer that cannot be made raises; the job itself says it better
    except Exception:
        return
    if count > 1:
        raise UserError(
            f"trainer: jobs of a multirun read in one process, and this trainer has {count}; run "
            "the experiment once without -m and without a sweep, which stores what it reads, and "
            "then this with trainer=auto; or have SLURM start each job with "
            "hydra/launcher=submitit_slurm and trainer=slurm."
        )


def group_name(hydra_config: Any) -> str:
    """The group of a sweep's jobs: the study's name, else the sweep's folder."""
    return str(hydra_config.sweeper.get("study_name") or hydra_config.sweep.dir)


def checked_objective(config: DictConfig, hydra_config: Any) -> list[SweepObjective] | None:
    """The config key `objective`, see `parse_objective`; None where it is the default. `UserError`
    where a multirun compares figures of the development split, and there is none."""
    from judgebench.study.objective import parse_objective

    given = plain(config.get("objective"))
    objective = None if given is None else parse_objective(given)
    # the default is the development split's, and a search cannot do without
    chooses = (
        _is_study(hydra_config)
        if objective is None
        else any(entry.split == DEV for entry in objective)
    )
    if chooses and hydra_config.mode == RunMode.MULTIRUN and config.data.get("dev_share") == 0:
        words = [word for word in sys.argv[1:] if not word.startswith("data.dev_share=")]
        module = str(hydra_config.help.app_name)
        again = [
            "python",
            "-m",
            *module.split(),
            *map(masked_argument, typed(words)),
            "data.dev_share=0.3",
        ]
        raise UserError(
            "objective: a sweep chooses by the development split, and data.dev_share=0 leaves "
            f"none; give it a share of the groups, as {command_of(again)}"
        )
    return objective


def kept_so_far(config: DictConfig, hydra_config: Any) -> str:
    """A sentence on what is kept of work that was interrupted; of a sweep that has a storage, the
    study too."""
    # takes a second to import, and most runs are no sweep
    from judgebench.study.storage import shown_storage

    kept = f"What was read and written so far is kept in {config.get('store')}"
    sweeper = hydra_config.sweeper
    if hydra_config.mode != RunMode.MULTIRUN or "storage" not in sweeper:
        return f"{kept}."
    if not sweeper.storage:
        return f"{kept}; the sweep's own trials are not, for hydra.sweeper.storage is null."
    return f"{kept}, and the sweep's trials in {shown_storage(str(sweeper.storage))}."


def outcome(finished: Results, objective: Sequence[SweepObjective] | None) -> Record:
    """The result of a finished job: `values`, one an entry of the objective (empty where none is
    named and the data has no dev split), and `attributes`: `run_dir` and `cells` (see
    `objective_cells`). `UserError` as in `objective_values`."""
    from judgebench.study.objective import default_objective, objective_cells, objective_values

    records = finished.metrics
    entries = default_objective(records) if objective is None else objective
    try:
        values = objective_values(records, entries)
    except UserError:
        if objective is not None:
            raise
        values = []
    return {
        "values": values,
        "attributes": {"run_dir": str(finished.path), "cells": objective_cells(records, entries)},
    }


# --- the end of a multirun ----------------------------------------------------------------------

_HYDRAS = "multirun.yaml"


class SweepSummary(Callback):
    """Writes the summary of a sweep: a table, sweep.json and figures in the sweep's folder, and a
    run on W&B.

    Optuna's trials are read from study.json, which also has those of other workers and earlier
    starts. The jobs of other sweepers are collected as they end; a job that a launcher runs
    elsewhere, as submitit's do, leaves its result in a file of the sweep's folder, which must be on
    storage that all have.
    """

    def __init__(self) -> None:
        self._jobs: Rows = []
        self._home: tuple[str, int] | None = None  # the multirun's machine and process
        self._swept: set[str] = set()  # keys of which the jobs have different values

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Refuses once what no job could do, and locks the sweep's folder, except for sweeps that
        share this one's trials."""
        from judgebench.results.folder import RunFolder

        self._home = _process()
        parsed = OverridesParser.create().parse_overrides(list(config.hydra.overrides.task))
        self._swept = {
            override.get_key_element() for override in parsed if override.is_sweep_override()
        }
        folder = Path(str(config.hydra.sweep.dir))
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        shutil.rmtree(_elsewhere(config), ignore_errors=True)  # of an earlier sweep
        try:
            if _is_study(config.hydra) and config.get("dry_run"):
                name = config.hydra.runtime.choices.get("sweeps")
                raise UserError(
                    f"dry_run={str(config.dry_run).lower()}: a dry run measures nothing that a "
                    "search could compare; leave it out, or leave out "
                    f"-m{f' and +sweeps={name}' if name else ''} to see what one trial would read."
                )
            if isinstance(config.get("data"), DictConfig):
                checked_objective(config, config.hydra)
            # how many processes a job of SLURM's has is known where it runs
            if not str(config.hydra.launcher.get("_target_")).endswith(
                "submitit_launcher.SlurmLauncher"
            ):
                check_processes(config)
            if not config.hydra.sweeper.get("storage") and config.get("dry_run") is not True:
                UNTIL_THE_END.enter_context(RunFolder(folder).alone())
        except UserError as error:
            raise Refusal(str(error)) from error

        def leave_nothing() -> None:
            """Removes a folder that has only what Hydra writes before the first job."""
            with suppress(OSError):
                if {path.name for path in folder.iterdir()} <= {_HYDRAS, LOCK}:
                    (folder / _HYDRAS).unlink(missing_ok=True)
                    for path in made:
                        path.rmdir()

        UNTIL_THE_END.callback(leave_nothing)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Takes secrets out of the multirun.yaml that Hydra has written by now, and says what tells
        the job apart."""
        if not str(config.hydra.mode).endswith("MULTIRUN"):
            return
        # a job that a launcher runs elsewhere was not started by this command line, but knows what
        # it set
        task = config.hydra.overrides.task
        hydras = Path(str(config.hydra.sweep.dir)) / _HYDRAS
        hide_in_file(hydras, [*sys.argv[1:], *task, *config.hydra.overrides.hydra])
        if _is_study(config.hydra) or config.get("print") == "none":
            return
        settings = [masked_argument(of) for of in task if of.partition("=")[0] in self._swept]
        if settings:
            print_safely(f"\nJob {int(config.hydra.job.num) + 1}: {', '.join(settings)}")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if not str(config.hydra.mode).endswith("MULTIRUN"):
            return
        complete = job_return.status == JobStatus.COMPLETED
        result = job_return._return_value
        job = {
            "number": int(config.hydra.job.num),
            "state": "complete" if complete else "failed",
            "overrides": list(job_return.overrides or []),
        }
        job |= result if complete and isinstance(result, dict) else {}
        if self._home in (None, _process()):
            self._jobs.append(job)
            return
        from judgebench.runtime.distributed import process_group

        if process_group().first:
            with atomic(_elsewhere(config) / f"{job['number']}.json") as temporary:
                temporary.write_text(json.dumps(job), encoding="utf-8")
        sentence = getattr(result, "sentence", None)
        if sentence and not _is_study(config.hydra):
            # which the multirun raises, and so ends with the sentence
            job_return._return_value = Refusal(sentence)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(str(config.hydra.sweep.dir))
        elsewhere = _elsewhere(config)
        self._jobs += [
            json.loads(path.read_text(encoding="utf-8")) for path in elsewhere.glob("*.json")
        ]
        shutil.rmtree(elsewhere, ignore_errors=True)
        self._finish(config, folder, sorted(self._jobs, key=lambda job: job["number"]))

    def _finish(self, config: DictConfig, folder: Path, jobs: Records) -> None:
        # takes seconds to import, and most starts are no multirun
        from judgebench.study.storage import STUDY
        from judgebench.study.summary import finish_sweep, jobs_as_trials

        study: Record = {"trials": []}
        if not _is_study(config.hydra):
            study["trials"] = jobs_as_trials(jobs)
        elif (folder / STUDY).is_file():
            study = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        finish_sweep(config, folder, study, group_name(config.hydra))


class TaskSummary(SweepSummary):
    """Says which tasks are left out, and at the end writes tasks.html, tasks.json and tasks.csv in
    the sweep's folder and prints the table of all tasks."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        super().on_multirun_start(config, **kwargs)
        for sentence in absences(config.get("tasks")):
            print_safely(sentence)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        super().on_job_start(config, **kwargs)
        job = int(config.hydra.job.num)
        count = len(tasks_in(config.get("tasks")).split(","))
        print_safely(f"\nTask {job + 1} of {count}: {config.hydra.runtime.choices.get('data')}")

    def _finish(self, config: DictConfig, folder: Path, jobs: Records) -> None:
        # takes seconds to import, and most starts are no sweep
        from judgebench.study.tasks import show_tasks

        paths = [Path(job["attributes"]["run_dir"]) for job in jobs if job.get("attributes")]
        if paths:
            show_tasks(paths, folder, config.get("print"))


def _is_study(hydra_config: Any) -> bool:
    """True where Optuna runs the jobs, rather than Hydra's own sweeper."""
    return "optuna" in str(hydra_config.sweeper._target_).lower()


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def _elsewhere(config: DictConfig) -> Path:
    """The folder in which jobs of other processes leave their results."""
    return Path(str(config.hydra.sweep.dir)) / ".jobs"
