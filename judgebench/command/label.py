"""The command line: `judgebench label FILE out=label.html`, a page on which people label texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import fields, replace

import hydra
from omegaconf import DictConfig

from judgebench.command.cli import handle_errors
from judgebench.config.inputs import inputs_of
from judgebench.config.keys import FOLDER
from judgebench.config.parts import built
from judgebench.data.dataset import RatingDataset, completed, validate
from judgebench.data.fields import dataset_of
from judgebench.data.jsonl import JsonLines
from judgebench.labelling.draw import Drawn, draw_texts, expected_widths
from judgebench.labelling.page import PageSettings, page_of
from judgebench.labelling.second_look import disagreements_of
from judgebench.runtime.ending import as_sentence
from judgebench.runtime.files import atomic, check_outputs, user_path, writing
from judgebench.runtime.log import StepLogger
from judgebench.runtime.values import settle
from judgebench.settings.fields import plain
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

log = StepLogger("judgebench.command.label")


def main() -> None:
    """Writes a page as the command line says; a user's mistake is one sentence and exit code 2."""
    sys.argv[1:] = _overrides(sys.argv[1:])
    with handle_errors("judgebench label", "label"):
        _main()


def _overrides(arguments: Sequence[str]) -> list[str]:
    """Arguments with their keys: a path by itself is `data.path`.

    Example:
        >>> _overrides(["my texts.jsonl", "rubric=Right, or not?"])
        ['data.path=my texts.jsonl', 'rubric=Right, or not?']
    """
    keyed = [
        argument if re.match(r"-|[+~]*[\w.]+=", argument) else f"data.path={argument}"
        for argument in arguments
    ]
    # a question may be any words
    return ["rubric='null'" if argument == "rubric=null" else argument for argument in keyed]


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="label")
def _main(config: DictConfig) -> None:
    with as_sentence():
        config = settle(config)
        # 1. settings, and the page's place before the texts are read
        settings = PageSettings(*(plain(config.get(key.name)) for key in fields(PageSettings)))
        looks_again = settings.disagreements is not None
        out = user_path(settings.out or ("second_look.html" if looks_again else "label.html"))
        check_outputs([(f"out={out}", out)], inputs_of(config))
        if out.suffix != ".html":
            raise UserError(f"out={out}: the page is HTML; give a name that ends in .html.")
        if out.is_dir() or not out.parent.is_dir():
            raise UserError(f"out={out}: there is no folder for it, or a folder of that name.")
        settings.choices()
        settings.question()
        more = None
        said: list[str] = []
        if not looks_again:
            drawn, said = _drawn(config, settings)
        else:
            settings, drawn, more = disagreements_of(user_path(config.data.path), settings)
        # 2. the page; another one may have been labelled on
        page = page_of(drawn, settings, more)
        if out.is_file() and out.read_text("utf-8") != page:
            raise UserError(f"out={out}: there is another page; name a new one.")
        with writing(f"out={out}:", "; name another file"), atomic(out) as temporary:
            temporary.write_text(page, encoding="utf-8")
        log.info("Wrote %d texts to %s.", len(drawn.examples), out)
        print_safely(*said, "Open the page in a browser, or send it.", out)


def _drawn(config: DictConfig, settings: PageSettings) -> tuple[Drawn, list[str]]:
    """The texts that are labelled, and sentences on how much they will say."""
    data = built(config, "data", RatingDataset)
    if not isinstance(data, JsonLines) or data.layouts.declared:
        raise UserError(
            "data: a page is made of your own texts; give data=jsonl and the path of a file."
        )
    texts, _ = data.texts(rated=False)
    unrated = [replace(text, scores={settings.dimension: {}}) for text in texts]
    loaded = completed(replace(dataset_of(unrated), rated=False, mixed=data.mixes))
    validate(loaded, data.longest)
    drawn = draw_texts(loaded.examples, settings.n, settings.seed)
    return drawn, [
        f"{len(drawn.examples)} texts of {drawn.groups} {data.groups_are}, drawn from "
        f"{len(texts)} texts of {drawn.known} {data.groups_are} with seed={settings.seed}; about "
        "a tenth of them is shown twice.",
        expected_widths(drawn.groups, settings.scale is None, data.groups_are),
    ]


if __name__ == "__main__":
    main()
