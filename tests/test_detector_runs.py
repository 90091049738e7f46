"""Runs whose defenses look at the texts, end to end: what is found and saved, used again, and users' mistakes."""

import json
from pathlib import Path

import pytest

from judgebench.defenses.detection import WARNING
from judgebench.results.folder import RunFolder
from tests.test_cli import QUICK, told

SALAD = "{text} moss 7ulip zinc Verfügbar ;; oblique cask )) tern"
SPLIT = ("data.dev_share=0.5", "decoding=[expectation]")


@pytest.fixture
def asked(tiny_pair, judgebench):
    """The judge and its attacks, in the test's own working folder."""
    Path("salad.txt").write_text(SALAD)
    return ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SPLIT, "attacks=[none,dsi,salad.txt]")


def detectors(folder="run"):
    return json.loads(Path(folder, "defense", "detectors.json").read_text())


def test_thresholds_are_found_on_development_texts_and_warn_of_the_others(judgebench, asked):
    judgebench(*asked, "defenses=[none,perplexity]")
    folder = RunFolder.open("run")
    readings = folder.read("readings")
    (record,) = detectors()
    split = dict(zip(readings.group_id, readings.split, strict=True))
    assert record["defense"] == "perplexity"
    wide = readings.pivot(index=["example_id", "attack"], columns="defense", values="prompt")
    tested = readings.groupby("example_id").split.first() == "test"
    training, test = record["training"], record["test"]
    assert training["groups"] == sorted(group for group in split if split[group] == "dev")
    assert training["attacks"] == ["dsi", "salad"]
    assert (training["n_clean"], training["n_attacked"]) == (12, 24)
    assert (test["n_clean"], test["n_attacked"]) == (12, 24)
    assert training["f1"] == pytest.approx(max(_f1(record["curve"])))
    # a prompt differs from the undefended one by the warning and by nothing else
    mine = wide[record["defense"]]
    assert (mine.str.replace(WARNING, "", regex=False) == wide["none"]).all()
    warned = mine.str.contains(WARNING, regex=False).unstack()[tested]
    assert test["false_positive_rate"] == pytest.approx(warned["none"].mean())
    assert test["recall"] == pytest.approx(warned[["dsi", "salad"]].to_numpy().mean())
    assert test["recall_by_attack"] == pytest.approx(warned[["dsi", "salad"]].mean().to_dict())
    costs = {each["defense"]: each for each in json.loads(Path("run/defense/costs.json").read_text())}
    assert costs["perplexity"]["text_seconds"] > 0
    assert costs["perplexity"]["once_seconds"] > 0
    # a saved detector is used again: without an attack there is nothing to fit on, and nothing needs to be
    file = "defense.detectors=run/defense/detectors.json"
    judgebench(*asked, "defenses=[perplexity]", file, "attacks=[none]", "run_dir=again")
    again = RunFolder.open("again").read("readings")
    held = readings.set_index(["example_id", "defense", "attack"]).prompt
    assert all(held[row.example_id, row.defense, "none"] == row.prompt for row in again.itertuples())
    (used,) = detectors("again")
    assert {**used, "test": None} == {**record, "test": None}
    assert used["test"]["false_positive_rate"] == record["test"]["false_positive_rate"]
    assert (used["test"]["n_attacked"], used["test"]["recall"]) == (0, None)
    other_split = (*asked, file, "data.seed=3", "defenses=[perplexity]")
    _, _, err = judgebench(*other_split, "run_dir=leaking", mistaken=True)
    assert "of the groups that this run tests on" in err
    assert not Path("leaking").exists()


def _f1(curve):
    return [2 * p * r / (p + r) if p + r else 0.0 for p, r in zip(curve["precision"], curve["recall"], strict=True)]


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


def test_mistakes_are_told(judgebench, asked):
    learned = (*asked, "attacks=[none]", "attack=adv_suffix", "attack.length=1", "attack.words=6", "search=exhaustive")
    told(judgebench(*learned, "defenses=[perplexity]", mistaken=True), "put none first")
    _, out, _ = judgebench(*asked, "defenses=[perplexity]", "dry_run=true")
    assert "Not shown: the prompts under perplexity" in out
    told(judgebench("defense.detectors=nowhere.json", "defenses=[perplexity]", mistaken=True), "cannot be read")
