"""Probes: changes of a text or a prompt that should not matter, one at a time.

A probe is asked as a condition of the run: one of the text is an attack on it, one of the prompt a
defense, so that prompts, readings and their store are those of attacks and defenses. All else of
the prompt is the same to the letter. Each is asked of the clean texts, in the first range alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from judgebench.attacks import Attack
from judgebench.defenses import Defense, TemplateDefense
from judgebench.probes.prompts import CriteriaReversed, WrongReference
from judgebench.probes.texts import PlainWords, TextProbe, Typos
from judgebench.runtime.files import user_path
from judgebench.settings.components import (
    Catalog,
    read_template,
    shipped_templates,
    without_line_end,
)
from judgebench.settings.fields import Words, plain
from judgebench.studies.probes import PROBE, Asked
from judgebench.words.errors import UserError, shown

__all__ = ["Probe", "probes_of", "select_probes", "shipped_probes"]

NOT_NEUTRAL = ("doubled", "wrong_reference")
"""Shipped probes of what may well matter: the verdict *steady* does not go by them."""

_PARTS: dict[str, Callable[..., Attack | Defense]] = {
    "plain_words": PlainWords,
    "typos": Typos,
    "criteria_reversed": CriteriaReversed,
    "wrong_reference": WrongReference,
}

SHIPPED = "all"
"""The entry of the config key `audit` that means all that come with judgebench."""


@dataclass(frozen=True)
class Probe:
    """A change of a text, or of a prompt.

    Attributes:
        part: of the text, or of the prompt; its name is the probe's behind `PROBE`.
        neutral: True where it should not matter to what is judged.
    """

    name: str
    part: Attack | Defense
    neutral: bool = True

    @property
    def asked(self) -> Asked:
        """Its place among the conditions, as the study of them takes it."""
        missing = getattr(self.part, "missing", "it changes no prompt")
        return Asked(self.name, isinstance(self.part, Attack), self.neutral, missing)


def shipped_probes() -> dict[str, Callable[..., Probe]]:
    """Name -> what makes the probe, of those that come with judgebench."""
    makers: dict[str, Callable[..., Probe]] = {}
    for name, text in shipped_templates("judgebench.probes").items():
        makers[name] = partial(_of_text, name, text)
    for name, part in _PARTS.items():
        makers[name] = partial(_made, name, part)
    return makers


def select_probes(entries: Sequence[Any]) -> list[Probe]:
    """The probes that the config key `audit` names, see `Catalog.select`.

    Each is `all`; a shipped name; the path of a template of the user's own (of the text with
    `{text}`, and perhaps `{system}`; of the prompt with `{prompt}` or `{texts}`, as a defense's); or
    with `_target_` what gives a `Probe`.
    """
    shipped = shipped_probes()
    named: list[Any] = []
    for entry in entries:
        named += list(shipped) if entry == SHIPPED else [entry]
    return Catalog("audit", Probe, shipped, {"template": _of_template}).select(named)


def probes_of(config: Mapping[Any, Any]) -> list[Probe]:
    """The probes of a configuration, of its key `audit`; none where that is null."""
    entries = plain(config.get("audit"))
    if not isinstance(entries, list | None):
        raise UserError(f"audit: {shown(entries)} is no list; give audit=[all], or audit=[].")
    return select_probes(entries or [])


def _of_template(template: Words, name: Words | None = None, neutral: bool = True) -> Probe:
    file = user_path(template)
    probe = _of_text(name or file.stem, read_template(file, "audit"))
    return replace(probe, neutral=neutral)


def _of_text(name: str, template: str) -> Probe:
    """A probe by words: of the prompt where its template names that, else of the text."""
    called = f"{PROBE}{name}"
    part: Attack | Defense
    if any(field in template for field in ("{prompt}", "{texts}")):
        part = TemplateDefense.parse(called, template)
    else:
        part = TextProbe(called, without_line_end(template))
    return Probe(name, part, name not in NOT_NEUTRAL)


def _made(name: str, part: Callable[..., Attack | Defense]) -> Probe:
    return Probe(name, part(name=f"{PROBE}{name}"), name not in NOT_NEUTRAL)
