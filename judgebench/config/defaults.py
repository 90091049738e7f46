"""Defaults that the data give: the dimensions that a file has, and rubrics where no judge is asked
anything."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from judgebench.config.keys import list_at, typed_value
from judgebench.data.dataset import RatingDataset
from judgebench.prompts.rubrics import BRIEF, EXAMPLE_FIELD, UNASKED, load_rubrics
from judgebench.runtime.values import as_word, literal, written
from judgebench.settings.components import TARGET
from judgebench.settings.fields import plain
from judgebench.words.errors import UserError, shown

_USUAL = "coherence"
"""The dimension that is judged of several where none is named."""


def read_dimensions(config: DictConfig, data: RatingDataset) -> None:
    """Sets `dimensions` of a configuration that names none to those of its data; `UserError` where
    they cannot be read, or have several."""
    if config.get("dimensions") is not None:
        return
    data.setup()
    names = list(data.dimensions)
    if len(names) > 1 and _USUAL not in names:
        raise UserError(
            f"dimensions: {data.name} has human scores for {', '.join(names)}; say which of them "
            f"are judged, as {as_word(f'dimensions={written(names[:1])}')}.",
            give={"dimensions": names},
        )
    config.dimensions = literal(names if len(names) == 1 else [_USUAL])


def own_rubric(config: DictConfig) -> None:
    """Sets the rubric of every dimension to the words of the key `rubric`, if it has some; the text
    and the question for its score follow where the words have no fields of their own."""
    words = config.get("rubric")
    if words is None or config.get("dimensions") is None:
        return
    if not isinstance(words, str) or not words.strip():
        raise UserError(
            f"rubric: {shown(words)} is no text; give what the judge is asked, as "
            'rubric="Is the answer polite?".'
        )
    template = words if EXAMPLE_FIELD.search(words) else BRIEF.replace("WORDS", words.strip())
    # texts that answer to nothing are their own source, and are shown once
    if plain(OmegaConf.select(config, "prompt.rubrics")) == "text":
        template = template.replace("{{Document}}\n\n", "")
    dimensions = map(str, list_at(config, "dimensions"))
    config.prompt.rubrics = literal(dict.fromkeys(dimensions, template))


def stand_in_rubrics(config: DictConfig) -> None:
    """Sets stand-ins for rubrics that a replayed judge lacks, or a panel of such: it is asked
    nothing, and what it was asked is unknown."""
    kind = str(OmegaConf.select(config, f"judge.{TARGET}")).rpartition(".")[2]
    replayed = kind == "ReplaySpec"
    if kind == "PanelSpec":
        members = plain(OmegaConf.select(config, "judge.members")) or []
        paths = [each.get("path") if isinstance(each, dict) else each for each in members]
        replayed = all(str(path).endswith(".jsonl") for path in paths)
    named = typed_value("prompt.rubrics") or typed_value("prompt.variants") or typed_value("prompt")
    collection = plain(OmegaConf.select(config, "prompt.rubrics"))
    if not replayed or named or not isinstance(collection, str) or config.get("dimensions") is None:
        return
    templates = {}
    for dimension in map(str, list_at(config, "dimensions")):
        try:
            variants = plain(config.prompt.get("variants"))
            templates[dimension] = load_rubrics(collection, [dimension], variants)[
                dimension
            ].template
        except UserError:
            templates[dimension] = UNASKED.replace("DIMENSION", dimension)
    if any(template.startswith(UNASKED[:10]) for template in templates.values()):
        config.prompt.rubrics = literal(templates)
