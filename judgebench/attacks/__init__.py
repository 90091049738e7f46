"""Attacks on judges: changes that an attacker makes to a text that is to be judged."""

from judgebench.attacks.attack import (
    NONE,
    Attack,
    PhraseAttack,
    TemplateAttack,
    attacked_text,
    select_attacks,
    shipped_attacks,
)
from judgebench.attacks.learned import LearnedPhrase, PhraseFile

__all__ = [
    "NONE",
    "Attack",
    "LearnedPhrase",
    "PhraseAttack",
    "PhraseFile",
    "TemplateAttack",
    "attacked_text",
    "select_attacks",
    "shipped_attacks",
]
