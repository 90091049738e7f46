"""The command line: `python -m judgebench.score card=FILE data.path=FILE`, texts in and scores out."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from judgebench.cli import as_sentence, handle_errors
from judgebench.config.checks import check_files
from judgebench.config.keys import FOLDER


def main() -> None:
    """Scores as the command line says; a user's mistake is one sentence and exit code 2."""
    with handle_errors("judgebench.score", "score"):
        _main()


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="score")
def _main(config: DictConfig) -> None:
    with as_sentence():
        check_files(config, ("card", "data.path"))
        from judgebench.cards.judge import score_file  # it takes seconds to import

        written = score_file(config)
    if written is not None:
        print(written)


if __name__ == "__main__":
    main()
