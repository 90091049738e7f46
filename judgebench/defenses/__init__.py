"""Defenses of judges: words about a text that may want to talk to the judge, references, and other
ways to read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from judgebench.defenses.anchors import ANCHORS, Anchors
from judgebench.defenses.detection import PERPLEXITY, planned_detection
from judgebench.defenses.prepared import STAGES, Findings, Planned, Prepared, Resources
from judgebench.defenses.prompts import NONE, Cot, TemplateDefense
from judgebench.defenses.references import REFERENCE_DEFENSES, planned_references
from judgebench.defenses.settings import DefenseSettings
from judgebench.prompts.builder import Defense
from judgebench.settings.components import Catalog, read_template, shipped_templates
from judgebench.tutor.spec import TutorSpec

__all__ = [
    "NONE",
    "STAGES",
    "Defense",
    "DefenseSettings",
    "Findings",
    "Planned",
    "Prepared",
    "Resources",
    "TemplateDefense",
    "select_defenses",
    "shipped_defenses",
]

Maker = Callable[[], Defense]


def shipped_defenses(settings: DefenseSettings, tutor: TutorSpec | None = None) -> dict[str, Maker]:
    """Name -> what makes the defense, of those that come with judgebench, `none` first. Without a
    tutor, making a defense that needs one raises a `UserError`.

    The CAP paper's own (cot, perplexity, cap, w_cap, random_reference), and those that its section
    2.3 names and the injection literature tests (the others), in words of our own but for the
    perplexity detector's warning.
    """
    makers: dict[str, Maker] = {NONE.name: lambda: NONE}
    for name, text in shipped_templates("judgebench.defenses").items():
        makers[name] = partial(TemplateDefense.parse, name, text, settings.seed)
    makers["cot"] = partial(Cot, settings.cot_tokens)
    makers["reasoning"] = partial(Cot, None, "reasoning", settings.thought_tokens)
    for name in ANCHORS:
        makers[name] = partial(
            Anchors,
            name,
            settings.seed,
            settings.anchors,
            settings.anchors_sources,
        )
    makers[PERPLEXITY] = partial(planned_detection, settings)
    for name in REFERENCE_DEFENSES:
        makers[name] = partial(planned_references, name, tutor, settings.swap_references)
    return makers


def select_defenses(
    entries: Sequence[Any], settings: DefenseSettings, tutor: TutorSpec | None = None
) -> list[Defense]:
    """The defenses that the config key `defenses` names (see `Catalog.select`), in its order; those
    that are `Planned` are not ready yet. `UserError` for an entry that names no defense, two of one
    name, or one that lacks its tutor."""
    shipped = shipped_defenses(settings, tutor)

    def template(name: str, file: Path) -> Defense:
        text = read_template(file, "defenses").replace("\r\n", "\n").replace("\r", "\n")
        return TemplateDefense.parse(name, text, settings.seed)

    catalog = Catalog(
        "defenses", Defense, shipped, lambda name: shipped[name](), {"template": template}
    )
    return catalog.select(entries)
