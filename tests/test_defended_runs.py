"""Runs with several defenses, end to end: what is read, what is compared with what, and users' mistakes."""

import json

from judgebench.results.folder import RunFolder
from tests.test_cli import QUICK, pair, told

LEARNED = (
    *("attack=adv_suffix", "attack.length=1", "attack.vocabulary=frequent", "attack.words=6", "search=exhaustive"),
    *("attack.contexts=1", "attack.systems=1", "data.dev_share=0.5", "decoding=[expectation]"),
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


def test_mistakes_are_told(judgebench, tiny_pair):
    told(judgebench("defenses=[sandwhich]", mistaken=True), "defenses: there is no defense 'sandwhich'")
    told(judgebench("defense.seed=-1", mistaken=True), "defense.seed: -1 should ")
    first = judgebench(*pair(tiny_pair), *QUICK, *LEARNED, "defenses=[cot]", mistaken=True)
    told(first, "a phrase is learned under the first one, and under cot its words are not the same tokens")
    tuned = (*pair(tiny_pair), *QUICK, "decoding=[contrastive]", "tune=dev", "defenses=[sandwich]")
    told(judgebench(*tuned, mistaken=True), "add none to defenses")
