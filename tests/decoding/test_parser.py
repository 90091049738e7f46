"""The parser of free-text answers against hand-labelled answers, and its promises about any text."""

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judgebench.decoding import parse_answer
from judgebench.decoding.parser import parse_final
from judgebench.types import CLAMPED, FAILED, PARSED, Score, ScoreRange

# Answers as judges write them, each with the score that a careful reader takes from it; null where that is none.
LABELLED = [json.loads(line) for line in Path(__file__).with_name("labelled_answers.jsonl").read_text().splitlines()]

# Answers on 1-5 and the score that a careful reader takes from them.
PARSED_ON_1_5 = [
    # nothing but the score
    ("4", 4),
    (" 4\n", 4),
    ("4.", 4),
    ("4.0", 4),
    ("4.0.", 4),
    ("\n\n4\n\n", 4),
    ("(4)", 4),
    ("[4]", 4),
    ("[[4]]", 4),
    ('"4"', 4),
    ("'4'", 4),
    ("**4**", 4),
    ("`4`", 4),
    ("- 4", 4),
    ("- 4\n", 4),
    (": 4", 4),
    ("４", 4),
    ("4️⃣", 4),
    ("4分", 4),
    ("2,5", 2.5),
    ("2.5", 2.5),
    ("3.5", 3.5),
    ("3½", 3.5),
    ("4!", 4),
    ("★★★★☆", 4),
    ("⭐⭐⭐", 3),
    ("4 ⭐", 4),
    ("4 stars", 4),
    ("4 points", 4),
    ("4<|im_end|>", 4),
    ("4</s>", 4),
    ("$4$", 4),
    ("\\boxed{4}", 4),
    ("The answer is $\\boxed{4}$.", 4),
    # said again
    ("4\n4", 4),
    ("4, 4, 4", 4),
    ("4 4 4 4", 4),
    ("Score: 4\nScore: 4.0", 4),
    ("4\n\nCoherence: 4", 4),
    ("I give it a 4. Score: 4", 4),
    # words
    ("four", 4),
    ("Four.", 4),
    ("Four stars.", 4),
    ("FOUR", 4),
    ("three and a half", 3.5),
    ("Score: four", 4),
    ("scoring a one out of five", 1),
    ("I would give this a three because the order is off.", 3),
    ("I would give this one a 4.", 4),
    ("three out of five", 3),
    # marked
    ("Score: 4", 4),
    ("score:4", 4),
    ("Score 4", 4),
    ("Score = 4", 4),
    ("Score - 4", 4),
    ("Score — 4", 4),
    ("Score → 4", 4),
    ("Score:\n4", 4),
    ("Score: [4]", 4),
    ("Score: #4", 4),
    ("Final score: 4", 4),
    ("**Rating:** 2.5", 2.5),
    ("**Rating: 2.5**", 2.5),
    ("## Rating\n3", 3),
    ("Rating: [[4]]", 4),
    ("Coherence: 3", 3),
    ("- Coherence: 3", 3),
    ("- **Coherence**: 3", 3),
    ("Coherence: 3.", 3),
    ("Coherence (1-5): 4", 4),
    ("Coherence Score: 4", 4),
    ("Coherence 3", 3),
    ("Engagingness: 2\n", 2),
    ("评分：4", 4),
    ("Answer: 4", 4),
    ("Your response: 4", 4),
    ("Score for Summary 3: 4", 4),
    ("Summary 3: 4", 4),
    ("Score (out of 5): 4", 4),
    ("Score: 4 (out of 5)", 4),
    ("Score: 4 (1-5)", 4),
    ("Score: 4 - Good", 4),
    ("Score: 4, 2 of the facts are wrong", 4),
    ("Score: 4 - 2 facts are wrong", 4),
    ("Evaluation Form (scores ONLY):\n- Coherence: 4", 4),
    ('{"score": 4}', 4),
    ('{"score": "4", "reason": "2 errors"}', 4),
    ("{'rating': 4.5}", 4.5),
    ('```json\n{\n  "final_score": 4\n}\n```', 4),
    ("<score>4</score>", 4),
    ("<reasoning>It misses 2 of the 3 facts.</reasoning>\n<score>2</score>", 2),
    ("<think>Perhaps 3? Score: 3. No.</think>\n\n4", 4),
    # fractions and echoes of the scale
    ("4/5", 4),
    ("4 / 5", 4),
    ("4.5/5", 4.5),
    ("4/5.0", 4),
    ("4/5 stars", 4),
    ("Score: 4/5", 4),
    ("Score: 4 of 5", 4),
    ("4 out of 5", 4),
    ("4 out of 5 stars.", 4),
    ("4 stars out of 5", 4),
    ("4 out of a possible 5", 4),
    ("3 out of 5 (incoherent)", 3),
    ("The summary is fairly well organized, so 3 out of 5.", 3),
    ("(1-5): 4", 4),
    ("(1 – 5): 4", 4),
    ("1-5: 4", 4),
    ("[1, 5]: 4", 4),
    ("on a scale of 1 to 5, 3", 3),
    ("On a scale of one to five, three.", 3),
    ("On a scale from 1 to 5, I would rate it a 3.", 3),
    ("On a scale of 1 (worst) to 5 (best), I'd say 3.", 3),
    ("On a scale between 1 and 5, this is a 2", 2),
    ("On a 5-point scale: 4", 4),
    ("From 1 to 5, where 1 is the lowest and 5 is the highest, the score is 2.", 2),
    ("1.0-5.0: 3.2", 3.2),
    ("Coherence Score (1 = lowest, 5 = highest): 3", 3),
    ("Rating (1 being the lowest, 5 the highest): 3", 3),
    ("Score range: 1-5\nScore: 3", 3),
    ("On a scale of 1 to 5: 4", 4),
    ("On a scale from 1 to 5, 4 because it is clear", 4),
    # prose
    ("I would rate this 4 because 2 of the facts are wrong", 4),
    ("I would rate this summary a 4.", 4),
    ("I'd rate the coherence of this summary as 4.", 4),
    ("I would rate Summary 3 as 4", 4),
    ("I would rate this summary 4 out of 5, as it omits 2 names.", 4),
    ("I'd give it a solid 4.", 4),
    ("I give this summary a coherence score of 3.", 3),
    ("The coherence of the summary is 3.", 3),
    ("The score is 4.", 4),
    ("The rating would be 4", 4),
    ("My rating is a 2 at best.", 2),
    ("This summary deserves a 2.", 2),
    ("It is a 4.", 4),
    ("I think it's 4.", 4),
    ("Good (4)", 4),
    ("Therefore, 3.", 3),
    ("Response 3 deserves a 3.5", 3.5),
    ("I'd rate Response 3 at 3.5.", 3.5),
    ("A solid 4.", 4),
    ("I'd go with 3.", 3),
    ("The summary is not coherent, so I rate it 2.", 2),
    ("It covers 3 facts in 2 sentences, scoring a 4.", 4),
    ("Coherence is rated at 2", 2),
    ("4 - the summary is clear", 4),
    ("4: clear and to the point", 4),
    ("4. The summary is clear and has 3 main points in order.", 4),
    ("4 because it is clear.", 4),
    ("4\n\nExplanation: the first 2 sentences repeat the 3 facts.", 4),
    ("4\n\nThe article says that 12 people were hurt in 2013.", 4),
    ("4. I would have given a 5, but the ending is abrupt.", 4),
    ("I would not give it a 5. My score is 3.", 3),
    ("The article from 2013 has 12 facts; the summary keeps 2 of them. I'd give it a 3.", 3),
    # the answer after reasoning
    ("1. Coverage: it names 2 of the 5 people.\n2. Clarity: clear.\nFinal Rating: 3", 3),
    ("Coverage: 4\nClarity: 2\nFluency: 5\nFinal Rating: 3.5", 3.5),
    ("Coverage assessment: 4/5\nClarity assessment: 2/5\nOverall: 3", 3),
    ("Overall Assessment: 3\nFinal Rating: 4", 4),
    ("Step 1: I count 3 facts. Step 2: 1 is wrong.\n\n**Final Rating:** 4", 4),
    ("Final Rating:\n\n4.0", 4),
    ("Final Rating: [4.5]", 4.5),
    ("The final rating is therefore: 4", 4),
    ("Rating: 4\nConfidence: 5", 4),
    ("A score of 5 would need better order. Score: 3", 3),
    ("Final Rating: [Provide a single number between 1.0-5.0]\nFinal Rating: 2", 2),
]

