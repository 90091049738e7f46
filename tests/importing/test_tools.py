"""`judgebench from FILE`: results as other tools write them become data, answers and a command.

The files in data/results_of_tools were written by the tools themselves, on four questions, and are shortened by what no
reader needs: Inspect 0.3.285 (by a mock model), promptfoo 0.121.20 (by providers and a grader in JavaScript), DeepEval
4.3.1 and MLflow 3.17.2 (by metrics in Python), lm-eval (by its dummy model). Those of Langfuse and OpenAI Evals, and
that of two filters, follow the tools' own types.
"""

import json
import re
import shlex
import shutil
import tracemalloc
import zipfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from judgebench.importing.archive import read_entries
from judgebench.importing.results import read_results
from judgebench.importing.writing import write_results
from judgebench.results.folder import RunFolder
from judgebench.words.errors import UserError
from tests.conftest import read_rows, write_rows, write_table

RESULTS = Path(__file__).parents[1] / "data" / "results_of_tools"
QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")


def asked_of(name, text):
    return {"custom_id": name, "body": {"model": "m", "messages": [{"role": "user", "content": text}]}}


def answer_of(name, text):
    return {"custom_id": name, "response": {"body": {"model": "m", "choices": [{"message": {"content": text}}]}}}


TOOLS = {
    "inspect_one.eval": ("a log of Inspect", 4, ["correct", "incorrect"], "[[incorrect,correct]]"),
    "inspect_two.json judge=judge_judge_score": ("a log of Inspect", 2, ["5", "2"], "[[1,5]]"),
    "promptfoo.json": ("results of promptfoo", 8, ["0.2", "0.9"], "[[0,1]]"),
    "deepeval.json": ("a test run of DeepEval", 4, ["0.9", "0.2"], "[[0,1]]"),
    "lm_eval_samples.jsonl": ("samples of lm-eval", 4, ["0.0", "0.0"], "[[0,1]]"),
    "mlflow_table.json": ("traces and tables of MLflow", 4, ["5", "2"], "[[1,5]]"),
    "mlflow_genai.json": ("traces and tables of MLflow", 4, ["yes", "no"], "[[no,yes]]"),
    "inspect_folder judge=judge_right_tone": ("a log of Inspect", 8, ["3", "2"], "[[1,4]]"),
    "inspect_failed.eval": ("a log of Inspect", 2, ["correct", "incorrect"], "[[incorrect,correct]]"),
    "promptfoo_two_rubrics.json judge=judge_right": ("results of promptfoo", 8, ["0.2", "0.9"], "[[0,1]]"),
    "deepeval_two_models.json judge=judge_Correct/other-judge": (
        "a test run of DeepEval", 4, ["0.6", "0.6"], "[[0,1]]",
    ),
    "lm_eval_two_filters.jsonl judge=judge_exact_match/strict-match": (
        "samples of lm-eval", 4, ["1.0", "0.0"], "[[0,1]]",
    ),
    "openai_eval_items.json": ("items of OpenAI Evals", 8, ["0.9", "0.2"], "[[0,1]]"),
    "langfuse_traces.csv judge=helpful": ("traces of Langfuse", 4, ["1", "0"], "[[0,1]]"),
    "langfuse_traces.json human=none": ("traces of Langfuse", 4, ["0.9", "0.1"], "[[0,1]]"),
    "mlflow_traces.json human=none": ("traces and tables of MLflow", 4, ["no", "yes"], "[[no,yes]]"),
    "mlflow_traces.jsonl human=none": ("traces and tables of MLflow", 4, ["no", "yes"], "[[no,yes]]"),
}  # fmt: skip


