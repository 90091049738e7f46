"""The end of a multirun, whichever sweeper ran it. Hydra imports this at every start."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from judgebench.runtime.errors import Refusal, UserError
from judgebench.runtime.lock import LOCK, UNTIL_THE_END

_HYDRAS = "multirun.yaml"
_SLURM = "submitit_launcher.SlurmLauncher"


class SweepSummary(Callback):
    """Tells what the sweep found: a table, sweep.json and figures in the sweep's folder, and a summary run on W&B.

    Optuna's trials are read from study.json, which also has what other workers and earlier starts did. The jobs of
    other sweepers are collected as they end; a job that a launcher runs elsewhere, as submitit's do, leaves what it
    returned in a file of the sweep's folder, which must be on storage that all have.
    """

    def __init__(self) -> None:
        self._jobs: list[dict[str, Any]] = []
        self._home: tuple[str, int] | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Refuses, once for all jobs, what none of them could do; and keeps other sweeps out of the folder, but for
        those that share this one's trials."""
        from judgebench.results.folder import RunFolder
        from judgebench.study.job import check_processes

        self._home = _process()
        folder = Path(str(config.hydra.sweep.dir))
        made = [one for one in (folder, *folder.parents) if not one.exists()]
        shutil.rmtree(_elsewhere(config), ignore_errors=True)  # of an earlier sweep
        try:
            # how many processes a job of SLURM's has is known where it runs
            if not str(config.hydra.launcher.get("_target_")).endswith(_SLURM):
                check_processes(config)
            if not config.hydra.sweeper.get("storage") and config.get("dry_run") is not True:
                UNTIL_THE_END.enter_context(RunFolder(folder).alone())
        except UserError as error:
            raise Refusal(str(error)) from error
        UNTIL_THE_END.callback(_leave_nothing, folder, made)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Takes secrets out of the multirun.yaml that Hydra has written by now."""
        from judgebench.runtime.hiding import hide_in_file

        if str(config.hydra.mode).endswith("MULTIRUN"):
            # a job that a launcher runs elsewhere was not started by this command line, but knows what it set
            given = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
            hide_in_file(Path(str(config.hydra.sweep.dir)) / _HYDRAS, [*sys.argv[1:], *given])

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Keeps what a multirun's job returned."""
        if str(config.hydra.mode).endswith("MULTIRUN"):
            job = _record(config, job_return)
            if self._home in (None, _process()):
                self._jobs.append(job)
                return
            if _is_first():
                _leave(_elsewhere(config) / f"{job['number']}.json", job)
            sentence = getattr(job_return._return_value, "sentence", None)
            if sentence and not _is_study(config):
                job_return._return_value = Refusal(sentence)  # which the multirun raises, and so ends with the sentence

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes and prints the summary."""
        # takes seconds to import, and most starts are no multirun
        from judgebench.study.finish import finish_sweep, jobs_as_trials, study_trials

        folder, elsewhere = Path(str(config.hydra.sweep.dir)), _elsewhere(config)
        self._jobs += [json.loads(path.read_text(encoding="utf-8")) for path in elsewhere.glob("*.json")]
        self._jobs.sort(key=lambda job: job["number"])
        shutil.rmtree(elsewhere, ignore_errors=True)
        trials, directions = study_trials(folder) if _is_study(config) else (jobs_as_trials(self._jobs), [])
        finish_sweep(config, folder, trials, directions)


def _record(config: DictConfig, job_return: JobReturn) -> dict[str, Any]:
    complete = job_return.status == JobStatus.COMPLETED
    given = job_return._return_value if complete else None
    return {
        "number": int(config.hydra.job.num),
        "state": "complete" if complete else "failed",
        "overrides": list(job_return.overrides or []),
        **(given if isinstance(given, dict) else {}),
    }


def _leave_nothing(folder: Path, made: list[Path]) -> None:
    """Takes away a multirun's folder in which there is nothing but what Hydra writes before the first job."""
    with suppress(OSError):
        if {path.name for path in folder.iterdir()} <= {_HYDRAS, LOCK}:
            (folder / _HYDRAS).unlink(missing_ok=True)
            for one in made:
                one.rmdir()


def _is_study(config: DictConfig) -> bool:
    """True where Optuna runs the jobs, rather than Hydra's own sweeper."""
    return "optuna" in str(config.hydra.sweeper._target_).lower()


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def _is_first() -> bool:
    """True in the process of a job that writes its run folder."""
    from judgebench.runtime.distributed import here

    return here().first


def _elsewhere(config: DictConfig) -> Path:
    """The folder in which jobs of other processes leave their results."""
    return Path(str(config.hydra.sweep.dir)) / ".jobs"


def _leave(path: Path, job: dict[str, Any]) -> None:
    from judgebench.runtime.files import atomic

    with atomic(path) as temporary:
        temporary.write_text(json.dumps(job), encoding="utf-8")
