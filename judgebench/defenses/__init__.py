"""Defenses of judges: words about a text that may want to talk to the judge, references, and other
ways to read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from judgebench.defenses.anchors import ANCHORS, Anchors
from judgebench.defenses.commit import PlannedCommit
from judgebench.defenses.detection import PERPLEXITY, planned_detection
from judgebench.defenses.prepared import STAGES, Findings, Planned, Prepared, Resources
from judgebench.defenses.prompts import NONE, Cot, Reasoning, TemplateDefense
from judgebench.defenses.references import REFERENCE_DEFENSES, planned_references
from judgebench.prompts.builder import Defense
from judgebench.runtime.files import user_path
from judgebench.settings.components import Catalog, read_template, shipped_templates
from judgebench.settings.fields import Natural, Words
from judgebench.tutor.spec import TutorSpec

__all__ = [
    "NONE",
    "STAGES",
    "Defense",
    "Findings",
    "Planned",
    "Prepared",
    "Resources",
    "TemplateDefense",
    "select_defenses",
    "shipped_defenses",
    "unlearned_defenses",
]


def shipped_defenses(tutor: TutorSpec | None = None) -> dict[str, Callable[..., Defense]]:
    """Name -> what makes the defense of its settings, of those that come with judgebench, `none`
    first. Without a tutor, making a defense that needs one raises a `UserError`.

    The CAP paper's own (cot, perplexity, cap, w_cap, random_reference), and those that its section
    2.3 names and the injection literature tests (the others), in words of our own but for the
    perplexity detector's warning.
    """
    makers: dict[str, Callable[..., Defense]] = {NONE.name: lambda: NONE}
    for name, text in shipped_templates("judgebench.defenses").items():
        makers[name] = partial(TemplateDefense.parse, name, text)
    makers[Cot.name] = Cot
    makers[Reasoning.name] = Reasoning
    makers[PlannedCommit.name] = PlannedCommit
    for name in ANCHORS:
        makers[name] = partial(Anchors, name, {}, None)
    makers[PERPLEXITY] = planned_detection
    for name in REFERENCE_DEFENSES:
        makers[name] = partial(planned_references, name, tutor)
    return makers


def unlearned_defenses(here: bool = True) -> list[str]:
    """Names of the defenses for which `all` stands: those that need no training, no labels and no
    tutor; of a judge that is no model `here` none that it must write for."""
    others = [*ANCHORS, PERPLEXITY, *REFERENCE_DEFENSES, Reasoning.name]
    if not here:
        others.append(PlannedCommit.name)
    return [name for name in shipped_defenses() if name not in others]


def select_defenses(entries: Sequence[Any], tutor: TutorSpec | None = None) -> list[Defense]:
    """The defenses that the config key `defenses` names (see `Catalog.select`), in its order; those
    that are `Planned` are not ready yet. `UserError` for an entry that names no defense, two of one
    name, or one that lacks its tutor."""

    def of_template(template: Words, name: Words | None = None, seed: Natural = 0) -> Defense:
        file = user_path(template)
        text = read_template(file, "defenses").replace("\r\n", "\n").replace("\r", "\n")
        return TemplateDefense.parse(name or file.stem, text, seed)

    catalog = Catalog("defenses", Defense, shipped_defenses(tutor), {"template": of_template})
    return catalog.select(entries)
