"""The command line: `python -m judgebench.score card=FILE data.path=FILE`, texts in and scores out."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from judgebench.asked.first import look_at_files
from judgebench.configuration import FOLDER
from judgebench.refusals import door, told


def main() -> None:
    """Scores as the command line says; a user's mistake is one sentence and exit code 2."""
    with door("judgebench.score", "score"):
        _main()


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="score")
def _main(config: DictConfig) -> None:
    with told():
        look_at_files(config, ("card", "data.path"))
        from judgebench.cards.score import score  # it takes seconds to import

        written = score(config)
    if written is not None:
        print(written)


if __name__ == "__main__":
    main()
