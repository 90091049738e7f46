"""Defenses of judges: what a judge is told about a text that may want to talk to it, and how it reads that text."""

from judgebench.defenses.chosen import chosen_defenses, shipped_defenses
from judgebench.defenses.retokenization import Retokenization
from judgebench.defenses.template import NONE, TemplateDefense
from judgebench.prompts.defended import Defense

__all__ = ["NONE", "Defense", "Retokenization", "TemplateDefense", "chosen_defenses", "shipped_defenses"]
