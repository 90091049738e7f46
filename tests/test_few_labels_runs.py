"""Runs on many texts of which humans rated few: agreement is that of the rated texts alone."""

import json
import math
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from judgebench.data.pairs import JsonPairs
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError

QUICK = ("logger=none", "metrics.resamples=50", "run_dir=run", "data.dev_share=0", "ranges=[[1,5]]")
REPLAY = (
    "judge=replay",
    "judge.path=answers.jsonl",
    "judge.fields.dimension=dimension",
    "data=jsonl",
    "data.path=mine.jsonl",
    "data.scale=[1,5]",
    "dimensions=[coherence,fluency]",
    *QUICK,
)
DIMENSIONS = ("coherence", "fluency")
SYSTEMS, ARTICLES = 4, 50


def write(name, rows):
    Path(name).write_text("\n".join(map(json.dumps, rows)), "utf-8")


@pytest.fixture
def few(judgebench):
    """200 texts, of which humans rated 20 on coherence and 19 on fluency; and those 20 by themselves."""
    rng = np.random.default_rng(3)
    rows, answers = [], []
    for article in range(ARTICLES):
        for system in range(SYSTEMS):
            name, human = f"a{article}-{system}", int(rng.integers(1, 6))
            judge = int(np.clip(human + rng.integers(-1, 2), 1, 5))
            row = {"example_id": name, "group_id": f"a{article}", "system_id": f"s{system}"}
            row |= {"source": f"Article {article}.", "output": f"Text {name}."}
            if article % 10 == 3:
                row["human"] = {"coherence": {"ann": human, "ben": min(human + system % 2, 5)}, "fluency": 6 - human}
            elif system == 1:
                row["human"] = {"coherence": None}
            elif system == 2:
                row["human"] = None
            rows.append(row)
            answers += [{"example_id": name, "dimension": name_of, "text": str(judge)} for name_of in DIMENSIONS]
    next(row for row in rows if (row.get("human") or {}).get("fluency"))["human"]["fluency"] = None
    write("mine.jsonl", rows)
    write("rated.jsonl", [row for row in rows if (row.get("human") or {}).get("coherence")])
    write("answers.jsonl", answers)
    return judgebench


def records(run):
    """What is said of agreement, by condition and level."""
    names = ("level", "dimension", "n", "groups", "pearson", "spearman", "kendall", "bias_", "missing", "constant")
    return [
        {name: value for name, value in record.items() if name.startswith(names)}
        for record in json.loads(Path(run, "metrics.json").read_text("utf-8"))
    ]


def test_a_run_with_few_ratings_measures_the_rated_texts_alone(few):
    _, out, _ = few(*REPLAY)
    assert "Humans rated 20 on coherence; 19 on fluency of 200 texts" in " ".join(out.split())
    few(*REPLAY, "data.path=rated.jsonl", "data.name=mine", "run_dir=alone", "report=false")
    assert records("run") == records("alone")
    assert [record["n"] for record in records("run") if record["level"] == "dataset"] == [20, 19]
    ours, alone = (json.loads(Path(run, "humans.json").read_text("utf-8")) for run in ("run", "alone"))
    assert ours == alone

    folder = RunFolder.open("run")
    scores, examples = folder.read("scores"), folder.read("examples")
    assert [len(scores), int(scores["human"].notna().sum())] == [400, 39]
    given = [value for values in examples["human"] for value in values]
    assert [len(given), sum(value is not None and value == value for value in given)] == [400, 39]
    assert folder.read("about")["scale"] == {"coherence": [1, 5], "fluency": [1, 5]}
    page = Path("run/report.html").read_text("utf-8")
    assert "Humans rated 20 on coherence; 19 on fluency of 200 texts" in page
    assert "NaN" not in page.partition("<script")[0]


def test_a_scale_is_what_the_given_ratings_span(few):
    few(*REPLAY, "data.scale=null", "report=false", "dimensions=[fluency]")
    given = [row["human"]["fluency"] for row in map(json.loads, Path("rated.jsonl").read_text().splitlines())]
    given = [score for score in given if score is not None]
    assert RunFolder.open("run").read("about")["scale"] == {"fluency": [min(given), max(given)]}


def test_an_unknown_scale_is_what_single_ratings_span_and_not_their_means(few):
    rows = [json.loads(line) for line in Path("rated.jsonl").read_text().splitlines()]
    write("mine.jsonl", [row | {"human": {"coherence": {"ann": 1 + i % 4, "ben": 2}}} for i, row in enumerate(rows)])
    few(*REPLAY, "data.scale=null", "report=false", "dimensions=[coherence]")
    assert RunFolder.open("run").read("about")["scale"] == {"coherence": [1, 4]}


def test_splits_without_a_rated_text_are_told_before_anything_is_read(few):
    _, _, err = few(*REPLAY, "data.dev_share=0.9", "data.seed=2", mistaken=True)
    assert "data.dev_share: none of the groups of the test split has a human score for 'coherence'" in err
    code, _, err = few(*REPLAY, "data.limit_groups=3", mistaken=True)
    assert (code, "has a human score for 'fluency'" in err) == (2, True)


