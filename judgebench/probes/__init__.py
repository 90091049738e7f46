"""Probes: changes of a text or a prompt that should not matter, one at a time.

A probe is asked as a condition of the run: one of the text is an attack on it, one of the prompt a
defense, so that prompts, readings and their store are those of attacks and defenses. All else of
the prompt is the same to the letter. Each is asked of the clean texts, in the first range alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from judgebench.attacks import Attack
from judgebench.defenses import Defense, TemplateDefense
from judgebench.probes.prompts import CriteriaReversed, WrongReference
from judgebench.probes.texts import TextProbe, with_typos, without_markdown
from judgebench.runtime.files import user_path
from judgebench.settings.components import (
    Catalog,
    fill_fields,
    read_template,
    shipped_templates,
    template_fields,
    without_line_end,
)
from judgebench.settings.fields import Words, plain
from judgebench.studies.probes import PROBE, Probe
from judgebench.types import Condition, Example
from judgebench.words.errors import UserError, shown

__all__ = ["Probe", "select_probes", "shipped_probes"]

NOT_NEUTRAL = ("doubled", "wrong_reference")
"""Shipped probes of what may well matter: the verdict *steady* does not go by them."""

FIELDS = ("text", "system")
"""Fields of a template: the judged text, and the name of the system that wrote it."""

_MISSING = {
    "plain_words": "no text has Markdown",
    "typos": "no text has a word of four letters",
    "criteria_reversed": "the rubric has no list of criteria",
    "wrong_reference": "the rubric shows no reference, or the data has none",
}
"""Probe -> why it changes no prompt, where it does not."""


def shipped_probes() -> dict[str, Callable[..., Probe]]:
    """Name -> what makes the probe, of those that come with judgebench."""
    templates = shipped_templates("judgebench.probes")
    parts: list[Attack | Defense] = [
        *(_of_words(name, text) for name, text in templates.items()),
        TextProbe("plain_words", without_markdown),
        TextProbe("typos", with_typos),
        CriteriaReversed(),
        WrongReference(),
    ]
    return {part.name: partial(_probe, part, part.name not in NOT_NEUTRAL) for part in parts}


def select_probes(config: Mapping[Any, Any]) -> list[Probe]:
    """The probes that the key `audit` of a configuration names, see `Catalog.select`; none where that
    is null.

    Each is a shipped name; the path of a template of the user's own (of the text with `{text}`, and
    perhaps `{system}`; of the prompt with `{prompt}` or `{texts}`, as a defense's); or with
    `_target_` what gives a `Probe`.
    """
    entries = plain(config.get("audit")) or []
    if not isinstance(entries, list):
        raise UserError(f"audit: {shown(entries)} is no list; give audit=[all], or audit=[].")
    probes = Catalog("audit", Probe, shipped_probes(), {"template": _of_template}).select(entries)
    for probe in probes:
        if probe.part.name != f"{PROBE}{probe.name}":
            raise UserError(
                f"audit: the part of {shown(probe.name)} is called {shown(probe.part.name)}; call it "
                f"{shown(PROBE + probe.name)}, by which its condition is known."
            )
    return probes


def _probe(part: Any, neutral: bool = True) -> Probe:
    """The probe of an attack on texts, or of a defense."""
    name = part.name
    called = f"{PROBE}{name}"
    condition = (Condition.attack, called)
    if isinstance(part, Attack):
        condition = (called, Condition.defense)
    missing = _MISSING.get(name, "it changes no prompt")
    return Probe(name, replace(part, name=called), condition, neutral, missing)


def _of_template(template: Words, name: Words | None = None, neutral: bool = True) -> Probe:
    file = user_path(template)
    return _probe(_of_words(name or file.stem, read_template(file, "audit")), neutral)


def _of_words(name: str, template: str) -> Attack | Defense:
    """Of the prompt where a template names that, else of the text."""
    if "{prompt}" in template or "{texts}" in template:
        return TemplateDefense.parse(name, template)
    template = without_line_end(template)
    if "text" not in template_fields(template, FIELDS, f"audit: the template of {name}"):
        raise UserError(
            f"audit: the template of {name} has no {{text}} and no {{prompt}}; put one of them where "
            "what its words stand around belongs."
        )
    return TextProbe(name, partial(_filled, template))


def _filled(template: str, example: Example) -> str:
    return fill_fields(template, {"text": example.output, "system": example.system_id})
