"""Runs with several defenses, and with some that look at the texts, end to end; and users' mistakes."""

import json
from pathlib import Path

import pytest

from judgebench.defenses.detection import WARNING
from judgebench.results.folder import RunFolder
from tests.conftest import QUICK, pair, told

SALAD = "{text} moss 7ulip zinc Verfügbar ;; oblique cask )) tern"
SPLIT = ("data.dev_share=0.5", "decoding=[expectation]")


@pytest.fixture
def asked(tiny_pair, judgebench):
    """The judge and its attacks, in the test's own working folder."""
    Path("salad.txt").write_text(SALAD)
    return ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SPLIT, "attacks=[none,dsi,salad.txt]")


def detectors(folder="run"):
    return json.loads(Path(folder, "defense", "detectors.json").read_text())


def test_where_texts_are_compared_each_is_looked_at_by_itself(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SPLIT, "prompt=comparative")
    given = (*given, "dimensions=[joint]", "ranges=[[1,2]]", "attacks=[none,dsi]", "data.limit_groups=2")
    judgebench(*given, "defenses=[none,perplexity]")
    readings = RunFolder.open("run").read("readings")
    mine = readings[readings.defense == "perplexity"]
    (record,) = detectors()
    assert record["training"]["n_clean"] == 6
    warnings = mine.prompt.str.count(WARNING.strip())
    assert set(warnings) <= {0, 1, 2}
    assert warnings.sum() > 0


def test_mistakes_of_detectors_are_told(judgebench, asked):
    learned = (*asked, "attacks=[{name: adv_suffix, length: 1, words: 6}]", "search=exhaustive")
    told(judgebench(*learned, "defenses=[perplexity]", mistaken=True), "put none first")
    _, out, _ = judgebench(*asked, "defenses=[perplexity]", "dry_run=true")
    assert "Not shown: the prompts under perplexity" in out
    told(judgebench("defenses=[{name: perplexity, detectors: nowhere.json}]", mistaken=True), "cannot be read")


LEARNED = (
    "attacks=[{name: adv_suffix, length: 1, vocabulary: frequent, words: 6, contexts: 1, systems: 1}]",
    *("search=exhaustive", "data.dev_share=0.5", "decoding=[expectation]"),
)


def test_a_phrase_is_learned_under_the_first_defense_and_judged_with_under_all(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *LEARNED)
    judgebench(*given, "defenses=[delimiters,none,sandwich]")
    folder = RunFolder.open("run")
    phrase = json.loads((folder.path / "attack" / "phrase.json").read_text())
    assert phrase["learned"]["defense"] == "delimiters"
    readings = folder.read("readings")
    held = readings[readings.attack == "adv_suffix_1"]
    assert set(held.defense) == {"delimiters", "none", "sandwich"}
    assert held.prompt.str.contains(f" {phrase['phrase']}\n", regex=False).all()


def test_mistakes_of_several_defenses_are_told(judgebench, tiny_pair):
    told(judgebench("defenses=[sandwhich]", mistaken=True), "defenses: there is no defense 'sandwhich'")
    seed = "defenses=[{name: delimiters, seed: -1}]"
    told(judgebench(seed, mistaken=True), "defenses: delimiters.seed: -1 should ")
    first = judgebench(*pair(tiny_pair), *QUICK, *LEARNED, "defenses=[cot]", mistaken=True)
    told(first, "a phrase is learned under the first one, and under cot its words are not the same tokens")
    tuned = (*pair(tiny_pair), *QUICK, "decoding=[contrastive]", "tune=dev", "defenses=[sandwich]")
    told(judgebench(*tuned, mistaken=True), "add none to defenses")
