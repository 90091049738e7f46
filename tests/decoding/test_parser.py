"""The parser of free-text answers against hand-labelled answers, and its promises about any text."""

import json
import math
import sys
import time
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from judgebench.decoding import parse_answer, parser, thoughts
from judgebench.decoding.parser import parse_final, parse_place
from judgebench.types import CLAMPED, FAILED, PARSED, Score, ScoreRange

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from fuzzing.answers import RUNS, seconds_of_run

# Answers as judges write them, and answers of each kind, with the score that a careful reader takes from them; null
# where that is none.
LABELLED = [
    json.loads(line)
    for name in ("labelled_answers.jsonl", "answers_by_kind.jsonl")
    for line in Path(__file__).with_name(name).read_text("utf-8").split("\n")
    if line
]

MISREAD = {
    *("Score: 4-", "A human would give it 5, a strict reader 2.", "Coherence: 4 → after rereading: 3"),
    "between three and four, so 3.5",
}
"""Labelled answers that the parser is known to read otherwise than a person does."""


THOUGHTS = {
    "<think>Maybe. {}": "</think>",
    "<think>A. <think>B. {}</think>": "C.</think>",
    "<think>A. <reasoning>B. {}</think>No. <think>C.": "</think>",
    "<THINKING>\n{}\n": "</THINKING>",
    "<thought effort='high'>{}": "</thought>",
    "<seed:think>{}": "</seed:think>",
    "<reasoning>Clear. {}\n": "</reasoning>",
    "<scratchpad>{}": "</scratchpad>",
    "<|channel|>analysis<|message|>Clear. {}<|end|><|start|>assistant": "<|channel|>final<|message|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>commentary<|message|>So": "<|channel|>final",
    "analysisWe rate it. {}": "assistantfinal",
    "<|begin_of_thought|>{}": "<|end_of_thought|>",
    "<|START_THINKING|>{}": "<|END_THINKING|>",
    "◁think▷{}": "◁/think▷",
    "[THINK]{}": "[/THINK]",
    "<thought_process>{}": "</thought_process>",
    "<reasoning_content>It is clear.\n{}": "</reasoning_content>",
    "<chain-of-thought>{}": "</chain-of-thought>",
    "<unused94>thought\n{}": "<unused95>",
    "<|channel>thought\n{}": "<channel|>",
    "&lt;think&gt;{}": "&lt;/think&gt;",
    "&#60;analysis&#62;{}": "&#60;/analysis&#62;",
    "<inner_monologue>Hm. {}": "</inner_monologue>",
    "<evidence from='the text'>Hm. {}": "</evidence>",
    "\n  <Draft>\n<Step>Hm.</Step> {}": "</Draft>",
    "&lt;deliberate&gt;Hm. {}": "&lt;/deliberate&gt;",
}


@pytest.mark.parametrize("thoughts", THOUGHTS)
@pytest.mark.parametrize("verdict", ["Final Rating: 4", "Score: 4", "4"])
def test_no_score_comes_out_of_thoughts(thoughts, verdict):
    text = thoughts.format(f"\n{verdict}\n")
    closed = f"{text}{THOUGHTS[thoughts]}"
    assert parse_answer(text, ScoreRange(1, 5)).status == FAILED
    assert parse_final(text, ScoreRange(1, 5)).status == FAILED
    assert parse_answer(closed, ScoreRange(1, 5)).status == FAILED
    assert parse_answer(f"{closed}\n2", ScoreRange(1, 5)) == Score(2.0, PARSED)
    assert parse_final(f"{closed}\nFinal Rating: 2", ScoreRange(1, 5)) == Score(2.0, PARSED)
    assert parse_place(thoughts.format("\nSummary 1\n")).status == FAILED


MEANT = ("score", "Rating", "answer", "verdict", "evaluation", "output", "json", "b", "li")