@pytest.mark.parametrize("words", TOOLS)
def test_files_of_the_tools_themselves_are_read(take, words):
    kind, count, answers, ranges = TOOLS[words]
    _, out, _ = take(str(RESULTS / words.split()[0]), *words.split()[1:], "out=taken")
    first, *taken = out.splitlines()
    assert f"{kind}. Texts: {count}; answers of the judge: {count};" in first
    assert [line.split()[0] for line in taken[:5]] == ["texts:", "what", "system", "people's", "judge:"]
    assert all("=COLUMN" in line for line in taken[:5])
    texts, given = read_rows("taken/data.jsonl"), read_rows("taken/answers.jsonl")
    first, second = [texts[0], texts[-1]][:: -1 if "mlflow_traces" in words else 1]
    assert first["source"].endswith("What is the capital of France?")
    assert first["output"] in ("Paris.", "Lyon.", "lol")
    assert second["output"] in ("Saturn, I think.", "Jupiter.", "Saturn, I think. (large)", "It is 5.", "lol")
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
    texts = read_rows("taken/data.jsonl")
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
    human = read_rows("taken/data.jsonl")[2]["human"]
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
    write_rows("asked.jsonl", [asked_of(f"r{i}", f"Question {i}?") for i in range(6)])
    texts = [f"This is a whole sentence as an answer, the {i}th of all." for i in range(6)]
    write_rows("texts.jsonl", [answer_of(f"r{i}", text) for i, text in enumerate(texts)])
    write_rows("scores.jsonl", [answer_of(f"r{i}", str(1 + i % 5)) for i in range(6)])
    take("texts.jsonl", "asked.jsonl", "out=taken")
    assert read_rows("taken/data.jsonl")[3]["source"] == "Question 3?"
    assert read_rows("taken/data.jsonl")[3]["output"].endswith("the 3th of all.")
    assert not Path("taken/answers.jsonl").exists()
    take("scores.jsonl", "asked.jsonl", "out=other")
    assert read_rows("other/answers.jsonl")[5] == {"example_id": "r5", "text": "1"}
    assert read_rows("other/data.jsonl")[3] == {"example_id": "r3", "output": "Question 3?", "source": "Question 3?"}
    code, _, err = take("asked.jsonl", mistaken=True)
    assert (code, "requests of a batch without answers" in err) == (2, True)
    take("scores.jsonl", "output=none", "out=alone")
    assert read_rows("alone/data.jsonl")[0]["output"] == "r0"


TEXT = {"input": "A question?", "output": "An answer."}


