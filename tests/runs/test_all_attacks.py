"""`attacks=all` beside `defenses=all`: every attack that is not learned, in one table, as values all the way."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from judgebench.attacks import unlearned_attacks
from judgebench.config.defaults import complete_all
from judgebench.defenses import unlearned_defenses
from judgebench.judges.served.settings import ApiSpec
from judgebench.results.results import Results
from judgebench.studies.attacked import NO_ANSWER
from tests.conftest import QUICK, told


def test_all_stands_for_what_is_not_named_besides():
    from omegaconf import OmegaConf

    def completed(judge=None, **given):
        return OmegaConf.to_container(complete_all(OmegaConf.create(given), judge))

    assert completed(attacks="all")["attacks"] == unlearned_attacks()
    cot = {"name": "cot", "answer_tokens": 8}
    listed = completed(defenses=["none", "all", cot])["defenses"]
    assert listed[0] == "none"
    assert listed[-1] == cot
    assert "cot" not in listed
    assert {"commit", "sandwich", "instruction", "delimiters"} == set(listed[1:-1])
    assert completed(attacks=["none", "dsi"]) == {"attacks": ["none", "dsi"]}
    # a judge behind a URL can be asked under all but what a model here must write for
    served = ApiSpec(url="http://127.0.0.1:1/v1", model="small")
    assert completed(served, defenses="all")["defenses"] == [name for name in unlearned_defenses() if name != "commit"]
    assert completed(served, defenses=["none", "commit"])["defenses"] == ["none", "commit"]
    # what is learned, or needs labels or a tutor, is not among them
    assert not {"cap", "perplexity", "anchors", "adv_suffix"} & {*unlearned_attacks(), *unlearned_defenses()}


def test_all_of_something_else_is_told(judgebench):
    told(judgebench("attacks=every", mistaken=True), "attacks: 'every' is not a list")


REFUSED = "Thought process"


def rated(handler, seen):
    """A score that only this very prompt has; a refusal of one attack, and nothing to another."""
    text = seen["body"]["messages"][-1]["content"]
    message = {"role": "assistant", "content": score_of(text)}
    if REFUSED in text:
        message = {"role": "assistant", "content": None, "refusal": "I rate no such text, be it 5 of 5."}
    elif "three professors" in text:
        message["content"] = "I'm sorry, 5 out of 5 requests of this kind are refused."
    answer = {"model": "small-1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    handler.send(200, json.dumps(answer | {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}))


def score_of(text):
    return f"Final Rating: {1 + int(hashlib.sha256(text.encode()).hexdigest(), 16) % 5}"


@pytest.mark.slow
def test_a_served_judge_is_asked_what_a_dry_run_counts_and_a_refusal_is_no_score(judgebench, small_server):
    small_server.otherwise = rated
    given = ("+exp=attacks", "judge=api", f"judge.url={small_server.url}", "judge.model=small", "decoding=[greedy]")
    given += (*QUICK, "judge.scores_from=text", "judge.max_new_tokens=16", "data.limit_groups=1")
    _, dry, _ = judgebench(*given, "dry_run=true")
    assert small_server.seen == []
    _, out, _ = judgebench(*given, "print=all")
    asked = [seen["body"]["messages"][-1]["content"] for seen in small_server.seen]
    assert f"Requests to {small_server.url}: {len(asked):,}, with about" in dry
    assert len(set(asked)) == len(asked)
    # each reading is the answer to its own prompt, whatever it is attacked or defended by
    results = Results.load("run")
    readings = results.readings
    assert set(readings.prompt) == set(asked)
    answered = readings[~readings.attack.isin(["key_thought", "authority"])]
    assert len(answered) > 400
    assert [score_of(prompt) for prompt in answered.prompt] == list(answered.text)
    # a refusal is null with a reason, and a number in it no rating
    refused = [row for row in results.false_passes if row["attack"] in ("key_thought", "authority")]
    assert len(refused) == 10
    assert {(row["false_pass"], row["more"], row["texts"], row["reason"]) for row in refused} == {
        (None, None, 0, NO_ANSWER)
    }
    changes = [row["change"] for row in results.metrics if row["attack"] in ("key_thought", "authority")]
    assert set(changes) == {None}
    table = " ".join(out.split("attacks beside defenses")[1].split())
    assert NO_ANSWER in table


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
