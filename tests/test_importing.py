"""`judgebench from FILE`: results as other tools write them become data, answers and a command.

The files in data/results_of_tools were written by the tools themselves, on four questions, and are shortened by what no
reader needs: Inspect 0.3.285 (by a mock model), promptfoo (by providers and a grader in JavaScript), DeepEval 4.3.1 and
MLflow 3.17.2 (by metrics in Python), lm-eval (by its dummy model).
"""

import json
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from judgebench.commands import COMMANDS
from judgebench.importing.__main__ import main
from judgebench.results.folder import RunFolder
from tests.conftest import write_rows

RESULTS = Path(__file__).parent / "data" / "results_of_tools"
QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")


@pytest.fixture
def take(judgebench, called):
    """`judgebench from` in an empty folder."""
    return partial(called, lambda: sys.exit(main()))


def lines(name):
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


TOOLS = {
    "inspect_one.eval": ("a log of Inspect", 4, ["correct", "incorrect"], "[[incorrect,correct]]"),
    "inspect_two.json judge=judge_judge_score": ("a log of Inspect", 2, ["5", "2"], "[[1,5]]"),
    "promptfoo.json": ("results of promptfoo", 8, ["0.2", "0.9"], "[[0,1]]"),
    "deepeval.json": ("a test run of DeepEval", 4, ["0.9", "0.2"], "[[0,1]]"),
    "lm_eval_samples.jsonl": ("samples of lm-eval", 4, ["0.0", "0.0"], "[[0,1]]"),
    "mlflow_table.json": ("a table", 4, ["5", "2"], "[[1,5]]"),
    "mlflow_genai.json": ("a table", 4, ["yes", "no"], "[[no,yes]]"),
}


@pytest.mark.parametrize("words", TOOLS)
def test_files_of_the_tools_themselves_are_read(take, words):
    if "inspect" in words:
        pytest.importorskip("inspect_ai")
    kind, count, answers, ranges = TOOLS[words]
    _, out, _ = take(str(RESULTS / words.split()[0]), *words.split()[1:], "out=taken")
    first, *taken = out.splitlines()
    assert f"{kind}. Texts: {count}; answers of the judge: {count};" in first
    assert [line.split()[0] for line in taken[:5]] == ["texts:", "what", "system", "people's", "judge:"]
    assert all("=COLUMN" in line for line in taken[:5])
    texts, given = lines("taken/data.jsonl"), lines("taken/answers.jsonl")
    assert texts[0]["source"] == "What is the capital of France?"
    assert texts[0]["output"] in ("Paris.", "Lyon.", "lol")
    assert [answer["text"] for answer in given[:2]] == answers
    assert [answer["example_id"] for answer in given] == [text["example_id"] for text in texts]
    # nobody has labelled a text
    label, measure = Path("taken/command.sh").read_text().splitlines()
    assert out.endswith(f"{label}\n{measure}\n")
    page = ["judgebench", "label", "taken/data.jsonl", "out=label.html"]
    words = [] if "," in ranges and ranges[2].isdigit() else [f"classes={ranges[1:-1]}"]
    assert shlex.split(label) == page + words, "people choose among the judge's own words"
    expected = {"labels=labels_NAME.jsonl", "judge.path=taken/answers.jsonl", f"ranges={ranges}"}
    assert expected < set(shlex.split(measure))


def test_systems_and_groups_of_a_tool_are_kept(take):
    take(str(RESULTS / "promptfoo.json"), "out=taken")
    texts = lines("taken/data.jsonl")
    assert {text["system_id"] for text in texts} == {"small", "large"}
    assert len({text["group_id"] for text in texts}) == 4


@pytest.fixture
def rows(judgebench):
    """What two people and a judge gave 24 texts, a row a rating, and a column a rating."""
    rows = []
    for i in range(24):
        text = {"prompt": f"Question {i // 2}?", "response": f"Answer {i}.", "model": "ab"[i % 2]}
        rows.append(text | {"ann": 1 + i % 5, "ben": 1 + (i + i % 3) % 5, "verdict": 1 + (i + i % 2) % 5})
    write_rows("wide.jsonl", rows)
    long = [
        {"prompt": row["prompt"], "response": row["response"], "verdict": row["verdict"]}
        | {"annotator": name, "human_score": row[name]}
        for row in rows
        for name in ("ann", "ben")
    ]
    write_rows("long.jsonl", long)
    return rows


