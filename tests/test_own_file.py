"""`python -m judgebench data.path=FILE` at the first try: what a file's columns hold, the scale and the range are told
from it, and the run says which command that is."""

import csv
import re
import shlex

import pytest

import judgebench as package
from judgebench.importing.columns import dimension_of, label_range, table_columns
from judgebench.importing.own import written_out
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError
from tests.conftest import write_rows

QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")


def write_table(name, rows):
    with open(name, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def settings(out):
    """The overrides of the command that a run says it stands for."""
    (command,) = re.findall(r"^This stands for: python -m judgebench (.*)$", out, re.MULTILINE)
    return shlex.split(command)


@pytest.fixture
def graded(judgebench):
    """40 texts of 20 articles with grades from 1 to 5, and a judge's words and scores, of which one is missing."""
    rows = []
    for i in range(40):
        grade = 1 + (3 * i + i // 10) % 5
        row = {"question": f"Article {i // 2}.", "answer": f"Text {i}, of it.", "rating": grade}
        rows.append(row | {"llm score": max(1, grade - i % 2), "word": "Pass" if grade > 2 else "Fail"})
    rows[7]["llm score"] = None
    write_table("graded.csv", rows)
    write_rows("graded.jsonl", rows)
    write_table("passed.csv", [row | {"rating": "pass" if row["rating"] > 3 else "fail"} for row in rows])
    write_rows("alone.jsonl", [{"text": row["answer"], "stars": row["rating"]} for row in rows])
    write_rows("shares.jsonl", [row | {"rating": row["rating"] / 7, "llm score": row["rating"] / 8} for row in rows])
    write_rows("plain.jsonl", [{"source": "A", "output": "B", "human": {"tone": row["rating"]}} for row in rows])
    return rows


@pytest.mark.parametrize("file", ["graded.csv", "graded.jsonl"])
def test_people_and_judge_in_one_file_end_in_a_verdict(judgebench, graded, file):
    _, out, _ = judgebench(f"data.path={file}", "human=rating", "judge=llm score", *QUICK)
    assert "judge=replay" in settings(out)
    assert "ranges=[[1,5]]" in settings(out)
    assert "people's labels: 'rating' of quality, on [1,5] (human=COLUMN, data.scale=[WORST,BEST])" in out
    assert "order texts      " in out
    assert re.search(r"Examples without a row, left out: 1 \(line-[89]\)", out)
    scores = RunFolder.open("run").read("scores")
    expected = [row["llm score"] for row in graded if row["llm score"] is not None]
    assert list(scores["score"]) == expected
    # the command that it stands for is the same run
    _, again, _ = judgebench(*settings(out), "run_dir=again")
    assert "This stands for" not in again
    assert RunFolder.open("again").read("scores").equals(scores)


def test_words_of_the_judge_meet_words_of_people(judgebench, graded):
    _, out, _ = judgebench("data.path=passed.csv", "human=rating", "judge=word", *QUICK)
    assert "ranges=[[Fail,Pass]]" in settings(out)
    assert "decide           " in out


def test_scores_between_are_on_the_narrowest_usual_scale_of_the_judge(judgebench, graded):
    _, out, _ = judgebench("data.path=shares.jsonl", "human=rating", "judge='llm score'", *QUICK)
    assert "ranges=[[0,1]]" in settings(out)
    assert "range [0,1], the narrowest usual one that holds its scores (" in out
    assert not [override for override in settings(out) if override.startswith("data.scale")]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("graded.csv human=rating", ["data.scale=[1,5]", "ranges=[[1,5]]", "prompt.variants={quality:overall}"]),
        ("passed.csv human=rating", ["ranges=[[fail,pass]]", "data.fields.human={quality: rating}"]),
        ("alone.jsonl", ["data.fields.source=text", "data.rubrics=text", "data.fields.human={quality: stars}"]),
        ("plain.jsonl", ["data.scale=[1,5]", "prompt.variants={tone:overall}"]),
        ("shares.jsonl human=rating dimensions=[tone]", ["data.fields.human={tone: rating}"]),
    ],
)
def test_a_file_alone_is_a_command(judgebench, graded, tiny_pair, command, expected):
    asked = ("judge=local", f"judge.path={tiny_pair[0]}", "dry_run=true")
    _, out, _ = judgebench(*f"data.path={command}".split(), *asked, *QUICK)
    assert set(expected) <= set(settings(out))
    assert ("range [1,5], as labels have no plain scale (" in out) == command.startswith("shares")


