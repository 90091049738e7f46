"""Labels of the label page in a run, a calibration and a gate, and a second look at where they and the judge differ."""

import json
from pathlib import Path

import pandas as pd
import pytest

from judgebench.command.calibrate import main as calibrate
from judgebench.command.gate import main as gate
from judgebench.command.label import main as label
from judgebench.data.labels import content_digest
from judgebench.types import Example
from tests.conftest import read_rows, write_rows
from tests.labelling.test_label_page import content_of
from tests.runs.test_decided import DESK

QUICK = ("logger=none", "metrics.resamples=50", "report=false", "store=none")
JUDGE = ("judge=replay", "judge.path=answers.jsonl", "judge.fields.text=answer", "ranges=[[0,100]]")


@pytest.fixture
def desk(judgebench):
    """The help desk's texts without labels, their labels as raters' files, and with labels; runs a judge on them."""
    rows = read_rows(DESK)
    names = ("example_id", "group_id", "source", "output")
    texts = [{name: row[name] for name in names} for row in rows]
    write_rows("answers.jsonl", rows)
    write_rows("texts.jsonl", texts)
    write_rows("labelled.jsonl", [text | {"human": row["human"]} for text, row in zip(texts, rows, strict=True)])
    for rater in ("ann", "ben", "cem"):
        lines = []
        for row in rows:
            word = row["human"]["quality"].get(rater)
            if word is not None:
                example = Example(row["example_id"], "", "", row["source"], row["output"], {})
                line = {"example_id": row["example_id"], "label": word, "rater": rater}
                line |= {"digest": content_digest(example), "reason": f"{rater} says so"}
                lines.append(line | {"dimension": "quality", "choices": ["fail", "pass"]})
        write_rows(f"{rater}.jsonl", lines)

    def run(*more):
        return judgebench("data=jsonl", *JUDGE, *QUICK, *more)

    return run


def scores(folder):
    return pd.read_parquet(f"{folder}/scores.parquet").drop(columns=["system_id"])


def test_labels_of_files_give_the_run_that_labels_in_the_data_give(desk):
    desk("data.path=labelled.jsonl", "run_dir=one")
    _, out, _ = desk("data.path=texts.jsonl", "labels=ann.jsonl,ben.jsonl,cem.jsonl", "run_dir=two")
    pd.testing.assert_frame_equal(scores("one"), scores("two"))
    for name in ("worth/decisions.json", "verdict.json", "humans.json"):
        one, two = (json.loads(Path(folder, name).read_text()) for folder in ("one", "two"))
        assert [{**row, "dataset": ""} for row in one] == [{**row, "dataset": ""} for row in two]
    said = " ".join(out.split())
    assert "Labels of ann, ben, cem are joined to 60 texts" in said
    assert "50 more labels, of texts of new groups, would make the interval of TPR about 0." in said
    records = json.loads(Path("two/labels.json").read_text())
    assert {record["kind"] for record in records} == {"conflict"}
    assert f"{len(records)} on which raters differ" in said
    assert not Path("one/labels.json").exists()


def test_a_card_is_made_and_kept_by_labels_of_files(desk, called):
    labels = "labels=ann.jsonl,ben.jsonl,cem.jsonl"
    called(calibrate, "data=jsonl", "data.path=texts.jsonl", *JUDGE, *QUICK, labels, "run_dir=card")
    card = ("card=card/judge_card.yaml", "metrics.resamples=50", "report=false", "store=none")
    code, out, err = called(gate, *card, "data.path=texts.jsonl", labels, "run_dir=gate", mistaken=True)
    assert (code, "60 texts of 12 groups" in out) == (0, True), out + err
    code, _, err = called(gate, *card, "data=mini", labels, "run_dir=gate", mistaken=True)
    assert code == 2
    assert "these data have ratings of their own" in err


def test_labels_are_refused_beside_data_with_ratings_and_where_there_are_none(judgebench, desk):
    code, _, err = judgebench("data=mini", "labels=ann.jsonl", mistaken=True)
    assert (code, "these data have ratings of their own" in err) == (2, True)
    code, _, err = judgebench("data=jsonl", *JUDGE, "data.path=texts.jsonl", "labels=no.jsonl", mistaken=True)
    assert (code, "no.jsonl: there is no such file; labels must be" in err) == (2, True)


def test_a_second_look_shows_where_judge_and_people_differ_most_and_is_never_joined(desk, called):
    labels = "labels=ann.jsonl,ben.jsonl,cem.jsonl"
    desk("data.path=texts.jsonl", labels, "run_dir=run")
    called(label, "run", "disagreements=5", "out=second.html")
    page = content_of("second.html")
    assert page["second_look"] is True
    assert [again for _, again in page["order"]] == [0] * 5
    frame = pd.read_parquet("run/scores.parquet").set_index("example_id")
    gaps = (frame["score"] / 100 - frame["human"]).abs().sort_values(ascending=False)
    assert [gaps[text["id"]] for text in page["texts"]] == gaps.iloc[:5].tolist()
    (judge, said), (people, labelled) = page["texts"][0]["shown"]
    assert (judge, people) == ("The judge", "People")
    assert "in range 0-100" in said
    assert ". ann says so" in labelled
    # whatever the second look says, the verdict stays
    lines = [
        {"example_id": text["id"], "label": "fail", "dimension": "quality", "rater": "ann", "second_look": True}
        for text in page["texts"]
    ]
    write_rows("second.jsonl", lines)
    desk("data.path=texts.jsonl", f"{labels},second.jsonl", "run_dir=again")
    pd.testing.assert_frame_equal(scores("run"), scores("again"))
    records = json.loads(Path("again/labels.json").read_text())
    assert sum(record["kind"] == "second_look" for record in records) == 5


def test_a_second_look_has_the_question_and_grades_as_people_gave_them(desk, called):
    texts = pd.read_json("texts.jsonl", lines=True, dtype=False).to_dict("records")
    write_rows("texts.jsonl", [text | {"asked": f"Is it right, {text['group_id']}?"} for text in texts])
    grades = [{"example_id": text["example_id"], "label": i % 6 + 1, "scale": [6, 1]} for i, text in enumerate(texts)]
    write_rows("grades.jsonl", grades)
    code, _, err = desk(
        "data.path=texts.jsonl", "labels=grades.jsonl", "data.fields.question=asked", "run_dir=run", "ranges=[[100,0]]"
    )
    assert code == 0, err
    called(label, "run", "disagreements=3", "out=second.html")
    page = content_of("second.html")
    assert [choice["label"] for choice in page["choices"]] == [6, 5, 4, 3, 2, 1]
    given = {row["example_id"]: row["label"] for row in grades}
    for text in page["texts"]:
        assert text["question"].startswith("Is it right, ")
        (_, said), (_, people) = text["shown"]
        assert f"grades: {given[text['id']]}." in people
        score, answer = said.split(", in range 100-0\n")
        assert float(score) == float(answer)
