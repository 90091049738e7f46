"""The command line: `python -m judgebench`, composed by Hydra. No logic of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from judgebench.configuration import FOLDER
from judgebench.errors import UserError


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
def main(config: DictConfig) -> None:
    """Runs one experiment; a user's mistake is one sentence and exit code 2."""
    from judgebench.pipeline import run  # composing and --help need none of it, and it takes seconds to import

    hydra_config = HydraConfig.get()
    if hydra_config.mode == RunMode.MULTIRUN:
        OmegaConf.update(config, "run_dir", str(Path(config.run_dir) / str(hydra_config.job.num)))
    try:
        folder = run(config)
    except (UserError, InstantiationException) as error:
        # Hydra wraps what a constructor raises
        mistake = error if isinstance(error, UserError) else error.__cause__
        if not isinstance(mistake, UserError):
            raise
        print(f"judgebench: {mistake}", file=sys.stderr)
        sys.exit(2)
    if folder is not None:
        print(folder)


if __name__ == "__main__":
    main()
