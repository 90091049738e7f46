"""Runs with several defenses, end to end: what is read, what is compared with what, and users' mistakes."""

import json

from judgebench.results.folder import RunFolder
from tests.test_cli import QUICK, pair, told

DEFENSES = ("none", "sandwich", "delimiters")
ASKED = (*QUICK, f"defenses=[{','.join(DEFENSES)}]", "attacks=[none,dsi]", "data.limit_groups=2")
LEARNED = (
    *("attack=adv_suffix", "attack.length=1", "attack.vocabulary=frequent", "attack.words=6", "search=exhaustive"),
    *("attack.contexts=1", "attack.systems=1", "data.dev_share=0.5", "decoding=[expectation]"),
)


def test_each_attack_is_read_and_compared_under_each_defense(judgebench, tiny_pair):
    given = (
        f"judge.path={tiny_pair[0]}",
        "judge=local",
        "assistant=null_context",
        "decoding=[expectation,contrastive]",
    )
    _, out, _ = judgebench(*given, *ASKED, "report=true", "print=all")
    folder = RunFolder.open("run")
    readings, scores = folder.read("readings"), folder.read("scores")
    assert len(readings) == 2 * 6 * 2 * 3
    # by text and attack: the words of sandwich and delimiters are read
    wide = readings.pivot(index=["example_id", "attack"], columns="defense", values="prompt")
    assert (wide["none"] != wide["sandwich"]).all()
    assert (wide["none"] != wide["delimiters"]).all()
    # the assistant is asked about nothing under the same defense, attacked or not
    said = readings.assistant_logprobs.map(tuple).groupby(readings.defense)
    assert (said.nunique() == 1).all()
    assert said.first().nunique() == 3
    test = scores[(scores.split == "test") & (scores.judge == "main") & (scores.decoding == "expectation")]
    means = test.groupby(["defense", "attack"]).score.mean()
    records = [
        r
        for r in folder.read("metrics")
        if (r["split"], r["judge"], r["decoding"], r["level"]) == ("test", "main", "expectation", "dataset")
        and r["attack"] == "dsi"
    ]
    assert [r["defense"] for r in records] == list(DEFENSES)
    for record in records:
        assert abs(record["change"] - (means[record["defense"], "dsi"] - means[record["defense"], "none"])) < 1e-9
    assert "defense delimiters" in out
    assert "defense delimiters" in (folder.path / "report.html").read_text()


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
