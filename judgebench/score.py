"""The command line: `python -m judgebench.score card=FILE data.path=FILE`, texts in and scores out."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard
from judgebench.cli import as_sentence, handle_errors
from judgebench.config.checks import check_files
from judgebench.config.fields import plain
from judgebench.config.keys import FOLDER, path_of
from judgebench.runtime.errors import UserError


def main() -> None:
    """Scores as the command line says; a user's mistake is one sentence and exit code 2."""
    with handle_errors("judgebench.score", "score"):
        _main()


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="score")
def _main(config: DictConfig) -> None:
    with as_sentence():
        check_files(config, ("card", "data.path"))
        card = _card(config)
        from judgebench.cards.judge import score_file  # it takes seconds to import

        written = score_file(config, card)
    if written is not None:
        print(written)


def _card(config: DictConfig) -> JudgeCard:
    """The card that the configuration names, for what it asks; else `UserError`."""
    if OmegaConf.is_missing(config, "card"):
        raise UserError("card: name a judge card, as card=judge_card.yaml; python -m judgebench.calibrate writes one.")
    card = JudgeCard.read(path_of(config, "card"))
    card.check_task(config.get("dimension"), plain(config.get("scale")))
    if not isinstance(config.get("check_models"), bool):
        raise UserError(f"check_models: {config.get('check_models')!r} is neither true nor false.")
    return card


if __name__ == "__main__":
    main()
