"""`attacks=all` beside `defenses=all`: every attack that is not learned, in one table, as values all the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgebench.attacks import unlearned_attacks
from judgebench.config.defaults import complete_all
from judgebench.defenses import unlearned_defenses
from judgebench.results.results import Results
from tests.conftest import QUICK, told


def test_all_stands_for_what_is_not_named_besides():
    from omegaconf import OmegaConf

    def completed(**given):
        return OmegaConf.to_container(complete_all(OmegaConf.create(given)))

    assert completed(attacks="all")["attacks"] == unlearned_attacks()
    cot = {"name": "cot", "answer_tokens": 8}
    listed = completed(defenses=["none", "all", cot])["defenses"]
    assert listed[0] == "none"
    assert listed[-1] == cot
    assert "cot" not in listed
    assert {"commit", "sandwich", "instruction", "delimiters"} == set(listed[1:-1])
    assert completed(attacks=["none", "dsi"]) == {"attacks": ["none", "dsi"]}
    # what is learned, or needs labels or a tutor, is not among them
    assert not {"cap", "perplexity", "anchors", "adv_suffix"} & {*unlearned_attacks(), *unlearned_defenses()}


def test_all_of_something_else_is_told(judgebench):
    told(judgebench("attacks=every", mistaken=True), "attacks: 'every' is not a list")


@pytest.mark.slow
def test_one_table_has_every_attack_and_hidden_characters_stay_values(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "decoding=[expectation]", "ranges=[[1,5]]")
    defended = "defenses=[none,{name: commit, own_tokens: 4}]"
    shown = ("attacks=all", defended, "data.limit_groups=2", "data.pass_from=3", "print=all", "report=true")
    _, out, _ = judgebench(*given, *shown, "dimensions=[coherence]")
    results = Results.load("run")
    attacks = [name for name in unlearned_attacks() if name != "none"]
    records = json.loads(Path("run/attack/false_passes.json").read_text())
    assert [row["attack"] for row in records] == ["none", *attacks] * 2
    replaced = {row["attack"] for row in records if row["replaces"]}
    assert replaced == {name for name in attacks if name.startswith(("key_", "null_"))} | {"empty"}
    # one table in the terminal, with a line an attack in each of its parts
    table = out.split("attacks beside defenses")[1].split("Seconds by defense")[0]
    assert table.count("forged_end") == 3
    assert table.count("key_colon") == 3
    # the judge read the characters themselves; the terminal has none that turns a line around
    turned = results.texts[results.texts.attack == "hidden_rtl"].text
    assert turned.str.contains("\u202e").all()
    prompts = results.readings[results.readings.attack == "hidden_rtl"].prompt
    assert prompts.str.contains("\u202eThis text").all()
    assert "\u202e" not in out
    page = Path("run/report.html").read_text("utf-8")
    assert '<span style="color:#fff;background' not in page
