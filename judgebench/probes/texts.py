"""Probes of the judged text: words around it, its words without Markdown, and typos."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from judgebench.attacks import Attack
from judgebench.data.markdown import plain_words
from judgebench.types import Condition, Example

WORDS_PER_TYPO = 100
_LETTER = r"[^\W\d_]"
_INNER = re.compile(rf"(?<={_LETTER})({_LETTER})(?!\1){_LETTER}(?={_LETTER})")


@dataclass(frozen=True)
class TextProbe(Attack):
    """The text that a function makes of an example."""

    name: str
    change: Callable[[Example], str]

    def judged(self, example: Example, condition: Condition) -> str:
        return self.change(example)


def without_markdown(example: Example) -> str:
    """The text without the marks of Markdown."""
    return plain_words(example.output)


def with_typos(example: Example) -> str:
    """One typo a hundred words, one at least: two letters within a word change places.

    Example:
        >>> with_typos(Example("a", "a", "a", "", "The weather was fine.", {}))
        'The waether was fine.'
    """
    text = example.output
    # two letters that differ, within a word
    words = list(_INNER.finditer(text))
    wanted = max(1, len(text.split()) // WORDS_PER_TYPO)
    letters = list(text)
    for match in random.Random(f"0 {text}").sample(words, min(wanted, len(words))):
        first, second = match.span()
        letters[first:second] = reversed(match[0])
    return "".join(letters)