RECORDED = (
    *("judge=recorded", "judge.path=qwen2.5-coder", "data=jsonl", "data.path=code.jsonl", "data.scale=[0,4]"),
    *("data.fields.human=ratings", "data.fields.group_id=group", "data.fields.system_id=system", "prompt.rubrics=code"),
    *("dimensions=[quality]", "ranges=[[0,4]]", "logger=none", "metrics.resamples=20", "report=false"),
)


@pytest.fixture
def code(judgebench):
    """The embedded snippets, those of 24 of 48 intents unrated; and the rated ones by themselves."""
    text = files("judgebench.data").joinpath("conala", "conala.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        row["example_id"] = f"{row['group']}/{row['system']}"
    intents = list(dict.fromkeys(row["group"] for row in rows))
    rated = set(intents[::2])
    write("code.jsonl", [row if row["group"] in rated else row | {"ratings": None} for row in rows])
    write("rated.jsonl", [row for row in rows if row["group"] in rated])
    return judgebench, rated


def test_settings_are_tuned_on_the_rated_texts_alone(code):
    judgebench, rated = code
    judgebench(*RECORDED, "tune=dev", "decoding=[greedy,contrastive]", "data.dev_share=0.5", "run_dir=run")
    folder = RunFolder.open("run")
    scores = folder.read("scores")
    first = scores[scores["decoding"] == "greedy"].drop_duplicates("example_id")
    assert set(first["group_id"][first["human"].notna()]) == rated
    counted = first[first["human"].notna()].groupby("split")["example_id"].nunique().to_dict()
    for record in folder.read("tuning"):
        assert {split: record[f"{split}_examples"] for split in ("dev", "test")} == counted
    _, _, err = judgebench(
        *RECORDED, "tune=dev", "decoding=[greedy,contrastive]", "data.dev_share=0.01", "data.seed=2", mistaken=True
    )
    assert "tune=dev: none of the groups of the development split has a human score for 'quality'" in err


def test_pairs_of_ones_own_need_not_all_have_a_preference(judgebench):
    """Pairs of one's own: of nine, humans compared three."""
    rows = [
        {"group_id": f"g{i}", "source": f"Ask {i}.", "first": f"A {i}.", "second": f"B {i}."}
        | {"first_system": "x", "second_system": "y", "example_id": f"p{i}"}
        | ({"preference": ("first", "second", "tie")[i]} if i < 3 else {})
        for i in range(9)
    ]
    write("pairs.jsonl", rows)
    pairs = JsonPairs("pairs.jsonl", fields={name: name for name in FIELDS})
    pairs.setup()
    assert [None if math.isnan(one.human["overall"]) else one.human["overall"] for one in pairs.examples] == [
        *(1, -1, 0),
        *[None] * 6,
    ]
    write("pairs.jsonl", [{name: value for name, value in row.items() if name != "preference"} for row in rows])
    with pytest.raises(UserError, match=r"pairs.jsonl: no row has a human score for overall"):
        JsonPairs("pairs.jsonl", fields={name: name for name in FIELDS}).setup()


FIELDS = ("source", "first", "second", "first_system", "second_system", "preference")


@pytest.mark.parametrize(
    "more", [("prompt=comparative", "decoding=[greedy]"), ("attacks=[none,dsi]", "decoding=[greedy,contrastive]")]
)
def test_comparisons_and_attacks_leave_unrated_texts_to_the_judge(judgebench, tiny_pair, more):
    rows = [
        {"group_id": f"g{i}", "system_id": system, "source": f"Article {i}.", "output": f"It rained, {system}{i}."}
        | {"example_id": f"{i}{system}"}
        | ({"human": {"coherence": 1 + (i + ord(system)) % 5}} if i < 7 or (i < 8 and system == "a") else {})
        for i in range(10)
        for system in "abc"
    ]
    write("mine.jsonl", rows)
    _, out, _ = judgebench(
        *("judge=local", f"judge.path={tiny_pair[0]}", "assistant=model", f"assistant.path={tiny_pair[1]}"),
        *("data=jsonl", "data.path=mine.jsonl", "data.scale=[1,5]", "data.dev_share=0", "logger=none"),
        *("metrics.resamples=20", "run_dir=run", "tune=none", *more),
    )
    compares = "prompt=comparative" in more
    records = [one for one in RunFolder.open("run").read("metrics") if one["level"] == "dataset"]
    scores = RunFolder.open("run").read("scores")
    rated = scores[scores["human"].notna()].drop_duplicates("example_id")
    assert {record["n"] for record in records} == {len(rated)}
    texts = {one["example_id"] for one in rows if "human" in one}
    assert set(rated["example_id"]) == (
        {name for name in scores["example_id"] if set(name.split("~")) <= texts} if compares else texts
    )
    told = f"Humans rated {len(rated)} of {scores['example_id'].nunique()} {'pairs' if compares else 'texts'}"
    assert told in " ".join(out.split())
