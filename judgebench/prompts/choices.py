"""Letters of a multiple choice that a rubric defines: which score each stands for.

A rubric defines them by saying of each, from A on, its score: in one line each (`A) 5`, `(B) 4 - good`,
`C. Fair (3)`) or in a sentence (`A = 5, B = 4, C = 3`). Letters without numbers define nothing: whether A is the best
or the worst would be a guess.
"""

from __future__ import annotations

import re

from judgebench.types import ScoreRange

_LETTERS = "ABCDEFGH"  # the next one is a pronoun
_SCORE = r"(?P<score>[-−]?\d+(?:\.\d+)?)"
_BESIDE = re.compile(
    rf"(?<!\w)(?P<letter>[{_LETTERS}])(?: ?[)\].:=]{{1,2}} ?[\[(]?| - | ?\()(?:score |rating )?{_SCORE}"
    r"(?![\w/]|[.,]\d|%)"
)
_AT_THE_END = re.compile(
    rf"^[^\w\n]{{0,8}}(?P<letter>[{_LETTERS}])[)\].:](?: [^\n\d]*)?[ (\[=:–-]{_SCORE}(?: points?)?[^\w\n]*$",
    re.MULTILINE,
)
_MARKUP = re.compile(r"[*_`\"“”$]")


def choices_of(text: str, score_range: ScoreRange) -> dict[str, float]:
    """Letter -> the score that it stands for; empty where the rubric defines none.

    Args:
        text: the rubric's own text with no example in it: what is judged must not say what an answer means.
        score_range: whose scores count.

    Example:
        >>> choices_of("Answer with A (5), B (3) or C (1).", ScoreRange(1, 5))
        {'A': 5.0, 'B': 3.0, 'C': 1.0}
        >>> choices_of("A) good B) fair C) poor. 1 is the lowest score.", ScoreRange(1, 5))
        {}
    """
    found: dict[str, set[float]] = {}
    for pattern in (_AT_THE_END, _BESIDE):  # what stands beside the letter says more than what ends its line
        here: dict[str, set[float]] = {}
        for match in pattern.finditer(_MARKUP.sub("", text)):
            here.setdefault(match["letter"], set()).add(float(match["score"].replace("−", "-")))
        found |= here
    scores = {letter: min(values) for letter, values in sorted(found.items())}
    whole = len(scores) > 1 and "".join(scores) == _LETTERS[: len(scores)]
    single = all(len(values) == 1 for values in found.values()) and len(set(scores.values())) == len(scores)
    return scores if whole and single and set(scores.values()) <= set(score_range.values) else {}
