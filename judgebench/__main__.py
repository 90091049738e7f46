"""The command line: `python -m judgebench`, composed by Hydra. No logic of its own."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from judgebench.configuration import FOLDER, check_groups
from judgebench.errors import Interrupted, Refusal, UserError
from judgebench.locked import UNTIL_THE_END
from judgebench.report.hiding import hiding, masked_argument

_NO_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""How the system says that a disk is full, a quota used up, or a file system read-only."""


def main() -> None:
    """Runs what the command line asks for; a user's mistake is one sentence and exit code 2, Ctrl-C one and 130."""
    with hiding(sys.argv[1:]), UNTIL_THE_END:
        try:
            try:
                check_groups(sys.argv[1:])
            except UserError as error:
                raise Refusal(str(error)) from error
            _main()
        except Refusal as refusal:
            print(f"judgebench: {refusal.sentence}", file=sys.stderr)
            raise
        except KeyboardInterrupt as stop:
            kept = stop.sentence if isinstance(stop, Interrupted) else "Nothing that was finished is lost."
            command = shlex.join(["python", "-m", "judgebench", *map(masked_argument, sys.argv[1:])])
            # the processes that help to read are told by the same key, and have nothing of their own to say
            if not int(os.environ.get("LOCAL_RANK") or 0):
                print(f"\njudgebench: interrupted. {kept} Go on with the same command: {command}", file=sys.stderr)
            sys.exit(130)
        except Exception:  # as with HYDRA_FULL_ERROR=1; Python itself would print it after secrets are hidden no more
            traceback.print_exc()
            sys.exit(1)


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
def _main(config: DictConfig) -> dict[str, Any] | None:
    """Runs one experiment; as a job of a multirun, it returns what the sweep compares."""
    # composing and --help need none of these, and they take seconds to import
    from judgebench.pipeline import run
    from judgebench.processes import Told
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
        objective = checked_objective(config)
        if sweeping:
            check_processes(config)
            as_job(config, hydra_config)
        else:
            check_one_run(hydra_config)
        finished = run(config)
        found = outcome(finished, objective) if finished is not None and sweeping else None
    except Told as error:
        raise SystemExit(2) from error  # one sentence is enough
    except UserError as error:
        if sweeping and runs_elsewhere():
            raise JobFailed(Refusal(str(error)).sentence) from error
        raise Refusal(str(error)) from error
    except KeyboardInterrupt as stop:
        raise Interrupted(kept_so_far(config, hydra_config)) from stop
    except OSError as error:
        if error.errno not in _NO_WRITING:
            raise
        name = error.filename2 or error.filename  # of two files, where the second cannot be made of the first
        where = f"{name}: cannot be written" if name else "A file cannot be written"
        raise Refusal(f"{where} ({error.strerror}); make room, then give the same command again") from error
    except OmegaConfBaseException as error:
        raise Refusal(f"The configuration does not hold together: {str(error).splitlines()[0]}") from error
    except InstantiationException as error:
        # Hydra wraps what a constructor raises: our own sentence, or Python's about a key it does not take
        if isinstance(error.__cause__, UserError):
            raise Refusal(str(error.__cause__)) from error
        raise Refusal(f"The configuration does not fit: {' '.join(str(error).split())}") from error
    if finished is not None:
        print(finished.path)
    return found


if __name__ == "__main__":
    main()
