"""`python -m judgebench.plan`: articles to label, from a pilot run."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from judgebench.plan import main
from judgebench.report.formats import general
from judgebench.results.results import Results
from judgebench.stats.few_labels import FewLabels
from judgebench.stats.label_plan import label_plan
from judgebench.stats.scores import Scores, samples_of

ARTICLES, SYSTEMS = 60, 4


@pytest.fixture
def pilot(judgebench):
    """A run folder `few` with ratings of 12 of 60 articles, and one `whole` with ratings of all."""
    rng = np.random.default_rng(5)
    rows, answers = [], []
    for article in range(ARTICLES):
        for system in range(SYSTEMS):
            name, human = f"a{article}-{system}", int(np.clip(round(rng.normal(2.6 + system / 3, 0.9)), 1, 5))
            row = {"example_id": name, "group_id": f"a{article}", "system_id": f"s{system}", "output": f"Text {name}."}
            rows.append(row | {"source": f"Article {article}.", "human": {"coherence": human}})
            judge = np.clip(human + rng.integers(-1, 2), 1, 5)
            answers.append({"example_id": name, "text": str(int(judge))})
    Path("whole.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    few = [row if row["group_id"] in LABELLED else row | {"human": None} for row in rows]
    Path("few.jsonl").write_text("\n".join(map(json.dumps, few)), "utf-8")
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, answers)), "utf-8")
    for name in ("few", "whole"):
        judgebench(
            *("judge=replay", "judge.path=answers.jsonl", "data=jsonl", f"data.path={name}.jsonl", "data.scale=[1,5]"),
            *("data.dev_share=0", "logger=none", "metrics.resamples=20", "report=false", f"run_dir={name}"),
        )
    return judgebench


LABELLED = {f"a{article}" for article in range(0, 60, 5)}


def test_a_plan_says_how_many_articles_and_which(pilot, capfd):
    capfd.readouterr()
    assert main(["few", "within=0.3,0.4", "articles=500", "out=label.csv"]) == 0
    out = capfd.readouterr().out
    results = Results.load("few")
    scores = Scores.of(results.scores)
    (side,) = samples_of(scores, results.readings, results.ratings, results.scale, dataset="few")
    expected = label_plan(FewLabels.of(side), [0.3, 0.4], 500, these=True)
    lines = [line.split() for line in out.splitlines()]
    for record in expected:
        numbers = [general(record["within"]), *(f"{record[name]:,}" for name in ("labels", "predicted", "saved"))]
        assert any(line[-4:] == numbers for line in lines), numbers
    assert "12 of 500 articles labelled" in out
    with Path("label.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    wanted = expected[0]["predicted"] - 12
    listed = list(dict.fromkeys(row["group_id"] for row in written))
    assert len(listed) == min(wanted, 48)
    assert not set(listed) & LABELLED
    assert len(written) == SYSTEMS * len(listed)
    assert {row["example_id"] for row in written} == {f"{g}-{s}" for g in listed for s in range(SYSTEMS)}
    first = Path("label.csv").read_bytes()
    main(["few", "within=0.3,0.4", "articles=500", "out=label.csv"])
    assert Path("label.csv").read_bytes() == first
    main(["few", "within=0.3,0.4", "articles=500", "out=label.csv", "seed=1"])
    assert len(listed) == 48 or Path("label.csv").read_bytes() != first

    assert main(["few"]) == 0
    assert "these very articles (target=like: on articles like these)" in " ".join(capfd.readouterr().out.split())
    assert main(["few", "target=like"]) == 0
    assert "A dash: all these articles are too few" in " ".join(capfd.readouterr().out.split())
    assert main(["few", "within=3", "out=none.csv"]) == 0
    assert "Nothing was written: the 12 labelled articles are enough." in capfd.readouterr().out
    assert not Path("none.csv").exists()


def test_a_run_that_humans_rated_whole_is_a_pilot_too(pilot, capfd):
    capfd.readouterr()
    assert main(["whole", "within=0.2"]) == 0
    assert "60 of 60 articles labelled" in capfd.readouterr().out
    assert main(["whole", "within=0.2", "articles=1000"]) == 0
    assert "60 of 1000 articles labelled" in capfd.readouterr().out
    assert main(["whole", "within=0.2", "out=label.csv"]) == 2
    assert "humans rated a text of every article of this run" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        ([], ["0 run folders are given; give one, as python -m judgebench.plan"]),
        (["nowhere"], ["nowhere: there is no such folder; give one that a run wrote."]),
        (["a", "b"], ["2 run folders are given"]),
        (
            ["nowhere", "within=x", "articles=0", "out=l.txt", "seed=-1"],
            ["nowhere: there", "within=x: it must be", "articles=0:", "out=l.txt: the texts", "seed=-1: it must be"],
        ),
        ([".", "within=0"], ["within=0: it must be a number above 0, or several, as within=0.1,0.2."]),
        ([".", "out=nowhere/l.csv"], ["there is no folder nowhere", "out: as many articles are listed as a width"]),
        ([".", "within=0.2"], [".: not a run folder, for it has no config.yaml"]),
        ([".", "width=0.2"], ["width: there is no such setting; there are within, articles, out, seed, target."]),
        ([".", "within=0.2", "within=0.3"], ["within: it is given twice; give it once."]),
        ([".", "target=all"], ["target=all: it must be these (these very articles) or like (articles like these)."]),
        ([".", "--width"], ["unrecognized arguments: --width; give a run folder, as"]),
    ],
)
def test_mistakes_are_told_together(tmp_path, monkeypatch, capfd, arguments, sentences):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capfd.readouterr().err
    assert err.startswith("judgebench: ")
    for sentence in sentences:
        assert sentence in err
