"""Runs on many texts of which humans rated few: agreement is that of the rated texts alone."""

import json
from importlib.resources import files

import numpy as np
import pytest

from judgebench.results.folder import RunFolder
from tests.conftest import write_rows

QUICK = ("logger=none", "metrics.resamples=20", "run_dir=run", "data=jsonl", "data.path=mine.jsonl")
REPLAY = (
    *("judge=replay", "judge.path=answers.jsonl", "judge.fields.dimension=dimension", "dimensions=[coherence,fluency]"),
    *("data.scale=[1,5]", "data.dev_share=0", "ranges=[[1,5]]", "report=false", *QUICK),
)


@pytest.fixture
def few(judgebench):
    """200 texts, of which humans rated 20 on coherence and 19 on fluency; and those 20 by themselves."""
    rng = np.random.default_rng(3)
    rows, answers = [], []
    for article in range(50):
        for system in range(4):
            name, human = f"a{article}-{system}", int(rng.integers(1, 6))
            judge = int(np.clip(human + rng.integers(-1, 2), 1, 5))
            row = {"example_id": name, "group_id": f"a{article}", "system_id": f"s{system}"}
            row |= {"source": f"Article {article}.", "output": f"Text {name}."}
            if article % 10 == 3:
                row["human"] = {"coherence": {"ann": human, "ben": min(human + system % 2, 5)}, "fluency": 6 - human}
            elif system in (1, 2):
                row["human"] = {"coherence": None} if system == 1 else None
            rows.append(row)
            answers += [{"example_id": name, "dimension": of, "text": str(judge)} for of in ("coherence", "fluency")]
    next(row for row in rows if (row.get("human") or {}).get("fluency"))["human"]["fluency"] = None
    write_rows("mine.jsonl", rows)
    write_rows("rated.jsonl", [row for row in rows if (row.get("human") or {}).get("coherence")])
    write_rows("answers.jsonl", answers)
    return judgebench


def test_a_run_with_few_ratings_measures_the_rated_texts_alone(few):
    few(*REPLAY)
    few(*REPLAY, "data.path=rated.jsonl", "data.name=mine", "run_dir=alone")
    ours, alone = RunFolder.open("run"), RunFolder.open("alone")
    assert ours.read("humans") == alone.read("humans")
    names = ("level", "dimension", "n", "groups", "pearson", "spearman", "kendall", "bias_", "missing", "constant")
    figures = [
        [{name: value for name, value in record.items() if name.startswith(names)} for record in folder.read("metrics")]
        for folder in (ours, alone)
    ]
    assert figures[0] == figures[1]
    assert [record["n"] for record in figures[0] if record["level"] == "dataset"] == [20, 19]
    assert [len(ours.read("scores")), int(ours.read("scores")["human"].notna().sum())] == [400, 39]
    assert ours.read("about")["scale"] == {"coherence": [1, 5], "fluency": [1, 5]}


def test_splits_without_a_rated_text_are_refused_before_anything_is_read(few):
    _, _, err = few(*REPLAY, "data.dev_share=0.9", "data.seed=2", mistaken=True)
    assert "data.dev_share: none of the groups of the test split has a human score for 'coherence'" in err
    code, _, err = few(*REPLAY, "data.limit_groups=3", mistaken=True)
    assert (code, "has a human score for 'fluency'" in err) == (2, True)


def test_settings_are_tuned_on_the_rated_texts_alone(judgebench):
    """The embedded snippets, those of 24 of 48 intents unrated."""
    rows = files("judgebench.data").joinpath("conala", "conala.jsonl").read_text("utf-8").splitlines()
    rows = [row | {"example_id": f"{row['group']}/{row['system']}"} for row in map(json.loads, rows)]
    rated = set(list(dict.fromkeys(row["group"] for row in rows))[::2])
    write_rows("mine.jsonl", [row if row["group"] in rated else row | {"ratings": None} for row in rows])
    run = (
        *("judge=recorded", "judge.path=qwen2.5-coder", "prompt.rubrics=code", "dimensions=[quality]", "report=false"),
        *("data.fields.human=ratings", "data.fields.group_id=group", "data.fields.system_id=system", "ranges=[[0,4]]"),
        *("data.scale=[0,4]", "tune=dev", "decoding=[greedy,contrastive]", *QUICK),
    )
    judgebench(*run, "data.dev_share=0.5")
    folder = RunFolder.open("run")
    scores = folder.read("scores")
    first = scores[scores["decoding"] == "greedy"].drop_duplicates("example_id")
    assert set(first["group_id"][first["human"].notna()]) == rated
    counted = first[first["human"].notna()].groupby("split")["example_id"].nunique().to_dict()
    for record in folder.read("tuning"):
        assert {split: record[f"{split}_examples"] for split in ("dev", "test")} == counted
    _, _, err = judgebench(*run, "data.dev_share=0.01", "data.seed=2", mistaken=True)
    assert "tune=dev: none of the groups of the development split has a human score for 'quality'" in err


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
    write_rows("mine.jsonl", rows)
    judges = ("judge=local", f"judge.path={tiny_pair[0]}", "assistant=model", f"assistant.path={tiny_pair[1]}")
    _, out, _ = judgebench(*judges, "data.scale=[1,5]", "data.dev_share=0", "tune=none", *QUICK, *more)
    folder, compares = RunFolder.open("run"), "prompt=comparative" in more
    scores, texts = folder.read("scores"), {row["example_id"] for row in rows if "human" in row}
    rated = scores[scores["human"].notna()].drop_duplicates("example_id")
    assert {record["n"] for record in folder.read("metrics") if record["level"] == "dataset"} == {len(rated)}
    of_rated = {name for name in scores["example_id"] if set(name.split("~")) <= texts}
    assert set(rated["example_id"]) == of_rated
    counted = f"Humans rated {len(rated)} of {scores['example_id'].nunique()} {'pairs' if compares else 'texts'}"
    assert counted in " ".join(out.split())
