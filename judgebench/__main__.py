"""The command line: `python -m judgebench`, composed by Hydra. No logic of its own."""

from __future__ import annotations

import sys
from typing import Any

from judgebench.command import dispatch
from judgebench.command.completion import asked
from judgebench.config.choices import COMMANDS, FOLDER, help_text


def main() -> None:
    """Runs what the command line asks for; a user's mistake is a sentence and exit code 2, Ctrl-C
    one and 130."""
    if sys.argv[1:] in (["--help"], ["-h"]):  # at once, without Hydra
        print(help_text())
        return
    if asked(sys.argv[1:]):  # by a shell, for what a word can become
        return
    if set(dispatch.word_first(sys.argv[1:])[:1]) & set(COMMANDS):  # as `judgebench from FILE`
        dispatch.main()
        return
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import DictConfig

    from judgebench.command.cli import handle_errors, run_experiment
    from judgebench.config.check import check_config
    from judgebench.runtime.session import Session

    session = Session()

    @hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
    def run(config: DictConfig) -> dict[str, Any] | None:
        return run_experiment(config, HydraConfig.get(), session)

    with handle_errors("judgebench", look=check_config):
        run()


if __name__ == "__main__":
    main()
