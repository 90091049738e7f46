"""The command line: `python -m judgebench calibrate`, an experiment that ends in a judge card.

What `python -m judgebench` takes, it takes too; where no experiment is named it is
`+exp=calibrate`, and of recorded readings the ranges are the file's where none are typed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from judgebench.command.cli import handle_errors, run_checked
from judgebench.config.check import check_config, with_read
from judgebench.config.choices import usage_of
from judgebench.config.keys import FOLDER
from judgebench.importing.own import card_words, file_words, score_command
from judgebench.runtime.ending import as_sentence
from judgebench.runtime.log import StepLogger
from judgebench.runtime.values import command_of
from judgebench.study.jobs import check_one_run
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

log = StepLogger("judgebench.command.calibrate")

USAGE = f"""\
usage: {usage_of("calibrate")}
  python -m judgebench calibrate data=jsonl data.path=FILE 'data.scale=[1,5]' judge=local judge.path=DIR
  python -m judgebench calibrate judge=recorded judge.path=readings.parquet data=jsonl data.path=FILE 'data.scale=[1,5]'
  python -m judgebench calibrate --help"""


def main() -> None:
    """Calibrates as the command line says; a user's mistake is one sentence and exit code 2."""
    if not sys.argv[1:]:
        print_safely(USAGE, error=True)
        sys.exit(2)
    with handle_errors("judgebench calibrate", added=_added(sys.argv[1:])):
        _main()


def _added(arguments: Sequence[str]) -> list[str]:
    """Arguments that calibration adds where the user gives none: its experiment; of recorded
    readings, the file's assistant and ranges."""
    typed = {}
    for argument in arguments:
        key, _, value = argument.lstrip("+").partition("=")
        typed[key] = value
    if "exp" in typed:
        return []
    added = ["+exp=calibrate"]
    if typed.get("judge") in ("replay", "own"):  # there is nothing to contrast
        usual = ["assistant=none"]
        if typed["judge"] == "replay":
            usual.append("decoding=[greedy]")
        return [*added, *(key for key in usual if key.partition("=")[0] not in typed)]
    if typed.get("judge") != "recorded":
        return added
    if "assistant" not in typed:
        added.append("assistant=recorded")
    if "ranges" not in typed and "judge.path" in typed:
        from judgebench.readings.reading import Recording  # it needs pyarrow

        # of a file that cannot be read, which is said where the judge is checked
        with suppress(UserError, RuntimeError, OSError):
            if ranges := Recording.open(typed["judge.path"].strip("'\"")).setting("ranges"):
                added.append(f"ranges={json.dumps(ranges)}")
    return added


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="config")
def _main(config: DictConfig) -> None:
    with as_sentence():
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise UserError(
                "-m: a judge card is of one run, which tries all ranges and decodings that it "
                "names."
            )
        check_one_run(HydraConfig.get())
        parts = check_config(config)
        # these take a second to import
        from judgebench.cards.calibration import (
            calibration_of,
            card_view,
            check_classes,
            make_cards,
        )
        from judgebench.cards.card import NAME

        calibration_of(parts)
        parts = with_read(parts)
        check_classes(parts.data.classes, parts.dimensions)
        finished = run_checked(parts)
        if finished is None:  # a process that only helped to read
            return
        cards = make_cards(parts, finished)
        for card in cards:
            path = finished.folder / (
                NAME if len(cards) == 1 else f"judge_card_{card.dimension}.yaml"
            )
            card.write(path)
            log.info("Wrote %s.", path)
            print_safely(card_view(card))
            # what the card is for; its path is the last line
            named = card_words(parts.config, path)
            gate = ["python", "-m", "judgebench", "gate", *named, *file_words(parts.config)]
            print_safely(
                f"Score texts, as {score_command(parts.config, path)}",
                f"Check it on newly labelled ones, as {command_of(gate)}",
                path,
            )


if __name__ == "__main__":
    main()