FAILED_ON_1_5 = [
    # nothing to read
    "",
    " \n",
    "The summary is coherent.",
    "N/A",
    "Score: N/A",
    "Score:",
    "excellent",
    "nan",
    "Coherence:",
    # refusals
    "I cannot rate this summary.",
    "I'm sorry, but as an AI I cannot assign a score from 1 to 5.",
    "I cannot give a score between 1 and 5 without the article.",
    "I can't give this a 4.",
    "I would not give this a 5.",
    # the scale, no answer
    "1-5",
    "(1-5)",
    "on a scale of 1 to 5",
    "between 1 and 5",
    "Final Rating: [Provide a single number between 1.0-5.0]",
    "Please rate on a scale of one to five.",
    # several answers
    "3 or 4",
    "3-4",
    "3 to 4",
    "between 3 and 4",
    "Score: 3-4",
    "Score: 3 or 4",
    "I would rate this 3 to 4.",
    "4\n3",
    "1 2 3 4 5",
    "1, 2, 3, 4, or 5",
    "1,2,3",
    "Score: 3\nScore: 4",
    "Final rating: 3. Final rating: 4.",
    "Coverage: 4\nClarity: 2",
    "I'd give it a 3. Then again, I'd give it a 4.",
    "1: poor\n2: fair\n3: good",
    "1. The opening is poor. I'd rate the rest 4.",
    "4\n\nQuestion: What is 2+2?\nAnswer: 5",
    # another scale
    "7/10",
    "4/10",
    "Score: 8 out of 10",
    "On a scale of 1 to 10, I would rate it 4.",
    # digits inside reasoning
    "The summary misses 2 facts.",
    "Two of the facts are wrong.",
    "2 of the facts are wrong and 3 are missing.",
    "The article was published in 2013.",
    "There are 3 sentences, of which 1 is wrong",
    "GPT-4 wrote it",
    "This is the 4th summary.",
    "80%",
    "Number of errors: 3",
    "It ended 3:2.",
    "Version 1.2.3",
    "Summary 2",
    "The summary gets 2 facts wrong.",
    "A+",
    "Summary 2 is better.",
    "No one is named.",
    "One of the sentences repeats another.",
    "1. Read the article.\n2. Read the summary.\n3. Rate it.",
    "Explanation: 2 of the facts are wrong",
    "<think>Let me see. Score: 4",
]

