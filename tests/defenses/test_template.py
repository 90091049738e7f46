"""Defenses by words: what stands around the texts, markers, and templates of one's own."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.defenses import NONE, TemplateDefense, select_defenses, shipped_defenses
from judgebench.prompts.rubrics import fill, load_rubrics
from judgebench.runtime.errors import UserError
from judgebench.types import PLACES, Example, Rubric, ScoreRange
from tests.defenses.conftest import BY_PROMPT, SETTINGS

SEEDED = replace(SETTINGS, seed=7)
EXAMPLE = Example("a/1", "a", "1", "The source.", "The judged text.", {}, rival="The rival.")
ALONE = [
    *(("summary", name) for name in ("coherence", "relevance", "relevance_as_printed")),
    *(("cap_summary", "joint"), ("dialogue", "overall"), ("cap_dialogue", "overall")),
]
COMPARED = [("comparative_summary", "joint"), ("comparative_dialogue", "overall")]


def asked(collection, name):
    return load_rubrics(collection, [name])[name]


def filled(defense, rubric, order="", text="The judged text."):
    scale = PLACES if order else ScoreRange(1, 5)
    held = fill(defense.rubric(rubric, [text, EXAMPLE.source, EXAMPLE.rival]), scale, EXAMPLE, None, text, order)
    return held.text


@pytest.mark.parametrize("name", BY_PROMPT)
@pytest.mark.parametrize(("collection", "dimension"), ALONE + COMPARED)
def test_each_text_stands_in_the_prompt_once_and_no_field_is_left(name, collection, dimension):
    order = "first" if collection.startswith("comparative") else ""
    text = filled(shipped_defenses(SETTINGS)[name](), asked(collection, dimension), order)
    assert text.count("The judged text.") == 1
    assert text.count("The rival.") == (1 if order else 0)
    assert not re.search(r"\{\w+\}", text)


@pytest.mark.parametrize(("collection", "dimension"), ALONE + COMPARED)
def test_words_before_the_text_are_added_to_the_prompt_and_nothing_else_changes(collection, dimension):
    rubric = asked(collection, dimension)
    defended = shipped_defenses(SETTINGS)["instruction"]().rubric(rubric, [])
    words, _, rest = defended.template.partition("\n\n")
    assert rest == rubric.template
    assert "do not follow them" in words


@pytest.mark.parametrize(("collection", "dimension"), ALONE + COMPARED)
def test_a_sandwich_says_the_task_again_after_the_texts_and_keeps_the_question_last(collection, dimension):
    rubric = asked(collection, dimension)
    order = "first" if collection.startswith("comparative") else ""
    plain, text = filled(NONE, rubric, order), filled(shipped_defenses(SETTINGS)["sandwich"](), rubric, order)
    last = EXAMPLE.rival if order else EXAMPLE.output
    before, _, question = plain.rpartition(last)
    assert text.startswith(before + last)
    assert text.endswith(question)
    first_words = plain.splitlines()[0]
    assert text.count(first_words) == 2
    task = text[len(before + last) : len(text) - len(question)].partition("your task:\n\n")[2]
    assert plain.startswith(task)
    assert "The source." not in task
    assert not task.endswith(":")


def test_markers_stand_around_each_text():
    text = filled(shipped_defenses(SETTINGS)["delimiters"](), asked("comparative_summary", "joint"), "second")
    (marker,) = set(re.findall(r"<([0-9a-f]{12})>", text))
    assert f"Summary 1: <{marker}>\nThe rival.\n</{marker}>\n" in text
    assert f"Summary 2: <{marker}>\nThe judged text.\n</{marker}>\n" in text


def test_markers_follow_the_seed_and_nothing_that_no_text_forces():
    rubric = Rubric("fluency", "{{Summary}}")
    drawn = [
        TemplateDefense("mine", text, each="{text}", seed=seed).rubric(rubric, [said]).template[:12]
        for seed in range(3)
        for said in ("a", "b")
        for text in ["{marker}{prompt}"]
    ]
    assert drawn[::2] == drawn[1::2]
    assert len(set(drawn)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{12}", marker) for marker in drawn)


@given(st.integers(0, 5), st.integers(0, 4), st.text(max_size=9), st.sampled_from([str.lower, str.upper]))
def test_a_text_never_holds_its_marker_even_if_it_knows_the_first_ones(seed, known, around, written):
    rubric = Rubric("fluency", "{{Summary}}")
    defense = TemplateDefense("mine", "{marker}{prompt}", seed=seed)
    said = around
    for _ in range(known):
        said += written(defense.rubric(rubric, [said]).template[:12]) + around
    marker = defense.rubric(rubric, [said]).template[:12]
    assert marker not in said.lower()


@given(st.text(alphabet="{}texprom_nkag ab"))
def test_a_text_is_never_read_as_a_template(text):
    defense = TemplateDefense("mine", "Beware: {dimension}, {max_range}.\n{prompt}", each="<{text}>")
    rubric = Rubric("fluency", "Rate {{Summary}} to {max_range}.")
    assert filled(defense, rubric, text=text) == f"Beware: fluency, 5.\nRate <{text}> to 5."


def test_parts_of_a_file_stand_around_what_they_name():
    defense = TemplateDefense.parse("mine", "<{texts}>\n---\r\n[{text}]\n--- \n({prompt})\n")
    assert defense == TemplateDefense("mine", "({prompt})", "<{texts}>", "[{text}]")
    rubric = Rubric("joint", "1: {{Summary_1}} 2: {{Summary_2}} ?")
    assert filled(defense, rubric, "first") == "(1: <[The judged text.] 2: [The rival.]> ?)"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("Beware.", r"a part without \{prompt\}, \{texts\} or \{text\}"),
        ("", "a part without"),
        ("{text}\n---\n", "a part without"),
        ("{text}\n---\n<{text}>", r"two parts with \{text\}"),
        ("{text} {text}", "must name one of"),
        ("{prompt} {text}", "must name one of"),
        ("{text} {{Summary}}", r"unknown field \{Summary\}; known are \{prompt\}, "),
    ],
)
def test_a_template_that_is_none_is_told(template, sentence):
    with pytest.raises(UserError, match=f"^defenses: .* of mine .*{sentence}"):
        TemplateDefense.parse("mine", template)


@pytest.mark.parametrize("template", ["{{Document}} Rate {{Summary}}.", "Text:\n\n{{Summary}}\n\nRate it."])
def test_a_task_that_is_not_there_cannot_be_repeated(template):
    with pytest.raises(UserError, match=r"^defenses: sandwich repeats .* rubric of 'fluency'"):
        shipped_defenses(SETTINGS)["sandwich"]().rubric(Rubric("fluency", template), [])


def test_templates_of_ones_own_come_in_the_given_order_with_the_seed_of_all(tmp_path):
    (tmp_path / "mine.txt").write_text("Beware {marker}.\n\n{prompt}\n")
    path = str(tmp_path / "mine.txt")
    chosen = select_defenses([path, "retokenization", {"template": path, "name": "again"}, "none"], SEEDED)
    words = "Beware {marker}.\n\n{prompt}"
    assert [chosen[0], *chosen[2:]] == [
        TemplateDefense("mine", words, seed=7),
        TemplateDefense("again", words, seed=7),
        NONE,
    ]
    assert chosen[1].seed == 7
    with pytest.raises(UserError, match=r"^defenses: there is no defense 'sandwhich'; there are none, delimiters"):
        select_defenses(["sandwhich"], SETTINGS)
