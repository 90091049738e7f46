"""Defaults that the data and the judge give: the dimensions that a file has, its development split,
and rubrics where no judge is asked anything. Each gives a new configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from judgebench.attacks import unlearned_attacks
from judgebench.config.keys import list_at, typed_value
from judgebench.data.dataset import DataSettings, RatingDataset
from judgebench.defenses import unlearned_defenses
from judgebench.judges.spec import LOCAL, UNKNOWN_PROMPTS, JudgeSettings
from judgebench.probes import shipped_probes
from judgebench.prompts.rubrics import BRIEF, EXAMPLE_FIELD, UNASKED, load_rubrics
from judgebench.runtime.values import as_word, with_value, written
from judgebench.settings.components import entry_name
from judgebench.settings.fields import plain
from judgebench.words.errors import UserError, shown

ALL = "all"
"""An entry that stands for every attack, or defense, for which nothing has to be learned, and for
every probe."""

_USUAL = "coherence"
"""The dimension that is judged of several where none is named."""


def complete_all(config: DictConfig, judge: JudgeSettings | None) -> DictConfig:
    """A configuration with the names for which `all` stands, of attacks, defenses and probes, but
    for those that other entries name, or that need a model here and the judge is none."""
    here = judge is None or LOCAL in judge.capabilities
    defenses = partial(unlearned_defenses, here)
    makers: Mapping[str, Callable[[], Iterable[str]]] = {
        "attacks": unlearned_attacks,
        "defenses": defenses,
        "audit": shipped_probes,
    }
    for key, every in makers.items():
        given = plain(config.get(key))
        entries = [given] if given == ALL else given
        if not isinstance(entries, list) or ALL not in entries:
            continue
        named = list(map(entry_name, entries))
        rest = [name for name in every() if name not in named]
        listed: list[Any] = []
        for entry in entries:
            listed += rest if entry == ALL else [entry]
        config = with_value(config, key, listed)
    return config


def complete_dimensions(config: DictConfig, data: RatingDataset) -> DictConfig:
    """A configuration that names no dimensions with those of its data; `UserError` where they
    cannot be read, or have several."""
    if config.get("dimensions") is not None:
        return config
    data.setup()
    names = list(data.dimensions)
    if len(names) > 1 and _USUAL not in names:
        raise UserError(
            f"dimensions: {data.name} has human scores for {', '.join(names)}; say which of them "
            f"are judged, as {as_word(f'dimensions={written(names[:1])}')}.",
            give={"dimensions": names},
        )
    return with_value(config, "dimensions", names if len(names) == 1 else [_USUAL])


def complete_rubrics(config: DictConfig, judge: JudgeSettings | None) -> DictConfig:
    """A configuration with the rubrics that its key `rubric` words, and stand-ins for those that a
    judge lacks which is asked nothing; `UserError` where the words are none."""
    if config.get("dimensions") is None:
        return config
    dimensions = list(map(str, list_at(config, "dimensions")))
    if (words := config.get("rubric")) is not None:
        return with_value(config, "prompt.rubrics", _worded(config, words, dimensions))
    collection = plain(OmegaConf.select(config, "prompt.rubrics"))
    named = any(map(typed_value, ("prompt.rubrics", "prompt.variants", "prompt")))
    if (
        judge is None
        or UNKNOWN_PROMPTS not in judge.capabilities
        or named
        or not isinstance(collection, str)
    ):
        return config
    templates = {}
    for name in dimensions:
        try:
            variants = plain(config.prompt.get("variants"))
            templates[name] = load_rubrics(collection, [name], variants)[name].template
        except UserError:
            templates[name] = UNASKED.replace("DIMENSION", name)
    if not any(template.startswith(UNASKED[:10]) for template in templates.values()):
        return config
    return with_value(config, "prompt.rubrics", templates)


def complete_share(config: DictConfig, needs_dev: bool) -> DictConfig:
    """A configuration with the share of the groups that is its development split, of which the run
    folder and a judge card say which it was."""
    if config.data.get("dev_share", 0) is not None:
        return config
    return with_value(config, "data.dev_share", DataSettings.dev_share if needs_dev else 0.0)


def _worded(config: DictConfig, words: Any, dimensions: Sequence[str]) -> dict[str, str]:
    """Dimension -> a rubric in the words of the key `rubric`; the text and the question for its
    score follow where the words have no fields of their own."""
    if not isinstance(words, str) or not words.strip():
        raise UserError(
            f"rubric: {shown(words)} is no text; give what the judge is asked, as "
            'rubric="Is the answer polite?".'
        )
    template = words if EXAMPLE_FIELD.search(words) else BRIEF.replace("WORDS", words.strip())
    # texts that answer to nothing are their own source, and are shown once
    if plain(OmegaConf.select(config, "prompt.rubrics")) == "text":
        template = template.replace("{{Document}}\n\n", "")
    return dict.fromkeys(dimensions, template)