@given(
    st.from_regex(r"[a-zA-Z][a-zA-Z]{0,12}([_-][a-z]{1,8})?", fullmatch=True),
    st.sampled_from(["Score: 2", "I would rate it 2.", "Final Rating: 2\n", "Say 2/5.\n\nOr so.", "<score>2</score>"]),
    st.sampled_from(["\n4", "4", " Score: 4", "\n<score>4</score>", "\n\nFinal Rating: 4"]),
    st.sampled_from(["<{}>", "&lt;{}&gt;", "<{} kind='quick'>"]),
)
def test_what_stands_in_a_tag_of_no_known_meaning_is_no_answer(name, inside, verdict, written):
    assume(not thoughts._KNOWN.search(name))
    opened = f"{written.format(name)}Well. {inside}"
    closed = opened + written.partition(" ")[0].rstrip(">").replace("{}", f"/{name}") + ("" if "&" in written else ">")
    assert parse_answer(opened, ScoreRange(1, 5)).status == FAILED
    assert parse_answer(closed + verdict, ScoreRange(1, 5)) == Score(4.0, PARSED)
    assert parse_answer(f"<score>4</score>\n{closed}", ScoreRange(1, 5)) == Score(4.0, PARSED)


@pytest.mark.parametrize("name", MEANT)
def test_what_stands_in_a_tag_of_a_known_meaning_or_is_a_value_is_read(name):
    for text in (f"<{name}>4</{name}>", f"<{name}>\n4\n</{name}>", f"<{name}>4/5</{name}>", f"<{name}>\nScore: 4"):
        assert parse_answer(text, ScoreRange(1, 5)) == Score(4.0, PARSED), text


def test_a_field_and_a_tag_that_is_spoken_of_are_no_thoughts():
    for text in ("<coherence>4</coherence>", "<tone>\n4\n</tone>", "<Tone> 4", "<tone>4 out of 5</tone>"):
        assert parse_answer(text, ScoreRange(1, 5)) == Score(4.0, PARSED), text
    assert parse_answer("<tone>B</tone>", ScoreRange.parse(["C", "B", "A"])) == Score(2.0, PARSED)
    for text in ("<review><score>4</score></review>", "<doc>\n<reasoning>2 of 3.</reasoning>\n<score>4</score></doc>"):
        assert parse_answer(text, ScoreRange(1, 5)) == Score(4.0, PARSED), text
    said = "It has a stray <foo> and List<int> in it. Score: 4"
    assert parse_answer(said, ScoreRange(1, 5)) == Score(4.0, PARSED)


def test_tags_of_no_known_meaning_take_linear_time():
    for text in ("<a>4\n", "<aa>4</aa>\n", "<a>\n", "<a", "&lt;a&gt;b c"):
        began = time.perf_counter()
        thoughts.answer_in(text * (100_000 // len(text)))
        assert time.perf_counter() - began < 2, text


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.xfail(strict=True) if row["text"] in MISREAD else ()) for row in LABELLED],
    ids=lambda row: row["text"][:40],
)
def test_answers_are_read_as_a_person_reads_them(row):
    score_range = ScoreRange(*row["range"])
    expected = Score(score_range.minimum if row["score"] is None else row["score"], row["status"])
    assert parse_answer(row["text"], score_range, row.get("choices")) == expected


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
        *("⟦", "⟧", "⟦4.0⟧", "a", "between", "and", "to", "or", "<think>", "</think>", "{", "}", "★", "½", "ten"),
        *("%", "²", "4", "5", "1-5", "-1", " ", "\n", "/", ".", ",", ":", "score", "rating", "final", "out of"),
        *("of", "I rate this", "not", "A", "b", "(C)", "answer", "option", "*"),
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


ALSO_RUNS = [
    *("4 ", ".", "-.", "a", "score ", "1, ", "1. a ", "4/", "9", "9,", "final a a ", "x: ", "\n4.", " .\n", "option ("),
    *("summary 1 ", "[", ").", "1-", "\\frac{1}{", "overall: ", "I give ", "is ", "answer "),
]  # fmt: skip