OTHERS = [
    # out of range
    ((1, 5), "10", 5, CLAMPED),
    ((1, 5), "Score: 10", 5, CLAMPED),
    ((1, 5), "I would rate it 7.", 5, CLAMPED),
    ((1, 5), "6/5", 5, CLAMPED),
    ((1, 5), "0", 1, CLAMPED),
    ((1, 5), "Score: 0", 1, CLAMPED),
    ((1, 5), "Rating: 0.5", 1, CLAMPED),
    ((1, 5), "-1", 1, CLAMPED),
    ((1, 5), "Score: -1", 1, CLAMPED),
    ((2, 6), "1", 2, CLAMPED),
    ((3, 7), "zero", 3, CLAMPED),
    ((1, 5), "9" * 400, 5, CLAMPED),
    # other ranges
    ((0, 4), "0", 0, PARSED),
    ((0, 4), "Score (0-4): 3", 3, PARSED),
    ((0, 4), "3/4", 3, PARSED),
    ((0, 4), "4/5", 0, FAILED),
    ((2, 6), "Coherence (2-6): 5", 5, PARSED),
    ((2, 6), "on a scale of 2 to 6, 3", 3, PARSED),
    ((3, 7), "between 3 and 7: 4", 4, PARSED),
    ((1, 10), "10", 10, PARSED),
    ((1, 10), "10/10", 10, PARSED),
    ((1, 10), "1", 1, PARSED),
    ((1, 10), "ten out of ten", 10, PARSED),
    ((1, 10), "an 8", 8, PARSED),
    ((1, 10), "7/10", 7, PARSED),
    ((0, 100), "85%", 85, PARSED),
    ((0, 100), "85/100", 85, PARSED),
    ((0, 100), "Score: 85 / 100", 85, PARSED),
    ((0, 1000), "1,000", 1000, PARSED),
    ((1, 5, 0.5), "3.5", 3.5, PARSED),
    ((0, 1, 0.1), "0.7", 0.7, PARSED),
    ((0, 1, 0.1), ".7", 0.7, PARSED),
    ((0, 1, 0.1), "0,7", 0.7, PARSED),
    # negative scores
    ((-2, 2), "-1", -1, PARSED),
    ((-2, 2), "−1", -1, PARSED),
    ((-2, 2), "Score: -1", -1, PARSED),
    ((-2, 2), "Score -1", -1, PARSED),
    ((-2, 2), "-2 to 2: -1", -1, PARSED),
    ((-2, 2), "(-2 - 2): 1", 1, PARSED),
    ((-2, 2), "I would rate this -2.", -2, PARSED),
    ((-2, 2), "-3", -2, CLAMPED),
    ((-2, 2), "+1", 1, PARSED),
    ((-5, -1), "-3", -3, PARSED),
]


