"""Attacks on judges: changes that an attacker makes to a text that is to be judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from judgebench.attacks.attack import (
    ADV_SUFFIX,
    NONE,
    Attack,
    CheckedAttack,
    LearnedPhrase,
    PhraseAttack,
    TemplateAttack,
    attacked_text,
    read_phrase,
)
from judgebench.attacks.search import AdvSuffix, Search
from judgebench.runtime.files import user_path
from judgebench.settings.components import (
    Catalog,
    read_template,
    shipped_templates,
    without_line_end,
)
from judgebench.settings.fields import Words

__all__ = [
    "NONE",
    "AdvSuffix",
    "Attack",
    "LearnedPhrase",
    "PhraseAttack",
    "TemplateAttack",
    "attacked_text",
    "select_attacks",
    "shipped_attacks",
    "unlearned_attacks",
]


def shipped_attacks(search: Search | None = None) -> dict[str, Callable[..., Attack]]:
    """Name -> what makes the attack, of those that come with judgebench, `none` first.

    `dsi`, `bed` and `adaptive` are worded as in the CAP paper (its appendix B); `adv_suffix` is
    learned, by a `search`, or by another run. The kinds of injection that RobustJudge (Li et al.
    2025) tests are in words of our own, as are all others: master keys (`key_*`, arXiv 2507.08794)
    and null answers (`null_*`, arXiv 2410.07137), which stand in the text's place; claims of
    progress (arXiv 2601.14691), authority, flattery, hidden text, another language, a forged end.
    """
    makers: dict[str, Callable[..., Attack]] = {NONE.name: lambda: NONE}
    for name, text in shipped_templates("judgebench.attacks").items():
        makers[name] = partial(TemplateAttack, name, without_line_end(text))
    makers[ADV_SUFFIX] = partial(AdvSuffix, search or Search())
    return makers


def unlearned_attacks() -> list[str]:
    """Names of the attacks for which `all` stands: those that nothing has to be learned for."""
    return [name for name in shipped_attacks() if name != ADV_SUFFIX]


def select_attacks(entries: Sequence[Any], search: Search | None = None) -> list[Attack]:
    """The attacks that the config key `attacks` names (see `Catalog.select`), `none` first where it
    is not named: every change needs its clean base. `search` is how a phrase is learned."""

    def of_template(template: Words, name: Words | None = None) -> Attack:
        # as it is: universal newlines would turn a carriage return, which may be part of an attack,
        # into another
        file = user_path(template)
        text = without_line_end(read_template(file, "attacks"))
        return TemplateAttack(name or file.stem, text)

    def of_phrase(phrase_file: Words, name: Words | None = None) -> Attack:
        file = user_path(phrase_file)
        return PhraseAttack(name or file.stem, read_phrase(file, "attacks: phrase_file")["phrase"])

    catalog = Catalog(
        "attacks",
        Attack,
        shipped_attacks(search),
        {"template": of_template, "phrase_file": of_phrase},
        ", learned phrases ({phrase_file: FILE.json})",
    )
    plain = (TemplateAttack, PhraseAttack, AdvSuffix)
    selected = [
        attack if type(attack) in plain else CheckedAttack(attack)
        for attack in catalog.select(entries)
    ]
    return selected if NONE in selected else [NONE, *selected]
