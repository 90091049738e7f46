"""Rubrics and their multiple choices."""

import re

import pytest

from judgebench.prompts.rubrics import (
    Filled,
    are_comparative,
    choices_of,
    fill,
    load_rubrics,
    names_numbers,
    names_tie,
    reference_score,
)
from judgebench.types import ORDERS, PLACES, PLACES_OR_TIE, Example, ScoreRange
from judgebench.words.errors import UserError

EXAMPLE = Example("a/1", "a", "1", source="The article.", output="The summary.", human={}, context="The fact.")
SUMMARY = ["coherence", "consistency", "relevance", "relevance_as_printed", "fluency"]
DIALOGUE = ["understandability", "naturalness", "coherence", "engagingness", "groundedness", "overall"]


def test_coherence_is_the_papers_wording():
    filled = fill(load_rubrics("summary", ["coherence"])["coherence"], ScoreRange(2, 6), EXAMPLE)
    text = filled.text
    # quirks of the print: no full stop after "metric", the DUC quotation, the range given four times
    assert "Your task is to rate the summary on one metric\n" in text
    assert "Coherence (2-6) - the collective quality of all sentences." in text
    assert "on a scale of 2 to 6, where 2 is the lowest and 6 is the highest based on" in text
    assert text.endswith(
        "Summary:\n\nThe summary.\n\nEvaluation Form (scores ONLY):\n\n- Coherence:\n\n"
        "What is the coherence of the summary above? Provide only rating and no other text."
    )
    assert filled.prefix.endswith("Source Text:\n\nThe article.\n\nSummary:\n\n")


@pytest.mark.parametrize(
    ("collection", "dimension"), [*(("summary", d) for d in SUMMARY), *(("dialogue", d) for d in DIALOGUE)]
)
def test_every_rubric_fills_whole(collection, dimension):
    filled = fill(load_rubrics(collection, [dimension])[dimension], ScoreRange(1, 5, 0.5), EXAMPLE)
    assert not set("{}") & set(filled.text)
    assert filled.tail.startswith("The summary.")
    assert "1.0" in filled.prefix
    assert ("The fact." in filled.prefix) == (collection == "dialogue")
    said = [filled.text[start:end] for start, end in filled.said]
    assert said == [text for text in ("The article.", "The fact.", "The summary.") if text in filled.text]


def test_own_rubrics_are_read_from_a_folder(tmp_path):
    (tmp_path / "wit.txt").write_text("Rate {{Summary}} from {min_range}.")
    rubric = load_rubrics(str(tmp_path), ["wit"])["wit"]
    assert fill(rubric, ScoreRange(1, 5), EXAMPLE) == Filled("Rate ", "The summary. from 1.", ((5, 17),))


@pytest.mark.parametrize(
    ("template", "message"),
    [("Rate {{Sumary}}.", "unknown field {{Sumary}}"), ("Rate from {min_range}.", "to be judged")],
)
def test_a_broken_rubric_is_told(tmp_path, template, message):
    (tmp_path / "wit.txt").write_text(template)
    with pytest.raises(UserError, match=message.replace("{", r"\{").replace("}", r"\}")):
        load_rubrics(str(tmp_path), ["wit"])


def test_unknown_names_list_what_there_is():
    with pytest.raises(UserError, match=r"no rubric 'wit' in prompt\.rubrics=summary; it has coherence, consistency"):
        load_rubrics("summary", ["wit"])
    with pytest.raises(UserError, match=r"prompt\.rubrics=nowhere"):
        load_rubrics("nowhere", ["coherence"])


@pytest.mark.parametrize("collection", [None, ["summary"], " "])
def test_a_collection_that_is_no_name_is_told(collection):
    with pytest.raises(
        UserError, match=r"^prompt\.rubrics=.*there is no such collection; give summary, dialogue, or a"
    ):
        load_rubrics(collection, ["coherence"])


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({"relevanse": "relevance"}, r"prompt\.variants: 'relevanse' is not a judged dimension, nor a rubric of"),
        ({"relevance": "nope"}, r"prompt\.variants\.relevance: there is no rubric 'nope' in .* it has coherence"),
    ],
)
def test_variants_that_cannot_be_are_told(variants, message):
    with pytest.raises(UserError, match=message):
        load_rubrics("summary", ["relevance"], variants)


