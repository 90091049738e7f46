"""The command line: `python -m judgebench score card=FILE data.path=FILE`, texts in and scores
out."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard, no_card
from judgebench.command.cli import handle_errors
from judgebench.config.keys import FOLDER, path_of, switch_at
from judgebench.data.rows import existing, named_files
from judgebench.runtime.ending import as_sentence
from judgebench.runtime.files import user_path
from judgebench.runtime.values import settle
from judgebench.settings.fields import plain
from judgebench.words.errors import Mistakes, UserError


def main() -> None:
    """Scores as the command line says; a user's mistake is one sentence and exit code 2."""
    with handle_errors("judgebench score", "score"):
        _main()


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="score")
def _main(config: DictConfig) -> None:
    with as_sentence():
        config = settle(config)
        # 1. the files that are named
        mistakes = Mistakes()
        for key, check in (
            ("card", lambda path: existing(user_path(path), "card")),
            ("data.path", named_files),
        ):
            path = None if OmegaConf.is_missing(config, key) else OmegaConf.select(config, key)
            if isinstance(path, str) and path.strip():
                with mistakes.caught():
                    check(path)
        mistakes.tell()
        # 2. the card, for what is asked of it
        if OmegaConf.is_missing(config, "card"):
            raise UserError(no_card())
        card = JudgeCard.read(path_of(config, "card"), switch_at(config, "trust_judge"))
        card.check_task(config.get("dimension"), plain(config.get("scale")))
        for key in ("check_models", "force", "dry_run"):
            switch_at(config, key)
        # 3. the scores
        from judgebench.cards.scoring import score_file  # it takes seconds to import

        score_file(config, card)


if __name__ == "__main__":
    main()
