"""What happens at the end of a multirun, whichever sweeper ran it. Hydra imports this at every start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from judgebench.locked import UNTIL_THE_END


class SweepSummary(Callback):
    """Tells what the sweep found: a table, sweep.json and figures in the sweep's folder, and a summary run on W&B.

    Optuna's trials are read from study.json, which also has what other workers and earlier starts did; the jobs of
    other sweepers are collected as they end, which takes a launcher that runs them in this process.
    """

    def __init__(self) -> None:
        self._jobs: list[dict[str, Any]] = []

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Refuses, once for all jobs, what none of them could do; and keeps other sweeps out of the folder, but for
        those that share this one's trials."""
        from judgebench.errors import Refusal, UserError
        from judgebench.report.run_folder import RunFolder
        from judgebench.study.job import check_processes

        try:
            check_processes(config)
            if not config.hydra.sweeper.get("storage") and config.get("dry_run") is not True:
                UNTIL_THE_END.enter_context(RunFolder(Path(str(config.hydra.sweep.dir))).alone())
        except UserError as error:
            raise Refusal(str(error)) from error

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Takes secrets out of the multirun.yaml that Hydra has written by now."""
        from judgebench.report.hiding import hide_in_file

        if str(config.hydra.mode).endswith("MULTIRUN"):
            hide_in_file(Path(str(config.hydra.sweep.dir)) / "multirun.yaml", sys.argv[1:])

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Keeps what a multirun's job returned."""
        if str(config.hydra.mode).endswith("MULTIRUN"):
            complete = job_return.status == JobStatus.COMPLETED
            given = job_return._return_value if complete else None
            self._jobs.append(
                {
                    "number": int(config.hydra.job.num),
                    "state": "complete" if complete else "failed",
                    "overrides": list(job_return.overrides or []),
                    **(given if isinstance(given, dict) else {}),
                }
            )

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes and prints the summary."""
        # takes seconds to import, and most starts are no multirun
        from judgebench.study.finish import finish_sweep, jobs_as_trials, study_trials

        folder = Path(str(config.hydra.sweep.dir))
        study = "optuna" in str(config.hydra.sweeper._target_).lower()
        trials, directions = study_trials(folder) if study else (jobs_as_trials(self._jobs), [])
        finish_sweep(config, folder, trials, directions)
