"""Attacks on judges: changes that an attacker makes to a text that is to be judged."""

from judgebench.attacks.attack import (
    NONE,
    Attack,
    LearnedPhrase,
    PhraseAttack,
    PhraseFile,
    TemplateAttack,
    attacked_text,
    select_attacks,
    shipped_attacks,
)

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