@pytest.mark.parametrize("command", ["wide.jsonl human=[ann,ben]", "long.jsonl"])
def test_the_ready_command_ends_in_a_verdict(take, judgebench, rows, command):
    take(*command.split(), "out=taken")
    human = lines("taken/data.jsonl")[2]["human"]
    assert human == {"quality": {"ann": rows[2]["ann"], "ben": rows[2]["ben"]}}
    (ready,) = Path("taken/command.sh").read_text().splitlines()
    _, answer, _ = judgebench(*shlex.split(ready)[3:], *QUICK)
    assert "order texts      " in answer
    assert list(RunFolder.open("run").read("scores")["score"]) == [row["verdict"] for row in rows]


def test_with_labels_of_people_the_ready_command_ends_in_a_verdict(take, judgebench, rows):
    take("wide.jsonl", "human=none", "out=taken")
    given = [{"example_id": f"row-{i}", "label": row["ann"]} for i, row in enumerate(rows, start=1)]
    write_rows("labels_NAME.jsonl", given)
    label, measure = Path("taken/command.sh").read_text().splitlines()
    assert label.startswith("judgebench label taken/data.jsonl")
    _, out, _ = judgebench(*shlex.split(measure)[3:], *QUICK)
    assert "order texts      " in out


def test_answers_of_a_batch_are_texts_or_scores(take):
    def answers(text):
        return [
            {"custom_id": f"r{i}", "response": {"body": {"model": "m", "choices": [{"message": {"content": text(i)}}]}}}
            for i in range(6)
        ]

    asked = [
        {"custom_id": f"r{i}", "body": {"model": "m", "messages": [{"role": "user", "content": f"Question {i}?"}]}}
        for i in range(6)
    ]
    write_rows("asked.jsonl", asked)
    write_rows("texts.jsonl", answers(lambda i: f"This is a whole sentence as an answer, the {i}th of all."))
    write_rows("scores.jsonl", answers(lambda i: str(1 + i % 5)))
    take("texts.jsonl", "asked.jsonl", "out=taken")
    assert lines("taken/data.jsonl")[3]["source"] == "Question 3?"
    assert lines("taken/data.jsonl")[3]["output"].endswith("the 3th of all.")
    assert not Path("taken/answers.jsonl").exists()
    take("scores.jsonl", "asked.jsonl", "out=other")
    assert lines("other/answers.jsonl")[5] == {"example_id": "r5", "text": "1"}
    assert lines("other/data.jsonl")[3] == {"example_id": "r3", "output": "Question 3?", "source": "Question 3?"}
    code, _, err = take("asked.jsonl", mistaken=True)
    assert (code, "requests of a batch without answers" in err) == (2, True)
    take("scores.jsonl", "output=none", "out=alone")
    assert lines("alone/data.jsonl")[0]["output"] == "r0"


TEXT = {"input": "A question?", "output": "An answer."}


