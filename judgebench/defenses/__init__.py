"""Defenses of judges: what a judge is told about a text that may want to talk to it, what it may hold it against, and
how it reads that text."""

from judgebench.defenses.chosen import chosen_defenses, shipped_defenses
from judgebench.defenses.planned import STAGES, Findings, Means, Planned, Prepared
from judgebench.defenses.settings import DefenseSettings
from judgebench.defenses.template import NONE, TemplateDefense
from judgebench.prompts.builder import Defense

__all__ = [
    "NONE",
    "STAGES",
    "Defense",
    "DefenseSettings",
    "Findings",
    "Means",
    "Planned",
    "Prepared",
    "TemplateDefense",
    "chosen_defenses",
    "shipped_defenses",
]