def damaged(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return name


ODD = {
    "nothing.json": (b"", "the file is empty"),
    "binary.jsonl": (bytes(range(256)) * 8, "no result file that is known here"),
    "text.txt": (b"hello", "no result file that is known here"),
    "cut.json": (b'{"testCases": [{"input": "a", "actua', "not valid JSON"),
    "cut.eval": (b"PK\3\4 and no more", "this is no whole archive"),
    "list.json": ([], "there is no row in it"),
    "numbers.json": ([1, 2], "each entry must be one JSON object"),
    "other.json": ({"a": 1}, "which no tool that is known here writes"),
    "form.json": ({"testCases": [1, 2]}, "form.json entry 1: holds a int"),
    "cells.json": ({"columns": ["a", "b"], "data": [[1]]}, "'data' a list of rows with a cell for each"),
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
    "data.json": ({"columns": ["a", "b"], "data": 7}, "'data' a list of rows"),
    "names.json": ({"columns": [1, 2], "data": [[1, 2]]}, "'columns' must be different names"),
    "metrics.json": ({"testCases": [{"actualOutput": "a", "metricsData": [[1], 2]}]}, "'metricsData' holds [1]"),
    "lm_eval.jsonl": ({"doc_id": 1, "filtered_resps": ["a"], "metrics": [1, 2]}, "'metrics' holds 1"),
    "inside.json": ([TEXT | {"human": {"tone": {"a": [{}, "\ud800"]}}, "judge": 1}], "text of whole characters"),
    "scores.json": ([TEXT | {"judge": 20 * i} for i in range(9)], "as '0', '20', '40', are on no usual scale"),
    "word.json colour=x": ([TEXT], "colour=x: there is no such word"),
}


@pytest.mark.parametrize("words", ODD)
def test_odd_files_are_refused_in_a_sentence_and_leave_nothing(take, words):
    name, *more = words.split()
    content, sentence = ODD[words]
    code, out, err = take(damaged(name, content), *more, "out=taken", mistaken=True)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not Path("taken").exists()


def test_an_assertion_of_promptfoo_is_a_judge_of_its_own(take):
    _, out, _ = take(str(RESULTS / "promptfoo.json"), "out=taken")
    assert "judge: judge_right, " in out, "and not the mean of all assertions"
    assert "no judge's: 'check_contains', 'check_latency', 'check_javascript'\n" in out
    for name, first in (("promptfoo_two_rubrics.json", "judge_right"), ("inspect_two.json", "judge_model_graded_qa")):
        _, _, err = take(str(RESULTS / name), mistaken=True)
        assert f"may all be the judge's; give judge={first}." in err
    # two of one type are told apart by what they ask; a grader that broke has given no score
    content = json.loads((RESULTS / "promptfoo_two_rubrics.json").read_text())
    for row in content["results"]["results"]:
        del row["gradingResult"]["componentResults"][3]["assertion"]["metric"]
    row["gradingResult"]["componentResults"][3]["metadata"] = {"graderError": True}
    name = damaged("twins.json", content)
    take(name, "judge=judge_llm-rubric/is_right", "out=right")
    assert [answer["text"] for answer in read_rows("right/answers.jsonl")] == [
        "0.2",
        "0.9",
        "0.2",
        "0.9",
        "0.9",
        "0.2",
        "0.2",
    ]
    take(name, "judge=judge_llm-rubric/is_polite", "out=polite")
    assert {answer["text"] for answer in read_rows("polite/answers.jsonl")} == {"0.7"}
    # without an assertion of a model there is no judge
    for row in content["results"]["results"]:
        del row["gradingResult"]["componentResults"][3:]
    _, out, _ = take(damaged("checks.json", content), "out=checked")
    assert "No judge was found" in out
    assert not Path("checked/answers.jsonl").exists()
    assert "which saves labels_NAME.jsonl, NAME being who labelled:\njudgebench label " in out


def test_what_people_rated_in_promptfoo_are_their_labels(take):
    content = json.loads((RESULTS / "promptfoo.json").read_text())
    for row in content["results"]["results"]:
        good = row["response"]["output"] == "Paris."
        row["gradingResult"]["componentResults"].append(
            {"pass": good, "score": float(good), "reason": "Manual", "assertion": {"type": "human"}}
        )
    _, out, _ = take(damaged("rated.json", content), "out=taken")
    assert "people's labels: 'human_human' of quality, on [0,1] (" in out
    assert "no judge's: 'check_contains', 'check_latency', 'check_javascript'\n" in out


LONG_VERDICT = "Reasoning: the reply is vague, and names no step that helps the one who asks. Verdict: FAIL"


def test_why_a_judge_said_so_is_offered_as_its_answer_only_where_nothing_else_is(take):
    ends = {"judge_reason": "it helps", "judge_verdict": LONG_VERDICT}
    _, out, _ = take(damaged("words.json", [TEXT | ends] * 4), "out=taken")
    assert "Put its column for COLUMN, which may be judge_verdict:\n" in out
    only = {"judge_reason": LONG_VERDICT}
    _, out, _ = take(damaged("only.json", [TEXT | only] * 4), "out=other")
    assert "Put its column for COLUMN, which may be judge_reason:\n" in out


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


def test_the_results_are_not_written_over(take, rows):
    Path("taken").mkdir()
    shutil.copy("long.jsonl", "taken/data.jsonl")
    code, _, err = take("taken/data.jsonl", "out=taken", mistaken=True)
    assert (code, "would overwrite" in err) == (2, True)


# --- rows and scores that are no other's ---------------------------------------------------------


def test_no_two_scores_share_a_column(take):
    """Scorers `right_form` and part `form` of scorer `right`, two models of one metric, two versions of a metric."""
    folder = str(RESULTS / "inspect_folder")
    take(folder, "judge=judge_right_form", "out=scorer")
    take(folder, "judge=judge_right_form/form", "out=part")
    assert {answer["text"] for answer in read_rows("scorer/answers.jsonl")} == {"correct", "incorrect"}
    assert {answer["text"] for answer in read_rows("part/answers.jsonl")} <= {"3", "4", "5"}
    _, _, err = take(str(RESULTS / "deepeval_two_models.json"), mistaken=True)
    assert "'judge_Correct/mock-judge', 'judge_Correct/other-judge' may all be the judge's" in err
    table = {
        "columns": ["inputs", "outputs", "c/v1/score", "c/v2/score"],
        "data": [["A?", "B", 1, 5], ["C?", "D", 2, 4]],
    }
    take(damaged("table.json", table), "judge=judge_c/v2", "out=second")
    assert [answer["text"] for answer in read_rows("second/answers.jsonl")] == ["5", "4"]
    # metadata of a sample that is called as a column here is
    content = json.loads((RESULTS / "inspect_two.json").read_text())
    for sample in content["samples"]:
        sample["metadata"] = {"output": "Of the metadata.", "judge_judge_score": 9}
    _, out, _ = take(damaged("log.json", content), "judge=judge_judge_score", "out=named")
    assert read_rows("named/data.jsonl")[0]["output"] == "Paris."
    assert {answer["text"] for answer in read_rows("named/answers.jsonl")} == {"5", "2"}
    assert "'other/judge_judge_score'" in out


def test_a_document_of_two_filters_is_one_text(take):
    take(str(RESULTS / "lm_eval_two_filters.jsonl"), "judge=judge_exact_match/flexible-extract", "out=taken")
    assert [text["example_id"] for text in read_rows("taken/data.jsonl")] == ["0", "1", "2", "3"]
    assert [answer["text"] for answer in read_rows("taken/answers.jsonl")] == ["1.0", "0.0", "1.0", "0.0"]
    rows = read_rows(RESULTS / "lm_eval_two_filters.jsonl")
    write_rows("again.jsonl", [*rows, rows[0] | {"exact_match": 7.0, "metrics": ["exact_match"]}])
    _, _, err = take("again.jsonl", mistaken=True)
    assert "is about the text of again.jsonl line 1, and has another 'judge_exact_match/strict-match'" in err


def test_answers_of_one_name_are_named_both(take):
    texts = [f"This is a whole sentence as an answer, the {i}th of all." for i in range(4)]
    write_rows("twice.jsonl", [answer_of(f"r{i % 3}", text) for i, text in enumerate(texts)])
    code, _, err = take("twice.jsonl", "out=taken", mistaken=True)
    assert code == 2
    assert not Path("taken").exists()
    assert "twice.jsonl line 4: is about the text of twice.jsonl line 1, and has another 'output'" in err
    write_rows("alike.jsonl", [answer_of(f"r{i}", texts[i]) for i in (0, 1, 0)])
    take("alike.jsonl", "out=taken")
    assert len(read_rows("taken/data.jsonl")) == 2


def test_rows_of_raters_about_two_texts_of_one_name_are_refused(take):
    rows = [{"id": "a", "output": text, "rater": rater, "human": 1} for text, rater in (("One.", "x"), ("Two.", "y"))]
    _, _, err = take(damaged("rows.json", rows), "id=id", mistaken=True)
    assert "entry 2: a text is called 'a', as another one before" in err
    rows[1] = rows[0] | {"human": 2}
    _, _, err = take(damaged("rows.json", rows), "id=id", mistaken=True)
    assert "rater 'x' gives 2 to a text that has 1 of the same rater before" in err


def test_nan_is_no_label(take):
    write_rows("rows.jsonl", [TEXT | {"human": i, "judge": i} for i in (1, 5)])
    with open("rows.jsonl", "a") as file:
        file.write('{"input": "a?", "output": "b", "human": NaN, "judge": NaN}\n')
        file.write('{"input": "c?", "output": "d", "human": {"tone": {"x": NaN, "y": 2}}, "judge": 3}\n')
    take("rows.jsonl", "out=taken")
    assert "NaN" not in Path("taken/data.jsonl").read_text() + Path("taken/answers.jsonl").read_text()
    assert [text.get("human") for text in read_rows("taken/data.jsonl")][2:] == [None, {"tone": {"y": 2}}]
    write_rows("rows.jsonl", [TEXT | {"human": 1e999, "judge": i} for i in (1, 5)])
    _, _, err = take("rows.jsonl", "out=other", mistaken=True)
    assert "line 1: field 'human' must be a number or a word, got inf" in err


def test_decimals_of_parquet_are_numbers(take):
    rows = {
        "input": ["a?", "b?"],
        "output": ["A", "B"],
        "human": [Decimal("4.50"), Decimal("2")],
        "judge": [Decimal(1), None],
    }
    pq.write_table(pa.table(rows), "table.parquet")
    take("table.parquet", "out=taken")
    assert [text["human"] for text in read_rows("taken/data.jsonl")] == [{"quality": 4.5}, {"quality": 2.0}]


# --- no judge, or an uncertain one ---------------------------------------------------------------


def test_without_a_judge_nothing_is_ready(take):
    """The command has words to fill in, and with these it runs."""
    texts = [f"It is the {i}th answer of all and quite long. Verdict: {'PASS' if i % 2 else 'FAIL'}" for i in range(6)]
    asked = [asked_of(f"r{i}", f"Text {i}.") for i in range(6)]
    write_rows("batch.jsonl", [*asked, *(answer_of(f"r{i}", text) for i, text in enumerate(texts))])
    _, out, _ = take("batch.jsonl", "out=taken")
    assert not Path("taken/command.sh").exists()
    assert "nothing is ready. Put its column for COLUMN, which may be output:\n" in out
    command = next(line for line in out.splitlines() if line.endswith("judge=COLUMN"))
    words = shlex.split(command.replace("judge=COLUMN", "judge=output").replace("COLUMN_OF_TEXTS", "source"))
    assert words[:2] == ["judgebench", "from"]
    take(*words[2:])
    assert read_rows("taken-judged/data.jsonl")[2]["output"] == "Text 2."
    assert read_rows("taken-judged/answers.jsonl")[1]["text"] == texts[1]
    assert "ranges=[[FAIL,PASS]]" in shlex.split(Path("taken-judged/command.sh").read_text())
    assert next(line for line in out.splitlines() if "python -m judgebench" in line).endswith("judge=JUDGE")


def test_a_verdict_at_the_end_of_reasons_is_read(take, judgebench):
    """The range is of the verdicts' words, so that the ready command reads them."""
    rows = [
        {"input": f"Question {i // 2}?", "output": f"Answer {i}.", "human": "pass" if i % 3 else "fail"}
        | {"judge_output": f"Reasoning: it has {i} words. Verdict: {'PASS' if i % 2 else 'FAIL'}"}
        for i in range(24)
    ]
    write_rows("table.jsonl", rows)
    _, out, _ = take("table.jsonl", "out=open")
    assert "which may be judge_output:" in out
    take("table.jsonl", "judge=judge_output", "out=taken")
    (ready,) = Path("taken/command.sh").read_text().splitlines()
    assert "ranges=[[FAIL,PASS]]" in shlex.split(ready)
    judgebench(*shlex.split(ready)[3:], *QUICK)
    assert list(RunFolder.open("run").read("scores")["status"]) == ["parsed"] * 24


def test_people_and_judges_of_traces_are_told_by_who_gave_a_score(take):
    _, out, _ = take(str(RESULTS / "mlflow_traces.json"), "out=taken")
    assert "people's labels: 'human_correct' of correct" in out
    assert "judge: judge_correct, " in out
    assert read_rows("taken/data.jsonl")[3]["human"] == {"correct": {"ann": "yes", "ben": "yes"}}
    _, out, _ = take(str(RESULTS / "langfuse_traces.json"), "human=human_helpful", "out=other")
    assert read_rows("other/data.jsonl")[1]["human"] == {"helpful": {"ann": "bad", "ben": "bad"}}
    # two models that judged some texts each are two judges
    rows = json.loads((RESULTS / "mlflow_traces.json").read_text())
    rows[0]["assessments"][0]["source"]["source_id"] = "another"
    _, _, err = take(damaged("traces.json", rows), mistaken=True)
    assert "'judge_correct/another', 'judge_correct/mock-judge' may all be the judge's" in err


def test_files_that_hold_no_texts_say_which_do(take):
    _, _, err = take(str(RESULTS / "promptfoo.csv"), mistaken=True)
    assert "take results.json, as written by promptfoo eval -o results.json." in err
    score = {"id": "a", "traceId": "t", "source": "EVAL", "name": "x", "dataType": "NUMERIC", "value": 1}
    _, _, err = take(damaged("scores.json", [score]), mistaken=True)
    assert "export the traces" in err


# --- logs of Inspect ----------------------------------------------------------------------------


def test_a_folder_of_logs_is_one_file(take):
    take(str(RESULTS / "inspect_folder"), "judge=judge_right_form", "out=folder")
    texts = read_rows("folder/data.jsonl")
    assert {text["system_id"] for text in texts} == {"mockllm/small", "mockllm/large"}
    assert len({text["example_id"] for text in texts}) == 8
    assert len({text["group_id"] for text in texts}) == 4, "of one sample are the answers of both models"
    logs = [str(RESULTS / "inspect_folder" / name) for name in ("large.eval", "small.eval")]
    take(*logs, "judge=judge_right_form", "out=named")
    assert read_rows("named/data.jsonl") == texts
    Path("empty").mkdir()
    _, _, err = take("empty", mistaken=True)
    assert "there is no log of Inspect in this folder" in err


def entries_of(name):
    return dict(read_entries(RESULTS / name))


def packed(name, entries, **options):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content, **options)
    return name