def damaged(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return name


ODD = {
    "nothing.json": (b"", "the file is empty"),
    "binary.jsonl": (bytes(range(256)) * 8, "no result file that is known here"),
    "text.txt": (b"hello", "no result file that is known here"),
    "cut.json": (b'{"testCases": [{"input": "a", "actua', "not valid JSON"),
    "cut.eval": (b"PK\3\4 and no more", "Inspect cannot read this log"),
    "list.json": ([], "there is no row in it"),
    "numbers.json": ([1, 2], "each entry must be one JSON object"),
    "other.json": ({"a": 1}, "which no tool that is known here writes"),
    "form.json": ({"testCases": [1, 2]}, "form.json entry 1: is no object"),
    "cells.json": ({"columns": ["a", "b"], "data": [[1]]}, "row 1: has not a cell for each"),
    "one.json": ([TEXT | {"score": 1}], "give human=score or judge=score"),
    "judges.json": ([TEXT | {"llm_score": 1, "judge": 2}], "'llm_score', 'judge' may all be the judge's"),
    "nested.json": ([{"input": "A", "output": {"text": "B"}, "judge": 1}], "as output=answer.text"),
    "bare.json": ([{"x": 1}], "none of its columns ('x') looks like the judged texts"),
    "mixed.json": (
        [TEXT | {"human": label} for label in (1, 2, "n/a")],
        "mixed.json entry 3: 'n/a' stands among people's labels in 'human'",
    ),
    "toxic.json": ([TEXT | {"judge_toxic": word} for word in ("yes", "no")], "which of them is the better one"),
    "blank.json": ([{"input": "a", "output": " ", "judge": 1}], "no row has a text in 'output'"),
    "named.json id=key": ([TEXT | {"key": "a", "judge": 1}] * 2, "a text is called 'a', as one before"),
    "scores.json": ([TEXT | {"judge": 20 * i} for i in range(9)], "as '0', '20', '40', are on no usual scale"),
    "word.json colour=x": ([TEXT], "colour=x: there is no such word"),
}


@pytest.mark.parametrize("words", ODD)
def test_odd_files_are_refused_in_a_sentence_and_leave_nothing(take, words):
    name, *more = words.split()
    if name.endswith(".eval"):
        pytest.importorskip("inspect_ai")
    content, sentence = ODD[words]
    code, out, err = take(damaged(name, content), *more, "out=taken", mistaken=True)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not Path("taken").exists()


def test_what_fails_in_promptfoo_scores_0(take):
    content = json.loads((RESULTS / "promptfoo.json").read_text())
    for i, row in enumerate(content["results"]["results"]):
        row.update(score=i % 2, namedScores={})
    take(damaged("promptfoo.json", content), "out=taken")
    assert [answer["text"] for answer in lines("taken/answers.jsonl")[:4]] == ["0", "1", "0", "1"]


def test_a_folder_with_other_rows_is_not_written_over(take):
    first = damaged("first.json", [TEXT | {"llm_score": i} for i in (1, 5)])
    take(first, "out=taken")
    kept = {path: path.read_bytes() for path in Path("taken").iterdir()}
    take(first, "out=taken")  # the same again
    code, _, err = take(damaged("second.json", [TEXT | {"llm_score": 2}]), "out=taken", mistaken=True)
    assert (code, "data.jsonl is there with other rows" in err) == (2, True)
    assert {path: path.read_bytes() for path in Path("taken").iterdir()} == kept
    Path("file").write_text("")
    code, _, err = take(first, "out=file", mistaken=True)
    assert (code, "out=file: cannot be written" in err) == (2, True)


def test_columns_that_nothing_is_taken_from_are_named(take):
    rows = [
        TEXT | {"rating_gpt4": i, "doc_text": "A long text about something. " * 3, "remark": f"{i}."} for i in (1, 5)
    ]
    _, out, _ = take(damaged("table.json", rows), "out=taken")
    assert "  not used: 'rating_gpt4', 'doc_text', 'remark'\n" in out
    assert "judge: no column, range none" in out


def test_scores_of_several_scorers_are_asked_for(take):
    pytest.importorskip("inspect_ai")
    _, _, err = take(str(RESULTS / "inspect_two.json"), mistaken=True)
    assert "may all be the judge's; give judge=judge_model_graded_qa." in err


def test_the_results_are_not_written_over(take, rows):
    Path("taken").mkdir()
    shutil.copy("long.jsonl", "taken/data.jsonl")
    code, _, err = take("taken/data.jsonl", "out=taken", mistaken=True)
    assert (code, "would overwrite" in err) == (2, True)


def test_without_inspect_it_says_how_to_install_it(take, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    _, _, err = take(str(RESULTS / "inspect_one.eval"), mistaken=True)
    assert "pip install 'judgebench[inspect]'" in err


def test_it_is_a_command():
    assert COMMANDS["from"][0] == "judgebench.importing"
