"""Answers that name a letter of a multiple choice, as answers that name its score."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MARKUP = re.compile(r"[*_`\"“”„«»#$]")
_CHOICE = re.compile(r"\b(?:option|choice|letter)\b", re.IGNORECASE)
_ANSWERS = r"(?= ?(?:$|[.,;:!?(){}\[\]|→\n<]|-(?!\w)|(?:because|since|as|or|and|to)\b))"
"""Lookahead: what may follow a letter that answers. `A good summary`, `B+` and `Option A is too generous` name none."""
_NAMED = re.compile(rf"(?<![\w.&/+-])(?<![^\W\d]['’])(?P<letter>[A-H])(?![\w+-]|['’]\w)(?=['’]?{_ANSWERS})")
_SMALL = re.compile(
    r"(?P<before>\A\W*|\banswer(?: is)?\W{1,4}|[(\[])(?P<letter>[a-h])(?=[)\]]|[\s.,;:!?'(){}\[\]]*\Z)", re.I
)


def with_scores(text: str, choices: Mapping[str, float]) -> str:
    """An answer with the score in the place of each letter that answers; where the choices are told again, that goes.

    Args:
        text: the answer.
        choices: letter -> the score that it stands for.

    Example:
        >>> with_scores("A good text. Option B.", {"A": 5.0, "B": 4.0})
        'A good text. answer 4.0.'
    """
    text = _MARKUP.sub(" ", text)
    told = {letter: _telling(letter, score) for letter, score in choices.items()}
    if sum(pattern.search(text) is not None for pattern in told.values()) > 1:
        for pattern in told.values():
            text = pattern.sub("\n", text)

    def score(found: re.Match[str]) -> str:
        letter = found["letter"].upper()
        if letter not in choices:
            return found[0]
        return f"{found.groupdict().get('before', '')}{choices[letter]!r}"

    return _SMALL.sub(score, _NAMED.sub(score, _CHOICE.sub("answer", text)))


def _telling(letter: str, score: float) -> re.Pattern[str]:
    """A letter with its own score beside it, or at the end of the line that it begins."""
    written = f"{score:z.6f}".rstrip("0").rstrip(".")
    number = re.escape(written) + ("0*" if "." in written else r"(?:\.0+)?")
    beside = rf"(?<!\w){letter}\W{{1,4}}{number}(?![\w/]|[.,]\d)[)\]]?"
    ending = rf"^[^\w\n]{{0,8}}{letter}[)\].:][^\n\d]*\W{number}(?: points?)?[^\w\n]*$"
    return re.compile(f"{beside}|{ending}", re.MULTILINE)