def test_a_failed_log_says_its_own_error(take):
    _, out, _ = take(str(RESULTS / "inspect_failed.eval"), "out=taken")
    assert "the evaluation ended in an error (" in out
    assert "the model" in out
    assert "server is gone" in out
    header = {"header.json": entries_of("inspect_failed.eval")["header.json"]}
    _, _, err = take(packed("failed.eval", header), mistaken=True)
    assert "server is gone" in err
    assert "before any sample; run it again" in err
    begun = json.loads(header["header.json"])
    begun = {key: begun[key] for key in ("version", "eval")}
    samples = {name: text for name, text in entries_of("inspect_one.eval").items() if name.startswith("samples/")}
    _, out, _ = take(packed("begun.eval", {"_journal/start.json": json.dumps(begun), **samples}), "out=begun")
    assert "the evaluation has not ended; the samples that are there are taken" in out


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.exhaustive) for first in range(1, 16))])
def test_no_changed_byte_of_an_archive_is_read(take, first):
    """A byte in sixteen is changed in turn: the log is refused, or what is read is as it was."""
    whole = (RESULTS / "inspect_folder" / "small.eval").read_bytes()
    Path("log.eval").write_bytes(whole)

    def rows():
        return [row.values for row in read_results([Path("log.eval")]).rows]

    before = rows()
    same = 0
    places = range(first, len(whole), 16)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << place // 16 % 8
        Path("log.eval").write_bytes(changed)
        try:
            assert rows() == before, f"byte {place} changes what is read"
            same += 1
        except UserError:
            pass
    assert same < len(places) / 3, "most bytes are of names and contents"


