"""judge=replay end to end: answers that were given earlier are measured like any judge's, and no model is loaded."""

import json
from pathlib import Path

import pytest

from judgebench.report.views.answer import MOST
from judgebench.results.folder import RunFolder
from tests.conftest import rated_texts, read_rows, told, write_rows

QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")
REPLAY = ("judge=replay", "judge.path=answers.jsonl", *QUICK)
ALL_FIELDS = tuple(f"judge.fields.{axis}={axis}" for axis in ("dimension", "range", "attack", "defense"))
WORDS = {1: "one out of five", 2: "**Rating:** 2", 3: "3 out of 5 (incoherent)", 4: "Four stars.", 5: "5/5"}


@pytest.fixture
def mine(judgebench):
    """Rated texts of one's own: the judge agrees with the humans in all but the first group."""
    rows = rated_texts()
    write_rows("mine.jsonl", rows)
    write_rows("answers.jsonl", [{"example_id": row["example_id"], "text": WORDS[row["judged"]]} for row in rows])
    return rows


def test_a_run_prints_its_answer_or_every_table_or_its_folder_alone_and_writes_the_same(judgebench, mine):
    command = (*REPLAY, "data=jsonl", "data.path=mine.jsonl", "human_agreement=true")
    printed, written = {}, {}
    for how in ("answer", "all", "none"):
        printed[how] = judgebench(*command, f"print={how}")[1]
        written[how] = {path.name for path in Path("run").rglob("*.json")}
    assert judgebench(*command)[1] == printed["answer"]
    assert len(printed["answer"].splitlines()) <= MOST < len(printed["all"].splitlines())
    assert printed["none"] == "run\n"
    assert written["answer"] == written["all"] == written["none"] >= {"choice.json", "verdict.json", "repairs.json"}
    code, _, err = judgebench(*command, "print=some", mistaken=True)
    assert (code, err) == (2, "judgebench: print: 'some' should be 'answer', 'all' or 'none'.\n")


def test_what_is_left_over_is_told_and_left_out(judgebench, mine):
    rows = read_rows("answers.jsonl")
    write_rows(
        "answers.jsonl", [*rows[2:], {"example_id": "stranger", "text": "3"}, {"example_id": "odd", "text": "4"}]
    )
    command = (*REPLAY, "data=jsonl", "data.path=mine.jsonl", "data.dev_share=0")
    note = (
        "Rows whose example the data does not have: 2 (stranger, odd). Examples without a row, left out: 2 (0-1, 0-2)."
    )
    for more, scored in (("dry_run=true", "Scored: 18 of the 20 rows of answers.jsonl. "), ("dry_run=false", "")):
        assert scored + note in " ".join(judgebench(*command, more)[1].split())
    folder = RunFolder.open("run")
    assert {record["n"] for record in folder.read("metrics") if record["level"] == "dataset"} == {18}
    assert not {"0-1", "0-2"} & set(folder.read("scores")["example_id"])


def test_a_judge_that_was_asked_again_is_measured_by_its_first_answer_and_how_far_they_differ(judgebench, mine):
    first = [{"example_id": row["example_id"], "run": 2, "text": str(row["judged"])} for row in mine]
    again = [
        {**row, "run": 10, "text": str(6 - int(row["text"])) if i < 5 else row["text"]} for i, row in enumerate(first)
    ]
    write_rows("answers.jsonl", [*again, *first])
    command = (*REPLAY, "data=jsonl", "data.path=mine.jsonl", "ranges=[[1,5]]", "human_agreement=true", "print=all")
    err = judgebench(*command, mistaken=True)[2]
    assert "judge.fields.repeat=FIELD" in err
    out = judgebench(*command, "judge.fields.repeat=run", "data.pass_from=4", "report=true")[1]
    assert "the same judge asked again, 20 examples of" in " ".join(out.split())
    folder = RunFolder.open("run")
    scores = dict(zip(folder.read("scores")["example_id"], folder.read("scores")["score"], strict=True))
    assert scores == {row["example_id"]: float(row["text"]) for row in first}
    (record,) = folder.read("repeats")
    moved = [row["text"] != "3" for row in first[:5]]
    assert record["changed"] == pytest.approx(sum(moved) / 20)
    flips = [(int(row["text"]) >= 4) != (6 - int(row["text"]) >= 4) for row in first[:5]]
    assert record["flipped"] == pytest.approx(sum(flips) / 20)
    assert record["repeats"] == 2
    assert "The same judge asked again" in Path("run/report.html").read_text()


