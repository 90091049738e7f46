"""The command line: `python -m judgebench.calibrate`, an experiment that ends in a judge card.

What `python -m judgebench` takes, it takes too; where no experiment is named it is `+exp=calibrate`.
"""

from __future__ import annotations

import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from judgebench.cli import as_sentence, handle_errors
from judgebench.config.checks import check_config
from judgebench.config.keys import FOLDER
from judgebench.runtime.errors import UserError
from judgebench.study.jobs import check_one_run


def main() -> None:
    """Calibrates as the command line says; a user's mistake is one sentence and exit code 2."""
    chosen = any(argument.startswith(("+exp=", "exp=")) for argument in sys.argv[1:])
    # of recorded readings, the assistant is theirs
    own = "judge=recorded" in sys.argv and not any(argument.startswith("assistant=") for argument in sys.argv)
    added = [] if chosen else ["+exp=calibrate", *(["assistant=recorded"] if own else [])]
    with handle_errors("judgebench.calibrate", added=added):
        _main()


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
def _main(config: DictConfig) -> None:
    with as_sentence():
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise UserError("-m: a judge card is of one run, which tries all ranges and decodings that it names.")
        check_one_run(HydraConfig.get())
        check_config(config)
        # these take seconds to import
        from judgebench.cards.calibration import make_cards, settings_of
        from judgebench.cards.card import NAME
        from judgebench.cards.figures import card_view
        from judgebench.pipeline import run_pipeline

        settings_of(config)
        finished = run_pipeline(config)
        if finished is None:  # a process that only helped to read
            return
        cards = make_cards(config, finished)
        for card in cards:
            path = finished.folder / (NAME if len(cards) == 1 else f"judge_card_{card.dimension}.yaml")
            card.write(path)
            print(card_view(card))
            print(path)


if __name__ == "__main__":
    main()
