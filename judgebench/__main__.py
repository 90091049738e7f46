"""The command line: `python -m judgebench`, composed by Hydra. No logic of its own."""

from __future__ import annotations

from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from judgebench.asked.first import look
from judgebench.configuration import FOLDER
from judgebench.errors import Interrupted, Refusal
from judgebench.refusals import door, told


def main() -> None:
    """Runs what the command line asks for; a user's mistake is one sentence and exit code 2, Ctrl-C one and 130."""
    with door("judgebench", look=look):
        _main()


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
def _main(config: DictConfig) -> dict[str, Any] | None:
    """Runs one experiment; as a job of a multirun, it returns what the sweep compares."""
    from judgebench.study.job import (
        JobFailed,
        as_job,
        check_one_run,
        check_processes,
        checked_objective,
        kept_so_far,
        outcome,
        runs_elsewhere,
    )

    hydra_config = HydraConfig.get()
    sweeping = hydra_config.mode == RunMode.MULTIRUN
    try:
        with told():
            if sweeping:
                as_job(config, hydra_config)
            else:
                check_one_run(hydra_config)
            look(config)
            objective = checked_objective(config)
            if sweeping:
                check_processes(config)
            from judgebench.pipeline import run_pipeline  # it takes seconds to import

            finished = run_pipeline(config)
            found = outcome(finished, objective) if finished is not None and sweeping else None
    except Refusal as refusal:
        if sweeping and runs_elsewhere():
            raise JobFailed(refusal.sentence) from refusal
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(kept_so_far(config, hydra_config)) from stop
    if finished is not None:
        print(finished.path)
    return found


if __name__ == "__main__":
    main()
