"""Attacks on judges: what an attacker makes of a text that is to be judged."""

from judgebench.attacks.attack import NONE, Attack, PhraseAttack, TemplateAttack, attacked_text
from judgebench.attacks.chosen import chosen_attacks, shipped_attacks
from judgebench.attacks.learned import LearnedPhrase, PhraseFile

__all__ = [
    "NONE",
    "Attack",
    "LearnedPhrase",
    "PhraseAttack",
    "PhraseFile",
    "TemplateAttack",
    "attacked_text",
    "chosen_attacks",
    "shipped_attacks",
]
