"""The parser of free answers: always a score of the range, and never a number that the text does not hold."""

from __future__ import annotations

import itertools
import math
import random
import re
import time

from fuzzing.chance import odd_text
from fuzzing.target import Target
from judgebench.decoding import parse_answer
from judgebench.decoding.parser import parse_final, parse_place
from judgebench.types import CLAMPED, FAILED, PARSED, PLACES, Score, ScoreRange

_ENDS = [(1, 5), (1, 5, 0.5), (0, 4), (2, 6), (3, 7), (1, 10), (0, 100), (-2, 2), (0, 1, 0.25), (-40, -10, 10)]
_RANGES = [ScoreRange.parse(ends) for ends in (*_ENDS, (0, 5000, 100))]
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS = re.compile(r"[.,]?\d[\d.,]*")


def _answer_case(chance: random.Random) -> tuple[str, ScoreRange, dict[str, float] | None]:
    score_range = chance.choice(_RANGES)
    choices = dict(zip("ABCDE", score_range.values, strict=False)) if chance.random() < 0.2 else None
    return odd_text(chance), score_range, choices


def _check_answer(case: tuple[str, ScoreRange, dict[str, float] | None]) -> None:
    text, score_range, choices = case
    told = _numbers(text) | set((choices or {}).values())
    for score in (parse_answer(text, score_range, choices), parse_final(text, score_range, choices)):
        _check_score(score, score_range, told)
    letters = {"A": 1.0, "B": 2.0} if choices else None
    _check_score(parse_place(text, letters), PLACES, told | {1.0, 2.0})


def _check_score(score: Score, score_range: ScoreRange, told: set[float]) -> None:
    low, high = score_range.minimum, score_range.maximum
    assert low <= score.value <= high, f"{score} lies outside of {score_range}"
    if score.status == FAILED:
        assert score.value == low, f"{score} has failed and is not the lowest"
    elif score.status == CLAMPED:
        beyond = {number for number in told if number < low} if score.value == low else {n for n in told if n > high}
        assert beyond, f"{score} is clamped, and no number lies beyond"
    else:
        assert score.status == PARSED
        assert any(math.isclose(score.value, number, rel_tol=1e-12) for number in told), f"{score} is not in the text"


def _numbers(text: str) -> set[float]:
    """Every number that a reader might see in a text; rather too many than too few."""
    found: set[float] = set()
    lowered = text.lower()
    half = "half" in lowered or "½" in text
    # what the parser takes out may join the digits beside it
    plain = re.sub(r"[\ufe0f\u20e3\u200b\u200c\u200d\ufeff⟦⟧☆]", "", text).replace("½", ".5").replace("．", ".")
    plain = plain.replace("，", ",").replace("。", ".")
    for run in _DIGITS.findall(plain):
        parts = re.findall(r"\d+", run)
        candidates = {run, run.replace(",", "."), run.replace(",", ""), *parts, *re.findall(r"[.,]\d+", run)}
        candidates |= {f"{a}.{b}" for a, b in itertools.pairwise(parts)}
        candidates |= {"".join(parts[:i]) for i in range(1, min(len(parts), 4) + 1)}
        for one in candidates:
            with_point = one.strip(",").replace(",", ".")
            try:
                found.add(float(with_point))
            except ValueError:
                continue
    found |= {float(i) for i, word in enumerate(_WORDS) if word in lowered}
    found |= {
        float(len(stars)) for stars in re.findall("[★⭐🌟]+", re.sub(r"[\ufe0f\u200b-\u200d\ufeff☆⟦⟧]", "", text))
    }
    found |= {number + 0.5 for number in list(found)} if half else set()
    return found | {-number for number in found}


RUNS = [
    *(" ", "\t", "\n", "1/", "**", "- 1 ", "`", '"', "'", "1,", "a ", "1.", "four ", "score:", "\\boxed{", "1 ", "("),
    *("A) ", "<think>", "not give ", "⭐", "between 1 and "),
]  # fmt: skip
"""What a model that is caught in a loop says again and again."""


def seconds_of_run(unit: str, characters: int, score_range: ScoreRange = _RANGES[0]) -> float:
    """Processor seconds of reading one answer of so many characters, as numbers, letters and places."""
    text = (unit * (characters // len(unit) + 1))[: characters - 1] + "4"
    began = time.process_time()
    parse_answer(text, score_range)
    parse_answer(text, score_range, {"A": 5.0, "B": 4.0})
    parse_place(text)
    return time.process_time() - began


TARGETS = (Target("answers", 0.30, _answer_case, _check_answer),)
