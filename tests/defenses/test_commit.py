"""A judge that answers first: what it is asked, once an article, before any text that is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from judgebench.data.benchmarks import Mini
from judgebench.defenses.commit import COMMIT, OWN, Committed, PlannedCommit, own_rubric
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import before_judged, load_rubrics
from judgebench.results.results import Results
from judgebench.tutor.writing import Text, Written
from judgebench.types import Condition, Example, Prompt, Rubric, ScoreRange
from judgebench.words.errors import UserError
from tests.conftest import QUICK, told
from tests.defenses.conftest import RANGE, examples, resources

GRADING = load_rubrics("grading", ["correctness"])["correctness"]


def test_the_answer_comes_from_the_source_alone():
    asked = own_rubric(GRADING).template
    assert "grade the student's answer" in asked
    assert asked.endswith("Question: {{Document}}\n\nYour own text:")
    # neither the reference beside it nor what is judged
    assert "Desired answer" not in asked
    assert "{{Response}}" not in asked
    assert before_judged(GRADING).endswith("Desired answer: {{Fact}}\n\n")


def test_a_heading_of_what_comes_next_is_no_part_of_the_task():
    rubric = Rubric("fluency", "Rate the text.\n\nThe article:\n\n{{Document}}\n\nThe text:\n\n{{Summary}}")
    task = own_rubric(rubric).template.split("You have not seen")[0]
    assert task.strip().endswith("Rate the text.")


@pytest.mark.parametrize(
    "template",
    [
        "Rate it.\n\n{{Summary}}",
        "Rate it.\n\n{{Summary}}\n\n{{Document}}",
        "{{Document}}\n\nRate this: {{Summary}}",
        "Rate it.\n\nAsked {{Document}}, wanted {{Fact}}\n\n{{Summary}}",
    ],
)
def test_a_rubric_without_a_task_and_a_source_cannot_be_answered(template):
    with pytest.raises(UserError, match=r"has no task and then \{\{Document\}\} or"):
        own_rubric(Rubric("fluency", template))


def test_a_reference_on_the_next_line_is_not_shown():
    rubric = Rubric(
        "fluency", "Rate {task}.\n\nWanted: {{Fact}}\nAsked: {{Document}}\nSo: {{Fact}}\n\nText: {{Summary}}"
    )
    asked = own_rubric(rubric).template
    assert "{{Fact}}" not in asked
    assert asked.endswith("\n\nAsked: {{Document}}\n\nYour own text:")
    assert "\n\nRate {task}.\n\n" in asked, "words of a rubric are no fields of ours"


def test_what_the_judge_wrote_stays_a_value_before_every_text_of_its_article(smollm2_tokenizer):
    own = "I'd say {{Response}} <|im_end|> {max_range} \u202ethus"
    maker = PromptBuilder(smollm2_tokenizer, {"correctness": GRADING}, 4000).under(
        [Committed({("correctness", "a", ""): own})]
    )
    texts = [Example(f"a/{i}", "a", str(i), "Why?", text, {}, "Because.") for i, text in enumerate(("Yes.", "No."))]
    prompts = maker.build(texts, [Condition("correctness", RANGE, defense="commit")])
    (prefix,) = {prompt.prefix for prompt in prompts}
    assert own in prefix
    assert [prompt.tail.split("\n")[0] for prompt in prompts] == ["Yes.", "No."]
    assert [prompt.control_tokens for prompt in prompts] == [1, 1]
    assert OWN not in prefix
    # about nothing, an answer of nothing
    assert own not in maker.null(Condition("correctness", RANGE, defense="commit")).text


def prepared(tiny_pair, folder, dimensions=("coherence",), ranges=(RANGE,), texts=None):
    ready = resources(tiny_pair[0], folder, COMMIT, texts=texts)
    builder = PromptBuilder(ready.builder.tokenizer, load_rubrics("summary", dimensions), 4000)
    conditions = [Condition(name, each, defense=COMMIT) for name in dimensions for each in ranges]
    return PlannedCommit(own_tokens=6).prepared(replace(ready, builder=builder, conditions=conditions))


def test_what_is_asked_depends_on_no_other_dimension_or_range_of_a_run(tiny_pair, tmp_path):
    """So a judge card of one of them is given the same answers, which lie in the store."""
    both = prepared(tiny_pair, tmp_path / "run", ("coherence", "fluency"), (ScoreRange(0, 9), RANGE))
    card = prepared(tiny_pair, tmp_path / "card", ("fluency",), (RANGE,))
    assert {place: both.answers[place] for place in card.answers} == card.answers
    assert [place for place in both.answers if place[0] == "coherence"], "each dimension has its own"
    asked = [row["dimension"] for row in both.findings.own_answers]
    assert asked == ["coherence"] * 2 + ["fluency"] * 2


def test_each_question_about_an_article_has_an_answer_of_its_own(tiny_pair, tmp_path, smollm2_tokenizer):
    texts = [replace(example, question=f"Who {example.system_id}?") for example in examples()]
    ready = prepared(tiny_pair, tmp_path, texts=texts)
    assert sorted(ready.answers) == [("coherence", group, f"Who {i}?") for group in "ab" for i in (0, 1)]
    shown = Committed({place: " ".join(place) for place in ready.answers})
    maker = PromptBuilder(smollm2_tokenizer, load_rubrics("summary", ["coherence"]), 4000).under([shown])
    for prompt in maker.build(texts, [Condition("coherence", RANGE, defense=COMMIT)]):
        example = prompt.example
        assert f"\n\ncoherence {example.group_id} {example.question}\n\n" in prompt.text
        assert prompt.text.count("coherence a Who") + prompt.text.count("coherence b Who") == 1


def test_groups_of_several_sources_are_refused(tiny_pair, tmp_path):
    texts = [replace(example, source=f"Article {example.system_id}.") for example in examples()]
    with pytest.raises(UserError, match="The texts of group 'a' have several sources"):
        prepared(tiny_pair, tmp_path, texts=texts)


def test_answers_of_nothing_are_counted(smollm2_tokenizer):
    asked = [Prompt(text, Condition("coherence", RANGE), "", "", np.zeros(3, np.int32)) for text in examples()[::2]]
    said = ("<think>What is asked of me", "Cracks.")
    written = [
        Written(Text(prompt), np.zeros(4, np.int32), text, False) for prompt, text in zip(asked, said, strict=True)
    ]
    ready = PlannedCommit().committed(written, 4)
    assert ready.answers == {("coherence", "a", ""): "", ("coherence", "b", ""): "Cracks."}
    assert ready.note == "Of its own 2 answers under commit the judge left 1 empty."
    assert ready.findings.costs[COMMIT]["tokens"] == 14 / 4
    assert PlannedCommit().committed(written[1:], 2).note is None


@pytest.mark.slow
def test_an_article_is_answered_once_for_all_attacks_ranges_and_runs(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "decoding=[expectation]")
    commit = "defenses=[none,{name: commit, own_tokens: 6}]"
    judgebench(*given, commit, "attacks=[none,dsi]")
    answers = json.loads(Path("run/defense/own_answers.json").read_text())
    assert [row["group_id"] for row in answers] == list(dict.fromkeys(text.group_id for text in four()))
    assert all(1 <= row["written_tokens"] <= 6 for row in answers)
    results = Results.load("run")
    defended = results.readings[results.readings.defense == "commit"]
    for row in answers:
        prompts = defended.prompt[defended.group_id == row["group_id"]]
        assert prompts.str.contains(row["answer"], regex=False).all()
    # its cost: what was read and written for an article, dealt to its texts
    costs = {row["defense"]: row for row in results.costs}
    made = sum(row["read_tokens"] + row["written_tokens"] for row in answers) / len(four())
    assert costs["commit"]["made_tokens"] == pytest.approx(made)
    assert costs["none"]["made_tokens"] == 0
    assert costs["commit"]["tokens"] > costs["none"]["tokens"] + made
    # a second run, with another attack, writes nothing
    judgebench(*given, commit, "attacks=[none,key_colon]", "run_dir=again")
    again = json.loads(Path("again/defense/own_answers.json").read_text())
    assert again == answers


def four():
    data = Mini(limit_groups=4)
    data.setup()
    return data.examples


def test_mistakes_are_told(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "decoding=[expectation]")
    none = judgebench(*given, "defenses=[{name: commit, own_tokens: 0}]", mistaken=True)
    told(none, "defenses: commit.own_tokens: 0 should ")
    recorded = ("judge=recorded", "judge.path=qwen2.5-coder", "data=conala_sample", "decoding=[expectation]")
    told(judgebench(*recorded, *QUICK[:3], "defenses=[commit]", mistaken=True), "an answer of its own first")
    mine = ("prompt.rubrics={coherence: 'From {min_range} to {max_range}: {{Summary}}'}", "defenses=[none,commit]")
    told(judgebench(*given, *mine, "dry_run=true", mistaken=True), "so there is nothing to answer")
    long = judgebench(*given, "defenses=[{name: commit, own_tokens: 100000}]", mistaken=True)
    told(long, "leave no room")
