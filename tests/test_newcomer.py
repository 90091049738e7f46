"""A newcomer's own rated texts: what their file says plainly is taken from it, and all else that is wrong comes at
once, with a command that is right."""

import csv
import re
import shlex
from pathlib import Path

import pytest

import judgebench as package
from judgebench.results.folder import RunFolder
from judgebench.words.errors import UserError
from tests.conftest import write_rows

QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")


@pytest.fixture
def texts(judgebench):
    """40 texts of 20 articles that one person rated from 1 to 10, in several forms, and what a judge answered."""
    rows = [
        {"article": f"Article {i // 2}.", "summary": f"Summary {i} of it.", "rating": 1 + (3 * i + i // 10) % 10}
        for i in range(40)
    ]
    answers = [{"answer": f"Rating: {max(1, row['rating'] // 2)}"} for row in rows]
    plain = [{"source": row["article"], "output": row["summary"], "human": {"quality": row["rating"]}} for row in rows]
    write_rows("plain.jsonl", plain)
    write_rows("mine.jsonl", rows)
    write_rows("answers.jsonl", answers)
    write_rows("named.jsonl", [answer | {"id": f"line-{i}"} for i, answer in enumerate(answers, start=1)])
    write_rows("right.jsonl", [{"text": answer["answer"]} for answer in answers])
    for name, columns in (("mine.csv", ["article", "summary", "rating"]), ("alone.csv", ["text", "rating"])):
        with open(name, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerows([columns, *([row.get(column, row["summary"]) for column in columns] for row in rows)])


def test_what_the_file_says_plainly_is_taken_from_it_and_a_judge_that_nobody_asks_needs_no_rubric(judgebench, texts):
    """The dimension, the humans' scale, and which answer is about which text."""
    code, out, err = judgebench("data=jsonl", "data.path=plain.jsonl", "judge=replay", "judge.path=right.jsonl", *QUICK)
    assert code == 0, err
    run = RunFolder.open("run")
    assert set(run.read("scores")["dimension"]) == {"quality"}
    assert run.read("config")["dimensions"] == ["quality"]
    assert run.read("readings")["prompt"][0].startswith("What the judge was asked about quality is unknown")
    said = " ".join(out.split())
    assert (
        "The humans' scale is taken from their scores: 1 to 10 (quality); data.scale=[WORST,BEST] gives another" in said
    )


@pytest.mark.parametrize(
    ("command", "sentences"),
    [
        (
            "data.path=mine.jsonl judge=replay judge.path=answers.jsonl",
            ["no field 'source' (the article", "answers.jsonl line 1: field 'text' is missing"],
        ),
        (
            "data.path=mine.csv data.scale=[1,5] judge=replay judge.path=named.jsonl",
            ["no field 'source'", "lies outside the data's own scale, 1 to 5", "named.jsonl line 1: field 'text'"],
        ),
        (
            "data.path=mine.csv data.scale=[1,5] judge=local judge.path=DIR dry_run=true",
            ["no field 'source'", "lies outside the data's own scale", "there is no rubric 'rating'"],
        ),
        (
            "data.path=alone.csv judge=local judge.path=DIR dry_run=true",
            ["no field 'source'", "there is no rubric 'rating' in prompt.rubrics=text"],
        ),
        (
            "data.path=plain.jsonl dimensions=[coherence] judge=local judge.path=DIR dry_run=true",
            ["has no human scores for 'coherence'; it has quality", "there is no rubric 'quality'"],
        ),
    ],
)
def test_all_mistakes_come_at_once_with_the_command_that_is_right(judgebench, texts, tiny_pair, command, sentences):
    words = ["data=jsonl", *command.replace("DIR", str(tiny_pair[0])).split(), *QUICK]
    code, _, err = judgebench(*words, mistaken=True)
    assert (code, "Traceback" in err) == (2, False)
    for sentence in sentences:
        assert sentence in err
    assert not Path("run").exists()
    (right,) = re.findall(r"This command is right:\n  python -m judgebench (.*)\n", err)
    code, _, err = judgebench(*shlex.split(right))
    assert code == 0, err


def test_what_only_its_owner_can_mend_stays_in_the_command(judgebench, texts):
    _, _, err = judgebench("data=jsonl", "data.path=mine.csv", "judge=local", "judge.path=nowhere", mistaken=True)
    assert err.startswith("judgebench: 3 mistakes:\n")
    assert "judge.path=nowhere: there is no such folder" in err
    last = err.splitlines()[-1]
    assert last.startswith(
        "  python -m judgebench data=jsonl data.path=mine.csv judge=local judge.path=nowhere data.fi"
    )
    assert "Mend what is still wrong in this command" in err


def test_in_python_it_is_a_call(judgebench, texts):
    with pytest.raises(UserError, match=r"This command is right:\n  judgebench\.run") as raised:
        package.run(["data=jsonl", "data.path=mine.jsonl", "judge=replay", "judge.path=right.jsonl", *QUICK])
    call = str(raised.value).splitlines()[-1]
    results = eval(call, {"judgebench": package})
    assert set(results.frame("scores")["dimension"]) == {"rating"}


def test_words_of_the_command_judgebench_are_words_of_the_module_too(judgebench, texts):
    code, out, err = judgebench("from", "mine.csv", "human=rating", "out=taken")
    assert code == 0, err
    assert "python -m judgebench data.path=taken/data.jsonl" in out
    assert Path("taken/data.jsonl").is_file()