@pytest.mark.parametrize("unit", [*RUNS, *(pytest.param(unit, marks=pytest.mark.exhaustive) for unit in ALSO_RUNS)])
def test_time_is_linear_in_the_length_of_a_run(unit, monkeypatch):
    monkeypatch.setattr(parser, "LONGEST", 10**9)

    def seconds(length):
        return min(seconds_of_run(unit, length) for _ in range(2))

    # 8 times the length: 8 times the time if linear, 64 times if quadratic; what is over at once cannot be compared
    assert seconds(16_000) < 24 * max(seconds(2_000), 0.005)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Score: 5. " + "It is long. " * 20_000 + "Score: 4", 4),  # the end counts
        ("Score: 5. " + "It is long. " * 20_000, None),
        ("word " * 20_000 + "2014 - as said", None),  # half of a number that is cut is not one
        ("4 - as said. " + "It is long. " * 5_000, 4),  # not too long
        ("<think>" + "Score: 5. " * 20_000 + "</think>4 - as said", 4),  # reasoning is not counted
        ("<think>" + "Score: 5. " * 20_000, None),
        ("Final answer: B\n" + "[THINK]hm" * 20_000, 2),
    ],
)
def test_of_a_very_long_answer_the_end_is_read(text, value, capsys):
    letters = {"A": 1.0, "B": 2.0} if "B" in text else None
    parsed = parse_answer(text, ScoreRange(1, 5), letters)
    assert parsed == (Score(1, FAILED) if value is None else Score(value, PARSED))
    parser.warn_of_cut([text, "Score: 4"])
    assert capsys.readouterr().err == (
        "judgebench: 1 answer is longer than 100,000 characters; only the last 100,000 are searched for the score, and "
        "the text itself is stored whole.\n"
        if len(text) > 100_000 and "hink>" not in text.lower() and "THINK" not in text
        else ""
    )


GRADES, WORDED = ScoreRange.parse(list("EDCBA")), ScoreRange.parse(["poor", "good", "very good"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("B", 4), ("b", 4), ("(B)", 4), ("**B**", 4), ("Rating: B", 4), ("Rating: b.", 4), ("Option B", 4)),
        *(("I would give it a B because 2 facts are wrong.", 4), ("Coherence: D", 2), ("The answer is A.", 5)),
        *(("On a scale of E to A, I'd say C.", 3), ("(A-E) rating: D", 2), ("E, D, C, B, A. Rating: A", 5)),
        *((text, None) for text in ("4", "Rating: 4", "B or C", "B/A", "B+", "A good summary.", "", "F")),
    ],
)
def test_where_letters_are_the_scores_numbers_are_none(text, value):
    assert parse_answer(text, GRADES) == (Score(1, FAILED) if value is None else Score(value, PARSED))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("good", 2), ("GOOD.", 2), ("Very good", 3), ("Rating: very  good", 3), ("Good point. Rating: poor", 1)),
        *(("I'd rate it as good.", 2), ("The coherence is good.", 2), ("poor to very good: good", 2)),
        *((text, None) for text in ("It is not good.", "Rating: goodness", "good or poor", "a good amount", "3")),
    ],
)
def test_a_longer_label_is_not_read_as_the_shorter_one_in_it(text, value):
    assert parse_answer(text, WORDED) == (Score(1, FAILED) if value is None else Score(value, PARSED))


@given(ranges(), st.data())
def test_a_reversed_scale_reads_the_mirrored_score(score_range, data):
    backward = ScoreRange.parse([score_range.maximum, score_range.minimum, score_range.step])
    said = data.draw(st.sampled_from(score_range.candidates))
    for frame in ("{}", "Rating: {}", "I would rate it {} because of its facts."):
        forward = parse_answer(frame.format(said), score_range)
        mirrored = parse_answer(frame.format(said), backward)
        assert mirrored.status == forward.status
        assert mirrored.value == pytest.approx(score_range.minimum + score_range.maximum - forward.value)


def test_what_is_off_a_reversed_scale_is_clamped_to_the_end_that_it_is_beyond():
    assert parse_answer("Rating: 7", ScoreRange.parse([5, 1])) == Score(1, CLAMPED)
    assert parse_answer("Rating: 0", ScoreRange.parse([5, 1])) == Score(5, CLAMPED)
    assert parse_answer("On a scale of 5 to 1: 2", ScoreRange.parse([5, 1])) == Score(4, PARSED)
    assert parse_answer("no", ScoreRange.parse([5, 1])) == Score(1, FAILED)