def test_answers_off_the_range_are_counted_and_no_rubric_is_needed_by_one_judge_or_a_panel(judgebench, mine):
    rows = [{name: value for name, value in row.items() if name != "human"} for row in mine]
    write_rows("mine.jsonl", [row | {"human": {"faithful": i % 4}} for i, row in enumerate(rows)])
    given = [{"example_id": row["example_id"], "text": str([0, 1, 2, 5][i % 4])} for i, row in enumerate(rows)]
    write_rows("answers.jsonl", given)
    command = ("data=jsonl", "data.path=mine.jsonl", "ranges=[[0,3]]", *QUICK)
    _, out, _ = judgebench("judge=replay", "judge.path=answers.jsonl", *command)
    assert "  5 answers lay off the range 0-3, taken as its ends\n" in out
    write_rows("answers.jsonl", [row | {"text": row["text"].replace("5", "3")} for row in given[:3]] + given[4:])
    assert "  4 answers lay off" in judgebench("judge=replay", "judge.path=answers.jsonl", *command)[1]
    write_rows("answers.jsonl", [row | {"text": row["text"].replace("5", "3")} for row in given])
    assert "off the range" not in judgebench("judge=panel", "judge.members=[answers.jsonl]", *command)[1]


def test_a_replayed_judge_scores_as_it_did_when_it_was_asked(judgebench, tiny_pair):
    conditions = ("ranges=[[1,5],[0,4]]", "attacks=[none,dsi]", "data.limit_groups=3", *QUICK)
    judgebench(
        *("judge=local", f"judge.path={tiny_pair[0]}", "judge.mode=generate", "judge.max_new_tokens=6"),
        *("decoding=[greedy]", *conditions),
    )
    asked, metrics = RunFolder.open("run"), RunFolder.open("run").read("metrics")
    readings, scores = asked.read("readings"), asked.read("scores")
    rows = readings[["example_id", "text", "dimension", "attack", "defense"]].to_dict("records")
    ends = zip(readings["range_min"], readings["range_max"], strict=True)
    write_rows("answers.jsonl", [row | {"range": list(end)} for row, end in zip(rows, ends, strict=True)][::-1])
    judgebench(*("judge=replay", "judge.path=answers.jsonl", *ALL_FIELDS, *conditions))
    replayed = RunFolder.open("run")
    assert replayed.read("scores").equals(scores)
    assert replayed.read("readings")["text"].equals(readings["text"])
    assert json.dumps(replayed.read("metrics")) == json.dumps(metrics)


def test_an_attack_is_measured_on_the_texts_that_were_answered_both_ways(judgebench, mine):
    clean = [{"example_id": row["example_id"], "text": f"{row['judged']}"} for row in mine]
    attacked = [row | {"text": f"Score: {min(5, int(row['text']) + 1)}", "attack": "dsi"} for row in clean[:12]]
    write_rows("answers.jsonl", clean + attacked)
    judgebench(
        *(*REPLAY, "data=jsonl", "data.path=mine.jsonl", "data.dev_share=0"),
        *("attacks=[none,dsi]", "judge.fields.attack=attack"),
    )
    (record,) = [r for r in RunFolder.open("run").read("metrics") if (r["attack"], r["level"]) == ("dsi", "dataset")]
    assert record["paired"] == record["n"] == 12
    assert record["change"] == pytest.approx(10 / 12)  # two of the twelve had a 5 already
    assert record["clean_mean_score"] == pytest.approx(sum(row["judged"] for row in mine[:12]) / 12)


def test_what_needs_a_model_is_refused_with_its_key(judgebench, mine):
    parts = {
        "assistant=null_context": "assistant=null_context: judge=replay has answers only",
        "decoding=[greedy,expectation]": "decoding expectation: reads the candidates' probabilities, and "
        "judge=replay has answers only; take decoding=[greedy].\n",
        "attacks=[adv_suffix]": "attacks: adv_suffix: a phrase is learned by asking a model here",
        "defenses=[cap]": "defenses: cap: its references are scored while they are made, and judge=replay",
        "tune=dev": "tune=dev: lambda and t are chosen by probabilities, and judge=replay has answers only; "
        "take tune=none.\n",
        "tutor=smollm2": "tutor: its references are scored while they are made, and judge=replay has answers only",
    }
    code, _, err = judgebench(*REPLAY, *parts, mistaken=True)
    assert code == 2
    assert not [message for message in parts.values() if message not in err]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("defenses=[perplexity]", "defenses: perplexity: a model here must read for it, and judge=replay"),
        ("prompt=comparative", "judge.fields.order: this run has orders first, second"),
        ("judge.path=nowhere.jsonl", "nowhere.jsonl: there is no such file; judge.path must be an existing file"),
        ("data=mini", "its first row calls its example '0-1', and the first example of the data is 'mini-01-faithful'"),
    ],
)
def test_what_the_answers_do_not_fit_is_refused_with_its_key(judgebench, mine, given, message):
    told(judgebench(*REPLAY, given, mistaken=True), message)
