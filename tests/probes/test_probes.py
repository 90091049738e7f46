"""Probes: one thing changes, all else stays to the letter."""

from __future__ import annotations

import difflib
import time
from typing import ClassVar

import pytest
from omegaconf import OmegaConf

from judgebench.config.defaults import complete_all
from judgebench.data.markdown import has_markdown, plain_words
from judgebench.probes import select_probes, shipped_probes
from judgebench.probes.prompts import reversed_criteria
from judgebench.types import Condition, Example, Rubric, ScoreRange
from judgebench.words.errors import UserError

CONDITION = Condition("quality", ScoreRange(1, 5))
TEXT = "The weather was fine {text} all day, and **nobody** complained about it.\n\n- one\n- two"


def probed(name: str, text: str = TEXT) -> str:
    [probe] = select_probes({"audit": [name]})
    return probe.part.judged(Example("a", "g", "model-x", "", text, {}), CONDITION)


@pytest.mark.parametrize("name", ["neutral_sentence", "doubled", "whitespace", "system_shown"])
def test_words_of_templates_stand_around_the_text_to_the_letter(name):
    assert TEXT in probed(name)
    assert probed(name) != TEXT
    assert ("model-x" in probed(name)) == (name == "system_shown")
    assert probed(name).count(TEXT) == (2 if name == "doubled" else 1)


def test_whitespace_alone_changes():
    assert probed("whitespace").strip() == TEXT


def test_a_typo_a_hundred_words_swaps_two_letters():
    text = " ".join(["weather"] * 250)
    words = zip(probed("typos", text).split(" "), text.split(" "), strict=True)
    changed = [(new, old) for new, old in words if new != old]
    assert len(changed) == 2
    assert all(sorted(new) == sorted(old) and new[0] == old[0] and new[-1] == old[-1] for new, old in changed)
    assert probed("typos", text) == probed("typos", text)
    assert probed("typos", "a bb 12") == "a bb 12"


@pytest.mark.parametrize(
    ("text", "marked", "plain"),
    [
        ("# Plan\n\n1. **Read** the `code`.", True, "Plan\n\nRead the code."),
        ("See [here](https://example.org/a).", True, "See here."),
        ("```python\nx = 1\n```\n", True, "x = 1\n"),
        # code and sums are no Markdown
        ("# a comment\nx[0](y)\nf(**kw)", False, None),
        ("2 * 3 * 4, __init__ and `quoted`", False, None),
        ("- one dash alone", False, None),
    ],
)
def test_markdown_is_known_and_taken_off(text, marked, plain):
    assert has_markdown(text) == marked
    assert plain_words(text) == (text if plain is None else plain)
    assert not marked or not has_markdown(plain_words(text))


def test_criteria_change_places_and_nothing_else():
    rubric = "Rate it.\n\nEvaluation criteria:\n\n1. Truth - is it right?\n2. Style\n3. Length\n\nText: {{Summary}}"
    turned = reversed_criteria(rubric)
    assert turned.splitlines()[4:7] == ["1. Length", "2. Style", "3. Truth - is it right?"]
    assert [line for line in difflib.ndiff(rubric.splitlines(), turned.splitlines()) if line[0] in "+-"]
    assert reversed_criteria(turned) == rubric
    assert reversed_criteria("Steps:\n1. Read\n2. Rate\n{{Summary}}") == "Steps:\n1. Read\n2. Rate\n{{Summary}}"


def test_the_reference_is_that_of_another_group():
    class Data:
        examples: ClassVar = [
            Example(str(n), f"g{n}", "s", "", "text", {}, context=f"reference {n // 2}") for n in range(6)
        ]

    [probe] = select_probes({"audit": ["wrong_reference"]})
    assert not probe.neutral
    part = probe.part.fitted(Data(), [])
    for example in Data.examples:
        [shown] = part.more(example, CONDITION).values()
        assert shown.startswith("reference ")
        assert shown != example.context
    rubric = part.rubric(Rubric("quality", "Wanted: {{Fact}} Text: {{Response}}"), [])
    assert rubric.template == "Wanted: {{Other_reference}} Text: {{Response}}"
    # without references a text keeps what it has
    assert probe.part.more(Example("a", "g", "s", "", "text", {}), CONDITION) == {"Other_reference": ""}


def test_users_add_their_own_by_file(tmp_path):
    (tmp_path / "polite.txt").write_text("{text} Thank you.\n")
    (tmp_path / "hurry.txt").write_text("Be quick.\n\n{prompt}\n")
    entries = [str(tmp_path / "polite.txt"), {"template": str(tmp_path / "hurry.txt"), "neutral": False}]
    polite, hurry = select_probes({"audit": entries})
    assert polite.condition == ("probe polite", "none")
    assert polite.neutral
    assert hurry.condition == ("none", "probe hurry")
    assert not hurry.neutral
    assert len(select_probes({"audit": [*shipped_probes()]})) == 10


@pytest.mark.parametrize(
    ("entries", "says"), [(["nothing"], "there is no probe 'nothing'"), (["typos", "typos"], "two")]
)
def test_mistakes_are_named(entries, says):
    with pytest.raises(UserError, match=says):
        select_probes({"audit": entries})


def test_a_line_of_dashes_takes_no_time():
    text = "**b**\n" + "-" * 20_000 + "x"
    before = time.process_time()
    assert plain_words(text) == text.replace("**", "")
    assert time.process_time() - before < 5
    assert plain_words("**b**\n\n---\n| --- | :-: |\nc") == "b\n\nc"


def test_a_template_of_texts_names_the_text(tmp_path):
    (tmp_path / "mine.txt").write_text("An answer.")
    with pytest.raises(UserError, match=r"no \{text\}"):
        select_probes({"audit": [str(tmp_path / "mine.txt")]})


def test_the_part_of_a_probe_has_its_name():
    """By which results tell its condition from attacks and defenses."""
    part = {"_target_": "judgebench.attacks.TemplateAttack", "name": "mine", "template": "{text}!"}
    probe = {"_target_": "judgebench.probes.Probe", "name": "mine", "part": part, "condition": ["mine", "none"]}
    with pytest.raises(UserError, match=r"'mine' is called 'mine'; call it 'probe mine'"):
        select_probes({"audit": [probe]})


def test_all_stands_for_every_probe_once():
    config = complete_all(OmegaConf.create({"audit": ["typos", "all"]}), None)
    assert config.audit[0] == "typos"
    assert sorted(config.audit) == sorted(shipped_probes())
    assert complete_all(OmegaConf.create({"audit": None}), None).audit is None