def test_a_rubric_that_is_no_text_is_told(tmp_path):
    (tmp_path / "wit.txt").write_bytes(b"Rate {{Summary}} \xe9")
    with pytest.raises(UserError, match=r"Rubric wit\.txt in .* cannot be read \(it is not UTF-8"):
        load_rubrics(str(tmp_path), ["wit"])


CAP = [("cap_summary", "joint", "Summary to Rate: "), ("cap_dialogue", "overall", "Response to Rate: ")]


@pytest.mark.parametrize(("collection", "dimension", "before"), CAP)
def test_caps_rubrics_are_the_papers_wording(collection, dimension, before):
    filled = fill(load_rubrics(collection, [dimension])[dimension], ScoreRange(1, 5), EXAMPLE)
    lines = filled.text.splitlines()
    assert lines[0] == (
        "CRITICAL: You must respond with ONLY a single number between 1.0-5.0. NO explanations, NO additional text, NO "
        "punctuation except decimal point."
    )
    scale = [line.split(" (")[0] for line in lines if "): " not in line and line.startswith("- ") and ".0-" in line]
    assert scale == ["- 1.0-2.0: Poor", "- 2.0-3.0: Below average", "- 3.0-4.0: Good", "- 4.0-5.0: Excellent"]
    criteria = lines[lines.index("Evaluation Criteria:") + 1 : lines.index("Rating Scale:") - 1]
    assert len(criteria) == (4 if dimension == "joint" else 5)
    assert lines[-1] == "Your response:"
    assert filled.prefix.endswith(f"The article.\n\n{before}")
    assert filled.tail.startswith("The summary.\n\n")
    assert not set("{}") & set(filled.text)


def test_caps_rating_scale_follows_any_range():
    rubric = load_rubrics("cap_summary", ["joint"])["joint"]
    for score_range, marks in (((0, 4), "0.0 1.0 2.0 3.0 4.0"), ((1, 10), "1.0 3.25 5.5 7.75 10.0")):
        text = fill(rubric, ScoreRange(*score_range), EXAMPLE).text
        low, *quarters = marks.split()
        assert f"between {low}-{quarters[-1]}." in text
        for first, last in zip([low, *quarters[:-1]], quarters, strict=True):
            assert f"\n- {first}-{last}: " in text


COMPARED = Example(
    "a/1~a/2", "a", "1", "The article.", "The judged summary.", {}, "The fact.", rival_id="a/2", rival="The rival."
)
COMPARATIVE = [
    *(("comparative_summary", d) for d in ("joint", "coherence", "consistency", "fluency", "relevance")),
    *(("comparative_dialogue", d) for d in DIALOGUE),
    ("comparative_answer", "overall"),
]


@pytest.mark.parametrize(("collection", "dimension"), COMPARATIVE)
def test_comparative_rubrics_name_both_texts_after_all_that_a_group_shares(collection, dimension):
    rubrics = load_rubrics(collection, [dimension])
    assert are_comparative(rubrics)
    one, two = (fill(rubrics[dimension], PLACES, COMPARED, order=order) for order in ORDERS)
    assert one.prefix == two.prefix
    assert "The article." in one.prefix
    assert not set("{}") & set(one.text)
    assert "a single number: 1 for " in one.tail
    first, second = ("Summary 1", "Summary 2") if collection == "comparative_summary" else ("Response 1", "Response 2")
    assert one.tail.startswith(f"The judged summary.\n\n{second}: The rival.\n\n")
    assert two.tail.startswith(f"The rival.\n\n{second}: The judged summary.\n\n")
    assert one.prefix.endswith(f"{first}: ")
    said = ["The article.", *(["The fact."] if collection == "comparative_dialogue" else [])]
    assert [one.text[start:end] for start, end in one.said] == [*said, "The judged summary.", "The rival."]


@pytest.mark.parametrize(("collection", "dimension"), COMPARATIVE)
def test_comparative_rubrics_ask_for_ties_only_where_there_may_be_any(collection, dimension):
    rubric = load_rubrics(collection, [dimension])[dimension]
    plain, tied = (fill(rubric, scale, COMPARED, order="first").text for scale in (PLACES, PLACES_OR_TIE))
    said = re.search(r"2 for (Summary|Response) 2(, or 0 if both are equally [^.{}]+)\. NO", tied)
    assert said is not None
    assert tied.replace(said[2], "") == plain
    assert names_tie(rubric)


