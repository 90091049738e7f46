"""The command line: `judgebench label FILE out=label.html`, a page on which people label texts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import hydra
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig

from judgebench.cli import handle_errors
from judgebench.config.inputs import inputs_of
from judgebench.config.keys import FOLDER
from judgebench.config.parts import built
from judgebench.data.dataset import JudgeDataModule, completed, validate
from judgebench.data.fields import dataset_of
from judgebench.data.jsonl import JsonLines
from judgebench.labelling.draw import Drawn, draw, expected_widths
from judgebench.labelling.page import PageSettings, page_of
from judgebench.labelling.second_look import disagreements_of
from judgebench.runtime.ending import as_sentence
from judgebench.runtime.errors import UserError
from judgebench.runtime.fields import plain
from judgebench.runtime.files import atomic, check_outputs, user_path, writing
from judgebench.runtime.terminal import print_safely

_PLAIN = ("out", "rubric", "rater", "data.path")
"""Keys whose values are texts, which need no quotes of Hydra's."""


def main() -> None:
    """Writes a page as the command line says; a user's mistake is one sentence and exit code 2."""
    sys.argv[1:] = _overrides(sys.argv[1:])
    with handle_errors("judgebench.labelling", "label"):
        _main()


def _overrides(arguments: Sequence[str]) -> list[str]:
    """Arguments as Hydra takes them: a path by itself is `data.path`, and texts are quoted.

    Example:
        >>> _overrides(["my texts.jsonl", "rubric=Right, or not?"])
        ["data.path='my texts.jsonl'", "rubric='Right, or not?'"]
    """
    overrides = []
    for argument in arguments:
        key, sign, value = argument.partition("=")
        is_key = sign and key.lstrip("+~").replace(".", "").replace("_", "").isalnum()
        if not is_key and not argument.startswith("-"):
            key, value = "data.path", argument
        quoted = value[:1] in ("'", '"') or value in ("", "null")
        if key in _PLAIN and not quoted:
            argument = f"{key}={QuotedString(value, Quote.single).with_quotes()}"
        overrides.append(argument)
    return overrides


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="label")
def _main(config: DictConfig) -> None:
    with as_sentence():
        # 1. the settings and the texts
        settings = PageSettings(*(plain(config.get(key.name)) for key in fields(PageSettings)))
        settings.choices()
        out = user_path(settings.out)
        check_outputs([(f"out={out}", out)], inputs_of(config))
        if out.suffix not in (".html", ".htm"):
            raise UserError(f"out={out}: the page is HTML; give a name that ends in .html.")
        more = None
        if settings.disagreements is None:
            drawn, widths = _drawn(config, settings)
            print_safely(*widths)
        else:
            run = user_path(config.data.path)
            settings, drawn, more = disagreements_of(run, settings)
        # 2. the page
        page, count = page_of(drawn, settings, more)
        with writing(f"out={out}:", "; name another file"), atomic(out) as temporary:
            temporary.write_text(page, encoding="utf-8")
        again = count - len(drawn.examples)
        shown = f"{len(drawn.examples)} texts"
        if again:
            shown += f", {again} of them twice"
        print_safely(f"{shown}; open the page in a browser, or send it.", out)


def _drawn(config: DictConfig, settings: PageSettings) -> tuple[Drawn, list[str]]:
    """The texts that are labelled, and sentences on how much they say."""
    data = built(config, "data", JudgeDataModule)
    if not isinstance(data, JsonLines) or data.layouts.declared:
        raise UserError(
            "data: a page is made of your own texts; give data=jsonl and the path of a file."
        )
    texts, _ = data.texts(rated=False)
    unrated = [replace(text, scores={settings.dimension: {}}) for text in texts]
    loaded = completed(replace(dataset_of(unrated), rated=False))
    validate(loaded, data.longest)
    drawn = draw(loaded.examples, settings.n, settings.seed)
    first = (
        f"{len(drawn.examples)} texts of {drawn.groups} {data.groups_are}, drawn from "
        f"{len(loaded.examples)} texts of {drawn.known} {data.groups_are} in "
        f"{Path(data.given_path()).name} with seed={settings.seed}."
    )
    widths = expected_widths(drawn, settings.kind == "choices", data.groups_are)
    return drawn, [first, widths]


if __name__ == "__main__":
    main()
