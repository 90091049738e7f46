"""The command line: `python -m judgebench`, composed by Hydra. No logic of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from judgebench.configuration import FOLDER
from judgebench.errors import UserError


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
def main(config: DictConfig) -> None:
    """Runs one experiment; a user's mistake is one sentence and exit code 2."""
    from judgebench.pipeline import run  # composing and --help need none of it, and it takes seconds to import

    hydra_config = HydraConfig.get()
    if hydra_config.mode == RunMode.MULTIRUN and config.get("run_dir"):
        OmegaConf.update(config, "run_dir", str(Path(config.run_dir) / str(hydra_config.job.num)))
    try:
        finished = run(config)
    except UserError as error:
        sys.exit(_told(str(error)))
    except OmegaConfBaseException as error:
        sys.exit(_told(f"The configuration does not hold together: {str(error).splitlines()[0]}."))
    except InstantiationException as error:
        # Hydra wraps what a constructor raises: our own sentence, or Python's about a key it does not take
        if isinstance(error.__cause__, UserError):
            sys.exit(_told(str(error.__cause__)))
        sys.exit(_told(f"The configuration does not fit: {' '.join(str(error).split())}."))
    if finished is not None:
        print(finished.path)


def _told(sentence: str) -> int:
    print(f"judgebench: {sentence.rstrip('.')}.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
