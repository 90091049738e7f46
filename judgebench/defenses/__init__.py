"""Defenses of judges: words about a text that may want to talk to the judge, references, and other ways to read it."""

from judgebench.defenses.prepared import STAGES, Findings, Planned, Prepared, Resources
from judgebench.defenses.prompts import NONE, TemplateDefense
from judgebench.defenses.settings import DefenseSettings
from judgebench.defenses.shipped import select_defenses, shipped_defenses
from judgebench.prompts.builder import Defense

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
