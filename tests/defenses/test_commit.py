"""A judge that answers first: what it is asked, once an article, before any text that is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgebench.data.benchmarks import Mini
from judgebench.defenses.commit import OWN, Committed, own_rubric
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import before_judged, load_rubrics
from judgebench.results.results import Results
from judgebench.types import Condition, Example, Rubric
from judgebench.words.errors import UserError
from tests.conftest import QUICK, told
from tests.defenses.conftest import RANGE

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


def test_a_rubric_without_a_source_cannot_be_answered():
    with pytest.raises(UserError, match=r"has no \{\{Document\}\} or"):
        own_rubric(Rubric("fluency", "Rate it.\n\n{{Summary}}"))


def test_what_the_judge_wrote_stays_a_value_before_every_text_of_its_article(smollm2_tokenizer):
    own = "I'd say {{Response}} <|im_end|> {max_range} \u202ethus"
    maker = PromptBuilder(smollm2_tokenizer, {"correctness": GRADING}, 4000).under([Committed({"a": own})])
    texts = [Example(f"a/{i}", "a", str(i), "Why?", text, {}, "Because.") for i, text in enumerate(("Yes.", "No."))]
    prompts = maker.build(texts, [Condition("correctness", RANGE, defense="commit")])
    (prefix,) = {prompt.prefix for prompt in prompts}
    assert own in prefix
    assert [prompt.tail.split("\n")[0] for prompt in prompts] == ["Yes.", "No."]
    assert [prompt.control_tokens for prompt in prompts] == [1, 1]
    assert OWN not in prefix
    # about nothing, an answer of nothing
    assert own not in maker.null(Condition("correctness", RANGE, defense="commit")).text


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
    long = judgebench(*given, "defenses=[{name: commit, own_tokens: 100000}]", mistaken=True)
    told(long, "leave no room")