def test_a_rubric_is_a_few_words(judgebench, graded, tiny_pair):
    asked = ("judge=local", f"judge.path={tiny_pair[0]}", "dry_run=true")
    _, out, _ = judgebench("data.path=alone.jsonl", "rubric=Is it funny, or not?", *asked, *QUICK)
    assert "Is it funny, or not?\n\nText 0, of it.\n\nAnswer from 1 (the worst) to 5 (the best)." in out
    assert "variants" not in out
    whole = "rubric=Rate {{Summary}} by {{Document}} from {min_range} to {max_range}."
    _, out, _ = judgebench("data.path=graded.csv", "human=rating", whole, *asked, *QUICK)
    assert "Rate Text 0, of it. by Article 0. from 1 to 5." in out


def test_in_python_it_is_the_same(judgebench, graded):
    results = package.run(["data.path=graded.jsonl", "human=rating", "judge=llm score", *QUICK])
    assert len(results.frame("scores")) == 39


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("data.path=graded.csv human=grade", "human=grade: graded.csv has no column 'grade'"),
        ("data.path=graded.csv human=rating judge=gemma", "judge=gemma: graded.csv has no column 'gemma'"),
        ("data.path=graded.csv judge=gemma", "has no column 'gemma'"),
        ("human=rating", "human=rating: a column of your own file; name the file with data.path=FILE"),
        ("data=mini data.path=graded.csv human=rating", "human=rating: a column of your own file"),
        (
            "data.path=twice.jsonl",
            "'rating', 'label' may all be the human's; give human=rating, or human=[rating,label]",
        ),
        ("data.path=raters.jsonl judge=judge", "each row is what one rater gave (column 'annotator')"),
        ("data.path=none.jsonl", "no column looks like people's labels; name it with human=COLUMN"),
        ("data.path=none.jsonl human=x output=none", "looks like the judged texts"),
        ("data.path=far.jsonl judge=judge", "the judge's answers, as '0', '20', '40', are on no usual scale"),
    ],
)
def test_what_cannot_be_told_is_asked_for_by_name(judgebench, graded, command, sentence):
    write_rows("twice.jsonl", [row | {"label": 3} for row in graded])
    write_rows("raters.jsonl", [row | {"annotator": "ab"[i % 2], "judge": 3} for i, row in enumerate(graded)])
    write_rows("none.jsonl", [{"output": "A text.", "x": "One sentence that is longer than any label may be."}])
    write_rows("far.jsonl", [row | {"judge": 20 * i} for i, row in enumerate(graded)])
    code, _, err = judgebench(*command.split(), *QUICK, mistaken=True)
    assert (code, "Traceback" in err) == (2, False)
    assert sentence in err


def test_an_explicit_command_stays_as_it_is(graded):
    for command in (
        ["data=jsonl", "data.path=graded.csv", "judge=replay", "judge.path=answers.jsonl"],
        ["+exp=tables/cd", "data.path=graded.csv"],
        ["-m", "+exp=demo", "metrics.seed=1,2"],
    ):
        assert written_out(command) == (command, [])


def test_a_dimension_is_the_name_of_its_column_where_that_says_one():
    names = ["label", "Human's label", "human_score", "humanRating", "human_1", "rating_a", "quality"]
    assert {dimension_of([name]) for name in names} == {dimension_of(["ann", "ben"])} == {"quality"}
    assert dimension_of(["human_coherence"]) == dimension_of(["Coherence score"]) == "coherence"


def test_ranges_of_labels():
    known = {
        ("[1,5]", True): [1, "2", 3.0, [4, 5]],
        ("[0,1]", False): [0.2, 0.7],
        ("[0,1]", True): ["0", "1"],
        ("[1,10]", False): [1, 2, 8],
        ("[no,Yes]", True): ["Yes", "no", {"ann": "no"}],
        ("['False','True']", True): [True, False],
    }
    for (text, whole), labels in known.items():
        found = label_range(labels)
        assert (str(found), found.whole) == (text, whole)
    assert label_range(["good", "fair"]) is label_range([1, 1000]) is None


def test_a_name_that_fits_no_text_is_not_taken(graded):
    from judgebench.data.rows import FileRow

    rows = [FileRow({"input": {"a": 1}, "prompt": "P", "output": "O", "id": "same"}, "", i) for i in range(2)]
    found = table_columns("f", rows, {})
    assert (found.source, found.output, found.id) == ("prompt", "output", None)
    with pytest.raises(UserError, match="no row"):
        table_columns("f", [], {})