@pytest.mark.parametrize(("text", "value"), PARSED_ON_1_5)
def test_a_readable_answer_is_read(text, value):
    assert parse_answer(text, ScoreRange(1, 5)) == Score(value, PARSED)


@pytest.mark.parametrize("text", FAILED_ON_1_5)
def test_what_names_no_single_score_has_failed(text):
    assert parse_answer(text, ScoreRange(1, 5)) == Score(1, FAILED)


MISREAD = {
    *("Score: 4-", "A human would give it 5, a strict reader 2.", "Coherence: 4 → after rereading: 3"),
    "between three and four, so 3.5",
}
"""Labelled answers that the parser is known to read otherwise than a person does."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.xfail(strict=True) if row["text"] in MISREAD else ()) for row in LABELLED],
    ids=lambda row: row["text"][:40],
)
def test_answers_are_read_as_a_person_reads_them(row):
    score_range = ScoreRange(*row["range"])
    expected = Score(score_range.minimum if row["score"] is None else row["score"], row["status"])
    assert parse_answer(row["text"], score_range, row.get("choices")) == expected


def test_what_markup_parts_is_not_joined():
    assert parse_answer("\\frac{4}{5}", ScoreRange(1, 5)) == Score(4, PARSED)
    assert parse_answer("2.\\frac{4}{5}", ScoreRange(1, 5)).value != 2.4


@pytest.mark.parametrize(("ends", "text", "value", "status"), OTHERS)
def test_ranges_and_their_ends(ends, text, value, status):
    assert parse_answer(text, ScoreRange(*ends)) == Score(value, status)


@st.composite
def ranges(draw):
    step = draw(st.sampled_from([0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10]))
    start = draw(st.integers(-40, 40))
    steps = draw(st.integers(1, 30))
    scale = 100
    unit = round(step * scale)
    return ScoreRange(start * unit / scale, (start + steps) * unit / scale, step)


FRAMES = [
    *("{}", " {}\n", "{}.", "({})", "[[{}]]", "**{}**", "`{}`", "<score>{}</score>", "\\boxed{{{}}}", "[RESULT] {}"),
    *("Score: {}", "**Rating:** {}", "Final score: {}", "Overall rating: {}", "Rating = {}", '{{"score": {}}}'),
    *("The score is {}.", "I would rate this {} because two of the facts are wrong.", "I'd give it a {}."),
    *("{}\n\nWhy: it is.", "{} - it is clear", "Hence {}.", "It is of 2013.\nScore: {}", "<think>0?</think>{}"),
]  # fmt: skip
OF_THE_SCALE = ["{}/{high}", "{} out of {high}", "On a scale of {low} to {high}, {}.", "Score ({low}-{high}): {}"]


@given(ranges())
def test_every_candidate_in_any_frame_reads_as_itself(score_range):
    low, high = score_range.candidates[0], score_range.candidates[-1]
    for candidate, value in zip(score_range.candidates, score_range.values, strict=True):
        frames = [frame.format(candidate) for frame in FRAMES]
        frames += [frame.format(candidate, low=low, high=high) for frame in OF_THE_SCALE]
        for text in frames:
            assert parse_answer(text, score_range) == Score(value, PARSED), text


LETTER_FRAMES = [
    *("{}", "{}.", "({})", "[[{}]]", "**{}**", "{}) as it is", "{}: it is clear", "Answer: {}", "answer: {}"),
    *("<answer>{}</answer>", "The answer is {}.", "The answer is ({}).", "Option {}", "\\boxed{{{}}}"),
    *("I choose {} because it is clear.", '{{"choice": "{}"}}', "Final answer: {}", "I'd give it a {}."),
    "A good text, all in all.\nAnswer: {}",
]  # fmt: skip


@given(ranges(), st.permutations("ABCDEFGH"))
def test_every_letter_in_any_frame_reads_as_its_score(score_range, drawn):
    choices = dict(zip(drawn, score_range.values, strict=False))
    told = "\n".join(f"{letter}) {score_range.text(value)}" for letter, value in choices.items())
    for letter, value in choices.items():
        for frame in LETTER_FRAMES:
            text = frame.format(letter)
            assert parse_answer(text, score_range, choices) == Score(value, PARSED), text
        if len(choices) > 1:  # the choices told again choose nothing
            assert parse_answer(f"{told}\n\nAnswer: {letter}", score_range, choices) == Score(value, PARSED)
            assert parse_answer(told, score_range, choices).status == FAILED
    assert parse_final(f"{told}\nFinal rating: {drawn[0]}", score_range, choices).value == choices[drawn[0]]


SNIPPETS = st.sampled_from(
    [
        *[
            "⟦",
            "⟧",
            "⟦4.0⟧",
            "a",
            "between",
            "and",
            "to",
            "or",
            "<think>",
            "</think>",
            "{",
            "}",
            "★",
            "½",
            "ten",
            "%",
            "²",
        ],
        "4",
        "5",
        "1-5",
        "-1",
        " ",
        "\n",
        "/",
        ".",
        ",",
        ":",
        "score",
        "rating",
        "final",
        "out of",
        "of",
        "I rate this",
        "not",
        *("A", "b", "(C)", "answer", "option", "*"),
    ]
)


@settings(max_examples=400)
@given(
    st.one_of(st.text(), st.lists(SNIPPETS, max_size=20).map(" ".join), st.lists(SNIPPETS, max_size=20).map("".join)),
    ranges(),
)
@example("⟦x⟧ score: ⟦nan⟧", ScoreRange(1, 5))
@example("٤", ScoreRange(1, 5))
@example("Score: 1e400", ScoreRange(1, 5))
def test_any_text_gives_a_score_in_range(text, score_range):
    choices = dict(zip("ABCDE", score_range.values, strict=False))
    for score in (parse_answer(text, score_range), parse_answer(text, score_range, choices)):
        assert score_range.minimum <= score.value <= score_range.maximum
        assert score.status in (PARSED, FAILED, CLAMPED)
        assert math.isfinite(score.value)
        if score.status == FAILED:
            assert score.value == score_range.minimum


@pytest.mark.parametrize(
    "text",
    [
        "4 " * 5000,
        "." * 20000,
        "-." * 10000,
        "\n" * 20000,
        "a" * 20000,
        "score " * 4000,
        "not give " * 3000,
        "1, " * 5000,
        "(" * 20000,
        "score:" * 4000,
        "1. a " * 4000,
        "4/" * 8000,
        "9" * 20000,
        "9," * 8000,
        "final a a " * 3000,
        "x: " * 6000,
        "4" + "-." * 10000 + "x",
        "\n4." * 5000,
        "between 1 and " * 2000,
        " .\n" * 8000,
        "A) " * 7000,
        "option (" * 3000,
        "A" + ")." * 8000,
    ],
)
def test_long_and_odd_texts_are_read_in_time(text):
    start = time.process_time()
    parse_answer(text, ScoreRange(1, 5))
    parse_answer(text, ScoreRange(1, 5), {"A": 5.0, "B": 4.0})
    assert time.process_time() - start < 2