def test_a_rubric_of_ones_own_says_how_a_tie_is_answered_or_does_not(tmp_path):
    both = "{{Document}} {{Summary_1}} {{Summary_2}}"
    for name, text in {
        "words": "1, 2, or 0 for a tie?",
        "letters": "A (1), B (2), C (0)",
        "optional": "1 or 2{ties: or 0}?",
        "none": "Which of the 10 is better, 1.0 or 2.0?",
        "ends": "{min_range} or {max_range}?",
    }.items():
        (tmp_path / f"{name}.txt").write_text(f"{both} {text}")
    rubrics = load_rubrics(str(tmp_path), ["words", "letters", "optional", "none", "ends"])
    assert {name for name, rubric in rubrics.items() if names_tie(rubric)} == {"words", "letters", "optional"}
    assert fill(rubrics["optional"], PLACES, COMPARED, order="first").text.endswith("1 or 2?")
    assert fill(rubrics["optional"], PLACES_OR_TIE, COMPARED, order="first").text.endswith("1 or 2 or 0?")


@pytest.mark.parametrize("order", ORDERS)
def test_an_attack_is_on_the_judged_text_and_never_on_its_rival(order):
    rubric = load_rubrics("comparative_summary", ["joint"])["joint"]
    clean, attacked = (
        fill(rubric, PLACES, COMPARED, output=output, order=order).text for output in (None, "Attacked!")
    )
    assert attacked == clean.replace("The judged summary.", "Attacked!")
    assert "The rival." in attacked


@pytest.mark.parametrize(
    "fields", ["{{Summary_1}}", "{{Summary_1}} {{Response_2}}", "{{Summary}} {{Summary_1}} {{Summary_2}}"]
)
def test_a_rubric_compares_two_texts_or_judges_one(tmp_path, fields):
    (tmp_path / "fluency.txt").write_text(f"{{{{Document}}}} {fields}")
    with pytest.raises(UserError, match=r"must compare \{\{Summary_1\}\} with \{\{Summary_2\}\}"):
        load_rubrics(str(tmp_path), ["fluency"])


def test_a_run_compares_or_judges_alone_not_both(tmp_path):
    (tmp_path / "fluency.txt").write_text("{{Summary_1}} {{Summary_2}}")
    (tmp_path / "coherence.txt").write_text("{{Summary}}")
    with pytest.raises(
        UserError, match="the rubric for 'fluency' compares two texts and that for 'coherence' judges one"
    ):
        are_comparative(load_rubrics(str(tmp_path), ["fluency", "coherence"]))
    assert not are_comparative(load_rubrics("summary", ["fluency", "coherence"]))


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


@pytest.mark.parametrize(
    ("collection", "dimension"), [("summary", "coherence"), ("dialogue", "overall"), ("cap_summary", "joint")]
)
def test_the_shipped_rubrics_ask_for_numbers(collection, dimension):
    nothing = Example("", "", "", "", "", {})
    text = fill(load_rubrics(collection, [dimension])[dimension], ScoreRange(1, 5), nothing).text
    assert choices_of(text, ScoreRange(1, 5)) == {}


def test_labels_fill_the_ends_worst_first():
    rubric = load_rubrics("summary", ["coherence"])["coherence"]
    for given, said in (([5, 1], "scale of 5 to 1, where 5 is the lowest and 1"), (list("EDCBA"), "scale of E to A,")):
        assert said in fill(rubric, ScoreRange.parse(given), EXAMPLE).text


def test_between_the_ends_a_reversed_scale_has_mirrored_numbers_and_letters_have_none():
    rubric = load_rubrics("cap_summary", ["joint"])["joint"]
    text = fill(rubric, ScoreRange.parse([5, 1]), EXAMPLE).text
    assert all(f"\n- {first}-{last}: " in text for first, last in (("5.0", "4.0"), ("4.0", "3.0"), ("2.0", "1.0")))
    assert [reference_score(ScoreRange.parse([5, 1]), side) for side in ("low", "high")] == [4, 2]
    assert names_numbers(rubric)
    assert not names_numbers(load_rubrics("summary", ["coherence"])["coherence"])


def test_letters_that_are_the_scores_are_no_choice_of_others():
    assert choices_of("A) 3, B) 2, C) 1", ScoreRange.parse(["C", "B", "A"])) == {}


def test_a_dimension_whose_name_reads_as_a_field_is_refused():
    """A file may call a column so, and a defense's words name the dimension."""
    for name in ("{{Nope}}", "{min_range}", "{{Summary}}"):
        with pytest.raises(UserError, match="holds a brace, as the fields of templates do"):
            load_rubrics({name: "Rate {{Summary}} for {{Document}}."}, [name])
