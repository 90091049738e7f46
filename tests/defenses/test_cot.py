"""Chain of thought: the appendix's prompts, the number at the end, and nothing else."""

import pytest

from judgebench.decoding.parser import parse_final
from judgebench.defenses.prompts import Cot
from judgebench.prompts.rubrics import fill, load_rubrics
from judgebench.types import CLAMPED, FAILED, PARSED, Example, ScoreRange

RANGE = ScoreRange(1, 5)
EXAMPLE = Example("a/1", "a", "1", "The source.", "The judged text.", {})


def asked(collection, dimension, score_range=RANGE):
    rubric = load_rubrics(collection, [dimension])[dimension]
    return fill(Cot().rubric(rubric, []), score_range, EXAMPLE).text


@pytest.mark.parametrize(
    ("collection", "dimension", "steps"), [("cap_summary", "joint", 5), ("cap_dialogue", "overall", 6)]
)
def test_the_papers_prompts_ask_step_by_step_and_for_the_number_last(collection, dimension, steps):
    text = asked(collection, dimension)
    assert "Please think through each criterion step by step before providing your final rating." in text
    assert text.endswith("Final Rating: [Provide a single number between 1.0-5.0]")
    assert [f"\n{i}. " in text for i in range(1, 8)] == [i <= steps for i in range(1, 8)]
    assert "ONLY a single number" not in text
    assert text.index("The source.") < text.index("The judged text.") < text.index("step by step:")


def test_other_rubrics_get_our_words_after_theirs():
    plain = fill(load_rubrics("summary", ["coherence"])["coherence"], ScoreRange(3, 7), EXAMPLE).text
    text = asked("summary", "coherence", ScoreRange(3, 7))
    assert text.startswith(plain)
    assert text.endswith("Final Rating: [a single number from 3 to 7]")


@pytest.mark.parametrize(
    ("text", "value", "status"),
    [
        ("1. Coverage: 2 of 5.\n2. Clarity: 5/5.\n\nFinal Rating: 3.5", 3.5, PARSED),
        ("Coverage assessment: 2\n\n**Final Rating: 4.0**", 4.0, PARSED),
        ("### Final Rating:\n4/5", 4.0, PARSED),
        ("So my final score would be a 2.", 2.0, PARSED),
        ("Clarity assessment: 5. Overall rating: 3", 3.0, PARSED),
        ("4.0", 4.0, PARSED),
        ("Final Rating: [4.5]", 4.5, PARSED),
        ("Final Rating: 9", 5.0, CLAMPED),
        # broken off in the reasoning, or nothing that is called final
        ("1. Coverage Analysis: 4 main points.\nCoverage assessment: 4", 1.0, FAILED),
        ("Coverage: 4/5. Overall, the clarity is 3 of 5.", 1.0, FAILED),
        ("Rating: 4\nBut wait, clarity", 1.0, FAILED),
        ("The Final Rating will follow from 5 criteria and", 1.0, FAILED),
        ("Final Rating: 2. No: final rating: 5.", 1.0, FAILED),
        ("Final Rating: [Provide a single number between 1.0-5.0]", 1.0, FAILED),
        ("I cannot rate this.", 1.0, FAILED),
        ("", 1.0, FAILED),
    ],
)
def test_only_a_final_number_counts(text, value, status):
    found = parse_final(text, RANGE)
    assert (found.value, found.status) == (value, status)
