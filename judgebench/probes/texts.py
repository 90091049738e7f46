"""Probes of the judged text: words around it, its words without Markdown, and typos."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import ClassVar

from judgebench.attacks import Attack
from judgebench.data.markdown import plain_words
from judgebench.settings import components
from judgebench.types import Condition, Example

FIELDS = ("text", "system")
"""Fields of a template: the judged text, and the name of the system that wrote it."""

WORDS_PER_TYPO = 100
_LETTER = r"[^\W\d_]"
_INNER = re.compile(rf"(?<={_LETTER})({_LETTER})(?!\1){_LETTER}(?={_LETTER})")


@dataclass(frozen=True)
class TextProbe(Attack):
    """Words around the judged text, by a template with `{text}`, which may name `{system}`.

    Example:
        >>> text = Example("a", "a", "model", "", "So it is.", {})
        >>> TextProbe("signed", "{text} ({system})").judged(text, None)
        'So it is. (model)'
    """

    name: str
    template: str

    def __post_init__(self) -> None:
        components.template_fields(self.template, FIELDS, f"audit: the template of {self.name}")

    def judged(self, example: Example, condition: Condition) -> str:
        values = {"text": example.output, "system": example.system_id}
        return components.fill_fields(self.template, values)


@dataclass(frozen=True)
class PlainWords(Attack):
    """The text without the marks of Markdown."""

    name: str
    missing: ClassVar[str] = "no text has Markdown"

    def attacked(self, text: str, condition: Condition) -> str:
        return plain_words(text)


@dataclass(frozen=True)
class Typos(Attack):
    """One typo a hundred words, one at least: two letters within a word change places.

    Example:
        >>> Typos("typos").attacked("The weather was fine.", None)
        'The waether was fine.'
    """

    name: str
    seed: int = 0
    missing: ClassVar[str] = "no text has a word of four letters"

    def attacked(self, text: str, condition: Condition) -> str:
        # two letters that differ, within a word
        words = list(_INNER.finditer(text))
        wanted = max(1, len(text.split()) // WORDS_PER_TYPO)
        drawn = random.Random(f"{self.seed} {text}")
        letters = list(text)
        count = min(wanted, len(words))
        for match in drawn.sample(words, count):
            first, second = match.span()
            letters[first:second] = reversed(match[0])
        return "".join(letters)
