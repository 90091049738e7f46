"""Letters of a multiple choice: what a rubric defines, and what it does not."""

import pytest

from judgebench.prompts.rubrics import choices_of, fill, load_rubrics
from judgebench.types import Example, ScoreRange

ALL = {"A": 5.0, "B": 4.0, "C": 3.0, "D": 2.0, "E": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        "A) 5\nB) 4\nC) 3\nD) 2\nE) 1",
        "Choose one:\n(A) 5 - excellent\n(B) 4 - good\n(C) 3 - fair\n(D) 2 - poor\n(E) 1 - bad",
        "A. Excellent (5)\nB. Good (4)\nC. Fair (3)\nD. Poor (2)\nE. Bad (1)",
        "- **A**: 5 points, at most 1 error\n- **B**: 4 points\n- **C**: 3 points\n- **D**: 2 points\n- **E**: 1 point",
        "Answer with A = 5, B = 4, C = 3, D = 2 or E = 1.",
        "Say A (5), B (4), C (3), D (2) or E (1), on a scale of 1 to 5.",
        "A: no error at all: 5\nB: small errors: 4\nC: some errors: 3\nD: many errors: 2\nE: nothing is right: 1",
    ],
)
def test_letters_with_their_scores_are_a_choice(text):
    assert choices_of(text, ScoreRange(1, 5)) == ALL


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Rate it from 1 to 5.",
        "A) excellent\nB) good\nC) fair",  # no scores
        "A) 5",  # one is no choice
        "A) 5\nC) 3",  # B is missing
        "B) 5\nC) 3",
        "A) 5\nB) 5",  # two letters for one score
        "A) 5\nB) 4\nA) 3\nB) 2",  # two scores for one letter
        "A) 7\nB) 5",  # not on the scale
        "A) 2 of 3 facts\nB) 80% of them",
        "Plan A, 5 years; plan B, 4 years",
        "A/5 B/4",
    ],
)
def test_all_else_defines_none(text):
    assert choices_of(text, ScoreRange(1, 5)) == {}


def test_scores_may_be_negative_or_fractions():
    assert choices_of("A) -2\nB) -1\nC) 0", ScoreRange(-2, 2)) == {"A": -2.0, "B": -1.0, "C": 0.0}
    assert choices_of("A: 0.5, B: 1", ScoreRange(0, 1, 0.5)) == {"A": 0.5, "B": 1.0}


@pytest.mark.parametrize(
    ("collection", "dimension"), [("summary", "coherence"), ("dialogue", "overall"), ("cap_summary", "joint")]
)
def test_the_shipped_rubrics_ask_for_numbers(collection, dimension):
    nothing = Example("", "", "", "", "", {})
    text = fill(load_rubrics(collection, [dimension])[dimension], ScoreRange(1, 5), nothing).text
    assert choices_of(text, ScoreRange(1, 5)) == {}