def test_a_comment_in_an_archive_hides_no_entry(take):
    """An entry whose comment is said to be longer swallows those behind it in the list."""
    whole = (RESULTS / "inspect_one.eval").read_bytes()
    Path("log.eval").write_bytes(whole)
    before = [row.values for row in read_results([Path("log.eval")]).rows]
    hidden = 0
    for entry in re.finditer(b"PK\1\2", whole):
        for bit in range(16):
            changed = bytearray(whole)
            changed[entry.start() + 32 + bit // 8] ^= 1 << bit % 8
            Path("log.eval").write_bytes(changed)
            try:
                assert [row.values for row in read_results([Path("log.eval")]).rows] == before
            except UserError as error:
                hidden += "entries are in its list" in str(error)
    assert hidden


def test_an_archive_that_would_fill_the_memory_is_refused(take):
    entries = entries_of("inspect_one.eval")
    sample = json.loads(entries["samples/q0_epoch_1.json"])
    sample["output"]["completion"] = "x" * 2**27
    entries["samples/q0_epoch_1.json"] = json.dumps(sample)
    _, _, err = take(packed("bomb.eval", entries), mistaken=True)
    assert "samples/q0_epoch_1.json would be 134," in err
    # one that says that it is small is inflated no further than it says
    content = Path("bomb.eval").read_bytes()
    size = len(entries["samples/q0_epoch_1.json"]).to_bytes(4, "little")
    Path("bomb.eval").write_bytes(content.replace(size, (1000).to_bytes(4, "little")))
    _, _, err = take("bomb.eval", mistaken=True)
    assert "Bad CRC-32 for file 'samples/q0_epoch_1.json'" in err


def test_a_parquet_file_that_would_fill_the_memory_is_refused(take):
    large = "x" * 2**26
    pq.write_table(pa.table({"input": ["a?"] * 3, "output": [large, large, large]}), "bomb.parquet", compression="zstd")
    _, _, err = take("bomb.parquet", mistaken=True)
    assert "column 'output' would be 67," in err
    assert "give a whole parquet file" in err


# --- large files --------------------------------------------------------------------------------


def test_some_rows_tell_the_columns_of_all(take):
    """Labels, a word among numbers, and a name that repeats, far behind the beginning."""
    rows = [{"id": f"t{i}", "input": f"{i}?", "output": f"Text {i}.", "llm_score": str(i % 5)} for i in range(3000)]
    columns = ["id", "input", "output", "llm_score", "human"]
    for row in rows[2500:]:
        row["human"] = str(1 + len(row["output"]) % 2)
    write_table("late.csv", rows, columns)
    _, out, _ = take("late.csv", "out=late")
    assert "people's labels: 'human' of quality" in out
    assert "id id" in out
    rows[2900]["id"] = "t3"
    write_table("twice.csv", rows, columns)
    _, out, _ = take("twice.csv", "out=twice")
    assert "id none" in out
    assert read_rows("twice/data.jsonl")[2900]["example_id"] == "row-2902"
    _, _, err = take("twice.csv", "id=id", "out=named", mistaken=True)
    assert "a text is called 't3', as one before" in err
    assert not Path("named").exists()
    rows[2800]["llm_score"] = "n/a"
    write_table("word.csv", rows, columns)
    _, _, err = take("word.csv", "out=word", mistaken=True)
    assert "leave a cell empty where there is no answer, as for 'n/a'" in err


def test_a_table_is_not_held_in_memory(take):
    """A file of 27 MB takes less than two thirds of that; a thousand rows are kept to tell its columns."""
    with open("large.csv", "w", encoding="utf-8") as file:
        file.write("question,answer,rating,llm_score\n")
        for i in range(6_000):
            file.write(f'"Question {i}? {"why " * 600}","Answer {i}. {"so " * 750}",{1 + i % 5},{1 + i % 3}\n')
    assert Path("large.csv").stat().st_size > 25 * 2**20
    tracemalloc.start()
    write_results([Path("large.csv")], Path("taken"), {"human": "rating"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 17 * 2**20
    assert Path("taken/data.jsonl").read_bytes().count(b"\n") == 6_000


def test_a_row_whose_source_is_white_space_answers_to_itself(take):
    """As one without a source; a run refuses an empty one, and the printed command is to run."""
    rows = [{"question": "Why?" if i else " \n", "answer": f"Text {i}.", "human": 1 + i % 5} for i in range(12)]
    Path("x.jsonl").write_text("".join(f"{json.dumps({**row, 'judge': 3})}\n" for row in rows))
    take("x.jsonl", "out=taken")
    first = json.loads(Path("taken/data.jsonl").read_text().splitlines()[0])
    assert first["source"] == first["output"] == "Text 0."


def test_classes_that_a_range_puts_into_an_order_are_the_labels_too(take, judgebench):
    """Words of no known order, whose order the user has given: the printed command is to run."""
    words = ["güt", "bäd"]
    rows = [
        {"question": f"{i // 2}?", "answer": f"Text {i}.", "human": words[i % 2], "judge": words[(i // 3) % 2]}
        for i in range(24)
    ]
    Path("x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    _, out, _ = take("x.jsonl", "out=taken", "judge=judge", "human=human", "ranges=[['bäd','güt']]")
    command = out.strip().splitlines()[-1]
    judgebench(*shlex.split(command)[3:], "logger=none", "report=false", "metrics.resamples=20", "run_dir=run")
